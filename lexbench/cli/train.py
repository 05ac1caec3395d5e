"""Train a LexMAE: pretraining, negatives, and the stages of fine-tuning."""

from collections.abc import Callable
from json import dumps
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lexbench.cli import _training
from lexbench.cli._options import json_option

if TYPE_CHECKING:
    from lexbench.lexmae.recipe import Recipe
    from lexbench.lexmae.training.plan import Task

F = TypeVar("F", bound=Callable[..., Any])

_OF_RECIPE = {"seed": "", "output": "", "precision": "hardware.", "device": "hardware.", "threads": "hardware."}
_OF_TRAINING: dict[str, Any] = {"learning_rate": float, "batch_size": int, "epochs": float, "steps": int}


@click.group()
def command() -> None:
    """Train a LexMAE, as the TOML file RECIPE says, or one of lexbench's own recipes, as msmarco.

    What is finished is not done again, and what was interrupted goes on. Several GPUs: torchrun --nproc-per-node 8 -m lexbench
    train ...
    """


def _common(function: F) -> F:
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


def _of_training(function: F) -> F:
    """Add the settings of one training."""
    for name, kind in _OF_TRAINING.items():
        option = f"--{name.replace('_', '-')}"
        function = click.option(option, type=kind, help=f"Instead of the recipe's {name}.")(function)
    return function


def _stage(function: F) -> F:
    """Add the number of the stage."""
    return click.option("--stage", type=click.IntRange(1, 3), required=True, help="Of fine-tuning.")(function)


@command.command()
@_common
@_of_training
def pretrain(**options: Any) -> None:
    """Pretrain the masked autoencoder, after making the initial model."""
    _carry_out("pretrain", **options)


@command.command()
@_common
@_of_training
def vectors(**options: Any) -> None:
    """Learn the vectors of a teacher, term by term."""
    _carry_out("vectors", **options)


@command.command()
@_common
@_stage
def mine(**options: Any) -> None:
    """Find the negatives of a stage."""
    _carry_out("mine", **options)


@command.command()
@_common
@_of_training
@_stage
def finetune(**options: Any) -> None:
    """Train the retriever of a stage on its negatives."""
    _carry_out("finetune", **options)


@command.command("all")
@_common
def everything(**options: Any) -> None:
    """Pretrain, learn the vectors of a teacher, then mine and fine-tune each stage: what of it the recipe has."""
    _carry_out("", **options)


def _carry_out(
    kind: Any, name: str, settings: tuple[str, ...], stage: int = 0, *, dry_run: bool, as_json: bool, **options: Any
) -> None:
    """Do the task *kind* of the recipe *name*, '' for all; *options* are those that stand for settings of the recipe."""
    from lexbench.lexmae import recipe as recipes
    from lexbench.lexmae.training import plan

    typed = {option: value for option, value in options.items() if value is not None}
    section = f"stage{stage}" if stage else kind
    overrides = [f"{_OF_RECIPE.get(option, f'{section}.')}{option}={dumps(value)}" for option, value in typed.items()]
    recipe = recipes.read(recipes.find(name), [*settings, *overrides])
    tasks = plan.tasks_of(recipe, kind, stage) if kind else plan.tasks(recipe)
    of_section = [f"{section}.{option}={dumps(value)}" for option in _OF_TRAINING if (value := typed.get(option)) is not None]
    words = [f"--set {quote(text)}" for text in (*settings, *of_section)]
    words += [f"--{option} {quote(str(typed[option]))}" for option in _OF_RECIPE if option in typed]
    following = _next(recipe, tasks[-1], name, words)
    _training.carry_out(recipe, tasks, following, dry_run=dry_run, as_json=as_json)


def _next(recipe: "Recipe", last: "Task", name: str, options: list[str]) -> str:
    """Return the command that goes on from *last*: the next task with the same *options*, or a test of the model."""
    from lexbench.lexmae.training import plan

    tasks = plan.tasks(recipe)
    following = tasks[tasks.index(last) + 1 :]
    if following:
        return " ".join(["lexbench train", _command(following[0], quote(name)), *options])
    model = dumps(str(plan.model_after(recipe, last)))
    return f"lexbench run suite pydoc -r {quote(f'sparse_mlm(model={model})@impact')}"


def _command(task: "Task", name: str) -> str:
    return f"{task.kind} {name} --stage {task.stage}" if task.stage else f"{task.kind} {name}"
