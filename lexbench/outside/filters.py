"""Simple filters, e.g. `tenant = 7 and year >= 2020`, for servers whose own filters are JSON."""

import json
import re
from typing import Any, NamedTuple

from lexbench.errors import CommandError, echoed

_CONDITION = re.compile(r"""\s*([\w.]+)\s*(<=|>=|!=|==|=|<|>)\s*("[^"]*"|'[^']*'|[^\s'"]+)\s*""")
RANGES = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}  # the names of operators in JSON
_OPEN = re.compile(r"""([\w.]+)\s*(<=|>=|==|=|<|>)\s*(['"]?)\{\}\3""")


class Condition(NamedTuple):
    """One condition of a filter."""

    field: str
    operator: str  # =, !=, <, <=, > or >=
    value: Any  # a number, a bool or a text


def conditions(text: str) -> list[Condition]:
    """Return the conditions of a filter that are joined with "and". Raises CommandError for any other text."""
    found = []
    for part in re.split(r"\s+and\s+", text.strip(), flags=re.IGNORECASE):
        match = _CONDITION.fullmatch(part)
        if not match:
            raise CommandError(f"filter {echoed(part)}: write FIELD = VALUE, also with !=, <, <=, > and >=, joined with and")
        field, operator, value = match.groups()
        found.append(Condition(field, operator.replace("==", "="), parsed_value(value)))
    return found


def parsed_value(text: str) -> Any:
    """Return the number or bool that *text* stands for; otherwise the text, without quotes around it."""
    try:
        value = json.loads(text)
    except ValueError:
        return text.strip("\"'")
    return value if isinstance(value, int | float | str | bool) else text


def open_condition(text: str) -> Condition:
    """Return the condition of a filter that has {} in place of a value. Raises CommandError unless there is exactly one."""
    found = _OPEN.findall(text)
    if len(found) != 1:
        raise CommandError(f"filter {echoed(text)}: write one condition with {{}} as its value, e.g. --filter 'tenant = {{}}'")
    field, operator, _ = found[0]
    return Condition(field, operator.replace("==", "="), None)
