"""The HTML report: everything of a verdict, nothing that loads, nothing that a container printed as markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from slipway.records import CheckResult, Verdict
from slipway.verify import page
from slipway.verify.contract import Check, Contract

CHECKS = tuple(
    Check(id=f"{group}.{name}", severity=severity, reason=f"why {name}", source=f"source {name}", fix=f"mend {name}")
    for group, name, severity in (("one", "good", "error"), ("one", "bad", "policy"), ("two", "next", "error"))
)
CONTRACT = Contract("training", CHECKS, {"one": "the first", "two": "the second", "three": "unused here"})
FAILED = Verdict(
    config_digest="sha256:" + "c" * 64,
    suite_hash="s" * 64,
    image="cell<1>",
    reference="repo:tag",
    passed=False,
    at="2026-01-01T00:00:00+00:00",
    seconds=3.25,
    checks=(
        CheckResult(id="one.good", status="passed", seconds=1.0),
        CheckResult(id="one.bad", status="failed", seconds=2.0, detail="<script>alert(1)</script>", fix="mend bad"),
        CheckResult(id="two.next", status="blocked", seconds=0.0, blocked_by="one.bad"),
    ),
)
PASSED = Verdict(**{**vars(FAILED), "image": "cell2", "passed": True, "checks": FAILED.checks[:1]})


class Reader(HTMLParser):
    """Tags that stand open at the end, every tag, and every attribute that could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing() -> None:
    text = page.html([(FAILED, CONTRACT), (PASSED, CONTRACT)])
    found = Reader(text)
    assert not found.open and "script" not in found.tags and "link" not in found.tags
    assert all(target.startswith("#") for target in found.loads)
    assert "//" not in text and "url(" not in text and "@import" not in text


def test_every_check_is_there_with_what_it_is_for() -> None:
    text = page.html([(FAILED, CONTRACT), (PASSED, CONTRACT)])
    assert "1 of 2 images passed" in text and "cell&lt;1&gt;" in text
    for said in (
        "one: the first",
        "two: the second",
        "policy",
        "why bad",
        "source bad",
        "mend bad",
        "blocked by one.bad",
    ):
        assert said in text
    assert "three" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "1 passed, 1 failed, 1 blocked" in text
    # Failures are unfolded, what passed is not.
    assert re.findall(r'<details id="(image-\d)"( open)?>', text) == [("image-1", " open"), ("image-2", "")]
