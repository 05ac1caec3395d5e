"""Say which ranks of a leaderboard can be told apart, and what is mixed or missing."""

from pathlib import Path
from typing import Any

import click

from lexbench.cli._options import EXISTING, json_option
from lexbench.cli._output import print_answer

_MEASURE = click.option("-m", "--measure", metavar="MEASURE", help="Default: each dataset's headline; of runs, nDCG@10.")


class _Audit(click.Group):
    """A group whose command `board` need not be typed."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the subcommand; `audit PATH` is `audit board PATH`."""
        known = args and args[0] in self.commands
        return super().resolve_command(ctx, args if known else ["board", *args])


@click.group(cls=_Audit, context_settings={"ignore_unknown_options": True})
def command() -> None:
    """Say which ranks of a leaderboard can be told apart, and what is mixed or missing.

    `lexbench audit PATH` reads a folder of results of lexbench or MTEB, a folder of runs with a qrels file, or a CSV table.
    """


@command.command(short_help="Audit a board: a folder or a CSV table.")
@click.argument("path", type=EXISTING)
@_MEASURE
@json_option
def board(path: Path, measure: str | None, *, as_json: bool) -> None:
    """Audit the board in PATH.

    PATH is a folder of lexbench's results, MTEB's results (MODEL/REVISION/TASK.json), runs with a qrels file (a folder per
    dataset if there are several), or a CSV table: a column per dataset, or columns system, dataset, score, and optionally
    measure and revision.
    """
    from lexbench.analysis.audit import audit
    from lexbench.interop.boards import read_boards

    tables = [table for one in read_boards(path, measure) for table in audit(one)]
    print_answer(tables, lambda: tables, as_json=as_json)


@command.command(short_help="How well a small suite predicts the order of systems on a large one.")
@click.argument("small", metavar="SUITE|DATASET,...")
@click.option("--of", "large", metavar="SUITE|DATASET,...", help="The large suite; default: all others that most systems have.")
@click.option("--board", "path", type=EXISTING, help="Where the results are, as for `audit PATH`; default: the store.")
@_MEASURE
@json_option
def suite(small: str, large: str | None, path: Path | None, measure: str | None, *, as_json: bool) -> None:
    """Say how well a small suite predicts the order of systems on a large one, from stored results."""
    from lexbench.analysis.audit import predict
    from lexbench.interop.boards import merged_board, suite_datasets

    tables = [predict(merged_board(path, measure), suite_datasets(small), suite_datasets(large) if large else ())]
    print_answer(tables, lambda: tables, as_json=as_json)
