"""What is read while a stage is made, telling of progress: documents, and stored vectors."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.encodings.shards import Encodings
from lexbench.progress import Progress
from lexbench.types import Corpus, Document


@dataclass(frozen=True)
class CorpusWithProgress:
    """A corpus that reports every document read from it to *progress*, as building the index *what* if that is given."""

    corpus: Corpus
    progress: Progress
    what: str = ""

    @property
    def fingerprint(self) -> str:
        """Digest of the corpus."""
        return self.corpus.fingerprint

    @property
    def doc_ids(self) -> NDArray[np.bytes_]:
        """Ids by position (documents,)."""
        return self.corpus.doc_ids

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.corpus)

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Document]:
        """Yield the documents, reporting each."""
        if self.what:  # an index that reads stored vectors never asks for documents: nothing is shown
            self.progress.start(self.what, "build index", len(self), "documents")
        yield from counted(self.corpus.documents(start, stop), self.progress)
        if self.what:
            self.progress.end()


def counted(documents: Iterator[Document], progress: Progress) -> Iterator[Document]:
    """Yield *documents*, telling of each."""
    for document in documents:
        progress.advance()
        yield document


@dataclass(frozen=True)
class VectorsWithProgress(Encodings):
    """Stored vectors that tell *progress* of every document that an engine has taken."""

    progress: Progress
    what: str
    documents: int

    def shards(self) -> Iterator[Any]:
        """Yield the vectors, telling of each shard when the next is asked for."""
        self.progress.start(self.what, "build index", self.documents, "documents")
        for shard in super().shards():
            yield shard
            self.progress.advance(shard.shape[0])
        self.progress.end()
