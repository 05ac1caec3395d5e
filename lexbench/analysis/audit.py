"""Audit a leaderboard: ranks that can be told apart, mixed versions, missing scores, and data seen in training."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.compare.comparison import measure_of
from lexbench.analysis.ranks import possible
from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.analysis.significance.randomisation import LEVEL, SEED
from lexbench.display.answer import Tables
from lexbench.display.table import Table, interval_cell, number
from lexbench.errors import CannotStart, CommandError, listed
from lexbench.results import Result, Results

_FEWEST = 5  # datasets to draw from; with fewer no difference over datasets is significant
_DRAWS = 2000  # resamples over queries, which may be a hundred thousand
_POWER = 2.8  # standard errors that a test at .05 finds with power .8: 1.96 + 0.84
_GAPS = (0.0, 0.005, 0.01, 0.02, 0.05, float("inf"))  # differences of means on the large suite
_SHOWN = 8  # names in a note
_LEGEND = "ranks: what paired randomisation tests leave possible, corrected by Holm over all pairs; over queries as on a board"
_TESTS = "tests: paired randomisation, corrected by Holm; not the best: significantly worse than the first system"

Names = Sequence[str]


class AuditedBoard(NamedTuple):
    """A leaderboard to audit: results, of which those of other tools have means only, and what reading them showed."""

    name: str
    results: Results
    measures: dict[str, str]  # by dataset: the measure that counts
    notes: tuple[str, ...] = ()

    @property
    def datasets(self) -> list[str]:
        """All datasets, in the order in which their scores appear."""
        return self.results.datasets


class Audit(Tables):
    """Which systems can be told apart, the ranks that tests leave possible, and the faults of a board."""


def audited(name: str, results: Results, measure: str | None = None, notes: Sequence[str] = ()) -> AuditedBoard:
    """Return the board of *results* by *measure*, default: the headline of each dataset's suite.

    On a dataset where no result has that measure, e.g. one of another tool, the measure that most results have counts. Upper
    bounds and scores that say nothing about their system are left out, and so are later results of a system on a dataset.
    Raises CommandError if there are no scores.
    """
    measures = {}
    for dataset in results.datasets:
        wanted = measure_of(dataset, measure)
        counts = Counter(known for result in results for known in result.means if result.dataset == dataset)
        usual = counts.most_common(1)[0]
        measures[dataset] = wanted if measure or counts[wanted] == usual[1] else usual[0]
    kept = results.select(where=lambda one: not one.aside and bool(one.means))
    if not len(kept):
        raise CommandError(f"{name}: no scores")
    twice = sum(count - 1 for count in Counter((one.system, one.dataset) for one in kept).values())
    more = [f"{twice} cells are there twice; the first counts"] if twice else []
    return AuditedBoard(name, kept, measures, (*notes, *results.unmeasured, *more))


def audit(board: AuditedBoard) -> Audit:
    """Return two tables: how many systems can be told apart, and the ranks, with the faults of the board as notes.

    Systems are ranked by their mean over the datasets that all ranked systems have. Raises CannotStart if no two systems have
    a dataset in common.
    """
    systems, datasets = _complete(board)
    scores = {"datasets": _values(board, systems, datasets)} if len(datasets) >= _FEWEST else {}
    if by_query := _by_query(board, systems, datasets):
        scores["queries"] = randomisation.stratified(by_query)
    ranges = {over: [_range(rank) for rank in possible(values)] for over, values in scores.items()}
    means = _values(board, systems, datasets).mean(axis=1).tolist()
    spans = zip(*(ranges.get(over, [number(None)] * len(systems)) for over in ("datasets", "queries")), strict=True)
    ranks = tuple((system, number(mean), *span) for system, mean, span in zip(systems, means, spans, strict=True))
    notes = [_LEGEND, *board.notes]
    if len(systems) < len(board.results.systems) or len(datasets) < len(board.datasets):
        counts = f"{len(systems)} of {len(board.results.systems)} systems on {len(datasets)} of {len(board.datasets)} datasets"
        notes.append(f"ranked: {counts}; the others lack scores, or have them in another measure")
    if "datasets" not in scores:
        notes.append(f"nothing can be said about other datasets: that takes {_FEWEST}, and there are {len(datasets)}")
    title = f"{board.name}: ranks on {len(datasets)} dataset{'s' * (len(datasets) > 1)}"
    header = ("over", "neighbours", "told apart", "uncorrected", "not the best")
    apart = tuple(_apart(over, values) for over, values in scores.items())
    tables = [Table(f"{board.name}: what can be told apart", header, apart, (_TESTS,))] if apart else []
    ranked = Table(title, ("system", "mean", "rank over\ndatasets", "rank over\nqueries"), ranks, (*notes, *_faults(board)))
    return Audit([*tables, ranked])


def _range(rank: tuple[int, int]) -> str:
    return str(rank[0]) if rank[0] == rank[1] else f"{rank[0]}-{rank[1]}"


def _revision(result: Result, _measure: str) -> str:
    """Return which data and rules a result has: its contract, and the digests of its topics or another tool's revision."""
    digests = (f"{what} {digest[:8]}".strip() for what, digest in sorted(result.digests.items()) if what != "corpus")
    return ", ".join([*([result.contract] if result.contract != "none" else []), *digests])


def _measured_by(result: Result, measure: str) -> str:
    """Return the measure of a result: the one that counts on its dataset, or else its first."""
    return measure if measure in result.means else next(iter(result.means))


def _mixed(board: AuditedBoard, fact: Callable[[Result, str], str]) -> dict[str, Counter[str]]:
    """Return how many systems have each value of *fact*, for the datasets with several."""
    counts = {
        name: Counter(fact(one, board.measures[name]) for one in board.results.column(name).values()) for name in board.datasets
    }
    return {name: count for name, count in counts.items() if len(count) > 1}


def _complete(board: AuditedBoard) -> tuple[list[str], list[str]]:
    """Return systems, the best first, and datasets without a missing cell.

    The system or dataset that lacks the largest share goes, again and again. A score in another measure than the one that
    counts on the dataset is missing.
    """
    datasets = board.datasets
    has = {
        system: {name for name, one in board.results.row(system).items() if board.measures[name] in one.means}
        for system in board.results.systems
    }
    while has and datasets:
        rows = {system: sum(name not in names for name in datasets) / len(datasets) for system, names in has.items()}
        columns = {name: sum(name not in names for names in has.values()) / len(has) for name in datasets}
        row, column = max(rows, key=lambda name: rows[name]), max(columns, key=lambda name: columns[name])
        if not rows[row]:
            break
        if rows[row] >= columns[column]:
            del has[row]
        else:
            datasets.remove(column)
    if len(has) < 2:  # noqa: PLR2004 - a ranking
        raise CannotStart(f"{board.name}: no two systems have a dataset and a measure in common, so there is nothing to rank")
    means = _values(board, list(has), datasets).mean(axis=1)
    return [list(has)[at] for at in np.argsort(-means, kind="stable")], datasets


def _values(board: AuditedBoard, systems: Names, datasets: Names) -> NDArray[np.float64]:
    """Return the scores (systems, datasets)."""
    rows = [board.results.row(system) for system in systems]
    return np.array([[row[dataset].means[board.measures[dataset]] for dataset in datasets] for row in rows])


def _by_query(board: AuditedBoard, systems: Names, datasets: Names) -> list[NDArray[np.float64]]:
    """Return the values per query (systems, queries) of each dataset.

    The list is empty if a system lacks values, or if systems have different queries of a dataset.
    """
    blocks = []
    for dataset in datasets:
        column, measure = board.results.column(dataset), board.measures[dataset]
        found = [one for one in map(column.get, systems) if one]
        cells = [dict(zip(one.query_ids, one.per_query.get(measure, []), strict=False)) for one in found]
        ids = list(cells[0])
        if not ids or any(cell.keys() != set(ids) for cell in cells):
            return []
        blocks.append(np.array([[cell[query] for query in ids] for cell in cells]))
    return blocks


def _resampled(board: AuditedBoard, systems: Names, datasets: Names) -> dict[str, NDArray[np.float64]]:
    """Return the means (resamples, systems) over resampled datasets, and over resampled queries within each dataset.

    Either is left out if there are too few datasets, or no values per query.
    """
    drawn = {"datasets": bootstrap.means(_values(board, systems, datasets))} if len(datasets) >= _FEWEST else {}
    if by_query := _by_query(board, systems, datasets):
        drawn["queries"] = bootstrap.macro_means(by_query, resamples=_DRAWS)
    return drawn


def _apart(over: str, rows: NDArray[np.float64]) -> tuple[str, ...]:
    """Test neighbours, and every system against the first. *rows* (systems, datasets or queries) are in the order of means."""
    resamples = randomisation.resamples_for(len(rows))
    next_to = [randomisation.p_value(upper - lower, resamples=resamples) for upper, lower in pairwise(rows)]
    best = [randomisation.p_value(rows[0] - row, resamples=resamples) for row in rows[1:]]
    counts = [sum(p < LEVEL for p in ps) for ps in (randomisation.holm(next_to), next_to, randomisation.holm(best))]
    return (over, str(len(next_to)), *map(str, counts[:2]), f"{counts[2]} of {len(rows)}")


def _faults(board: AuditedBoard) -> Iterator[str]:
    """Yield lines about mixed revisions and measures, missing cells, and training data."""
    for what, fact in (("revision", _revision), ("measure", _measured_by)):
        for dataset, counts in _mixed(board, fact).items():
            shown = ", ".join(f"{count} systems have {name or 'none'}" for name, count in counts.most_common())
            yield f"mixed {what}s of {dataset}: {shown}"
    lacking = {system: len(board.datasets) - len(board.results.row(system)) for system in board.results.systems}
    if missing := {system: count for system, count in Counter(lacking).most_common() if count}:
        most = ", ".join(f"{system} {count}" for system, count in list(missing.items())[:_SHOWN])
        yield f"missing: {sum(missing.values())} cells of {len(missing)} systems; most: {most}"
    for dataset in board.datasets:
        for status in ("in-domain", "corpus seen"):
            column = board.results.column(dataset).items()
            seen = [system for system, one in column if one.exposure and one.exposure.status == status]
            if seen:
                yield f"seen of {dataset} in training: {status}: {listed(seen, _SHOWN)}"


def predict(board: AuditedBoard, small: Names, large: Names = ()) -> Audit:
    """Return how well the order of systems on the datasets *small* predicts that on *large*, by their difference on *large*.

    The default for *large* is all other datasets that `audit` ranks by. Systems that lack a dataset are left out. Raises
    CannotStart if fewer than three are left.
    """
    large = large or [name for name in _complete(board)[1] if name not in small]
    needed = set(small) | set(large)
    systems = [
        system
        for system in board.results.systems
        if needed <= {name for name, one in board.results.row(system).items() if board.measures[name] in one.means}
    ]
    if len(systems) < 3:  # noqa: PLR2004 - with two there is one pair
        raise CannotStart(f"{len(systems)} systems have all {len(needed)} datasets; a prediction takes three")
    first, second = np.array(list(combinations(range(len(systems)), 2))).T
    means = [_values(board, systems, names).mean(axis=1) for names in (small, large)]
    gaps = np.abs(means[1][first] - means[1][second])
    agree = np.prod([np.sign(one[first] - one[second]) for one in means], axis=0)
    drawn = [_resampled(board, systems, names) for names in (small, large)]
    over = next((name for name in ("queries", "datasets") if all(name in one for one in drawn)), "")
    notes = [f"Kendall's tau {agree.mean():.2f} {_tau_interval(agree, first, second)} over {len(systems)} systems"]
    told = []
    if over:
        resampled = [one[over][:, first] - one[over][:, second] for one in drawn]
        told = [np.prod(np.percentile(one, [2.5, 97.5], axis=0), axis=0) > 0 for one in resampled]
        found = [f"{_POWER * np.median(one.std(axis=0)):.4f}" for one in resampled]
        notes.append(f"told apart: the 95 % interval over {over} is without 0, uncorrected")
        notes.append(f"told apart on both, in opposite order: {int((told[0] & told[1] & (agree < 0)).sum())} pairs")
        notes.append(f"difference found with power .8, median over pairs: small {found[0]}, large {found[1]}")
    rows = []
    for low, high in pairwise(_GAPS):
        inside = (gaps >= low) & (gaps < high)
        if inside.any():
            cells = [f"{share[inside].mean():.0%}" for share in (agree > 0, *told)]
            between = f"{low:g} to {high:g}" if np.isfinite(high) else f"{low:g} or more"
            rows.append((between, str(inside.sum()), *cells))
    header = (
        "difference on the large suite",
        "pairs",
        "same order",
        *(("told apart, small", "told apart, large") if over else ()),
    )
    return Audit([Table(f"{len(small)} datasets predict {len(large)}", header, tuple(rows), tuple(notes))])


def _tau_interval(agree: NDArray[np.float64], first: NDArray[np.int64], second: NDArray[np.int64]) -> str:
    """Return the 95 % interval of the mean of *agree* (pairs,) over systems drawn with replacement."""
    systems = int(second.max()) + 1
    drawn = np.random.default_rng(SEED).multinomial(systems, np.full(systems, 1 / systems), size=_DRAWS)
    weights = drawn[:, first] * drawn[:, second]
    low, high = np.percentile((weights @ agree) / np.maximum(weights.sum(axis=1), 1), [2.5, 97.5])
    return interval_cell((low, high), ".2f")
