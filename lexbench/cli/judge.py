"""Judge documents in the browser or with a language model, or test a pool."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import (
    COUNT,
    EXISTING_FILE,
    EXISTING_FOLDER,
    FILE,
    columns_option,
    dataset_option,
    described,
    json_option,
    split_option,
)
from lexbench.cli._output import print_answer, say
from lexbench.cli._progress import shown


@click.group()
def command() -> None:
    """Judge documents in the browser or with a language model, or test how much a pool favours its contributors."""


@command.command(help=described(lexbench.judge_page), short_help="Judge the pool of a collection in the browser.")
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--name", default="judge-1", show_default=True, help="Your name; a second person takes another.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port of the page; default: a free one.")
def page(**options: Any) -> None:
    """Serve the page; the help is that of `lexbench.judge_page`."""
    opened = lexbench.judge_page(**options)
    done, total = opened.state["done"], opened.state["total"]
    say(f"{done:,} of {total:,} documents are judged; judge in your browser, and type Ctrl-C here to end:")
    say(opened.url)
    print_answer(opened.serve(), as_json=False)


@command.command(help=described(lexbench.judge), short_help="Grade the first documents of lists with a model.")
@click.argument("systems", nargs=-1, required=True, metavar="SYSTEM|RUN...")
@dataset_option("The dataset; SYSTEMs must have been run on it.", required=True)
@split_option
@columns_option
@click.option("--judge", required=True, metavar="JUDGE", help='E.g. endpoint_judge(url="http://localhost:8000").')
@click.option("--output", required=True, type=FILE, help="The qrels file to write.")
@click.option("-k", "depth", type=COUNT, default=10, show_default=True, help="Documents of each list.")
@click.option("--unjudged", is_flag=True, help="Only documents without a judgement.")
@json_option
def documents(*, as_json: bool, **options: Any) -> None:
    """Let a model judge; the help is that of `lexbench.judge`."""
    with shown() as progress:
        made = lexbench.judge(progress=progress, **options)
    print_answer(made, as_json=as_json)


@command.command(help=described(lexbench.judge_pool), short_help="Leave out one contributor to the pool at a time.")
@click.argument("systems", nargs=-1, required=True, metavar="SYSTEM|RUN...")
@dataset_option("The dataset with the judgements and rules; SYSTEMs must have been run on it.")
@split_option
@columns_option
@click.option("--qrels", type=EXISTING_FILE, help="A qrels file instead of a dataset, without rules.")
@click.option("-m", "--measure", default="nDCG@10", show_default=True, metavar="MEASURE")
@click.option("-c", "--contributor", "contributors", multiple=True, metavar="SYSTEM|RUN", help="A contributor; repeatable.")
@click.option("--depth", type=COUNT, help="Judged documents per list; default: the dataset's, or 100.")
@json_option
def pool(*, as_json: bool, **options: Any) -> None:
    """Test a pool; the help is that of `lexbench.judge_pool`."""
    with shown() as progress:
        tested = lexbench.judge_pool(progress=progress, **options)
    print_answer(tested, as_json=as_json)
