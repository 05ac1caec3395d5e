"""The largest logits of texts that stand behind each other, all of a piece of the vocabulary in one call.

torch wants a call for each run of equally long texts, and takes up to four times as long: a tenth of what lexmae_nano takes.
"""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def largest_float32(logits, starts, largest, first):  # type: ignore[no-untyped-def]
    """Write the largest *logits* (tokens, terms) of each text into its row of *largest* (texts, vocabulary), from *first* on.

    Text i has the tokens starts[i] to starts[i + 1]; where it has none nothing is written. NaN is larger than all.
    """
    for text in range(len(starts) - 1):
        start, stop = starts[text], starts[text + 1]
        of_text = largest[text, first : first + logits.shape[1]]
        if start < stop:
            for i in range(len(of_text)):  # numba takes a second and a half to compile what copies a slice, and its error
                of_text[i] = logits[start, i]
        for row in range(start + 1, stop):
            of_row = logits[row]
            for i in range(len(of_row)):
                one, most = of_row[i], of_text[i]
                of_text[i] = one if (one > most) | (one != one) else most  # noqa: PLR0124 - only NaN is not itself


@njit(nogil=True, cache=True)
def largest_bfloat16(logits, starts, largest, first):  # type: ignore[no-untyped-def]
    """Do the same with the bits of *logits* in bfloat16, int16, and those of *largest* in float32, int32.

    The bits of positive numbers, read as a whole number, have their order, and those of negative ones are below 0: where no
    logit is above 0 it may be any of them, and NaN may be lost to a positive one.
    """
    most = np.empty(logits.shape[1], np.int16)
    for text in range(len(starts) - 1):
        start, stop = starts[text], starts[text + 1]
        if start == stop:
            continue
        for i in range(len(most)):
            most[i] = logits[start, i]
        for row in range(start + 1, stop):
            of_row = logits[row]
            for i in range(len(most)):
                most[i] = max(most[i], of_row[i])
        of_text = largest[text, first : first + len(most)]
        for i in range(len(most)):
            of_text[i] = np.int32(most[i]) << np.int32(16)
