"""ERR: the expected reciprocal rank at which a user is satisfied."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError, NotationError
from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun

_GDEVAL = 4  # the highest grade of TREC's Web track, for which gdeval was written
_LARGEST = 1000  # 2 to this power is a float


@dataclass(frozen=True)
class ERR(Measure):
    """Expected reciprocal rank: the sum over ranks of 1 / rank times the probability that the user stops there.

    A document of grade g satisfies the user with probability (2^g - 1) / 2^max_rel. Use it if grades differ and one very good
    answer is enough. ir-measures' `ERR`, of gdeval.pl. Chapelle, Metzler, Zhang and Grinspan, CIKM 2009.
    """

    cutoff: int | None = None
    max_rel: int | None = None  # the highest grade of the scale; None: 4, as in gdeval

    def __post_init__(self) -> None:
        """Raise NotationError if *max_rel* is out of range, or for what no measure takes."""
        super().__post_init__()
        if self.max_rel is not None and not 1 <= self.max_rel <= _LARGEST:
            raise NotationError(f"max_rel of ERR is a grade from 1 to {_LARGEST}, not {self.max_rel}; write ERR(max_rel=3)")

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the expected reciprocal rank (queries,). Raises LexbenchError for a grade above *max_rel*."""
        highest = self.max_rel or _GDEVAL
        if (found := judged.judged_grade.max(initial=0)) > highest:
            at = f"@{self.cutoff}" if self.cutoff else ""
            raise LexbenchError(f"{self} is for grades up to {highest}, and there is {found}; write ERR(max_rel={found}){at}")
        gains = judged.within(self.cutoff, 1)
        query, rank = judged.query[gains], judged.rank[gains]
        satisfied = (2.0 ** judged.grade[gains] - 1) / 2.0**highest
        column = np.arange(len(query)) - np.searchsorted(query, query)
        unsatisfied = np.ones((len(judged.query_ids), column.max(initial=0) + 2))  # after 0, 1, 2, ... of these documents
        unsatisfied[query, column + 1] = 1 - satisfied
        values = np.zeros(len(gains))
        values[gains] = np.cumprod(unsatisfied, axis=1)[query, column] * satisfied / rank
        return judged.sum(gains, values)
