"""Every fact that differs between systems: settings, models, depth, machine, versions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lexbench.analysis.comparison.model import Differing
from lexbench.results import Result

ROOT = "retriever"  # the field of what a system is


def differing(found: Sequence[Sequence[Result]]) -> list[Differing]:
    """Return the fields in which systems differ, given the results of each on the same datasets.

    A field that is not the same on all datasets, as a weight that was chosen, has all its values.
    """
    facts = [_facts(own) for own in found]
    fields = dict.fromkeys(field for own in facts for field in own)
    values = {field: [own.get(field) for own in facts] for field in fields}
    return [
        Differing(field=field, values=each, implied=_implied(field, each, values))
        for field, each in values.items()
        if len(set(each)) > 1
    ]


def _implied(field: str, each: Sequence[str | None], values: Mapping[str, Sequence[str | None]]) -> bool:
    """Whether all systems with *field* have one value, and those without it another plug-in around it, which says it all."""
    has = [at for at, value in enumerate(each) if value is not None]
    lacking = [at for at, value in enumerate(each) if value is None]
    if not lacking or len({each[at] for at in has}) > 1:
        return False
    names = field.split(".")
    around = [values[name] for name in (ROOT, *(".".join(names[:end]) for end in range(1, len(names)))) if name in values]
    return all(any(kinds[at] not in (None, *(kinds[other] for other in has)) for kinds in around) for at in lacking)


def _facts(found: Sequence[Result]) -> dict[str, str]:
    seen: dict[str, dict[str, None]] = {}
    for result in found:
        for field, value in _of_result(result):
            seen.setdefault(field, {})[value] = None
    return {field: ", ".join(values) for field, values in seen.items()}


def _of_result(result: Result) -> Iterator[tuple[str, str]]:
    yield from _flat(result.recipe, "")
    yield "depth", str(result.depth)
    for kind in ("machine", "versions"):
        yield from _flat(getattr(result.measured, kind), kind)


def _flat(value: Any, at: str) -> Iterator[tuple[str, str]]:
    """Yield the leaves of a recipe by their places in it, without the levels that only say what a plug-in is made of."""
    if isinstance(value, dict) and "plugin" in value:
        yield at or ROOT, f"{_class(value)} v{value.get('version')}"
        for part in ("settings", "identity"):
            yield from _flat(value.get(part, {}), at)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _flat(item, _joined(at, name))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        yield from _parts(value, at)
    else:
        yield at, value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _parts(values: list[Any], at: str) -> Iterator[tuple[str, str]]:
    """Yield the leaves of plug-ins in a list by their classes, so that one more of them does not move all others."""
    seen: Counter[str] = Counter()
    for number, item in enumerate(values):
        name = _class(item) if isinstance(item, dict) and "plugin" in item else str(number)
        seen[name] += 1
        yield from _flat(item, _joined(at, name if seen[name] == 1 else f"{name}#{seen[name]}"))


def _class(plugin: dict[str, Any]) -> str:
    """Return what a plug-in is called: its name, with its package where that is not ours."""
    package, _, name = str(plugin["plugin"]).rpartition(":")
    return str(plugin["plugin"]) if package else name.rpartition("/")[2]


def _joined(at: str, name: str) -> str:
    return ".".join(part for part in (at, name) if part not in ("", "."))  # a file by itself is "." in a digest of files
