"""The formats of other tools' files, one module a tool: what each holds, what it cannot hold, and how it is written or read.

A module of this folder adds formats by its tuples EXPORTS and IMPORTS; nothing else lists them. `lexbench export --help` reads
all modules, so that they import what takes time (NumPy, other tools) only in their functions. Our own store has everything;
each other format is a copy, and the commands say what the copy lacks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from lexbench.errors import LexbenchError
from lexbench.results import Result

if TYPE_CHECKING:
    from lexbench.analysis.stored_results import StoredResult
    from lexbench.interop.scores import ImportedScore
    from lexbench.storage.store import Store
    from lexbench.trec.qrels import Qrels
    from lexbench.trec.runs import Run


class Target(NamedTuple):
    """Where an export goes."""

    path: Path  # of the folder, or of the file without its suffix
    store: "Store"  # that vectors are read from
    tell: Callable[[str], None]  # takes a line on what could not be written


Writer: TypeAlias = "Callable[[Sequence[StoredResult], Target], Iterator[Path]]"  # yields the path of each file


@dataclass(frozen=True)
class Export:
    """A format that results are exported to."""

    name: str
    what: str  # is written, for people
    lost: str  # what the format cannot hold
    write: Writer
    per: Literal["result", "dataset", "system", "export"] = "result"  # what `write` gets the results of at a time
    holds: Callable[[Result], bool] | None = None  # which results have a place in it; None for all
    needs: str = ""  # said where no result has: "with nDCG@10 on ..."


@dataclass(frozen=True)
class Import:
    """A format that is imported."""

    name: str
    what: str  # is read, for people
    lost: str  # what of it is not kept
    read: "Callable[[Path], Run | Qrels | Iterable[ImportedScore]]"  # a file or a folder


@cache
def exports() -> Mapping[str, Export]:
    """Return the formats that results are exported to, by name."""
    return _by_name("EXPORTS")


@cache
def imports() -> Mapping[str, Import]:
    """Return the formats that are imported, by name."""
    return _by_name("IMPORTS")


def _by_name(which: str) -> dict[str, Any]:
    """Return the formats in the tuples of that name of all modules, sorted by name."""
    names = (item.name.removesuffix(".py") for item in files(__name__).iterdir() if item.name.endswith(".py"))
    modules = [import_module(f"{__name__}.{name}") for name in names if not name.startswith("_")]
    formats = {form.name: form for module in modules for form in getattr(module, which, ())}
    return dict(sorted(formats.items()))


# What the modules of the formats have in common.

RUN_LOST = "measures, sizes, notes, how the system was made"
MEANS_LOST = "the value of every query, runs, sizes, ties, notes, how the system was made"
RUN_NOT_KEPT = "ranks, the tag, score digits that float32 cannot hold; equal scores are lowered by the least step"
SCORES_NOT_KEPT = "all but system, dataset, measure, value and source"


def one_file(suffix: str, write: "Callable[[StoredResult, Path], None]") -> Writer:
    """Return a writer of formats with one file a result."""

    def write_result(results: "Sequence[StoredResult]", target: Target) -> Iterator[Path]:
        path = target.path.with_name(f"{target.path.name}.{suffix}")
        write(results[0], path)
        yield path

    return write_result


def run_file(suffix: str, write: "Callable[[Run, Path], None]") -> Writer:
    """Return a writer of formats with one file a run."""
    return one_file(suffix, lambda entry, path: write(run_of(entry), path))


def of_means(write: Callable[[Sequence[Result], Path], Iterable[Path]]) -> Writer:
    """Return a writer of formats that hold means, for which no store is needed."""

    def write_means(results: "Sequence[StoredResult]", target: Target) -> Iterator[Path]:
        yield from write([entry.result for entry in results], target.path)

    return write_means


def run_of(entry: "StoredResult") -> "Run":
    """Return the run of a result; LexbenchError where it is not in the store."""
    from lexbench.runner.search import read_run

    if entry.run is None:
        why = "it was a run file already, or was saved without; runs are in the store: lexbench list results"
        raise LexbenchError(f"{entry.result.system} on {entry.result.dataset} has no run here: {why}")
    return read_run(entry.run).run


def later(module: str, function: str) -> Callable[..., Any]:
    """Return that function of a module of lexbench which is imported when it is called."""

    def call(*values: Any, **more: Any) -> Any:
        return getattr(import_module(f"lexbench.{module}"), function)(*values, **more)

    return call
