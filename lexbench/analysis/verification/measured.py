"""What is to be verified: results of the store or of a folder, and what the user says they are."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from lexbench.analysis.verification.figures import Figure
from lexbench.errors import CannotStart, CommandError, UnknownName
from lexbench.report.leaderboard import read_results
from lexbench.results import Result
from lexbench.runner.jobs import kept_results
from lexbench.storage.store import Store
from lexbench.suites import Suite


def measured(suite: Suite, store: Store, folder: Path | None = None, systems: Sequence[str] = ()) -> list[Result]:
    """Return the results on the datasets of *suite* that the store has, or result files below *folder*; of *systems* alone.

    CannotStart where there are none, UnknownName for a system without any.
    """
    found = [result for result in _results(store, folder) if result.dataset in suite.datasets]
    if not found:
        place = folder or store.root
        raise CannotStart(f"no results of the suite {suite.id} in {place}; make some: lexbench run suite {suite.id}")
    labels = {result.system for result in found}
    for name in systems:
        if name not in labels:
            raise UnknownName("result of", name, labels, see="lexbench list results")
    return [result for result in found if not systems or result.system in systems]


def _results(store: Store, folder: Path | None) -> Iterator[Result]:
    if folder is None:
        yield from (kept.result for kept in kept_results(store))
        return
    for path in sorted(folder.glob("results/*/*.json")):
        yield from read_results(path).results


def named(given: Sequence[str], figures: Sequence[Figure], results: Sequence[Result]) -> dict[str, str]:
    """Return which published system each label is, of texts such as `minilm=dense(model="x")`: both may have a = in them.

    CommandError where no figure is of such a system, or no result has that label.
    """
    names = {name for figure in figures for name in (figure.system, figure.called) if name}
    labels = {result.system for result in results}
    pairs = {}
    for text in given:
        name = max((name for name in names if text.startswith(f"{name}=")), key=len, default="")
        if not name:
            raise CommandError(f"--as {text}: nothing is published of what stands before the =; write --as 'minilm=LABEL'")
        label = text.removeprefix(f"{name}=")
        if label not in labels:
            raise CommandError(f"--as {text}: no result is of {label!r}; there is: {', '.join(sorted(labels))}")
        pairs[label] = name
    return pairs
