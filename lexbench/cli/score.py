"""Score a run file, from any system, under a dataset's contract."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lexbench.cli._options import MEASURES, json_option, measures_option
from lexbench.cli._output import print_json, print_rich, print_rows

if TYPE_CHECKING:
    from lexbench.trec.runs import Precision


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("-d", "--dataset", metavar="ID", help="Whose judgements and rules: see `lexbench list datasets`.")
@click.option(
    "--qrels",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A qrels file: alone, without rules, or with -d for the rules of a dataset.",
)
@measures_option(default=MEASURES)
@click.option(
    "--scores",
    "precision",
    type=click.Choice(("double", "float32")),
    default="double",
    show_default=True,
    help="As what scores are compared: double, as trec_eval since 2023; float32, as before, and as pytrec_eval, BEIR, MTEB.",
)
@click.option("--per-query", is_flag=True, help="Print every query's values.")
@json_option
def command(
    run: Path,
    dataset: str | None,
    qrels: Path | None,
    measures: tuple[str, ...],
    precision: "Precision",
    *,
    per_query: bool,
    as_json: bool,
) -> None:
    """Score RUN, a TREC run file (.gz too), in trec_eval's order, over all queries that have judgements."""
    from lexbench.report.run import tables
    from lexbench.report.terminal import render
    from lexbench.runner import scoring

    if dataset is None and qrels is None:
        raise click.UsageError("give -d ID, --qrels FILE, or both")
    result = scoring.score_file(run, measures, dataset=dataset, qrels=qrels, precision=precision)
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(result))
    elif per_query:
        columns = zip(*result.per_query.values(), strict=True)
        rows = [(query, *(f"{value:.4f}" for value in values)) for query, values in zip(result.query_ids, columns, strict=True)]
        print_rows(("query", *result.per_query), rows, as_json=False)
    else:
        print_rich(*(render(table) for table in tables([result], None)))
