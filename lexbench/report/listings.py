"""What there is: lists of suites, datasets, models, systems and plug-ins, each a table."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import join
from typing import Any

import msgspec

from lexbench import catalog, registry
from lexbench.analysis.compare.query_changes import StoreReader
from lexbench.analysis.stored_results import newest_means, stored_results
from lexbench.contracts import all_contracts, find_contract
from lexbench.datasets.location import status
from lexbench.display.answer import Facts, Tables
from lexbench.display.table import Table, number
from lexbench.errors import CommandError, LexbenchError, UnknownName
from lexbench.report.store import StoreContents
from lexbench.results import Result, Results
from lexbench.runner.systems import is_model_folder, named_systems, retrievers, system
from lexbench.storage import environment
from lexbench.storage.node import Stored
from lexbench.storage.store import Store
from lexbench.suites import suite, suite_names
from lexbench.timing import machine

_WEIGHTS = {  # where a model's weights come from
    "included": "included", "public": "download", "bring": "yours", "none": "unreleased", "unneeded": "not needed",
}  # fmt: skip


def _listed(header: Sequence[str], rows: Iterable[Sequence[str]], document: Any = None) -> Tables:
    return Tables([Table("", tuple(header), tuple(map(tuple, rows)), is_text=True)], document)


def suites() -> Tables:
    """Return all suites."""
    every = map(suite, suite_names())
    rows = [(one.id, str(len(one.datasets)), one.headline, one.description) for one in every]
    return _listed(("suite", "datasets", "headline", "what"), rows)


def datasets() -> Tables:
    """Return all datasets with a contract, and whether they are on this machine."""

    def count(known: int | None) -> str:
        return f"{known:,}" if known is not None else "?"

    rows = [
        (one.id, count(one.expected.documents), count(one.expected.queries), status(one)) for one in all_contracts().values()
    ]
    return _listed(("dataset", "documents", "queries", "here"), rows)


def models() -> Tables:
    """Return all models of the catalogue, and where their weights come from."""
    rows: list[tuple[str, ...]] = []
    document: list[Any] = []
    for name, one in catalog.listing().items():
        broken = isinstance(one, LexbenchError)
        rows.append((name, "?", "broken", str(one)) if isinstance(one, LexbenchError) else
                    (name, one.family, _WEIGHTS[one.weights], one.summary))  # fmt: skip
        document.append({"name": name, "error": str(one)} if broken else one)
    return _listed(("model", "family", "weights", "what"), rows, document)


def plugins(kind: str) -> Tables:
    """Return the plug-ins of one kind, and which package each is from. Raises UnknownName for another kind."""
    if kind not in registry.PACKAGES:
        raise UnknownName("kind of plug-in", kind, registry.PACKAGES)
    names = retrievers() if kind == "retrievers" else {name: name for name in registry.names(kind)}
    rows = [(typed, registry.origin(kind, name), registry.summary(kind, name)) for typed, name in names.items()]
    return _listed(("name", "from", "what"), rows)


def systems() -> Tables:
    """Return what a system can be made of: retrievers, models of the catalogue that can be run, and encoders."""
    rows = [(typed, "retriever", registry.summary("retrievers", name)) for typed, name in retrievers().items()]
    rows += [
        (name, "model", one.summary)
        for name, one in catalog.listing().items()
        if not isinstance(one, LexbenchError) and one.encoder and one.weights != "none"
    ]
    rows += [(name, "encoder", registry.summary("encoders", name)) for name in registry.names("encoders")]
    return _listed(("system", "kind", "what"), rows)


def means(results: Results, store: Store) -> Tables:
    """Return the newest mean of each system, dataset and measure."""
    rows = [(*names, number(mean)) for names, mean in newest_means(results, store).items()]
    return _listed(("system", "dataset", "measure", "mean"), rows)


def query_values(results: Results, measure: str | None, dataset: str | None, store: Store) -> Tables:
    """Return a table with a row per query: its dataset, id and text, and the value of each system."""
    reader = StoreReader(store, results.session.data)
    chosen = results.select(datasets=[dataset]) if dataset else results
    rows: list[dict[str, Any]] = []
    for name in chosen.datasets:
        of_dataset = chosen.select(datasets=[name])
        shared = measure or next((one for one in of_dataset.measures if all(one in each.per_query for each in of_dataset)), "")
        values, texts = of_dataset.values(name, shared), reader.texts(of_dataset.entries[0])
        for at, query in enumerate(next(iter(of_dataset)).query_ids):
            text = texts.texts.get(query, "") if texts else ""
            place = {"dataset": name, "query": query, "text": text, "measure": shared}
            rows.append(place | dict(zip(of_dataset.column(name), values[:, at].tolist(), strict=True)))
    heads = tuple(dict.fromkeys(head for row in rows for head in row))
    cells = [[one if isinstance(one, str) else number(one) for one in (row.get(head) for head in heads)] for row in rows]
    return _Values([Table("", heads, tuple(map(tuple, cells)), is_text=True)], rows)


class _Values(Tables):
    """Rows whose numbers are not rounded."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows."""
        return list(self.document())


class ShownResult(Result, frozen=True, kw_only=True):
    """A result without the values of its queries, and the artifacts of the store that it was made from."""

    made_from: list[Any]  # as `StoreContents.tree` returns them


def one_result(name: str, store: Store) -> Facts:
    """Return the newest stored result called SYSTEM:DATASET, or SYSTEM if it has results on one dataset only.

    Raises UnknownName if there is none, and CommandError, with the names to choose from, if there are several.
    """
    every = sorted(stored_results(store).entries, key=lambda one: (not one.result.expression, one.result.measured.started))
    known = {f"{entry.result.system}:{entry.result.dataset}": entry for entry in every}  # the newest of each
    found = [name] if name in known else [label for label, entry in known.items() if entry.result.system == name]
    if not found:
        raise UnknownName("result", name, known, see="lexbench list results")
    if len(found) > 1:
        commands = "; ".join(join(["lexbench", "show", "result", label]) for label in found)
        raise CommandError(f"{name} has results on {len(found)} datasets; type one of these: {commands}")
    entry = known[found[0]]
    tree = StoreContents(store).tree([Stored(entry.run).name]) if isinstance(entry.run, Path) else []
    facts = msgspec.structs.asdict(entry.result) | {"query_ids": [], "per_query": {}, "top": [], "ranks": {}}
    return Facts(ShownResult(**facts, made_from=tree))  # per query: lexbench export csv


def model(name: str) -> Facts:
    """Return a model of the catalogue, or for a folder the system and the settings that its files state."""
    if Path(name).is_dir() and name not in catalog.names():
        ((_, expression),) = named_systems(name)
        encoder = system(expression).retriever.encoder  # type: ignore[attr-defined] # such systems have one
        command = join(["lexbench", "run", "suite", "pydoc", "-r", expression])
        return Facts({"folder": name, "system": expression, "settings": registry.settings(encoder), "run": command})
    one = catalog.model(name)
    return Facts({**msgspec.structs.asdict(one), **catalog.included(one), "run": catalog.command(one)})


def plugin(name: str) -> Facts:
    """Return a plug-in by name. Raises UnknownName if there is none."""
    every = {one: group for group in reversed([*registry.PACKAGES]) for one in registry.names(group)}
    if name not in every:
        raise UnknownName("plug-in", name, every, see="lexbench list systems")
    group = every[name]
    facts = {"name": name, "kind": group.removesuffix("s"), "from": registry.origin(group, name)}
    settings = registry.defaults(registry.load(group, name)) if group != "sources" else {}
    return Facts({**facts, "what": registry.summary(group, name), "settings": settings})


def what_is(name: str, store: Store) -> str:
    """Return what *name* is, the first of "suite", "dataset", "model", "plugin" and "result". Raises UnknownName."""
    plugins = [one for group in registry.PACKAGES for one in registry.names(group)]
    if name in suite_names() or name.endswith(".toml"):
        return "suite"
    if find_contract(name) or (Path(name).is_dir() and not is_model_folder(Path(name))):
        return "dataset"
    if name in catalog.names() or Path(name).is_dir():
        return "model"
    if name in plugins:
        return "plugin"
    results = stored_results(store)
    if name in results.systems or name in {f"{one.system}:{one.dataset}" for one in results}:
        return "result"
    known = [*suite_names(), *all_contracts(), *catalog.names(), *plugins, *results.systems]
    raise UnknownName("suite, dataset, model, plug-in or result", name, known, see="lexbench list systems")


def this_machine() -> Facts:
    """Return this machine: what decides speeds, and the versions of packages."""
    facts = {**environment.facts(), "versions": environment.versions()}
    return Facts({**facts, "fingerprint": machine.fingerprint(), "performance": machine.performance()})
