"""A program of the user, in any language, that answers queries on its standard input.

It gets one line of JSON per query, `{"qid": "q1", "text": "red fox", "k": 10}`, and writes one line for each, in that order:
`{"qid": "q1", "docs": [["d7", 1.5], ["d2", 0.5]]}`. It must flush its output after each line, and end when its input ends.
"""

import json
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from shutil import which
from threading import Thread
from typing import Any, ClassVar
from weakref import finalize

from lexbench.errors import CommandError, LexbenchError, echoed, shortened, visible
from lexbench.foreign import Ask, ForeignRetriever
from lexbench.registry import runtime
from lexbench.storage.reading import file_digest

_SECONDS = 5  # for a program to end by itself
_SHOWN = 200  # characters of its answers and errors


@dataclass(frozen=True)
class Command(ForeignRetriever):
    """The *program* with its arguments, e.g. "./my-search --index idx", started without a shell in the current folder.

    An answer may take *timeout* seconds; the first one includes the start. Name a *revision* to let later processes reuse its
    runs; without one they ask the program again, because its index may have changed.
    """

    program: str
    _: KW_ONLY
    revision: str = ""
    timeout: float = runtime(60.0)

    elsewhere: ClassVar[str] = "a program"

    def __post_init__(self) -> None:
        """Raise CommandError if there is no such program."""
        if self.timeout <= 0:
            raise CommandError(f"{self.called}: the timeout is a number of seconds above 0")
        try:
            words = shlex.split(self.program)
        except ValueError as error:
            raise CommandError(f"{self.called}: {error}") from None
        if not words or not which(words[0]):
            name = words[0] if words else ""
            raise CommandError(f"{self.called}: there is no program {name!r}; give its path, and make the file executable")

    @property
    def called(self) -> str:
        """The expression without its other settings."""
        return f'command("{self.program}")'

    def identity(self) -> Mapping[str, Any]:
        """Return the digest of each argument that is a file, e.g. of the program itself."""
        first, *others = shlex.split(self.program)
        files = [Path(which(first) or first), *(Path(word) for word in others)]
        return {**super().identity(), "files": [file_digest(file) for file in files if file.is_file()]}

    def asker(self) -> Ask:
        """Start the program; it is stopped when its function is no longer used."""
        return _Program(self.called, shlex.split(self.program), self.timeout).ask


class _Program:
    """A running program."""

    def __init__(self, name: str, words: list[str], timeout: float) -> None:
        self._name, self._timeout = name, timeout
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=self._errors)
        except OSError as error:
            raise CommandError(f"{name} does not start: {error.strerror}") from None
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        Thread(target=_read, args=(self._process.stdout, self._lines), daemon=True).start()
        finalize(self, _stop, self._process, self._errors)

    def ask(self, queries: Mapping[str, str], k: int) -> dict[str, Any]:
        """Return the documents of each query."""
        return dict(self._answer(query, text, k) for query, text in queries.items())

    def _answer(self, query: str, text: str, k: int) -> tuple[str, Any]:
        line = json.dumps({"qid": query, "text": text, "k": k}, ensure_ascii=False)
        assert self._process.stdin is not None
        with suppress(OSError):  # if it has ended, there is no answer
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        try:
            said = self._lines.get(timeout=self._timeout)
        except Empty:
            self._process.kill()
            hint = "does it flush its output after each line? else give more, e.g. timeout=600"
            raise self._error(query, f"no answer in {self._timeout:g} s; {hint}") from None
        if not said:
            raise self._error(query, f"it ended with exit code {self._process.wait()} before it answered")
        try:
            answer = json.loads(said)
            found = str(answer["qid"]), answer["docs"]
        except (ValueError, TypeError, KeyError, RecursionError):
            shown = echoed(said.decode(errors="replace").strip())
            raise self._error(query, f'it wrote {shown}; it must write {{"qid": …, "docs": [[id, score], …]}}') from None
        if found[0] != query:
            raise self._error(query, f"it answered query {echoed(found[0])}; it must answer in the order of the queries")
        return found

    def _error(self, query: str, what: str) -> LexbenchError:
        """Return an error with the last line of the program's stderr."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        said = f"; the last line of its stderr: {shortened(visible(lines[-1]), _SHOWN)}" if lines else ""
        return LexbenchError(f"{self._name}: query {echoed(query)}: {what}{said}")


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
