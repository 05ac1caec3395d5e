"""Leave one contributor to a pool out at a time."""

from functools import partial
from pathlib import Path

import click

from lexbench.cli._options import json_option
from lexbench.cli._output import print_json, print_rich, say

_DEPTH = 100  # of pools whose depth nobody states


@click.command()
@click.argument("systems", nargs=-1, required=True, metavar="SYSTEM|RUN...")
@click.option("-d", "--dataset", metavar="ID|FOLDER", help="Whose judgements and rules; SYSTEMs are those that were run on it.")
@click.option("--qrels", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A qrels file, without rules.")
@click.option("-m", "--measure", default="nDCG@10", show_default=True, metavar="MEASURE")
@click.option("-c", "--contributor", "contributors", multiple=True, metavar="SYSTEM|RUN", help="One of them; repeatable.")
@click.option(
    "--depth", type=click.IntRange(min=1), help="How much of a contributor's list was judged; default: the dataset's."
)
@json_option
def command(
    systems: tuple[str, ...],
    dataset: str | None,
    qrels: Path | None,
    measure: str,
    contributors: tuple[str, ...],
    depth: int | None,
    *,
    as_json: bool,
) -> None:
    """Score systems again without the judgements that one contributor to the pool alone brought, for each in turn.

    That shows how unfair judgements are to a system whose results nobody judged. Contributors are those that the dataset names,
    else all. Where a dataset does not say how deep it was judged, 100 documents are taken.
    """
    import msgspec

    from lexbench import measures
    from lexbench.analysis.lists import named_runs
    from lexbench.analysis.pool import is_contributor, leave_one_out
    from lexbench.report.pool import table
    from lexbench.report.terminal import render
    from lexbench.runner.scoring import judgements
    from lexbench.storage.store import Store

    if (dataset is None) == (qrels is None):
        raise click.UsageError("give -d ID, or --qrels FILE")
    judged, contract = judgements(dataset, qrels)[:2]
    measure = measures.with_threshold(measure, contract) if contract else str(measures.parse(measure))
    runs = named_runs(systems, Store(on_damage=partial(say, err=True)), contract, judged)
    stated = contract.judging if contract else None
    named = [name for name in runs if contract and is_contributor(name, contract)]
    depth = depth or (stated.depth if stated and stated.depth else _DEPTH)
    relevant = contract.relevance.default if contract else 1
    rows = leave_one_out(runs, judged, measure, contributors or named or list(runs), depth=depth, relevant=relevant)
    if as_json:
        print_json(msgspec.to_builtins(rows))
    else:
        print_rich(render(table(rows, dataset or str(qrels), measure, depth)))
