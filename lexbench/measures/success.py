"""Success: whether any relevant document is found."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun


@dataclass(frozen=True)
class Success(Measure):
    """1 if the first *cutoff* documents have one of grade *rel* or better, else 0.

    Use it to compare with papers on dense retrieval, which call it "recall" or "top-k accuracy". It saturates if queries have
    many relevant documents. trec_eval's `success.k`. Karpukhin et al. (DPR), EMNLP 2020.
    """

    cutoff: int
    rel: float | None = None  # None: the contract's, or 1

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return 0 or 1 (queries,)."""
        return np.minimum(judged.sum(judged.within(self.cutoff, self.rel or 1)), 1.0)
