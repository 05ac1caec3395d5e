"""Systems that cannot be told apart: groups, and the letters that show them in a table.

The letters are a compact letter display: two systems share a letter if and only if no significant difference was found between
them. Made by the insert-and-absorb algorithm of Piepho (Journal of Computational and Graphical Statistics 13, 2004), without
its last step, which spares letters and makes groups smaller than they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_letters

import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance.randomisation import LEVEL, SEED, holm, pairwise, resamples_for


@dataclass(frozen=True)
class TieGroups:
    """Which systems differ. Systems are in descending order of their means, equal ones by name."""

    systems: tuple[str, ...]
    ps: NDArray[np.float64]  # (systems, systems) corrected by Holm over all pairs; symmetric, 1 on the diagonal
    groups: tuple[tuple[str, ...], ...]  # the largest sets without a significant pair; that of the best first
    letters: dict[str, str]  # of each system, those of its groups: "a", "ab"; "(53)" after 52 groups
    worse: dict[str, tuple[str, ...]]  # of each system, those that it is significantly better than


def tie_groups(
    scores: Mapping[str, NDArray[np.float64]], *, level: float = LEVEL, resamples: int | None = None, seed: int = SEED
) -> TieGroups:
    """Test every two systems on one dataset, with values (queries,) each in the same order, and group those that tie.

    p is of the paired randomisation test, corrected by Holm over all pairs; below *level* two systems differ. *resamples* are
    by default as many as so many pairs take: 10,000 for up to 22 systems, 49,000 for 50.
    """
    systems = tuple(sorted(scores, key=lambda name: (-float(np.mean(scores[name])), name)))
    values = np.array([scores[name] for name in systems], dtype=np.float64)
    pairs = list(combinations(range(len(systems)), 2))
    ps = pairwise(values, resamples=resamples or resamples_for(len(pairs), level), seed=seed)
    for (first, second), p in zip(pairs, holm([float(ps[pair]) for pair in pairs]), strict=True):
        ps[first, second] = ps[second, first] = p
    apart = [pair for pair in pairs if ps[pair] < level]
    columns = compact_letters(len(systems), apart)
    names = [letter(number) for number in range(len(columns))]
    return TieGroups(
        systems,
        ps,
        tuple(tuple(systems[at] for at in column) for column in columns),
        {
            name: "".join(of for of, column in zip(names, columns, strict=True) if at in column)
            for at, name in enumerate(systems)
        },
        {name: tuple(systems[second] for first, second in apart if first == at) for at, name in enumerate(systems)},
    )


def compact_letters(systems: int, apart: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Return the largest sets of the numbers 0 ... *systems* - 1 that have no pair of *apart* in them, each ascending; sorted.

    Insert: a column that holds both of a pair is replaced by two, each without one of them. Absorb: a column inside another
    goes.
    """
    columns = [frozenset(range(systems))]
    for first, second in apart:
        whole = [column for column in columns if not {first, second} <= column]
        split = [column - {number} for column in columns if {first, second} <= column for number in (second, first)]
        fresh = [column for column in dict.fromkeys(split) if not any(column <= wider for wider in whole)]
        columns = whole + [column for column in fresh if not any(column < wider for wider in fresh)]
    return sorted(tuple(sorted(column)) for column in columns)


def letter(number: int) -> str:
    """Return the letter of a group, the first 0: a to z, A to Z, then (53) and so on."""
    return ascii_letters[number] if number < len(ascii_letters) else f"({number + 1})"
