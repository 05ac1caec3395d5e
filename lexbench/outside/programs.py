"""A running program of the user, in any language, that answers lines of JSON. `command` and `lexbench probe` ask it.

It gets one line on its standard input per question and writes one line for each, in that order. It must flush its output after
each line, and end when its input ends.
"""

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar
from weakref import finalize

from lexbench.errors import CannotStart, LexbenchError, echoed, shortened, visible
from lexbench.storage.rows import unique_keys

T = TypeVar("T")

_SECONDS = 5  # for a program to end by itself
_SHOWN = 200  # characters of its answers and errors


class Program:
    """A program that is stopped by `close`, or when this object is no longer used."""

    def __init__(self, name: str, words: Sequence[str], timeout: float, advice: str = "") -> None:
        """Start the program *words*, which errors call *name*. Raises CannotStart if it does not start.

        An answer may take *timeout* seconds; the first one includes the start. *advice* says how to give it more.
        """
        self._name, self._timeout, self._advice = name, timeout, advice
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=self._errors)
        except OSError as error:
            self._errors.close()
            raise CannotStart(f"{name} does not start: {error.strerror}") from None
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        Thread(target=_read, args=(self._process.stdout, self._lines), daemon=True).start()
        self.close = finalize(self, _stop, self._process, self._errors)

    def ask(self, question: Mapping[str, Any], form: str, read: Callable[[Any], T], about: str = "") -> T:
        """Return what *read* makes of the answer to *question*. Errors say what it was *about*.

        Raises LexbenchError if there is no answer in time, or if it is no JSON of the *form* that *read* takes.
        """
        self.send(question)
        return self.receive(form, read, about)

    def send(self, question: Mapping[str, Any]) -> None:
        """Write a line that needs no answer, or whose answer `receive` returns."""
        assert self._process.stdin is not None
        with suppress(OSError):  # if it has ended, there is no answer
            self._process.stdin.write(f"{json.dumps(question, ensure_ascii=False)}\n".encode())
            self._process.stdin.flush()

    def receive(self, form: str, read: Callable[[Any], T], about: str = "") -> T:
        """Return what *read* makes of the next line. Raises the errors of `ask`."""
        try:
            said = self._lines.get(timeout=self._timeout)
        except Empty:
            self._process.kill()
            what = f"no answer in {self._timeout:g} s; does it flush its output after each line?{self._advice}"
            raise self.error(about, what) from None
        if not said:
            raise self.error(about, f"it ended with exit code {self._process.wait()} before it answered")
        try:
            return read(json.loads(said, object_pairs_hook=unique_keys))
        except (ValueError, TypeError, LookupError, RecursionError):
            shown = echoed(said.decode(errors="replace").strip())
            raise self.error(about, f"it wrote {shown}; it must write {form}") from None

    def error(self, about: str, what: str) -> LexbenchError:
        """Return an error with the last line of the program's stderr."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        said = f"; the last line of its stderr: {shortened(visible(lines[-1]), _SHOWN)}" if lines else ""
        return LexbenchError(": ".join(filter(None, (self._name, about, what))) + said)


def _read(lines: Any, into: "SimpleQueue[bytes]") -> None:
    """Put each line of a pipe into a queue, and an empty one at the end."""
    with lines:
        for line in lines:
            into.put(line)
    into.put(b"")


def _stop(process: "subprocess.Popen[bytes]", errors: Any) -> None:
    """End a program: close its input, and kill it if that is not enough."""
    with suppress(OSError):
        process.stdin.close()  # type: ignore[union-attr] # it is a pipe
    try:
        process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    errors.close()
