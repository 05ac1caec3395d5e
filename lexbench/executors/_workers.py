"""What executors share: workers that each have a copy of an object, and encoding with such workers.

If a worker dies, its shards are encoded again; another worker gets a copy of the object, and the call is repeated.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Condition, RLock, Thread
from typing import Any, NamedTuple, Protocol, TypeAlias

from lexbench.display.progress import Progress
from lexbench.encodings.encoding import (
    counted,
    culprit,
    document_name,
    documents_at,
    encode_tokens,
    encoded_shard,
    with_document_name,
)
from lexbench.encodings.shards import shard_file
from lexbench.errors import CannotStart, LexbenchError
from lexbench.plugins import Encoder, Reranker, ScoredPairs
from lexbench.storage import atomic
from lexbench.types import Corpus, Document

MOST_SHARDS = 3  # that a worker has at a time: it encodes one and tokenises the others
_DEATHS = 3  # of workers, after which their shard, or the call, is given up
_PATIENCE = 1.0  # seconds that a busy worker has at the end
_TAKING = 0.5  # seconds between two reports of progress
_FEWER = "with fewer workers, e.g. --on 'processes(1)', the same command may succeed"

# ---- in a worker -----------------------------------------------------------------------------------------------------------


class Reply(NamedTuple):
    """The result of a call."""

    value: Any = None
    seconds: float = 0.0  # that the object took
    error: LexbenchError | None = None  # instead of a value


class Holder:
    """The object that a worker has a copy of."""

    _thing: Any = None

    def keep(self, thing: Any) -> None:
        """Keep *thing* instead of the previous object."""
        self._thing = thing

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object."""
        return getattr(self._thing, method)(*arguments)

    def answer(self, method: str, arguments: tuple[Any, ...]) -> Reply:
        """Call `keep` or `call` and return the answer; an error becomes one line, which can be sent to another process."""
        begin = time.perf_counter()
        try:
            value = getattr(self, method)(*arguments)
        except LexbenchError as error:
            return Reply(error=LexbenchError(str(error)))
        except Exception as error:  # noqa: BLE001 - it is raised in the process that called
            line = str(error).partition("\n")[0]
            return Reply(error=LexbenchError(f"a worker failed: {type(error).__name__}: {line}"))
        return Reply(value, time.perf_counter() - begin)


class EncodingQueue:
    """An encoder in a worker. While it encodes a shard, a thread tokenises the next."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._tokeniser, self._worker = ThreadPoolExecutor(1), ThreadPoolExecutor(encoder.shards_at_once)
        self._advance = counted(self._count)
        self._shards: deque[Future[bytes]] = deque()
        self._encoded = 0  # documents

    def __reduce__(self) -> tuple[Any, ...]:
        return EncodingQueue, (self._encoder,)

    def submit(self, documents: Sequence[Document]) -> None:
        """Queue the shard of *documents*."""
        tokens = self._tokeniser.submit(self._encoder.tokenise_documents, documents)
        count = len(documents)
        self._shards.append(self._worker.submit(lambda: encode_tokens(self._encoder, tokens.result(), count, self._advance)))

    def _count(self, documents: int) -> None:
        self._encoded += documents

    def take(self) -> tuple[int, bytes | None]:
        """Return the number of documents encoded so far, and the bytes of the oldest shard if it is ready soon."""
        try:
            content = self._shards[0].result(_TAKING)
        except TimeoutError:
            return self._encoded, None
        self._shards.popleft()
        return self._encoded, content

    def content(self, documents: Sequence[Document]) -> bytes:
        """Return the bytes of the shard of *documents*; the shards in the queue are given up."""
        self._worker.shutdown(cancel_futures=True)
        return encoded_shard(self._encoder, documents)


@dataclass(frozen=True)
class Rerankers:
    """Rerankers in a worker, by number."""

    rerankers: tuple[Reranker, ...]

    def scored_pairs(self, number: int, queries: Sequence[str], documents: Sequence[Document]) -> ScoredPairs:
        """Return what one of them makes of pairs."""
        return self.rerankers[number].scored_pairs(queries, documents)


# ---- the same workers, seen by the process that calls them -----------------------------------------------------------------


class WorkerGone(Exception):
    """A worker has died, or its machine cannot be reached; the message says how."""


class Channel(Protocol):
    """The connection to the `Holder` of one worker; one call at a time."""

    def ask(self, method: str, *arguments: Any) -> Reply:
        """Call a method of the holder. Raises WorkerGone."""

    def end(self) -> None:
        """End the worker, even if it is busy."""


class CalledWorker:
    """A worker with a copy of *thing*, replaced if it dies: a `lexbench.plugins.Worker`. *start* starts a worker."""

    def __init__(self, start: Callable[[], Channel], thing: Any, note: Callable[[str], None]) -> None:
        self._lock = RLock()
        self._start, self._thing, self._note = start, thing, note
        self._channel: Channel | None = None
        self._closed = False
        self.ready = False  # whether a worker has the object
        self.spent = 0.0  # seconds that calls of the object took

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object; if the worker dies, call that of another worker."""
        with self._lock:
            for _ in range(_DEATHS):
                try:
                    return self.call_now(method, *arguments)
                except WorkerGone as error:
                    gone = str(error)
        raise LexbenchError(
            f"{_DEATHS} workers died in `{method}` of an object ({gone}): too little memory, or a mistake in its code; {_FEWER}"
        )

    def call_now(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object in the present worker. After WorkerGone the next call starts another one."""
        self.start()
        return self._ask("call", method, *arguments)

    def start(self) -> None:
        """Start a worker and send it the object, unless one has it. Raises WorkerGone."""
        if self._closed:
            raise LexbenchError("the worker has ended")
        if self._channel is None:
            self._channel = self._start()
        if not self.ready:
            self._ask("keep", self._thing)
            self.ready = True

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Return the answer of the worker, or raise its error."""
        assert self._channel  # `start` started it
        try:
            answer = self._channel.ask(method, *arguments)
        except WorkerGone as gone:
            self._end()
            self._note(f"a worker is gone ({gone}); another one takes over its work")
            raise
        except BaseException as error:
            if not isinstance(error, Exception):  # after Ctrl-C its answer would be taken for that of the next call
                self._end()
            raise
        self.spent += answer.seconds
        if answer.error:
            raise answer.error
        return answer.value

    def dismiss(self) -> None:
        """End the worker; it closes its object first, unless it is busy for another thread."""
        if self._lock.acquire(timeout=_PATIENCE):
            with suppress(WorkerGone):
                if self._channel is not None:
                    self._channel.ask("keep", None)
            self._lock.release()
        self.close()

    def close(self) -> None:
        """End the worker for good."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        """End the worker; the next call starts another one."""
        # Ending a worker that another thread waits for makes that thread come here too: it must find no channel.
        channel, self._channel, self.ready = self._channel, None, False
        if channel is not None:
            channel.end()


Workers: TypeAlias = AbstractContextManager[Sequence[CalledWorker]]


@contextmanager
def workers_with(
    thing: Any, count: int, start: Callable[[], Channel], note: Callable[[str], None]
) -> Iterator[Sequence[CalledWorker]]:
    """Yield *count* workers with a copy of *thing* each. *start* starts one when it is first called."""
    workers = [CalledWorker(start, thing, note) for _ in range(count)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.dismiss()


# ---- encoding on workers ---------------------------------------------------------------------------------------------------


class _Encoding:
    """The shards of one call of `encode`. A thread per worker sends it documents and writes the encoded shards."""

    def __init__(
        self, start: Callable[[], Channel], corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress
    ) -> None:
        self._start, self._corpus, self._path, self._progress = start, corpus, path, progress
        self.changed = Condition()  # also the lock of all that follows
        self.unfinished, self.over = len(shards), False
        self.errors: list[Exception] = []  # each ended a thread
        self.workers: list[CalledWorker] = []
        self._left = deque(shards)
        self._deaths: Counter[range | None] = Counter()  # of the workers of each shard; None: of workers without a shard

    def work(self, encoder: Encoder) -> None:
        """Let a worker and its replacements encode until all shards are finished. This is the work of a thread."""
        self.workers.append(worker := CalledWorker(self._start, EncodingQueue(encoder), self._progress.note))
        try:
            while self.unfinished and not self.over:
                self._encode(worker, encoder)
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            with self.changed:
                self.errors.append(error)
                self.changed.notify_all()

    def _encode(self, worker: CalledWorker, encoder: Encoder) -> None:
        """Let *worker* encode until it dies or all shards are finished."""
        held: deque[range] = deque()
        encoded = kept = 0  # documents: reported to progress; in finished shards
        try:
            worker.start()
            self._progress.workers(f"workers: {sum(one.ready for one in self.workers)}")
            while self._lease(held, worker):
                count, content = worker.call_now("take")
                if content is not None:
                    atomic.write_bytes(shard_file(self._path, held[0]), content)
                with self.changed:
                    if content is not None:
                        kept += len(held.popleft())
                        self.unfinished -= 1
                        self._deaths.pop(None, None)
                    self._progress.advance(max(count, kept) - encoded)
                    encoded = max(count, kept)
                    self.changed.notify_all()
        except WorkerGone as gone:
            with self.changed:
                self._left.extendleft(reversed(held))
                self._deaths.update(held or [None])
                self._progress.advance(kept - encoded)
                self.changed.notify_all()
            if self._deaths[None] >= _DEATHS:
                raise LexbenchError(f"{_DEATHS} workers died before they could encode: {gone}") from None
            if deadly := [shard for shard in held if self._deaths[shard] >= _DEATHS]:
                raise self._deadly_shard(deadly[0], encoder) from None
        except LexbenchError as error:
            if not held:
                raise
            raise with_document_name(error, self._corpus, held[0], partial(worker.call_now, "content")) from None

    def _lease(self, held: deque[range], worker: CalledWorker) -> bool:
        """Send *worker* more shards and append them to *held*, the shards that it has. Wait while there are none for it.

        Returns False if there is nothing left to do.
        """
        while True:
            with self.changed:
                self.changed.wait_for(lambda: held or self._left or not self.unfinished or self.over)
                # A shard may be the reason why its worker died. It is leased alone, to show which shard it is.
                suspected = any(self._deaths[shard] for shard in (*held, *list(self._left)[:1]))
                if not self._left or len(held) >= MOST_SHARDS or (held and suspected):
                    return bool(held)
                held.append(self._left.popleft())
            worker.call_now("submit", documents_at(self._corpus, held[-1]))

    def _deadly_shard(self, shard: range, encoder: Encoder) -> LexbenchError:
        """Return the error for a *shard* whose workers die; it names the document that kills a worker by itself."""

        def kills(positions: range) -> bool:
            self.workers.append(worker := CalledWorker(self._start, EncodingQueue(encoder), lambda _line: None))
            try:
                worker.call_now("content", documents_at(self._corpus, positions))
            except WorkerGone:
                return True
            except LexbenchError:  # it is raised where the shard is encoded
                return False
            finally:
                worker.close()
            return False

        position = culprit(shard, kills)
        if position is not None:
            return LexbenchError(
                f"{document_name(self._corpus, position)} kills its worker each time: too little memory for its text, or a "
                "mistake in the encoder; finished shards are kept: repair the encoder or the document, then run the same "
                "command again"
            )
        first, last = (document_name(self._corpus, at) for at in (shard.start, shard.stop - 1))
        return LexbenchError(
            f"{_DEATHS} workers died while they encoded the shard from {first} to {last}, and no single document is the "
            f"reason: too little memory, or a worker that cannot start; {_FEWER}"
        )


def encode_on_workers(
    encoders: Sequence[Encoder],
    start: Callable[[], Channel],
    corpus: Corpus,
    path: Path,
    shards: Sequence[range],
    progress: Progress,
) -> None:
    """Encode *shards* with a worker for each of *encoders*; *start* starts a worker.

    Raises CannotStart if no worker can start, and LexbenchError if a document cannot be encoded or kills its workers.
    """
    encoding = _Encoding(start, corpus, path, shards, progress)
    threads = [Thread(target=encoding.work, args=(one,), daemon=True) for one in encoders[: len(shards)]]

    def error() -> Exception | None:
        """Return the error to raise. If only some workers cannot start, the others finish."""
        fatal = next((one for one in encoding.errors if not isinstance(one, CannotStart)), None)
        return encoding.errors[0] if fatal is None and len(encoding.errors) == len(threads) else fatal

    try:
        for thread in threads:
            thread.start()
        with encoding.changed:
            encoding.changed.wait_for(lambda: not encoding.unfinished or error())
    finally:
        with encoding.changed:
            encoding.over = True
            encoding.changed.notify_all()
        for _ in range(2):  # a thread may be starting a worker
            for worker in list(encoding.workers):
                worker.close()
            for thread in threads:
                thread.join(_PATIENCE)
    if encoding.unfinished and (raised := error()):
        raise raised
