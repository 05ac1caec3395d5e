"""A retriever searches passages of documents; a document gets the score of its best or first passage, or their sum.

MaxP, FirstP and SumP of Dai and Callan, "Deeper Text Understanding for IR with Contextual Neural Language Modeling" (SIGIR
2019), for first-stage retrieval: the index is of passages, and the run of documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.fusion import top_k, union
from lexbench.arrays.vectors import offsets_of, ranges
from lexbench.artifacts.corpora import DerivedCorpus, StoredTexts
from lexbench.artifacts.searches import Scorer, Search
from lexbench.datasets.passages import DOCUMENTS, TITLES, Units, Windows, sentences, words, write_passages
from lexbench.engines.kernels.checks import as_hits, no_hits
from lexbench.errors import CommandError
from lexbench.plugins import Encoder, QueryEncoder, Rescorer, Retriever, Searcher, has
from lexbench.registry import at_search
from lexbench.retrievers._fusion import member_scores, must_rescore
from lexbench.retrievers.encoded import Encoded
from lexbench.storage.node import Node
from lexbench.types import Corpus, Hits, Query

SCORES = ("max", "first", "sum")
_UNITS = {"tokens": 4.5, "words": 6.0, "sentences": 110.0}  # with their bytes in English, for estimates
_FEWEST = 2  # units of a passage
_CUTTING = 1  # goes up when the same settings cut texts elsewhere


@dataclass(frozen=True)
class Passages(Retriever):
    """The documents of the best passages that the one member finds, `bm25` or an `encoder@engine`.

    The length of a passage is given in *tokens* (of the encoder's model, special ones included), in *words* (between white
    space) or in *sentences*; the next passage begins *stride* of these later, 0 for the whole length. The first *most* passages
    of each document are indexed, 0 for all. *titles*: "first" cuts texts as they are, "each" puts the title before each
    passage.

    *score*: "max" is the score of the best passage. "first" is the score of the first passage, and only this one is indexed.
    "sum" adds up all passages of the *depth* documents with the best passages. The search goes deep enough to find the
    requested number of documents.
    """

    members: tuple[Any, ...] = ()
    tokens: int = 0
    words: int = 0
    sentences: int = 0
    stride: int = 0
    score: str = "max"
    most: int = 0
    titles: str = "first"
    depth: int = at_search(1000)

    family: ClassVar[str] = ""  # the family of its member counts
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        member = self.members[0] if len(self.members) == 1 else None
        if member is None or not has(member, "open") or member.members:
            raise CommandError(
                "passages takes one retriever with an index of its own, e.g. passages(bm25, words=150, stride=75); what "
                "combines retrievers goes around it, e.g. ensemble(passages(bm25, words=150), bm25)"
            )
        self._check_size()
        for name, allowed in (("score", SCORES), ("titles", TITLES)):
            if getattr(self, name) not in allowed:
                raise CommandError(f"passages({name}={getattr(self, name)!r}): there is {', '.join(allowed)}")
        if self.most < 0 or (self.most > 1 and self.score == "first"):
            rule = 'score="first" indexes one' if self.most > 0 else "a number above 0, or 0 for all"
            raise CommandError(f"passages(most={self.most}): {rule}")
        if self.depth < 1:
            raise CommandError(f"passages(depth={self.depth}): a whole number from 1, e.g. depth=1000")
        if self.score == "sum":
            must_rescore('passages(score="sum")', self.members)

    def _check_size(self) -> None:
        """Raise CommandError unless one unit is given, with a size and a stride that can be."""
        given = [unit for unit in _UNITS if getattr(self, unit)]
        if len(given) != 1:
            what = f"{' and '.join(given)} are given" if given else "none is given"
            raise CommandError(
                f"passages takes one of tokens=…, words=… and sentences=…, e.g. passages(bm25, words=150); {what}"
            )
        (unit,) = given
        size, least = self._size, 1 if unit == "sentences" else _FEWEST
        if size < least:
            raise CommandError(f"passages({unit}={size}): a whole number from {least}")
        if not 0 <= self.stride <= size:
            raise CommandError(
                f"passages({unit}={size}, stride={self.stride}): give at most {size}, or text between passages is left out; "
                f"0 is {size}"
            )
        if unit != "tokens":
            return
        (member,) = self.members
        encoder = member.encoder if isinstance(member, Encoded) else member
        if not isinstance(encoder, Encoder) or encoder.document_length is None:
            raise CommandError(
                f"passages(tokens={self.tokens}): {type(encoder).__name__} has no tokens; type words=… or sentences=…"
            )
        if self.tokens > encoder.document_length:
            raise CommandError(
                f"passages(tokens={self.tokens}): the encoder reads {encoder.document_length} of them; type "
                f"tokens={encoder.document_length}, or give it document_length={self.tokens}"
            )

    @property
    def _unit(self) -> str:
        """The setting that is given: tokens, words or sentences."""
        return next(unit for unit in _UNITS if getattr(self, unit))

    @property
    def _size(self) -> int:
        """The length of a passage in units."""
        return int(getattr(self, self._unit))

    @property
    def absent_is_zero(self) -> bool:
        """Whether documents that a list shorter than asked for lacks have the score 0."""
        return bool(self.members[0].absent_is_zero)

    # ---- cutting -----------------------------------------------------------------------------------------------------------

    @property
    def _windows(self) -> Windows:
        """How texts are cut."""
        most = 1 if self.score == "first" else self.most
        return Windows(self._size, self.stride or self._size, most, self.titles, self._unit == "tokens")

    def _passages(self, corpus: StoredTexts) -> DerivedCorpus:
        """Return the corpus of the passages."""
        recipe = {"unit": self._unit, **self._windows._asdict(), "version": _CUTTING}
        if self._unit == "tokens":
            recipe["encoder"] = self.members[0].encoder
        return DerivedCorpus(corpus, "passages", recipe, self._write, self._growth)

    def _write(self, corpus: Corpus, path: Path) -> None:
        """Write the passages of *corpus* into *path*."""
        windows = self._windows
        units: Units = words if self._unit == "words" else sentences
        if self._unit == "tokens":
            encoder: Encoder = self.members[0].encoder
            own, units = encoder.own_tokens(), encoder.token_spans
            if windows.size - own < _FEWEST:
                raise CommandError(
                    f"passages(tokens={self.tokens}): {own} of them are the model's own; give at least {own + _FEWEST}"
                )
            windows = windows._replace(size=windows.size - own, stride=min(windows.stride, windows.size - own))
        write_passages(corpus, path, windows, units)

    def _growth(self, text_bytes: float) -> float:
        """Return about how many passages a document of *text_bytes* has."""
        windows = self._windows
        count = 1 + max(0.0, text_bytes / _UNITS[self._unit] - windows.size) / windows.stride
        return min(count, windows.most or count)

    # ---- searching ---------------------------------------------------------------------------------------------------------

    def check_depth(self, depth: int) -> None:
        """Raise CommandError if a run is deeper than the number of documents whose passages are added up."""
        if self.score == "sum" and depth > self.depth:
            raise CommandError(f"passages(depth={self.depth}) is asked for {depth} documents per query; give it depth={depth}")

    def parts(self, corpus: StoredTexts) -> dict[str, Node[Any]]:
        """Return the passages, the search of the member in them, and its scorer if scores are added up."""
        passages, (member,) = self._passages(corpus), self.members
        scorer = {"scorer": Scorer(passages, member)} if self.score == "sum" else {}
        return {"passages": passages, "member": Search(passages, member), **scorer}

    def open(self, opened: Mapping[str, Any]) -> "PassageSearcher":
        """Return a searcher of the passages."""
        rescorer = self.scorer(opened) if self.score == "sum" else None
        return PassageSearcher(opened["member"], _documents(opened["passages"].path), rescorer, self.depth)

    def scorer_parts(self, corpus: StoredTexts) -> dict[str, Node[Any]]:
        """Return the passages, and the scorer of the member for them."""
        must_rescore("passages", self.members)
        passages = self._passages(corpus)
        return {"passages": passages, "scorer": Scorer(passages, self.members[0])}

    def scorer(self, opened: Mapping[str, Any]) -> "PassageRescorer":
        """Return the scorer of given documents by their passages."""
        return PassageRescorer(opened["scorer"], _documents(opened["passages"].path), self.score)


def _documents(corpus: Path) -> NDArray[np.int32]:
    """Return the position of the document of each passage (passages,)."""
    documents: NDArray[np.int32] = np.load(corpus / DOCUMENTS, mmap_mode="r")
    return documents


@dataclass(frozen=True)
class PassageQueries(QueryEncoder):
    """What searching and scoring by passages share: the member encodes queries."""

    member: Any  # its Searcher or Rescorer
    documents: NDArray[np.int32]  # (passages,) position of the document of each, ascending

    def encode(self, queries: Sequence[str]) -> Any:
        """Let the member encode query texts."""
        return self.member.encode(queries)

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Let the member encode queries with their ids."""
        return self.member.encode_queries(queries)


@dataclass(frozen=True)
class PassageRescorer(PassageQueries, Rescorer):
    """Scores given documents by all their indexed passages."""

    score_by: str  # "max", "first" or "sum"

    def score(self, encoded: Any, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the scores (queries, n) of the documents *docs*, from the member's scores of their passages."""
        # The passages of document d are starts[d] to starts[d] + counts[d]; a -1 in *docs* has none.
        starts = np.searchsorted(self.documents, docs.ravel())
        counts = np.searchsorted(self.documents, docs.ravel(), side="right") - starts
        per_query = counts.reshape(docs.shape).sum(axis=1)
        # One row per query with the passages of all its documents, ascending, then -1.
        rows = np.repeat(np.arange(len(docs)), per_query)
        columns = np.arange(counts.sum()) - np.repeat(np.cumsum(per_query) - per_query, per_query)
        passages = np.full((len(docs), int(per_query.max(initial=0))), -1, np.int32)
        passages[rows, columns] = ranges(starts, offsets_of(counts))
        if not passages.size:
            return np.zeros(docs.shape, np.float32)
        scores = member_scores(self.member, encoded, passages)[rows, columns].astype(np.float64)
        there = counts > 0
        reduce = np.add if self.score_by == "sum" else np.maximum
        found = np.zeros(docs.size)
        found[there] = reduce.reduceat(scores, (np.cumsum(counts) - counts)[there])
        return found.reshape(docs.shape).astype(np.float32)


@dataclass(frozen=True)
class PassageSearcher(PassageQueries, Searcher):
    """The opened index of the passages."""

    rescorer: PassageRescorer | None  # if a document's score is the sum of its passages'
    depth: int  # documents that are then rescored

    @property
    def queries_at_a_time(self) -> int:
        """The number that the member wants."""
        return int(self.member.queries_at_a_time)

    def work(self, encoded: Any) -> Any:
        """Return the counts of the member."""
        return self.member.work(encoded)

    def search(self, encoded: Any, k: int) -> Hits:
        """Return the best *k* documents of each query; fewer if no more have a passage that is found."""
        if self.rescorer is None:
            return self._by_maximum(encoded, k)
        docs = union([self._by_maximum(encoded, max(self.depth, k))])
        scores = np.where(docs >= 0, self.rescorer.score(encoded, docs), -np.inf).astype(np.float32)
        return top_k(docs, scores, k)

    def _by_maximum(self, encoded: Any, k: int) -> Hits:
        """Return the *k* documents with the best passages, in the order in which the member finds them.

        Lists of passages are searched twice as deep until they have *k* documents. A query keeps the first list that has,
        however deep other queries are searched, so that its answer does not depend on them.
        """
        passages = len(self.documents)
        width = min(passages, k if passages == self.documents[-1] + 1 else 2 * k)
        found, settled = self._collapsed(encoded, width, k)
        while width < passages and not settled.all():
            width = min(passages, 2 * width)
            deeper, now_settled = self._collapsed(encoded, width, k)
            found.docs[~settled], found.scores[~settled] = deeper.docs[~settled], deeper.scores[~settled]
            settled |= now_settled
        return found

    def _collapsed(self, encoded: Any, width: int, k: int) -> tuple[Hits, NDArray[np.bool_]]:
        """Search for *width* passages; return the first *k* documents of each list, and which lists need no deeper search.

        A list is settled if it has *k* documents, or if no more passages are found.
        """
        hits = as_hits(self.member.search(encoded, width), type(self.member).__name__)
        docs, scores = no_hits(len(hits.docs), k)
        for row, (passages, values) in enumerate(zip(hits.docs, hits.scores, strict=True)):
            there = passages >= 0
            named = self.documents[passages[there]]
            first = np.sort(np.unique(named, return_index=True)[1])[:k]
            docs[row, : len(first)], scores[row, : len(first)] = named[first], values[there][first]
        return Hits(docs, scores), (docs[:, -1] >= 0) | (np.count_nonzero(hits.docs >= 0, axis=1) < width)
