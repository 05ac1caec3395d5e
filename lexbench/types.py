"""The nouns that every part of lexbench speaks: what passes between a dataset, a retriever and the harness.

Nothing here does work. Document *positions* are the one way to name a document inside the harness: position 0 is the
document whose id is the **largest** in byte order, and so on downwards. trec_eval breaks ties of score by document id,
descending, so "equal scores: the lower position first" is trec_eval's order, and it is what engines do by themselves.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Document(NamedTuple):
    """One document as retrievers see it: the title is joined into *text* by the dataset's contract, once."""

    doc_id: str
    text: str
    body_at: int = 0  # where the body starts in *text*, in characters; 0 = there is no title, or nobody knows of one

    @property
    def title(self) -> str:
        """The title, '' for none."""
        return self.text[: self.body_at].strip()

    @property
    def body(self) -> str:
        """The text without the title."""
        return self.text[self.body_at :]


class Query(NamedTuple):
    """One query."""

    query_id: str
    text: str


class Judgement(NamedTuple):
    """One relevance judgement. *grade* <= 0 is judged and not relevant; collections use 0, -1 and -2 for it."""

    query_id: str
    doc_id: str
    grade: int


class Verdict(NamedTuple):
    """What a judge that is no person says of a document."""

    grade: int | None  # None where the answer has no grade
    answer: str  # as it came


class Hits(NamedTuple):
    """The best documents of each query, best first; of equal scores the lower position comes first."""

    docs: NDArray[np.int32]  # (queries, k) corpus positions, -1 = none
    scores: NDArray[np.float32]  # (queries, k)


class TrainingData(NamedTuple):
    """What a model has learned from: ids of datasets, or names that contracts know collections by."""

    queries: tuple[str, ...]  # with their judgements, or as pairs
    texts: tuple[str, ...]  # without
    models: tuple[str, ...]  # that it began with or was taught by: names on the hub, or folders
    source: str  # who says so
    chosen: tuple[str, ...] = ()  # collections by whose judgements it was chosen among others of the same training


class Kind(StrEnum):
    """What an encoder makes and an engine takes."""

    SPARSE = "sparse"  # scipy.sparse.csr_array (texts, vocabulary), float32
    DENSE = "dense"  # NDArray[np.float32] (texts, dimensions)
    MULTI = "multi"  # MultiVectors, float32


class MultiVectors(NamedTuple):
    """One vector a token; those of text i are values[offsets[i]:offsets[i + 1]], and a text may have none."""

    values: NDArray[np.float32]  # (tokens, dimensions)
    offsets: NDArray[np.int64]  # (texts + 1,), from 0

    @property
    def shape(self) -> tuple[int, int]:
        """The number of texts and the width of a vector, as the shape of other kinds of vectors has them."""
        return len(self.offsets) - 1, self.values.shape[1]


class Corpus(Protocol):
    """Documents in position order, read from disk as they are asked for; never a list of Python objects."""

    @property
    def fingerprint(self) -> str:
        """Digest of every id and text: two corpora with one fingerprint give one index."""
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
