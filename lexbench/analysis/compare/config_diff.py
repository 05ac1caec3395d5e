"""Facts that differ between systems: settings, models, depth, machine, versions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lexbench.results import Result

ROOT = "retriever"  # the field with the plug-in of the whole system


class ConfigDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A setting, or another fact of how results were made, that is not the same for all systems."""

    field: str  # e.g. encoder.query_length, machine.processor, versions.torch
    values: list[str | None]  # per system; None if it has no such field
    implied: bool = False  # a setting of a plug-in that only some systems use: nobody chose it


def config_diff(systems: Sequence[Sequence[Result]]) -> list[ConfigDifference]:
    """Return the fields in which systems differ, given the results of each on the same datasets.

    A field that differs between datasets (e.g. a tuned weight) has all its values.
    """
    facts = [_facts(results) for results in systems]
    fields = dict.fromkeys(field for system in facts for field in system)
    table = {field: [system.get(field) for system in facts] for field in fields}
    return [
        ConfigDifference(field=field, values=values, implied=_is_implied(field, values, table))
        for field, values in table.items()
        if len(set(values)) > 1
    ]


def _is_implied(field: str, values: Sequence[str | None], table: Mapping[str, Sequence[str | None]]) -> bool:
    """Whether a field follows from the plug-ins: systems that have it agree, and the others use another plug-in there."""
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
    """Return the facts of one system by field; all values of a field that differs between its results."""
    values: dict[str, dict[str, None]] = {}
    for result in results:
        for field, value in _facts_of_result(result):
            values.setdefault(field, {})[value] = None
    return {field: ", ".join(distinct) for field, distinct in values.items()}


def _facts_of_result(result: Result) -> Iterator[tuple[str, str]]:
    yield from _leaves(result.recipe, "")
    yield "depth", str(result.depth)
    if result.exposure:
        yield "seen in training", result.exposure.status
    for kind in ("machine", "versions"):
        yield from _leaves(getattr(result.measured, kind), kind)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the leaves of a recipe with their paths, without the levels between a plug-in and its settings."""
    if isinstance(value, dict) and "plugin" in value:
        yield path or ROOT, f"{_plugin_name(value)} v{value.get('version')}"
        for part in ("settings", "identity"):
            yield from _leaves(value.get(part, {}), path)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, _joined(path, name))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        # Name plug-ins in a list by their classes: one more of them then does not rename the others.
        counts: Counter[str] = Counter()
        for number, item in enumerate(value):
            name = _plugin_name(item) if isinstance(item, dict) and "plugin" in item else str(number)
            counts[name] += 1
            yield from _leaves(item, _joined(path, name if counts[name] == 1 else f"{name}#{counts[name]}"))
    else:
        yield path, value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _plugin_name(plugin: dict[str, Any]) -> str:
    """Return the name of a plug-in, with its package unless that is lexbench."""
    package, _, name = str(plugin["plugin"]).rpartition(":")
    return str(plugin["plugin"]) if package else name.rpartition("/")[2]


def _joined(path: str, name: str) -> str:
    return ".".join(part for part in (path, name) if part not in ("", "."))  # the digest of a single file has the path "."
