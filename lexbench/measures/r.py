"""R: the share of relevant documents that are found."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun, ratio


@dataclass(frozen=True)
class R(Measure):
    """Recall: documents of grade *rel* or better in the first *cutoff*, divided by all judged ones of these grades.

    Use it for the first stage, at the depth that the next stage reads. trec_eval's `recall.k`, official for TREC DL and BEIR.
    Papers also call two other measures recall: see `RCap` and `Success`. TREC's trec_eval (recall_k, m_recall.c).
    """

    cutoff: int
    rel: float | None = None  # None: the contract's, or 1

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the recall (queries,)."""
        rel = self.rel or 1
        return ratio(judged.sum(judged.within(self.cutoff, rel)), judged.relevant(rel))
