"""The executor `processes`: processes of this machine encode, search and rerank; a killed one is replaced."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from pickle import PicklingError
from threading import Thread
from typing import Any

from lexbench.display.progress import Progress
from lexbench.errors import CommandError
from lexbench.executors._workers import Holder, Reply, Rerankers, WorkerGone, Workers, encode_on_workers, workers_with
from lexbench.plugins import Encoder, Executor, Reranker
from lexbench.registry import runtime, with_threads
from lexbench.storage.environment import cores
from lexbench.types import Corpus

_CONTEXT = get_context("spawn")  # a fresh process inherits nothing of a GPU


@dataclass(frozen=True)
class Processes(Executor):
    """Each process has its own encoder.

    *workers*: the number of processes; 0 is one per device of the encoder, e.g. two for `device="cuda:0,cuda:1"`. More
    processes than devices share these in turn, and share the processor's cores if the encoder has the setting `threads`. For
    the shards of an index, 0 is one process per core.
    """

    workers: int = runtime(0)

    def __post_init__(self) -> None:
        """Raise CommandError if *workers* is negative."""
        if self.workers < 0:
            raise CommandError(f"processes({self.workers}): give a number above 0, or 0 for one per device")

    def encode(self, encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress) -> None:
        """Encode the *shards*; a process that dies is replaced, and its unfinished shards are encoded again."""
        encode_on_workers(self._encoders(encoder), _Process, corpus, path, shards, progress)

    def _encoders(self, encoder: Encoder) -> list[Encoder]:
        """Return the encoder of each process."""
        devices = list(encoder.workers())
        if self.workers <= len(devices):
            return devices[: self.workers or None]
        encoders = [with_threads(one, max(1, len(cores()) // self.workers)) for one in devices]
        return list(islice(cycle(encoders), self.workers))

    def index_workers(self, index: Any, shards: int, note: Callable[[str], None]) -> Workers:
        """Start processes with copies of *index*."""
        return workers_with(index, min(self.workers or len(cores()), shards), _Process, note)

    def reranking_workers(self, rerankers: Sequence[Reranker], note: Callable[[str], None]) -> Workers:
        """Start processes that share the cores."""
        count = self.workers or 1
        copies = Rerankers(tuple(with_threads(one, max(1, len(cores()) // count)) for one in rerankers))
        return workers_with(copies, count, _Process, note)


class _Process:
    """A process with a holder that ends with this one, and the connection to it."""

    def __init__(self) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_hold, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, method: str, *arguments: Any) -> Reply:
        """Call a method of the holder."""
        try:
            self._pipe.send((method, arguments))
            answer: Reply = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode or 0
            raise WorkerGone(f"a process was killed {f'by signal {-code}' if code < 0 else f'with exit code {code}'}") from None
        except (AttributeError, PicklingError, TypeError) as error:
            raise CommandError(f"an object cannot be sent to another process ({error}); use --on here") from None
        return answer

    def end(self) -> None:
        """End the process, even if it is busy."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _hold(pipe: Connection) -> None:
    """Answer the calls of a holder that *pipe* brings: the work of a process."""
    Thread(target=_end_with_parent, daemon=True).start()
    holder = Holder()
    with suppress(EOFError):
        while True:
            method, arguments = pipe.recv()
            pipe.send(holder.answer(method, arguments))


def _end_with_parent() -> None:
    """End this process when the one that started it has ended."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
