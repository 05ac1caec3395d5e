"""Compare the scores, settings or ranked lists of systems."""

from pathlib import Path
from typing import Any

import click

from lexbench.cli._options import COUNT, datasets_option, json_option, results_option, seeds_option, slices_option
from lexbench.cli._output import open_store, print_answer, say

_DEPTHS = (10, 100)


@click.command()
@click.argument("systems", nargs=-1, required=True, metavar="A B...")
@results_option
@datasets_option("Only this dataset; repeatable. Default: all datasets that every system has.")
@click.option("-m", "--measure", metavar="MEASURE", help="Default: the headline measure of the dataset's suite.")
@click.option("--margin", type=click.FloatRange(0, min_open=True), help="Test that no system is worse by more (e.g. .005).")
@click.option("--queries", type=click.IntRange(min=0), default=5, show_default=True, help="Most changed queries to show.")
@click.option("--fail-if-worse", is_flag=True, help="Exit with 1 if one is worse; with --margin, unless it is no worse.")
@seeds_option
@slices_option("Also compare on the groups of queries in this file.")
@click.option("--lists", is_flag=True, help="Compare the ranked lists instead of the scores; A and B may also be run files.")
@click.option("-k", "--depth", "depths", type=COUNT, multiple=True, help="With --lists: documents; default: 10 and 100.")
@json_option
def command(systems: tuple[str, ...], *, lists: bool, as_json: bool, **options: Any) -> None:
    """Compare B... with the baseline A.

    A and B are systems that were run (e.g. 'bm25'), result files, or folders of results, which stand for all systems in them.
    Nothing is run. Names are looked up in the given files first, then in the store or in the folder of --results:
    `lexbench compare bm25 build/results`. With --seeds several trainings count as one system: `lexbench compare bm25 --seeds
    'nano = nano42, nano43, nano44'`.

    --lists shows how similar the ranked lists are: common documents, equal order, and rank-biased overlap (RBO). It needs no
    judgements: systems with the same mean may find different documents.
    """
    depths = options.pop("depths")
    if lists:
        _compare_lists(systems, depths, as_json=as_json, **options)
    elif depths:
        raise click.UsageError("-k is a setting of --lists")
    else:
        _compare_scores(systems, as_json=as_json, **options)


def _compare_scores(
    systems: tuple[str, ...], *, results: Path | None, queries: int, seeds: tuple[str, ...], slices: Path | None,
    fail_if_worse: bool, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    from lexbench.analysis.compare.comparison import compare
    from lexbench.analysis.compare.tables import tables
    from lexbench.analysis.seeds import seed_groups
    from lexbench.analysis.slices import read_slices

    store = open_store()
    comparison = compare(
        systems,
        store=store,
        folder=results,
        queries=queries,
        seeds=seed_groups(seeds),
        slices=read_slices(slices) if slices else None,
        **options,
    )
    print_answer(comparison, lambda: tables(comparison), as_json=as_json)
    if fail_if_worse and comparison.worse:
        margin = comparison.margin
        what = "worse than" if margin is None else f"not shown to be within {margin:g} of"
        say(f"{what} {comparison.systems[0]}: {'; '.join(comparison.worse)}", err=True)
    click.get_current_context().exit(1 if store.damaged or (fail_if_worse and comparison.worse) else 0)


def _compare_lists(
    systems: tuple[str, ...], depths: tuple[int, ...], *, datasets: tuple[str, ...], queries: int, as_json: bool, **options: Any
) -> None:  # fmt: skip
    from lexbench.analysis.list_similarity import list_similarities, similarity_table
    from lexbench.analysis.stored_results import named_runs
    from lexbench.datasets.location import find_dataset

    del queries
    if of_scores := [name for name, value in options.items() if value]:
        option = f"--{of_scores[0].replace('_', '-')}"
        raise click.UsageError(f"{option} compares scores, not lists; leave out --lists or {option}")
    if len(datasets) > 1:
        raise click.UsageError("--lists compares lists of one dataset; give -d once")
    contract = find_dataset(datasets[0])[0] if datasets else None
    runs = named_runs(systems, open_store(), contract)
    rows = list_similarities(runs, depths or _DEPTHS)
    print_answer(rows, lambda: [similarity_table(rows, next(iter(runs)))], as_json=as_json)
