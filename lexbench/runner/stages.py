"""The stages of one dataset, each a folder of the store: made once, kept, shared by all systems that need it.

corpora     the documents, in position order
encodings   the vectors that an encoder makes of them
indexes     what a retriever searches
runs        the ranked lists of a system
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.corpus import InvalidDocument, StoredCorpus, open_corpus, write_corpus
from lexbench.datasets.dataset import Dataset
from lexbench.encodings.shards import SHARD, missing
from lexbench.encodings.statistics import spread
from lexbench.errors import InvalidFile, LexbenchError
from lexbench.executors import executor, suited
from lexbench.plugins import (
    AnyRetriever,
    BuildsFromParts,
    CountsWork,
    Encoder,
    Executor,
    Fusion,
    HasReranker,
    KnowsWhatIsSlow,
    LeavesOut,
    NamesPlaces,
    ReadsRuns,
    Searcher,
    SearchesInBlocks,
    encode_queries,
)
from lexbench.progress import Progress
from lexbench.runner.progressing import CorpusWithProgress, VectorsWithProgress, counted
from lexbench.runner.stored_run import read_hits, read_work, write_hits, write_run
from lexbench.runner.systems import System, describe, reusable
from lexbench.storage import atomic
from lexbench.storage.environment import packages_of
from lexbench.storage.manifest import key_of
from lexbench.storage.stopwatch import Stopwatch
from lexbench.storage.store import Draft, Recipe, Store
from lexbench.trec.ids import encode as encode_ids
from lexbench.trec.ids import lookup
from lexbench.trec.runs import Filtered, Run, without_self_matches
from lexbench.types import Query

_FORMAT = 2  # of what the stages write; goes up when a folder of an older lexbench would be misread
_QUERIES = 256  # searched at a time; each block is stored, so a run that was killed loses at most one


class Part(NamedTuple):
    """One of several parts of the shards of a corpus that are encoded side by side: *number*, from 0, *of* several."""

    number: int
    of: int

    def has(self, shard: range) -> bool:
        """Whether a shard is in this part; the same whichever shards are there already."""
        return shard.start // SHARD % self.of == self.number


def block_size(searcher: Searcher[Any]) -> int:
    """Return how many queries a searcher is given at a time: fewer than by default where it asks for that."""
    return min(_QUERIES, searcher.queries_at_a_time) if isinstance(searcher, SearchesInBlocks) else _QUERIES


@dataclass
class DatasetRunner:
    """Makes, or finds in the store, every stage of one dataset. It is the `BuildContext` of retrievers made of parts."""

    dataset: Dataset
    store: Store
    progress: Progress
    executor: Executor | None = field(default_factory=executor)  # where corpora are encoded; None: what suits the encoder
    parts: list[Path] = field(default_factory=list)  # folders that the index in the making was made from
    unshared: list[Path] = field(default_factory=list)  # folders of the system at hand alone, or of an object of it

    @cached_property
    def corpus(self) -> StoredCorpus:
        """The corpus, read from its source once and checked against the contract before it is kept."""
        source, contract = self.dataset.source, self.dataset.contract
        with self.store.draft("corpora", contract.corpus, {"format": _FORMAT, "source": source.identity()}) as draft:
            if draft.unfinished:
                self.progress.start(contract.corpus, "read corpus", contract.expected.documents, "documents")
                watch = Stopwatch()
                with watch.time("read"):
                    self._write_corpus(draft.unfinished)
                self.dataset.check_corpus(open_corpus(draft.unfinished))
                atomic.write_text(draft.unfinished / "remarks.json", json.dumps(source.remarks()) + "\n")
                watch.write(draft.unfinished)
                self.progress.end()
        corpus = open_corpus(draft.folder)
        self.dataset.check_corpus(corpus)  # a corpus may have been kept under an older contract
        return corpus

    def _write_corpus(self, path: Path) -> None:
        """Write the corpus into *path*; InvalidFile says where a document is that cannot be kept, if the source knows."""
        source = self.dataset.source
        try:
            write_corpus(counted(source.documents(), self.progress), path)
        except InvalidDocument as error:
            if not isinstance(source, NamesPlaces):
                raise
            raise InvalidFile(f"{source.place('documents', error.doc_id)}: {error}") from None

    def corpus_dir(self) -> Path:
        """Return the folder of the corpus."""
        return self.corpus.path

    @property
    def remarks(self) -> list[str]:
        """What a reader of scores must know of this copy of the corpus."""
        return list(json.loads((self.corpus.path / "remarks.json").read_bytes()))

    def encodings(self, encoder: Encoder[Any]) -> VectorsWithProgress:
        """Return the stored vectors of the corpus."""
        name, what, recipe = self._encoding(encoder)
        with Stopwatch().time("part"), self.draft("encodings", name, recipe, resumable=True) as draft:  # no time of an index
            if draft.unfinished:
                shards = missing(len(self.corpus), draft.unfinished)
                watch = Stopwatch(resumed=sum(map(len, shards)) < len(self.corpus))
                with watch.time("encode"):
                    self._encode(encoder, shards, draft.unfinished)
                watch.write(draft.unfinished)
        self.parts.append(draft.folder)
        return VectorsWithProgress(draft.folder, self.progress, what, len(self.corpus))

    def encode_part(self, encoder: Encoder[Any], part: Part) -> int:
        """Encode one part of the shards of the corpus, beside others that encode the rest, and finish what is then complete.

        Return how many shards are left to others; the command of any part, or `run`, can be given again and goes on.
        """
        name, _, recipe = self._encoding(encoder)
        draft = self.store.shared_draft("encodings", f"{self.dataset.contract.corpus} {name}", recipe)
        if draft.unfinished is None:
            return 0
        shards = missing(len(self.corpus), draft.unfinished)
        try:
            self._encode(encoder, [shard for shard in shards if part.has(shard)], draft.unfinished)
        except FileNotFoundError:  # another that had the same shards has finished, and named, the folder
            if self.store.finished("encodings", recipe) is None:
                raise
            return 0
        if left := len(missing(len(self.corpus), draft.unfinished)) if draft.unfinished.is_dir() else 0:
            return left
        self.encodings(encoder)
        return 0

    def _encoding(self, encoder: Encoder[Any]) -> tuple[str, str, Recipe]:
        """Return what an encoder and its encoding are called, and what decides on the vectors."""
        name = type(encoder).__name__
        recipe = {"format": _FORMAT, "encoder": describe(encoder, index=True), "corpus": self.corpus.fingerprint}
        return name, f"{name} on {self.dataset.contract.corpus}", recipe

    def _encode(self, encoder: Encoder[Any], shards: Sequence[range], path: Path) -> None:
        """Encode *shards* of the corpus into *path*, wherever that is done."""
        name, what, recipe = self._encoding(encoder)
        self._note_if_slow(encoder, what)
        self.progress.start(what, "encode", sum(map(len, shards)), "documents")
        if shards:
            (self.executor or suited(encoder)).encode(encoder, self.corpus, path, shards, self.progress)
        if describe(encoder, index=True) != recipe["encoder"]:
            raise LexbenchError(f"{name} has changed while it encoded: give the same command again")
        self.progress.end()

    def index(self, retriever: AnyRetriever, label: str = "") -> Path:
        """Return the folder of an index of the corpus, made or found; what it refers to is there, too."""
        label = label or type(retriever).__name__
        recipe: Recipe = {"format": _FORMAT, "retriever": describe(retriever, index=True), "corpus": self.corpus.fingerprint}
        with Stopwatch().time("part"):  # of another index, whose own time it is not
            if isinstance(retriever, Fusion):  # what it refers to may be gone, or damaged, since it was made
                with self._parts_apart():
                    retriever.search_inputs(self)
            with self.draft("indexes", label, recipe) as draft:
                if draft.unfinished:
                    self._build(retriever, draft.unfinished, f"{label} on {self.dataset.contract.corpus}")
        self.parts.append(draft.folder)
        return draft.folder

    def _build(self, retriever: AnyRetriever, path: Path, what: str) -> None:
        """Write an index into *path*, with the times of it and of its parts."""
        watch = Stopwatch(packages=packages_of(retriever))
        with self._parts_apart() as parts:
            with watch.time("build"):
                if isinstance(retriever, BuildsFromParts):
                    retriever.assemble(self.corpus, path, self)
                elif not isinstance(retriever, ReadsRuns):
                    self.progress.start(what, "build index", len(self.corpus), "documents")
                    retriever.build(CorpusWithProgress(self.corpus, self.progress), path)
                    self.progress.end()
            for part in parts:
                watch.add(part)
        watch.write(path)

    @contextmanager
    def _parts_apart(self) -> Iterator[list[Path]]:
        """Collect the parts of one index, apart from those of the index that it is a part of."""
        outer, self.parts = self.parts, []
        try:
            yield self.parts
        finally:
            self.parts = outer

    def run(self, system: System, depth: int) -> Path:
        """Return the folder of the system's run: searched to *depth*, self-matches dropped, in canonical order."""
        index = self.index(system.retriever, system.label)
        drop = self.dataset.contract.protocol.self_match == "drop"
        recipe: Recipe = {
            "format": _FORMAT,
            "index": key_of(index),
            "retriever": system.recipe,
            "queries": self.dataset.queries_sha256,
            "depth": depth,
            "self_match": "drop" if drop else "keep",
        }
        with self.draft("runs", system.label, recipe, resumable=True) as draft:
            if draft.unfinished:
                self._search(system, index, depth, draft.unfinished, drop=drop)
        return draft.folder

    def _search(self, system: System, index: Path, depth: int, path: Path, *, drop: bool) -> None:
        """Write a run into *path*: block by block, then all of it in one file."""
        if isinstance(system.retriever, ReadsRuns):
            raise LexbenchError(f"{system.label} is a finished run, so there is nothing to search")
        watch = Stopwatch(packages=packages_of(system.retriever))
        with watch.time("open"):
            searcher = system.retriever.open(index)
        size, what = block_size(searcher), f"{system.label} on {self.dataset.contract.id}"
        if isinstance(system.retriever, HasReranker):
            self._note_if_slow(system.retriever.reranker, what)
        for block, file in self.blocks(path, size, watch, what):
            with watch.time("encode_queries"):
                encoded = encode_queries(searcher, block)
                if drop and isinstance(searcher, LeavesOut):
                    encoded = searcher.without(encoded, own_positions(self.corpus, block))
            with watch.time("search"):
                hits = searcher.search(encoded, depth + drop)
            write_hits(hits, file, searcher.work(encoded) if isinstance(searcher, CountsWork) else {})
        files = block_files(path, len(self.dataset.queries), size)
        run = Run.from_hits((query.query_id for query in self.dataset.queries), read_hits(files), self.corpus.doc_ids)
        write_run(without_self_matches(run, depth) if drop else Filtered(run.cut(depth), 0), path, self.corpus)
        spreads = {name: spread(counts) for name, counts in read_work(files).items()}
        atomic.write_text(path / "work.json", json.dumps(spreads) + "\n")
        for file in path.glob("part-*"):
            file.unlink()
        watch.write(path)

    def _note_if_slow(self, plugin: object, what: str) -> None:
        """Tell the user, before *plugin* begins, of a setting that is slow on this machine; *what* it is to do."""
        if isinstance(plugin, KnowsWhatIsSlow) and (line := plugin.slow_note()):
            self.progress.note(f"{what}: {line}")

    def blocks(self, path: Path, size: int, watch: Stopwatch, what: str) -> Iterator[tuple[Sequence[Query], Path]]:
        """Yield each block of *size* queries that has no file in *path* yet, and the file to write; tell of progress."""
        queries = self.dataset.queries
        files = block_files(path, len(queries), size)
        left = [(queries[at * size : (at + 1) * size], file) for at, file in enumerate(files) if not file.exists()]
        watch.resumed = len(left) < len(files)
        self.progress.start(what, "search", sum(len(block) for block, _ in left), "queries")
        for block, file in left:
            yield block, file
            self.progress.advance(len(block))
        self.progress.end()

    @contextmanager
    def draft(self, stage: str, label: str, recipe: Recipe, *, resumable: bool = False) -> Iterator[Draft]:
        """Yield the folder of a stage, as `Store.draft` does, and remember it if no other system can share it.

        The draft of an object that may have changed since is never gone on from.
        """
        shared = stage in ("encodings", "indexes")
        contract = self.dataset.contract
        complete = reusable(recipe)
        name = f"{contract.corpus if shared else contract.id} {label}"
        with self.store.draft(stage, name, recipe, resumable=resumable and complete, shared=stage == "encodings") as draft:
            yield draft
        if not (shared and complete):
            self.unshared.append(draft.folder)

    def forget(self) -> None:
        """Remove what was made for the system at hand: nobody could ever tell that it is the same system again."""
        for folder in dict.fromkeys(self.unshared):
            shutil.rmtree(folder, ignore_errors=True)


def own_positions(corpus: StoredCorpus, queries: Sequence[Query]) -> NDArray[np.int32]:
    """Return the position of each query's own document (queries,), that of the query's id; -1 where there is none."""
    return lookup(corpus.doc_ids, encode_ids(query.query_id for query in queries)).astype(np.int32)


def block_files(path: Path, queries: int, size: int) -> list[Path]:
    """Return the files of the blocks of so many *queries*, *size* each, in order."""
    return [path / f"part-{start:07d}.safetensors" for start in range(0, queries, size)]
