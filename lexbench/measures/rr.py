"""RR: reciprocal rank of the first relevant document."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun


@dataclass(frozen=True)
class RR(Measure):
    """1 / rank of the first document of grade *rel* or better; its mean is MRR. 0 if there is none within the cutoff.

    Use it if one answer is enough: `RR@10` is the official measure of MS MARCO passage ranking, `RR@100` of documents.
    trec_eval's `recip_rank -M k`. Kantor and Voorhees, Information Retrieval 2, 2000.
    """

    cutoff: int | None = None
    rel: float | None = None  # None: the contract's, or 1

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the reciprocal rank (queries,)."""
        relevant = judged.within(self.cutoff, self.rel or 1)
        values = np.zeros(len(judged.query_ids))
        np.maximum.at(values, judged.query[relevant], 1 / judged.rank[relevant])
        return values
