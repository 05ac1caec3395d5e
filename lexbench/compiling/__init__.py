"""Compilation of loops by numba: the line that announces it, and the seconds that it took. `loops` has the decorator.

Clocks subtract these seconds, because they are spent once per machine. This module imports no numba.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

LINE = "compiling loops for this machine, once: up to half a minute"


class _State:
    """What this process compiles. Of several threads that compile, numba lets one work and the others wait."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.tell: Callable[[str], None] | None = None
        self.told = False
        self.depth = 0  # loops in work: one compiles those that it calls
        self.start = self.seconds = 0.0


_state = _State()


def seconds() -> float:
    """Return the seconds for which this process has compiled so far."""
    with _state.lock:
        return _state.seconds + (time.perf_counter() - _state.start if _state.depth else 0.0)


def clock() -> float:
    """Return the time in seconds, which stands still while this process compiles."""
    return time.perf_counter() - seconds()


@contextmanager
def announced(tell: Callable[[str], None]) -> Iterator[None]:
    """Give *tell* one line if a loop must be compiled in the block, before that begins; one line per process."""
    before, _state.tell = _state.tell, tell
    try:
        yield
    finally:
        _state.tell = before


def begin() -> None:
    """Note that numba begins to compile a loop."""
    with _state.lock:
        if not _state.depth:
            _state.start = time.perf_counter()
        _state.depth += 1
        if _state.tell and not _state.told:
            _state.told = True
            with suppress(Warning):  # lexbench.run warns, and a user may have made warnings errors; numba would stop
                _state.tell(LINE)


def end() -> None:
    """Note that it has compiled the loop, or failed to."""
    with _state.lock:
        _state.depth -= 1
        if not _state.depth:
            _state.seconds += time.perf_counter() - _state.start
