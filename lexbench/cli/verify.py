"""Compare measured scores with published ones."""

from collections.abc import Sequence
from pathlib import Path

import click

from lexbench.cli._options import json_option, results_option, system_option
from lexbench.cli._output import open_store, print_answer, say


@click.command()
@click.argument("name", metavar="SUITE|DATASET|FOLDER")
@system_option("Only this system; repeatable.")
@results_option
@json_option
def command(name: str, systems: Sequence[str], results: Path | None, *, as_json: bool) -> None:
    """Compare the results on a suite or dataset with published scores of the same system, dataset and measure.

    If a mean is off, its run is scored again under rules that others have used by mistake, to find the cause. Exits with 1 if a
    mean is off or nothing could be compared.
    """
    from lexbench import suites
    from lexbench.analysis.verify.published import published_scores
    from lexbench.analysis.verify.verdicts import as_json_document, diagnosed, measured, summary, tables, verify
    from lexbench.datasets.location import find_dataset
    from lexbench.runner.plan import kind_of

    store = open_store()
    suite = suites.suite(name) if kind_of(name) == "suite" else suites.of_datasets(name, [find_dataset(name)[0].id])
    verification = diagnosed(verify(measured(suite, store, results, systems), published_scores()), store)
    print_answer(as_json_document(verification), lambda: tables(verification), as_json=as_json)
    if not as_json:
        say(summary(verification))
    click.get_current_context().exit(0 if verification.holds and not store.damaged else 1)
