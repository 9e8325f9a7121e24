"""What differs between two releases, and which package may not go back."""

from __future__ import annotations

import itertools

import pytest

from slipway.errors import DowngradeError
from slipway.release import changes
from slipway.release.changes import Change, is_older

from .released import released


def test_packages_that_come_go_and_change() -> None:
    before = {"numpy": "2.0.0", "torch": "2.13.0", "gone": "1", "libc6 (Debian)": "2.36-9+deb12u9"}
    after = {"numpy": "1.26.4", "torch": "2.13.1", "new": "1", "libc6 (Debian)": "2.36-9+deb12u10"}
    found = changes.of_packages(before, after)
    assert found.added == (Change("new", "", "1"),)
    assert found.removed == (Change("gone", "1", ""),)
    assert [one.name for one in found.changed] == ["libc6 (Debian)", "numpy", "torch"]
    assert found.downgraded == (Change("numpy", "2.0.0", "1.26.4"),)
    with pytest.raises(DowngradeError, match="packages went back") as caught:
        changes.refuse_downgrades("x", found, {"torch": "why"})
    assert "numpy went from 2.0.0 back to 1.26.4" in str(caught.value)
    changes.refuse_downgrades("x", found, {"numpy": "why"})


def test_the_rest_of_a_difference() -> None:
    scan = {"findings": [{"id": "CVE-1", "severity": "high", "package": "a", "version": "1"}]}
    before = released(1, size=100, compressed=50, labels={"a": "1", "b": "2"}, scan=scan)
    after = released(2, size=70, compressed=60, labels={"a": "1", "b": "3"}, scan={"findings": []})
    found = changes.of_releases(before, after)
    assert (found.size, found.compressed, found.labels) == (-30, 10, (Change("b", "2", "3"),))
    assert found.vulnerabilities == ((), ("CVE-1 (high) in a",))
    # Not looked at is not the same as without.
    assert changes.of_releases(before, released(2)).vulnerabilities is None


# Each list from the oldest to the newest; Debian's from Debian Policy 5.6.12 and real packages.
PYTHON = ["1.0.dev1", "1.0a1", "1.0rc1", "1.0", "1.0.post1", "1.2", "1.10", "1!0.1"]
DEBIAN = [
    "1.0~~",
    "1.0~rc1-1",
    "1.0-1",
    "1.0-1+deb12u1",
    "1.0-1+deb12u2",
    "1.0-1+deb12u10",
    "1.0a-1",
    "1.0+git1-1",
    "1.2-1",
    "1.10-1",
    "1:0.1-1",
]


@pytest.mark.parametrize(("name", "versions"), [("a", PYTHON), ("a (Debian)", DEBIAN)], ids=["python", "debian"])
def test_versions_in_their_order(name: str, versions: list[str]) -> None:
    for (at, one), (other_at, other) in itertools.product(enumerate(versions), repeat=2):
        assert is_older(name, one, other) == (at < other_at), f"{one} and {other}"
