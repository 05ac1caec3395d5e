"""The stages of one dataset, each a folder of the store: made once, kept, shared by all systems that need it.

corpora     the documents, in position order
encodings   the vectors that an encoder makes of them
indexes     what a retriever searches
runs        the ranked lists of a system
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.corpus import InvalidDocument, StoredCorpus, open_corpus, write_corpus
from lexbench.datasets.dataset import Dataset
from lexbench.encodings.counts import spread
from lexbench.errors import InvalidFile, LexbenchError
from lexbench.executors import executor
from lexbench.plugins import Executor, PairScorer, Retriever, Searcher
from lexbench.progress import Progress
from lexbench.runner.corpus_stages import FORMAT, SHARED, CorpusStages
from lexbench.runner.pairs import PairScores, Told, forget_pairs, learn, pairs_folder, score_pairs
from lexbench.runner.progressing import counted
from lexbench.runner.stored_run import block_files, read_hits, read_work, write_hits, write_run
from lexbench.runner.systems import System, rerankers
from lexbench.storage import atomic
from lexbench.storage.artifacts import key_of
from lexbench.storage.environment import packages_of
from lexbench.storage.stopwatch import Stopwatch
from lexbench.storage.store import Recipe, Store
from lexbench.trec.ids import encode as encode_ids
from lexbench.trec.ids import lookup
from lexbench.trec.runs import Filtered, Run, without_self_matches
from lexbench.types import Query

_QUERIES = 256  # searched at a time; each block is stored, so a run that was killed loses at most one


def block_size(searcher: Searcher) -> int:
    """Return how many queries a searcher is given at a time: fewer than by default where it asks for that."""
    return min(_QUERIES, searcher.queries_at_a_time)


@dataclass
class DatasetRunner(CorpusStages):
    """Makes, or finds in the store, every stage of one dataset. It is the `BuildContext` of retrievers made of parts."""

    dataset: Dataset
    store: Store
    progress: Progress
    executor: Executor | None = field(default_factory=executor)  # where corpora are encoded; None: what suits the encoder
    parts: list[Path] = field(default_factory=list)  # folders that the index in the making was made from
    unshared: list[Path] = field(default_factory=list)  # folders of the system at hand alone, or of an object of it

    @cached_property
    def corpus_name(self) -> str:
        """The corpus's name in the contract."""
        return self.dataset.contract.corpus

    @cached_property
    def corpus(self) -> StoredCorpus:
        """The corpus, read from its source once and checked against the contract before it is kept."""
        contract = self.dataset.contract
        with self.store.draft("corpora", contract.corpus, self._corpus_recipe) as draft:
            if draft.unfinished:
                self.progress.start(contract.corpus, "read corpus", contract.expected.documents, "documents")
                watch = Stopwatch()
                with watch.time("read"):
                    self._write_corpus(draft.unfinished)
                self.dataset.check_corpus(open_corpus(draft.unfinished))
                atomic.write_text(draft.unfinished / "remarks.json", json.dumps(self.dataset.source.remarks()) + "\n")
                watch.write(draft.unfinished)
                self.progress.end()
        corpus = open_corpus(draft.folder)
        self.dataset.check_corpus(corpus)  # a corpus may have been kept under an older contract
        return corpus

    @property
    def _corpus_recipe(self) -> Recipe:
        return {"format": FORMAT, "source": self.dataset.source.identity()}

    def _write_corpus(self, path: Path) -> None:
        """Write the corpus into *path*; InvalidFile says where a document is that cannot be kept, if the source knows."""
        source = self.dataset.source
        try:
            write_corpus(counted(source.documents(), self.progress), path)
        except InvalidDocument as error:
            if not (place := source.place("documents", error.doc_id)):
                raise
            raise InvalidFile(f"{place}: {error}") from None

    @property
    def remarks(self) -> list[str]:
        """What a reader of scores must know of this copy of the corpus."""
        return list(json.loads((self.corpus.path / "remarks.json").read_bytes()))

    def run(self, system: System, depth: int) -> Path:
        """Return the folder of the system's run: searched to *depth*, self-matches dropped, in canonical order."""
        index = self.index(system.retriever, system.label)
        drop = self.dataset.contract.protocol.self_match == "drop"
        recipe: Recipe = {
            "format": FORMAT,
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
        if system.retriever.finished:
            raise LexbenchError(f"{system.label} is a finished run, so there is nothing to search")
        watch = Stopwatch(packages=packages_of(system.retriever))
        with watch.time("open"):
            searcher = self.with_workers(system.retriever).open(index)
        size, what = block_size(searcher), f"{system.label} on {self.dataset.contract.id}"
        if system.retriever.reranker:
            self._note_if_slow(system.retriever.reranker, what)
        with watch.time("search"):
            scored = self.scored_pairs(system.retriever, searcher, path, what, drop=drop)
        for number, block, file in self.blocks(path, size, watch, what):
            with watch.time("encode_queries"):
                encoded = self.encoded(searcher, block, drop=drop)
            with watch.time("search"):
                learn(searcher, encoded, [scores.of(number) for scores in scored])
                hits = searcher.search(encoded, depth + drop)
            write_hits(hits, file, searcher.work(encoded))
        files = block_files(path, len(self.dataset.queries), size)
        run = Run.from_hits((query.query_id for query in self.dataset.queries), read_hits(files), self.corpus.doc_ids)
        write_run(without_self_matches(run, depth) if drop else Filtered(run.cut(depth), 0), path, self.corpus)
        spreads = {name: spread(counts) for name, counts in read_work(files).items()}
        atomic.write_text(path / "work.json", json.dumps(spreads) + "\n")
        for file in path.glob("part-*"):
            file.unlink()
        forget_pairs(path)
        watch.write(path)

    def scored_pairs(self, retriever: Retriever, searcher: Any, path: Path, what: str, *, drop: bool) -> list[PairScores]:
        """Let the executor, if any, score the pairs of each reranker in *retriever*, inner ones first, into files in *path*."""
        size = block_size(searcher)
        scored: list[PairScores] = []
        if not self.executor or not (left := self._left(path, size)):
            return scored

        def blocks(number: int) -> Iterator[tuple[int, PairScorer, Any]]:
            for at, block, _ in left:
                encoded = self.encoded(searcher, block, drop=drop)
                learn(searcher, encoded, [scores.of(at) for scores in scored])
                yield at, *searcher.pair_scorers(encoded)[number]

        has_any = next(rerankers(retriever), None) is not None  # else no query is encoded for the question
        count = len(searcher.pair_scorers(self.encoded(searcher, left[0][1][:1], drop=drop))) if has_any else 0
        for number in range(count):
            told = Told(self.progress, what)
            scored.append(score_pairs(blocks(number), size, pairs_folder(path, number), self.executor, told))
        return scored

    def encoded(self, searcher: Any, block: Sequence[Query], *, drop: bool) -> Any:
        """Return *block* as *searcher* takes it, told, if self-matches are to be dropped, which fusions leave out."""
        encoded = searcher.encode_queries(block)
        return searcher.without(encoded, own_positions(self.corpus, block)) if drop else encoded

    def blocks(self, path: Path, size: int, watch: Stopwatch, what: str) -> Iterator[tuple[int, Sequence[Query], Path]]:
        """Yield each block of *size* queries that has no file in *path* yet: number, queries, file. Tell of progress."""
        count = sum(len(block) for _, block, _ in self._left(path, size))
        watch.resumed = count < len(self.dataset.queries)
        self.progress.start(what, "search", count, "queries")
        for number, block, file in self._left(path, size):
            yield number, block, file
            self.progress.advance(len(block))
        self.progress.end()

    def _owner(self, stage: str) -> str:
        """Return the corpus for what is made of it alone, and else the dataset."""
        return self.corpus_name if stage in SHARED else self.dataset.contract.id

    def _left(self, path: Path, size: int) -> list[tuple[int, Sequence[Query], Path]]:
        """Return the blocks of *size* queries that have no file in *path* yet: number, queries, file."""
        queries = self.dataset.queries
        files = enumerate(block_files(path, len(queries), size))
        return [(at, queries[at * size : (at + 1) * size], file) for at, file in files if not file.exists()]

    def forget(self) -> None:
        """Remove what was made for the system at hand: nobody could ever tell that it is the same system again."""
        for folder in dict.fromkeys(self.unshared):
            shutil.rmtree(folder, ignore_errors=True)


def own_positions(corpus: StoredCorpus, queries: Sequence[Query]) -> NDArray[np.int32]:
    """Return the position of each query's own document (queries,), that of the query's id; -1 where there is none."""
    return lookup(corpus.doc_ids, encode_ids(query.query_id for query in queries)).astype(np.int32)
