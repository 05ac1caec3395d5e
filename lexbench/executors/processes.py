"""The executor `processes`: processes of this machine encode and hold objects; a killed one is replaced."""

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

from lexbench.encodings.encoding import ShardEncoder, encode_shards
from lexbench.encodings.shards import shard_file
from lexbench.errors import CommandError, LexbenchError
from lexbench.executors._workers import Answer, Holder, Leases, WorkerGone, answered, holding, poison
from lexbench.plugins import Encoder, Executor, Held, Holdable
from lexbench.progress import Progress
from lexbench.registry import runtime, with_threads
from lexbench.storage import atomic
from lexbench.storage.environment import cores
from lexbench.types import Corpus

_CONTEXT = get_context("spawn")  # a fresh process inherits nothing of a GPU


@dataclass(frozen=True)
class Processes(Executor):
    """Each process has its own encoder and writes its shards itself.

    *workers*: the number of processes; 0 is one per device of the encoder, e.g. two for `device="cuda:0,cuda:1"`. More
    processes than devices share these in turn, and share the processor's cores if the encoder has the setting `threads`. For
    held objects, e.g. the shards of an index, 0 is one process per core.
    """

    workers: int = runtime(0)

    holds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError if *workers* is negative."""
        if self.workers < 0:
            raise CommandError(f"processes({self.workers}): give a number above 0, or 0 for one per device")

    def encode(self, encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress) -> None:
        """Encode the *shards*; a process that dies is replaced, and its unfinished shards are encoded again."""
        leases = Leases(shards, progress)
        encoders = self._encoders(encoder)[: len(shards)]
        workers: list[_EncodingProcess] = []
        try:
            workers += [_EncodingProcess(one, corpus) for one in encoders]
            while not leases.finished:
                progress.workers(f"worker processes: {len(workers)}")
                for worker in workers:
                    while (shard := leases.take(worker)) is not None:
                        worker.send(shard, path)
                ready = wait([worker.pipe for worker in workers])
                for worker in [worker for worker in workers if worker.pipe in ready]:
                    if worker.receive(leases):
                        continue
                    worker.end()  # it has died
                    workers.remove(worker)
                    if shard := leases.died(worker):  # it kills each worker
                        raise poison(corpus, shard, partial(_kills, worker.encoder, corpus))
                    if leases.left:
                        progress.note(f"an encoding process was killed ({worker.how}); another one takes over its shards")
                        workers.append(_EncodingProcess(worker.encoder, corpus))
        finally:
            for worker in workers:
                worker.end()

    def _encoders(self, encoder: Encoder) -> list[Encoder]:
        """Return the encoder of each process."""
        devices = list(encoder.workers())
        if self.workers <= len(devices):
            return devices[: self.workers or None]
        encoders = [with_threads(one, max(1, len(cores()) // self.workers)) for one in devices]
        return list(islice(cycle(encoders), self.workers))

    @contextmanager
    def hold(self, things: Sequence[Holdable], note: Callable[[str], None]) -> Iterator[Sequence[Held]]:
        """Hold the objects in processes."""
        with holding(things, self.workers or len(cores()), _HoldingProcess, note) as held:
            yield held


class _Process:
    """A process that ends with this one, and a pipe to it; *work* gets *arguments* and the other end of the pipe."""

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
        """End the process, even if it is busy."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


class _HoldingProcess(_Process):
    """The connection to a process with a holder."""

    def __init__(self) -> None:
        super().__init__(_hold)

    def ask(self, method: str, *arguments: Any) -> Answer:
        """Call a method of the holder."""
        try:
            self.pipe.send((method, arguments))
            answer: Answer = self.pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            raise WorkerGone(f"a process was killed {self.how}") from None
        except (AttributeError, PicklingError, TypeError) as error:
            raise CommandError(f"an object cannot be sent to another process ({error}); use --on here") from None
        return answer


class _EncodingProcess(_Process):
    """A process that encodes, seen by the one that started it."""

    def __init__(self, encoder: Encoder, corpus: Corpus) -> None:
        self.encoder = encoder
        self._encoded = 0  # documents
        try:
            super().__init__(_work, encoder, corpus)
        except (AttributeError, PicklingError, TypeError) as error:
            raise CommandError(f"{type(encoder).__name__} cannot be sent to another process ({error}); use --on here") from None

    def send(self, shard: range, path: Path) -> None:
        """Send it *shard*, to be written into the folder *path*."""
        try:
            self.pipe.send((shard, shard_file(path, shard)))
        except OSError:  # it is dead; `receive` will say so
            return

    def receive(self, leases: Leases) -> bool:
        """Receive a message: encoded documents, a finished shard, or an error to raise. False if the process is dead."""
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


def _work(encoder: Encoder, corpus: Corpus, pipe: Connection) -> None:
    """Encode the shards that *pipe* brings, and report them: the work of a worker process."""
    Thread(target=_end_with_parent, daemon=True).start()
    lock = Lock()  # two threads send
    files: dict[range, Path] = {}

    def send(message: Any) -> None:
        with lock:
            pipe.send(message)

    def more(wanting: bool) -> range | None:  # noqa: FBT001 - as see `lexbench.encodings.encoding.More`
        if not wanting and not pipe.poll():
            return None
        shard, file = pipe.recv()
        files[shard] = file
        return shard  # type: ignore[no-any-return] # what was sent

    def keep(shard: range, content: bytes) -> None:
        atomic.write_bytes(files.pop(shard), content)
        send(shard)

    try:
        encode_shards(ShardEncoder(encoder), corpus, more, keep, send)
    except LexbenchError as error:
        send(LexbenchError(str(error)))
    except OSError as error:
        send(LexbenchError(f"an encoding process failed: {error}; run the same command again"))
    except Exception as error:  # noqa: BLE001 - the parent raises it
        notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
        send(LexbenchError(f"an encoding process failed: {type(error).__name__}: {error}{notes}"))


def _hold(pipe: Connection) -> None:
    """Answer the calls of a holder that *pipe* brings: the work of a holding process."""
    Thread(target=_end_with_parent, daemon=True).start()
    holder = Holder()
    with suppress(EOFError):
        while True:
            method, arguments = pipe.recv()
            pipe.send(answered(holder, method, arguments))


def _end_with_parent() -> None:
    """End this process when the one that started it has ended."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _kills(encoder: Encoder, corpus: Corpus, positions: range) -> bool:
    """Whether a process that encodes these documents, and keeps nothing, dies."""
    process = _CONTEXT.Process(target=_try, args=(encoder, corpus, positions), daemon=True)
    process.start()
    process.join()
    return process.exitcode != 0


def _try(encoder: Encoder, corpus: Corpus, positions: range) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(Exception):  # it is reported where the shard is encoded
        ShardEncoder(encoder).content(list(corpus.documents(positions.start, positions.stop)))
