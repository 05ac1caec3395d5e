"""The classes of a package that has one file for each kind of something, as `stages` and `teachers` do."""

from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from lexbench.errors import CannotStart


@cache
def kinds(package: str) -> tuple[type[Any], ...]:
    """Return the class of each module of *package* that is named as the module, without case and underscores."""
    names = sorted(item.name.removesuffix(".py") for item in files(package).iterdir() if item.name.endswith(".py"))
    return tuple(_class(f"{package}.{name}", name.replace("_", "")) for name in names if not name.startswith("_"))


def _class(module: str, name: str) -> type[Any]:
    for key, value in vars(import_module(module)).items():
        if key.lower() == name and isinstance(value, type):
            return value
    raise CannotStart(f"{module} has no class that is named as the file; name one {name.title()}")
