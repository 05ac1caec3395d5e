"""Encoding a corpus: texts are tokenised, encoded and written at the same time, each on a shard of its own.

While the model works on one shard, a thread tokenises the next and another writes the last. Several devices are several
processes, each with its share of the shards: what is in a shard does not depend on who made it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexbench.encodings.processes import in_processes
from lexbench.encodings.shards import missing, shard_file, stacked, write_shard
from lexbench.types import Corpus, Document, Encoder, Staged

Advance = Callable[[int], None]

_BATCH = 256  # texts handed at a time to an encoder that does not cut batches itself
_AHEAD = 2  # shards that are tokenised before they are needed


def encode(encoder: Encoder[Any], corpus: Corpus, path: Path, advance: Advance = lambda _count: None) -> None:
    """Encode *corpus* into the folder *path*, going on after the shards that are there; *advance* hears of documents done.

    An encoder with several `workers()` is encoded with by as many processes.
    """
    shards = missing(len(corpus), path)
    workers: Sequence[Encoder[Any]] = encoder.workers() if hasattr(encoder, "workers") else [encoder]
    if len(workers) > 1 and len(shards) > 1:
        shares = [(worker, corpus, path, shards[at :: len(workers)]) for at, worker in enumerate(workers)]
        in_processes(encode_shards, shares, advance)
    else:
        encode_shards(workers[0], corpus, path, shards, advance)


def encode_shards(encoder: Encoder[Any], corpus: Corpus, path: Path, shards: Iterable[range], advance: Advance) -> None:
    """Encode the documents at the positions *shards*, one file a shard."""
    staged: Staged[Any, Any] = encoder if isinstance(encoder, Staged) else _InBatches(encoder)
    storage = getattr(encoder, "storage", "float32")

    def tokenise(shard: range) -> Any:
        return staged.tokenise_documents(list(corpus.documents(shard.start, shard.stop)))

    with ExitStack() as stack:
        reading, writing = (stack.enter_context(ThreadPoolExecutor(1)) for _ in "rw")
        stack.callback(reading.shutdown, cancel_futures=True)  # after a failure nobody needs what was to come
        coming: deque[tuple[range, Future[Any]]] = deque()
        written: Future[None] | None = None
        left = iter(shards)
        while True:
            while len(coming) < _AHEAD and (shard := next(left, None)) is not None:
                coming.append((shard, reading.submit(tokenise, shard)))
            if not coming:
                break
            shard, ready = coming.popleft()
            tokens = ready.result()
            vectors = staged.encode_tokens(tokens, advance)
            if written:
                written.result()
            truncated = getattr(tokens, "truncated", 0)
            target = shard_file(path, shard)
            written = writing.submit(write_shard, target, vectors, truncated=truncated, storage=storage)
        if written:
            written.result()


@dataclass(frozen=True)
class _InBatches:
    """An encoder that takes texts, used in the two steps of those that take batches."""

    encoder: Encoder[Any]

    def tokenise_documents(self, documents: Sequence[Document]) -> list[str]:
        """Return the texts: such an encoder tokenises when it encodes."""
        return [document.text for document in documents]

    def encode_tokens(self, tokens: list[str], advance: Advance) -> Any:
        """Return one vector a text."""
        blocks = []
        for start in range(0, len(tokens), _BATCH):
            batch = tokens[start : start + _BATCH]
            blocks.append(self.encoder.encode_document(batch))
            advance(len(batch))
        return stacked(blocks)
