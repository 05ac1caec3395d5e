"""Formats of other tools' files: what each format can and cannot contain, and how it is written or read.

The modules of this folder add formats by their tuples EXPORTS and IMPORTS; there is no other list. `lexbench export --help`
imports all modules, so they import NumPy and other tools inside functions only. Our own store has everything. The commands say
what a copy in another format lacks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from lexbench.results import Entry
    from lexbench.storage.store import Store
    from lexbench.trec.runs import Run


class Target(NamedTuple):
    """Where an export goes."""

    path: Path  # the folder, or the file without its suffix
    store: "Store"  # has the vectors
    on_note: Callable[[str], None]  # gets a note about each thing that could not be written


Writer: TypeAlias = "Callable[[Sequence[Entry], Target], Iterator[Path]]"  # yields the path of each file


class Format(NamedTuple):
    """A format that results are exported to, or that runs and judgements are imported from."""

    name: str
    what: str  # the content, shown to users
    lost: str  # what the format cannot hold, or what is not kept of it
    convert: Callable[..., Any]  # a Writer, or a function that returns the Run or the Qrels in a file
    per: Literal["result", "dataset", "system", "export"] = "result"  # one call of a Writer gets the results of one of these


@cache
def exports() -> Mapping[str, Format]:
    """Return the formats that results are exported to, by name."""
    return _by_name("EXPORTS")


@cache
def imports() -> Mapping[str, Format]:
    """Return the formats that are imported, by name."""
    return _by_name("IMPORTS")


def _by_name(which: str) -> dict[str, Format]:
    """Return the formats in the tuples *which* of all modules, sorted by name."""
    names = (module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return {form.name: form for form in sorted(form for module in modules for form in getattr(module, which, ()))}


# ---- helpers for the modules of formats ------------------------------------------------------------------------------------

RUN_LOST = "measures, sizes, notes, how the system was made"
MEANS_LOST = "the value of every query, runs, sizes, ties, notes, how the system was made"
RUN_NOT_KEPT = "ranks, the tag, score digits that float32 cannot hold; equal scores are lowered by the smallest step"


def one_file(suffix: str, write: "Callable[[Entry, Path], None]") -> Writer:
    """Return a writer for formats with one file per result."""

    def write_result(results: "Sequence[Entry]", target: Target) -> Iterator[Path]:
        path = target.path.with_name(f"{target.path.name}.{suffix}")
        write(results[0], path)
        yield path

    return write_result


def run_file(suffix: str, write: "Callable[[Run, Path], None]") -> Writer:
    """Return a writer for formats with one file per run. A result without a run is left out, with a note."""

    def write_run(results: "Sequence[Entry]", target: Target) -> Iterator[Path]:
        from lexbench.analysis.stored_results import run_behind
        from lexbench.results import Results

        (entry,) = results
        run = run_behind(entry, Results)
        if run is None:
            why = "its run file is gone, or it was saved without its run; runs are in the store: lexbench list results"
            target.on_note(f"left out: {entry.result.system} on {entry.result.dataset} has no run here: {why}")
            return
        path = target.path.with_name(f"{target.path.name}.{suffix}")
        write(run, path)
        yield path

    return write_run


def deferred(module: str, function: str) -> Callable[..., Any]:
    """Return a function of a module of lexbench that is imported when the function is called."""

    def call(*values: Any, **more: Any) -> Any:
        return getattr(import_module(f"lexbench.{module}"), function)(*values, **more)

    return call
