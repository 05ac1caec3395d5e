"""nDCG in a budget of tokens: whether the most relevant documents come first, as far as the budget goes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.measures._budget import Budget
from lexbench.trec.judged_run import JudgedRun, ratio


@dataclass(frozen=True)
class nDCGTokens(Budget):  # noqa: N801 - the field's name
    """Discounted cumulative gain of the documents that fit into *budget* tokens, divided by that of the best that could fit.

    Written `nDCG@4000tok`. The gain is the grade. The divisor has the best grades of the query, as many as judged documents
    with a grade above 0 fit if the shortest are taken: no list has more. Grades may be continuous. Use it like `R@2000tok`, if
    grades differ. lexbench's own, after `nDCG`.
    """

    budget: int  # tokens
    tokenizer: str | None = None  # of a model or folder, which counts; None: that of lexmae_nano, WordPiece

    continuous: ClassVar[bool] = True

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return nDCG (queries,). Raises LexbenchError if tokens were not counted."""
        gain = np.maximum(judged.grade, 0) / np.log2(judged.rank + 1)
        best = judged.ideal(judged.most_fitting(self.budget, self.counted_by))
        return ratio(judged.sum(judged.fitting(self.budget, self.counted_by), gain), best)
