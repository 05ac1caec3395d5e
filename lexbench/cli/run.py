"""Run systems on a suite or on one dataset."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lexbench.cli._output import json_option, print_json, print_rich
from lexbench.cli._progress import shown
from lexbench.cli._timing import settings, timing_options

if TYPE_CHECKING:
    from lexbench.runner.plan import Plan
    from lexbench.timing.protocol import Settings

_SYSTEM = click.option(
    "-r", "--retriever", "retrievers", multiple=True, metavar="SYSTEM", help="As 'bm25(k1=0.9)'; repeatable."
)
_DRY = click.option("--dry-run", is_flag=True, help="Check everything, show the plan, do nothing.")
_DEPTH = click.option("--depth", type=click.IntRange(min=1), help="Documents kept for each query.")


@click.group()
def command() -> None:
    """Run systems on a suite or on one dataset."""


@command.command()
@click.argument("name")
@_SYSTEM
@click.option("-d", "--dataset", "datasets", multiple=True, help="Only this dataset of the suite; repeatable.")
@click.option("-m", "--measure", "measures", multiple=True, help="This measure instead of the suite's; repeatable.")
@_DEPTH
@_DRY
@click.option(
    "--results",
    "--save",
    "save",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also write result files for this leaderboard folder.",
)
@timing_options
@json_option
def suite(name: str, save: Path | None, **options: Any) -> None:
    """Run systems (default: the suite's own) on the suite NAME, or on the suite in the file NAME.toml."""
    from lexbench import suites
    from lexbench.runner import plan

    given, datasets, measures, depth = (options.pop(option) for option in ("retrievers", "datasets", "measures", "depth"))
    timing = settings(options)
    planned = plan.plan_suite(suites.suite(name), given, datasets, measures, depth, name)
    _carry_out(planned, save=save, timing=timing, **options)


@command.command()
@click.argument("name", metavar="ID|FOLDER")
@_SYSTEM
@click.option(
    "-m", "--measure", "measures", multiple=True, default=["nDCG@10", "RR@10", "R@100", "R@1000", "AP@1000"], show_default=True
)
@_DEPTH
@_DRY
@timing_options
@json_option
def dataset(name: str, retrievers: tuple[str, ...], measures: tuple[str, ...], **options: Any) -> None:
    """Run systems (default: bm25) on the dataset ID, or on a FOLDER with corpus.jsonl, queries.jsonl and qrels/."""
    from lexbench.runner import plan

    timing = settings(options)
    planned = plan.plan_dataset(name, retrievers or ("bm25",), measures, options.pop("depth") or 1000)
    _carry_out(planned, save=None, timing=timing, **options)


def _carry_out(planned: "Plan", *, save: Path | None, timing: "Settings | None", dry_run: bool, as_json: bool) -> None:
    from lexbench.cli import _report
    from lexbench.runner import jobs
    from lexbench.storage.store import Store

    if dry_run:
        _report.show_plan(planned, as_json=as_json)
        return
    outcomes = []
    with shown(planned.suite.id if planned.suite else "dataset", len(planned.jobs)) as progress:
        kept = Store(on_wait=progress.note, on_damage=progress.note)
        for outcome in jobs.run(planned, kept, progress, timing):
            outcomes.append(outcome)
            progress.job_done()
    if as_json:
        print_json(_report.document(planned, outcomes))
    else:
        print_rich(*_report.renderables(planned, outcomes))
    failed = _report.complain(outcomes)
    if save:
        _report.save(planned, outcomes, save)
    click.get_current_context().exit(1 if failed else 0)
