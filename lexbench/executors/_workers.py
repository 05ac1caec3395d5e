"""What executors share: which worker encodes which shard, and objects that workers hold.

If a worker dies, its shards go to other workers, and another worker makes and fills its objects again.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any, NamedTuple, Protocol

from lexbench.encodings.encoding import AHEAD, culprit, document_name
from lexbench.errors import LexbenchError
from lexbench.plugins import Held, Holdable
from lexbench.progress import Progress
from lexbench.types import Corpus

MOST_SHARDS = AHEAD + 1  # that a worker has at a time: it encodes one and tokenises the others
_DEATHS = 3  # of workers, after which their shard, or the object's method, is given up
_PATIENCE = 1.0  # seconds that a busy worker has at the end
_FEWER = "with fewer workers, e.g. --on 'processes(1)', the same command may succeed"

# ---- shards ----------------------------------------------------------------------------------------------------------------


class Leases:
    """The shards that are left, and those that workers have; *progress* hears of each document once.

    A shard may be the reason why its worker died. It is then leased with nothing beside it, so that the third death shows which
    shard it is. `poison` then finds the document.
    """

    def __init__(self, shards: Sequence[range], progress: Progress) -> None:
        self._left = deque(shards)
        self._progress = progress
        self._reported: Counter[Hashable] = Counter()  # documents of each worker that progress has heard of
        self._kept: Counter[Hashable] = Counter()  # documents of each worker in finished shards
        self._held: dict[Hashable, list[range]] = {}
        self._deaths: Counter[range] = Counter()

    @property
    def finished(self) -> bool:
        """Whether every shard is done."""
        return not self._left and not any(self._held.values())

    @property
    def left(self) -> int:
        """The number of shards that no worker has: no more workers are worth starting."""
        return len(self._left)

    def take(self, worker: Hashable) -> range | None:
        """Lease *worker* another shard; None if none is left or it has enough."""
        held = self._held.setdefault(worker, [])
        alone = bool(held) and any(self._deaths[shard] for shard in (*held, *list(self._left)[:1]))
        if not self._left or len(held) >= MOST_SHARDS or alone:
            return None
        shard = self._left.popleft()
        held.append(shard)
        return shard

    def encoded(self, worker: Hashable, documents: int) -> None:
        """Note that *worker* has encoded so many *documents* since it began, also those of unfinished shards."""
        if (new := documents - self._reported[worker]) > 0:
            self._reported[worker] = documents
            self._progress.advance(new)

    def done(self, worker: Hashable, shard: range) -> None:
        """Note that *shard* is written."""
        self._held[worker].remove(shard)
        self._kept[worker] += len(shard)
        self.encoded(worker, self._kept[worker])

    def died(self, worker: Hashable) -> range | None:
        """Take back the shards of *worker*; return the one whose workers have died too often, or None."""
        if lost := self._reported.pop(worker, 0) - self._kept.pop(worker, 0):
            self._progress.advance(-lost)
        held = self._held.pop(worker, [])
        self._left.extendleft(reversed(held))
        self._deaths.update(held)
        return next((shard for shard in held if self._deaths[shard] >= _DEATHS), None)


def poison(corpus: Corpus, shard: range, kills: Callable[[range], bool]) -> LexbenchError:
    """Return the error for a *shard* whose workers die; it names the document that *kills* a worker by itself."""
    position = culprit(shard, kills)
    if position is not None:
        return LexbenchError(
            f"{document_name(corpus, position)} kills its worker each time: too little memory for its text, or a mistake "
            "in the encoder; finished shards are kept: repair the encoder or the document, then run the same command again"
        )
    first, last = (document_name(corpus, at) for at in (shard.start, shard.stop - 1))
    return LexbenchError(
        f"{_DEATHS} workers died while they encoded the shard from {first} to {last}, and no single document is the reason: "
        f"too little memory, or a worker that cannot start; {_FEWER}"
    )


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
        self.spent = 0.0  # seconds that its objects took
        self.filled: set[int] = set()  # numbers of the objects that it holds

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return the answer of the worker, or raise its error. After WorkerGone the next call starts another worker."""
        if self._channel is None:
            self._channel = self._start()
        try:
            answer = self._channel.ask(method, *arguments)
        except WorkerGone as gone:
            self.end()
            self._note(f"a worker is gone ({gone}); another one takes over its objects")
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
