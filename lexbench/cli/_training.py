"""What the commands of `lexbench train` share: recipes by name, overrides, the plan, and what to type next."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lexbench.cli._options import json_option
from lexbench.cli._output import print_json, print_rows
from lexbench.cli._progress import shown
from lexbench.errors import MissingData, UnknownName

if TYPE_CHECKING:
    from lexbench.lexmae.estimate import Row
    from lexbench.lexmae.recipe import Recipe
    from lexbench.lexmae.work import Part
    from lexbench.progress import Progress

F = TypeVar("F", bound=Callable[..., Any])

_SECTIONS = {"seed": "", "output": "", "precision": "hardware.", "device": "hardware.", "threads": "hardware."}
_SHORTHANDS: dict[str, Any] = {"learning_rate": float, "batch_size": int, "epochs": float, "steps": int}
_FITTED = {"pretrain", "finetune"}
_HEADER = ("part", "texts", "steps", "tokens", "operations", "time", "memory", "disk")
_UNITS = ((31_536_000, "y"), (86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def common(function: F) -> F:
    """Add what every command takes."""
    for option in reversed(
        (
            click.argument("name", metavar="RECIPE"),
            click.option("--output", metavar="FOLDER", help="For models, negatives and logs, instead of the recipe's."),
            click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="As stage1.lambda_d=0.004; repeatable."),
            click.option("--seed", type=int),
            click.option("--precision", metavar="fp32|bf16|fp16"),
            click.option("--device", metavar="auto|cpu"),
            click.option("--threads", type=int, help="Of the processor; 0: all."),
            click.option("--dry-run", is_flag=True, help="Check everything, estimate time, memory and disk, do nothing."),
            json_option,
        )
    ):
        function = option(function)
    return function


def fitting(function: F) -> F:
    """Add the settings of one training."""
    for name, kind in _SHORTHANDS.items():
        option = f"--{name.replace('_', '-')}"
        function = click.option(option, type=kind, help=f"Instead of the recipe's {name}.")(function)
    return function


def stage(function: F) -> F:
    """Add the number of the stage."""
    return click.option("--stage", type=click.IntRange(1, 3), required=True, help="Of fine-tuning.")(function)


def open_recipe(name: str, settings: Sequence[str], section: str = "", **shorthands: Any) -> "Recipe":
    """Return the recipe in the file *name*, or of ours that is called so, the options on top; *section* is what is trained."""
    from lexbench.lexmae import recipe

    given = {option: value for option, value in shorthands.items() if value is not None}
    typed = [f"{_SECTIONS.get(option, f'{section}.')}{option}={dumps(value)}" for option, value in given.items()]
    return recipe.read(_path(name), [*settings, *typed])


def _path(name: str) -> Path:
    place = Path(name)
    if place.is_file():
        return place
    folder = Path(__file__).parents[1] / "_recipes"  # in a wheel
    folder = folder if folder.is_dir() else Path(__file__).parents[2] / "recipes"  # in a checkout
    known = {path.stem: path for path in folder.glob("*.toml")}
    if name not in known:
        raise UnknownName("recipe or file", name, known)
    return known[name]


def carry_out(recipe: "Recipe", parts: "Sequence[Part]", name: str, *, dry_run: bool, as_json: bool) -> None:
    """Do *parts*, or show what they will take; under torchrun only the first process says anything."""
    from lexbench.lexmae import work

    if dry_run:
        try:
            work.check(recipe, parts)
        except MissingData:  # the estimate may be why it is not here yet
            _show_plan(recipe, parts, as_json=as_json)
            raise
        _check(recipe, parts)
        _show_plan(recipe, parts, as_json=as_json)
        return
    work.check(recipe, parts)
    _check(recipe, parts)
    with _progress() as progress:
        made = [path for part in parts for path in _carry_out(recipe, part, progress)]
    if not _first_process():
        return
    if as_json:
        print_json({"recipe": recipe.name, "made": [str(path) for path in made]})
        return
    for path in made:
        click.echo(str(path))
    click.echo(f"next: {_next(recipe, parts[-1], name)}")


def _check(recipe: "Recipe", parts: "Sequence[Part]") -> None:
    """Raise CommandError for what hardware cannot do, or where a model is of another recipe: before negatives are mined."""
    from lexbench.lexmae import made_by, processes

    for part in parts:
        fitting = recipe.stage(part.stage) if part.stage else recipe.pretrain
        if fitting and part.kind in _FITTED:
            processes.check(fitting, recipe.hardware)
    made_by.check(recipe, f"stage{parts[-1].stage}" if parts[-1].stage else "pretrained")


def _carry_out(recipe: "Recipe", part: "Part", progress: "Progress") -> list[Path]:
    """Do one part: all processes train models together; what else there is the first one does, and then the others find it."""
    from lexbench.lexmae import processes, work

    processes.join(recipe.hardware)
    if part.kind in _FITTED:
        return work.carry_out(recipe, part, progress)
    with processes.first_goes_first():
        return work.carry_out(recipe, part, progress)


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


def _next(recipe: "Recipe", last: "Part", name: str) -> str:
    """Return the command that goes on from *last*: the next part with the options of this one, or a test of the model."""
    from lexbench.lexmae import work
    from lexbench.lexmae.places import Places

    parts = work.parts(recipe)
    following = parts[parts.index(last) + 1 :]
    if following:
        return f"lexbench train {following[0].kind} {quote(name)}{_options(last, following[0])}"
    model = Places(recipe).stage(last.stage) if last.stage else Places(recipe).pretrained
    return f"lexbench run suite pydoc -r {quote(f'sparse_mlm(model={dumps(str(model))})@impact')}"


def _options(last: "Part", following: "Part") -> str:
    """Return the number of the stage that follows, and the options of this command, without which the recipe is another one."""
    words = [f"--stage {following.stage}"] if following.stage else []
    given = click.get_current_context().params
    section = f"stage{last.stage}" if last.stage else last.kind
    settings = [f"{section}.{name}={dumps(given[name])}" for name in _SHORTHANDS if given.get(name) is not None]
    words += [f"--set {quote(text)}" for text in (*given["settings"], *settings)]
    words += [f"--{option} {quote(str(given[option]))}" for option in _SECTIONS if given[option] is not None]
    return "".join(f" {word}" for word in words)


def _show_plan(recipe: "Recipe", parts: "Sequence[Part]", *, as_json: bool) -> None:
    from lexbench.lexmae import estimate, shapes, speed, work

    shape, machine = shapes.of_recipe(recipe), speed.measured(recipe.hardware)
    rows = estimate.estimate(recipe, parts, shape, {part: work.data(recipe, part) for part in parts}, machine)
    if as_json:
        told = {"recipe": recipe.name, "preset": recipe.preset, "output": recipe.output, "machine": machine._asdict()}
        print_json({**told, "model": shape._asdict(), "parts": [row._asdict() for row in rows]})
        return
    print_rows(_HEADER, [_cells(row) for row in rows], as_json=False)
    for row in rows:
        if row.memory and row.memory > machine.memory:
            click.echo(f"{row.part} takes more memory than this device has; raise hardware.accumulate, or lower batch_size.")
    devices = f"{machine.devices} x " if machine.devices > 1 else ""
    rate = f"{machine.rate / 1e9:,.0f} GFLOP/s in {machine.precision}"
    click.echo(f"model: {shape.parameters / 1e6:,.1f} million parameters ({shape.source})")
    click.echo(f"machine: {devices}{machine.name}, {_bytes(machine.memory)} of memory, {rate}")
    click.echo(f"Time is at {estimate.FAST:.0%} to {estimate.SLOW:.0%} of that rate, with every text as long as it may be.")
    click.echo("Memory is that of one device; ? is not known. Nothing was run.")


def _cells(row: "Row") -> tuple[str, ...]:
    counts = [_count(count) for count in (row.texts, row.steps, row.tokens)]
    operations = "?" if row.operations is None else f"{row.operations:.1e}"
    return (row.part, *counts, operations, _times(row.seconds), _bytes(row.memory), _bytes(row.disk))


def _count(count: int | None) -> str:
    if count is None:
        return "?"
    return f"{count:,}" if count < 10**7 else f"{count:.1e}"


def _times(seconds: tuple[float, float] | None) -> str:
    """Write a range of time in the largest unit that its lower end fills."""
    if seconds is None:
        return "?"
    size, unit = next((each for each in _UNITS if seconds[0] >= each[0]), _UNITS[-1])
    low, high = (f"{value / size:,.0f}" if value >= 10 * size else f"{value / size:.1f}" for value in seconds)
    return f"{low}-{high} {unit}"


def _bytes(number: int | None) -> str:
    from lexbench.storage.store import readable_bytes

    return "?" if number is None else readable_bytes(number)
