"""Compare the scores, settings or ranked lists of systems."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import (
    COUNT,
    EXISTING_FILE,
    columns_option,
    datasets_option,
    described,
    json_option,
    measures_option,
    results_option,
    seeds_option,
    slices_option,
    split_option,
)
from lexbench.cli._output import print_answer, say
from lexbench.cli._progress import shown


class _QueriesOrFile(click.ParamType[Any]):
    """A number of queries, or an existing file with their texts."""

    name = "number or file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or the path."""
        return int(value) if str(value).isdigit() else EXISTING_FILE.convert(value, param, ctx)


@click.command(help=described(lexbench.compare))
@click.argument("systems", nargs=-1, required=True, metavar="A B...")
@results_option
@datasets_option("Only this dataset; repeatable. Default: all datasets that every system has.")
@split_option
@measures_option("Default: the headline measure of the dataset's suite; repeatable.")
@click.option("--margin", type=click.FloatRange(0, min_open=True), help="Test that no system is worse by more (e.g. .005).")
@click.option("--qrels", type=EXISTING_FILE, help="Judgements of the run files; with -d under the rules of that dataset.")
@click.option("--queries", type=_QueriesOrFile(), default=5, metavar="N|FILE",
              help="How many of the most changed queries to show (default: 5), or a file with their texts.")  # fmt: skip
@click.option("--worst", is_flag=True, help="Show the queries that lost most, not those that changed most.")
@click.option("--fail-if-worse", is_flag=True, help="Exit with 1 if one is worse, or was not measured.")
@seeds_option
@slices_option("Also compare on the groups of queries in this file.")
@columns_option
@click.option(
    "--claim", "claims", multiple=True, metavar="CLAIM", help="Check 'B nDCG@10 0.412' or 'B > A nDCG@10'; repeatable."
)
@click.option("--lists", is_flag=True, help="Compare the ranked lists instead of the scores; A and B may also be run files.")
@click.option("-k", "--depth", "depths", type=COUNT, multiple=True, help="With --lists: documents; default: 10 and 100.")
@json_option
def command(
    systems: tuple[str, ...],
    depths: tuple[int, ...],
    *,
    split: str | None,
    columns: str,
    lists: bool,
    fail_if_worse: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare systems; the help is that of `lexbench.compare`."""
    if depths and not lists:
        raise click.UsageError("-k is a setting of --lists")
    with shown() as progress:
        if lists:
            dataset = _of_lists(fail_if_worse=fail_if_worse, **options)
            of_lists = lexbench.compare_lists(
                *systems, dataset=dataset, split=split, columns=columns, depths=depths or (10, 100), progress=progress
            )
        else:
            found = lexbench.compare(*systems, split=split, columns=columns, progress=progress, **options)
    if lists:
        print_answer(of_lists, as_json=as_json)
        return
    print_answer(found, as_json=as_json)
    failed = fail_if_worse and bool(found.worse or found.unmeasured)
    if failed and found.worse:
        margin = found.margin
        what = "worse than" if margin is None else f"not shown to be within {margin:g} of"
        say(f"{what} {found.systems[0]}: {'; '.join(found.worse)}", err=True)
    if failed and found.unmeasured:
        say(f"not measured: {'; '.join(found.unmeasured)}", err=True)
    if refused := found.claims.refused:
        say(f"not confirmed: {'; '.join(refused)}", err=True)
    click.get_current_context().exit(1 if progress.damaged or refused or failed else 0)


def _of_lists(*, datasets: tuple[str, ...], queries: Any, **options: Any) -> str | None:
    """Return the dataset of a comparison of lists. Raises UsageError for options that compare scores."""
    if not isinstance(queries, int):
        raise click.UsageError("--queries FILE has texts of queries, which lists are compared without")
    if of_scores := [name for name, value in options.items() if value]:
        option = f"--{of_scores[0].removesuffix('s' * (of_scores[0] == 'measures')).replace('_', '-')}"
        raise click.UsageError(f"{option} compares scores, not lists; leave out --lists or {option}")
    if len(datasets) > 1:
        raise click.UsageError("--lists compares lists of one dataset; give -d once")
    return datasets[0] if datasets else None
