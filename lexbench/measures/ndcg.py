"""nDCG: whether the most relevant documents are ranked first."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun, ratio


@dataclass(frozen=True)
class nDCG(Measure):  # noqa: N801 - the field's name
    """Discounted cumulative gain, sum of grade / log2(rank + 1), divided by that of an ideal ranking of the judged ones.

    The gain is the grade itself (trec_eval's `ndcg` and `ndcg_cut`); unjudged documents and negative grades gain nothing. Use
    it if grades differ, and as the main measure of BEIR and TREC DL. Järvelin and Kekäläinen, TOIS 20(4), 2002.
    """

    cutoff: int | None = None

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return nDCG (queries,)."""
        gain = np.maximum(judged.grade, 0) / np.log2(judged.rank + 1)
        # The gain of an ideal ranking: all judged documents, the best first.
        query = judged.judged_query
        rank = np.arange(1, len(query) + 1) - np.searchsorted(query, query)
        ideal = np.maximum(judged.judged_grade, 0) / np.log2(rank + 1)
        within = slice(None) if self.cutoff is None else rank <= self.cutoff
        best = np.bincount(query[within], ideal[within], minlength=len(judged.query_ids)).astype(np.float64)
        return ratio(judged.sum(judged.within(self.cutoff), gain), best)
