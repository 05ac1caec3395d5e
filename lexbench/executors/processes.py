"""In processes of this machine, one for each device or as many as are asked for; one that is killed is replaced."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from pickle import PicklingError
from threading import Lock, Thread
from typing import Any, ClassVar

from lexbench.encodings.encode import ShardEncoder, encode_shards
from lexbench.encodings.shards import shard_file
from lexbench.errors import CommandError, LexbenchError
from lexbench.executors._holding import Answer, Holder, WorkerGone, answered, holding
from lexbench.executors._leases import Leases, poison
from lexbench.plugins import Encoder, Executor, Held, Holdable
from lexbench.progress import Progress, tell_of_workers
from lexbench.registry import runtime, with_threads
from lexbench.storage import atomic
from lexbench.types import Corpus

_CONTEXT = get_context("spawn")  # each process is started anew, so that nothing of a GPU is inherited


@dataclass(frozen=True)
class Processes(Executor):
    """Each process has an encoder of its own, and writes the shards that it is given.

    *workers*: how many; 0 is one for each device that the encoder names, as `device="cuda:0,cuda:1"`. More than there are
    devices share these in turn, and the threads of an encoder that has that setting are shared out among those on processors.
    What is held, as the parts of an index, has by default a process for each processor.
    """

    workers: int = runtime(0)
    holds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse fewer than none."""
        if self.workers < 0:
            raise CommandError(f"processes({self.workers}): give a number above 0, or 0 for one a device")

    def encode(self, encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress) -> None:
        """Encode the *shards*; a process that dies is replaced, and what it had in hand is encoded again."""
        leases = Leases(shards, progress)
        encoders = self._encoders(encoder)[: len(shards)]
        workers: list[_Worker] = []
        try:
            workers += [_Worker(one, corpus) for one in encoders]
            while not leases.finished:
                tell_of_workers(progress, f"worker processes: {len(workers)}")
                for worker in workers:
                    while (shard := leases.take(worker)) is not None:
                        worker.send(shard, path)
                for worker in _with_news(workers):
                    if worker.alive(leases):
                        continue
                    worker.end()
                    workers.remove(worker)
                    if shard := leases.died(worker):
                        raise poison(corpus, shard, partial(_kills, worker.encoder, corpus))
                    if leases.left:
                        progress.note(f"an encoding process was killed ({worker.how}); another takes over what it had")
                        workers.append(_Worker(worker.encoder, corpus))
        finally:
            for worker in workers:
                worker.end()

    def _encoders(self, encoder: Encoder) -> list[Encoder]:
        """Return the encoder of each process."""
        devices = list(encoder.workers())
        if self.workers <= len(devices):
            return devices[: self.workers or None]
        encoders = [with_threads(one, max(1, _processors() // self.workers)) for one in devices]
        return list(islice(cycle(encoders), self.workers))

    @contextmanager
    def hold(self, things: Sequence[Holdable], note: Callable[[str], None]) -> Iterator[Sequence[Held]]:
        """Let processes hold the objects."""
        with holding(things, self.workers or _processors(), _HoldingProcess, note) as held:
            yield held


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Process:
    """A process that ends with this one, and a pipe to it; *work* is given the other end, after *arguments*."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self.pipe, theirs = _CONTEXT.Pipe()
        self._process: BaseProcess = _CONTEXT.Process(target=work, args=(*arguments, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def how(self) -> str:
        """How it ended, in words."""
        code = self._process.exitcode
        return f"by signal {-code}" if code and code < 0 else f"with exit code {code}"

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


class _HoldingProcess(_Process):
    """A process with a holder, and the way to it."""

    def __init__(self) -> None:
        super().__init__(_hold)

    def ask(self, method: str, *arguments: Any) -> Answer:
        """Return what that method of the holder returns."""
        try:
            self.pipe.send((method, arguments))
            answer: Answer = self.pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            raise WorkerGone(f"a process was killed {self.how}") from None
        except (AttributeError, PicklingError, TypeError) as error:
            raise CommandError(f"what a process is to hold cannot travel to it ({error}); use --on here") from None
        return answer


class _Worker(_Process):
    """A process that encodes, seen from the one that started it."""

    def __init__(self, encoder: Encoder, corpus: Corpus) -> None:
        self.encoder = encoder
        self._encoded = 0  # documents
        try:
            super().__init__(_work, encoder, corpus)
        except (AttributeError, PicklingError, TypeError) as error:
            raise CommandError(f"{type(encoder).__name__} cannot travel to another process ({error}); use --on here") from None

    def send(self, shard: range, path: Path) -> None:
        """Let it encode *shard* into a file of the folder *path*."""
        try:
            self.pipe.send((shard, shard_file(path, shard)))
        except OSError:  # it is dead, which its pipe says in its turn
            return

    def alive(self, leases: Leases) -> bool:
        """Hear one message: documents or a shard done; raise the error that it is; return whether there was one."""
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            return False
        if isinstance(message, LexbenchError):
            raise message
        if isinstance(message, int):
            self._encoded += message
            leases.encoded(self, self._encoded)
        else:
            leases.done(self, message)
        return True


def _with_news(workers: Sequence[_Worker]) -> list[_Worker]:
    """Wait until a worker has said something or is gone; return all of which that is true."""
    ready = wait([worker.pipe for worker in workers])
    return [worker for worker in workers if worker.pipe in ready]


def _work(encoder: Encoder, corpus: Corpus, pipe: Connection) -> None:
    """Encode, in its process, the shards that *pipe* brings, and say what is done; end with the process that started it."""
    Thread(target=_end_with_parent, daemon=True).start()
    lock = Lock()  # two threads speak
    files: dict[range, Path] = {}

    def tell(message: Any) -> None:
        with lock:
            pipe.send(message)

    def more(wanting: bool) -> range | None:  # noqa: FBT001 - as `lexbench.encodings.encode.More` has it
        if not wanting and not pipe.poll():
            return None
        shard, file = pipe.recv()
        files[shard] = file
        return shard  # type: ignore[no-any-return] # what was sent

    def keep(shard: range, content: bytes) -> None:
        atomic.write_bytes(files.pop(shard), content)
        tell(shard)

    try:
        encode_shards(ShardEncoder(encoder), corpus, more, keep, tell)
    except LexbenchError as error:
        tell(LexbenchError(str(error)))
    except OSError as error:
        tell(LexbenchError(f"an encoding process failed: {error}; the same command goes on"))
    except Exception as error:  # noqa: BLE001 - it goes on in the parent
        notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
        tell(LexbenchError(f"an encoding process failed: {type(error).__name__}: {error}{notes}"))


def _hold(pipe: Connection) -> None:
    """Answer, in a process of its own, what *pipe* asks of a holder; end with the process that started it."""
    Thread(target=_end_with_parent, daemon=True).start()
    holder = Holder()
    with suppress(EOFError):
        while True:
            method, arguments = pipe.recv()
            pipe.send(answered(holder, method, arguments))


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however it went."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _kills(encoder: Encoder, corpus: Corpus, positions: range) -> bool:
    """Whether a process that encodes these documents, and keeps nothing, does not come to its end."""
    process = _CONTEXT.Process(target=_try, args=(encoder, corpus, positions), daemon=True)
    process.start()
    process.join()
    return process.exitcode != 0


def _try(encoder: Encoder, corpus: Corpus, positions: range) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(Exception):  # which says what it is, where the shard is encoded
        ShardEncoder(encoder).content(list(corpus.documents(positions.start, positions.stop)))
