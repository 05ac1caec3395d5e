"""Encode corpora, whole or in parts on several machines."""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from lexbench.cli._options import datasets_option, executor_option, json_option, system_option
from lexbench.cli._output import print_json, say
from lexbench.cli._progress import shown

if TYPE_CHECKING:
    from lexbench.runner.plan import Plan

_SYSTEMS = system_option("E.g. 'lexmae_nano@impact': the vectors of its encoder are made; repeatable.", required=True)
_PART = click.option(
    "--part",
    metavar="I/N",
    help="Only part I (from 0) of N; or slurm, torchrun, kubernetes/N: read the part from the environment of such a job.",
)


@click.group()
def command() -> None:
    """Encode corpora, whole or in parts on several machines that share a store."""


@command.command(short_help="Encode the corpus of a dataset or folder.")
@click.argument("name", metavar="ID|FOLDER")
@_SYSTEMS
@_PART
@executor_option
@json_option
def dataset(name: str, systems: tuple[str, ...], **options: Any) -> None:
    """Encode the corpus of the dataset ID, or of a FOLDER with corpus.jsonl, with the encoders of systems."""
    from lexbench.runner import plan

    _carry_out(plan.plan_dataset(name, systems, ("nDCG@10",), 1000), **options)


@command.command(short_help="Encode the corpora of a suite.")
@click.argument("name")
@_SYSTEMS
@datasets_option("Only this dataset of the suite; repeatable.")
@_PART
@executor_option
@json_option
def suite(name: str, systems: tuple[str, ...], datasets: tuple[str, ...], **options: Any) -> None:
    """Encode the corpora of the suite NAME with the encoders of systems."""
    from lexbench import suites
    from lexbench.runner import plan

    _carry_out(plan.plan_suite(suites.suite(name), systems, datasets, (), None, name), **options)


def _carry_out(plan: "Plan", *, part: str | None, on: str | None, as_json: bool) -> None:
    """Encode, and print per corpus and encoder what is done and what other parts still have to do."""
    from lexbench.executors import executor
    from lexbench.runner.jobs import encode
    from lexbench.storage.store import Store

    number, of = _part(part, os.environ) if part else (0, 1)
    encoding = executor(on)
    rows = []
    with shown() as progress:
        store = Store(on_wait=progress.note, on_damage=progress.note)
        for encoded in encode(plan, store, (number, of), progress, encoding):
            rows.append(encoded)
            if not as_json:
                left = f"other parts have {encoded.left:,} shards left" if encoded.left else f"complete, in {encoded.folder}"
                say(f"{encoded.corpus}, {encoded.encoder}: part {number} of {of} is done; {left}")
    if as_json:
        print_json([row._asdict() | {"folder": str(row.folder), "part": number, "of": of} for row in rows])


_JOBS: Mapping[str, tuple[str, ...]] = {  # per launcher the variables with the number, the count and the first number
    "slurm": ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"),
    "torchrun": ("RANK", "WORLD_SIZE"),
    "kubernetes": ("JOB_COMPLETION_INDEX",),
}


def _part(typed: str, environment: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of the part (from 0) and how many parts there are."""
    name, _, count = typed.partition("/")
    if name in _JOBS:
        values = [environment.get(variable, "") for variable in _JOBS[name]]
        if missing := [variable for variable, value in zip(_JOBS[name], values, strict=True) if not value.isdigit()]:
            raise click.UsageError(f"--part {typed}: {missing[0]} is not set; use e.g. --part 0/16")
        number, of, first = [*map(int, values), *([int(count)] if count.isdigit() else []), 0, 0][:3]
        number -= first if len(values) > 2 else 0  # noqa: PLR2004 - only Slurm's arrays have a first number
    elif re.fullmatch(r"\d+/\d+", typed):
        number, of = map(int, typed.split("/"))
    else:
        raise click.UsageError(f"--part {typed}: write e.g. 0/16, or one of {', '.join(_JOBS)}")
    if number >= of:
        raise click.UsageError(f"--part {typed} is part {number} of {of}, but parts count from 0: write e.g. 0/{of or 16}")
    return number, of
