"""A measure of how often the first document is relevant."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.measures import JudgedRun, Measure


@dataclass(frozen=True)
class First(Measure):
    """1 if the first document has a grade of at least *rel*, else 0."""

    rel: int | None = None

    @property
    def cutoff(self) -> int | None:
        """It looks at one document."""
        return 1

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return 0 or 1 (queries,)."""
        return judged.sum(judged.within(1, self.rel or 1))
