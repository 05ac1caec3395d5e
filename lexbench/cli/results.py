"""Push a folder of results to a dataset of the hub or another place, and pull others'."""

from pathlib import Path

import click

from lexbench.cli._options import FOLDER, json_option
from lexbench.cli._output import print_json, say


@click.group()
def command() -> None:
    """Push a folder of results to a dataset of the hub or another place, and pull others'.

    PLACE is hf:ORG/NAME, a data set of the Hugging Face hub; or a folder; or a URL that fsspec reaches, as s3://bucket/results.
    """


_RESULTS = click.option(
    "--results", metavar="FOLDER", type=FOLDER, default="leaderboard", show_default=True, help="The folder of results here."
)


@command.command()
@click.argument("place")
@_RESULTS
@click.option("--private", is_flag=True, help="Make a new dataset of the hub for its owners alone; else everybody reads it.")
@json_option
def push(place: str, results: Path, *, private: bool, as_json: bool) -> None:
    """Copy the results of a folder, and its pages, to PLACE: hf:ORG/NAME, a folder, or a URL."""
    from lexbench.interop import sharing

    names = sharing.push_results(results, place, private=private)
    if as_json:
        print_json({"place": place, "files": names})
    else:
        say(f"{len(names)} files are at {place}; others type: lexbench results pull {place} --results FOLDER")


@command.command()
@click.argument("place")
@_RESULTS
@json_option
def pull(place: str, results: Path, *, as_json: bool) -> None:
    """Copy the results at PLACE, each checked, into a folder; results of its own that differ are never replaced."""
    from lexbench.interop import sharing

    names = sharing.pull_results(place, results)
    if as_json:
        print_json({"place": place, "files": names})
    else:
        what = f"{len(names)} new files in {results}" if names else f"all is in {results} already"
        say(f"{what}; its pages: lexbench leaderboard --results {results}")
