"""The command line: one module per command. A command parses its arguments, calls one library function and prints.

Answers go to stdout; progress, warnings and errors go to stderr. Exit codes: 0 success; 1 something failed or the answer is no;
2 wrong command line; 3 could not start, and any error of `gate`, whose verdicts are 1 and 2; 130, 143 and 129 after SIGINT,
SIGTERM and SIGHUP. `main` is the entry point, `code` returns the exit code instead. No exception leaves `code`: every error
becomes one line on stderr.
"""

import errno
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path
from shlex import join
from types import FrameType
from typing import NoReturn

import click

import lexbench
from lexbench.cli._corrections import corrected
from lexbench.cli._output import answering
from lexbench.errors import CannotStart, CommandError, LexbenchError, visible

GROUPS = {  # how `lexbench --help` groups the commands; a command that is in no group is listed under "Other"
    "Run": ("run", "encode", "watch", "train", "score"),
    "Compare": ("compare", "report", "gate", "explain", "verify", "exposure", "audit"),
    "Publish": ("leaderboard", "export", "import", "store"),
    "Collections": ("list", "show", "collect", "judge"),
    "Machine": ("doctor", "probe", "speed"),
}
_SIGNALLED = 128  # shells report 128 + the signal's number for a process that a signal ended
_VERDICTS = (1, 2)  # exit codes of `lexbench gate` that are answers, so its errors exit with another code
_LATE = 15  # seconds that the first process of torchrun has to say what is wrong before the others do
_LONGEST = 2000  # characters of an error message; longer ones usually repeat a huge argument


class Commands(click.Group):
    """A click group that finds commands among the modules of this package and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands: one per module, and those of other packages."""
        del ctx
        return sorted({*_own(), *_of_packages()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        del ctx
        if cmd_name in _own():
            command = import_module(f"{__name__}.{_module(cmd_name)}").command
        elif cmd_name in (others := _of_packages()):
            command = _loaded(others[cmd_name])
        else:
            return None
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by group, each with the first line of its module. The modules are read, not imported."""
        names = self.list_commands(ctx)
        grouped = {name for members in GROUPS.values() for name in members}
        width = max(map(len, names)) + 2  # all groups get one column width
        for group, members in {**GROUPS, "Other": tuple(name for name in names if name not in grouped)}.items():
            if rows := [(name.ljust(width - 2), _first_line(name)) for name in members if name in names]:
                with formatter.section(group):
                    formatter.write_dl(rows)


@cache
def _own() -> list[str]:
    """Return the names of lexbench's commands, one per module of this package."""
    modules = (item.name for item in files(__name__).iterdir() if item.name.endswith(".py"))
    return [name.removesuffix(".py").removesuffix("_") for name in modules if not name.startswith("_")]


def _of_packages() -> dict[str, EntryPoint]:
    """Return the commands of other packages, their entry points in `lexbench.commands`. Those of lexbench come first."""
    return _entries(tuple(sys.path))


@cache  # every installed package has a file of entry points; they are read again if the path has changed
def _entries(_path: tuple[str, ...]) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group="lexbench.commands") if entry.name not in _own()}


def _loaded(entry: EntryPoint) -> click.Command:
    """Return the command of another package. Raises CannotStart, in one line, if it does not load or is none."""
    try:
        command = entry.load()
    except Exception as error:  # a mistake in another package should give one line, no traceback
        raise CannotStart(f"command {entry.name!r} ({entry.value}) does not load: {type(error).__name__}: {error}") from error
    if not isinstance(command, click.Command):
        raise CannotStart(f"command {entry.name!r} ({entry.value}) is no command of click")
    return command


def _module(name: str) -> str:
    """Return the module of a command: its name, with a trailing _ if that is a Python keyword (e.g. `import_`)."""
    return f"{name}_" if iskeyword(name) else name


def _first_line(name: str) -> str:
    if name not in _own():
        return f"of {_of_packages()[name].value}"
    source = files(__name__).joinpath(f"{_module(name)}.py").read_text(encoding="utf-8")
    return source.partition("\n")[0].strip('"').rstrip(".")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lexbench")
def app() -> None:
    """Benchmark first-stage retrievers and get numbers you can trust.

    Start with `lexbench run suite pydoc`, which needs no download.
    """
    given = os.environ.get("NUMBA_DISABLE_JIT", ""), os.environ.get("NUMBA_NUM_THREADS", "1")
    if given[0] not in ("", "0"):
        raise CommandError("NUMBA_DISABLE_JIT is set, and lexbench needs the compiler of numba; type: unset NUMBA_DISABLE_JIT")
    if not given[1].isdigit() or not int(given[1]):
        raise CommandError(f"NUMBA_NUM_THREADS is {given[1]!r}, and must be 1 or more; type: unset NUMBA_NUM_THREADS")


class _Terminated(BaseException):
    """SIGTERM or SIGHUP as an exception, so that locks are released and temporary files removed before the program ends."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = _SIGNALLED + number


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    ending = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
    handled = [number for number in ending if signal.getsignal(number) is signal.SIG_DFL]  # `nohup` ignores SIGHUP: leave that
    for number in handled:
        signal.signal(number, _terminate)
    try:
        exit_code = code(arguments)
        for number in handled:  # nothing is left to clean up, and an exception in the interpreter's exit prints a traceback
            signal.signal(number, signal.SIG_DFL)
    except _Terminated as late:  # it came after the last line
        os._exit(late.exit_code)
    if exit_code > _SIGNALLED:  # a normal exit would wait for threads whose results nobody needs any more
        os._exit(exit_code)
    sys.exit(exit_code)


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    raise _Terminated(number)


def code(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Every error becomes one line on stderr."""
    try:
        _use_streams()
        exit_code = app.main(arguments, prog_name="lexbench", standalone_mode=False) or 0
        with answering():
            sys.stdout.flush()  # report a full disk here; the interpreter's own flush at exit would print a traceback
    except click.exceptions.NoArgsIsHelpError as error:  # `lexbench` or `lexbench run` without arguments
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except BrokenPipeError:  # the reader of stdout closed it, e.g. `lexbench list datasets | head`
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the interpreter's last flush
        return 0
    except (Exception, KeyboardInterrupt, _Terminated) as error:  # noqa: BLE001 - no exception leaves this function
        if _first_says(error):
            return getattr(error, "exit_code", _SIGNALLED + signal.SIGINT)
        line, exit_code = _error_message(error, arguments)
        _print_error(line)
    return exit_code


def _first_says(error: BaseException) -> bool:
    """Return whether another process, the first one of torchrun, says what is wrong; torchrun then ends the others."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or os.environ.get("RANK", "0") == "0":
        return False
    try:
        time.sleep(_LATE if isinstance(error, Exception) else 0)
    except (KeyboardInterrupt, _Terminated):
        return True
    return not isinstance(error, Exception)


def _error_message(error: BaseException, arguments: Sequence[str] | None) -> tuple[str, int]:
    """Return the message for *error*, with the command that was probably meant, and the exit code."""
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    exit_code = getattr(error, "exit_code", LexbenchError.exit_code)
    meant = corrected(error, words)
    match error:
        case LexbenchError():
            line = str(error)
        case KeyboardInterrupt() | click.Abort():
            line, exit_code = _resume_message("interrupted", arguments), _SIGNALLED + signal.SIGINT
        case _Terminated():
            line = _resume_message("terminated", arguments)
        case click.ClickException():
            line = _usage_message(error, known=bool(meant))
        case OSError(errno=errno.ENOSPC | errno.EDQUOT, filename=None):
            line = f"no space left on a disk; free some, or set LEXBENCH_STORE, now {lexbench.store_root()}, to another disk"
        case OSError():
            where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes | os.PathLike) else ""
            line = f"{where}{error.strerror or error}"
        case MemoryError():
            line = "not enough memory"
        case _:
            line = _unexpected(error)
    if words[:1] == ["gate"] and exit_code in _VERDICTS:
        exit_code = CannotStart.exit_code
    return f"lexbench: {line}" + (f"; type: {join([*_program(), *meant])}" if meant else ""), exit_code


def _usage_message(error: click.ClickException, *, known: bool) -> str:
    """Return the message for a malformed command line; if what was meant is *known*, without click's guess."""
    line, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if known:
        return re.sub(r"\.? \(?Did you mean .*$", "", line)
    return line + (f"; see: {context.command_path} --help" if context else "")


def _use_streams() -> None:
    """Escape characters that stdout or stderr cannot encode (e.g. in a C locale) instead of failing on them."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - used until the program ends
    if sys.stdout is None:
        raise CannotStart("stdout is closed, so the answer cannot be shown; to discard it, type: > /dev/null")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _program() -> list[str]:
    """Return the words that start lexbench, as this process was started: alone, or by torchrun."""
    several = "TORCHELASTIC_RUN_ID" in os.environ
    return ["torchrun", "--nproc-per-node", os.environ["LOCAL_WORLD_SIZE"], "-m", "lexbench"] if several else ["lexbench"]


def _resume_message(how: str, arguments: Sequence[str] | None) -> str:
    """Return the message after an interruption, with the command that goes on from here."""
    again = join([*_program(), *(sys.argv[1:] if arguments is None else arguments)])
    return f"{how}; finished work is kept in {lexbench.store_root()}; go on: {again}"


def _unexpected(error: BaseException) -> str:
    """Return the message for an unexpected exception and save its traceback."""
    log = lexbench.keep_traceback("lexbench", traceback.format_exc())
    what = traceback.format_exception_only(error)[-1].strip()
    return f"this is a bug in lexbench: {what}" + (f" (traceback: {log})" if log else "")


def _print_error(text: str) -> None:
    """Print *text* as one line on stderr; the middle of a very long one is left out."""
    line, half = visible(text), _LONGEST // 2
    try:
        print(line if len(line) <= _LONGEST else f"{line[:half]} … {line[-half:]}", file=sys.stderr, flush=True)
    except OSError:  # stderr is full or closed; the exit code still shows the failure
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the interpreter's last flush
