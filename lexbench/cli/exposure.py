"""Show which test data systems had seen in training."""

from pathlib import Path

import click

from lexbench.cli._options import EXISTING_FOLDER, datasets_option, json_option, system_option
from lexbench.cli._output import print_answer


@click.command()
@click.argument("texts", nargs=-1, metavar="[FOLDER...]", type=EXISTING_FOLDER)
@system_option("A system whose models to look up; repeatable.")
@datasets_option("Only this dataset; repeatable. Default with -r: all.")
@json_option
def command(texts: tuple[Path, ...], systems: tuple[str, ...], datasets: tuple[str, ...], *, as_json: bool) -> None:
    """Show what SYSTEMs had seen of datasets in training, and how much of a dataset is among the texts of FOLDERs.

    For a SYSTEM, the names of the collections in its training data are compared with those of the datasets. A FOLDER of
    training data has corpus.jsonl and maybe queries.jsonl, like a BEIR dataset; its texts are compared with those of the
    datasets.
    """
    from lexbench.analysis import seen_in_training

    if not texts and not systems:
        raise click.UsageError("give a SYSTEM with -r, a FOLDER of texts, or both")
    if texts and not datasets:
        raise click.UsageError("a FOLDER of texts is compared with datasets: give -d ID")
    found = seen_in_training.look_up(systems, texts, datasets)
    print_answer(found, lambda: seen_in_training.tables(found), as_json=as_json)
