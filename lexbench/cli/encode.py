"""Encode corpora, whole or a part on each of several machines."""

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

_SYSTEMS = system_option("As 'lexmae_nano@impact': its encoder's vectors are made; repeatable.", required=True)
_PART = click.option(
    "--part",
    metavar="I/N",
    help="Only part I, from 0, of N; or slurm, torchrun, kubernetes/N: as the environment of such a job says.",
)


@click.group()
def command() -> None:
    """Encode corpora, whole or a part on each of several machines that share a store."""


@command.command()
@click.argument("name", metavar="ID|FOLDER")
@_SYSTEMS
@_PART
@executor_option
@json_option
def dataset(name: str, systems: tuple[str, ...], **options: Any) -> None:
    """Encode the corpus of the dataset ID, or of a FOLDER with corpus.jsonl, with the encoders of systems."""
    from lexbench.runner import plan

    _carry_out(plan.plan_dataset(name, systems, ("nDCG@10",), 1000), **options)


@command.command()
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
    """Encode, and say what is left to other parts."""
    from lexbench.executors import executor
    from lexbench.runner.parts import encode
    from lexbench.storage.store import Store

    number, of = _part(part, os.environ) if part else (0, 1)
    encoding = executor(on)
    rows = []
    with shown() as progress:
        store = Store(on_wait=progress.note, on_damage=progress.note)
        for encoded in encode(plan, store, (number, of), progress, encoding):
            rows.append(encoded)
            if not as_json:
                left = f"{encoded.left:,} shards are left to other parts" if encoded.left else f"complete, in {encoded.folder}"
                say(f"{encoded.corpus}, {encoded.encoder}: part {number} of {of} is done; {left}")
    if as_json:
        print_json([row._asdict() | {"folder": str(row.folder), "part": number, "of": of} for row in rows])


_JOBS: Mapping[str, tuple[str, ...]] = {  # where launchers say which of how many a process is: number, count, first number
    "slurm": ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"),
    "torchrun": ("RANK", "WORLD_SIZE"),
    "kubernetes": ("JOB_COMPLETION_INDEX",),
}


def _part(typed: str, environment: Mapping[str, str]) -> tuple[int, int]:
    """Return which part is meant, from 0, of how many."""
    name, _, count = typed.partition("/")
    if name in _JOBS:
        values = [environment.get(variable, "") for variable in _JOBS[name]]
        if missing := [variable for variable, value in zip(_JOBS[name], values, strict=True) if not value.isdigit()]:
            raise click.UsageError(f"--part {typed}: {missing[0]} is not set here, as such a job has it; type --part 0/16, say")
        number, of, first = [*map(int, values), *([int(count)] if count.isdigit() else []), 0, 0][:3]
        number -= first if len(values) > 2 else 0  # noqa: PLR2004 - only then is there a first number
    elif re.fullmatch(r"\d+/\d+", typed):
        number, of = map(int, typed.split("/"))
    else:
        raise click.UsageError(f"--part {typed}: write it like 0/16, or one of {', '.join(_JOBS)}")
    if number >= of:
        raise click.UsageError(f"--part {typed} is part {number} of {of}: parts are counted from 0, as 0/{of or 16}")
    return number, of
