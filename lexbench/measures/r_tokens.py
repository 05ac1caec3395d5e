"""R in a budget of tokens: the share of relevant documents that fit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.measures._budget import Budget
from lexbench.trec.judged_run import JudgedRun, ratio


@dataclass(frozen=True)
class RTokens(Budget):
    """Recall in a budget: documents of grade *rel* or better that fit into *budget* tokens, divided by all judged ones.

    Written `R@2000tok`. Documents count in the order of the list until one does not fit. Use it if a model reads what was
    found, and systems return passages of different lengths. lexbench's own; asked for in OpenTranscribe 531, openrag 781.
    """

    budget: int  # tokens
    rel: float | None = None  # None: the contract's, or 1
    tokenizer: str | None = None  # of a model or folder, which counts; None: that of lexmae_nano, WordPiece

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the recall (queries,). Raises LexbenchError if tokens were not counted."""
        rel = self.rel or 1
        within = judged.fitting(self.budget, self.counted_by) & (judged.grade >= rel)
        return ratio(judged.sum(within), judged.relevant(rel))
