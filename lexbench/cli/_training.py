"""What the commands of `lexbench train` print: what a plan will take, what was made, and what to type next."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lexbench.cli._output import print_json, print_rows, say
from lexbench.cli._progress import shown
from lexbench.errors import MissingData

if TYPE_CHECKING:
    from lexbench.lexmae.recipe import Recipe
    from lexbench.lexmae.training.estimate import Cost
    from lexbench.lexmae.training.plan import Task
    from lexbench.progress import Progress

_HEADER = ("part", "texts", "steps", "tokens", "operations", "time", "memory", "disk")
_UNITS = ((31_536_000, "y"), (86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def carry_out(recipe: "Recipe", tasks: "Sequence[Task]", next_command: str, *, dry_run: bool, as_json: bool) -> None:
    """Do *tasks*, or show what they will take; under torchrun only the first process says anything."""
    from lexbench.lexmae.training import plan

    try:
        plan.check(recipe, tasks)
    except MissingData:  # the estimate may be why the data are not here yet
        if dry_run:
            _print_estimate(recipe, tasks, as_json=as_json)
        raise
    if dry_run:
        _print_estimate(recipe, tasks, as_json=as_json)
        return
    with _progress() as progress:
        paths = [path for task in tasks for path in plan.carry_out(recipe, task, progress)]
    if not _first_process():
        return
    if as_json:
        print_json({"recipe": recipe.name, "made": [str(path) for path in paths]})
        return
    for path in paths:
        say(str(path))
    say(f"next: {next_command}")


def _first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def _progress() -> "Iterator[Progress]":
    from lexbench.progress import Silent

    if _first_process():
        with shown() as progress:
            yield progress
    else:
        yield Silent()


def _print_estimate(recipe: "Recipe", tasks: "Sequence[Task]", *, as_json: bool) -> None:
    from lexbench.lexmae.training import estimate

    shape, machine, costs = estimate.estimate(recipe, tasks)
    if as_json:
        facts = {"recipe": recipe.name, "preset": recipe.preset, "output": recipe.output, "machine": machine._asdict()}
        print_json({**facts, "model": shape._asdict(), "parts": [cost._asdict() for cost in costs]})
        return
    print_rows(_HEADER, [_cells(cost) for cost in costs], as_json=False)
    for cost in costs:
        if cost.memory and cost.memory > machine.memory:
            say(f"{cost.part} takes more memory than this device has; raise hardware.accumulate, or lower batch_size.")
    devices = f"{machine.devices} x " if machine.devices > 1 else ""
    rate = f"{machine.rate / 1e9:,.0f} GFLOP/s in {machine.precision}"
    say(f"model: {shape.parameters / 1e6:,.1f} million parameters ({shape.source})")
    say(f"machine: {devices}{machine.name}, {_bytes(machine.memory)} of memory, {rate}")
    say(f"Time is at {estimate.FAST:.0%} to {estimate.SLOW:.0%} of that rate, with every text as long as it may be.")
    say("Memory is that of one device; ? is not known. Nothing was run.")


def _cells(cost: "Cost") -> tuple[str, ...]:
    counts = [_count(count) for count in (cost.texts, cost.steps, cost.tokens)]
    operations = "?" if cost.operations is None else f"{cost.operations:.1e}"
    return (cost.part, *counts, operations, _times(cost.seconds), _bytes(cost.memory), _bytes(cost.disk))


def _count(count: int | None) -> str:
    if count is None:
        return "?"
    return f"{count:,}" if count < 10**7 else f"{count:.1e}"


def _times(seconds: tuple[float, float] | None) -> str:
    """Write a range of time in the largest unit that its lower end fills."""
    if seconds is None:
        return "?"
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds[0] >= size), _UNITS[-1])
    low, high = (f"{value / size:,.0f}" if value >= 10 * size else f"{value / size:.1f}" for value in seconds)
    return f"{low}-{high} {unit}"


def _bytes(number: int | None) -> str:
    from lexbench.storage.store import readable_bytes

    return "?" if number is None else readable_bytes(number)
