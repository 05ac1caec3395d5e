"""Show which terms of a query make a system's scores."""

import os

import click

from lexbench.cli._options import COUNT, dataset_option, json_option, system_option
from lexbench.cli._output import open_store, print_answer
from lexbench.cli._progress import shown


@click.command()
@click.argument("query")
@system_option("E.g. bm25 or splade_v3@impact.", multiple=False, required=True)
@dataset_option("The source of the documents, and of queries by id; see: lexbench list datasets.")
@click.option("--document", "documents", multiple=True, metavar="ID", help="Explain it, not the best; repeatable.")
@click.option("-k", "--top", type=COUNT, default=3, show_default=True, help="How many of the best documents.")
@click.option("--terms", type=COUNT, default=15, show_default=True, help="Terms to show; --json has all.")
@json_option
def command(
    query: str, system: str, dataset: str | None, documents: tuple[str, ...], *, top: int, terms: int, as_json: bool
) -> None:
    """Show the terms of QUERY and what each adds to the scores of documents.

    QUERY is a text, or the id of a query of the dataset (also as qid:ID).

    A term adds its weight in the query times its weight in the document. For bm25 that is the idf, counted as often as the
    query has the term, times the term frequency part. A missing index is built first.
    """
    from lexbench.analysis.explain import as_json_document, explain, tables

    with shown() as progress:
        text = os.fsencode(query).decode(errors="replace")  # without a UTF-8 locale, Python splits letters into surrogates
        explanation = explain(text, system, dataset, documents, top, store=open_store(progress.note), progress=progress)
    print_answer(as_json_document(explanation), lambda: tables(explanation, terms), as_json=as_json)
