"""AP: average precision."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun, ratio


@dataclass(frozen=True)
class AP(Measure):
    """Average precision: the sum of the precision at each relevant document, divided by all relevant documents; mean: MAP.

    Relevant documents beyond the cutoff add nothing but count in the divisor. Use it if judgements are complete and
    every relevant document matters. trec_eval's `map` and `map_cut` (m_map.c, m_map_cut.c).
    """

    cutoff: int | None = None
    rel: float | None = None  # None: the contract's, or 1

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the average precision (queries,)."""
        rel = self.rel or 1
        relevant = judged.within(self.cutoff, rel)
        query = judged.query[relevant]
        so_far = np.arange(1, len(query) + 1) - np.searchsorted(query, query)  # relevant documents down to this one
        precision = np.zeros(len(relevant))
        precision[relevant] = so_far / judged.rank[relevant]
        return ratio(judged.sum(relevant, precision), judged.relevant(rel))
