"""Compare measured scores with published ones of the same systems."""

from collections.abc import Sequence
from pathlib import Path

import click

from lexbench.cli._output import json_option, print_json, print_rich


@click.command()
@click.argument("name", metavar="SUITE")
@click.option("-r", "--retriever", "systems", multiple=True, metavar="SYSTEM", help="Only this system; repeatable.")
@click.option(
    "--results",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder that `run suite … --save` wrote, instead of the store.",
)
@click.option("--as", "given", multiple=True, metavar="PUBLISHED=LABEL", help="LABEL is the system PUBLISHED; repeatable.")
@click.option("--all", "everything", is_flag=True, help="Also show what has no published figure.")
@json_option
def command(
    name: str, systems: Sequence[str], folder: Path | None, given: Sequence[str], *, everything: bool, as_json: bool
) -> None:
    """Compare the results on SUITE with published figures of the same system, dataset and measure.

    Results are those of the store. Where one is off, its run is scored again under rules that others have used by mistake. The
    exit code is 1 where one is off, or nothing could be compared.
    """
    from lexbench import suites
    from lexbench.analysis.verify import diagnose, measured, published_scores, systems_by_label, verify
    from lexbench.report import verification as report
    from lexbench.report.terminal import render
    from lexbench.storage.store import Store

    store = Store()
    results, published = measured(suites.suite(name), store, folder, systems), published_scores()
    found = verify(results, published, systems_by_label(given, published, results))
    reasons = {number: diagnose(check, store) for number, check in enumerate(found.off)}
    if as_json:
        print_json(report.document(found, reasons))
    else:
        print_rich(*(render(table) for table in report.tables(found, reasons, everything=everything)))
        click.echo(report.summary(found))
    click.get_current_context().exit(0 if found.holds else 1)
