"""List suites, datasets, models, plug-ins or results."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lexbench.cli._options import json_option, results_option
from lexbench.cli._output import open_store, print_json, print_rows
from lexbench.errors import LexbenchError
from lexbench.registry import PACKAGES

if TYPE_CHECKING:
    from lexbench.storage.store import Store

_WEIGHTS = {  # where a model's weights come from
    "included": "included", "public": "download", "bring": "yours", "none": "unreleased", "unneeded": "not needed",
}  # fmt: skip


@click.command("list")
@click.argument("what", metavar="KIND", type=click.Choice(["suites", "datasets", "models", *PACKAGES, "results"]))
@results_option
@json_option
def command(what: str, results: Path | None, *, as_json: bool) -> None:
    """List suites, datasets, models, plug-ins of one kind, or results: the newest of each system, dataset and measure."""
    if results and what != "results":
        raise click.UsageError(f"--results is the folder of `lexbench list results`; list {what} without it")
    if what == "models" and as_json:
        from lexbench import catalog

        found = catalog.listing().items()
        print_json([{"name": name, "error": str(one)} if isinstance(one, LexbenchError) else one for name, one in found])
        return
    store = open_store()
    header, rows = _listing(what, store, results)
    print_rows(header, rows, as_json=as_json)
    click.get_current_context().exit(1 if store.damaged else 0)


def _listing(what: str, store: "Store", folder: Path | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the header and the rows of a list. Results are those in *folder*, or else the undamaged ones in *store*."""
    from lexbench import registry, suites
    from lexbench.runner import systems

    if what == "suites":
        every_suite = [suites.suite(name) for name in suites.suite_names()]
        header = ("suite", "datasets", "headline", "what")
        return header, [(suite.id, str(len(suite.datasets)), suite.headline, suite.description) for suite in every_suite]
    if what == "datasets":
        from lexbench.contracts import all_contracts
        from lexbench.datasets.location import status

        return ("dataset", "documents", "queries", "here"), [
            (contract.id, _count(contract.expected.documents), _count(contract.expected.queries), status(contract))
            for contract in all_contracts().values()
        ]
    if what == "models":
        from lexbench import catalog

        return ("model", "family", "weights", "what"), [
            (name, "?", "broken", str(one))
            if isinstance(one, LexbenchError)
            else (name, one.family, _WEIGHTS[one.weights], one.summary)
            for name, one in catalog.listing().items()
        ]
    if what == "results":
        from lexbench.analysis.stored_results import newest_means, results_at

        means = newest_means([entry.result for entry in results_at(store, folder)], store)
        return ("system", "dataset", "measure", "mean"), [(*row, f"{mean:.4f}") for row, mean in means.items()]
    names = systems.retrievers() if what == "retrievers" else {name: name for name in registry.names(what)}
    return ("name", "from", "what"), [
        (typed, registry.origin(what, name), registry.summary(what, name)) for typed, name in names.items()
    ]


def _count(number: int | None) -> str:
    return f"{number:,}" if number is not None else "?"
