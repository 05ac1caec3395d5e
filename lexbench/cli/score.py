"""Score a run under the rules of a dataset."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import (
    DEFAULT_MEASURES,
    EXISTING_FILE,
    columns_option,
    dataset_option,
    described,
    json_option,
    measures_option,
    slices_option,
    split_option,
)
from lexbench.cli._output import print_answer, print_tables, say
from lexbench.cli._progress import shown


@click.command(help=described(lexbench.score))
@click.argument("run", metavar="RUN|SYSTEM")
@dataset_option("Its judgements and rules count; see: lexbench list datasets, or your own folder.")
@split_option
@columns_option
@click.option("--qrels", type=EXISTING_FILE, help="A qrels file: without rules, or with -d under the rules of that dataset.")
@measures_option(DEFAULT_MEASURES)
@click.option("--scores", "precision", type=click.Choice(("double", "float32")), default="double", show_default=True,
              help="Precision of compared scores: double like trec_eval; float32 like pytrec_eval, BEIR and MTEB.")  # fmt: skip
@click.option("--max-passage", default="", metavar="TEXT",
              help="Ids are DOCUMENT, TEXT (e.g. #) and a passage: a document has the score of its best passage.")  # fmt: skip
@slices_option("Also score the groups of queries in this file.")
@click.option("--per-query", is_flag=True, help="Print the values of every query.")
@json_option
def command(*, per_query: bool, as_json: bool, **options: Any) -> None:
    """Score a run; the help is that of `lexbench.score`."""
    with shown() as progress:
        scored = lexbench.score(progress=progress, **options)
    if per_query and not as_json:
        print_tables([scored.query_table()])
    else:
        print_answer(scored, as_json=as_json)
    for line in scored.unmeasured:
        say(line, err=True)
    click.get_current_context().exit(1 if scored.unmeasured else 0)
