"""Show which terms of a query make a system's scores."""

import os
from typing import Any

import click

import lexbench
from lexbench.cli._options import COUNT, columns_option, dataset_option, described, json_option, split_option, system_option
from lexbench.cli._output import print_answer
from lexbench.cli._progress import shown


@click.command(help=described(lexbench.explain))
@click.argument("query")
@system_option("E.g. bm25 or splade_v3@impact.", multiple=False, required=True)
@dataset_option("The source of the documents, and of queries by id; see: lexbench list datasets.")
@split_option
@columns_option
@click.option("--document", "documents", multiple=True, metavar="ID", help="Explain it, not the best; repeatable.")
@click.option("-k", "--top", type=COUNT, default=3, show_default=True, help="How many of the best documents.")
@click.option("--terms", type=COUNT, default=15, show_default=True, help="Terms to show; --json has all.")
@json_option
def command(query: str, *, as_json: bool, **options: Any) -> None:
    """Explain a query; the help is that of `lexbench.explain`."""
    text = os.fsencode(query).decode(errors="replace")  # without a UTF-8 locale, Python splits letters into surrogates
    with shown() as progress:
        explanation = lexbench.explain(text, progress=progress, **options)
    print_answer(explanation, as_json=as_json)
