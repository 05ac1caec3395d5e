"""Run systems on a suite or on one dataset."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import click

from lexbench.cli import _options
from lexbench.cli._output import open_store, print_answer, print_rows, say
from lexbench.cli._progress import shown
from lexbench.contracts import MEASURES

if TYPE_CHECKING:
    from lexbench.results import Result
    from lexbench.runner.jobs import Outcome
    from lexbench.runner.plan import Plan
    from lexbench.timing.protocol import Settings

_SYSTEMS = _options.system_option("E.g. 'bm25(k1=0.9)', or your own module:function; repeatable.")
_SETTINGS = _options.together(  # of both commands
    click.option("--depth", type=_options.COUNT, help="Documents to keep per query."),
    click.option("--dry-run", is_flag=True, help="Check everything and show the plan; run nothing."),
    click.option("--brief", is_flag=True, help="Show one table: nDCG, MRR, recall, queries per second, index size."),
    click.option("--results", type=_options.FOLDER, metavar="FOLDER", help="Also write the results into this folder."),
    _options.seeds_option,
    _options.executor_option,
    _options.timing_options,
    _options.json_option,
)


class _Group(click.Group):
    """A group whose subcommand may be left out: `lexbench run pydoc`."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the subcommand. Without one, return `suite` or `dataset`, whichever the first argument is."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            from lexbench.runner.plan import kind_of

            name, kind = args[0], kind_of(args[0])
            other = f"; for the folder, type: lexbench run ./{name}" if kind != "folder" and Path(name).is_dir() else ""
            say(f"{name} is a {kind}{other}", err=True)
            args = ["suite" if kind == "suite" else "dataset", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_Group)
def command() -> None:
    """Run systems on a suite or on one dataset.

    `lexbench run NAME` runs the suite, dataset or folder NAME, whichever it is.
    """


@command.command(short_help="Run systems on the datasets of a suite.")
@click.argument("name")
@_SYSTEMS
@_options.datasets_option("Only this dataset of the suite; repeatable.")
@_options.measures_option("Show this measure instead of the suite's; repeatable.")
@_SETTINGS
def suite(name: str, results: Path | None, **options: Any) -> None:
    """Run systems (default: the suite's own) on the suite NAME, or on the suite in the file NAME.toml."""
    from lexbench import suites
    from lexbench.runner import plan

    systems, datasets, measures, depth = (options.pop(option) for option in ("systems", "datasets", "measures", "depth"))
    timing, chosen = _options.timing_settings(options), suites.suite(name)
    if options["brief"]:
        measures = plan.with_both_recalls(measures or chosen.measures)
    planned = plan.plan_suite(chosen, systems, datasets, measures, depth, name)
    _carry_out(planned, folder=results, timing=timing, **options)


@command.command(short_help="Run systems on one dataset, or on a folder of your own.")
@click.argument("name", metavar="ID|FOLDER|hf:ORG/NAME|ir_datasets:ID")
@_SYSTEMS
@_options.measures_option(default=MEASURES)
@click.option("--split", metavar="NAME", help="Which judgements of a FOLDER, e.g. dev; default: test, or the only ones.")
@_SETTINGS
def dataset(
    name: str, systems: tuple[str, ...], measures: tuple[str, ...], *, split: str | None, results: Path | None, **options: Any
) -> None:
    """Run systems (default: bm25) on one dataset: an ID, a FOLDER, or a dataset of the Hugging Face hub or of ir_datasets.

    A FOLDER has documents, queries and judgements: corpus, queries and qrels as .jsonl, .csv, .tsv or .parquet, MS MARCO's
    files, or those of TREC. hf:ORG/NAME@REVISION#SPLIT is a dataset of the hub in BEIR's layout.
    """
    from lexbench.runner import plan

    timing = _options.timing_settings(options)
    if options["brief"]:
        measures = plan.with_both_recalls(measures)
    planned = plan.plan_dataset(name, systems or ("bm25",), measures, options.pop("depth") or 1000, split)
    _carry_out(planned, folder=results, timing=timing, **options)


def _carry_out(  # noqa: PLR0913 - options
    plan: "Plan", *, folder: Path | None, timing: "Settings | None", seeds: tuple[str, ...], on: str | None, dry_run: bool,
    brief: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run the jobs of *plan* and print their results, or print the plan."""
    from lexbench.analysis.seeds import check_members, merge_seeds, seed_groups
    from lexbench.executors import executor

    encoding, of_seeds = executor(on), seed_groups(seeds)
    for members in of_seeds.values():
        check_members(members, [(job.system.name, job.system.alias_of) for job in plan.jobs])
    for line in plan.lines:
        say(line, err=True)
    if dry_run:
        _show_plan(plan, as_json=as_json)
        return
    if folder:
        _check_writable(folder)
    from lexbench.report.run import brief_tables, tables
    from lexbench.runner import jobs
    from lexbench.timing.timer import Timer

    outcomes = []
    with shown(plan.suite.id if plan.suite else "dataset", len(plan.jobs)) as progress:
        timer = Timer(timing) if timing else None
        for outcome in jobs.run(plan, open_store(progress.note), progress, timer, encoding):
            outcomes.append(outcome)
            progress.job_done()
    results = [outcome.result for outcome in outcomes if outcome.result]
    if not any(outcome.error for outcome in outcomes):
        results = merge_seeds(results, of_seeds)
    elif of_seeds:
        say("seeds are shown one by one, because a job failed", err=True)
    document = _document(plan, outcomes, results)
    print_answer(document, lambda: brief_tables(results) if brief else tables(results, plan.suite), as_json=as_json)
    failed = _print_failures(outcomes)
    if folder:
        save(plan, results, folder)
    click.get_current_context().exit(1 if failed else 0)


def _check_writable(folder: Path) -> None:
    """Create *folder*. Raises CannotStart if that fails: before the work, not after it."""
    from lexbench.errors import CannotStart

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # the folder may exist and allow no files
            pass
    except OSError as error:
        raise CannotStart(f"cannot write results to {folder}: {error.strerror}") from None


def _show_plan(plan: "Plan", *, as_json: bool) -> None:
    """Print the jobs of a plan and the disk space they need. Raises MissingData if a run file is missing."""
    from lexbench.storage.store import readable_bytes

    for job in plan.jobs:
        if job.system.retriever.finished:
            job.system.retriever.file_identity(job.contract.id)
    rows = [
        (job.contract.id, job.system.name, f"{job.contract.expected.documents or '?'}", str(job.depth)) for job in plan.jobs
    ]
    print_rows(("dataset", "system", "documents", "depth"), rows, as_json=as_json)
    if not as_json:
        count = f"{len(plan.jobs)} job{'s' * (len(plan.jobs) != 1)}"
        say(f"{count}; at most about {readable_bytes(plan.bytes_needed)} of disk; nothing was run.")


def _document(plan: "Plan", outcomes: "Sequence[Outcome]", results: "Sequence[Result]") -> dict[str, Any]:
    """Return everything about a run as one JSON document."""

    def job(outcome: "Outcome") -> dict[str, str]:
        return {"dataset": outcome.job.contract.id, "system": outcome.job.system.name}

    return {
        "suite": plan.suite.id if plan.suite else None,
        "results": results,
        "failures": [{**job(outcome), "error": outcome.error, "again": outcome.again} for outcome in outcomes if outcome.error],
        "untimed": [{**job(outcome), "error": outcome.untimed} for outcome in outcomes if outcome.untimed],
        "aggregates": [
            {"id": one.id, "system": system, "present": mean.present, "of": len(one.members), "mean": mean.value}
            for one in (plan.suite.aggregates if plan.suite else ())
            for system in dict.fromkeys(result.system for result in results)
            for mean in [one.over_results([result for result in results if result.system == system])]
        ],
    }


def _print_failures(outcomes: "Sequence[Outcome]") -> bool:
    """Print on stderr which jobs failed, with the command to repeat them, and which were not timed. Returns whether any."""
    failed = [outcome for outcome in outcomes if outcome.error]
    untimed = [outcome for outcome in outcomes if outcome.untimed]
    for outcome in untimed:
        say(f"not timed: {outcome.job.name}: {outcome.untimed}", err=True)
    # A missing dataset fails all its systems with the same line, which is printed once.
    for line in dict.fromkeys(f"failed: {o.error}" + (f"; again: {o.again}" if o.again else "") for o in failed):
        say(line, err=True)
    if failed:
        say(f"{len(failed)} of {len(outcomes)} jobs failed", err=True)
    return bool(failed or untimed)


def save(plan: "Plan", results: "Sequence[Result]", folder: Path) -> None:
    """Write the results into a folder of results, and print where they are."""
    from lexbench.results import write_results
    from lexbench.suites import DATASETS

    written = write_results(results, plan.suite.id if plan.suite else DATASETS, folder, partial(say, err=True))
    if written:
        count = f"{len(written)} system{'s' * (len(written) > 1)}"
        page = f"lexbench leaderboard --results {quote(str(folder))}"
        say(f"results of {count} are in {written[0].parent}; to build the page, type: {page}", err=True)
