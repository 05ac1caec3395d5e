"""Train a LexMAE: pretraining, imitation, negatives, fine-tuning."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from json import dumps
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lexbench.cli._options import json_option
from lexbench.cli._output import print_json, print_rows, say
from lexbench.cli._progress import shown

if TYPE_CHECKING:
    from lexbench.lexmae.recipe.settings import Recipe
    from lexbench.lexmae.training.plan import Task

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def command() -> None:
    """Train a LexMAE from RECIPE, a TOML file or the name of one of lexbench's own recipes, e.g. msmarco.

    Finished parts are not repeated, and interrupted ones resume. Several GPUs: torchrun --nproc-per-node 8 -m lexbench train
    ...
    """


def _common(function: F) -> F:
    """Add the options of every command."""
    for option in (
        json_option,
        click.option("--dry-run", is_flag=True, help="Check everything and list the parts; train nothing."),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="e.g. pretrain.steps=100; repeatable."),
        click.option("--output", metavar="FOLDER", help="Folder for models, negatives and logs."),
        click.argument("name", metavar="RECIPE"),
    ):
        function = option(function)
    return function


def _stage(function: F) -> F:
    """Add `--stage`."""
    return click.option("--stage", type=click.IntRange(1, 3), required=True, help="Stage of fine-tuning.")(function)


@command.command()
@_common
def pretrain(**options: Any) -> None:
    """Pretrain the masked autoencoder, after making the initial model."""
    _run("pretrain", **options)


@command.command()
@_common
def imitate(**options: Any) -> None:
    """Learn the predictions of another sparse model."""
    _run("imitate", **options)


@command.command()
@_common
@_stage
def mine(**options: Any) -> None:
    """Mine the hard negatives of a stage."""
    _run("mine", **options)


@command.command()
@_common
@_stage
def finetune(**options: Any) -> None:
    """Train the retriever of a stage on its negatives."""
    _run("finetune", **options)


@command.command("all")
@_common
def everything(**options: Any) -> None:
    """Pretrain, imitate, then mine and fine-tune each stage, as far as the recipe has them."""
    _run("", **options)


def _run(
    kind: Any, name: str, settings: tuple[str, ...], output: str | None, stage: int = 0, *, dry_run: bool, as_json: bool
) -> None:
    """Check the task *kind* of the recipe *name*, or all tasks if it is "", and do them, or list them in a dry run.

    *settings* and *output* replace those of the recipe. Under torchrun only the first process prints.
    """
    from lexbench.lexmae import recipe as recipes
    from lexbench.lexmae.training import plan
    from lexbench.progress import Progress

    recipe = recipes.read(recipes.find(name), [*settings, *([f"output={dumps(output)}"] if output else [])])
    tasks = plan.single_task(recipe, kind, stage) if kind else plan.tasks(recipe)
    plan.check(recipe, tasks)
    if dry_run:
        _print_outline(recipe, plan.outline(recipe, tasks), as_json=as_json)
        return
    first = os.environ.get("RANK", "0") == "0"
    with shown() if first else nullcontext(Progress()) as progress:
        paths = [path for task in tasks for path in plan.carry_out(recipe, task, progress)]
    if not first:
        return
    if as_json:
        print_json({"recipe": recipe.name, "made": [str(path) for path in paths]})
        return
    for path in paths:
        say(str(path))
    options = [f"--set {quote(text)}" for text in settings] + ([f"--output {quote(output)}"] if output else [])
    say(f"next: {_next_command(recipe, tasks[-1], name, options)}")


def _print_outline(recipe: "Recipe", rows: list[dict[str, Any]], *, as_json: bool) -> None:
    from lexbench.table import number

    if as_json:
        print_json({"recipe": recipe.name, "preset": recipe.preset, "output": recipe.output, "parts": rows})
        return
    amounts = ("texts", "steps", "epochs")
    cells = [(row["part"], *(number(row[name], ",") for name in amounts)) for row in rows]
    print_rows(("part", *amounts), cells, as_json=False)
    say("Everything was checked. Nothing was trained.")


def _next_command(recipe: "Recipe", last: "Task", name: str, options: list[str]) -> str:
    """Return the command that continues after *last*: the next task with the same *options*, or a test of the model."""
    from lexbench.lexmae.training import plan

    tasks = plan.tasks(recipe)
    following = tasks[tasks.index(last) + 1 :]
    if following:
        task, recipe_name = following[0], quote(name)
        return " ".join(
            ["lexbench train", task.kind, recipe_name, *([f"--stage {task.stage}"] if task.stage else []), *options]
        )
    model = dumps(str(plan.model_after(recipe, last)))
    return f"lexbench run suite pydoc -r {quote(f'sparse_mlm(model={model})@impact')}"
