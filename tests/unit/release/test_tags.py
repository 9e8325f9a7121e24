import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.release import tags

TAG = "2.13.0-cpu-py311-debian12"


def matches(filter: str, tag: str) -> bool:
    """ECR's wildcards: `*` is any run of characters, nothing else is special."""
    return re.fullmatch(".*".join(re.escape(part) for part in filter.split("*")), tag) is not None


versions = st.from_regex(
    r"[1-9]\d?\.\d{1,2}\.\d{1,2}(rc[1-9]|\.cu126)?(-transformers[45]\.\d{1,2}\.\d)?", fullmatch=True
)
full_tags = st.builds(
    lambda version, processor, python, cuda, os, arch: f"{version}-{processor}-{python}{cuda}-{os}{arch}",
    versions,
    st.sampled_from(["cpu", "gpu"]),
    st.sampled_from(["py39", "py311", "py314"]),
    st.sampled_from(["", "-cu126", "-cu130"]),
    st.sampled_from(["debian12", "debian13", "ubuntu22.04", "amzn2023"]),
    st.sampled_from(["", "-arm64"]),
)


def test_the_forms_that_move():
    assert tags.aliases(TAG) == (TAG, "2.13.0-cpu-py311", "2.13-cpu-py311")


def test_every_part_of_a_version_is_shortened():
    assert tags.aliases("2.13.0-transformers5.1.0-gpu-py311-cu130-debian12")[1:] == (
        "2.13.0-transformers5.1.0-gpu-py311",
        "2.13-transformers5.1-gpu-py311",
    )


def test_an_architecture_stays_in_every_form():
    assert tags.aliases("2.13.0-cpu-py311-debian12-arm64") == (
        "2.13.0-cpu-py311-debian12-arm64",
        "2.13.0-cpu-py311-arm64",
        "2.13-cpu-py311-arm64",
    )


@pytest.mark.parametrize("tag", ["latest", "2.13.0", "2.13.0-tpu-py311-debian12", "2.13.0-cpu-py311", f"{TAG}-v1"])
def test_a_tag_outside_the_grammar_has_no_aliases(tag):
    with pytest.raises(ValueError, match="not a tag of the form"):
        tags.aliases(tag)


@pytest.mark.parametrize("tag", ["2.13-cpu-py311", f"{TAG}-v0", f"{TAG}-v01", f"{TAG}-dev", f"x{TAG}-v1", "v1"])
def test_only_the_full_form_with_a_number_is_a_release(tag):
    assert tags.parse(tag) is None


@given(full_tags, st.integers(1, 10_000))
def test_a_release_is_read_back_from_its_text(tag, number):
    assert tags.parse(str(tags.Release(tag, number))) == tags.Release(tag, number)


@given(full_tags, st.integers(1, 10_000))
def test_ecr_filters_let_every_alias_move_and_no_release(tag, number):
    filters = tags.mutability_filters([tag])
    moving = [*tags.aliases(tag), tags.STAGING, "sha256-0f0f.sig"]
    assert all(any(matches(filter, alias) for filter in filters) for alias in moving)
    assert not any(matches(filter, f"{tag}-v{number}") for filter in filters)
    assert all(re.fullmatch(r"[0-9a-zA-Z._*-]{1,128}", filter) and filter.count("*") <= 2 for filter in filters)


def test_present_filters_are_kept_while_they_fit():
    kept = tags.mutability_filters([TAG], ["*-py312", "*-py311", "*-py313", "*-py314"])
    assert kept == ("sha256-*", "*-debian12", "*-py311", "*-py312", "*-py313")


def test_too_many_needed_filters_are_refused():
    many = [f"2.13.0-cpu-py3{minor}-debian12" for minor in range(10, 14)]
    with pytest.raises(ValueError, match="ECR keeps 5 filters"):
        tags.mutability_filters(many)


def test_the_next_number_fills_no_gap_and_heeds_only_its_own_tag():
    existing = [f"{TAG}-v1", f"{TAG}-v3", "2.13.1-cpu-py311-debian12-v9", f"{TAG}-v12x", "latest", TAG]
    assert tags.next_number(TAG, existing) == 4
    assert tags.next_number("2.12.0-cpu-py311-debian12", existing) == 1


@pytest.mark.parametrize(
    ("existing", "moved"),
    [
        ([], 3),
        ([f"{TAG}-v4"], 3),
        ([f"{TAG}-v6"], 0),
        (["2.13.1-cpu-py311-debian12-v1"], 2),
        (["2.12.9-cpu-py311-debian12-v1"], 3),
        (["2.13.0-cpu-py311-debian13-v9"], 3),
        (["2.13.1-gpu-py311-debian12-v1", "2.13.1-cpu-py312-debian12-v1"], 3),
        (["2.13.0rc1-cpu-py311-debian12-v9"], 3),
    ],
)
def test_an_alias_never_moves_back(existing, moved):
    assert tags.aliases_to_move(tags.Release(TAG, 5), existing) == tags.aliases(TAG)[:moved]


def test_versions_sort_by_number_with_candidates_first():
    ordered = ["2.9.1", "2.13.0rc1", "2.13.0rc2", "2.13.0", "2.13.0.post1", "2.13.1"]
    backwards = ordered[::-1]
    assert sorted(backwards, key=tags.version_key) == ordered
