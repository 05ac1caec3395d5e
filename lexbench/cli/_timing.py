"""The options of `lexbench run` that ask for timing."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from lexbench.timing.protocol import Settings

F = TypeVar("F", bound=Callable[..., Any])

_COUNT = click.IntRange(min=1)


def timing_options(function: F) -> F:
    """Add `--time` and what says how."""
    for option in (
        click.option("--time-threads", type=_COUNT, help="Threads of the scenario offline; default: every core."),
        click.option("--time-queries", type=_COUNT, default=1000, show_default=True, help="At most, evenly spaced."),
        click.option("--time-k", type=_COUNT, help="Documents asked for while timing; default: --depth."),
        click.option("--time-again", is_flag=True, help="Time also what this machine has timed before."),
        click.option("--time", "time", is_flag=True, help="Time each system, in a fresh process on one core; then on all."),
    ):
        function = option(function)
    return function


def settings(options: dict[str, Any]) -> "Settings | None":
    """Take what these options say out of *options*; None where timing is not asked for."""
    wanted, again, k, queries, threads = (
        options.pop(name) for name in ("time", "time_again", "time_k", "time_queries", "time_threads")
    )
    if not (wanted or again):
        if k or threads:
            raise click.UsageError("--time-k and --time-threads say how to time; type --time, too")
        return None
    from lexbench.timing.protocol import Settings

    return Settings(k=k, queries=queries, threads=threads, again=again)
