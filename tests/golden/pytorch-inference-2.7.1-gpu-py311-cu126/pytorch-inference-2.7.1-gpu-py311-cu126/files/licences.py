"""Prints what software the image holds, under which licences, and where their texts are: /license.txt of the image.

Run in the image's last step, with the image's own Python. It reads the metadata that is installed, so that it names what
is there and nothing else.
"""

import importlib.metadata
import os
import re

TEXTS = re.compile(r"(licen[cs]es?|copying|copyright|notice|third[-_]?party[-_]?notices)([-_.].*)?", re.I)
APACHE = "/usr/share/common-licenses/Apache-2.0"  # Debian's copy
HEAD = """\
This image is put together from the packages below. Each is under a licence of its own, whose text is in the image at
the place named. Where a package brings no text and is under the Apache licence, Debian's copy of it is named.
"""


def main():
    print(HEAD)
    print("Python packages\n")
    found = sorted(importlib.metadata.distributions(), key=lambda each: each.metadata["Name"].lower())
    for distribution in found:
        show(f"{distribution.metadata['Name']} {distribution.version}", python_licence(distribution), texts(distribution))
    print("Debian packages\n")
    for name, version in debian():
        show(f"{name} {version}", "", [f"/usr/share/doc/{name}/copyright"])


def show(name, licence, places):
    print(name + (f": {licence}" if licence else ""))
    for place in places:
        print(f"    {place}")
    print()


def python_licence(distribution):
    """As its metadata says it: an SPDX expression, else what its classifiers or the free field say."""
    metadata = distribution.metadata
    classifiers = [line for line in metadata.get_all("Classifier") or () if line.startswith("License :: ")]
    named = [line.rpartition(" :: ")[2] for line in classifiers]
    free = (metadata["License"] or "").strip().partition("\n")[0][:80]
    return metadata["License-Expression"] or " or ".join(named) or free or "not said in its metadata"


def texts(distribution):
    """The licence texts that a package brought; folders of them by the folder's name."""
    places = {}
    for path in distribution.files or ():
        place = os.path.normpath(str(distribution.locate_file(path)))
        if is_text(path) and os.path.exists(place):
            places.setdefault(os.path.dirname(place), []).append(place)
    found = []
    for folder, inside in sorted(places.items()):
        found += [f"{folder}/"] if len(inside) > 3 else sorted(inside)
    if not found and "apache" in python_licence(distribution).lower() and os.path.exists(APACHE):
        return [APACHE]
    return found or ["no text in the package; see " + (address(distribution) or "its project")]


def is_text(path):
    if path.suffix in (".py", ".pyc", ".pyi", ".so"):
        return False
    return ".dist-info/licenses/" in str(path) or TEXTS.fullmatch(path.name) is not None


def address(distribution):
    urls = (line.partition(",")[2].strip() for line in distribution.metadata.get_all("Project-URL") or ())
    return distribution.metadata["Home-page"] or next(urls, "")


def debian():
    """Name and version of every Debian package."""
    try:
        with open("/var/lib/dpkg/status", encoding="utf-8") as file:
            entries = file.read().split("\n\n")
    except OSError:  # a base that is not Debian's has none
        return []
    found = []
    for entry in entries:
        fields = dict(re.findall(r"^(Package|Version|Status): (.*)$", entry, re.M))
        if fields.get("Status", "").endswith(" installed"):
            found.append((fields["Package"], fields["Version"]))
    return sorted(found)


main()
