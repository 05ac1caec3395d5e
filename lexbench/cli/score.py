"""Score a run file, from any system, under a dataset's contract."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lexbench.cli._options import MEASURES, json_option, measures_option
from lexbench.cli._output import print_json, print_rich, print_rows, say

if TYPE_CHECKING:
    from lexbench.analysis.precision import AtPrecision
    from lexbench.results import Result
    from lexbench.runner.scoring import Judged
    from lexbench.trec.runs import Precision, Run

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.argument("run", metavar="RUN|SYSTEM")
@click.option(
    "-d", "--dataset", metavar="ID|FOLDER", help="Whose judgements and rules: see `lexbench list datasets`, or data of yours."
)
@click.option("--qrels", type=_FILE, help="A qrels file: alone, without rules, or with -d for the rules of a dataset.")
@measures_option(default=MEASURES)
@click.option(
    "--scores",
    "precision",
    type=click.Choice(("double", "float32")),
    default="double",
    show_default=True,
    help="As what scores are compared: double, as trec_eval since 2023; float32, as before, and as pytrec_eval, BEIR, MTEB.",
)
@click.option("--slices", type=_FILE, help="Also score the slices of queries in this file, of lines 'query slice'.")
@click.option("--precisions", is_flag=True, help="Also show what scores kept in fewer bits would do: ties, ranks, means.")
@click.option("--per-query", is_flag=True, help="Print every query's values.")
@json_option
def command(  # noqa: PLR0913 - one a word of the command line
    run: str,
    dataset: str | None,
    qrels: Path | None,
    measures: tuple[str, ...],
    precision: "Precision",
    slices: Path | None,
    *,
    precisions: bool,
    per_query: bool,
    as_json: bool,
) -> None:
    """Score RUN, a TREC run file (compressed, too), in trec_eval's order, over all queries that have judgements.

    With -d it may be a SYSTEM that was run on the dataset: its run in the store is scored, by any measure.
    """
    from lexbench.analysis import lists
    from lexbench.analysis.slices import read_slices, slice_scores
    from lexbench.datasets.find import scored_by
    from lexbench.runner import scoring
    from lexbench.storage.store import Store

    if dataset is None and qrels is None:
        raise click.UsageError("give -d ID, --qrels FILE, or both")
    declared = read_slices(slices) if slices else None
    contract = scored_by(dataset)[0] if dataset else None
    (ranked,) = lists.lists_of([run], Store(on_damage=partial(say, err=True)), contract).values()
    judged = scoring.judgements(dataset, qrels)
    name = Path(run).name if Path(run).is_file() else run
    result = scoring.score_lists(ranked, name, measures, judged, precision)
    of_slices = slice_scores(result, declared) if declared else []
    at_precisions = _at_precisions(lists.ruled(ranked, contract, judged.qrels), judged, result) if precisions else []
    if as_json:
        _print_json(result, slices=of_slices, precisions=at_precisions)
    elif per_query:
        columns = zip(*result.per_query.values(), strict=True)
        rows = [(query, *(f"{value:.4f}" for value in values)) for query, values in zip(result.query_ids, columns, strict=True)]
        print_rows(("query", *result.per_query), rows, as_json=False)
    else:
        from lexbench.report import score as report
        from lexbench.report.run import tables
        from lexbench.report.terminal import render

        shown = [*tables([result], None)]
        shown += [report.of_slices(of_slices, result, declared.sha256)] if declared else []
        shown += [report.of_precisions(at_precisions, result)] if at_precisions else []
        print_rich(*(render(table) for table in shown))


def _at_precisions(run: "Run", judged: "Judged", result: "Result") -> "list[AtPrecision]":
    """Return the run, as it is scored, with its scores in fewer bits."""
    from lexbench.analysis.precision import at_precisions

    return at_precisions(run, judged.qrels, list(result.means))


def _print_json(result: "Result", **more: Any) -> None:
    """Print the result, and what was asked for besides, as one document."""
    import msgspec

    print_json(msgspec.to_builtins(result) | {name: msgspec.to_builtins(value) for name, value in more.items() if value})
