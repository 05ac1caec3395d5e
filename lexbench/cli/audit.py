"""Say which ranks of a leaderboard can be told apart, and what is mixed or missing."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import EXISTING, described, json_option
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


@command.command(help=described(lexbench.audit), short_help="Audit a board: a folder or a CSV table.")
@click.argument("path", type=EXISTING)
@_MEASURE
@json_option
def board(*, as_json: bool, **options: Any) -> None:
    """Audit a board; the help is that of `lexbench.audit`."""
    print_answer(lexbench.audit(**options), as_json=as_json)


@command.command(
    help=described(lexbench.audit_suite), short_help="How well a small suite predicts the order of systems on a large one."
)
@click.argument("small", metavar="SUITE|DATASET,...")
@click.option("--of", "large", metavar="SUITE|DATASET,...", help="The large suite; default: all others that most systems have.")
@click.option("--board", "path", type=EXISTING, help="Where the results are, as for `audit PATH`; default: the store.")
@_MEASURE
@json_option
def suite(*, as_json: bool, **options: Any) -> None:
    """Audit a suite; the help is that of `lexbench.audit_suite`."""
    print_answer(lexbench.audit_suite(**options), as_json=as_json)
