"""Run systems on a suite or on one dataset."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lexbench.cli._options import (
    FOLDER,
    MEASURES,
    datasets_option,
    executor_option,
    json_option,
    measures_option,
    seeds_option,
    system_option,
    timing_options,
    timing_settings,
)
from lexbench.cli._output import print_json, print_rich, print_rows, say
from lexbench.cli._progress import shown

if TYPE_CHECKING:
    from lexbench.results import Result
    from lexbench.runner.jobs import Outcome
    from lexbench.runner.plan import Plan
    from lexbench.timing.protocol import Settings

_SYSTEMS = system_option("As 'bm25(k1=0.9)'; repeatable.")
_DRY = click.option("--dry-run", is_flag=True, help="Check everything, show the plan, do nothing.")
_BRIEF = click.option("--brief", is_flag=True, help="Show one table: nDCG, MRR, both recalls, queries a second, index MB.")
_DEPTH = click.option("--depth", type=click.IntRange(min=1), help="Documents kept for each query.")


@click.group()
def command() -> None:
    """Run systems on a suite or on one dataset."""


@command.command()
@click.argument("name")
@_SYSTEMS
@datasets_option("Only this dataset of the suite; repeatable.")
@measures_option("This measure instead of the suite's; repeatable.")
@_DEPTH
@_DRY
@_BRIEF
@click.option("--results", type=FOLDER, metavar="FOLDER", help="Also write the results into this folder.")
@seeds_option
@executor_option
@timing_options
@json_option
def suite(name: str, results: Path | None, **options: Any) -> None:
    """Run systems (default: the suite's own) on the suite NAME, or on the suite in the file NAME.toml."""
    from lexbench import suites
    from lexbench.runner import plan

    systems, datasets, measures, depth = (options.pop(option) for option in ("systems", "datasets", "measures", "depth"))
    timing = timing_settings(options)
    planned = plan.plan_suite(suites.suite(name), systems, datasets, measures, depth, name)
    _carry_out(planned, folder=results, timing=timing, **options)


@command.command()
@click.argument("name", metavar="ID|FOLDER|hf:ORG/NAME")
@_SYSTEMS
@measures_option(default=MEASURES)
@_DEPTH
@_DRY
@_BRIEF
@seeds_option
@executor_option
@timing_options
@json_option
def dataset(name: str, systems: tuple[str, ...], measures: tuple[str, ...], **options: Any) -> None:
    """Run systems (default: bm25) on the dataset ID, on a FOLDER with corpus.jsonl, queries.jsonl and qrels/, or on the hub's.

    Tables may be .parquet, .jsonl or .tsv; hf:ORG/NAME@REVISION#SPLIT names a dataset of the Hugging Face hub in BEIR's layout.
    """
    from lexbench.runner import plan

    timing = timing_settings(options)
    planned = plan.plan_dataset(name, systems or ("bm25",), measures, options.pop("depth") or 1000)
    _carry_out(planned, folder=None, timing=timing, **options)


def _carry_out(  # noqa: PLR0913 - one an option
    plan: "Plan",
    *,
    folder: Path | None,
    timing: "Settings | None",
    seeds: tuple[str, ...],
    on: str | None,
    dry_run: bool,
    brief: bool,
    as_json: bool,
) -> None:
    """Run the jobs of *plan* and show what came of them, or show the plan."""
    from lexbench.analysis.seeds import grouped, groups, labels_of
    from lexbench.executors import executor

    encoding, of_seeds = executor(on), groups(seeds)
    for members in of_seeds.values():
        labels_of(members, [(job.system.label, job.system.notation) for job in plan.jobs])
    if dry_run:
        _show_plan(plan, as_json=as_json)
        return
    from lexbench.report.brief import brief as first_screen
    from lexbench.report.run import tables
    from lexbench.report.terminal import render
    from lexbench.runner import jobs
    from lexbench.storage.store import Store
    from lexbench.timing.timer import Timer

    outcomes = []
    with shown(plan.suite.id if plan.suite else "dataset", len(plan.jobs)) as progress:
        store = Store(on_wait=progress.note, on_damage=progress.note)
        timer = Timer(timing) if timing else None
        for outcome in jobs.run(plan, store, progress, timer, encoding):
            outcomes.append(outcome)
            progress.job_done()
    results = [outcome.result for outcome in outcomes if outcome.result]
    if not any(outcome.error for outcome in outcomes):
        results = grouped(results, of_seeds)
    elif of_seeds:
        say("seeds are shown one by one, since a job failed", err=True)
    if as_json:
        print_json(_document(plan, outcomes, results))
    else:
        print_rich(*(render(table) for table in (first_screen(results) if brief else tables(results, plan.suite))))
    failed = _complain(outcomes)
    if folder:
        save(plan, results, folder)
    click.get_current_context().exit(1 if failed else 0)


def _show_plan(plan: "Plan", *, as_json: bool) -> None:
    """Print the jobs of a plan and what they will take on disk; MissingData where a run file is not there."""
    from lexbench.storage.store import readable_bytes

    for job in plan.jobs:
        if job.system.retriever.finished:
            job.system.retriever.file_identity(job.contract.id)
    rows = [
        (job.contract.id, job.system.label, f"{job.contract.expected.documents or '?'}", str(job.depth)) for job in plan.jobs
    ]
    print_rows(("dataset", "system", "documents", "depth"), rows, as_json=as_json)
    if not as_json:
        count = f"{len(plan.jobs)} job{'s' * (len(plan.jobs) != 1)}"
        say(f"{count}; at most about {readable_bytes(plan.bytes_needed)} of disk; nothing was run.")


def _document(plan: "Plan", outcomes: "Sequence[Outcome]", results: "Sequence[Result]") -> dict[str, Any]:
    """Return everything about a run as one JSON document."""
    import msgspec

    from lexbench.analysis import aggregates

    return {
        "suite": plan.suite.id if plan.suite else None,
        "results": [msgspec.to_builtins(result) for result in results],
        "failures": [
            {"dataset": o.job.contract.id, "system": o.job.system.label, "error": o.error, "again": o.again}
            for o in outcomes
            if o.error
        ],
        "untimed": [
            {"dataset": o.job.contract.id, "system": o.job.system.label, "error": o.untimed} for o in outcomes if o.untimed
        ],
        "aggregates": [
            {"id": one.id, "system": system, "present": mean.present, "of": len(one.members), "mean": mean.value}
            for one in (plan.suite.aggregates if plan.suite else ())
            for system in dict.fromkeys(result.system for result in results)
            for mean in [aggregates.over_results(one, [result for result in results if result.system == system])]
        ],
    }


def _complain(outcomes: "Sequence[Outcome]") -> bool:
    """Print on stderr what failed, each once with the command that repeats it, or was not timed; return whether anything."""
    failed = [outcome for outcome in outcomes if outcome.error]
    untimed = [outcome for outcome in outcomes if outcome.untimed]
    for outcome in untimed:
        say(f"not timed: {outcome.job.name}: {outcome.untimed}", err=True)
    for line in dict.fromkeys(f"failed: {o.error}" + (f"; again: {o.again}" if o.again else "") for o in failed):
        say(line, err=True)  # a missing dataset fails all its systems alike, and is said once
    if failed:
        say(f"{len(failed)} of {len(outcomes)} jobs failed", err=True)
    return bool(failed or untimed)


def save(plan: "Plan", results: "Sequence[Result]", folder: Path) -> None:
    """Write the results into a folder of results, and say where they are."""
    from lexbench.results import write_results

    written = write_results(results, plan.suite.id if plan.suite else "datasets", folder)
    if written:
        count = f"{len(written)} system{'s' * (len(written) > 1)}"
        page = f"lexbench leaderboard --results {folder}"
        say(f"results of {count} are in {written[0].parent}; for the page type: {page}", err=True)
