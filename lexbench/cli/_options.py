"""Options that several commands have: one name for one thing."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from lexbench.timing.protocol import Settings

F = TypeVar("F", bound=Callable[..., Any])

MEASURES = ("nDCG@10", "RR@10", "R@100", "R@1000", "AP@1000")  # where no suite says which
FOLDER = click.Path(path_type=Path, file_okay=False)
_COUNT = click.IntRange(min=1)


class FormatCommand(click.Command):
    """A command whose help lists formats."""

    def __init__(self, *settings: Any, formats: Mapping[str, Any], **more: Any) -> None:
        """Take the *formats* by name."""
        super().__init__(*settings, **more)
        self.formats = formats

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each format with what is in its files."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Formats"):
            formatter.write_dl([(form.name, form.what) for form in self.formats.values()])


def system_option(text: str, **settings: Any) -> Callable[[F], F]:
    """Return what adds `-r`, repeatable unless *settings* say otherwise, as `systems` or under another name."""
    settings = {"multiple": True, **settings}
    name = "systems" if settings["multiple"] else "system"
    return click.option("-r", "--system", name, metavar="SYSTEM", help=text, **settings)


def results_option(function: F) -> F:
    """Add `--results`, the folder of results that are read instead of those in the store."""
    return click.option(
        "--results",
        metavar="FOLDER",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Take the results in this folder, which `run suite --results` wrote, instead of those in the store.",
    )(function)


def datasets_option(text: str = "Only this dataset; repeatable.") -> Callable[[F], F]:
    """Return what adds `-d`, repeatable."""
    return click.option("-d", "--dataset", "datasets", multiple=True, metavar="ID", help=text)


def measures_option(text: str = "", default: Iterable[str] = ()) -> Callable[[F], F]:
    """Return what adds `-m`, repeatable."""
    settings: Any = {"help": text} if text else {"default": list(default), "show_default": True}
    return click.option("-m", "--measure", "measures", multiple=True, metavar="MEASURE", **settings)


def seeds_option(function: F) -> F:
    """Add `--seeds`, as `seeds`."""
    text = "Take runs of several seeds as one system: means, and their standard deviation; repeatable."
    return click.option("--seeds", multiple=True, metavar="'NAME = A, B, C'", help=text)(function)


def executor_option(function: F) -> F:
    """Add `--on`, as `on`."""
    text = (
        "Where encoders, rerankers and sharded engines run: here, 'processes(4)', ray, ray:ADDRESS; "
        "default: LEXBENCH_ON, or a process a device."
    )
    return click.option("--on", metavar="EXECUTOR", help=text)(function)


def json_option(function: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(function)


def timing_options(function: F) -> F:
    """Add `--time` and what says how."""
    for option in (
        click.option("--time-threads", type=_COUNT, help="Threads of the scenario offline; default: every core."),
        click.option("--time-queries", type=_COUNT, default=1000, show_default=True, help="At most, evenly spaced."),
        click.option(
            "--time-k", type=_COUNT, multiple=True, help="Documents asked for while timing; repeatable; default: --depth."
        ),
        click.option("--time-seconds", type=click.FloatRange(min=0), default=10.0, show_default=True, help="Of timed passes."),
        click.option(
            "--time-processes", type=_COUNT, default=3, show_default=True, help="Fresh ones, for one query in flight."
        ),
        click.option("--time-single", is_flag=True, help="Only one query in flight on one core, not all at once."),
        click.option("--time-again", is_flag=True, help="Time also what this machine has timed before."),
        click.option("--time", "time", is_flag=True, help="Time each system, in a fresh process on one core; then on all."),
    ):
        function = option(function)
    return function


def timing_settings(options: dict[str, Any]) -> "Settings | None":
    """Take what the options of timing say out of *options*; None where timing is not asked for."""
    time, again, single, k, queries, threads = (
        options.pop(name) for name in ("time", "time_again", "time_single", "time_k", "time_queries", "time_threads")
    )
    seconds, processes = (options.pop(name) for name in ("time_seconds", "time_processes"))
    if not (time or again):
        if k or threads or single:
            raise click.UsageError("--time-k, --time-single and --time-threads say how to time; type --time, too")
        return None
    if single and threads:
        raise click.UsageError("--time-threads is of all queries at once, which --time-single leaves out; type one of them")
    from lexbench.timing.protocol import Settings

    how = {"seconds": seconds, "processes": processes, "offline": not single}
    return Settings(k=k or None, queries=queries, threads=threads, again=again, **how)
