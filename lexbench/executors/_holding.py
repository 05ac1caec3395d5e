"""Objects that workers hold, and are called in many times: who has which, and what is done where a worker is gone."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any, NamedTuple, Protocol

from lexbench.errors import LexbenchError
from lexbench.plugins import Held, Holdable

_DEATHS = 3  # of workers in the same call
_PATIENCE = 1.0  # seconds that a worker at work has when all is over


class WorkerGone(Exception):
    """A worker has died, or nothing is heard of its machine any more; the message says how."""


class Answer(NamedTuple):
    """What came of a call."""

    value: Any = None
    seconds: float = 0.0  # that the object took
    error: LexbenchError | None = None  # in place of a value


class Holder:
    """What a worker is where it runs: objects by their numbers."""

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
        """Close all objects that can be closed, and forget them."""
        for thing, made in self._objects.values():
            thing.close(made)
        self._objects.clear()
        return Answer()


def answered(holder: Holder, method: str, arguments: tuple[Any, ...]) -> Answer:
    """Return what a method of *holder* returns, or the error that it raises, in one line that can travel."""
    try:
        answer: Answer = getattr(holder, method)(*arguments)
    except LexbenchError as error:
        return Answer(error=LexbenchError(str(error)))
    except Exception as error:  # noqa: BLE001 - it goes on in the process that asked
        line = str(error).partition("\n")[0]
        return Answer(error=LexbenchError(f"a worker failed: {type(error).__name__}: {line}"))
    return answer


class Channel(Protocol):
    """The way to one worker, whose `Holder` answers; one call at a time."""

    def ask(self, method: str, *arguments: Any) -> Answer:
        """Return what that method of the holder returns; WorkerGone."""

    def end(self) -> None:
        """End the worker, whatever it does."""


class _Worker:
    """A worker, and those that replace it."""

    def __init__(self, start: Callable[[], Channel], note: Callable[[str], None]) -> None:
        self.lock = RLock()
        self._start, self._note = start, note
        self._channel: Channel | None = None
        self.spent = 0.0  # seconds that objects took
        self.filled: set[int] = set()  # numbers of objects that it holds

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return what the worker answers, or raise the error; after WorkerGone the next call starts another worker."""
        if self._channel is None:
            self._channel = self._start()
        try:
            answer = self._channel.ask(method, *arguments)
        except WorkerGone as gone:
            self.end()
            self._note(f"a worker is gone ({gone}); another takes over what it held")
            raise
        except BaseException as error:
            if not isinstance(error, Exception):  # Ctrl-C: the answer would be taken for that of the next call
                self.end()
            raise
        self.spent += answer.seconds
        if answer.error:
            raise answer.error
        return answer.value

    def dismiss(self) -> None:
        """End the worker, which may remove what it has first, unless it is at work for another thread."""
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


class _Object:
    """One object, seen from the process that asks: a `lexbench.plugins.Held`."""

    def __init__(self, number: int, thing: Holdable, worker: _Worker, worker_number: int) -> None:
        self._number, self._thing, self._worker = number, thing, worker
        self.worker = worker_number

    @property
    def spent(self) -> float:
        """Seconds that all objects of the same worker have taken for what they were called for."""
        return self._worker.spent

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a method returns; where the worker dies the object is made and filled again, by another worker."""
        with self._worker.lock:
            for _ in range(_DEATHS):
                try:
                    return self._called(method, arguments)
                except WorkerGone as error:
                    gone = str(error)
        raise LexbenchError(
            f"{_DEATHS} workers died in `{method}` of what they held ({gone}): too little memory, or a mistake in its code; "
            "with fewer workers, as --on 'processes(1)', the same command may go on"
        )

    def _called(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if self._number not in self._worker.filled:
            self._worker.ask("make", self._number, self._thing)
            self._thing.fill(_Unfilled(self))
            self._worker.filled.add(self._number)
        return self._worker.ask("call", self._number, method, arguments)

    def of_this_worker(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object that the worker of the moment has; WorkerGone."""
        return self._worker.ask("call", self._number, method, arguments)


class _Unfilled:
    """An object while it is being filled: what is called is asked of this worker, and of no other."""

    def __init__(self, held: _Object) -> None:
        self.call = held.of_this_worker
        self.worker, self.spent = held.worker, held.spent


@contextmanager
def holding(
    things: Sequence[Holdable], workers: int, start: Callable[[], Channel], note: Callable[[str], None]
) -> Iterator[Sequence[Held]]:
    """Yield what *workers* workers hold, each started by *start* when it is first called; they end with the `with`."""
    crew = [_Worker(start, note) for _ in range(max(1, min(workers, len(things))))]
    try:
        yield [_Object(number, thing, crew[number % len(crew)], number % len(crew)) for number, thing in enumerate(things)]
    finally:
        for worker in crew:
            worker.dismiss()
