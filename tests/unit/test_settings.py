"""Settings by flag, variable, file and default; and what pip is told on this host, in pip's own order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from slipway import settings
from slipway.errors import SpecError

ROOT = Path(__file__).parents[2]


def read(project: Path, flags: dict[str, str | None] | None = None, **environment: str) -> settings.Settings:
    return settings.read(flags, project=project, environment=environment)


def told(project: Path, **environment: str) -> str:
    with pytest.raises(SpecError) as caught:
        read(project, **environment)
    return str(caught.value)


def test_the_strongest_source_wins_and_is_named(project: Path) -> None:
    assert read(project).values["base"] == settings.Value("bootstrap", "default")
    (project / "slipway.yml").write_text("snapshot: x\nbase: from-file\n")
    assert read(project).values["base"] == settings.Value("from-file", "slipway.yml:2")
    assert read(project, SLIPWAY_BASE="v").values["base"] == settings.Value("v", "variable SLIPWAY_BASE")
    assert read(project, {"base": "f"}, SLIPWAY_BASE="v").values["base"] == settings.Value("f", "flag --base")
    assert read(project, {"base": None}, SLIPWAY_BASE="v").text("base") == "v"


def test_unknown_names_are_told_at_once_with_the_nearest(project: Path) -> None:
    both = told(project, SLIPWAY_BASSE="x", SLIPWAY_SNAPSHOTS="y")
    assert "unknown variable SLIPWAY_BASSE (fix: did you mean SLIPWAY_BASE" in both
    assert "unknown variable SLIPWAY_SNAPSHOTS (fix: did you mean SLIPWAY_SNAPSHOT" in both
    (project / "slipway.yml").write_text("bass: x\nbuilder: [a]\n")
    found = told(project)
    assert "slipway.yml:1: unknown setting 'bass' (fix: did you mean base" in found
    assert "slipway.yml:2: builder takes one value" in found


def test_the_variable_of_the_set_up_script_is_known(project: Path) -> None:
    read(project, SLIPWAY_NO_INSTALL="1")


def test_a_file_that_is_no_mapping_is_told(project: Path) -> None:
    (project / "slipway.yml").write_text("- base\n")
    assert "must be a mapping" in told(project)


@pytest.mark.parametrize("text", ["many", "-1", "1.5", "", "²", "٣", "9" * 40])
def test_a_number_is_a_whole_number(project: Path, text: str) -> None:
    with pytest.raises(SpecError, match="min-free-mb takes a whole number") as caught:
        read(project, SLIPWAY_MIN_FREE_MB=text).number("min-free-mb")
    assert "variable SLIPWAY_MIN_FREE_MB" in str(caught.value)
    assert read(project, SLIPWAY_MIN_FREE_MB="12").number("min-free-mb") == 12


def test_every_setting_is_used_somewhere() -> None:
    sources = "".join(path.read_text() for path in Path(settings.__file__).parent.rglob("*.py"))
    unused = [one.name for one in settings.KNOWN if not re.search(rf'(text|address)\("{one.name}"', sources)]
    assert unused == ["min-free-mb"]
    assert 'number("min-free-mb")' in sources


def test_the_project_is_found_from_below(project: Path) -> None:
    below = project / "toolkits" / "training"
    assert settings.find_project(below) == project.resolve()
    with pytest.raises(SpecError, match="no buildspec/ folder"):
        settings.find_project(project.parent)


def test_proxies_keep_their_own_names(project: Path) -> None:
    found = read(project, HTTP_PROXY="http://p:1", https_proxy="http://p:2", NO_PROXY="", other="x").proxies()
    assert found == {"HTTP_PROXY": "http://p:1", "https_proxy": "http://p:2"}


def test_ci_is_recognised(project: Path) -> None:
    assert not read(project).in_ci
    assert read(project, CI="true").in_ci
    assert read(project, GITHUB_ACTIONS="true").in_github_actions


def test_an_endpoint_of_one_service_goes_before_that_of_all(project: Path) -> None:
    found = read(project, AWS_ENDPOINT_URL="http://all", AWS_ENDPOINT_URL_ECR="http://ecr")
    assert (found.aws_endpoint("ecr"), found.aws_endpoint("s3")) == ("http://ecr", "http://all")
    assert read(project).aws_endpoint("ecr") is None


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a host whose pip settings are all below tmp_path."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr(settings, "_MACHINE_WIDE", tmp_path / "etc" / "pip.conf")
    return {"HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": str(tmp_path / "xdg")}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_host_that_says_nothing_has_no_settings(host: dict[str, str]) -> None:
    assert settings.pip_settings(host) == settings.PipSettings()


def test_files_follow_one_another_in_pips_order(host: dict[str, str], tmp_path: Path) -> None:
    places = ["xdg/pip/pip.conf", "etc/pip.conf", "home/.pip/pip.conf", "home/.config/pip/pip.conf", "prefix/pip.conf"]
    for place in places:
        write(tmp_path / place, f"[global]\nindex-url = https://{place}\n")
        assert settings.pip_settings(host).index_url == f"https://{place}"
    assert settings.pip_settings({**host, "PIP_INDEX_URL": "https://variable"}).index_url == "https://variable"
    write(tmp_path / "named.conf", "[global]\nindex-url = https://named\n")
    assert settings.pip_settings({**host, "PIP_CONFIG_FILE": str(tmp_path / "named.conf")}).index_url == "https://named"
    assert settings.pip_settings({**host, "PIP_CONFIG_FILE": os.devnull}).index_url == ""


def test_a_named_file_takes_the_place_of_the_users(host: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "home/.config/pip/pip.conf", "[global]\nfind-links = /user\n")
    write(tmp_path / "named.conf", "[global]\nindex-url = https://named\n")
    assert settings.pip_settings({**host, "PIP_CONFIG_FILE": str(tmp_path / "named.conf")}).find_links == ()


def test_the_section_of_installing_goes_before_the_general_one(host: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "xdg/pip/pip.conf", "[install]\nfind_links = /a\n  /b c\n")
    write(tmp_path / "home/.config/pip/pip.conf", "[global]\nfind-links = /d\n[list]\nfind-links = /e\n")
    assert settings.pip_settings(host).find_links == ("/a", "/b", "c")


def test_an_empty_value_counts_as_none(host: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "xdg/pip/pip.conf", "[global]\ncert = /a\nindex-url = https://a\n")
    write(tmp_path / "home/.config/pip/pip.conf", "[global]\nindex-url =\n[install]\ncert =\n")
    found = settings.pip_settings({**host, "PIP_CERT": ""})
    assert (found.index_url, found.cert) == ("", "/a")


def test_certificates_of_other_programs_serve_where_pip_names_none(host: dict[str, str]) -> None:
    assert settings.pip_settings({**host, "SSL_CERT_FILE": "/c", "REQUESTS_CA_BUNDLE": "/r"}).cert == "/r"
    assert settings.pip_settings({**host, "SSL_CERT_FILE": "/c", "PIP_CERT": "/p"}).cert == "/p"


def test_a_file_that_pip_could_not_read_is_told(host: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "xdg/pip/pip.conf", "find-links = /a\n")
    with pytest.raises(SpecError, match=r"xdg/pip/pip\.conf: File contains no section headers"):
        settings.pip_settings(host)


values = st.sampled_from(["", "https://one", "https://two"])
files = st.dictionaries(
    st.sampled_from(["xdg/pip/pip.conf", "home/.pip/pip.conf", "home/.config/pip/pip.conf", "named.conf"]),
    st.dictionaries(st.sampled_from(["global", "install"]), st.dictionaries(st.just("index-url"), values)),
)
ADDRESSES = "snapshot-archive: https://days.example/\npackage-index: https://index.example/simple\n"


@pytest.fixture
def addresses(project: Path) -> Path:
    """The project's list of public addresses."""
    path = project / settings.ADDRESSES
    path.write_text(ADDRESSES)
    return path


def test_a_day_is_looked_up_in_the_archive_that_a_setting_or_the_project_names(project: Path, addresses: Path) -> None:
    day = "20261101T000000Z"
    assert read(project).snapshot() == ""
    assert read(project, SLIPWAY_SNAPSHOT=day).snapshot() == f"https://days.example/debian/{day}"
    ours = read(project, SLIPWAY_SNAPSHOT=day, SLIPWAY_SNAPSHOT_ARCHIVE="https://ours.example/")
    assert ours.snapshot() == f"https://ours.example/debian/{day}"
    for text in ("https://a.example/debian", "yesterday"):
        assert read(project, SLIPWAY_SNAPSHOT=text).snapshot() == text


def test_the_public_index_is_named_where_it_must_be(project: Path, addresses: Path, host: dict[str, str]) -> None:
    assert read(project, **host).pip().index_url == ""
    local = {**host, "PIP_EXTRA_INDEX_URL": "file:///here"}
    assert read(project, **local).pip().index_url == "https://index.example/simple"
    assert (
        read(project, **local, SLIPWAY_PACKAGE_INDEX="https://ours.example").pip().index_url == "https://ours.example"
    )
    assert read(project, **host, SLIPWAY_PACKAGE_INDEX="https://ours.example").pip().index_url == "https://ours.example"
    assert read(project, **local, PIP_INDEX_URL="https://theirs.example").pip().index_url == "https://theirs.example"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "snapshot-archive and package-index"),
        ("package-index: x\n", "snapshot-archive"),
        ("packages: x\n", "packages"),
    ],
)
def test_a_list_of_addresses_with_faults_is_told(project: Path, addresses: Path, text: str | None, fault: str) -> None:
    addresses.unlink()
    if text is not None:
        addresses.write_text(text)
    with pytest.raises(SpecError, match=fault):
        read(project, SLIPWAY_SNAPSHOT="20261101T000000Z").snapshot()


def test_the_code_names_no_host() -> None:
    """Addresses change without the code. Schemas' names are names, and examples are examples."""
    written = re.compile(
        r"https?://(?!json-schema\.org/|slsa\.dev/|spdx\.dev/|cyclonedx\.org/|www\.w3\.org/|127\.0\.0\.1|[a-z.]*example|HOST\b|host/)[A-Za-z0-9-]+\.[A-Za-z0-9.-]+"
    )
    found = {
        f"{path.name}: {hit[0]}"
        for path in (ROOT / "slipway").rglob("*.py")
        for hit in written.finditer(path.read_text())
    }
    assert found == set()


ASK = """
import json, sys
from pip._internal.commands import create_command
for line in sys.stdin:
    import os
    given = json.loads(line)
    for name in [n for n in os.environ if n.startswith(("PIP_", "XDG_"))]:
        del os.environ[name]
    os.environ.update(given)
    import importlib
    from pip._internal.cli import parser
    command = create_command("install")
    options, _ = command.parse_args([])
    print(json.dumps(options.index_url), flush=True)
"""


def test_pip_itself_reads_the_same(host: dict[str, str], tmp_path: Path) -> None:
    pip = subprocess.Popen(
        [sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert pip.stdin is not None and pip.stdout is not None
    public = settings.read(project=ROOT, environment={}).address("package-index")

    @given(files, st.booleans(), values)
    @hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def compare(found: dict[str, dict[str, dict[str, str]]], named: bool, variable: str) -> None:
        for path in tmp_path.rglob("*.conf"):
            path.unlink()
        for name, sections in found.items():
            text = "".join(
                f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in pairs.items())
                for section, pairs in sections.items()
            )
            write(tmp_path / name, text)
        environment = {**host, "PIP_INDEX_URL": variable}
        if named:
            environment["PIP_CONFIG_FILE"] = str(tmp_path / "named.conf")
        assert pip.stdin is not None and pip.stdout is not None
        pip.stdin.write(json.dumps(environment) + "\n")
        pip.stdin.flush()
        asked = json.loads(pip.stdout.readline())
        assert (settings.pip_settings(environment).index_url or public) == asked

    try:
        compare()
    finally:
        pip.stdin.close()
        pip.wait(timeout=30)
