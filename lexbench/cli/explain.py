"""Show which terms of a query make a system's scores."""

import os

import click

from lexbench.cli._options import json_option, system_option
from lexbench.cli._output import print_json, print_rich
from lexbench.cli._progress import shown


@click.command()
@click.argument("query")
@system_option("As bm25, or splade_v3@impact.", multiple=False, required=True)
@click.option(
    "-d",
    "--dataset",
    metavar="ID|FOLDER",
    help="Where the documents, and queries by id, are from: see `lexbench list datasets`.",
)
@click.option("--document", "documents", multiple=True, metavar="ID", help="Explain this document, not the best; repeatable.")
@click.option("-k", "--top", type=click.IntRange(min=1), default=3, show_default=True, help="How many of the best documents.")
@click.option("--terms", type=click.IntRange(min=1), default=15, show_default=True, help="Terms shown; --json has all.")
@json_option
def command(
    query: str, system: str, dataset: str | None, documents: tuple[str, ...], *, top: int, terms: int, as_json: bool
) -> None:
    """Show the terms of QUERY, a text or qid:ID of the dataset, and what each adds to the scores of documents.

    What is added up is the weight in the query times that in the document; for bm25 the idf, as often as the query has the
    term, times the part of its frequency. An index that is not in the store is made.
    """
    from lexbench.analysis.explain import explain
    from lexbench.report import explain as report
    from lexbench.report.terminal import render
    from lexbench.storage.store import Store

    with shown() as progress:
        store = Store(on_wait=progress.note, on_damage=progress.note)
        text = os.fsencode(query).decode(errors="replace")  # a locale without UTF-8 makes halves of pairs of its letters
        explanation = explain(text, system, dataset, documents, top, store=store, progress=progress)
    if as_json:
        print_json(report.document(explanation))
    else:
        print_rich(*(render(table) for table in report.tables(explanation, terms)))
