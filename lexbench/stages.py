"""The stages of one dataset, each a folder of the store: made once, kept, shared by all systems that need it."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from lexbench import atomic, encodings, machine, results, store
from lexbench.datasets.corpus import StoredCorpus, open_corpus, write_corpus
from lexbench.datasets.dataset import Dataset
from lexbench.progress import Progress
from lexbench.ranking import Filtered, Run, without_self_matches
from lexbench.results import Measured
from lexbench.store import Recipe, Store
from lexbench.systems import System, describe
from lexbench.types import Composite, Corpus, Document, Encoder, Hits, Retriever, Searcher

_FORMAT = 1  # of what the stages write; goes up when a folder of an older lexbench would be misread
_QUERIES = 256  # searched at a time; each block is kept, so a run that was killed loses at most one


@dataclass
class Stopwatch:
    """Wall time by stage, written beside a stage's files."""

    seconds: dict[str, float] = field(default_factory=dict)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Add the time that the block takes to *stage*."""
        start = time.perf_counter()
        yield
        self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def write(self, draft: Path) -> None:
        """Write the times, with the machine, into the draft of a stage."""
        measured = Measured(seconds=self.seconds, machine=machine.facts(), versions=machine.versions(), started=self.started)
        atomic.write_bytes(draft / store.MEASURED, results.to_bytes(measured))


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


def measured(folder: Path) -> Measured:
    """Return what was measured when a finished folder was made."""
    return msgspec.json.decode((folder / store.MEASURED).read_bytes(), type=Measured)


@dataclass
class Workbench:
    """Makes, or finds made, every stage of one dataset. It is the `Workshop` of retrievers that are made of parts."""

    dataset: Dataset
    kept: Store
    progress: Progress
    made: list[Path] = field(default_factory=list)  # the folders of the system at hand, corpus apart

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

    @property
    def remarks(self) -> list[str]:
        """What a reader of scores must know of this copy of the corpus."""
        return list(json.loads((self.corpus.path / "remarks.json").read_bytes()))

    def _counted(self, documents: Iterator[Any]) -> Iterator[Any]:
        for document in documents:
            self.progress.advance()
            yield document

    def encodings(self, encoder: Encoder[Any]) -> Iterator[Any]:
        """Yield the vectors of the corpus, shard by shard in position order."""
        recipe: Recipe = {"format": _FORMAT, "encoder": describe(encoder), "corpus": self.corpus.fingerprint}
        name = type(encoder).__name__

        def work(draft: Path) -> None:
            self.progress.start(f"{name} on {self.dataset.contract.corpus}", "encode", len(self.corpus), "documents")
            watch = Stopwatch()
            with watch.time("encode"):
                encodings.encode(encoder, Watched(self.corpus, self.progress), draft)
            watch.write(draft)
            self.progress.end()

        return encodings.Encodings(self.produce("encodings", name, recipe, work, resumable=True)).shards()

    def index(self, retriever: Retriever | Composite, label: str = "part") -> Path:
        """Return the folder of an index of the corpus."""
        recipe: Recipe = {"format": _FORMAT, "retriever": describe(retriever, index=True), "corpus": self.corpus.fingerprint}

        def work(draft: Path) -> None:
            watch = Stopwatch()
            corpus = Watched(self.corpus, self.progress)
            with watch.time("build"):
                if isinstance(retriever, Composite):
                    retriever.assemble(corpus, draft, self)
                else:
                    self.progress.start(f"{label} on {self.dataset.contract.corpus}", "build index", len(corpus), "documents")
                    retriever.build(corpus, draft)
                    self.progress.end()
            watch.write(draft)

        return self.produce("indexes", label, recipe, work)

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
            self.progress.start(f"{system.label} on {self.dataset.contract.id}", "search", len(self.dataset.queries), "queries")
            hits = self._searched(searcher, depth + drop, draft, watch)
            write_run(self._ranked(hits, depth, drop=drop), draft, self.corpus)
            for part in draft.glob("part-*"):
                part.unlink()
            watch.write(draft)
            self.progress.end()

        return self.produce("runs", system.label, recipe, work, resumable=True)

    def _searched(self, searcher: Searcher[Any], k: int, draft: Path, watch: Stopwatch) -> Hits:
        """Search block by block; a block that an earlier process finished is taken from the draft."""
        parts = []
        texts = [query.text for query in self.dataset.queries]
        for start in range(0, len(texts), _QUERIES):
            block = texts[start : start + _QUERIES]
            part = draft / f"part-{start:07d}.safetensors"
            if not part.exists():
                with watch.time("encode_queries"):
                    encoded = searcher.encode(block)
                with watch.time("search"):
                    hits = searcher.search(encoded, k)
                with atomic.atomic_path(part) as unfinished:
                    save_file({"docs": hits.docs, "scores": hits.scores}, unfinished)
            parts.append(part)
            self.progress.advance(len(block))
        return _stacked([load_file(part) for part in parts])

    def _ranked(self, hits: Hits, depth: int, *, drop: bool) -> Filtered:
        run = Run.from_hits((query.query_id for query in self.dataset.queries), hits, self.corpus.doc_ids)
        return without_self_matches(run, depth) if drop else Filtered(run.cut(depth), 0)

    def produce(self, stage: str, label: str, recipe: Recipe, work: Callable[[Path], None], *, resumable: bool = False) -> Path:
        """Return the finished folder of a stage, as `Store.produce` does, and remember it."""
        name = f"{self.dataset.contract.corpus}-{label}"
        self.made.append(self.kept.produce(stage, name, recipe, work, resumable=resumable))
        return self.made[-1]

    def forget(self) -> None:
        """Remove what was made for the system at hand: nobody could ever tell that it is the same system again."""
        for folder in dict.fromkeys(self.made):
            shutil.rmtree(folder, ignore_errors=True)


def _stacked(blocks: list[dict[str, Any]]) -> Hits:
    """Join blocks (queries, k) of hits; a retriever may return fewer columns than it was asked for."""
    width = max((block["docs"].shape[1] for block in blocks), default=0)
    docs = [np.pad(b["docs"], ((0, 0), (0, width - b["docs"].shape[1])), constant_values=-1) for b in blocks]
    scores = [np.pad(b["scores"], ((0, 0), (0, width - b["scores"].shape[1]))) for b in blocks]
    return Hits(np.concatenate(docs).astype(np.int32), np.concatenate(scores).astype(np.float32))


def write_run(ranked: Filtered, folder: Path, corpus: StoredCorpus) -> None:
    """Write a run: its arrays, its query ids, and the name of the corpus, which has the document ids."""
    run = ranked.run
    save_file({"offsets": run.offsets, "docs": run.docs, "scores": run.scores}, folder / "run.safetensors")
    facts = {"corpus": corpus.path.name, "self_matches": ranked.dropped, "queries": run.query_ids}
    atomic.write_text(folder / "run.json", json.dumps(facts, ensure_ascii=False) + "\n")


def read_run(folder: Path) -> Filtered:
    """Read what *write_run* wrote into a folder of the store, beside its corpus."""
    arrays = load_file(folder / "run.safetensors")
    facts = json.loads((folder / "run.json").read_bytes())
    table = open_corpus(folder.parent.parent / "corpora" / facts["corpus"]).doc_ids
    run = Run(tuple(facts["queries"]), arrays["offsets"], arrays["docs"], arrays["scores"], table)
    return Filtered(run, facts["self_matches"])
