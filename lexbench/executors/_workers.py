"""What executors share: objects that workers hold and that this process calls, and encoding with such objects.

If a worker dies, its shards are encoded again, and another worker makes and fills its objects again.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Condition, RLock, Thread
from typing import Any, NamedTuple, Protocol

from lexbench.encodings.encoding import AHEAD, ShardEncoder, culprit, document_name, with_document_name
from lexbench.encodings.shards import shard_file
from lexbench.errors import CannotStart, LexbenchError
from lexbench.plugins import Encoder, Held, Holdable, Reranker
from lexbench.progress import Progress
from lexbench.storage import atomic
from lexbench.types import Corpus, Document

MOST_SHARDS = AHEAD + 1  # that a worker has at a time: it encodes one and tokenises the others
_DEATHS = 3  # of workers, after which their shard, or the object's method, is given up
_PATIENCE = 1.0  # seconds that a busy worker has at the end
_TAKING = 0.5  # seconds between two reports of progress
_FEWER = "with fewer workers, e.g. --on 'processes(1)', the same command may succeed"

# ---- objects in a worker ---------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """The result of a call."""

    value: Any = None
    seconds: float = 0.0  # that the object took
    error: LexbenchError | None = None  # instead of a value


class Holder:
    """The objects in a worker, by number."""

    def __init__(self) -> None:
        self._objects: dict[int, tuple[Holdable, Any]] = {}

    def make(self, number: int, thing: Holdable) -> Answer:
        """Make an object."""
        self._objects[number] = thing, thing.make()
        return Answer()

    def call(self, number: int, method: str, arguments: tuple[Any, ...]) -> Answer:
        """Call a method of an object."""
        begin = time.perf_counter()
        value = getattr(self._objects[number][1], method)(*arguments)
        return Answer(value, time.perf_counter() - begin)

    def drop(self) -> Answer:
        """Close and forget all objects."""
        for thing, made in self._objects.values():
            thing.close(made)
        self._objects.clear()
        return Answer()


def answered(holder: Holder, method: str, arguments: tuple[Any, ...]) -> Answer:
    """Return the answer of a method of *holder*; an error becomes one line, which can be sent to another process."""
    try:
        answer: Answer = getattr(holder, method)(*arguments)
    except LexbenchError as error:
        return Answer(error=LexbenchError(str(error)))
    except Exception as error:  # noqa: BLE001 - it is raised in the process that called
        line = str(error).partition("\n")[0]
        return Answer(error=LexbenchError(f"a worker failed: {type(error).__name__}: {line}"))
    return answer


# ---- the same objects, seen by the process that calls them -----------------------------------------------------------------


class WorkerGone(Exception):
    """A worker has died, or its machine cannot be reached; the message says how."""


class Channel(Protocol):
    """The connection to the `Holder` of one worker; one call at a time."""

    def ask(self, method: str, *arguments: Any) -> Answer:
        """Call a method of the holder. Raises WorkerGone."""

    def end(self) -> None:
        """End the worker, even if it is busy."""


class _HoldingWorker:
    """A worker that holds objects, and those that replace it."""

    def __init__(self, start: Callable[[], Channel], note: Callable[[str], None]) -> None:
        self.lock = RLock()
        self._start, self._note = start, note
        self._channel: Channel | None = None
        self._closed = False
        self.spent = 0.0  # seconds that its objects took
        self.filled: set[int] = set()  # numbers of the objects that it holds

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return the answer of the worker, or raise its error. After WorkerGone the next call starts another worker."""
        if self._closed:
            raise LexbenchError("the worker has ended")
        if self._channel is None:
            self._channel = self._start()
        try:
            answer = self._channel.ask(method, *arguments)
        except WorkerGone as gone:
            self.end()
            self._note(f"a worker is gone ({gone}); another one takes over its work")
            raise
        except BaseException as error:
            if not isinstance(error, Exception):  # after Ctrl-C its answer would be taken for that of the next call
                self.end()
            raise
        self.spent += answer.seconds
        if answer.error:
            raise answer.error
        return answer.value

    def dismiss(self) -> None:
        """End the worker; it closes its objects first, unless it is busy for another thread."""
        if self.lock.acquire(timeout=_PATIENCE):
            with suppress(WorkerGone):
                if self._channel is not None:
                    self._channel.ask("drop")
            self.lock.release()
        self.close()

    def close(self) -> None:
        """End the worker for good."""
        self._closed = True
        self.end()

    def end(self) -> None:
        """End the worker; it holds nothing any more."""
        if self._channel is not None:
            self._channel.end()
        self._channel = None
        self.filled.clear()


class _HeldObject:
    """A held object, seen by the process that calls it: a `lexbench.plugins.Held`."""

    def __init__(self, number: int, thing: Holdable, worker: _HoldingWorker, worker_number: int) -> None:
        self._number, self._thing, self._worker = number, thing, worker
        self.worker = worker_number

    @property
    def spent(self) -> float:
        """Seconds that calls of all objects of the same worker have taken there."""
        return self._worker.spent

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method; if the worker dies, another worker makes and fills the object and is called again."""
        with self._worker.lock:
            for _ in range(_DEATHS):
                try:
                    if self._number not in self._worker.filled:
                        self._worker.ask("make", self._number, self._thing)
                        self._thing.fill(_Unfilled(self))
                        self._worker.filled.add(self._number)
                    return self.call_now(method, *arguments)
                except WorkerGone as error:
                    gone = str(error)
        raise LexbenchError(
            f"{_DEATHS} workers died in `{method}` of an object ({gone}): too little memory, or a mistake in its code; {_FEWER}"
        )

    def call_now(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object in the present worker. Raises WorkerGone."""
        return self._worker.ask("call", self._number, method, arguments)


class _Unfilled:
    """An object while it is being filled: its calls go to the present worker, and to no other."""

    def __init__(self, held: _HeldObject) -> None:
        self.call = held.call_now
        self.worker, self.spent = held.worker, held.spent


@contextmanager
def holding(
    things: Sequence[Holdable], workers: int, start: Callable[[], Channel], note: Callable[[str], None]
) -> Iterator[Sequence[Held]]:
    """Yield an object for each of *things*, held by *workers* workers. *start* starts a worker when it is first called."""
    crew = [_HoldingWorker(start, note) for _ in range(max(1, min(workers, len(things))))]
    try:
        yield [_HeldObject(number, thing, crew[number % len(crew)], number % len(crew)) for number, thing in enumerate(things)]
    finally:
        for worker in crew:
            worker.dismiss()


@contextmanager
def holding_rerankers(
    recipes: Sequence[Holdable], workers: int, start: Callable[[], Channel], note: Callable[[str], None]
) -> Iterator[Sequence[Sequence[Held]]]:
    """Yield for each of *workers* workers an object for each of *recipes*."""
    with holding([one for one in recipes for _ in range(workers)], workers, start, note) as held:
        yield [held[number::workers] for number in range(workers)]


# ---- encoding with objects in workers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldModel(Holdable):
    """The recipe of an encoder, which gets a queue of shards, or of a reranker in a worker."""

    model: Encoder | Reranker

    def make(self) -> "EncodingQueue | Reranker":
        """Return the object to hold."""
        return EncodingQueue(self.model) if isinstance(self.model, Encoder) else self.model

    @property
    def identity(self) -> Mapping[str, Any]:
        """What its files decide."""
        return self.model.index_identity() if isinstance(self.model, Encoder) else self.model.identity()


class EncodingQueue:
    """An encoder in a worker. While it encodes a shard, a thread tokenises the next and another one packs the last."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = ShardEncoder(encoder)
        self._tokeniser, self._worker, self._packer = (ThreadPoolExecutor(1) for _ in range(3))
        self._shards: deque[Future[bytes]] = deque()
        self._encoded = 0  # documents

    def submit(self, documents: Sequence[Document]) -> None:
        """Queue the shard of *documents*."""
        tokens = self._tokeniser.submit(self._encoder.tokens, documents)
        content = self._worker.submit(lambda: self._encoder.encoded(tokens.result(), self._count))
        self._shards.append(self._packer.submit(lambda encoded: encoded.result()(), content))

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
        return self._encoder.content(documents)


class _Encoding:
    """The shards of one call of `encode`. For each worker a thread sends it shards and writes what comes back."""

    def __init__(
        self, start: Callable[[], Channel], corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress
    ) -> None:
        self._start, self._corpus, self._path, self._progress = start, corpus, path, progress
        self.changed = Condition()  # also the lock of all that follows
        self.unfinished, self.over = len(shards), False
        self.errors: list[Exception] = []  # each ended a thread
        self.workers: list[_HoldingWorker] = []
        self._left = deque(shards)
        self._deaths: Counter[range | None] = Counter()  # of the workers of each shard; None: of workers without a shard

    def work(self, thing: Holdable) -> None:
        """Let a worker, and those that replace it, encode until all shards are finished: the work of a thread."""
        self.workers.append(worker := _HoldingWorker(self._start, self._progress.note))
        try:
            while self.unfinished and not self.over:
                self._encode(worker, thing)
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            with self.changed:
                self.errors.append(error)
                self.changed.notify_all()

    def _encode(self, worker: _HoldingWorker, thing: Holdable) -> None:
        """Let *worker* encode until it dies or all shards are finished."""
        held: deque[range] = deque()
        encoded = kept = 0  # documents: reported to progress; in finished shards
        try:
            worker.ask("make", 0, thing)
            worker.filled.add(0)
            self._progress.workers(f"workers: {sum(bool(one.filled) for one in self.workers)}")
            while self._lease(held, worker):
                count, content = worker.ask("call", 0, "take", ())
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
                raise self._poison(deadly[0], thing) from None
        except LexbenchError as error:
            if not held:
                raise
            content = partial(_content, worker)
            raise with_document_name(error, self._corpus, held[0], content) from None

    def _lease(self, held: deque[range], worker: _HoldingWorker) -> bool:
        """Send *worker*, which has the shards *held*, more of them; wait if it has none. False if all shards are finished."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: held or self._left or not self.unfinished or self.over)
                # A shard may be the reason why its worker died. It is leased with nothing beside it, to show which shard it is.
                suspected = any(self._deaths[shard] for shard in (*held, *list(self._left)[:1]))
                if not self._left or len(held) >= MOST_SHARDS or (held and suspected):
                    return bool(held)
                held.append(self._left.popleft())
            worker.ask("call", 0, "submit", (_documents(self._corpus, held[-1]),))

    def _poison(self, shard: range, thing: Holdable) -> LexbenchError:
        """Return the error for a *shard* whose workers die; it names the document that kills a worker by itself."""

        def kills(positions: range) -> bool:
            self.workers.append(worker := _HoldingWorker(self._start, lambda _line: None))
            try:
                worker.ask("make", 0, thing)
                _content(worker, _documents(self._corpus, positions))
            except WorkerGone:
                return True
            except LexbenchError:  # it is raised where the shard is encoded
                return False
            finally:
                worker.end()
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
    things: Sequence[Holdable],
    start: Callable[[], Channel],
    corpus: Corpus,
    path: Path,
    shards: Sequence[range],
    progress: Progress,
) -> None:
    """Encode *shards* with a worker for each of *things*, recipes of encoders; *start* starts a worker.

    Raises CannotStart if no worker can start, and LexbenchError if a document cannot be encoded or kills its workers.
    """
    encoding = _Encoding(start, corpus, path, shards, progress)
    threads = [Thread(target=encoding.work, args=(thing,), daemon=True) for thing in things[: len(shards)]]

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


def _content(worker: _HoldingWorker, documents: Sequence[Document]) -> bytes:
    """Return the bytes of the shard of *documents*."""
    content: bytes = worker.ask("call", 0, "content", (documents,))
    return content


def _documents(corpus: Corpus, positions: range) -> list[Document]:
    return list(corpus.documents(positions.start, positions.stop))
