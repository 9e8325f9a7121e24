"""The smoke steps over one image: run inside it, judged outside, filed under its config digest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from slipway.errors import NotFoundError
from slipway.records import CheckResult, Records, Smoke
from slipway.verify import contract as contracts
from slipway.verify.runner import log_of, run_checks
from slipway.verify.suite import SMOKE, smoke_hash
from slipway.verify.target import Target


@dataclass(frozen=True, kw_only=True)
class Smoker:
    """What the runs of one command share. `on_result` hears of each step as it ends."""

    project: Path
    records: Records
    on_result: Callable[[CheckResult], None] = lambda _: None

    def smoke(self, target: Target, device: str, wanted: Sequence[str] = (), locks: Sequence[Path] = ()) -> Smoke:
        """What the steps say of an image on a device; `locks`: what its packages must follow.

        A run of all steps is filed, also one that failed. A part proves nothing. Raises NoDeviceError when there is no
        such device here, NotFoundError when the image holds no framework: then nothing was run, and nothing is filed.
        """
        contract = contracts.steps(self.project)
        chosen = contract.choose(wanted)
        started = time.monotonic()
        options = [f"--inside={target.engine_id}", f"--device={device}", *(f"--lock={path}" for path in locks)]
        known = [check.id for check in contract.checks]
        log = log_of(self.records, f"smoke-{device}", target)
        results = run_checks(self.project, self.records.state, SMOKE, chosen, known, options, log, self.on_result)
        if all(result.status == "skipped" for result in results):
            reasons = "; ".join(sorted({result.detail for result in results}))
            raise NotFoundError(f"{target.image}: no step could be run: {reasons}", fix="choose another image or step")
        measured = next((result.numbers for result in results if result.numbers), {})
        smoke = Smoke(
            config_digest=target.config_digest,
            suite_hash=smoke_hash(self.project),
            image=target.image,
            reference=target.reference,
            device=device,
            device_name=str(measured.get("device", "")),
            driver=str(measured.get("driver", "")),
            passed=all(result.status in ("passed", "skipped") for result in results),
            at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - started, 1),
            steps=tuple(results),
        )
        if len(chosen) == len(contract.checks):
            self.records.add_smoke(smoke)
        return smoke
