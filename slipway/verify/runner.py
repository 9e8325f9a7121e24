"""The checks over one image: pytest runs them, the outcomes become a verdict."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from slipway.errors import ProgramError, SlipwayError
from slipway.records import CheckResult, Records, Verdict
from slipway.verify import contract as contracts
from slipway.verify.contract import Check, Contract
from slipway.verify.suite import CHECKS, suite_hash
from slipway.verify.target import Target


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """What the verifications of one command share. `on_result` hears of each check as it ends."""

    project: Path
    records: Records
    on_result: Callable[[CheckResult], None] = lambda _: None

    def verify(self, target: Target, wanted: Sequence[str] = (), *, force: bool = False) -> tuple[Verdict, bool]:
        """The verdict on an image, and whether its checks were run now.

        An image that these very checks have looked at is not looked at again, unless `force` is given. `wanted` names
        checks or groups: they are run with what they need, and the outcome is not filed, because a part proves nothing.
        Raises UsageError for unknown checks, EngineError and DiskError when the machine fails, Interrupted.
        """
        contract = contracts.load(self.project, target.kind)
        chosen = contract.choose(wanted)
        suite = suite_hash(self.project)
        known = self.records.verdict_of(target.config_digest, suite)
        if known is not None and not force and not wanted:
            return known, False
        started = time.monotonic()
        results = self._run(target, contract, chosen)
        verdict = Verdict(
            config_digest=target.config_digest,
            suite_hash=suite,
            image=target.image,
            reference=target.reference,
            passed=all(result.status == "passed" for result in results),
            at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - started, 1),
            checks=tuple(results),
        )
        if len(chosen) == len(contract.checks):
            self.records.add_verdict(verdict)
        return verdict, True

    def log_of(self, target: Target) -> Path:
        """Where pytest's own account of the last run is."""
        return log_of(self.records, "verify", target)

    def _run(self, target: Target, contract: Contract, chosen: Sequence[Check]) -> list[CheckResult]:
        known = [check.id for kind in contracts.kinds(self.project) for check in self._contract(kind, contract).checks]
        options = [f"--image={target.engine_id}", f"--reference={target.reference}", f"--kind={target.kind}"]
        log = self.log_of(target)
        return run_checks(self.project, self.records.state, CHECKS, chosen, known, options, log, self.on_result)

    def _contract(self, kind: str, loaded: Contract) -> Contract:
        return loaded if kind == loaded.kind else contracts.load(self.project, kind)


def log_of(records: Records, what: str, target: Target) -> Path:
    return records.state / "logs" / f"{what}-{re.sub(r'[^A-Za-z0-9._-]+', '-', target.image)}.log"


def run_checks(
    project: Path,
    state: Path,
    folder: str,
    chosen: Sequence[Check],
    known: Sequence[str],
    options: Sequence[str],
    log: Path,
    on_result: Callable[[CheckResult], None],
) -> list[CheckResult]:
    """Run the checks of a folder in pytest, whose own account goes to `log`. `known`: the IDs of all that it holds.

    Raises what ended the run without an outcome (see Verification), ProgramError without pytest.
    """
    try:
        import pytest
    except ModuleNotFoundError:
        raise ProgramError("pytest is not installed; it runs the checks", fix="pip install pytest") from None
    from slipway.verify.plugin import Verification

    verification = Verification(chosen, known, on_result)
    log.parent.mkdir(parents=True, exist_ok=True)
    # In the state folder, because the engine must see the jobs' files, and nobody else clears it.
    with (
        tempfile.TemporaryDirectory(prefix=".verify-", dir=state) as scratch,
        log.open("w", encoding="utf-8") as stream,
        contextlib.redirect_stdout(stream),
        _fresh_modules(project / folder),
    ):
        code = pytest.main(_arguments(project, folder, options, scratch), plugins=[verification])
    if verification.stopped_by is not None:
        error = verification.stopped_by
        error.fix = error.fix or f"see {log}"
        raise error
    if len(verification.results) != len(chosen):
        raise SlipwayError(f"pytest ended early ({code!s}); nothing was filed", fix=f"see {log}")
    return [verification.results[check.id] for check in chosen]


@contextlib.contextmanager
def _fresh_modules(folder: Path) -> Iterator[None]:
    """Forget the modules of a folder that were imported inside: the next run takes the files as they are then."""
    try:
        yield
    finally:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(f"{folder}/"):
                del sys.modules[name]


def _arguments(project: Path, folder: str, options: Sequence[str], scratch: str) -> list[str]:
    """pytest's options: nothing of the user's own configuration may change what a check means."""
    return [
        str(project / folder),
        *options,
        f"--rootdir={project}",
        f"--config-file={project / 'pyproject.toml'}",
        "--override-ini=addopts=",
        f"--basetemp={scratch}/jobs",
        "--import-mode=importlib",
        "--capture=sys",  # progress goes past it to the terminal
        "--color=no",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-p",
        "no:xdist",
    ]
