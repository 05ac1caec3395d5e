"""What contradicts itself in a run file, and so must be said beside what is made of it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from lexbench.trec.ids import text_of


def against_ranks(queries: NDArray[np.bytes_], ranks: NDArray[np.bytes_], scores: NDArray[np.float64]) -> int:
    """Return how many queries have a later rank with a higher score, given the columns (entries,) of a file."""
    rises = np.flatnonzero(scores[1:] > scores[:-1])
    rises = rises[queries[rises] == queries[rises + 1]]
    with suppress(ValueError, OverflowError):  # they are no ranks, and nobody reads them
        return len(np.unique(queries[rises][ranks[rises].astype(np.int64) < ranks[rises + 1].astype(np.int64)]))
    return 0


def remarks(against: int, lists: int, tags: Sequence[bytes]) -> Iterator[str]:
    """Yield what contradicts itself in a file: scores that rise with ranks in *against* of its *lists*, or a second tag.

    *tags* has the file's first one first, and each of the others.
    """
    if against:
        yield f"in {against} of {lists} lists a later rank has a higher score: scores decide, as in trec_eval"
    if others := sorted(set(tags) - {tags[0]} if tags else ()):
        first, second = text_of(tags[0]), text_of(others[0])
        yield f"its lines have {len(others) + 1} tags, as {first!r} and {second!r}: is it one run?"
