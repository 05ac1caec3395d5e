"""The classes of a package that has one file for each kind of something, as `stages` and `teachers` do."""

from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any


@cache
def kinds(package: str) -> tuple[type[Any], ...]:
    """Return the class of each module of *package* that is named as the module, without case and underscores."""
    names = sorted(item.name.removesuffix(".py") for item in files(package).iterdir() if item.name.endswith(".py"))
    modules = {name: import_module(f"{package}.{name}") for name in names if not name.startswith("_")}
    return tuple(
        next(value for key, value in vars(module).items() if key.lower() == name.replace("_", "") and isinstance(value, type))
        for name, module in modules.items()
    )
