"""The systems that one text names: one for each value of a list, and the name that a user gives."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from lexbench import notation
from lexbench.errors import CommandError
from lexbench.notation import Call, Part, Value, parse


def variants(text: str) -> list[str]:
    """Return the systems that *text* names: one for each value where a transform is given a list, as top_k([64, 32])."""
    return [str(part) for part in _variants(parse(text))]


def named_systems(text: str) -> list[tuple[str | None, str]]:
    """Return the name, None for none, and the notation of each system that *text* names, as 'tuned = bm25(k1=0.8)'.

    CommandError where one name is given to several systems.
    """
    name, text = notation.named(text)
    found = variants(text)
    if name and len(found) > 1:
        raise CommandError(f"{name!r} would be the name of {len(found)} systems, as {found[0]}; give each a name of its own")
    return [(name or None, one) for one in found]


def _variants(part: Part) -> list[Part]:
    heads = _choices(
        part.head, lambda value: _variants(value) if isinstance(value, Part) else [value]
    )  # its own lists are lists
    choices = [_choices(call, lambda value: value if isinstance(value, tuple) else [value]) for call in part.transforms]
    return [replace(part, head=head, transforms=tuple(transforms)) for head, *transforms in product(heads, *choices)]


def _choices(call: Call, values_of: Callable[[Value], Sequence[Value]]) -> list[Call]:
    """Return *call* once for each combination of what *values_of* gives for its values."""
    names = [name for name, _ in call.kwargs]
    values = [values_of(value) for value in (*call.args, *(value for _, value in call.kwargs))]
    if not all(values):
        raise CommandError(f"{call}: an empty list names no system; give a value, as in {call.name}(64)")
    by_place = len(call.args)
    rows = product(*values)
    return [Call(call.name, row[:by_place], tuple(zip(names, row[by_place:], strict=True))) for row in rows]
