"""Writing TOML. Python's standard library only reads it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any


def toml(table: Mapping[str, Any], *, empty: bool = True) -> str:
    """Return *table*, of plain values, as TOML. None is left out, and without *empty* so are empty values."""
    return "\n".join(_lines(table, empty=empty)) + "\n"


def _lines(table: Mapping[str, Any], prefix: str = "", *, empty: bool) -> Iterator[str]:
    """Yield plain values, then tables, then arrays of tables."""
    left_out: tuple[Any, ...] = (None,) if empty else (None, (), [], {}, "")
    named = ((key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else plain(key), value) for key, value in table.items())
    kept = {key: value for key, value in named if value not in left_out}
    tables = {key: value for key, value in kept.items() if isinstance(value, Mapping)}
    arrays = {
        key: value for key, value in kept.items() if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping)
    }
    yield from (f"{key} = {plain(value)}" for key, value in kept.items() if key not in tables | arrays)
    for key, value in tables.items():
        yield from ("", f"[{prefix}{key}]", *_lines(value, f"{prefix}{key}.", empty=empty))
    for key, rows in arrays.items():
        for row in rows:
            yield from ("", f"[[{prefix}{key}]]", *_lines(row, f"{prefix}{key}.", empty=empty))


def plain(value: Any) -> str:
    """Return a value that is no table as text that is valid in both TOML and YAML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(plain, value))}]"
    if not isinstance(value, str):
        return json.dumps(value)
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in quoted)
