"""What an image must not hold, because everybody who can pull it has it; and the licences that must come along."""

from __future__ import annotations

import re
from typing import Any

from slipway.engine import images
from slipway.engine.docker import Engine
from slipway.verify.inspection import Inspection

NAMES = re.compile(r"(?:^|_)(SECRET|PASSWORD|PASSWD|TOKEN|PRIVATE_?KEY|API_?KEY|CREDENTIALS?|ACCESS_KEY)(?:_|$)", re.I)
VALUES = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bA(?:KIA|SIA)[A-Z0-9]{16}\b|://[^/\s:@]+:[^/\s:@${}<>]+@|\bgh[pousr]_[A-Za-z0-9]{36}\b"
)


def test_files_secrets(engine: Engine, image: str, config: dict[str, Any], looked: Inspection) -> None:
    found = list(looked.facts["secrets"])
    for name, _, value in (variable.partition("=") for variable in config["Env"]):
        if value and (NAMES.search(name) or VALUES.search(value)):
            found.append(f"the variable {name} of the image's environment")
    found += [f"the label {name}" for name, value in config["Labels"].items() if VALUES.search(value)]
    for command in images.history(engine, image):
        secret = VALUES.search(command)
        if secret:
            found.append(f"the command of a layer, at: {command[: secret.start()][-60:]}…")
    assert not found, "secrets in the image:\n" + "\n".join(found)


def test_files_leftovers(looked: Inspection) -> None:
    found = looked.facts["leftovers"]
    assert not found, f"{len(found)} files or folders that no job needs:\n" + "\n".join(found[:30])


def test_files_licences(config: dict[str, Any], looked: Inspection) -> None:
    found = looked.facts["licences"]
    assert found["overview"], "there is no /license.txt"
    wrong = [f"/license.txt does not name {name}" for name in found["unnamed"]]
    wrong += [f"there is no {place}" for place in found["missing"]]
    if not config["Labels"].get("org.opencontainers.image.licenses"):
        wrong.append("there is no label org.opencontainers.image.licenses")
    assert not wrong, "\n".join(wrong)
