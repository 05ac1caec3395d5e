"""Make a test collection from your own documents."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import COUNT, EXISTING, EXISTING_FILE, FOLDER, columns_option, described, json_option, system_option
from lexbench.cli._output import print_answer
from lexbench.cli._progress import shown


@click.command(help=described(lexbench.collect))
@click.argument("documents", type=EXISTING)
@click.option("--output", type=FOLDER, metavar="FOLDER", help="The collection; default: DOCUMENTS-collection, here.")
@columns_option
@click.option("--queries", type=EXISTING_FILE, help="Queries, one per line, or a log with counts: query<TAB>count.")
@click.option("--count", type=COUNT, help="Queries to make (default: 50), or to draw from FILE (default: all).")
@click.option("--writer", metavar="URL", help="Let the chat model of this server write the queries.")
@click.option("--writer-model", default="", metavar="NAME", help="The name of that model on the server.")
@click.option("--key", default="", metavar="VARIABLE", help="The environment variable with the key of your account there.")
@system_option("A system of the pool; repeatable; default: bm25, lexmae_nano, ensemble(bm25, lexmae_nano).")
@click.option("-k", "depth", type=COUNT, default=10, show_default=True, help="Documents of each to judge.")
@click.option("--judge", metavar="JUDGE", help='A model, e.g. endpoint_judge(url="http://localhost:8000").')
@click.option("--by", default="", metavar="NAME", help="Whose judgements count; default: the person with the most.")
@json_option
def command(*, as_json: bool, **options: Any) -> None:
    """Make a collection; the help is that of `lexbench.collect`."""
    with shown() as progress:
        collected = lexbench.collect(progress=progress, **options)
    print_answer(collected, as_json=as_json)
