"""`lexbench.run` for notebooks and training loops, and the results that it returns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lexbench.analysis.compare.comparison import Comparison, compare
from lexbench.analysis.compare.tables import tables as compare_tables
from lexbench.analysis.stored_results import definition
from lexbench.errors import UnknownName, require
from lexbench.executors import executor
from lexbench.progress import Progress
from lexbench.report import leaderboard
from lexbench.report.leaderboard import copies
from lexbench.report.run import tables
from lexbench.report.terminal import render
from lexbench.results import Result, write_results
from lexbench.runner import jobs
from lexbench.runner.jobs import Outcome
from lexbench.runner.plan import plan_of
from lexbench.storage.store import Store
from lexbench.suites import DATASETS, Suite
from lexbench.table import Table, escape, markdown
from lexbench.timing.protocol import Settings
from lexbench.timing.timer import Timer

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, ConsoleOptions, RenderResult


class _Shown:
    """Base class of objects that print themselves as tables, in notebooks and terminals."""

    failures: Sequence[str] = ()

    def _tables(self) -> list[Table]:
        raise NotImplementedError

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """Show the tables in a terminal or notebook that uses rich."""
        for table in self._tables():
            yield from render(table, options.max_width)
        yield from self.failures

    def _repr_markdown_(self) -> str:
        """Show the tables in a notebook."""
        shown = [f"**{escape(table.title)}**\n\n{markdown(table)}" for table in self._tables()]
        return "\n".join([*shown, *(f"- {escape(line)}" for line in self.failures)])

    def __str__(self) -> str:
        """Return the tables as plain text."""
        from rich.console import Console

        console = Console(width=100, no_color=True)
        with console.capture() as text:
            console.print(self)
        return text.get()


@dataclass(frozen=True)
class Compared(_Shown):
    """A comparison that prints the tables of `lexbench compare`; its numbers are in `comparison`."""

    comparison: Comparison

    def _tables(self) -> list[Table]:
        return compare_tables(self.comparison)


@dataclass(frozen=True)
class Results(_Shown):
    """The results of a run. Iterate over them; `failures` has a line for each job that failed or was not timed."""

    suite: Suite | None  # None for one dataset
    outcomes: tuple[Outcome, ...]
    store: Store

    def __iter__(self) -> Iterator[Result]:
        """Iterate over the results of the jobs that succeeded."""
        return (outcome.result for outcome in self.outcomes if outcome.result)

    def __len__(self) -> int:
        """Return the number of results."""
        return sum(1 for _ in self)

    @property
    def failures(self) -> list[str]:  # type: ignore[override] # not known of the class
        """One line for each job without a result, or without a timing that was asked for."""
        lines = [(outcome.job.name, outcome.error or outcome.untimed) for outcome in self.outcomes]
        return [line if line.startswith(name) else f"{name}: {line}" for name, line in lines if line]

    def compare(
        self,
        *systems: str,
        datasets: Sequence[str] = (),
        measure: str | None = None,
        margin: float | None = None,
        queries: int = 5,
    ) -> Compared:
        """Compare *systems* with the first of them, by their names; after one name, or none, all others follow.

        The other settings are those of `lexbench compare`. Raises UnknownName for a system that is not in these results.
        """
        known = list(dict.fromkeys(result.system for result in self))
        if unknown := [name for name in systems if name not in known]:
            raise UnknownName("system in these results:", unknown[0], known)
        names = systems if len(systems) > 1 else (*systems, *(name for name in known if name not in systems))
        settings: dict[str, Any] = {"datasets": datasets, "measure": measure, "margin": margin, "queries": queries}
        with TemporaryDirectory() as folder:
            self.save(folder)
            return Compared(compare(names, store=self.store, folder=Path(folder), **settings))

    def save(self, folder: str | Path) -> list[Path]:
        """Write the results into a folder of results, like `--results`, and return the files, one per system."""
        return write_results(self, self.suite.id if self.suite else DATASETS, Path(folder))

    def leaderboard(self, folder: str | Path) -> Path:
        """Write the results and the pages of a leaderboard into *folder*, and return the page index.html.

        Other results in the folder stay and are on the pages as well.
        """
        self.save(folder)
        leaderboard.write(leaderboard.pages(Path(folder)))
        return Path(folder) / leaderboard.HTML

    def to_latex(self, dataset: str = "", baseline: str = "", published: str = "none") -> str:
        """Return a table in LaTeX, like `lexbench leaderboard --copy latex`: the means, or all measures on one *dataset*.

        Systems that differ significantly from *baseline* are marked. *published* scores are none, few or all.
        """
        with TemporaryDirectory() as folder:
            self.save(folder)
            return copies.latex(copies.view(leaderboard.read_board(Path(folder), published=published), "", dataset, baseline))

    def to_pandas(self) -> "pd.DataFrame":
        """Return one row per result, with its system, its dataset and its measures. Needs pandas (`lexbench[pandas]`)."""
        require("to_pandas()", ["pandas"], "pandas")
        import pandas as pd

        return pd.DataFrame([{"system": r.system, "dataset": r.dataset, **r.means} for r in self])

    def _tables(self) -> list[Table]:
        return tables(list(self), self.suite)


def run(  # noqa: PLR0913 - what can be said of a run, by name
    data: Any,
    systems: Sequence[Any] | Mapping[str, Any] = (),
    *,
    datasets: Sequence[str] = (),
    measures: Sequence[str] = (),
    depth: int | None = None,
    store: str | Path | None = None,
    progress: Progress | None = None,
    on: str | None = None,
    time: bool | Settings = False,
) -> Results:
    """Run *systems* on *data* and return the results.

    *data* is the name of a suite ('pydoc'), a dataset ('pydoc/test') or a folder, or data in memory: {'corpus': {id: text},
    'queries': {id: text}, 'qrels': {query id: {document id: grade}}}, or data frames with named columns,
    the result of beir's GenericDataLoader, or a dataset of ir_datasets. *datasets* chooses datasets of a suite.

    A system is an expression ('bm25(k1=0.9)'), a function texts -> vectors or (queries, k) -> {query id: {document id: score}},
    or an object: an encoder, a search system, a model of sentence-transformers, beir or mteb, a transformer of PyTerrier. A
    mapping gives them names. Finished work in the *store* is not repeated. With *time*, each system is also timed in a fresh
    process, an object in this one (`Result.timings`; settings: lexbench.timing.protocol). *on* is where corpora are encoded,
    like `--on`: 'processes(4)', 'ray'.

    Raises CommandError or CannotStart for mistakes that are found before any work. Jobs that fail are in `Results.failures`.
    """
    place = Store(Path(store)) if store else Store()
    if isinstance(systems, list | tuple):
        systems = [definition(item, place) if isinstance(item, str) else item for item in systems]
    plan = plan_of(data, systems, datasets, measures, depth)
    timer = Timer(Settings() if time is True else time) if time else None
    for system in [job.system for job in plan.jobs if timer and job.system.expression is None]:
        timer.check(system)  # type: ignore[union-attr] # there is one
    return Results(plan.suite, tuple(jobs.run(plan, place, progress, timer, executor(on))), place)
