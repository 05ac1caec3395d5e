"""Encoding shards: while the model encodes one, a thread tokenises the next and another writes the last.

Where that is done, here or by workers elsewhere, is for `lexbench.executors`; what is in a shard does not depend on it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from lexbench.encodings.shards import packed
from lexbench.errors import LexbenchError, echoed
from lexbench.plugins import Encoder
from lexbench.types import Corpus, Document

Advance = Callable[[int], None]
# Returns the next shard, waiting for it where its argument is true; None: there is none, or none without waiting.
More = Callable[[bool], range | None]
Keep = Callable[[range, bytes], None]  # keeps the bytes of a shard

AHEAD = 2  # shards that are tokenised before they are needed


class ShardEncoder:
    """An encoder with the two steps in which shards are made: tokenising, and encoding to the bytes of a file."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def tokens(self, documents: Sequence[Document]) -> Any:
        """Return what `encoded` takes; on the CPU, and beside it in another thread."""
        return self._encoder.tokenise_documents(documents)

    def encoded(self, tokens: Any, advance: Advance) -> Callable[[], bytes]:
        """Encode one shard; return what makes its bytes, for another thread. LexbenchError for values that are no numbers."""
        vectors = self._encoder.encode_tokens(tokens, advance)
        truncated, storage = self._encoder.truncated(tokens), self._encoder.storage
        return lambda: packed(vectors, truncated=truncated, storage=storage)

    def content(self, documents: Sequence[Document]) -> bytes:
        """Return the bytes of the shard of *documents*, one step after the other."""
        return self.encoded(self.tokens(documents), lambda _count: None)()


def encode_shards(encoder: ShardEncoder, corpus: Corpus, more: More, keep: Keep, advance: Advance) -> None:
    """Encode the shards of *corpus* that *more* gives until there is none, handing the bytes of each to *keep*, in order.

    *keep* is called by another thread. LexbenchError for a document that cannot be encoded, which the line names.
    """
    with ExitStack() as stack:
        writer = stack.enter_context(ThreadPoolExecutor(1))
        tokeniser = ThreadPoolExecutor(1)
        # After a failure, or Ctrl-C, nobody needs the next shards, nor waits until the one at hand is tokenised.
        stack.callback(tokeniser.shutdown, wait=False, cancel_futures=True)
        queue: deque[tuple[range, Future[Any]]] = deque()
        writing: tuple[range, Future[None]] | None = None
        while True:
            # It waits for a shard with nothing in hand: what went wrong in writing the last must be heard of before.
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
    """Let an error that encoding *shard* meets name the document."""
    try:
        yield
    except Exception as error:
        found = named(error, corpus, shard, encoder.content)
        if found is error:
            raise
        raise found from error


def _tokens(encoder: ShardEncoder, corpus: Corpus, shard: range) -> Any:
    return encoder.tokens(list(corpus.documents(shard.start, shard.stop)))


def _keep(keep: Keep, shard: range, content: Callable[[], bytes]) -> None:
    keep(shard, content())


# ---- naming the document that is the matter --------------------------------------------------------------------------------


def named(error: Exception, corpus: Corpus, shard: range, content: Callable[[Sequence[Document]], bytes]) -> Exception:
    """Return *error*, which encoding *shard* met, with the document that it is about, found by encoding ever smaller halves.

    *content* encodes documents. As it is where that is not the matter: memory, the disk, or everything fails alike.
    """
    if isinstance(error, MemoryError | OSError):
        return error

    def fails(positions: range) -> bool:
        try:
            content(list(corpus.documents(positions.start, positions.stop)))
        except Exception:  # noqa: BLE001 - whether, and not how
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
    """Return the one position of *shard* that alone *fails*; None where there is none, or where another fails as well."""
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
    if len(shard) > 1 and fails(range(beside, beside + 1)):  # as after an error that no GPU recovers from
        return None
    return position


def document_name(corpus: Corpus, position: int) -> str:
    """Return what errors call a document."""
    return f"document {echoed(corpus.doc_ids[position].decode())}"
