"""Audit a leaderboard: ranks that can be told apart, mixed versions, missing scores, and data seen in training."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.analysis.significance.randomisation import LEVEL, SEED
from lexbench.errors import CannotStart, listed
from lexbench.table import Table, interval_cell, number

_FEWEST = 5  # datasets to draw from; with fewer no difference over datasets is significant
_DRAWS = 2000  # resamples over queries, which may be a hundred thousand
_POWER = 2.8  # standard errors that a test at .05 finds with power .8: 1.96 + 0.84
_GAPS = (0.0, 0.005, 0.01, 0.02, 0.05, float("inf"))  # differences of means on the large suite
_SHOWN = 8  # names in a note
_LEGEND = "over datasets, over queries: the ranks in 95 % of 10,000 bootstrap resamples of datasets, or 2,000 of queries"
_TESTS = "tests: paired randomisation, corrected by Holm; not the best: significantly worse than the first system"

Names = Sequence[str]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The score of one system on one dataset, and known facts about it."""

    value: float
    measure: str = ""
    revision: str = ""  # of the dataset
    seen: str = ""  # "in-domain" or "corpus seen"; "" if nothing is known
    values: dict[str, float] = {}  # by query; {} if unknown


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """Scores by system and dataset."""

    name: str
    cells: dict[str, dict[str, Cell]]
    notes: list[str] = []

    @property
    def datasets(self) -> list[str]:
        """All datasets, in the order in which their scores appear."""
        return list(dict.fromkeys(dataset for cells in self.cells.values() for dataset in cells))


def audit(board: Board) -> list[Table]:
    """Return two tables: how many systems can be told apart, and the ranks, with the faults of the board as notes.

    Systems are ranked by their mean over the datasets that all ranked systems have. Raises CannotStart if no two systems have
    a dataset in common.
    """
    systems, datasets = _complete(board)
    drawn = _resampled(board, systems, datasets)
    scores = {"datasets": _values(board, systems, datasets)}
    if by_query := _by_query(board, systems, datasets):
        scores["queries"] = randomisation.stratified(by_query)
    ranges = {over: _rank_ranges(means) for over, means in drawn.items()}
    means = scores["datasets"].mean(axis=1)
    spans = zip(*(ranges.get(over, ["—"] * len(systems)) for over in ("datasets", "queries")), strict=True)
    ranks = tuple(
        (system, str(1 + int((means > mean).sum())), number(mean), *span)
        for system, mean, span in zip(systems, means.tolist(), spans, strict=True)
    )
    notes = [_LEGEND, *board.notes]
    if len(systems) < len(board.cells) or len(datasets) < len(board.datasets):
        counts = f"{len(systems)} of {len(board.cells)} systems on {len(datasets)} of {len(board.datasets)} datasets"
        notes.append(f"ranked: {counts}; the others lack scores, or have them in another measure")
    if "datasets" not in drawn:
        notes.append(f"nothing can be said about other datasets: that takes {_FEWEST}, and there are {len(datasets)}")
    title = f"{board.name}: ranks on {len(datasets)} dataset{'s' * (len(datasets) > 1)}"
    header = ("over", "neighbours", "told apart", "uncorrected", "not the best")
    return [
        Table(f"{board.name}: what can be told apart", header, tuple(_apart(over, scores[over]) for over in drawn), (_TESTS,)),
        Table(title, ("system", "rank", "mean", "over datasets", "over queries"), ranks, (*notes, *_faults(board))),
    ]


def _mixed(board: Board, what: str) -> dict[str, Counter[str]]:
    """Return how many systems have each `revision`, `measure` or `seen`, for the datasets with several."""
    counts = {
        name: Counter(getattr(cells[name], what) for cells in board.cells.values() if name in cells) for name in board.datasets
    }
    return {name: count for name, count in counts.items() if len(count) > 1}


def _complete(board: Board) -> tuple[list[str], list[str]]:
    """Return systems, the best first, and datasets without a missing cell.

    The system or dataset that lacks the largest share goes, again and again. A score in another measure than most systems have
    on the dataset counts as missing.
    """
    usual = {name: count.most_common(1)[0][0] for name, count in _mixed(board, "measure").items()}
    datasets = board.datasets
    has = {
        system: {name for name, cell in cells.items() if cell.measure == usual.get(name, cell.measure)}
        for system, cells in board.cells.items()
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


def _values(board: Board, systems: Names, datasets: Names) -> NDArray[np.float64]:
    """Return the scores (systems, datasets)."""
    return np.array([[board.cells[system][dataset].value for dataset in datasets] for system in systems])


def _by_query(board: Board, systems: Names, datasets: Names) -> list[NDArray[np.float64]]:
    """Return the values per query (systems, queries) of each dataset.

    The list is empty if a system lacks values, or if systems have different queries of a dataset.
    """
    blocks = []
    for dataset in datasets:
        cells = [board.cells[system][dataset] for system in systems]
        ids = list(cells[0].values)
        if not ids or any(cell.values.keys() != set(ids) for cell in cells):
            return []
        blocks.append(np.array([[cell.values[query] for query in ids] for cell in cells]))
    return blocks


def _resampled(board: Board, systems: Names, datasets: Names) -> dict[str, NDArray[np.float64]]:
    """Return the means (resamples, systems) over resampled datasets, and over resampled queries within each dataset.

    Either is left out if there are too few datasets, or no values per query.
    """
    drawn = {"datasets": bootstrap.means(_values(board, systems, datasets))} if len(datasets) >= _FEWEST else {}
    if by_query := _by_query(board, systems, datasets):
        drawn["queries"] = bootstrap.macro_means(by_query, resamples=_DRAWS)
    return drawn


def _rank_ranges(means: NDArray[np.float64]) -> list[str]:
    """Return the ranks that each system takes in 95 % of the rows of *means* (resamples, systems), e.g. `3-7`."""
    from scipy.stats import rankdata  # half a second to import

    ranks = rankdata(np.round(-means, 12), method="min", axis=1)  # equal systems share a rank
    low, high = np.percentile(ranks, [2.5, 97.5], axis=0, method="nearest").astype(int)
    return [f"{first}-{last}" for first, last in zip(low, high, strict=True)]


def _apart(over: str, rows: NDArray[np.float64]) -> tuple[str, ...]:
    """Test neighbours, and every system against the first. *rows* (systems, datasets or queries) are in the order of means."""
    resamples = randomisation.resamples_for(len(rows))
    next_to = [randomisation.p_value(upper - lower, resamples=resamples) for upper, lower in pairwise(rows)]
    best = [randomisation.p_value(rows[0] - row, resamples=resamples) for row in rows[1:]]
    counts = [sum(p < LEVEL for p in ps) for ps in (randomisation.holm(next_to), next_to, randomisation.holm(best))]
    return (over, str(len(next_to)), *map(str, counts[:2]), f"{counts[2]} of {len(rows)}")


def _faults(board: Board) -> Iterator[str]:
    """Yield lines about mixed revisions and measures, missing cells, and training data."""
    for what in ("revision", "measure"):
        for dataset, counts in _mixed(board, what).items():
            shown = ", ".join(f"{count} systems have {name or 'none'}" for name, count in counts.most_common())
            yield f"mixed {what}s of {dataset}: {shown}"
    lacking = {system: len(board.datasets) - len(cells) for system, cells in board.cells.items()}
    if missing := {system: count for system, count in Counter(lacking).most_common() if count}:
        most = ", ".join(f"{system} {count}" for system, count in list(missing.items())[:_SHOWN])
        yield f"missing: {sum(missing.values())} cells of {len(missing)} systems; most: {most}"
    for dataset in board.datasets:
        for status in ("in-domain", "corpus seen"):
            seen = [system for system, cells in board.cells.items() if dataset in cells and cells[dataset].seen == status]
            if seen:
                yield f"seen of {dataset} in training: {status}: {listed(seen, _SHOWN)}"


def predict(board: Board, small: Names, large: Names = ()) -> Table:
    """Return how well the order of systems on the datasets *small* predicts that on *large*, by their difference on *large*.

    The default for *large* is all other datasets that `audit` ranks by. Systems that lack a dataset are left out. Raises
    CannotStart if fewer than three are left.
    """
    large = large or [name for name in _complete(board)[1] if name not in small]
    needed = set(small) | set(large)
    systems = [system for system, cells in board.cells.items() if needed <= cells.keys()]
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
    return Table(f"{len(small)} datasets predict {len(large)}", header, tuple(rows), tuple(notes))


def _tau_interval(agree: NDArray[np.float64], first: NDArray[np.int64], second: NDArray[np.int64]) -> str:
    """Return the 95 % interval of the mean of *agree* (pairs,) over systems drawn with replacement."""
    systems = int(second.max()) + 1
    drawn = np.random.default_rng(SEED).multinomial(systems, np.full(systems, 1 / systems), size=_DRAWS)
    weights = drawn[:, first] * drawn[:, second]
    low, high = np.percentile((weights @ agree) / np.maximum(weights.sum(axis=1), 1), [2.5, 97.5])
    return interval_cell((low, high), ".2f")
