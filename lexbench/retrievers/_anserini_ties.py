"""The order in which Anserini's run files stand, once trec_eval has read them: ScoreTiesAdjusterReranker, bit by bit.

Anserini searches in the order of score, then id, ascending. It rounds each score to 1e-4 and, where the score before it, as
adjusted, is not more than 1e-4 above, subtracts 1e-6 once more than from that one, in float32. The run file has six decimals.
trec_eval 9.0.4, which Anserini brings, keeps them as float32 and breaks what ties are left by id, descending. From 32 up
float32 has no room for 1e-6, so the ties of long queries go the other way than those of short ones.

Checked with the jar of pyserini 1.7.1, whose release of March 2026 rounds in double; before, it did in float32.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

_UNIT = np.float32(1e-4)
_STEP = np.float32(1e-6)


@njit(nogil=True, cache=True)
def order(scores: NDArray[np.float32], positions: NDArray[np.int32], ranks: NDArray[np.int64]) -> None:
    """Fill *ranks* (queries, k) with the columns of each row in the order that trec_eval gives Anserini's file.

    *scores* (queries, k) descend, of equal ones the higher of *positions* (queries, k) first; the lower a position, the larger
    its id, and -1 is no document, and stays where it is.
    """
    read = np.empty(scores.shape[1], np.float32)  # as trec_eval reads them
    for query in range(len(scores)):
        before, ties = np.float32(0), 0
        for at in range(scores.shape[1]):
            ranks[query, at] = at
            if positions[query, at] < 0:
                continue
            score = np.float32(math.floor(np.float64(scores[query, at]) * 10000.0 + 0.5) / 10000.0)
            if at == 0 or before - score > _UNIT:
                ties = 0
            else:
                ties += 1
                score = np.float32(score - np.float32(_STEP * np.float32(ties)))
            before = score
            read[at] = np.float32(math.floor(np.float64(score) * 1e6 + 0.5) / 1e6)
            place = at  # lists are all but in order: a document moves past few others
            while place > 0:
                other = ranks[query, place - 1]
                same = read[other] == read[at]
                if read[other] > read[at] or (same and positions[query, other] < positions[query, at]):
                    break
                ranks[query, place] = other
                place -= 1
            ranks[query, place] = at
