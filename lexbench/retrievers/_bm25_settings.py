"""What `bm25` and `bm25@lucene` have in common: their settings, and how they break ties."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lexbench.errors import CommandError, MissingData
from lexbench.plugins import Retriever
from lexbench.registry import at_search, runtime
from lexbench.storage.reading import cached_file_digest
from lexbench.trec.order import strictly_decreasing
from lexbench.types import Hits

ANSERINI, TREC_EVAL = "anserini", "trec_eval"
_FILES = ("expansions", "term_weights")


@dataclass(frozen=True)
class Settings(Retriever):
    """The parameters of BM25, with Anserini's values.

    Short documents often have equal scores, so the order of equals decides published figures: in NFCorpus it moves nDCG@10 by
    0.0012. With *ties* "anserini" documents come in the order that trec_eval gives Anserini's run files (`_anserini_ties`), and
    scores are lowered to the next float32 numbers that are in that order; with "trec_eval" equal scores stay equal, and the
    harness puts the larger id first.

    *expansions* is a file of text that is added to documents (docT5query), see `lexbench.datasets.expansion`. *term_weights* is
    one of term frequencies that take the place of theirs (DeepCT), JSON lines {"id": …, "vector": {"word": whole number}}; the
    words go through the analyser as texts do. DeepCT's are searched with k1=10 and b=0.9.
    """

    k1: float = at_search(0.9)
    b: float = at_search(0.4)
    ties: str = ANSERINI
    expansions: str | None = runtime(None)  # the digests of files are in the key, and where they lie is not
    term_weights: str | None = runtime(None)

    def __post_init__(self) -> None:
        """Raise CommandError for values that BM25 has no meaning for."""
        if not (0 <= self.k1 < np.inf and 0 <= self.b <= 1):
            raise CommandError(f"bm25(k1={self.k1}, b={self.b}) cannot be: k1 is a number from 0 up, b is from 0 to 1")
        if self.ties not in (ANSERINI, TREC_EVAL):
            raise CommandError(f'bm25(ties="{self.ties}") is unknown; ties are "{ANSERINI}" or "{TREC_EVAL}"')
        if self.expansions and self.term_weights:
            raise CommandError("bm25(expansions=…, term_weights=…) cannot be: term weights take the place of texts; give one")
        for name in _FILES:
            if (given := getattr(self, name)) and not Path(given).is_file():
                raise MissingData(f"bm25({name}={given!r}): there is no such file")

    def identity(self) -> dict[str, str]:
        """Return the digests of the files that are given."""
        return {name: cached_file_digest(Path(given)) for name in _FILES if (given := getattr(self, name))}

    @property
    def absent_is_zero(self) -> bool:
        """Whether documents that a search does not return share no term with the query: always."""
        return True

    @property
    def lower_position_first(self) -> bool:
        """Whether of equal scores a search returns the lower position first; positions are in descending order of ids."""
        return self.ties == TREC_EVAL

    def settled(self, hits: Hits) -> Hits:
        """Return *hits* in the order of ties, with scores that keep it whoever sorts them if it is not the harness's own.

        *hits* descend by score; of equal ones the higher position comes first, unless `lower_position_first`.
        """
        if self.lower_position_first:
            return hits
        from lexbench.retrievers import _anserini_ties  # compiled

        columns = np.empty(hits.docs.shape, np.int64)
        _anserini_ties.order(hits.scores, hits.docs, columns)
        docs, scores = np.take_along_axis(hits.docs, columns, axis=1), np.take_along_axis(hits.scores, columns, axis=1)
        there = docs >= 0
        offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        scores[there] = strictly_decreasing(offsets, scores[there])
        return Hits(docs, scores)
