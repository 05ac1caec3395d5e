"""Show how alike the ranked lists of systems are, whatever is relevant."""

from functools import partial

import click

from lexbench.cli._options import json_option
from lexbench.cli._output import print_json, print_rich, say


@click.command()
@click.argument("systems", nargs=-1, required=True, metavar="SYSTEM|RUN...")
@click.option(
    "-d", "--dataset", metavar="ID|FOLDER", help="SYSTEMs are those that were run on it; its rules hold for RUNs, too."
)
@click.option("-k", "depths", type=click.IntRange(min=1), multiple=True, default=(10, 100), show_default=True)
@click.option("-p", "persistence", type=float, default=0.9, show_default=True, help="Of RBO: higher looks deeper.")
@json_option
def command(
    systems: tuple[str, ...], dataset: str | None, depths: tuple[int, ...], persistence: float, *, as_json: bool
) -> None:
    """Compare ranked lists with those of the first: documents in common, the same order, and rank-biased overlap (RBO).

    It takes no judgements: two systems may have the same mean and find other documents. A RUN is a run file.
    """
    import msgspec

    from lexbench.analysis.lists import named_runs
    from lexbench.analysis.overlap import overlaps
    from lexbench.datasets.find import scored_by
    from lexbench.report.overlap import table
    from lexbench.report.terminal import render
    from lexbench.storage.store import Store

    runs = named_runs(systems, Store(on_damage=partial(say, err=True)), scored_by(dataset)[0] if dataset else None)
    rows = overlaps(runs, depths, persistence)
    if as_json:
        print_json(msgspec.to_builtins(rows, str_keys=True))
    else:
        print_rich(render(table(rows, next(iter(runs)), persistence)))
