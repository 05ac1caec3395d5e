"""The stages of one dataset, each a folder of the store: made once, kept, shared by all systems that need it."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.corpus import StoredCorpus, open_corpus, write_corpus
from lexbench.datasets.dataset import Dataset
from lexbench.encodings.encode import encode
from lexbench.encodings.shards import Encodings, missing
from lexbench.encodings.statistics import spread
from lexbench.errors import LexbenchError
from lexbench.progress import Progress
from lexbench.retrievers._combination import encode_queries
from lexbench.runner.stored_run import read_hits, read_work, write_hits, write_run
from lexbench.runner.systems import System, describe, reusable
from lexbench.storage import atomic
from lexbench.storage.stopwatch import Stopwatch
from lexbench.storage.store import Recipe, Store
from lexbench.trec.runs import Filtered, Run, without_self_matches
from lexbench.types import Combined, Composite, Corpus, Document, Encoder, Hits, Query, Retriever, Searcher

_FORMAT = 2  # of what the stages write; goes up when a folder of an older lexbench would be misread
_QUERIES = 256  # searched at a time; each block is kept, so a run that was killed loses at most one


def at_a_time(searcher: Any) -> int:
    """Return how many queries a searcher is given at a time: fewer than by default where it says so."""
    return min(_QUERIES, getattr(searcher, "queries_at_a_time", _QUERIES))


@dataclass(frozen=True)
class Watched:
    """A corpus that tells *progress* of every document that is read from it."""

    corpus: Corpus
    progress: Progress

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
        """Yield the documents, telling of each."""
        for document in self.corpus.documents(start, stop):
            self.progress.advance()
            yield document


@dataclass(frozen=True)
class Told(Encodings):
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


@dataclass
class Workbench:
    """Makes, or finds made, every stage of one dataset. It is the `Workshop` of retrievers that are made of parts."""

    dataset: Dataset
    kept: Store
    progress: Progress
    parts: list[Path] = field(default_factory=list)  # folders that the index at hand was made from
    made: list[Path] = field(default_factory=list)  # folders that are of the system at hand alone, or of an object of it

    @cached_property
    def corpus(self) -> StoredCorpus:
        """The corpus, read from its source once and checked against the contract before it is kept."""
        recipe: Recipe = {"format": _FORMAT, "source": self.dataset.source.identity()}
        contract = self.dataset.contract

        def work(draft: Path) -> None:
            self.progress.start(contract.corpus, "read corpus", contract.expected.documents, "documents")
            watch = Stopwatch()
            with watch.time("read"):
                write_corpus(self._counted(self.dataset.source.documents()), draft)
            self.dataset.check_corpus(open_corpus(draft))
            atomic.write_text(draft / "remarks.json", json.dumps(self.dataset.source.remarks()) + "\n")
            watch.write(draft)
            self.progress.end()

        folder = self.kept.produce("corpora", contract.corpus, recipe, work)
        corpus = open_corpus(folder)
        self.dataset.check_corpus(corpus)  # a corpus may have been kept under an older contract
        return corpus

    def texts(self) -> Path:
        """Return the folder of the corpus."""
        return self.corpus.path

    @property
    def remarks(self) -> list[str]:
        """What a reader of scores must know of this copy of the corpus."""
        return list(json.loads((self.corpus.path / "remarks.json").read_bytes()))

    def _counted(self, documents: Iterator[Any]) -> Iterator[Any]:
        for document in documents:
            self.progress.advance()
            yield document

    def encodings(self, encoder: Encoder[Any]) -> Encodings:
        """Return the stored vectors of the corpus."""
        recipe: Recipe = {"format": _FORMAT, "encoder": describe(encoder, index=True), "corpus": self.corpus.fingerprint}
        name = type(encoder).__name__

        def work(draft: Path) -> None:
            left = sum(map(len, missing(len(self.corpus), draft)))
            watch = Stopwatch(resumed=left < len(self.corpus))
            self.progress.start(f"{name} on {self.dataset.contract.corpus}", "encode", left, "documents")
            with watch.time("encode"):
                encode(encoder, self.corpus, draft, self.progress.advance)
            if describe(encoder, index=True) != recipe["encoder"]:
                raise LexbenchError(f"{name} has changed while it encoded: give the same command again")
            watch.write(draft)
            self.progress.end()

        with Stopwatch().time("part"):  # of an index, whose own time it is not
            folder = self.produce("encodings", name, recipe, work, resumable=True)
        self.parts.append(folder)
        return Told(folder, self.progress, f"{name} on {self.dataset.contract.corpus}", len(self.corpus))

    def index(self, retriever: Retriever | Composite, label: str = "") -> Path:
        """Return the folder of an index of the corpus, made or found; what it refers to is there, too."""
        label = label or type(retriever).__name__
        recipe: Recipe = {"format": _FORMAT, "retriever": describe(retriever, index=True), "corpus": self.corpus.fingerprint}

        def work(draft: Path) -> None:
            outer, self.parts = self.parts, []
            watch = Stopwatch()
            with watch.time("build"):
                if isinstance(retriever, Composite):
                    retriever.assemble(self.corpus, draft, self)
                else:
                    what = f"{label} on {self.dataset.contract.corpus}"
                    self.progress.start(what, "build index", len(self.corpus), "documents")
                    retriever.build(Watched(self.corpus, self.progress), draft)
                    self.progress.end()
            for part in self.parts:
                watch.add(part)
            self.parts = outer
            watch.write(draft)

        with Stopwatch().time("part"):  # of another index, whose own time it is not
            if isinstance(retriever, Combined):  # what it refers to may be gone, or damaged, since it was made
                outer, self.parts = self.parts, []
                retriever.folders(self)
                self.parts = outer
            folder = self.produce("indexes", label, recipe, work)
        self.parts.append(folder)
        return folder

    def run(self, system: System, depth: int) -> Path:
        """Return the folder of the system's run: searched to *depth*, self-matches dropped, in canonical order."""
        index = self.index(system.retriever, system.label)
        drop = self.dataset.contract.protocol.self_match == "drop"
        recipe: Recipe = {
            "format": _FORMAT,
            "index": index.name.rpartition("-")[2],
            "retriever": system.recipe,
            "queries": self.dataset.queries_sha256,
            "depth": depth,
            "self_match": "drop" if drop else "keep",
        }

        def work(draft: Path) -> None:
            watch = Stopwatch()
            with watch.time("open"):
                searcher = system.retriever.open(index)
            hits = self._searched(searcher, depth + drop, draft, watch, f"{system.label} on {self.dataset.contract.id}")
            write_run(self._ranked(hits, depth, drop=drop), draft, self.corpus)
            parts = sorted(draft.glob("part-*"))
            spreads = {name: spread(counts) for name, counts in read_work(parts).items()}
            atomic.write_text(draft / "work.json", json.dumps(spreads) + "\n")
            for part in parts:
                part.unlink()
            watch.write(draft)

        return self.produce("runs", system.label, recipe, work, resumable=True)

    def _searched(self, searcher: Searcher[Any], k: int, draft: Path, watch: Stopwatch, what: str) -> Hits:

        def search(block: Sequence[Query], path: Path) -> None:
            with watch.time("encode_queries"):
                encoded = encode_queries(searcher, block)
            with watch.time("search"):
                hits = searcher.search(encoded, k)
            write_hits(hits, path, searcher.work(encoded) if hasattr(searcher, "work") else {})

        return read_hits(self.blocks(self.dataset.queries, draft, watch, what, search, at_a_time(searcher)))

    def blocks(
        self,
        queries: Sequence[Query],
        draft: Path,
        watch: Stopwatch,
        what: str,
        work: Callable[[Sequence[Query], Path], None],
        most: int = _QUERIES,
    ) -> list[Path]:
        """Let *work* make a file in *draft* of each block of *queries*; return all, those of an earlier process among them.

        A block has *most* queries: fewer than by default for a searcher that takes long, see `at_a_time`.
        """
        blocks = {start: draft / f"part-{start:07d}.safetensors" for start in range(0, len(queries), most)}
        left = [start for start, part in blocks.items() if not part.exists()]
        watch.resumed = len(left) < len(blocks)
        self.progress.start(what, "search", sum(len(queries[start : start + most]) for start in left), "queries")
        for start in left:
            block = queries[start : start + most]
            work(block, blocks[start])
            self.progress.advance(len(block))
        self.progress.end()
        return list(blocks.values())

    def _ranked(self, hits: Hits, depth: int, *, drop: bool) -> Filtered:
        run = Run.from_hits((query.query_id for query in self.dataset.queries), hits, self.corpus.doc_ids)
        return without_self_matches(run, depth) if drop else Filtered(run.cut(depth), 0)

    def produce(self, stage: str, label: str, recipe: Recipe, work: Callable[[Path], None], *, resumable: bool = False) -> Path:
        """Return the finished folder of a stage, as `Store.produce` does, and remember it if no other system can share it.

        The draft of an object that may have changed since is never gone on from.
        """
        shared = stage in ("encodings", "indexes")
        contract = self.dataset.contract
        name = f"{contract.corpus if shared else contract.id} {label}"
        whole = reusable(recipe)
        folder = self.kept.produce(stage, name, recipe, work, resumable=resumable and whole)
        if not (shared and whole):
            self.made.append(folder)
        return folder

    def forget(self) -> None:
        """Remove what was made for the system at hand: nobody could ever tell that it is the same system again."""
        for folder in dict.fromkeys(self.made):
            shutil.rmtree(folder, ignore_errors=True)
