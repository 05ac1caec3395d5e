"""Score a run file under the rules of a dataset."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lexbench.cli._options import EXISTING_FILE, dataset_option, json_option, measures_option, slices_option
from lexbench.cli._output import open_store, print_answer, print_rows
from lexbench.contracts import MEASURES

if TYPE_CHECKING:
    from lexbench.trec.runs import Precision


@click.command()
@click.argument("run", metavar="RUN|SYSTEM")
@dataset_option("Its judgements and rules count; see: lexbench list datasets, or your own folder.")
@click.option("--qrels", type=EXISTING_FILE, help="A qrels file: without rules, or with -d under the rules of that dataset.")
@measures_option(default=MEASURES)
@click.option("--scores", "precision", type=click.Choice(("double", "float32")), default="double", show_default=True,
              help="Precision of compared scores: double like trec_eval; float32 like pytrec_eval, BEIR and MTEB.")  # fmt: skip
@slices_option("Also score the groups of queries in this file.")
@click.option("--per-query", is_flag=True, help="Print the values of every query.")
@json_option
def command(  # noqa: PLR0913 - options
    run: str, dataset: str | None, qrels: Path | None, measures: tuple[str, ...], precision: "Precision", slices: Path | None,
    *, per_query: bool, as_json: bool,
) -> None:  # fmt: skip
    """Score RUN, a TREC run file (may be compressed), over all judged queries, with ties in trec_eval's order.

    With -d, RUN may also be a SYSTEM that was run on the dataset: then its run in the store is scored.
    """
    import msgspec

    from lexbench.analysis.slices import read_slices, slice_scores, slice_table
    from lexbench.analysis.stored_results import find_runs
    from lexbench.datasets.location import find_dataset
    from lexbench.report.run import tables
    from lexbench.runner import scoring

    if dataset is None and qrels is None:
        raise click.UsageError("give -d ID, --qrels FILE, or both")
    declared = read_slices(slices) if slices else None
    contract = find_dataset(dataset)[0] if dataset else None
    runs = find_runs([run], open_store(), contract)
    if len(runs) > 1:
        raise click.UsageError(f"{run} stands for {len(runs)} systems; score one, e.g. {next(iter(runs))}")
    (ranked,) = runs.values()
    name = Path(run).name if Path(run).is_file() else run
    result = scoring.score_lists(ranked, name, measures, scoring.judgements(dataset, qrels), precision)
    of_slices = slice_scores(result, declared) if declared else []
    if per_query and not as_json:
        columns = zip(*result.per_query.values(), strict=True)
        rows = [(query, *(f"{value:.4f}" for value in values)) for query, values in zip(result.query_ids, columns, strict=True)]
        print_rows(("query", *result.per_query), rows, as_json=False)
        return
    document = {**msgspec.structs.asdict(result), **({"slices": of_slices} if of_slices else {})}
    of_file = [slice_table(of_slices, result, declared.sha256)] if declared else []
    print_answer(document, lambda: [*tables([result], None), *of_file], as_json=as_json)
