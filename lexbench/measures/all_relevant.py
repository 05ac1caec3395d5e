"""AllRelevant: whether all relevant documents are found."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun


@dataclass(frozen=True)
class AllRelevant(Measure):
    """1 if the first *cutoff* documents have all judged ones of grade *rel* or better, else 0.

    Use it if an answer needs all of its evidence, e.g. questions over several documents (HotpotQA). A query without relevant
    documents scores 0. `R` with the same cutoff is 1 for the same queries. Khattab, Potts and Zaharia (Baleen), NeurIPS 2021.
    """

    cutoff: int
    rel: int | None = None  # None: the contract's, or 1

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return 0 or 1 (queries,)."""
        rel = self.rel or 1
        relevant = judged.relevant(rel)
        found = judged.sum(judged.within(self.cutoff, rel))
        return np.where((relevant > 0) & (found == relevant), 1.0, 0.0)
