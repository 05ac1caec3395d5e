"""Measuring processes that import nothing: forked from one that has imported what they need, and has done nothing else.

Importing torch and numba takes a second or two, for which each measuring process, and each that says what memory imports take,
would wait. What the first system needs the process that is forked from, the fork server, does not know: the first measuring
process says what it had to import, the server imports that too, and another one is forked that measures. So no import is in
what is measured, and the memory of a measuring process before it opens a system is what the imports take.

Linux alone: elsewhere forked processes are not safe with the libraries that are imported, or memory is not counted.
"""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import msgspec

from lexbench.errors import LexbenchError
from lexbench.storage import atomic, children
from lexbench.timing import counters
from lexbench.timing.protocol import DONE, Calibrate, Task, child_environment, ended

_THREADS = Path("/proc/self/task")
_DEVICES = "/dev/nvidia"  # begin the names of files that a process has open once it uses a GPU, which no fork of it can
_LIBRARIES = ("lexbench", "llvmlite", "numba", "numpy", "scipy")  # that systems of ours import
_TASK, _ERRORS = "task.json", "errors.txt"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the server is told: to import modules, and then to let a fork of it do a task."""

    imports: Sequence[str]
    folder: str = ""  # with the task, and for what goes wrong; "": there is none
    last: bool = False  # the fork measures, whatever it has to import


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an order."""

    code: int | None  # with which the fork ended, negative for a signal; None: this process cannot be forked
    imports: list[str] = []  # what the fork had to import, for which it has measured nothing


def can_fork() -> bool:
    """Whether processes can be forked here, and their memory counted."""
    return hasattr(os, "fork") and _THREADS.is_dir()


class ForkServer:
    """The process that measuring processes of one thread are forked from, seen from the one that started it.

    It is started when the first is needed. Forks of one server have their libraries at the same addresses, so a server is for
    one round of the systems that are timed by turns: the processes of a system differ as fresh ones do.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._cannot = not can_fork()

    def prepare(self, packages: Sequence[str]) -> None:
        """Start it now, beside other work, and let it import what this process has imported of lexbench and of *packages*.

        Modules of the user's are not imported, as importing them may do more than that.
        """
        known = {*_LIBRARIES, *packages, *sys.stdlib_module_names}
        imports = [name for name in counters.imported_modules() if name.partition(".")[0] in known]
        if not self._cannot:
            with suppress(BrokenPipeError):  # of one that has ended at once: `run` will say so
                self._send(Order(imports=imports))

    def run(self, task: Task | Calibrate, on_pass: Callable[[], None] = lambda: None, packages: Sequence[str] = ()) -> bool:
        """Let a fork do *task*, telling *on_pass* of each pass. LexbenchError, in one line, where it fails.

        *packages* are what plug-ins of the system may import; of these the server imports at once what this process has
        imported, too. Return False, and do nothing, where processes cannot be forked.
        """
        imports = [name for name in packages if name in sys.modules]
        with TemporaryDirectory() as folder:
            atomic.write_bytes(Path(folder) / _TASK, msgspec.json.encode(task))
            (Path(folder) / _ERRORS).touch()
            answer = self._told(Order(imports=imports, folder=folder), on_pass)
            if answer.imports:
                answer = self._told(Order(imports=answer.imports, folder=folder, last=True), on_pass)
            if answer.code:
                raise ended(answer.code, (Path(folder) / _ERRORS).read_text(errors="replace"))
            return answer.code is not None

    def _told(self, order: Order, on_pass: Callable[[], None]) -> Answer:
        """Return what came of an order."""
        if self._cannot:
            return Answer(code=None)
        try:
            for line in self._send(order):
                if line != f"{DONE}\n".encode():
                    answer = msgspec.json.decode(line, type=Answer)
                    self._cannot = answer.code is None
                    return answer
                on_pass()
        except BrokenPipeError:
            pass
        except BaseException:
            self.close()
            raise
        self.close()
        raise LexbenchError("the process that others are forked from, to time systems, has ended")

    def _send(self, order: Order) -> IO[bytes]:
        """Give an order to the process, which is started if it is not there; return what it writes."""
        process = self._process = self._process or _started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()
        return process.stdout

    def close(self) -> None:
        """End the process, and what it has forked, which ends when its input does."""
        if self._process is not None:
            with suppress(BrokenPipeError), self._process as process:
                process.kill()
            self._process = None


def _started() -> "subprocess.Popen[bytes]":
    command, pipe = children.command("lexbench.timing"), subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=child_environment(1))


# --------------------------------------------------------------------------------------------------- in the process itself


def serve(do: Callable[[Path, bool], list[str]], imported: Callable[[Sequence[str]], None]) -> None:
    """Follow orders, a line each, until there are no more.

    *do* is called in the fork, with the file of the task and whether it is the last try; it returns what was to be imported
    first, and [] where the task is done. *imported* imports modules.
    """
    while line := _line():
        order = msgspec.json.decode(line, type=Order)
        imported(order.imports)
        if order.folder:
            _say(msgspec.json.encode(_forked(order, do) if _alone() else Answer(code=None)))


def _line() -> bytes:
    """Return the next line that the parent writes, and read no further: a fork waits for the end of the same input."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return line


def _say(line: bytes) -> None:
    os.write(1, line + b"\n")


def _alone() -> bool:
    """Whether this process has one thread and no GPU, so that it can be forked."""
    files = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the folder itself is closed by now
            files.append(str(link.readlink()))
    return len(list(_THREADS.iterdir())) == 1 and not any(file.startswith(_DEVICES) for file in files)


def _forked(order: Order, do: Callable[[Path, bool], list[str]]) -> Answer:
    """Fork a process that does the task of *order*, and wait until it has ended."""
    wanted, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        os._exit(_task_done(order, do, theirs))
    os.close(theirs)
    with os.fdopen(wanted, "rb") as file:
        imports = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Answer(code=code, imports=msgspec.json.decode(imports) if imports else [])


def _task_done(order: Order, do: Callable[[Path, bool], list[str]], imports: int) -> int:
    """Do the task in this process, which is forked; write what was to be imported. Return its exit code."""
    os.dup2(os.open(Path(order.folder) / _ERRORS, os.O_WRONLY), 2)
    try:
        if wanted := do(Path(order.folder) / _TASK, order.last):
            os.write(imports, msgspec.json.encode(wanted))
    except LexbenchError as error:
        os.write(2, f"{error}\n".encode())
        return error.exit_code
    except BaseException:  # noqa: BLE001 - of a process, which ends
        os.write(2, traceback.format_exc().encode())
        return 1
    return 0
