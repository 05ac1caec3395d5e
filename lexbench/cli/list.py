"""List what there is: suites, datasets, models, retrievers, measures, results."""

from typing import Any

import click

from lexbench.cli._options import json_option
from lexbench.cli._output import print_json, print_rows
from lexbench.errors import LexbenchError
from lexbench.registry import PACKAGES


@click.command("list")
@click.argument("what", type=click.Choice(["suites", "datasets", "models", *PACKAGES, "results"]))
@json_option
def command(what: str, *, as_json: bool) -> None:
    """List suites, datasets, models, plug-ins of one kind, or the results in the store."""
    if what == "models" and as_json:
        print_json(_models())
        return
    header, rows = _listing(what)
    print_rows(header, rows, as_json=as_json)


def _models() -> list[dict[str, Any]]:
    """Return all that is known of each model; of one whose file does not read, why."""
    import msgspec

    from lexbench import catalog

    return [
        {"name": name, "error": str(found)} if isinstance(found, LexbenchError) else msgspec.to_builtins(found)
        for name, found in catalog.listing().items()
    ]


def _listing(what: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    from lexbench import registry, suites
    from lexbench.runner import systems

    if what == "suites":
        found = [suites.suite(name) for name in suites.suite_names()]
        return ("suite", "datasets", "headline", "what"), [
            (s.id, str(len(s.datasets)), s.headline, s.description) for s in found
        ]
    if what == "datasets":
        from lexbench.datasets.contracts import all_contracts
        from lexbench.datasets.find import status

        contracts = all_contracts().values()
        header = ("dataset", "documents", "queries", "here")
        return header, [(c.id, _count(c.expected.documents), _count(c.expected.queries), status(c)) for c in contracts]
    if what == "models":
        return ("model", "family", "weights", "what"), [
            (m["name"], "?", "broken", m["error"]) if "error" in m else (m["name"], m["family"], m["weights"], m["summary"])
            for m in _models()
        ]
    if what == "results":
        from lexbench.runner import jobs
        from lexbench.storage import store

        return ("system", "dataset", "measure", "mean"), [
            (kept.result.system, kept.result.dataset, measure, f"{mean:.4f}")
            for kept in jobs.kept_results(store.Store())
            for measure, mean in kept.result.means.items()
        ]
    named = systems.retrievers() if what == "retrievers" else {name: name for name in registry.names(what)}
    rows: list[tuple[str, ...]] = [
        (typed, registry.origin(what, name), registry.summary(what, name)) for typed, name in named.items()
    ]
    return ("name", "from", "what"), rows


def _count(number: int | None) -> str:
    return f"{number:,}" if number is not None else "?"
