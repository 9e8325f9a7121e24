"""The command that checks the project itself."""

from __future__ import annotations

from slipway.commands.guard import command
from slipway.errors import SlipwayError


def check(everything: bool, json: bool) -> None:
    """Run the steps one after the other, all of them whatever fails, and show what each said.

    With `everything` a step that passed before on the very same files is not run again, so that a long run which broke
    off goes on where it was.
    """
    with command(json) as (settings, console):
        from dataclasses import asdict

        from slipway import steps

        chosen = [step for step in steps.known(settings.project, settings.state) if everything or not step.slow]
        tree = steps.tree_hash(settings.project) if everything else ""
        outcomes = []
        for step in chosen:
            if steps.passed_before(step, settings.state, tree):
                outcome = steps.Outcome(step.name, "kept", 0.0, "passed before on the same files", "")
            elif console.in_ci:
                with console.fold(step.name):
                    outcome = steps.run(step, settings.project, settings.state, console.note)
            else:
                console.note(f"{step.name} …")
                outcome = steps.run(step, settings.project, settings.state, lambda line: None)
            if outcome.status == "failed" and not console.in_ci:
                for line in outcome.tail:
                    console.note(f"    {line}")
            if outcome.status == "passed" and tree:
                steps.remember(step, settings.state, tree)
            outcomes.append(outcome)
        console.table(
            ("step", "result", "seconds", "tests"),
            [(outcome.name, outcome.status, outcome.seconds, outcome.summary) for outcome in outcomes],
        )
        # The test runner's own closing lines stand alone, for whatever counts them.
        for outcome in outcomes:
            if outcome.summary and outcome.status in ("passed", "failed"):
                console.say(f"=== {outcome.summary} ===")
        failed = [outcome for outcome in outcomes if outcome.status == "failed"]
        console.result({"passed": not failed, "steps": [asdict(outcome) for outcome in outcomes]})
        if failed:
            names = ", ".join(outcome.name for outcome in failed)
            raise SlipwayError(
                f"{len(failed)} of {len(outcomes)} steps failed: {names}",
                fix=f"read {' '.join(outcome.log for outcome in failed)}",
            )
