"""What is installed and what is missing: `lexbench doctor`."""

import importlib.metadata
import re
import sys

import msgspec

from lexbench.display.answer import Answer
from lexbench.display.table import Table
from lexbench.errors import install_advice
from lexbench.storage.store import default_root, free_bytes

_DEVELOPMENT = ("dev", "lint", "test")  # extras for working on lexbench itself


class Part(msgspec.Struct, frozen=True):
    """One thing that lexbench needs or can use."""

    part: str
    state: str
    advice: str = ""  # what to type


class Health(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """The state of this installation."""

    parts: list[Part]
    healthy: bool  # whether the core is complete

    def tables(self) -> list[Table]:
        """Return one row per part."""
        return [Table("", ("part", "state", ""), tuple((one.part, one.state, one.advice) for one in self.parts), is_text=True)]

    def document(self) -> dict[str, dict[str, str]]:
        """Return state and advice by part."""
        return {one.part: {"state": one.state, "advice": one.advice} for one in self.parts}

    def rows(self) -> list[dict[str, object]]:
        """Return a row per part."""
        return [msgspec.structs.asdict(one) for one in self.parts]


def health() -> Health:
    """Return what is installed and what is missing."""
    root = default_root()
    parts = [Part("python", sys.version.split()[0]), Part("store", str(root), f"{free_bytes(root) / 1e9:.0f} GB free")]
    healthy, extras = True, list[Part]()
    for extra, packages in _extras().items():
        missing = [package for package in packages if not _installed(package)]
        healthy &= bool(extra) or not missing
        advice = install_advice(extra, missing) if missing else ""
        extras.append(Part(extra or "core", f"missing: {', '.join(missing)}" if missing else "complete", advice))
    return Health(parts=[*parts, *extras], healthy=healthy)


def _extras() -> dict[str, list[str]]:
    """Return the packages of the core (under "") and of each extra, from the metadata of the installed lexbench."""
    packages: dict[str, list[str]] = {}
    for requirement in importlib.metadata.requires("lexbench") or []:
        package = re.match(r"[A-Za-z0-9._-]+", requirement)
        extra = re.search(r"extra == ['\"](\w+)['\"]", requirement)
        if package and package.group() != "lexbench" and not (extra and extra.group(1) in _DEVELOPMENT):
            packages.setdefault(extra.group(1) if extra else "", []).append(package.group())
    return packages


def _installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
