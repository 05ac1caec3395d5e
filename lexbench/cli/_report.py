"""What `lexbench run` shows: the plan, the outcomes, the failures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from lexbench.analysis import aggregates
from lexbench.cli._output import print_rows
from lexbench.report.table import tables
from lexbench.report.terminal import render
from lexbench.results import Result, write_results
from lexbench.runner.jobs import Outcome
from lexbench.runner.plan import Plan
from lexbench.storage.store import readable_bytes


def show_plan(plan: Plan, *, as_json: bool) -> None:
    """Print the jobs of a plan and what they will take on disk."""
    rows = [
        (job.contract.id, job.system.label, f"{job.contract.expected.documents or '?'}", str(job.depth)) for job in plan.jobs
    ]
    print_rows(("dataset", "system", "documents", "depth"), rows, as_json=as_json)
    if not as_json:
        click.echo(f"{len(plan.jobs)} jobs; at most about {readable_bytes(plan.bytes_needed)} of disk; nothing was run.")


def present(outcomes: Sequence[Outcome]) -> list[Result]:
    """Return the results that there are."""
    return [outcome.result for outcome in outcomes if outcome.result]


def document(plan: Plan, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return everything about a run as one JSON document."""
    done = present(outcomes)
    failed = [outcome for outcome in outcomes if outcome.error]
    return {
        "suite": plan.suite.id if plan.suite else None,
        "results": [msgspec.to_builtins(result) for result in done],
        "failures": [
            {"dataset": o.job.contract.id, "system": o.job.system.label, "error": o.error, "again": o.again} for o in failed
        ],
        "untimed": [
            {"dataset": o.job.contract.id, "system": o.job.system.label, "error": o.untimed} for o in outcomes if o.untimed
        ],
        "aggregates": [
            {"id": each.id, "system": system, "present": mean.present, "of": len(each.members), "mean": mean.value}
            for each in (plan.suite.aggregates if plan.suite else ())
            for system in dict.fromkeys(result.system for result in done)
            for mean in [aggregates.over_results(each, [result for result in done if result.system == system])]
        ],
    }


def renderables(plan: Plan, outcomes: Sequence[Outcome]) -> list[Any]:
    """Return what a terminal shows of a run."""
    return [render(table) for table in tables(present(outcomes), plan.suite)]


def complain(outcomes: Sequence[Outcome]) -> bool:
    """Print on stderr what failed, each once with the command that repeats it, or was not timed; return whether anything."""
    failed = [outcome for outcome in outcomes if outcome.error]
    untimed = [outcome for outcome in outcomes if outcome.untimed]
    for outcome in untimed:
        click.echo(f"not timed: {outcome.job.name}: {outcome.untimed}", err=True)
    for line in dict.fromkeys(f"failed: {o.error}" + (f"; again: {o.again}" if o.again else "") for o in failed):
        click.echo(line, err=True)  # a missing dataset fails all its systems alike, and is said once
    if failed:
        click.echo(f"{len(failed)} of {len(outcomes)} jobs failed", err=True)
    return bool(failed or untimed)


def save(plan: Plan, outcomes: Sequence[Outcome], folder: Path) -> None:
    """Write the results into a leaderboard folder."""
    written = write_results(present(outcomes), plan.suite.id if plan.suite else "datasets", folder)
    if written:
        count = f"{len(written)} system{'s' * (len(written) > 1)}"
        click.echo(f"results of {count} are in {written[0].parent}; for the page type: lexbench leaderboard {folder}", err=True)
