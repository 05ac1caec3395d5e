"""The command line. One module a command: parse, call one library function, print. Only here is anything printed.

stdout is the answer, stderr is progress and complaints. Exit codes: 0 all there; 1 it ran and the answer is no; 2 wrong
command line; 3 could not start; 130 interrupted, 143 and 129 ended by SIGTERM and SIGHUP. Others take from here `main`, and
`code`, which returns the exit code. Whatever goes wrong costs one line: `code` is the boundary that no exception passes.
"""

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path
from shlex import join
from types import FrameType
from typing import NoReturn

import click

from lexbench.cli._output import answering
from lexbench.errors import CannotStart, LexbenchError, visible

_SIGNALLED = 128  # and the number of the signal: the exit code of what a signal ended, as shells have it
_ENDED = (_SIGNALLED + signal.SIGINT, _SIGNALLED + signal.SIGTERM, _SIGNALLED + getattr(signal, "SIGHUP", 1))
_LONGEST = 2000  # characters of a complaint: longer ones repeat what was typed


class Commands(click.Group):
    """Finds its commands among the modules of this package, and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the modules: one a command."""
        del ctx
        modules = (item.name for item in files(__name__).iterdir() if item.name.endswith(".py"))
        return sorted(name.removesuffix(".py").removesuffix("_") for name in modules if not name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = import_module(f"{__name__}.{_module(cmd_name)}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with the first line of its module, which is read and not imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_line(name)) for name in self.list_commands(ctx)])


def _module(name: str) -> str:
    """Return the module of a command: named as it is, with a _ behind what is a word of Python, as `import_`."""
    return f"{name}_" if iskeyword(name) else name


def _first_line(name: str) -> str:
    source = files(__name__).joinpath(f"{_module(name)}.py").read_text(encoding="utf-8")
    return source.partition("\n")[0].strip('"').rstrip(".")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lexbench")
def app() -> None:
    """Benchmark first-stage retrievers, with numbers that can be trusted.

    Start with `lexbench run suite pydoc`, which needs no download.
    """


class _Terminated(BaseException):
    """SIGTERM or SIGHUP, raised where the program is, so that what it holds is let go of."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = _SIGNALLED + number


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` has SIGHUP ignored
            signal.signal(number, _terminate)
    exit_code = code(arguments)
    if exit_code in _ENDED:  # who wants the program to end does not wait for threads that compute what nobody will use
        os._exit(exit_code)
    sys.exit(exit_code)


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    raise _Terminated(number)


def code(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; whatever goes wrong costs one line on stderr."""
    try:
        _use_streams()
        exit_code = app.main(arguments, prog_name="lexbench", standalone_mode=False) or 0
        with answering():
            sys.stdout.flush()  # what could not be written is said here, and not by the interpreter's last flush
    except click.exceptions.NoArgsIsHelpError as error:  # `lexbench` or `lexbench run` alone
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except BrokenPipeError:  # the reader of stdout has seen enough, as in `lexbench list datasets | head`
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the interpreter's last flush
        return 0
    except (Exception, KeyboardInterrupt, _Terminated) as error:  # noqa: BLE001 - the boundary that nothing passes
        line, exit_code = _complaint(error, arguments)
        _say(line)
    return exit_code


def _complaint(error: BaseException, arguments: Sequence[str] | None) -> tuple[str, int]:
    """Return the line that is said of *error*, and the exit code."""
    exit_code = LexbenchError.exit_code
    match error:
        case LexbenchError():
            line, exit_code = str(error), error.exit_code
        case KeyboardInterrupt() | click.Abort():
            line, exit_code = _ended("interrupted", arguments), _SIGNALLED + signal.SIGINT
        case _Terminated():
            line, exit_code = _ended("told to end", arguments), error.exit_code
        case click.ClickException():
            context = getattr(error, "ctx", None)
            see = f" See: {context.command_path} --help" if context else ""
            line, exit_code = error.format_message() + see, error.exit_code
        case OSError():
            line = _of_system(error)
        case MemoryError():
            line = "there is not enough memory for that"
        case _:
            line = _unexpected(error)
    return f"lexbench: {line}", exit_code


def _use_streams() -> None:
    """Let what a stream's encoding cannot hold be escaped, and not be an error: a C locale may have ASCII alone."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the program runs
    if sys.stdout is None:
        raise CannotStart("stdout is closed, so that nobody would see the answer; to do without it: > /dev/null")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _ended(how: str, arguments: Sequence[str] | None) -> str:
    from lexbench.storage.store import default_root

    again = join(["lexbench", *(sys.argv[1:] if arguments is None else arguments)])
    return f"{how}; every finished stage is kept in {default_root()}; go on: {again}"


def _of_system(error: OSError) -> str:
    """Return what the operating system has against it: which file, and why."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes | os.PathLike) else ""
    return f"{where}{error.strerror or error}"


def _unexpected(error: BaseException) -> str:
    """Return what is said of an exception that nobody thought of; the traceback is kept where there is room for it."""
    from lexbench.storage.store import keep_traceback

    log = keep_traceback("lexbench", traceback.format_exc())
    what = traceback.format_exception_only(error)[-1].strip()
    return f"a mistake of lexbench: {what}" + (f" (all of it: {log})" if log else "")


def _say(text: str) -> None:
    """Print *text* in one line on stderr, of a very long one both ends."""
    line, half = visible(text), _LONGEST // 2
    try:
        print(line if len(line) <= _LONGEST else f"{line[:half]} … {line[-half:]}", file=sys.stderr, flush=True)
    except OSError:  # stderr is full or closed: the exit code says it still
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the interpreter's last flush
