"""Encoder @ engine: a retriever made of an encoder, transforms of its vectors, and the engine that searches them."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.encodings.counts import DenseCounts, SparseCounts, query_work
from lexbench.errors import LexbenchError
from lexbench.plugins import (
    BuildContext,
    Encoder,
    Engine,
    Index,
    Retriever,
    Searcher,
    StoredVectors,
    Transform,
)
from lexbench.retrievers._vector_rescorer import VectorQueries, VectorRescorer
from lexbench.storage.artifact_folder import ENGINE_DIR, VECTORS_FILE
from lexbench.types import Corpus, Hits, Kind, Query
from lexbench.vectors import kind_of

_FREQUENCIES = "document_frequency.npy"


@dataclass(frozen=True)
class EncodedSearcher(VectorQueries, Searcher):
    """An opened engine index with the encoder for its queries."""

    index: Index
    document_frequency: NDArray[np.int64] | None  # (vocabulary,), of sparse vectors

    def search(self, encoded: Any, k: int) -> Hits:
        """Search the engine's index."""
        return self.index.search(encoded, k)

    @property
    def transfer(self) -> float:
        """Seconds that the way to workers has taken; 0 where there are none."""
        return self.index.transfer

    def work(self, encoded: Any) -> dict[str, NDArray[np.int64]]:
        """Return what searching each query has to look at, in numbers that no machine changes; nothing for dense vectors."""
        return {} if self.document_frequency is None else query_work(encoded, self.document_frequency)


@dataclass(frozen=True)
class Encoded(Retriever):
    """The vectors come from the store, so ten engines and nine values of K cost one encoding."""

    encoder: Encoder
    engine: Engine
    transforms: tuple[Transform, ...] = ()
    version: ClassVar[int] = 2
    can_rescore: ClassVar[bool] = True

    def assemble(self, corpus: Corpus, path: Path, context: BuildContext) -> None:
        """Build the engine's index in *path* from the stored encodings of *corpus*, and say what was indexed."""
        stored = context.encodings(self.encoder)
        counts: Counter[str] = Counter(truncated=stored.truncated())
        shards = self.documents(stored, counts)
        (path / ENGINE_DIR).mkdir()
        if self.engine.kind is Kind.SPARSE:
            tally = SparseCounts(len(corpus))
            self.engine.build(tally.watch(shards), path / ENGINE_DIR)
            summary = tally.summary(corpus.doc_ids, self.encoder.token)
            np.save(path / _FREQUENCIES, tally.document_frequency)
        else:
            sizes = DenseCounts()
            self.engine.build(sizes.watch(shards), path / ENGINE_DIR)
            summary = sizes.summary()
        text = json.dumps(summary | dict(counts), indent=1, ensure_ascii=False)
        (path / VECTORS_FILE).write_text(f"{text}\n", encoding="utf-8")

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Encode and transform queries; one vector a query."""
        return self.as_queries(self.encoder.encode_queries(queries))

    def as_queries(self, vectors: Any) -> Any:
        """Transform query vectors."""
        for transform in self.transforms:
            vectors = transform.query(vectors)
        return vectors

    def documents(self, stored: StoredVectors, counts: "Counter[str]") -> Iterator[Any]:
        """Yield the transformed shards of *stored* vectors, adding to *counts* what the transforms count."""
        for shard in stored.shards():
            yield self.as_documents(shard, counts)

    def as_documents(self, vectors: Any, counts: "Counter[str] | None" = None) -> Any:
        """Transform stored document vectors, adding to *counts*, if given, what the transforms count."""
        kind = kind_of(vectors)
        if kind is not self.engine.kind:
            engine, encoder = type(self.engine).__name__, type(self.encoder).__name__
            raise LexbenchError(f"{engine} takes {self.engine.kind} vectors; {encoder} made {kind} ones")
        for transform in self.transforms:
            if counts is not None:
                counts.update(transform.counts(vectors))
            vectors = transform.document(vectors)
        return vectors

    @property
    def absent_is_zero(self) -> bool:
        """Whether documents that a search does not return share no term with the query."""
        return bool(self.engine.kind is Kind.SPARSE and self.engine.exact)

    def open(self, path: Path) -> EncodedSearcher:
        """Open the engine's index in *path*."""
        frequencies = path / _FREQUENCIES
        document_frequency = np.load(frequencies, mmap_mode="r") if frequencies.exists() else None
        return EncodedSearcher(self, self.engine.open(path / ENGINE_DIR), document_frequency)

    def rescoring_inputs(self, context: BuildContext) -> list[Path]:
        """Return the folder of the stored vectors: scoring given documents needs no index of the engine."""
        return [context.encodings(self.encoder).path]

    def rescorer(self, folders: Iterator[Path]) -> VectorRescorer:
        """Open the stored vectors."""
        return VectorRescorer(self, next(folders))
