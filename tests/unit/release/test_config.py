import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from slipway.errors import SpecError, UsageError
from slipway.files import canonical_json
from slipway.release import config
from slipway.release.schema import json_schema

ROOT = Path(__file__).parents[3]

GOOD = """\
registries:
  production:
    kind: ecr
    account: "012345678901"
    regions: [us-east-1, cn-north-1]
    role: arn:aws:iam::012345678901:role/release
    hosts: {us-east-1: "127.0.0.1:5001"}
  team:
    kind: oci
    host: registry.example.com:5000
    credentials: {username-from: TEAM_USER, password-from: TEAM_PASSWORD}
prefix: ml/images
images:
  - framework: pytorch
    version: "2.13"
    to: [production, team]
  - scope: inference
    to: [team]
"""


def load(tmp_path: Path, text: str) -> config.ReleaseConfig:
    (tmp_path / "release.yml").write_text(text)
    return config.load(tmp_path, {"framework": ["pytorch", "mxnet"], "version": ["2.13.0"]})


def faults(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load(tmp_path, text)
    return [str(fault) for fault in caught.value.faults]


def test_the_whole_form(tmp_path):
    found = load(tmp_path, GOOD)
    production, team = found.registries["production"], found.registries["team"]
    assert isinstance(production, config.EcrRegistry) and isinstance(team, config.OciRegistry)
    assert production.host("us-east-1") == "127.0.0.1:5001"
    assert production.host("cn-north-1") == "012345678901.dkr.ecr.cn-north-1.amazonaws.com.cn"
    assert (team.username_from, team.password_from) == ("TEAM_USER", "TEAM_PASSWORD")
    assert found.repository("pytorch-training") == "ml/images/pytorch-training"
    assert found.aliases


def test_which_images_go_where(tmp_path):
    found = load(tmp_path, GOOD)
    names = lambda *image: [registry.name for registry in found.registries_of(*image)]  # noqa: E731
    assert names("pytorch", "2.13.0", "training", "cpu") == ["production", "team"]
    assert names("pytorch", "2.13.0", "inference", "cpu") == ["production", "team"]
    assert names("pytorch", "2.130.0", "training", "cpu") == []
    assert names("mxnet", "1.9.1", "inference", "gpu") == ["team"]


def test_without_rules_everything_goes_everywhere(tmp_path):
    found = load(tmp_path, GOOD.partition("images:\n")[0])
    assert [registry.name for registry in found.registries_of("x", "1", "training", "cpu")] == ["production", "team"]


def test_a_project_without_the_file_names_no_registry(tmp_path):
    assert config.load(tmp_path) == config.ReleaseConfig()


def test_the_file_that_is_shipped_names_no_registry():
    assert config.load(ROOT) == config.ReleaseConfig()


def test_an_unknown_registry_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(UsageError, match="did you mean production"):
        load(tmp_path, GOOD).registry("produktion")


def test_every_fault_is_told_at_once(tmp_path):
    found = faults(
        tmp_path,
        """\
registries:
  production:
    kind: ecr
    account: 123456789012
    regions: [us-east-1, useast]
    rol: x
  team:
    kind: ocr
  other:
    kind: oci
    host: https://registry.example.com/x
prefx: ml
images:
  - scope: trainin
    version: 2.13
    to: [team]
""",
    )
    assert [fault.partition(": ")[0] for fault in sorted(found, key=lambda text: int(text.split(":")[1]))] == [
        f"release.yml:{line}" for line in (4, 5, 6, 7, 11, 12, 14, 15)
    ]
    text = "\n".join(found)
    for part in (
        "put it in quotes",
        "'useast' is not an AWS region",
        "did you mean role?",
        "`kind: ecr` or `kind: oci`",
        "without https://",
        "did you mean prefix?",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("change", "line", "what"),
    [
        (('account: "012345678901"', 'account: "12345"'), 4, "not an AWS account"),
        (("regions: [us-east-1, cn-north-1]", "regions: [us-east-1, us-east-1]"), 5, "given twice"),
        (("regions: [us-east-1, cn-north-1]", "regions: [cn-north-1]"), 7, "us-east-1 is not among its regions"),
        (("role/release", "user/release"), 6, "is not a role"),
        (("to: [team]", "to: [teem]"), 18, "did you mean team?"),
        (("to: [team]", "to: []"), 18, "at least 1 item"),
        (("framework: pytorch", "framework: pytoch"), 14, "did you mean pytorch?"),
        (('version: "2.13"', 'version: "2.1"'), 15, "in no file of buildspec/"),
        (("host: registry.example.com:5000", "host: 127.0.0.1:5001"), 8, "the same registry as production"),
        (("team:\n", "production:\n"), 8, "given twice"),
        (("prefix: ml/images", "prefix: ml//images"), 12, "cannot begin a repository's name"),
        (("kind: oci", "kind: ecr"), 8, "account is missing"),
    ],
)
def test_a_fault_names_its_line(tmp_path, change, line, what):
    text = GOOD.replace(*change)
    assert text != GOOD
    assert any(f"release.yml:{line}: " in fault and what in fault for fault in faults(tmp_path, text))


@pytest.mark.parametrize(
    "prefix",
    ["012345678901.dkr.ecr.us-east-1.amazonaws.com/ml", "registry.example.com/ml", "localhost:5000/ml", "https://x/ml"],
)
def test_a_registry_address_as_prefix_is_explained(tmp_path, prefix):
    (fault,) = faults(tmp_path, GOOD.replace("ml/images", f'"{prefix}"'))
    assert "begins with a registry's address" in fault


def test_a_secret_in_place_of_a_variable_is_not_shown(tmp_path):
    (fault,) = faults(tmp_path, GOOD.replace("TEAM_PASSWORD", "hunter-2"))
    assert "never write the secret" in fault
    assert "hunter" not in fault


def test_the_shipped_schema_is_current():
    shipped = (ROOT / "release.schema.json").read_text(encoding="utf-8")
    assert shipped == canonical_json(json_schema()), "write it anew with slipway.release.schema.json_schema"


@pytest.mark.parametrize("bad", ["", "account: '12345'", "regions: [useast]", "host: https://x", "kind: ocr", "rol: x"])
def test_the_schema_judges_as_the_reader_does(tmp_path, bad):
    data = yaml.safe_load(GOOD)
    data["registries"]["production"].update(yaml.safe_load(bad) or {})
    accepted = jsonschema.Draft202012Validator(json.loads((ROOT / "release.schema.json").read_text())).is_valid(data)
    assert accepted == (not bad)
    if bad:
        assert faults(tmp_path, yaml.safe_dump(data))


SUPPLY = """\
signing:
  kind: key
  key: keys/release.key
  public-key: keys/release.pub
  password-from: KEY_PASSWORD
scan:
  scanner: osv-file
  source: advisories.json
  fail-on: high
  allow:
    - {id: CVE-1, reason: never reached, review_by: 2027-01-31}
    - {id: CVE-2, reason: never reached, review_by: 2027-01-31, framework: pytorch, version: "2.13", package: torch}
    - {id: CVE-3, reason: never reached, review_by: 2027-01-31, image: mxnet-training-1.9.1-cpu-py311}
downgrades:
  - {package: numpy, reason: "the ABI", framework: pytorch}
  - {package: pip, reason: "a fault"}
sbom: false
notes: |
  NCCL is newer.
  Try it first.
"""


def test_signing_and_gates(tmp_path):
    found = load(tmp_path, SUPPLY)
    assert found.signing is not None and found.signing.key == str(tmp_path / "keys/release.key")
    assert (found.signing.kind, found.signing.password_from) == ("key", "KEY_PASSWORD")
    assert (found.sbom, found.notes) == (False, "NCCL is newer.\nTry it first.")

    def allowed(*image):
        gate = found.gate(*image)
        assert (gate.scanner, gate.fail_on, gate.source) == ("osv-file", "high", str(tmp_path / "advisories.json"))
        return [allow.id for allow in gate.allow]

    assert allowed("pytorch", "2.13.0", "pytorch-training-2.13.0-cpu-py311") == ["CVE-1", "CVE-2"]
    assert allowed("pytorch", "2.14.1", "pytorch-training-2.14.1-cpu-py311") == ["CVE-1"]
    assert allowed("mxnet", "1.9.1", "mxnet-training-1.9.1-cpu-py311") == ["CVE-1", "CVE-3"]
    assert found.gate("pytorch", "2.13.0", "x").allow[1].where == "release.yml:12"
    assert found.may_go_back("pytorch") == {"numpy": "the ABI", "pip": "a fault"}
    assert found.may_go_back("mxnet") == {"pip": "a fault"}


def test_without_them_nothing_is_signed_or_looked_for(tmp_path):
    found = load(tmp_path, GOOD)
    assert (found.signing, found.gate("pytorch", "2.13.0", "x"), found.sbom) == (None, None, True)
    assert found.notes == ""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("kind: key", "kind: kms"), "password-from has no meaning with kind: kms"),
        (("kind: key", "kind: keyless"), "kind: keyless needs identity"),
        (("  public-key: keys/release.pub\n", ""), "kind: key needs public-key"),
        (("  source: advisories.json\n", ""), "osv-file needs a source"),
        (("scanner: osv-file", "scanner: trivy"), "source has no meaning with scanner: trivy"),
        (("scanner: osv-file", "scanner: clair"), "'clair' is not known"),
        (("fail-on: high", "fail-on: hihg"), "'hihg' is not known"),
        (("review_by: 2027-01-31}", "review_by: soon}"), "review_by"),
        (("reason: never reached, ", ""), "reason is missing"),
        (("framework: pytorch,", "framework: pytoch,"), "framework 'pytoch' is in no file of buildspec/"),
        (("downgrades:", "downgrade:"), "unknown key 'downgrade'"),
        (("password-from: KEY_PASSWORD", "password-from: s3cret!"), "never write the secret"),
        (("notes: |", "note: |"), "did you mean notes?"),
        (("notes: |\n  NCCL is newer.\n  Try it first.", "notes: [NCCL]"), "notes: must be text"),
    ],
)
def test_faults_of_signing_and_gates(tmp_path, change, told):
    with pytest.raises(SpecError) as caught:
        load(tmp_path, SUPPLY.replace(*change))
    assert told in str(caught.value)
    assert all(fault.file == "release.yml" and fault.line for fault in caught.value.faults)
    assert "s3cret!" not in str(caught.value)


def test_the_example_in_the_shipped_file_is_right(tmp_path):
    """Every line that is commented out, put in."""
    shipped = (ROOT / "release.yml").read_text()
    body = shipped.partition("# registries:")[2].partition("\nregistries: {}")[0]
    lines = [line.removeprefix("#").removeprefix(" ") for line in body.splitlines()]
    found = load(tmp_path, "registries:\n" + "\n".join(lines) + "\n")
    assert list(found.registries) == ["production", "team"] and found.signing and found.scan and found.downgrades
    assert found.notes.startswith("PyTorch")
