"""The one reader of flags, environment and config file. Each value knows where it came from.

Order, strongest first: a command's flag, the environment (`SLIPWAY_…`), `slipway.yml` in the project's root, the
default.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slipway.errors import Fault, SpecError, nearest


@dataclass(frozen=True)
class Setting:
    """One setting that can be given: its name in slipway.yml and on the command line, its default, its purpose."""

    name: str
    default: str
    about: str

    @property
    def variable(self) -> str:
        return "SLIPWAY_" + self.name.upper().replace("-", "_")


@dataclass(frozen=True)
class Value:
    """A setting's text, and where it was given."""

    text: str
    source: str


KNOWN: tuple[Setting, ...] = (
    Setting(
        "base", "bootstrap", "root filesystem of every image: `bootstrap` (mmdebstrap), or REF@sha256:DIGEST (pulled)"
    ),
    Setting("snapshot", "", "freezes bootstrapped Debian packages: a time such as 20261101T000000Z, or an archive URL"),
    Setting("snapshot-archive", "", "where `snapshot` finds a day; empty: as in buildspec/defaults/addresses.yml"),
    Setting("apt-mirror", "", "Debian mirror for the bootstrap; empty: mmdebstrap's own default"),
    Setting("buildspec", "", "a buildspec file of your own, anywhere; its locks and toolkits lie beside it"),
    Setting("builder", "", "buildx builder or docker context to build on; empty: the engine's own"),
    Setting("cache", "", "HOST/REPOSITORY that keeps the build caches of other machines; empty: none"),
    Setting("wheel-index", "", "takes the place of the framework's own wheel index of buildspec/"),
    Setting("package-index", "", "where pip's settings name no index; empty: as in buildspec/defaults/addresses.yml"),
    Setting("state", ".slipway", "folder of records, caches and logs, relative to the project's root"),
    Setting("ledger", "releases", "where releases are written down: a folder in the project, or s3://BUCKET/PREFIX"),
    Setting("min-free-mb", "6000", "free MB that a build wants on the engine's disk before it begins"),
)

# Of the settings that are public addresses: their defaults, which change without the code.
ADDRESSES = Path("buildspec", "defaults", "addresses.yml")

_BY_NAME = {setting.name: setting for setting in KNOWN}


@dataclass(frozen=True)
class PipSettings:
    """What the host's pip is told about where packages come from. Empty where it is told nothing."""

    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    cert: str = ""
    constraints: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """All settings of one command. `values` holds every known name."""

    project: Path
    values: Mapping[str, Value]
    environment: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.values[name].text

    def number(self, name: str) -> int:
        value = self.values[name]
        if not re.fullmatch(r"[0-9]{1,9}", value.text):
            raise SpecError(
                f"the setting {name} takes a whole number, not {value.text!r} (from {value.source})",
                fix=f"give a number, for example {_BY_NAME[name].default}",
            )
        return int(value.text)

    def address(self, name: str) -> str:
        """A public address: what the setting says, else what the project's own list of them does."""
        return (self.text(name) or _addresses(self.project / ADDRESSES)[name]).rstrip("/")

    def snapshot(self) -> str:
        """Debian's archive of the day that the setting `snapshot` names; any other text of it as it is."""
        given = self.text("snapshot")
        if not re.fullmatch(r"\d{8}T\d{6}Z", given):
            return given
        return self.address("snapshot-archive") + f"/debian/{given}"

    def pip(self) -> PipSettings:
        """What the host's pip is told, with an index of packages where one must be named and pip's settings have none.

        It must be beside an index on this disk, which goes after the one that everybody has.
        """
        found = pip_settings(self.environment)
        local = any(url.startswith("file:") for url in found.extra_index_urls)
        if found.index_url or not (local or self.text("package-index")):
            return found
        return replace(found, index_url=self.address("package-index"))

    @property
    def state(self) -> Path:
        return self.project / self.text("state")

    @property
    def own(self) -> Path | None:
        """A buildspec file of the user's own: relative to the current folder, in slipway.yml to the project's root."""
        given = self.text("buildspec")
        in_file = self.values["buildspec"].source.startswith("slipway.yml")
        return (self.project if in_file else Path.cwd()) / Path(given).expanduser() if given else None

    @property
    def in_ci(self) -> bool:
        return self.environment.get("CI", "").lower() in ("1", "true", "yes")

    @property
    def in_github_actions(self) -> bool:
        return self.environment.get("GITHUB_ACTIONS", "") == "true"

    def proxies(self) -> dict[str, str]:
        """The proxy variables that are set, by their own names."""
        names = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
        return {key: value for key, value in self.environment.items() if key.lower() in names and value}

    def aws_endpoint(self, service: str) -> str | None:
        """Endpoint override for an AWS service, as the AWS tools name it; None: AWS's own."""
        found = self.environment.get(f"AWS_ENDPOINT_URL_{service.upper()}") or self.environment.get("AWS_ENDPOINT_URL")
        return found or None


def find_project(start: Path | None = None) -> Path:
    """The project's root: the nearest folder, from `start` upward, that holds buildspec/."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "buildspec").is_dir():
            return folder
    raise SpecError(f"no buildspec/ folder in {here} or above it", fix="run the command inside the project's folder")


def read(
    flags: Mapping[str, str | None] | None = None,
    *,
    project: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Gather every setting. Raises SpecError with all unknown names at once."""
    root = project or find_project()
    env = os.environ if environment is None else environment
    in_file = _config_file(root / "slipway.yml")
    faults = [
        Fault(f"unknown variable {name}", nearest(name, (s.variable for s in KNOWN)))
        for name in env
        if name.startswith("SLIPWAY_") and name not in _VARIABLES
    ]
    if faults:
        raise SpecError("the environment has settings that Slipway does not know", faults=faults)
    values = {}
    for setting in KNOWN:
        flag = (flags or {}).get(setting.name)
        if flag is not None:
            values[setting.name] = Value(flag, f"flag --{setting.name}")
        elif setting.variable in env:
            values[setting.name] = Value(env[setting.variable], f"variable {setting.variable}")
        elif setting.name in in_file:
            values[setting.name] = in_file[setting.name]
        else:
            values[setting.name] = Value(setting.default, "default")
    return Settings(project=root, values=values, environment=env)


# SLIPWAY_NO_INSTALL is read by ./run alone.
_VARIABLES = frozenset({*(setting.variable for setting in KNOWN), "SLIPWAY_NO_INSTALL"})


def _config_file(path: Path) -> dict[str, Value]:
    if not path.is_file():
        return {}
    from slipway import documents

    document = documents.read(path, path.parent)
    if not isinstance(document.data, dict):
        raise SpecError(f"{path.name} must be a mapping of settings", fix="write lines of the form `name: value`")
    values: dict[str, Value] = {}
    faults = []
    for name, given in document.data.items():
        if name not in _BY_NAME:
            faults.append(document.fault((name,), f"unknown setting {name!r}", nearest(str(name), _BY_NAME)))
        elif isinstance(given, (dict, list)):
            faults.append(document.fault((name,), f"{name} takes one value", "write it as text"))
        else:
            values[name] = Value("" if given is None else str(given), f"{path.name}:{document.line((name,))}")
    if faults:
        raise SpecError(f"{path.name} has faults", faults=faults)
    return values


def _addresses(path: Path) -> dict[str, str]:
    """The list of public addresses. Raises SpecError where it is not there or lacks one."""
    found = {name: value.text for name, value in _config_file(path).items() if value.text}
    lacking = [name for name in ("snapshot-archive", "package-index") if name not in found]
    if lacking:
        raise SpecError(
            f"{ADDRESSES} does not say {' and '.join(lacking)}", fix=f"add a line `{lacking[0]}: ADDRESS`, or set it"
        )
    return found


def pip_settings(environment: Mapping[str, str]) -> PipSettings:
    """What pip is told on this host: its config files in pip's own order, then its variables.

    Source of the files and of their order: pip's documentation, "Configuration". As there, the section `install` goes
    before `global` whatever the file, and an empty value ends as none. Only keys that decide where packages come from
    are read. Raises SpecError for a file that pip could not read either.
    """
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}}
    for path in _pip_files(environment):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError) as error:
            what = str(error).splitlines()[0]
            raise SpecError(f"pip's settings cannot be read: {path}: {what}", fix="mend or remove the file") from None
        for section, found in sections.items():
            if parser.has_section(section):
                found.update({key.replace("_", "-"): value for key, value in parser.items(section)})
    merged = {key: value for found in sections.values() for key, value in found.items() if value}
    for key in ("index-url", "extra-index-url", "find-links", "cert", "constraint", "trusted-host"):
        value = environment.get("PIP_" + key.upper().replace("-", "_"))
        if value:
            merged[key] = value
    return PipSettings(
        index_url=merged.get("index-url", "").strip(),
        extra_index_urls=_words(merged, "extra-index-url"),
        find_links=_words(merged, "find-links"),
        cert=merged.get("cert", "").strip() or _certificates(environment),
        constraints=_words(merged, "constraint"),
        trusted_hosts=_words(merged, "trusted-host"),
    )


def _certificates(environment: Mapping[str, str]) -> str:
    """The bundle that HTTPS clients of this host are told to trust, by the variables that they read."""
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    return next((environment[name] for name in names if environment.get(name)), "")


_MACHINE_WIDE = Path("/etc/pip.conf")


def _words(merged: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"\s+", merged.get(key, "")) if word)


def _pip_files(environment: Mapping[str, str]) -> list[Path]:
    if environment.get("PIP_CONFIG_FILE") == os.devnull:
        return []
    home = Path(environment.get("HOME", "~")).expanduser()
    xdg_dirs = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    files = [Path(folder) / "pip" / "pip.conf" for folder in xdg_dirs.split(":") if folder]
    files.append(_MACHINE_WIDE)
    own = environment.get("PIP_CONFIG_FILE")
    if not (own and Path(own).exists()):  # one that is named takes the place of the user's
        files.append(home / ".pip" / "pip.conf")
        files.append(Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf")
    files.append(Path(sys.prefix) / "pip.conf")
    if own:
        files.append(Path(own))
    return files
