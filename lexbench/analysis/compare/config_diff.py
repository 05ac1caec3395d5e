"""Every fact that differs between systems: settings, models, depth, machine, versions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lexbench.analysis.compare.model import ConfigDifference
from lexbench.results import Result

ROOT = "retriever"  # the field of what a system is


def config_diff(systems: Sequence[Sequence[Result]]) -> list[ConfigDifference]:
    """Return the fields in which systems differ, given the results of each on the same datasets.

    A field that is not the same on all datasets, as a weight that was chosen, has all its values.
    """
    facts = [_facts(results) for results in systems]
    fields = dict.fromkeys(field for system in facts for field in system)
    table = {field: [system.get(field) for system in facts] for field in fields}
    return [
        ConfigDifference(field=field, values=values, implied=_implied(field, values, table))
        for field, values in table.items()
        if len(set(values)) > 1
    ]


def _implied(field: str, values: Sequence[str | None], table: Mapping[str, Sequence[str | None]]) -> bool:
    """Whether all systems with *field* have one value, and those without it another plug-in around it, which says it all."""
    having = [system for system, value in enumerate(values) if value is not None]
    lacking = [system for system, value in enumerate(values) if value is None]
    if not lacking or len({values[system] for system in having}) > 1:
        return False
    names = field.split(".")
    around = [table[name] for name in (ROOT, *(".".join(names[:end]) for end in range(1, len(names)))) if name in table]
    return all(
        any(plugins[system] not in (None, *(plugins[other] for other in having)) for plugins in around) for system in lacking
    )


def _facts(results: Sequence[Result]) -> dict[str, str]:
    """Return the facts of one system by field; where its results differ in one, all its values."""
    values: dict[str, dict[str, None]] = {}
    for result in results:
        for field, value in _facts_of(result):
            values.setdefault(field, {})[value] = None
    return {field: ", ".join(distinct) for field, distinct in values.items()}


def _facts_of(result: Result) -> Iterator[tuple[str, str]]:
    yield from _flat(result.recipe, "")
    yield "depth", str(result.depth)
    if result.exposure:
        yield "seen in training", result.exposure.status
    for kind in ("machine", "versions"):
        yield from _flat(getattr(result.measured, kind), kind)


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the leaves of a recipe by their places in it, without the levels that only say what a plug-in is made of."""
    if isinstance(value, dict) and "plugin" in value:
        yield path or ROOT, f"{_class(value)} v{value.get('version')}"
        for part in ("settings", "identity"):
            yield from _flat(value.get(part, {}), path)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _flat(item, _joined(path, name))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        yield from _parts(value, path)
    else:
        yield path, value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _parts(values: list[Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield the leaves of plug-ins in a list by their classes, so that one more of them does not move all others."""
    counts: Counter[str] = Counter()
    for number, item in enumerate(values):
        name = _class(item) if isinstance(item, dict) and "plugin" in item else str(number)
        counts[name] += 1
        yield from _flat(item, _joined(path, name if counts[name] == 1 else f"{name}#{counts[name]}"))


def _class(plugin: dict[str, Any]) -> str:
    """Return the name of a plug-in; with its package where that is not lexbench."""
    package, _, name = str(plugin["plugin"]).rpartition(":")
    return str(plugin["plugin"]) if package else name.rpartition("/")[2]


def _joined(path: str, name: str) -> str:
    return ".".join(part for part in (path, name) if part not in ("", "."))  # a file by itself is "." in a digest of files
