"""The types that pass between a dataset, a retriever and the harness: documents, queries, judgements, hits, vectors.

Inside the harness, a document is its *position*: position 0 is the document whose id is the **largest** in byte order, and so
on downwards. trec_eval breaks ties of score by document id, descending, so "equal scores: the lower position first" is
trec_eval's order, which engines keep without extra work.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Document(NamedTuple):
    """One document as retrievers see it. The contract of the dataset determines how the title is joined into *text*."""

    doc_id: str
    text: str
    body_at: int = 0  # where the body starts in *text*, in characters; 0: no title is known

    @property
    def title(self) -> str:
        """The title, '' for none."""
        return self.text[: self.body_at].strip()

    @property
    def body(self) -> str:
        """The text without the title."""
        return self.text[self.body_at :]


class Query(NamedTuple):
    """One query. Its *instruction* says which documents are relevant (FollowIR, InstructIR); "" if it has none."""

    query_id: str
    text: str
    instruction: str = ""


class Judgement(NamedTuple):
    """One relevance judgement. A *grade* <= 0 means not relevant; collections use 0, -1 and -2."""

    query_id: str
    doc_id: str
    grade: int | float  # whole grades are integers


class Verdict(NamedTuple):
    """The grade that a plug-in judge gives to a document, with its answer."""

    grade: int | None  # None if the answer has no grade
    answer: str  # unchanged


class Hits(NamedTuple):
    """The best documents of each query, best first; of equal scores the lower position comes first."""

    docs: NDArray[np.int32]  # (queries, k) corpus positions, -1 = none
    scores: NDArray[np.float32]  # (queries, k)


class CollectionStatistics(NamedTuple):
    """How many documents an index of sparse vectors has, and how many of them have each term."""

    documents: int
    document_frequency: NDArray[np.int64]  # (vocabulary,)

    @classmethod
    def from_vectors(cls, shards: Iterable[Any]) -> "CollectionStatistics":
        """Count the sparse vectors of *shards*, each (n, vocabulary)."""
        documents, frequency = 0, np.zeros(0, np.int64)
        for vectors in shards:
            counts = np.bincount(vectors.indices, minlength=vectors.shape[1])
            frequency = counts if not len(frequency) else frequency + counts
            documents += vectors.shape[0]
        return cls(documents, frequency)


class TrainingData(NamedTuple):
    """The training data of a model: ids of datasets, or other names that contracts know for collections."""

    queries: tuple[str, ...]  # trained on with judgements, or as pairs
    texts: tuple[str, ...]  # trained on without judgements
    models: tuple[str, ...]  # that it started from or was taught by: names on the hub, or folders
    source: str  # of this information
    chosen: tuple[str, ...] = ()  # collections whose judgements chose it among models of the same training


class Kind(StrEnum):
    """The kind of vectors that an encoder makes and an engine takes."""

    SPARSE = "sparse"  # scipy.sparse.csr_array (texts, vocabulary), float32
    DENSE = "dense"  # NDArray[np.float32] (texts, dimensions)
    MULTI = "multi"  # MultiVectors, float32


class MultiVectors(NamedTuple):
    """One vector per token: text i has values[offsets[i]:offsets[i + 1]], which may be none."""

    values: NDArray[np.float32]  # (tokens, dimensions)
    offsets: NDArray[np.int64]  # (texts + 1,), from 0

    @property
    def shape(self) -> tuple[int, int]:
        """The number of texts and the width of a vector, like the shape of other kinds of vectors."""
        return len(self.offsets) - 1, self.values.shape[1]


class Codes(NamedTuple):
    """Dense vectors made short, one row per text: a bit of each dimension, packed, or a byte of each."""

    values: NDArray[Any]  # (texts, bytes), uint8 for bits, else int8
    dimensions: int
    source: Any = None  # the vectors (texts, dimensions), or the codes, that score candidates again; None: they are not kept
    scales: NDArray[np.float32] | None = None  # (texts,) of queries in int8: a score is its product times the scale,
    offsets: NDArray[np.float32] | None = None  # plus the offset

    @property
    def shape(self) -> tuple[int, int]:
        """The number of texts and of dimensions, like the shape of other kinds of vectors."""
        return len(self.values), self.dimensions

    @property
    def of_bits(self) -> bool:
        """Whether a dimension is one bit."""
        return bool(self.values.dtype == np.uint8)

    @property
    def bytes_per_text(self) -> int:
        """The bytes of a text's codes, and of its source if that is kept: four per dimension of vectors."""
        source = self.source
        kept = 0 if source is None else source.bytes_per_text if isinstance(source, Codes) else 4 * source.shape[1]
        return int(self.values.shape[1]) + kept

    def kept(self, *, source: bool) -> "Codes":
        """Return the codes without their source, or with it alone: not with the source of that."""
        if not source:
            return self._replace(source=None)
        return self._replace(source=self.source.kept(source=False) if isinstance(self.source, Codes) else self.source)

    def rows(self, rows: slice) -> "Codes":
        """Return some *rows*."""

        def cut(part: Any) -> Any:
            return None if part is None else part.rows(rows) if isinstance(part, Codes) else part[rows]

        return Codes(self.values[rows], self.dimensions, cut(self.source), cut(self.scales), cut(self.offsets))


class Corpus(Protocol):
    """Documents in position order, read from disk when they are asked for; never a list of Python objects."""

    @property
    def fingerprint(self) -> str:
        """Digest of every id and text: two corpora with the same fingerprint give the same index."""
        ...

    @property
    def doc_ids(self) -> NDArray[np.bytes_]:
        """UTF-8 ids by position (documents,), descending."""
        ...

    def __len__(self) -> int:
        """Return the number of documents."""
        ...

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Document]:
        """Yield the documents at positions *start* up to *stop* (default: the end)."""
        ...
