"""The vectors that an encoder makes of a corpus, as an artifact. Several processes may make them together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lexbench import compiling
from lexbench.artifacts.corpora import StoredTexts
from lexbench.artifacts.describe import describe, short_name
from lexbench.artifacts.dtype_trial import faster_dtypes
from lexbench.artifacts.graph import Graph
from lexbench.datasets.corpus import StoredCorpus
from lexbench.display.progress import Progress, Share
from lexbench.encodings.shards import SHARD, Encodings, missing, shard_file
from lexbench.errors import LexbenchError
from lexbench.executors import suited
from lexbench.plugins import Encoder, Executor
from lexbench.storage.artifact_folder import CHANGED, KeyFacts
from lexbench.storage.code import without_code
from lexbench.storage.drafting import Draft
from lexbench.storage.node import Node, Parts, Stored
from lexbench.types import Kind

# Bytes per document: 130 terms; 768 dimensions; 70 tokens of 128 dimensions, which an exact index has once more.
_BYTES = {Kind.SPARSE: 800, Kind.DENSE: 3100, Kind.MULTI: 72_000}

_BYTES_OF_TOKEN = 4  # of text, about


@dataclass(frozen=True)
class CorpusVectors(Node[Encodings]):
    """The vectors of a corpus."""

    corpus: StoredTexts
    encoder: Encoder
    kind: ClassVar[str] = "encodings"
    resumable: ClassVar[bool] = True
    by_several: ClassVar[bool] = True

    def label(self) -> str:
        """Return the corpus and the class of the encoder."""
        return f"{self.corpus.label()} {type(self.encoder).__name__}"

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return the corpus."""
        return {"corpus": self.corpus}

    def facts(self) -> KeyFacts:
        """Return the encoder."""
        return {"encoder": describe(self.encoder, index=True)}

    def bytes_needed(self) -> float:
        """Return what vectors of that kind usually take."""
        return self.corpus.documents * _BYTES[self.encoder.kind]

    def make(self, draft: Draft, parts: Parts) -> None:
        """Encode the shards that are not there yet."""
        corpus: StoredCorpus = parts["corpus"]
        shards = missing(len(corpus), draft.folder)
        draft.watch.resumed = sum(map(len, shards)) < len(corpus)
        if draft.executor is None and (line := faster_dtypes(self.encoder, corpus, shards)):
            draft.progress.note(f"{self.what}: {line}")
        with draft.watch.time("encode"):
            self.encode(corpus, shards, draft.folder, draft.executor, draft.progress)

    def open(self, stored: Stored | None, parts: Parts) -> Encodings:
        """Return the vectors."""
        assert stored is not None
        return Encodings(stored.folder)

    @property
    def what(self) -> str:
        """What progress calls them."""
        return f"{short_name(self.encoder)} on {self.corpus.label()}"

    def encode(
        self, corpus: StoredCorpus, shards: Sequence[range], path: Path, executor: Executor | None, progress: Progress
    ) -> None:
        """Encode *shards* of the corpus into *path*. Raises LexbenchError if the encoder has changed meanwhile."""
        before = describe(self.encoder, index=True)
        if line := self.encoder.slow_note():
            progress.note(f"{self.what}: {line}")
        share = _share(corpus, shards, self.encoder.document_length)
        progress.start(self.what, "encode", sum(map(len, shards)), "documents", share)
        if shards:
            with compiling.announced(progress.note):
                (executor or suited(self.encoder)).encode(self.encoder, corpus, path, shards, progress)
        if without_code(describe(self.encoder, index=True)) != without_code(before):
            for shard in shards:  # some may be of the encoder as it was, and some of another
                shard_file(path, shard).unlink(missing_ok=True)
            raise LexbenchError(f"{self.what}: {CHANGED}")
        progress.end()


def _share(corpus: StoredCorpus, shards: Sequence[range], length: int | None) -> Share:
    """Return which share of the work the first documents of *shards* are.

    Texts differ in length, so work is counted in bytes: those of a text cut to *length* tokens count. Encoders report the
    documents within a shard by their tokens, because they begin with the longest.
    """
    most = (length or 0) * _BYTES_OF_TOKEN or None
    work = [float(np.clip(corpus.sizes(shard.start, shard.stop), 1, most).sum()) for shard in shards]
    ends, done = np.cumsum([0, *map(len, shards)]), np.cumsum([0.0, *work])
    return lambda documents: float(np.interp(documents, ends, done) / (done[-1] or 1.0))


def encode_part(graph: Graph, node: CorpusVectors, part: int, parts: int) -> int:
    """Encode *part*, from 0, of *parts* of a corpus, while other processes encode the rest.

    Finishes the artifact if it is complete. Returns how many shards are left to others. The same command, or `run`, continues
    if it is given again.
    """
    store, facts, label, corpus = graph.store, graph.key_facts(node), node.label(), graph.open(node.corpus)
    with store.part(node.kind, label, facts, f"{part}-of-{parts}"):
        slot = store.shared_draft(node.kind, label, facts)
        if slot.unfinished is None:
            return 0
        shards = missing(len(corpus), slot.unfinished)
        # The part of a shard does not depend on which shards are finished already.
        own = [shard for shard in shards if shard.start // SHARD % parts == part]
        try:
            node.encode(corpus, own, slot.unfinished, graph.executor, graph.progress)
        except FileNotFoundError:
            if slot.unfinished.is_dir():  # otherwise a process with other parts has made the same shards, and finished
                raise
        if left := len(missing(len(corpus), slot.unfinished)) if slot.unfinished.is_dir() else 0:
            return left
        graph.stored(node)
    return 0


@dataclass(frozen=True)
class VectorsWithProgress(Encodings):
    """Stored vectors that report every document that an engine has taken to *progress*."""

    progress: Progress
    what: str
    documents: int

    def shards(self) -> Iterator[Any]:
        """Yield the vectors. A shard is reported when the next one is requested, because the engine is done with it then."""
        self.progress.start(self.what, "build index", self.documents, "documents")
        for shard in super().shards():
            yield shard
            self.progress.advance(shard.shape[0])
        self.progress.end()
