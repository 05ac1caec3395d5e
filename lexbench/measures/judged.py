"""Judged: the share of returned documents that were judged."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun, ratio


@dataclass(frozen=True)
class Judged(Measure):
    """Documents with a judgement of any grade among the first *cutoff*, divided by the number of returned ones.

    Use it beside every other measure: if it is low, the others mostly measure similarity to the systems whose results were
    judged. ir-measures' `Judged`; 1 - BEIR's `hole@k`. MacAvaney, Macdonald and Ounis, ECIR 2022.
    """

    cutoff: int | None = None

    continuous: ClassVar[bool] = True

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the share of judged documents (queries,)."""
        returned = judged.retrieved if self.cutoff is None else np.minimum(judged.retrieved, self.cutoff)
        return ratio(judged.sum(judged.within(self.cutoff)), returned.astype(np.float64))
