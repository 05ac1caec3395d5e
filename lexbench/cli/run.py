"""Run systems on a suite or on one dataset."""

from pathlib import Path
from shlex import quote
from typing import Any

import click

import lexbench
from lexbench.cli import _options
from lexbench.cli._output import print_answer, print_json, print_tables, say
from lexbench.cli._progress import shown

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
            name, kind = args[0], lexbench.kind_of(args[0])
            other = f"; for the folder, type: lexbench run ./{name}" if kind != "folder" and Path(name).is_dir() else ""
            say(f"{name} is {'judgements' if Path(name).is_file() and kind == 'folder' else f'a {kind}'}{other}", err=True)
            args = ["suite" if kind == "suite" else "dataset", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_Group)
def command() -> None:
    """Run systems on a suite or on one dataset.

    `lexbench run NAME` runs the suite, dataset or folder NAME, whichever it is.
    """


@command.command(short_help="Run systems on the datasets of a suite.")
@click.argument("data", metavar="NAME")
@_SYSTEMS
@_options.datasets_option("Only this dataset of the suite; repeatable.")
@_options.measures_option("Show this measure instead of the suite's; repeatable.")
@_SETTINGS
def suite(data: str, **options: Any) -> None:
    """Run systems (default: the suite's own) on the suite NAME, or on the suite in the file NAME.toml."""
    lexbench.suite(data)  # raises for a name that is no suite
    _carry_out(data, **options)


@command.command(short_help="Run systems on one dataset, or on a folder of your own.")
@click.argument("data", metavar="ID|FOLDER|hf:ORG/NAME|ir_datasets:ID")
@_SYSTEMS
@_options.measures_option(_options.DEFAULT_MEASURES)
@_options.split_option
@_options.columns_option
@_SETTINGS
def dataset(data: str, **options: Any) -> None:
    """Run systems (default: bm25) on one dataset: an ID, a FOLDER, or a dataset of the Hugging Face hub or of ir_datasets.

    A FOLDER has documents, queries and judgements: corpus, queries and qrels as .jsonl, .csv, .tsv or .parquet, MS MARCO's
    files, or those of TREC. hf:ORG/NAME@REVISION#SPLIT is a dataset of the hub in BEIR's layout.
    """
    if (
        not data.startswith((".", "/", "~")) and lexbench.kind_of(data) == "suite"
    ):  # also the name of a folder here, or no dataset at all
        data = f"./{data}" if Path(data).is_dir() else lexbench.dataset(data).contract.id
    _carry_out(data, **options)


def _carry_out(data: Any, *, dry_run: bool, brief: bool, as_json: bool, **options: Any) -> None:
    """Run the systems and print their results, or print the plan."""
    time = _options.timing_settings(options)
    with shown() as progress:
        if dry_run:
            names = ("systems", "datasets", "measures", "depth", "split", "columns")
            settings: dict[str, Any] = {name: value for name in names if (value := options.get(name))}
            planned = lexbench.plan(data, progress=progress, **settings)
        else:
            found = lexbench.run(data, time=time, brief=brief, progress=progress, **options)
    if dry_run:
        print_answer(planned, as_json=as_json)
        return
    summary = lexbench.summary(found, brief=brief)
    if as_json:
        print_json(summary.document())
    else:
        print_tables(summary.tables())  # failures go to stderr
    _print_failures(found)
    if (folder := options["results"]) and len(found):
        systems = f"{len(found.systems)} system{'s' * (len(found.systems) > 1)}"
        page = f"lexbench leaderboard --results {quote(str(folder))}"
        say(f"results of {systems} are in {folder}; to build the page, type: {page}", err=True)
    click.get_current_context().exit(1 if found.failures or found.unmeasured else 0)


def _print_failures(found: "lexbench.Results") -> None:
    """Print on stderr what was not timed, what was not measured, and what failed, with the command to repeat it."""
    failed = [failure for failure in found.failures if not failure.scored]
    for failure in found.failures:
        if failure.scored:
            say(f"not timed: {failure.system} on {failure.dataset}: {failure.error}", err=True)
    for line in found.unmeasured:
        say(line, err=True)
    # A missing dataset fails all its systems with the same line, which is printed once.
    for line in dict.fromkeys(f"failed: {one.error}" + (f"; again: {one.again}" if one.again else "") for one in failed):
        say(line, err=True)
    if failed:
        say(f"{len(failed)} of {len(failed) + len(found)} jobs failed", err=True)
