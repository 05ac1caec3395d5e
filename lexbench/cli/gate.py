"""Test retrieval quality, size and speed against a committed baseline."""

import os
from pathlib import Path
from typing import Any

import click

import lexbench
from lexbench.cli._options import FILE, columns_option, dataset_option, described, json_option, split_option, system_option
from lexbench.cli._output import print_answer
from lexbench.cli._progress import shown

_EXIT_CODES = {"pass": 0, "fail": 1, "cannot tell": 2}
_FILE = click.option(
    "--file",
    "path",
    type=FILE,
    default=Path("lexbench-gate.toml"),
    show_default=True,
    help="The gates; the baseline is in the same folder, with the ending .json.",
)
_CODES = """

Exit codes: 0 pass; 1 fail; 2 cannot tell; 3 not run: wrong command line or file, missing data, or a system that failed.
"""


@click.group(invoke_without_command=True, help=described(lexbench.gate) + _CODES)
@_FILE
@click.option("--markdown", type=FILE, metavar="FILE", help="Also write Markdown, e.g. for a comment.")
@click.option("--junit", type=FILE, metavar="FILE", help="Also write JUnit XML.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, *, as_json: bool, **options: Any) -> None:
    """Run the gates; the help is that of `lexbench.gate`."""
    if ctx.invoked_subcommand:
        return
    with shown() as progress:
        report = lexbench.gate(progress=progress, **options)
    print_answer(report, as_json=as_json)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:  # other steps write there too
            file.write(f"\n{report.markdown}")
    ctx.exit(_EXIT_CODES[report.verdict])


@command.command(help=described(lexbench.gate_init), short_help="Add a gate, and accept the present scores as its baseline.")
@dataset_option("The queries and judgements.", required=True)
@split_option
@columns_option
@system_option("What is tested: an expression, or module:function.", multiple=False, required=True)
@click.option("-m", "--measure", default="nDCG@10", show_default=True, metavar="MEASURE", help="From 0 to 1.")
@click.option("--margin", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.02, show_default=True,
              help="A smaller fall of the mean is tolerated.")  # fmt: skip
@click.option("--name", metavar="NAME", help="Default: the last part of the dataset's name.")
@_FILE
def init(**options: Any) -> None:
    """Add a gate; the help is that of `lexbench.gate_init`."""
    with shown() as progress:
        accepted = lexbench.gate_init(progress=progress, **options)
    print_answer(accepted, as_json=False)


@command.command(help=described(lexbench.gate_update), short_help="Accept the present scores as the baseline.")
@_FILE
def update(path: Path) -> None:
    """Accept scores; the help is that of `lexbench.gate_update`."""
    with shown() as progress:
        accepted = lexbench.gate_update(path, progress=progress)
    print_answer(accepted, as_json=False)
