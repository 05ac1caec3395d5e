"""nDCG: whether the most relevant documents are ranked first."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import NotationError, echoed
from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun, ratio


@dataclass(frozen=True)
class nDCG(Measure):  # noqa: N801 - the field's name
    """Discounted cumulative gain, sum of grade / log2(rank + 1), divided by that of an ideal ranking of the judged ones.

    The gain is the grade itself (trec_eval's `ndcg` and `ndcg_cut`); unjudged documents and negative grades gain nothing. Use
    it if grades differ, and as the main measure of BEIR and TREC DL. Järvelin and Kekäläinen, TOIS 20(4), 2002. Grades may be
    continuous. With ties='expected', documents of equal scores share their ranks: the value is the mean over all their orders
    (McSherry and Najork, ECIR 2008; scikit-learn's `ndcg_score`).
    """

    cutoff: int | None = None
    ties: str | None = None  # None: in trec_eval's order

    continuous: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise NotationError for an unknown way to treat ties."""
        super().__post_init__()
        if self.ties not in (None, "expected"):
            raise NotationError(f"ties of nDCG is 'expected', or is left out, not {echoed(str(self.ties))}")

    @property
    def depth(self) -> int | None:
        """All documents with ties='expected': a document beyond the cutoff may tie with one within it."""
        return None if self.ties else self.cutoff

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return nDCG (queries,)."""
        gain, within = np.maximum(judged.grade, 0) / np.log2(judged.rank + 1), judged.within(self.cutoff)
        if self.ties:
            gain, within = np.maximum(judged.grade, 0) * self._expected_discounts(judged), judged.within(None)
        return ratio(judged.sum(within, gain), judged.ideal(np.inf if self.cutoff is None else self.cutoff))

    def _expected_discounts(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the mean discount of the ranks that each judged document shares (found,); it is 0 beyond the cutoff."""
        first, last = judged.tied_ranks()
        discounts = 1 / np.log2(np.arange(2, last.max(initial=0) + 2))
        if self.cutoff is not None:
            discounts[self.cutoff :] = 0
        sums = np.append(0, np.cumsum(discounts))
        means: NDArray[np.float64] = (sums[last] - sums[first - 1]) / (last - first + 1)
        return means
