"""Encode corpora, whole or in parts on several machines."""

import re
from typing import TYPE_CHECKING, Any

import click

from lexbench.cli._options import datasets_option, executor_option, json_option, system_option, together
from lexbench.cli._output import open_store, print_json, say
from lexbench.cli._progress import shown

if TYPE_CHECKING:
    from lexbench.runner.plan import Plan

_SYSTEMS = system_option("E.g. 'lexmae_nano@impact': the vectors of its encoder are made; repeatable.", required=True)
_SETTINGS = together(  # of both commands
    click.option("--part", metavar="I/N", help="Encode only part I (from 0) of N, e.g. on one of N machines."),
    executor_option,
    json_option,
)


@click.group()
def command() -> None:
    """Encode corpora, whole or in parts on several machines that share a store."""


@command.command(short_help="Encode the corpus of a dataset or folder.")
@click.argument("name", metavar="ID|FOLDER")
@_SYSTEMS
@_SETTINGS
def dataset(name: str, systems: tuple[str, ...], **options: Any) -> None:
    """Encode the corpus of the dataset ID, or of a FOLDER with corpus.jsonl, with the encoders of systems."""
    from lexbench.runner import plan

    _carry_out(plan.plan_dataset(name, systems, ("nDCG@10",), 1000), **options)


@command.command(short_help="Encode the corpora of a suite.")
@click.argument("name")
@_SYSTEMS
@datasets_option("Only this dataset of the suite; repeatable.")
@_SETTINGS
def suite(name: str, systems: tuple[str, ...], datasets: tuple[str, ...], **options: Any) -> None:
    """Encode the corpora of the suite NAME with the encoders of systems."""
    from lexbench import suites
    from lexbench.runner import plan

    _carry_out(plan.plan_suite(suites.suite(name), systems, datasets, (), None, name), **options)


def _carry_out(plan: "Plan", *, part: str | None, on: str | None, as_json: bool) -> None:
    """Encode, and print per corpus and encoder what is done and what other parts still have to do."""
    from lexbench.executors import executor
    from lexbench.runner.jobs import encode

    number, of = _part(part) if part else (0, 1)
    encoding = executor(on)
    rows = []
    with shown() as progress:
        for encoded in encode(plan, open_store(progress.note), (number, of), progress, encoding):
            rows.append(encoded)
            if not as_json:
                left = f"other parts have {encoded.left:,} shards left" if encoded.left else f"complete, in {encoded.folder}"
                say(f"{encoded.corpus}, {encoded.encoder}: part {number} of {of} is done; {left}")
    if as_json:
        print_json([row._asdict() | {"folder": str(row.folder), "part": number, "of": of} for row in rows])


def _part(typed: str) -> tuple[int, int]:
    """Return the number of the part (from 0) and how many parts there are."""
    if not re.fullmatch(r"\d+/\d+", typed):
        raise click.UsageError(f"--part {typed}: write e.g. 0/16")
    number, of = map(int, typed.split("/"))
    if number >= of:
        raise click.UsageError(f"--part {typed} is part {number} of {of}, but parts count from 0: write e.g. 0/{of or 16}")
    return number, of
