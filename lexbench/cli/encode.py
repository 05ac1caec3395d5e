"""Encode corpora, whole or in parts on several machines."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import (
    columns_option,
    datasets_option,
    described,
    executor_option,
    json_option,
    split_option,
    system_option,
    together,
)
from lexbench.cli._output import print_json, say
from lexbench.cli._progress import shown

_SYSTEMS = system_option("E.g. 'lexmae_nano@impact': the vectors of its encoder are made; repeatable.", required=True)
_SETTINGS = together(  # of both commands
    click.option("--part", metavar="I/N", help="Encode only part I (from 0) of N, e.g. on one of N machines."),
    executor_option,
    split_option,
    columns_option,
    json_option,
)


@click.group(help=described(lexbench.encode))
def command() -> None:
    """Encode corpora."""


@command.command(short_help="Encode the corpus of a dataset or folder.")
@click.argument("data", metavar="ID|FOLDER")
@_SYSTEMS
@_SETTINGS
def dataset(**options: Any) -> None:
    """Encode the corpus of the dataset ID, or of a FOLDER with corpus.jsonl, with the encoders of systems."""
    _carry_out(**options)


@command.command(short_help="Encode the corpora of a suite.")
@click.argument("data", metavar="NAME")
@_SYSTEMS
@datasets_option("Only this dataset of the suite; repeatable.")
@_SETTINGS
def suite(**options: Any) -> None:
    """Encode the corpora of the suite NAME with the encoders of systems."""
    _carry_out(**options)


def _carry_out(*, part: str | None, as_json: bool, **options: Any) -> None:
    """Encode, and print per corpus and encoder what is done and what other parts still have to do."""
    number, _, parts = (part or "0/1").partition("/")
    rows = []
    with shown() as progress:
        for encoded in lexbench.encode(part=part, progress=progress, **options):
            rows.append({**encoded._asdict(), "folder": str(encoded.folder), "part": int(number), "of": int(parts)})
            if not as_json:
                left = f"other parts have {encoded.left:,} shards left" if encoded.left else f"complete, in {encoded.folder}"
                say(f"{encoded.corpus}, {encoded.encoder}: part {number} of {parts} is done; {left}")
    if as_json:
        print_json(rows)
