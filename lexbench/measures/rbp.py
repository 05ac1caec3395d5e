"""RBP: the usefulness of a list to a user who gives up after some documents."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import NotationError
from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun


@dataclass(frozen=True)
class RBP(Measure):
    """Rank-biased precision: the sum of (1 - p) p^(rank - 1) over the documents of grade *rel* or better.

    A user reads the next document with the probability *p*. Use it if few judgements exist or you know how patient users are:
    what unjudged documents could add is bounded. ir-measures' `RBP(rel=1)`, of cwl-eval. Moffat and Zobel, TOIS 27(1), 2008.
    """

    p: float = 0.8  # persistence, between 0 and 1; a user reads 1 / (1 - p) documents on average
    cutoff: int | None = None
    rel: int | None = None  # None: the contract's, or 1

    def __post_init__(self) -> None:
        """Raise NotationError if *p* is not between 0 and 1, or for what no measure takes."""
        super().__post_init__()
        if not 0 < self.p < 1:
            raise NotationError(f"p of RBP is between 0 and 1, not {self.p}; write RBP(p=0.8)")

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the rank-biased precision (queries,)."""
        return judged.sum(judged.within(self.cutoff, self.rel or 1), (1 - self.p) * self.p ** (judged.rank - 1))
