"""Encodes shards: while the model encodes one shard, a thread tokenises the next and another one writes the last.

An encoder may let two threads encode, each its own shard, so that a GPU has work while vectors are copied and packed.

`lexbench.executors` decides where this runs, in this process or in workers. The content of a shard does not depend on it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from lexbench.arrays.vectors import kind_of
from lexbench.encodings.shards import packed, shard_file
from lexbench.errors import CannotStart, InvalidFile, LexbenchError, echoed
from lexbench.plugins import Encoder
from lexbench.storage import atomic
from lexbench.types import Corpus, Document

Advance = Callable[[int], None]

_AHEAD = 2  # shards that are tokenised before they are needed


def encode_tokens(encoder: Encoder, tokens: Any, documents: int, advance: Advance) -> bytes:
    """Return the bytes of the shard of so many tokenised *documents*. Raises LexbenchError for another number of vectors."""
    vectors = encoder.encode_tokens(tokens, advance)
    kind_of(vectors)
    if vectors.shape[0] != documents:  # they would belong to other documents
        name = type(encoder).__name__
        raise LexbenchError(f"{name} made {vectors.shape[0]:,} vectors for {documents:,} documents; it must make one for each")
    return packed(vectors, truncated=encoder.truncated(tokens), storage=encoder.storage)


def encoded_shard(encoder: Encoder, documents: Sequence[Document]) -> bytes:
    """Return the bytes of the shard of *documents*."""
    return encode_tokens(encoder, encoder.tokenise_documents(documents), len(documents), lambda _count: None)


def encode_shards(encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range], advance: Advance) -> None:
    """Encode the *shards* of *corpus* and write each into the folder *path*, in order.

    Raises LexbenchError, with the id of the document, if one cannot be encoded.
    """
    advance = counted(advance)
    with ExitStack() as stack:
        writer = stack.enter_context(ThreadPoolExecutor(1))
        at_once = encoder.shards_at_once
        tokeniser, workers = ThreadPoolExecutor(1), ThreadPoolExecutor(at_once)
        # After an error or Ctrl-C do not tokenise the next shards, and do not wait for the present one.
        for pool in (tokeniser, workers):
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)

        def encode(tokens: Future[Any], documents: int) -> bytes:
            return encode_tokens(encoder, tokens.result(), documents, advance)

        left, queue = iter(shards), deque[Callable[[], bytes]]()
        written: Future[None] | None = None
        for shard in shards:
            for ahead in islice(left, _AHEAD + at_once - 1 - len(queue)):
                tokens = tokeniser.submit(lambda some: encoder.tokenise_documents(documents_at(corpus, some)), ahead)
                # One at a time is encoded in this thread, which Ctrl-C stops at once.
                given = tokens, len(ahead)
                queue.append(workers.submit(encode, *given).result if at_once > 1 else partial(encode, *given))
            try:
                content = queue.popleft()()
            except Exception as error:
                if (named := with_document_name(error, corpus, shard, partial(encoded_shard, encoder))) is error:
                    raise
                raise named from error
            if written:
                written.result()  # so that at most one shard waits to be written
            written = writer.submit(atomic.write_bytes, shard_file(path, shard), content)
        if written:
            written.result()


def counted(advance: Advance) -> Advance:
    """Return *advance* for several threads, of which one calls it at a time."""
    lock = Lock()

    def one_at_a_time(count: int) -> None:
        with lock:
            advance(count)

    return one_at_a_time


def documents_at(corpus: Corpus, positions: range) -> list[Document]:
    """Return the documents at some *positions* of *corpus*."""
    return list(corpus.documents(positions.start, positions.stop))


# ---- finding the document that causes an error -----------------------------------------------------------------------------


def with_document_name(
    error: Exception, corpus: Corpus, shard: range, content: Callable[[Sequence[Document]], bytes]
) -> Exception:
    """Return *error*, which encoding *shard* raised, with the id of the document that causes it.

    The document is found by encoding halves with *content*. The error stays as it is if no single document is the cause:
    memory, the disk, a file of the model, or an error of all documents alike.
    """
    if isinstance(error, MemoryError | OSError | InvalidFile | CannotStart):
        return error

    def fails(positions: range) -> bool:
        try:
            content(documents_at(corpus, positions))
        except Exception:  # noqa: BLE001 - any error counts
            return True
        return False

    position = culprit(shard, fails)
    if position is None:
        return error
    what = f"{document_name(corpus, position)} cannot be encoded"
    if isinstance(error, LexbenchError):
        return LexbenchError(f"{what}: {error}")
    error.add_note(f"({what})")
    return error


def culprit(shard: range, fails: Callable[[range], bool]) -> int | None:
    """Return the only position of *shard* that *fails*; None if there is none, or if others fail as well."""
    suspects = shard
    while len(suspects) > 1:
        middle = suspects.start + len(suspects) // 2
        halves = range(suspects.start, middle), range(middle, suspects.stop)
        failing = next((half for half in halves if fails(half)), None)
        if failing is None:
            return None
        suspects = failing
    position = suspects.start
    beside = position + 1 if position + 1 < shard.stop else position - 1
    if len(shard) > 1 and fails(range(beside, beside + 1)):  # everything fails, e.g. after a fatal error of the GPU
        return None
    return position


def document_name(corpus: Corpus, position: int) -> str:
    """Return the name of a document in error messages."""
    return f"document {echoed(corpus.doc_ids[position].decode())}"
