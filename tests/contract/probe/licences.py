"""What is said of licences inside an image, and what is missing. Prints one line of JSON. Standard library only."""

import importlib.metadata
import json
import os
import re

OVERVIEW = "/license.txt"
TEXT = re.compile(r"(licen[cs]e|copying|notice)([-_.].*)?", re.I)


def main():
    try:
        with open(OVERVIEW, encoding="utf-8") as file:
            overview = file.read()
    except OSError:
        overview = ""
    heads = {line.partition(": ")[0] for line in overview.splitlines()}
    unnamed, missing = [], []
    for distribution in importlib.metadata.distributions():
        name = f"{distribution.metadata['Name']} {distribution.version}"
        if name not in heads:
            unnamed.append(name)
        missing += [f"{place} of {name}" for place in lost(distribution)]
    for name in debian():
        if not any(head.startswith(name + " ") for head in heads):
            unnamed.append(f"{name} (Debian)")
        if not os.path.exists(f"/usr/share/doc/{name}/copyright"):
            missing.append(f"/usr/share/doc/{name}/copyright")
    named = (line.strip() for line in overview.splitlines() if line.startswith("    /"))
    missing += [f"{place}, named by {OVERVIEW}" for place in named if not os.path.exists(place)]
    facts = {"overview": len(overview), "unnamed": sorted(unnamed), "missing": sorted(missing)}
    print("facts\t" + json.dumps({"licences": facts}), flush=True)


def lost(distribution):
    """The licence texts that a package brought and that are gone, though what they speak of is there: the package, or
    what lies beside them in its folder."""
    found = []
    for path in distribution.files or ():
        place = os.path.normpath(str(distribution.locate_file(path)))
        text = path.suffix not in (".py", ".pyc", ".so") and TEXT.fullmatch(path.name)
        there = ".dist-info/" in str(path) or os.path.isdir(os.path.dirname(place))
        if text and there and not os.path.exists(place):
            found.append(place)
    return found


def debian():
    try:
        with open("/var/lib/dpkg/status", encoding="utf-8") as file:
            return re.findall(r"^Package: (.*)\nStatus: .* installed$", file.read(), re.M)
    except OSError:
        return []


main()
