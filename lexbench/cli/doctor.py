"""Show what is installed, what is missing, and what to type."""

import importlib.metadata
import re
import shutil
import sys

import click

from lexbench.cli._options import json_option
from lexbench.cli._output import print_json, print_rows

_DEVELOPMENT = ("dev", "lint", "test")  # extras for working on lexbench itself


@click.command()
@click.option("--verify", is_flag=True, help="Read every byte of the store and list damaged artifacts.")
@json_option
def command(*, verify: bool, as_json: bool) -> None:
    """Show what is installed, what is missing and what to type.

    Exits with 1 if a package of the core is missing or, with --verify, the store is damaged.
    """
    from lexbench.storage import store

    extras = _extras()
    root = store.default_root()
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    rows = [
        ("python", sys.version.split()[0], ""),
        ("store", str(root), f"{shutil.disk_usage(existing).free / 1e9:.0f} GB free"),
    ]
    broken = verify and _damaged(rows)
    for extra, packages in extras.items():
        missing = [package for package in packages if not _installed(package)]
        name = extra or "core"
        broken |= bool(missing) and not extra
        advice = "" if not missing else f"pip install 'lexbench{f'[{extra}]' if extra else ''}'"
        rows.append((name, f"missing: {', '.join(missing)}" if missing else "complete", advice))
    if as_json:
        print_json({name: {"state": state, "advice": advice} for name, state, advice in rows})
    else:
        print_rows(("part", "state", ""), rows, as_json=False)
    click.get_current_context().exit(1 if broken else 0)


def _damaged(rows: list[tuple[str, str, str]]) -> bool:
    """Add a row for each damaged artifact and one with their count to *rows*. Returns whether there is any."""
    from lexbench.storage.store import Store, finished_folders

    store, intact, damaged = Store(), 0, 0
    for folder in finished_folders(store):
        if damage := next(store.damage(folder, thoroughly=True), None):
            damaged += 1
            rows.append((f"{folder.parent.name}/{folder.name}", damage, f"remove {folder}; it is made again when needed"))
        else:
            intact += 1
    rows.append(("artifacts", f"{intact:,} of {intact + damaged:,} are intact", ""))
    return damaged > 0


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
