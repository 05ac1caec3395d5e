"""Work shared out to processes, one a device; each is started anew, so that nothing of a GPU is inherited."""

import os
from collections.abc import Callable, Sequence
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any

from lexbench.errors import LexbenchError


def in_processes(work: Callable[..., None], shares: Sequence[tuple[Any, ...]], advance: Callable[[int], None]) -> None:
    """Call work(*share, advance) for each of *shares* in a process of its own; what they advance by arrives here.

    LexbenchError, with the line of the first that failed, after the others were stopped.
    """
    context = get_context("spawn")
    started = []
    try:
        for share in shares:
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_run, args=(work, share, there), daemon=True)
            process.start()
            there.close()
            started.append((process, here))
        _listen([here for _, here in started], advance)
    finally:
        for process, here in started:
            process.terminate()
            process.join()
            here.close()


def _listen(pipes: list[Connection], advance: Callable[[int], None]) -> None:
    """Pass on what processes say until each has said that it is done."""
    while pipes:
        for pipe in wait(pipes):
            assert isinstance(pipe, Connection)
            try:
                said = pipe.recv()
            except EOFError:
                raise LexbenchError("an encoding process was killed (too little memory?); the same command goes on") from None
            if isinstance(said, int):
                advance(said)
            elif said is None:
                pipes.remove(pipe)
            else:
                raise said


def _run(work: Callable[..., None], share: tuple[Any, ...], pipe: Connection) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(*share, pipe.send)
    except LexbenchError as error:
        pipe.send(LexbenchError(str(error)))
    except Exception as error:  # noqa: BLE001 - it goes on in the parent
        pipe.send(LexbenchError(f"an encoding process failed: {type(error).__name__}: {error}"))
    else:
        pipe.send(None)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however it went."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
