"""Encoder @ engine: a retriever made of an encoder, transforms of its vectors, and the engine that searches them.

Given documents are scored exactly from the stored vectors, without the engine's index.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from lexbench.arrays.vectors import check_numbers, kind_of, rows_of
from lexbench.artifacts.corpora import StoredTexts
from lexbench.artifacts.describe import describe, short_name
from lexbench.artifacts.removal import UNFINISHED
from lexbench.artifacts.searches import RetrieverIndex
from lexbench.artifacts.vectors import CorpusVectors, VectorsWithProgress
from lexbench.encodings.counts import DenseCounts, SparseCounts, query_work
from lexbench.encodings.shards import Encodings, read_rows
from lexbench.engines.kernels.checks import as_hits, same_width
from lexbench.engines.kernels.code_products import raw_scores, scored, source_scores
from lexbench.engines.kernels.distances import distances
from lexbench.errors import LexbenchError
from lexbench.plugins import Encoder, Engine, Index, Rescorer, Retriever, Searcher, Transform
from lexbench.registry import optional
from lexbench.storage import atomic
from lexbench.storage.array_files import array_bytes
from lexbench.storage.artifact_folder import ENGINE_DIR, VECTORS_FILE, write_notes
from lexbench.storage.drafting import Draft
from lexbench.storage.node import Node, Parts
from lexbench.types import Codes, CollectionStatistics, Corpus, Hits, Kind, MultiVectors, Query

_FREQUENCIES = "document_frequency.npy"
_COLLECTION = "collection.json"  # the number of documents, for transforms that use the collection
_LEARNED = "learned.safetensors"  # of transforms, by place and name
_UNEQUAL = 1.01  # times the shortest length
_MANY = 0.2  # of the weights
_ROWS = 4096  # documents whose vectors are in memory at a time


@dataclass(frozen=True)
class Encoded(Retriever):
    """An engine's index of an encoder's stored vectors: the corpus is encoded once for all engines and transforms.

    *part* names the part of the vectors to use, if the encoder has several outputs (`Encoder.part`); "" is the whole.
    """

    encoder: Encoder
    engine: Engine
    transforms: tuple[Transform, ...] = ()
    part: str = optional("")
    version: ClassVar[int] = 2

    def parts(self, corpus: StoredTexts) -> dict[str, Node[Any]]:
        """Return the index of the vectors."""
        return {"index": VectorIndex(corpus, self)}

    def index(self, stored: Encodings, corpus: Corpus, path: Path) -> None:
        """Build the engine's index in *path* from the *stored* vectors of *corpus*, and write a summary of the vectors."""
        counts: Counter[str] = Counter(truncated=stored.truncated())
        ready = self.learned(stored.shards)
        ready.write_state(path)
        shards = (ready.as_documents(shard, counts) for shard in stored.shards())
        (path / ENGINE_DIR).mkdir()
        if self.engine.kind is Kind.SPARSE:
            tally = SparseCounts(len(corpus))
            self.engine.build(tally.watch(shards), path / ENGINE_DIR)
            summary = tally.summary(corpus.doc_ids, self.encoder.token)
            write_notes(path, _rounding_notes(counts))
            np.save(path / _FREQUENCIES, tally.document_frequency)
            if self.uses_collection:
                (path / _COLLECTION).write_text(json.dumps({"documents": len(corpus)}) + "\n", encoding="utf-8")
        else:
            sizes = DenseCounts()
            self.engine.build(sizes.watch(shards), path / ENGINE_DIR)
            summary = sizes.summary()
            write_notes(path, self._notes(sizes))
        text = json.dumps(summary | dict(counts), indent=1, ensure_ascii=False)
        (path / VECTORS_FILE).write_text(f"{text}\n", encoding="utf-8")

    def _notes(self, sizes: DenseCounts) -> list[str]:
        """Return notes on vectors of 0, and on lengths that matter where nobody states the similarity."""
        lines = []
        if sizes.empty:
            lines.append(f"{sizes.empty:,} of {sizes.vectors:,} document vectors are 0, so every query gives them the score 0")
        if not self.encoder.states_similarity and sizes.longest > _UNEQUAL * sizes.shortest:
            lines.append(
                f"compared by dot product, and the lengths of vectors differ ({sizes.shortest:.3g} to {sizes.longest:.3g}); "
                'for cosine, scale them to length 1, or give an object with similarity_fn_name = "cosine"'
            )
        return lines

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Return the transformed vector of each query."""
        return self.as_queries(self.encoder.encode_queries(queries))

    def as_queries(self, vectors: Any) -> Any:
        """Return transformed query *vectors*. Raises LexbenchError by `check_numbers`."""
        check_numbers(vectors)
        if self.part:
            vectors = self.encoder.part(vectors, self.part)
        for transform in self.transforms:
            vectors = transform.query(vectors)
        return self._kept(vectors)

    def _kept(self, vectors: Any) -> Any:
        """Return *vectors*; codes have their source only if the engine scores candidates again."""
        return vectors.kept(source=self.engine.rescore > 0) if isinstance(vectors, Codes) else vectors

    # ---- what transforms learn from the vectors of the corpus

    def learned(self, shards: Callable[[], Iterable[Any]]) -> Self:
        """Return a copy whose transforms have learned from the stored vectors; each that does reads all *shards* once."""
        ready: tuple[Transform, ...] = ()
        for transform in self.transforms:
            if transform.learns:
                before = replace(self, transforms=ready)
                transform = transform.learned(before.as_documents(shard) for shard in shards())  # noqa: PLW2901
            ready = (*ready, transform)
        return replace(self, transforms=ready)

    def write_state(self, path: Path) -> None:
        """Write what the transforms have learned into the index *path*; no file if they learn nothing."""
        states = [(at, transform.state()) for at, transform in enumerate(self.transforms) if transform.learns]
        arrays = {f"{at}.{name}": np.ascontiguousarray(array) for at, state in states for name, array in state.items()}
        if arrays:
            atomic.write_bytes(path / _LEARNED, array_bytes(arrays))

    def with_state(self, path: Path) -> Self:
        """Return a copy whose transforms know what those of the index *path* have learned."""
        if not (path / _LEARNED).is_file():
            return self
        arrays = load_file(path / _LEARNED)
        transforms = list(self.transforms)
        for at, transform in enumerate(transforms):
            own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{at}.")}
            transforms[at] = transform.with_state(own) if own else transform
        return replace(self, transforms=tuple(transforms))

    def as_documents(self, vectors: Any, counts: "Counter[str] | None" = None) -> Any:
        """Return transformed document *vectors*, and add the counts of the transforms to *counts*, if given."""
        if self.part:
            vectors = self.encoder.part(vectors, self.part)
        kind = kind_of(vectors)
        if kind is not self.engine.kind:
            engine, encoder = type(self.engine).__name__, type(self.encoder).__name__
            raise LexbenchError(f"{engine} takes {self.engine.kind} vectors; {encoder} made {kind} ones")
        for transform in self.transforms:
            if counts is not None:
                counts.update(transform.counts(vectors))
            made = transform.document(vectors)
            if (shape := getattr(made, "shape", ()))[:1] != vectors.shape[:1] or kind_of(made) is not kind:
                said = f"{type(made).__name__} {tuple(shape)}" if shape else type(made).__name__
                name, texts = type(transform).__name__, vectors.shape[0]
                raise LexbenchError(f"{name} made {said} of {texts:,} {kind} vectors; it must return as many, of the same kind")
            vectors = made
        return self._kept(vectors)

    @property
    def absent_is_zero(self) -> bool:
        """Whether documents that a search does not return share no term with the query."""
        return bool(self.engine.kind is Kind.SPARSE and self.engine.exact)

    def open(self, opened: Mapping[str, Any]) -> "EncodedSearcher":
        """Open the engine's index."""
        path: Path = opened["index"]
        frequencies = path / _FREQUENCIES
        document_frequency = np.load(frequencies, mmap_mode="r") if frequencies.exists() else None
        retriever = self.with_state(path)
        if self.uses_collection and document_frequency is not None:
            documents = json.loads((path / _COLLECTION).read_bytes())["documents"]
            retriever = retriever.with_collection(CollectionStatistics(documents, document_frequency))
        return EncodedSearcher(retriever, self.engine.open(path / ENGINE_DIR), document_frequency)

    def scorer_parts(self, corpus: StoredTexts) -> dict[str, Node[Any]]:
        """Return the vectors: no index is needed."""
        return {"vectors": CorpusVectors(corpus, self.encoder)}

    def scorer(self, opened: Mapping[str, Any]) -> "VectorRescorer":
        """Return a scorer that reads the stored vectors."""
        folder: Path = opened["vectors"].path
        return VectorRescorer(self.with_stored_collection(folder), folder)

    @property
    def uses_collection(self) -> bool:
        """Whether a transform needs statistics of the indexed vectors to weight a query."""
        return any(transform.uses_collection for transform in self.transforms)

    def with_collection(self, statistics: CollectionStatistics) -> Self:
        """Return a copy whose transforms know *statistics*."""
        return replace(self, transforms=tuple(transform.with_collection(statistics) for transform in self.transforms))

    def with_stored_collection(self, folder: Path) -> Self:
        """Return a copy whose transforms know the stored vectors in *folder*; each that needs to reads all of them once."""
        ready = self.learned(Encodings(folder).shards)
        if not ready.uses_collection:
            return ready
        shards = (ready.as_documents(shard) for shard in Encodings(folder).shards())
        return ready.with_collection(CollectionStatistics.from_vectors(shards))


@dataclass(frozen=True)
class VectorIndex(RetrieverIndex):
    """An engine's index of stored vectors."""

    @property
    def called(self) -> str:
        """The names of encoder and engine."""
        return f"{short_name(self.retriever.encoder)}@{type(self.retriever.engine).__name__.lower()}"

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return the corpus and its vectors."""
        return {"corpus": self.corpus, "vectors": CorpusVectors(self.corpus, self.retriever.encoder)}

    def build(self, retriever: Encoded, draft: Draft, parts: Parts) -> None:
        """Build the engine's index."""
        corpus, vectors = parts["corpus"], parts["vectors"]
        what = f"{short_name(retriever.encoder)} on {self.corpus.label()}"
        building = draft.folder / UNFINISHED
        atomic.write_text(building, json.dumps(describe(self.retriever.engine, index=True)))
        retriever.index(VectorsWithProgress(vectors.path, draft.progress, what, len(corpus)), corpus, draft.folder)
        building.unlink()


@dataclass(frozen=True)
class VectorQueries:
    """The base class of the searcher and the rescorer, which encode queries alike."""

    retriever: Encoded

    def encode(self, queries: Sequence[str]) -> Any:
        """Return the transformed vector of each query text."""
        return self.retriever.as_queries(self.retriever.encoder.encode_query(queries))

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Return the transformed vector of each query, which encoders may look up by its id."""
        return self.retriever.encode_queries(queries)


@dataclass(frozen=True)
class EncodedSearcher(VectorQueries, Searcher):
    """An opened engine index with the encoder for its queries."""

    index: Index
    document_frequency: NDArray[np.int64] | None  # (vocabulary,), of sparse vectors

    def search(self, encoded: Any, k: int) -> Hits:
        """Search the engine's index."""
        return as_hits(self.index.search(encoded, k), type(self.retriever.engine).__name__, encoded.shape[0])

    @property
    def transfer(self) -> float:
        """Seconds that reaching workers has taken; 0 without workers."""
        return self.index.transfer

    def work(self, encoded: Any) -> dict[str, NDArray[np.int64]]:
        """Return machine-independent costs of each query; nothing for dense vectors."""
        return {} if self.document_frequency is None else query_work(encoded, self.document_frequency)


@dataclass(frozen=True)
class VectorRescorer(VectorQueries, Rescorer):
    """Scores given documents from the stored vectors in the folder *path*; no index is needed."""

    path: Path

    def score(self, encoded: Any, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the dot products, or MaxSim, of each query's vectors and the vectors of its documents *docs* (queries, n).

        Products of sparse vectors are added up in float64, so that sums of whole weights are exact before they are rounded.
        """
        scores = np.zeros(docs.shape, np.float32)
        positions = np.unique(docs[docs >= 0])
        for start in range(0, len(positions), _ROWS):
            some = positions[start : start + _ROWS]
            vectors = self.retriever.as_documents(read_rows(self.path, some))
            inside = (docs >= some[0]) & (docs <= some[-1])
            queries, rows = np.nonzero(inside)[0], np.searchsorted(some, docs[inside])
            if isinstance(vectors, MultiVectors):
                scores[inside] = _sums_of_maxima(encoded, vectors, queries, rows)
            else:
                similarity = getattr(self.retriever.engine, "similarity", "dot")
                scores[inside] = _products(encoded, vectors, similarity)[queries, rows]
        return scores


def _rounding_notes(counts: "Counter[str]") -> list[str]:
    """Return a note if `quantize` has made whole numbers of many weights that are too small for it."""
    coarse, rounded = counts["coarse"], counts["rounded"]
    if coarse <= _MANY * rounded:
        return []
    line = (
        f"{coarse / rounded:.0%} of the weights are whole numbers below 5 after rounding, so scores differ from exact ones; "
        "type a larger scale, e.g. |quantize(10000)@impact, or @csr, which rounds nothing"
    )
    return [line]


def _products(queries: Any, documents: Any, similarity: str) -> NDArray[Any]:
    """Return the dot products (queries, documents), or distances below 0."""
    same_width(queries.shape[1], documents.shape[1])
    if isinstance(documents, Codes):
        if documents.source is None:
            return scored(queries, raw_scores(queries, documents.values))
        source = documents.source
        return source_scores(queries, source.values if isinstance(source, Codes) else source)
    if similarity != "dot":
        return distances(similarity, queries, documents)
    if isinstance(documents, np.ndarray):
        return np.asarray(queries @ documents.T)
    return np.asarray((queries.astype(np.float64) @ documents.astype(np.float64).T).toarray())


def _sums_of_maxima(
    queries: MultiVectors, documents: MultiVectors, asked: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the scores (pairs,) of the documents *rows* for the queries *asked*, which ascend; no other pairs are computed."""
    from lexbench.engines.kernels.dense import max_sim_scores

    scores = np.zeros(len(asked), np.float32)
    names, starts = np.unique(asked, return_index=True)
    for name, start, stop in zip(names, starts, [*starts[1:], len(asked)], strict=True):
        sums = max_sim_scores(rows_of(queries, np.array([name])), rows_of(documents, rows[start:stop]))[0]
        scores[start:stop] = np.where(np.isneginf(sums), 0, sums)
    return scores
