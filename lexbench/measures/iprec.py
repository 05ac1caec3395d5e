"""IPrec: the precision that a list reaches at a share of the relevant documents, or later."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import NotationError
from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun


@dataclass(frozen=True)
class IPrec(Measure):
    """Interpolated precision: the best precision at any rank where at least the share *recall* of the relevant ones is found.

    The share is rounded to whole documents, halves up. Use it to draw precision against recall. trec_eval 10's
    `iprec_at_recall` (m_iprec_at_recall.c); up to 9.0.8, a share below .1 of a document was dropped and any other rounded up.
    """

    recall: float
    rel: float | None = None  # None: the contract's, or 1
    up: bool | None = None  # round as trec_eval did up to 9.0.8

    at: ClassVar[str] = "recall"
    example: ClassVar[str] = "0.1"

    @property
    def cutoff(self) -> int | None:  # type: ignore[override] # the recall takes its place
        """All documents."""
        return None

    def __post_init__(self) -> None:
        """Raise NotationError if *recall* is not from 0 to 1, or for what no measure takes."""
        super().__post_init__()
        if not 0 <= self.recall <= 1:
            raise NotationError(f"recall of IPrec is from 0 to 1, not {self.recall}; write IPrec@0.1")

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the interpolated precision (queries,)."""
        rel = self.rel or 1
        relevant = judged.within(None, rel)
        query = judged.query[relevant]
        so_far = np.arange(1, len(query) + 1) - np.searchsorted(query, query)  # relevant documents down to this one
        share = self.recall * judged.relevant(rel)
        needed = np.floor(share + 0.9) if self.up else np.floor(share) + (share % 1 >= 0.5)  # noqa: PLR2004 - a half
        enough = so_far >= needed[query]
        best = np.zeros(len(judged.query_ids))
        np.maximum.at(best, query[enough], (so_far / judged.rank[relevant])[enough])
        return best
