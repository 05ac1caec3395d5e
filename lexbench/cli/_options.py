"""Options that several commands share, so that one name means the same thing everywhere."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

import lexbench

F = TypeVar("F", bound=Callable[..., Any])

EXISTING = click.Path(path_type=Path, exists=True)
EXISTING_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
EXISTING_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
COUNT = click.IntRange(min=1)
SECONDS = click.FloatRange(min=0)
DEFAULT_MEASURES = f"Repeatable; default: {', '.join(lexbench.default_measures())}; also Judged@10 for data of your own."


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds *options* in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def described(function: Callable[..., Any]) -> str:
    """Return the help of a command from the docstring of its function: *names* of parameters in capitals.

    Paragraphs about Python alone are left out: those that begin with "In Python", "Returns", "Yields" or "Raises".
    """
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    kept = [text for text in paragraphs if not text.startswith(("In Python", "Returns", "Yields", "Raises"))]
    return re.sub(r"\*(\w+)\*", lambda name: name[1].upper(), "\n\n".join(kept))


class FormatCommand(click.Command):
    """A command whose help ends with a list of formats."""

    def __init__(self, *settings: Any, formats: Mapping[str, Any], **more: Any) -> None:
        """Take the *formats* by name."""
        super().__init__(*settings, **more)
        self.formats = formats

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each format with its description."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Formats"):
            formatter.write_dl([(form.name, form.what) for form in self.formats.values()])


def system_option(text: str, **settings: Any) -> Callable[[F], F]:
    """Return a decorator that adds `-r`: repeatable, as `systems`; with multiple=False once, as `system`."""
    settings = {"multiple": True, **settings}
    name = "systems" if settings["multiple"] else "system"
    return click.option("-r", "--system", name, metavar="SYSTEM", help=text, **settings)


def results_option(function: F) -> F:
    """Add `--results`, a folder of results to read instead of the store."""
    text = "Read the results in this folder (written by `run --results`) instead of the store."
    return click.option("--results", metavar="FOLDER", type=EXISTING_FOLDER, help=text)(function)


def datasets_option(text: str = "Only this dataset; repeatable.") -> Callable[[F], F]:
    """Return a decorator that adds `-d`, repeatable."""
    return click.option("-d", "--dataset", "datasets", multiple=True, metavar="ID", help=text)


def dataset_option(text: str, **settings: Any) -> Callable[[F], F]:
    """Return a decorator that adds `-d` for one dataset."""
    return click.option("-d", "--dataset", metavar="ID|FOLDER", help=text, **settings)


def columns_option(function: F) -> F:
    """Add `--columns`, which names the columns of a user's tables."""
    text = "Columns of the tables, e.g. id=package,title=summary,text=description,queries.id=number,qrels.grade=clicks."
    return click.option("--columns", default="", metavar="TEXT", help=text)(function)


def split_option(function: F) -> F:
    """Add `--split`."""
    text = "Which judgements of a FOLDER, e.g. dev; default: test, or the only ones."
    return click.option("--split", metavar="NAME", help=text)(function)


def measures_option(text: str = "", default: Iterable[str] = ()) -> Callable[[F], F]:
    """Return a decorator that adds `-m`, repeatable."""
    settings: Any = {"help": text} if text else {"default": list(default), "show_default": True}
    return click.option("-m", "--measure", "measures", multiple=True, metavar="MEASURE", **settings)


def seeds_option(function: F) -> F:
    """Add `--seeds`."""
    text = "Show runs of several seeds as one system, with the standard deviation of their means; repeatable."
    return click.option("--seeds", multiple=True, metavar="'NAME = A, B, C'", help=text)(function)


def slices_option(text: str) -> Callable[[F], F]:
    """Return a decorator that adds `--slices`, a file that names groups of queries."""
    return click.option("--slices", type=EXISTING_FILE, help=f"{text} The file has lines 'query slice'.")


def executor_option(function: F) -> F:
    """Add `--on`."""
    text = (
        "Where encoders, rerankers and sharded engines run: here, 'processes(4)', ray, ray:ADDRESS; "
        "default: LEXBENCH_ON, or one process per device."
    )
    return click.option("--on", metavar="EXECUTOR", help=text)(function)


def json_option(function: F) -> F:
    """Add `--json`, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(function)


timing_options = together(
    click.option("--time", "time", is_flag=True, help="Time each system in a fresh process: on one core, then on all."),
    click.option("--time-again", is_flag=True, help="Repeat timings that this machine already has."),
    click.option("--time-single", is_flag=True, help="Time only one query at a time on one core, not all at once."),
    click.option("--time-processes", type=COUNT, default=3, show_default=True, help="Processes for single queries."),
    click.option("--time-seconds", type=SECONDS, default=10.0, show_default=True, help="How long to measure a process."),
    click.option("--time-k", type=COUNT, multiple=True, help="Documents per query; repeatable; default: --depth."),
    click.option("--time-queries", type=COUNT, default=1000, show_default=True, help="Time at most so many queries."),
    click.option("--time-threads", type=COUNT, help="Threads for the offline scenario; default: every core."),
)


def timing_settings(options: dict[str, Any]) -> "lexbench.TimingSettings | bool":
    """Remove the timing options from *options* and return their settings; False without --time."""
    time, single = options.pop("time"), options.pop("time_single")
    given = {name: options.pop(f"time_{name}") for name in ("again", "k", "queries", "threads", "seconds", "processes")}
    if not (time or given["again"]):
        if given["k"] or given["threads"] or single:
            raise click.UsageError("--time-k, --time-single and --time-threads need --time")
        return False
    if single and given["threads"]:
        raise click.UsageError("--time-threads sets the threads of all queries at once, which --time-single leaves out")
    return lexbench.TimingSettings(**given | {"k": given["k"] or None}, offline=not single)
