"""Reranking on executors: pairs of a query and a document are scored like a corpus is encoded, and the scores kept in shards.

For the executor, each block of queries is one shard, and its pairs are the documents. They are scored in one call, as searching
itself does it, so the scores have the same bits wherever they are computed.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lexbench.encodings.shards import SHARD, read_shard, shard_file
from lexbench.plugins import Encoder, Executor, PairScorer, Reranker
from lexbench.progress import Progress
from lexbench.registry import runtime, with_threads
from lexbench.types import Corpus, Document, Kind

_PAIRS = "pairs"  # the folder of scores in that of an unfinished run; of further rerankers pairs-1 and so on
PairsOfBlocks = Mapping[int, Sequence[tuple[str, int]]]  # by the number of a block: query texts, and positions of documents


@dataclass(frozen=True)
class PairEncoder(Encoder):
    """A reranker as an encoder: it encodes the pairs of a `PairCorpus`, and their vectors (n, 1) are the scores."""

    reranker: Reranker
    queries: tuple[str, ...]
    threads: int = runtime(0)  # for a reranker whose own setting `threads` is not set

    kind: ClassVar[Kind] = Kind.DENSE

    def tokenise_documents(self, documents: Sequence[Document]) -> Sequence[Document]:
        """Return the pairs: a reranker tokenises when it scores."""
        return documents

    def encode_tokens(self, tokens: Sequence[Document], advance: Any) -> NDArray[np.float32]:
        """Return the scores of the pairs."""
        rows, ids = zip(*(pair.doc_id.split(" ", 1) for pair in tokens), strict=True)
        documents = [pair._replace(doc_id=doc_id) for pair, doc_id in zip(tokens, ids, strict=True)]
        reranker = with_threads(self.reranker, self.threads) if self.threads else self.reranker
        scores = reranker.score([self.queries[int(row)] for row in rows], documents)
        advance(len(tokens))
        return np.asarray(scores, np.float32).reshape(-1, 1)

    def index_identity(self) -> Mapping[str, Any]:
        """Return the identity of the reranker."""
        return self.reranker.identity()

    def document_folders(self) -> Mapping[str, Path]:
        """Return the folders that the reranker reads."""
        return self.reranker.document_folders()

    def with_document_folders(self, folders: Mapping[str, Path]) -> Self:
        """Return a copy whose reranker reads *folders*."""
        return replace(self, reranker=self.reranker.with_document_folders(folders))


@dataclass(frozen=True)
class PairCorpus:
    """Pairs as the documents of a corpus. The id of a pair: the row of its query in *queries*, a space, and the document's id.

    The positions of a block begin at *stride* times its number, where *stride* is a multiple of the documents of a shard.
    """

    corpus: Corpus
    queries: Mapping[str, int]  # the row of each text
    blocks: PairsOfBlocks
    stride: int

    @property
    def fingerprint(self) -> str:
        """Digest of the documents of the pairs."""
        return self.corpus.fingerprint

    @cached_property
    def doc_ids(self) -> Any:
        """Names of the pairs for error messages, by position; empty at positions without a pair."""
        names = np.full(len(self), b"", object)
        for number, pairs in self.blocks.items():
            for at, (query, position) in enumerate(pairs, number * self.stride):
                names[at] = f"{self.corpus.doc_ids[position].decode()} for the query {query}".encode()
        return names

    def __len__(self) -> int:
        """Return the last position plus one."""
        return max((shard.stop for shard in self.shards()), default=0)

    def shards(self) -> list[range]:
        """Return the positions of each block that has pairs."""
        return [range(at * self.stride, at * self.stride + len(pairs)) for at, pairs in self.blocks.items() if pairs]

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Document]:
        """Yield the pairs of one block from *start* up to *stop*."""
        number, first = divmod(start, self.stride)
        for query, position in islice(self.blocks[number], first, None if stop is None else first + stop - start):
            (document,) = self.corpus.documents(position, position + 1)
            yield document._replace(doc_id=f"{self.queries[query]} {document.doc_id}")


def pairs_folder(run: Path, number: int) -> Path:
    """Return the folder for the scores of reranker *number* in the folder of an unfinished *run*."""
    return run / (f"{_PAIRS}-{number}" if number else _PAIRS)


def forget_pairs(run: Path) -> None:
    """Remove the scores of all rerankers."""
    for folder in run.glob(f"{_PAIRS}*"):
        shutil.rmtree(folder, ignore_errors=True)


def learn(searcher: Any, encoded: Any, scores: Iterable[tuple[Sequence[tuple[str, int]], NDArray[np.float32]]]) -> None:
    """Give the pair scorers in *searcher* the known *scores* of their pairs of *encoded* queries."""
    for (scorer, queries), known in zip(searcher.pair_scorers(encoded), scores, strict=False):
        scorer.learn(queries, *known)


class PairScores(NamedTuple):
    """The stored scores of one reranker in a run."""

    path: Path
    corpus: PairCorpus

    def for_block(self, block: int) -> tuple[Sequence[tuple[str, int]], NDArray[np.float32]]:
        """Return the pairs of a block of queries, by its number, and their scores."""
        if not (pairs := self.corpus.blocks[block]):
            return pairs, np.empty(0, np.float32)
        start = block * self.corpus.stride
        return pairs, read_shard(shard_file(self.path, range(start, start + len(pairs))))[:, 0]


def score_pairs(
    encoded: Iterable[tuple[int, PairScorer, Any]], most: int, path: Path, executor: Executor, progress: Progress, what: str
) -> PairScores:
    """Let *executor* score the pairs that a searcher would score, except those whose scores are in the folder *path* already.

    *encoded* are blocks of queries, at least one: the number, the searcher, and its encoded queries. No block has more than
    *most* queries, which must be the same when a run is continued. *progress* shows *what*.
    """
    path.mkdir(exist_ok=True)
    blocks = {}
    for number, searcher, queries in encoded:
        blocks[number], scorer = searcher.pairs(queries), searcher
    texts = dict.fromkeys(query for pairs in blocks.values() for query, _ in pairs)
    stride = -(-most * scorer.candidates // SHARD) * SHARD
    corpus = PairCorpus(scorer.corpus, {text: row for row, text in enumerate(texts)}, blocks, stride)
    left = [shard for shard in corpus.shards() if not shard_file(path, shard).exists()]
    progress.start(what, "score", sum(map(len, left)), "pairs")
    if left:
        executor.encode(PairEncoder(scorer.reranker, tuple(texts)), corpus, path, left, progress)
    progress.end()
    return PairScores(path, corpus)
