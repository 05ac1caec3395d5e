"""The command line. One module a command: parse, call one library function, print. Only here is anything printed.

stdout is the answer, stderr is progress and complaints. Exit codes: 0 all there; 1 it ran and the answer is no; 2 wrong
command line; 3 could not start; 130 interrupted. Others take from here `main`, and `code`, which returns the exit code.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path
from shlex import join

import click

from lexbench.errors import LexbenchError

_INTERRUPTED = 130


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(code(arguments))


def code(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; a mistake of the user's costs one line on stderr."""
    try:
        return app.main(arguments, prog_name="lexbench", standalone_mode=False) or 0
    except (click.ClickException, LexbenchError) as error:
        return _complain(_message(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        from lexbench.storage.store import default_root

        again = join(["lexbench", *(sys.argv[1:] if arguments is None else arguments)])
        return _complain(
            f"lexbench: interrupted; every finished stage is kept in {default_root()}; go on: {again}", _INTERRUPTED
        )
    except BrokenPipeError:  # the reader of stdout has seen enough, as in `lexbench list datasets | head`
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the interpreter's last flush
        return 0


def _message(error: click.ClickException | LexbenchError) -> str:
    if isinstance(error, LexbenchError):
        return f"lexbench: {error}"
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # `lexbench` or `lexbench run` alone
        return error.format_message()
    context = getattr(error, "ctx", None)
    return f"lexbench: {error.format_message()}" + (f" See: {context.command_path} --help" if context else "")


def _complain(text: str, exit_code: int) -> int:
    print(text, file=sys.stderr)
    return exit_code
