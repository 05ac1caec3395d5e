"""Show what systems had seen of datasets in training, and whether texts are those of a dataset."""

from pathlib import Path
from typing import Any

import click

from lexbench.cli._options import datasets_option, json_option, system_option
from lexbench.cli._output import print_json, print_rich


@click.command()
@click.argument("texts", nargs=-1, metavar="[FOLDER...]", type=click.Path(path_type=Path, exists=True, file_okay=False))
@system_option("What its models have learned from, by name; repeatable.")
@datasets_option("Of this dataset; repeatable. Default: of all, by name.")
@json_option
def command(texts: tuple[Path, ...], systems: tuple[str, ...], datasets: tuple[str, ...], *, as_json: bool) -> None:
    """Show what SYSTEMs had seen of datasets in training, and how much of a dataset is in the texts of FOLDERs.

    A FOLDER has corpus.jsonl, and queries.jsonl if there are any, as BEIR's do: what a model was trained on. Names say what is
    known; texts show what nobody has said.
    """
    import msgspec

    from lexbench.contracts import all_contracts, contract_of
    from lexbench.datasets.dataset import open_dataset
    from lexbench.datasets.overlap import overlap
    from lexbench.report import exposure as report
    from lexbench.report.terminal import render
    from lexbench.runner.exposure import exposures_of

    if not texts and not systems:
        raise click.UsageError("give a SYSTEM by -r, or a FOLDER of texts, or both")
    if texts and not datasets:
        raise click.UsageError("texts are compared with datasets: give -d ID")
    contracts = [contract_of(name) for name in datasets] or list(all_contracts().values())
    ids, found_of = [contract.id for contract in contracts], [exposures_of(name, contracts) for name in systems]
    by_name = {label: list(zip(ids, exposures, strict=True)) for label, exposures in found_of}
    found = [overlap(folder, open_dataset(contract)) for contract in (contracts if texts else ()) for folder in texts]
    if as_json:
        document: dict[str, Any] = {
            "exposure": {label: dict(rows) for label, rows in by_name.items()},
            "overlap": found,
        }
        print_json(msgspec.to_builtins(document))
        return
    tables = [report.by_name(label, rows) for label, rows in by_name.items()]
    print_rich(*(render(table) for table in (*tables, *([report.by_text(found)] if found else []))))
