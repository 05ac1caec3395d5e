"""Signs in ranked lists that a system did not work: empty lists, one list for many queries, constant scores.

Such a system is not worse than another one; it was not measured. For `run`, `compare`, `gate`, `audit` and the board.
"""

from collections import Counter
from itertools import pairwise

import msgspec
import numpy as np

from lexbench.trec.runs import Run

_MOST = 0.5  # share of the queries with a sign, above which a system counts as dead
_FEWEST = 5  # queries; below it equal lists may be right
_TOP = 10  # documents of a list that are compared


class ListFaults(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of queries with each sign."""

    queries: int
    empty: int  # without a document
    same: int  # with the most frequent list, if it is not empty
    constant: int  # with several documents that all have one score

    @property
    def reason(self) -> str:
        """Why the system was not measured, in a few words; "" if it was."""
        if self.queries and self.empty > _MOST * self.queries:
            return f"{self.empty:,} of {self.queries:,} queries got no document"
        if self.queries >= _FEWEST and self.same > _MOST * self.queries:
            return f"{self.same:,} of {self.queries:,} queries got one and the same list"
        if self.queries and self.constant > _MOST * self.queries:
            return f"in the lists of {self.constant:,} of {self.queries:,} queries all scores are equal"
        return ""


def list_faults(run: Run, queries: int) -> ListFaults:
    """Return the signs in a run for a dataset of *queries* queries. Queries without a list in the run count as empty."""
    lists = [(run.docs[start:stop], run.scores[start:stop]) for start, stop in pairwise(run.offsets.tolist()) if stop > start]
    tops = Counter(docs[:_TOP].tobytes() for docs, _ in lists)
    constant = sum(len(scores) > 1 and bool(np.all(scores == scores[0])) for _, scores in lists)
    return ListFaults(
        queries=queries, empty=max(queries - len(lists), 0), same=max(tops.values(), default=0), constant=constant
    )  # fmt: skip


def same_lists(first: Run, second: Run) -> bool:
    """Return whether two systems found the same documents in the same order for every query: a setting that did nothing."""
    return (
        first.query_ids == second.query_ids
        and np.array_equal(first.offsets, second.offsets)
        and np.array_equal(first.table[first.docs], second.table[second.docs])
    )
