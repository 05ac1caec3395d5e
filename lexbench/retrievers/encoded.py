"""Encoder @ engine: a retriever made of an encoder, transforms of its vectors, and the engine that searches them."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.encodings.statistics import Sizes, Tally, query_work
from lexbench.encodings.vectors import kind_of
from lexbench.errors import LexbenchError
from lexbench.retrievers._query_vectors import QueryVectors
from lexbench.retrievers._stored_vectors import StoredVectors
from lexbench.types import Corpus, Encoder, Engine, Hits, Identifying, Index, Kind, Query, Transform, Vectors, Workshop

ENGINE = "engine"  # the folder of the engine's own files: what counts as the size of the index
VECTORS = "vectors.json"  # what the indexed vectors look like
_FREQUENCIES = "document_frequency.npy"


@dataclass(frozen=True)
class EncodedSearcher(QueryVectors):
    """An opened engine index with the encoder for its queries."""

    index: Index[Any]
    document_frequency: NDArray[np.int64] | None  # (vocabulary,), of sparse vectors

    def search(self, encoded: Any, k: int) -> Hits:
        """Search the engine's index."""
        return self.index.search(encoded, k)

    def work(self, encoded: Any) -> dict[str, NDArray[np.int64]]:
        """Return what searching each query has to look at, in numbers that no machine changes; nothing for dense vectors."""
        return {} if self.document_frequency is None else query_work(encoded, self.document_frequency)


@dataclass(frozen=True)
class Encoded:
    """The vectors come from the store, so ten engines and nine values of K cost one encoding."""

    encoder: Encoder[Any]
    engine: Engine[Any]
    transforms: tuple[Transform, ...] = ()
    version: ClassVar[int] = 2

    def assemble(self, corpus: Corpus, path: Path, workshop: Workshop) -> None:
        """Build the engine's index in *path* from the stored encodings of *corpus*, and say what was indexed."""
        stored = workshop.encodings(self.encoder)
        counts: Counter[str] = Counter(truncated=stored.truncated())
        shards = self.documents(stored, counts)
        (path / ENGINE).mkdir()
        if self.engine.kind is Kind.SPARSE:
            tally = Tally(len(corpus))
            self.engine.build(tally.watch(shards), path / ENGINE)
            summary = tally.summary(corpus.doc_ids, getattr(self.encoder, "token", None))
            np.save(path / _FREQUENCIES, tally.document_frequency)
        else:
            sizes = Sizes()
            self.engine.build(sizes.watch(shards), path / ENGINE)
            summary = sizes.summary()
        text = json.dumps(summary | dict(counts), indent=1, ensure_ascii=False)
        (path / VECTORS).write_text(f"{text}\n", encoding="utf-8")

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Encode and transform queries; one vector a query."""
        return self.as_queries(self.query_vectors(queries))

    def query_vectors(self, queries: Sequence[Query]) -> Any:
        """Return what the encoder makes of queries, before the transforms."""
        if isinstance(self.encoder, Identifying):
            return self.encoder.encode_queries(queries)
        return self.encoder.encode_query([query.text for query in queries])

    def as_queries(self, vectors: Any) -> Any:
        """Transform query vectors."""
        for transform in self.transforms:
            vectors = transform.query(vectors)
        return vectors

    def documents(self, stored: Vectors[Any], counts: "Counter[str]") -> Iterator[Any]:
        """Yield the transformed shards of *stored* vectors, adding to *counts* what the transforms count."""
        for shard in stored.shards():
            yield self.as_documents(shard, counts)

    def as_documents(self, vectors: Any, counts: "Counter[str] | None" = None) -> Any:
        """Transform stored document vectors, adding to *counts*, if given, what the transforms count."""
        found = kind_of(vectors)
        if found is not self.engine.kind:
            engine, encoder = type(self.engine).__name__, type(self.encoder).__name__
            raise LexbenchError(f"{engine} takes {self.engine.kind} vectors; {encoder} made {found} ones")
        for transform in self.transforms:
            if counts is not None and hasattr(transform, "counts"):
                counts.update(transform.counts(vectors))
            vectors = transform.document(vectors)
        return vectors

    def open(self, path: Path) -> EncodedSearcher:
        """Open the engine's index in *path*."""
        frequencies = path / _FREQUENCIES
        found = np.load(frequencies, mmap_mode="r") if frequencies.exists() else None
        return EncodedSearcher(self, self.engine.open(path / ENGINE), found)

    def stored(self, workshop: Workshop) -> list[Path]:
        """Return the folder of the stored vectors: scoring given documents needs no index of the engine."""
        return [workshop.encodings(self.encoder).path]

    def scorer(self, folders: Iterator[Path]) -> StoredVectors:
        """Open it."""
        return StoredVectors(self, next(folders))
