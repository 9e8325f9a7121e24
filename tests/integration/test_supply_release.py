"""A signed release and who checks it: real cosign, syft and pip-audit, docker-registry behind passwords.

The image is small, but what syft finds in it is what it would find in a large one: Debian's and Python's packages.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slipway.errors import GateError, ScanError, TrustError
from tests.support.project import Project
from tests.support.registries import PasswordRegistry, make

pytestmark = pytest.mark.integration

IMAGE = "pytorch-training-2.13.0-cpu-py311"
TAG = "2.13.0-cpu-py311-debian12"
RELEASE = ("release", "--only", IMAGE)
SITE = "usr/lib/python3/dist-packages"
FILES = {
    "etc/os-release": b'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian 12"\nNAME="Debian"\n',
    "var/lib/dpkg/status": (
        b"Package: base-files\nStatus: install ok installed\nVersion: 12.4+deb12u13\nArchitecture: amd64\n"
        b"Maintainer: nobody\nDescription: files\n"
    ),
    f"{SITE}/Pillow-11.0.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: Pillow\nVersion: 11.0.0\n",
    f"{SITE}/torch-2.13.0+cpu.dist-info/METADATA": b"Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n",
}
ADVISORY = {
    "id": "PYSEC-2026-1",
    "aliases": ["CVE-2026-11"],
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "pillow"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "11.0.2"}]}],
        }
    ],
}
SIGNING = {"kind": "key", "key": "keys/cosign.key", "public-key": "keys/cosign.pub", "password-from": "KEY_WORD"}


@dataclass
class World:
    project: Project
    sites: tuple[PasswordRegistry, PasswordRegistry]
    keys: Path

    @property
    def repository(self) -> str:
        return f"{self.project.prefix}/pytorch-training"

    def subject(self, site: PasswordRegistry) -> str:
        return f"{site.host}/{self.repository}@{site.digest(self.repository, f'{TAG}-v1')}"

    def configure(self, **more: Any) -> None:
        registries = {
            key.lower(): {
                "kind": "oci",
                "host": site.host,
                "credentials": {"username-from": f"{key}_USER", "password-from": f"{key}_WORD"},
            }
            for key, site in zip("AB", self.sites, strict=True)
        }
        self.project.configure(registries, **{"signing": SIGNING, "sbom": True, **more})


def named(world: World) -> list[dict[str, str]]:
    """The tags that people see and what they name, by registry."""
    return [
        {
            tag: site.digest(world.repository, tag)
            for tag in site.tags(world.repository)
            if not tag.startswith("sha256-")
        }
        for site in world.sites
    ]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two registries, a project with one proved image, and a key pair whose password is in a variable."""
    assert shutil.which("cosign"), "cosign is not installed: `./run check` installs it on Debian"
    folder = tmp_path_factory.mktemp("supply")
    sites = tuple(make(folder / name, name, f"s3cret-{name}") for name in ("first", "second"))
    project = Project(folder / "project")
    try:
        for site in sites:
            site.start()
        keys = project.folder / "keys"
        keys.mkdir()
        quiet: Any = {"check": True, "capture_output": True}
        subprocess.run(
            ["cosign", "generate-key-pair"], cwd=keys, env={**os.environ, "COSIGN_PASSWORD": "0pen"}, **quiet
        )
        made = World(project, (sites[0], sites[1]), keys)
        project.environment = {"KEY_WORD": "0pen"}
        for name, site in zip("AB", sites, strict=True):
            project.environment |= {f"{name}_USER": site.user, f"{name}_WORD": site.password}
        made.configure()
        project.build(IMAGE, b"one", files=FILES, packages={"pillow": 1, "torch": 1, "base-files (Debian)": 1})
        yield made
    finally:
        for site in sites:
            site.kill()
        project.close()


@pytest.fixture(scope="module")
def released(world: World) -> dict[str, Any]:
    """The one image of the released document of the ledger."""
    done = world.project.invoke(*RELEASE)
    assert done.returncode == 0, done.stderr
    for secret in ("0pen", "s3cret"):
        assert secret not in done.stdout + done.stderr
    (document,) = world.project.ledger
    image: dict[str, Any] = document["images"][0]
    return image


def test_what_is_released_is_signed_attested_and_one_image(world: World, released: dict[str, Any]) -> None:
    assert released["packages"] == {"pillow": "11.0.0", "torch": "2.13.0+cpu", "base-files (Debian)": "12.4+deb12u13"}
    for site in world.sites:
        digest = site.digest(world.repository, f"{TAG}-v1")
        assert digest == released["manifest_digest"]
        stem = digest.replace(":", "-")
        assert {f"{stem}.sig", f"{stem}.att"} <= site.tags(world.repository)
        kind = site.get(f"/v2/{world.repository}/manifests/{TAG}-v1")[1]["Content-Type"]
        assert "index" not in kind and "list" not in kind
        attached = json.loads(site.get(f"/v2/{world.repository}/manifests/{stem}.att")[2])
        assert len(attached["layers"]) == 3, "one of each kind"


def test_nothing_secret_is_kept(world: World, released: dict[str, Any]) -> None:
    kept = [
        path for top in (".slipway", "releases") for path in (world.project.folder / top).rglob("*") if path.is_file()
    ]
    assert kept
    for path in kept:
        assert b"0pen" not in path.read_bytes() and b"s3cret" not in path.read_bytes(), path


def test_the_audit_agrees_and_needs_only_the_public_key(world: World, released: dict[str, Any]) -> None:
    found = world.project.told("audit", IMAGE)
    assert {line["status"] for line in found["lines"]} == {"ok"}, found
    assert found["facts"]["source commit"] == "0" * 40
    by_key = world.project.told("audit", world.subject(world.sites[1]), "--key", "keys/cosign.pub")
    assert by_key["passed"]


def test_another_key_and_another_image_do_not_pass(world: World, released: dict[str, Any], tmp_path: Path) -> None:
    quiet: Any = {"check": True, "capture_output": True}
    subprocess.run(["cosign", "generate-key-pair"], cwd=tmp_path, env={**os.environ, "COSIGN_PASSWORD": ""}, **quiet)
    done = world.project.invoke("audit", IMAGE, "--key", str(tmp_path / "cosign.pub"))
    assert done.returncode == TrustError.exit_code
    site = world.sites[0]
    _, headers, body = site.get(f"/v2/{world.repository}/manifests/{TAG}-v1")
    other = json.dumps({**json.loads(body), "annotations": {"by": "someone"}}).encode()
    planted = f"/v2/{world.repository}/manifests/planted"
    assert site.ask("PUT", planted, other, headers["Content-Type"])[0] == 201
    done = world.project.invoke("audit", f"{site.host}/{world.repository}:planted", "--json")
    assert done.returncode == TrustError.exit_code
    lines = {line["check"]: line["status"] for line in json.loads(done.stdout)["lines"]}
    assert (lines["signature"], lines["record"], lines["cyclonedx"]) == ("wrong", "wrong", "wrong")


PULL = """\
import gzip, hashlib, json, pathlib, sys, urllib.request

place, _, wanted = sys.argv[1].partition("@")
host, _, repository = place.partition("/")
login = json.loads(pathlib.Path.home().joinpath(".docker/config.json").read_text())["auths"][host]["auth"]


def fetched(kind, digest):
    headers = {"Authorization": f"Basic {login}", "Accept": "application/vnd.oci.image.manifest.v1+json"}
    asked = urllib.request.Request(f"http://{host}/v2/{repository}/{kind}/{digest}", headers=headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        data = answer.read()
    found = "sha256:" + hashlib.sha256(data).hexdigest()
    if found != digest:
        sys.exit(f"{kind} {digest} is {found}")
    return data


manifest = json.loads(fetched("manifests", wanted))
parts = [manifest["config"], *manifest["layers"]]
blobs = [fetched("blobs", part["digest"]) for part in parts]
if [len(blob) for blob in blobs] != [part["size"] for part in parts]:
    sys.exit("a blob has another size than the manifest says")
unpacked = ["sha256:" + hashlib.sha256(gzip.decompress(blob)).hexdigest() for blob in blobs[1:]]
print(json.dumps({"config": json.loads(blobs[0]), "unpacked": unpacked}))
"""
"""A pull by digest, each part compared with its digest, by whoever knows the protocol and nothing of Slipway."""


def test_a_stranger_verifies_and_pulls_with_the_public_key_alone(
    world: World, released: dict[str, Any], tmp_path: Path
) -> None:
    """A clean room: another home, no Slipway, no records, the commands of docs/supply-chain.md."""
    site = world.sites[1]
    (tmp_path / "cosign.pub").write_bytes((world.keys / "cosign.pub").read_bytes())
    (tmp_path / ".docker").mkdir()
    clean = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    def run(*words: str, given: str = "") -> str:
        done = subprocess.run(words, cwd=tmp_path, env=clean, input=given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("cosign", "login", site.host, "--username", site.user, "--password", site.password)
    image = world.subject(site)
    own = ("--key", "cosign.pub", "--insecure-ignore-tlog=true", "--allow-http-registry", image)
    (signed,) = json.loads(run("cosign", "verify", "--output", "json", *own))
    assert signed["critical"]["image"]["docker-manifest-digest"] == released["manifest_digest"]
    found = {}
    for kind in ("slsaprovenance1", "cyclonedx", "spdxjson"):
        envelope = json.loads(run("cosign", "verify-attestation", "--type", kind, *own))
        found[kind] = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
    assert found["slsaprovenance1"]["buildDefinition"]["internalParameters"]["lockHash"] == released["lock_hash"]
    assert "torch" in {component["name"] for component in found["cyclonedx"]["components"]}
    assert "torch" in {package["name"] for package in found["spdxjson"]["packages"]}
    assert "files" not in found["spdxjson"], "syft has read none of them"
    pulled = json.loads(run(sys.executable, "-I", "-c", PULL, image))
    assert pulled["unpacked"] == pulled["config"]["rootfs"]["diff_ids"] and len(pulled["unpacked"]) == 2
    assert pulled["config"]["config"]["Labels"] == {"a": "b"}
    assert {path.name for path in tmp_path.iterdir()} <= {"cosign.pub", ".docker", ".sigstore"}, "a clean room"


def test_a_release_that_is_signed_already_is_not_signed_again(world: World, released: dict[str, Any]) -> None:
    before = [site.tags(world.repository) for site in world.sites]
    assert world.project.invoke(*RELEASE).returncode == 0
    assert [site.tags(world.repository) for site in world.sites] == before
    stem = released["manifest_digest"].replace(":", "-")
    layers = json.loads(world.sites[0].get(f"/v2/{world.repository}/manifests/{stem}.sig")[2])["layers"]
    assert len(layers) == 1


# --- vulnerabilities ------------------------------------------------------------------------------------------------


@contextmanager
def osv_server(*advisories: dict[str, Any]) -> Iterator[str]:
    """A server that answers OSV's query about a package by its name."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = asked["package"]["name"]
            fitting = [one for one in advisories if one["affected"][0]["package"]["name"] == name]
            body = json.dumps({"vulns": fitting} if fitting else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


def test_rescan_lists_what_to_rebuild_by_the_real_pip_audit(world: World, released: dict[str, Any]) -> None:
    assert Path(sys.executable).with_name("pip-audit").is_file(), (
        "pip-audit is not installed: `./run check` installs it"
    )
    with osv_server(ADVISORY) as server:
        world.configure(scan={"scanner": "pip-audit", "source": server})
        done = world.project.invoke("rescan", "--json")
        assert done.returncode == GateError.exit_code, done.stderr
        (seen,) = json.loads(done.stdout)
        assert (seen["image"], seen["state"]) == (IMAGE, "rebuild")
        assert "pillow==11.0.2" in done.stderr
        allowed = {"id": "CVE-2026-11", "package": "pillow", "reason": "not reached", "review_by": "2999-01-01"}
        world.configure(scan={"scanner": "pip-audit", "source": server, "allow": [allowed]})
        assert world.project.told("rescan")[0]["state"] == "clean"
        world.configure(
            scan={"scanner": "pip-audit", "source": server, "allow": [{**allowed, "review_by": "2020-01-01"}]}
        )
        assert world.project.invoke("rescan").returncode == GateError.exit_code, "the date has passed"
    world.configure(scan={"scanner": "pip-audit", "source": server})
    done = world.project.invoke("rescan")
    assert done.returncode == ScanError.exit_code, "nobody answers, and that is not clean"
    assert "could not be looked at" in done.stderr


def test_a_file_of_advisories_stops_a_release_before_anything_is_named(world: World, released: dict[str, Any]) -> None:
    source = world.project.folder / "advisories.json"
    source.write_text(json.dumps([ADVISORY]))
    world.configure(scan={"scanner": "osv-file", "source": "advisories.json"})
    world.project.build(IMAGE, b"two", files=FILES)
    before = named(world)
    done = world.project.invoke(*RELEASE)
    assert done.returncode == GateError.exit_code, done.stderr
    assert "pillow==11.0.2" in done.stderr and "review_by" in done.stderr
    assert named(world) == before
    assert len(world.project.ledger) == 1


# --- the check before promotion -------------------------------------------------------------------------------------


def test_what_the_check_refuses_is_not_named(world: World, released: dict[str, Any], tmp_path: Path) -> None:
    """Signing is done and on record in the journal, so that nothing but the check stands before the tags."""
    first = world.sites[0]
    manifests = f"/v2/{world.repository}/manifests"
    subprocess.run(
        ["cosign", "generate-key-pair"],
        cwd=tmp_path,
        env={**os.environ, "COSIGN_PASSWORD": ""},
        check=True,
        capture_output=True,
    )
    build = world.project.build(IMAGE, b"three", files=FILES)
    before = named(world)

    def refused() -> str:
        done = world.project.invoke(*RELEASE)
        assert done.returncode == TrustError.exit_code, done.stderr
        assert named(world) == before and len(world.project.ledger) == 1
        steps = world.project.journals()[-1]["steps"]
        assert steps["sign"][IMAGE]["of"] == build.config_digest and "check" not in steps
        return done.stderr

    world.configure(sbom=False, signing={**SIGNING, "public-key": str(tmp_path / "cosign.pub")})
    told = refused()
    assert "no signature by this key" in told and "no slsaprovenance1 attestation by this key" in told
    world.configure(sbom=False)
    stem, other = (digest.replace(":", "-") for digest in (build.engine_id, released["manifest_digest"]))
    for ending, complaint in (("sig", "no signature"), ("att", "no slsaprovenance1 attestation")):
        _, headers, own = first.get(f"{manifests}/{stem}.{ending}")
        _, _, swapped = first.get(f"{manifests}/{other}.{ending}")
        kind = headers["Content-Type"]
        assert first.ask("PUT", f"{manifests}/{stem}.{ending}", swapped, kind)[0] == 201
        told = refused()
        assert complaint in told and told.count("by this key") == 1, "the rest is as it was"
        assert first.ask("PUT", f"{manifests}/{stem}.{ending}", own, kind)[0] == 201
    assert world.project.told(*RELEASE)[0]["manifest_digest"] == build.engine_id
    assert len(world.project.ledger) == 2
