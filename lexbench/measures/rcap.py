"""RCap: recall, as a share of the relevant documents that fit into the cutoff."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun, ratio


@dataclass(frozen=True)
class RCap(Measure):
    """Capped recall: relevant documents in the first *cutoff*, divided by the smaller of *cutoff* and all of them.

    Use it if queries have more relevant documents than the cutoff, e.g. in TREC-COVID, and to reproduce the LexMAE
    paper's R@k. BEIR's `R_cap@k`: Thakur et al., NeurIPS Datasets and Benchmarks, 2021. A query without relevant documents
    scores 0 here; BEIR's code divides by zero.
    """

    cutoff: int
    rel: float | None = None  # None: the contract's, or 1

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the capped recall (queries,)."""
        rel = self.rel or 1
        return ratio(judged.sum(judged.within(self.cutoff, rel)), np.minimum(judged.relevant(rel), self.cutoff))
