"""Encoder @ engine: a retriever made of an encoder, transforms of its vectors, and the engine that searches them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lexbench.encodings import kind_of
from lexbench.errors import LexbenchError
from lexbench.types import Corpus, Encoder, Engine, Hits, Index, Transform, Workshop


@dataclass(frozen=True)
class EncodedSearcher:
    """An opened engine index with the encoder for its queries."""

    retriever: "Encoded"
    index: Index[Any]

    def encode(self, queries: Sequence[str]) -> Any:
        """Encode and transform query texts; one vector a query."""
        vectors = self.retriever.encoder.encode_query(queries)
        for transform in self.retriever.transforms:
            vectors = transform.query(vectors)
        return vectors

    def search(self, encoded: Any, k: int) -> Hits:
        """Search the engine's index."""
        return self.index.search(encoded, k)


@dataclass(frozen=True)
class Encoded:
    """The vectors come from the store, so ten engines and nine values of K cost one encoding."""

    encoder: Encoder[Any]
    engine: Engine[Any]
    transforms: tuple[Transform, ...] = ()
    version: ClassVar[int] = 1

    def assemble(self, corpus: Corpus, path: Path, workshop: Workshop) -> None:
        """Build the engine's index in *path* from the stored encodings of *corpus*."""
        del corpus  # the workshop has encoded it
        self.engine.build((self._transformed(shard) for shard in workshop.encodings(self.encoder)), path)

    def _transformed(self, vectors: Any) -> Any:
        found = kind_of(vectors)
        if found is not self.engine.kind:
            engine, encoder = type(self.engine).__name__, type(self.encoder).__name__
            raise LexbenchError(f"{engine} takes {self.engine.kind} vectors; {encoder} made {found} ones")
        for transform in self.transforms:
            vectors = transform.document(vectors)
        return vectors

    def open(self, path: Path) -> EncodedSearcher:
        """Open the engine's index in *path*."""
        return EncodedSearcher(self, self.engine.open(path))
