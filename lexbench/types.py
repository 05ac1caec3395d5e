"""The nouns that every part of lexbench speaks: what passes between a dataset, a retriever and the harness.

Nothing here does work. Document *positions* are the one way to name a document inside the harness: position 0 is the
document whose id is the **largest** in byte order, and so on downwards. trec_eval breaks ties of score by document id,
descending, so "equal scores: the lower position first" is trec_eval's order, and it is what engines do by themselves.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

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


class Hits(NamedTuple):
    """The best documents of each query, best first; of equal scores the lower position comes first."""

    docs: NDArray[np.int32]  # (queries, k) corpus positions, -1 = none
    scores: NDArray[np.float32]  # (queries, k)


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


@runtime_checkable
class Identifying(Protocol):
    """A searcher, or an encoder, that has to know which query a text is: vectors may come from a file, by id."""

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Return what encoding the texts of *queries* gives."""
        ...


V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
V_contra = TypeVar("V_contra", contravariant=True)
Q = TypeVar("Q")


class Searcher(Protocol[Q]):
    """An opened index. Two steps, so that they can be timed apart.

    One that takes long for a query has a number `queries_at_a_time`: runs are kept, and tell of progress, in such blocks.
    """

    def encode(self, queries: Sequence[str]) -> Q:
        """Turn query texts into what *search* takes: BM25 tokenises, a neural model runs."""
        ...

    def search(self, encoded: Q, k: int) -> Hits:
        """Return the best *k* documents of each query; fewer where fewer match (position -1)."""
        ...


class Retriever(Protocol):
    """Ranks the documents of a corpus for text queries: all that the harness knows of a system.

    The path is everything that passes from building to searching, so an index can be opened by another process.
    """

    def build(self, corpus: Corpus, path: Path) -> None:
        """Write an index of *corpus* into the existing, empty folder *path*."""
        ...

    def open(self, path: Path) -> Searcher[Any]:
        """Open what *build* wrote."""
        ...


@runtime_checkable
class Encoder(Protocol[V_co]):
    """Turns texts into vectors. Knows no index. One that is a plug-in has its `kind`, so that a plan can check the engine."""

    def encode_document(self, texts: Sequence[str]) -> V_co:
        """Return one vector a text, in order."""
        ...

    def encode_query(self, texts: Sequence[str]) -> V_co:
        """Return one vector a text, in order."""
        ...


@runtime_checkable
class Staged(Protocol[Q, V_co]):
    """An encoder that cuts its own batches, in two steps which run at the same time on different shards of a corpus."""

    def tokenise_documents(self, documents: Sequence[Document]) -> Q:
        """Return what *encode_tokens* takes; on the CPU, in a thread of its own. It may count `truncated` documents."""
        ...

    def encode_tokens(self, tokens: Q, advance: Callable[[int], None]) -> V_co:
        """Return one vector a document, in order, telling *advance* how many more are done."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Scores a document by reading it together with the query."""

    def score(self, queries: Sequence[str], documents: Sequence[Document]) -> NDArray[np.float32]:
        """Return how relevant documents[i] is to queries[i] (n,), finite; the higher the better."""
        ...


class Index(Protocol[V_contra]):
    """Vectors made searchable."""

    def search(self, queries: V_contra, k: int) -> Hits:
        """Return the *k* largest dot products of each query vector; of equal ones the lower position."""
        ...


class Engine(Protocol[V_contra]):
    """Finds the nearest vectors. Knows no text.

    A sparse engine whose class has `impacts = True` takes whole numbers only; vectors are quantised for it.
    """

    kind: Kind

    def build(self, shards: Iterable[V_contra], path: Path) -> None:
        """Index the vectors, which come in position order, into the existing, empty folder *path*."""
        ...

    def open(self, path: Path) -> Index[V_contra]:
        """Open what *build* wrote."""
        ...


class Transform(Protocol):
    """Vectors to vectors, applied to stored encodings: top-K, quantisation, pruning."""

    kind: Kind

    def document(self, vectors: Any) -> Any:
        """Transform document vectors (n, width), keeping their number and order."""
        ...

    def query(self, vectors: Any) -> Any:
        """Transform query vectors (n, width), keeping their number and order."""
        ...


class Vectors(Protocol[V_co]):
    """The stored vectors of a corpus."""

    @property
    def path(self) -> Path:
        """Their folder, from which `lexbench.encodings.shards` reads them."""
        ...

    def shards(self) -> Iterator[V_co]:
        """Yield them shard by shard, in position order."""
        ...

    def truncated(self) -> int:
        """Return how many texts were cut to the encoder's length."""
        ...


class Workshop(Protocol):
    """What a retriever that is made of parts asks the harness for: each thing is made once, kept and shared."""

    def encodings(self, encoder: Encoder[Any]) -> Vectors[Any]:
        """Return the vectors of the corpus."""
        ...

    def index(self, retriever: "Retriever | Composite") -> Path:
        """Return the folder of an index of the corpus."""
        ...

    def texts(self) -> Path:
        """Return the folder of the stored corpus, for `lexbench.datasets.corpus.open_corpus`."""
        ...


@runtime_checkable
class Composite(Protocol):
    """A retriever that is made of parts: encoder and engine, or several retrievers."""

    def assemble(self, corpus: Corpus, path: Path, workshop: Workshop) -> None:
        """Write an index of *corpus* into the existing, empty folder *path*, taking its parts from *workshop*."""
        ...

    def open(self, path: Path) -> Searcher[Any]:
        """Open what *assemble* wrote."""
        ...


@runtime_checkable
class Combined(Protocol):
    """A composite of retrievers. Its index is where their indexes and vectors are, and nothing of its own."""

    @property
    def parts(self) -> Sequence[Any]:
        """The retrievers."""
        ...

    def folders(self, workshop: Workshop) -> list[Path]:
        """Return the folders that searching reads, in order: each made, or found."""
        ...

    def check_depth(self, depth: int) -> None:
        """Raise CommandError where a run of *depth* documents a query cannot come of the settings."""
        ...


class Scorer(Protocol[Q]):
    """Scores documents that it is given: exactly, without a search."""

    def encode(self, queries: Sequence[str]) -> Q:
        """Turn query texts into what *score* takes, as a searcher of the same retriever does for its *search*."""
        ...

    def score(self, encoded: Q, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return scores (queries, n) of the positions *docs* (queries, n), each row ascending, then -1 where there are no more.

        A document that does not match has the score 0 of an empty sum; what stands at a -1 means nothing.
        """
        ...


@runtime_checkable
class Scoring(Protocol):
    """A retriever that can also score documents it is given, and so come later in a pipeline."""

    def stored(self, workshop: Workshop) -> list[Path]:
        """Return the folders that scoring reads, in order: each made, or found."""
        ...

    def scorer(self, folders: Iterator[Path]) -> Scorer[Any]:
        """Open what *stored* returned, taking as many from *folders*."""
        ...
