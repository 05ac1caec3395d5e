"""Compare systems: what differs, paired tests, the queries that changed."""

from functools import partial
from pathlib import Path

import click

from lexbench.cli._options import datasets_option, json_option, results_option, seeds_option
from lexbench.cli._output import print_json, print_rich, say


@click.command()
@click.argument("systems", nargs=-1, required=True, metavar="A B...")
@results_option
@datasets_option("Only this dataset; repeatable. Default: all that all have.")
@click.option("-m", "--measure", metavar="MEASURE", help="Default: the headline of the dataset's suite.")
@click.option(
    "--margin", type=click.FloatRange(min=0, min_open=True), help="Also test that no system is worse by more, as .005."
)
@click.option("--queries", type=click.IntRange(min=0), default=5, show_default=True, help="Most changed queries to show.")
@click.option("--sweep", is_flag=True, help="Show the systems as a learning curve: scores beside active terms and FLOPS.")
@click.option(
    "--fail-if-worse", is_flag=True, help="Exit with 1 if a system is worse, or with --margin not shown to be no worse."
)
@seeds_option
@click.option(
    "--slices",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Also compare on the slices of queries in this file, of lines 'query slice'.",
)
@json_option
def command(  # noqa: PLR0913, PLR0917 - one a word of the command line
    systems: tuple[str, ...],
    results: Path | None,
    datasets: tuple[str, ...],
    measure: str | None,
    margin: float | None,
    queries: int,
    seeds: tuple[str, ...],
    slices: Path | None,
    *,
    sweep: bool,
    fail_if_worse: bool,
    as_json: bool,
) -> None:
    """Compare B... with A: systems as they were run ('bm25'), or files and folders of results, for all systems in them.

    Nothing is run. A name is looked for in the files that are named, then in the store, or in the folder of --results:
    `lexbench compare bm25 build/results`. Several trainings are one system by --seeds: `lexbench compare bm25 --seeds 'nano =
    nano42, nano43, nano44'`.
    """
    import msgspec

    from lexbench.analysis.compare import compare
    from lexbench.analysis.seeds import groups
    from lexbench.analysis.slices import read_slices
    from lexbench.report.compare import tables
    from lexbench.report.terminal import render
    from lexbench.storage.store import Store

    store = Store(on_damage=partial(say, err=True))
    comparison = compare(
        systems,
        store=store,
        folder=results,
        datasets=datasets,
        measure=measure,
        margin=margin,
        queries=0 if sweep else queries,
        seeds=groups(seeds),
        slices=read_slices(slices) if slices else None,
    )
    if as_json:
        print_json(msgspec.to_builtins(comparison))
    else:
        print_rich(*(render(table) for table in tables(comparison, curve=sweep)))
    if fail_if_worse and comparison.worse:
        what = "worse than" if margin is None else f"not shown to be within {margin:g} of"
        say(f"{what} {comparison.systems[0]}: {'; '.join(comparison.worse)}", err=True)
    click.get_current_context().exit(1 if store.damaged or (fail_if_worse and comparison.worse) else 0)
