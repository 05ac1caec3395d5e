"""Examples of fine-tuning: a query, a relevant document, and negatives mined for the query (paper, appendix A)."""

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CannotStart
from lexbench.lexmae.data.training_sets import Lists, TrainingSet


class Source(NamedTuple):
    """A training set and the negatives mined for it."""

    training_set: TrainingSet
    negatives: Lists  # for each query, best first
    left_out: Collection[str] = frozenset()  # ids of queries that are not trained on


class Example(NamedTuple):
    """One example. Documents are positions in the corpus of its training set."""

    source: int  # index of the source
    query: int  # index of the query in its training set
    positive: int
    negatives: NDArray[np.int32]  # (negatives,)

    @property
    def documents(self) -> list[int]:
        """The corpus positions of the example's documents, the relevant one first."""
        return [self.positive, *self.negatives.tolist()]


class Examples:
    """One example per relevant document of a query that has negatives (released code), or one example per query."""

    def __init__(
        self,
        sources: Sequence[Source],
        depth: int,
        pairs: Literal["all", "one_per_query"] = "all",
        strata: Sequence[int] = (),
    ) -> None:
        """Draw a query's negatives from the first *depth* entries of its list. Raises CannotStart if there is no example.

        *strata* are ascending ranks that split a list; each part gives the same number of negatives.
        """
        self.sources, self.depth, self.pairs, self.strata = tuple(sources), depth, pairs, tuple(strata)
        entries = [_entries(source, one_per_query=pairs == "one_per_query") for source in self.sources]
        self._entries = np.concatenate(entries)  # (examples,) index of the positive in its source's list of positives
        self._ends = np.cumsum([len(part) for part in entries])  # (sources,) where the examples of each source end
        if not len(self):
            names = ", ".join(source.training_set.contract.id for source in self.sources)
            raise CannotStart(
                f"nothing to train on: every query of {names} is held out or has no negatives; increase the stage's depth"
            )

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self._entries)

    def draw(self, example: int, rng: np.random.Generator, negatives: int) -> Example:
        """Return example number *example* with *negatives* negatives, drawn without replacement and repeated if too few.

        With one example per query, the relevant document is drawn too.
        """
        source = int(np.searchsorted(self._ends, example, side="right"))
        positives, mined = self.sources[source].training_set.positives, self.sources[source].negatives
        entry = int(self._entries[example])
        query = int(np.searchsorted(positives.offsets, entry, side="right")) - 1
        positive = rng.choice(positives[query]) if self.pairs == "one_per_query" else positives.docs[entry]
        pool = mined[query][: self.depth]
        return Example(source, query, int(positive), np.resize(self._drawn(pool, rng, negatives), negatives))

    def _drawn(self, pool: NDArray[np.int32], rng: np.random.Generator, number: int) -> NDArray[np.int32]:
        """Return at most *number* different documents of *pool*."""
        if not self.strata:
            return rng.choice(pool, min(number, len(pool)), replace=False)
        parts = [part for part in np.split(pool, [rank for rank in self.strata if rank < len(pool)]) if len(part)]
        shares = [len(share) for share in np.array_split(np.arange(number), len(parts))]
        chosen = [rng.choice(part, min(share, len(part)), replace=False) for part, share in zip(parts, shares, strict=True)]
        return np.concatenate(chosen)


def _entries(source: Source, *, one_per_query: bool) -> NDArray[np.int64]:
    """Return the entries of the positives that make an example (examples,); with one example per query, its first entry."""
    positives = source.training_set.positives
    trained = source.negatives.lengths > 0
    if source.left_out:
        trained &= [query.query_id not in source.left_out for query in source.training_set.queries]
    if one_per_query:
        return positives.offsets[:-1][trained]
    return np.flatnonzero(np.repeat(trained, positives.lengths))
