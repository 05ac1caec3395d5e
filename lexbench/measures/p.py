"""P: how many of the first documents are relevant."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun


@dataclass(frozen=True)
class P(Measure):
    """Precision: documents of grade *rel* or better in the first *cutoff*, divided by *cutoff*, even if fewer were returned.

    Use it if a person reads the whole first page and judgements are deep; unjudged documents count as not relevant.
    trec_eval's `P.k` (m_P.c).
    """

    cutoff: int
    rel: float | None = None  # None: the contract's, or 1

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the precision (queries,)."""
        return judged.sum(judged.within(self.cutoff, self.rel or 1)) / self.cutoff
