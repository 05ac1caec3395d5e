"""Encodes shards: while the model encodes one shard, a thread tokenises the next and another one writes the last.

`lexbench.executors` decides where this runs, in this process or in workers. The content of a shard does not depend on it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from lexbench.encodings.shards import packed
from lexbench.errors import CannotStart, InvalidFile, LexbenchError, echoed
from lexbench.plugins import Encoder
from lexbench.types import Corpus, Document

Advance = Callable[[int], None]
# Returns the next shard, and waits for it if its argument is true. None: there is no more, or none without waiting.
More = Callable[[bool], range | None]
Keep = Callable[[range, bytes], None]  # keeps the bytes of a shard

AHEAD = 2  # shards that are tokenised before they are needed


class ShardEncoder:
    """An encoder with the two steps that make a shard: tokenising, and encoding to the bytes of a file."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def tokens(self, documents: Sequence[Document]) -> Any:
        """Return the input of `encoded`; this can run in another thread."""
        return self._encoder.tokenise_documents(documents)

    def encoded(self, tokens: Any, advance: Advance) -> Callable[[], bytes]:
        """Encode one shard; return the function that makes its bytes, for another thread."""
        vectors = self._encoder.encode_tokens(tokens, advance)
        truncated, storage = self._encoder.truncated(tokens), self._encoder.storage
        return lambda: packed(vectors, truncated=truncated, storage=storage)

    def content(self, documents: Sequence[Document]) -> bytes:
        """Return the bytes of the shard of *documents*."""
        return self.encoded(self.tokens(documents), lambda _count: None)()


def encode_shards(encoder: ShardEncoder, corpus: Corpus, more: More, keep: Keep, advance: Advance) -> None:
    """Encode the shards of *corpus* that *more* returns until there is none; give the bytes of each to *keep*, in order.

    *keep* is called by another thread. Raises LexbenchError, with the id of the document, if one cannot be encoded.
    """
    with ExitStack() as stack:
        writer = stack.enter_context(ThreadPoolExecutor(1))
        tokeniser = ThreadPoolExecutor(1)
        # After an error or Ctrl-C do not tokenise the next shards, and do not wait for the one at hand.
        stack.callback(tokeniser.shutdown, wait=False, cancel_futures=True)
        queue: deque[tuple[range, Future[Any]]] = deque()
        writing: tuple[range, Future[None]] | None = None
        while True:
            # Wait for a new shard only with nothing in hand, because an error of writing the last one must be raised before.
            while len(queue) < AHEAD and (shard := more(not (queue or writing))) is not None:
                queue.append((shard, tokeniser.submit(_tokens, encoder, corpus, shard)))
            if not (queue or writing):
                return
            encoded: tuple[range, Callable[[], bytes]] | None = None
            if queue:
                at_hand, tokenised = queue.popleft()
                with _naming(encoder, corpus, at_hand):
                    encoded = at_hand, encoder.encoded(tokenised.result(), advance)
            if writing:
                with _naming(encoder, corpus, writing[0]):
                    writing[1].result()
            writing = (encoded[0], writer.submit(_keep, keep, *encoded)) if encoded else None


@contextmanager
def _naming(encoder: ShardEncoder, corpus: Corpus, shard: range) -> Iterator[None]:
    """Let an error that encoding *shard* raises name the document."""
    try:
        yield
    except Exception as error:
        found = with_document_name(error, corpus, shard, encoder.content)
        if found is error:
            raise
        raise found from error


def _tokens(encoder: ShardEncoder, corpus: Corpus, shard: range) -> Any:
    return encoder.tokens(list(corpus.documents(shard.start, shard.stop)))


def _keep(keep: Keep, shard: range, content: Callable[[], bytes]) -> None:
    keep(shard, content())


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
            content(list(corpus.documents(positions.start, positions.stop)))
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
