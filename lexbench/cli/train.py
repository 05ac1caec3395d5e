"""Train a LexMAE: pretraining, imitation, negatives, fine-tuning."""

import os
from contextlib import nullcontext
from functools import partial
from json import dumps
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from lexbench.cli._options import json_option, together
from lexbench.cli._output import print_json, print_rows, say, say_answer
from lexbench.cli._progress import shown

if TYPE_CHECKING:
    from lexbench.lexmae.recipe.settings import Recipe
    from lexbench.lexmae.training.plan import Task

_COMMANDS = {
    "pretrain": "Pretrain the masked autoencoder, after making the initial model.",
    "imitate": "Learn the predictions of another sparse model.",
    "mine": "Mine the hard negatives of a stage.",
    "finetune": "Train the retriever of a stage on its negatives.",
    "all": "Pretrain, imitate, then mine and fine-tune each stage, as far as the recipe has them.",
}
_STAGE = click.option("--stage", type=click.IntRange(1, 3), required=True, help="Stage of fine-tuning.")
_SETTINGS = together(
    click.argument("name", metavar="RECIPE"),
    click.option("--output", metavar="FOLDER", help="Folder for models, negatives and logs."),
    click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="e.g. pretrain.steps=100; repeatable."),
    click.option("--dry-run", is_flag=True, help="Check everything and list the parts; train nothing."),
    json_option,
)


@click.group()
def command() -> None:
    """Train a LexMAE from RECIPE, a TOML file or the name of one of lexbench's own recipes, e.g. msmarco.

    Finished parts are not repeated, and interrupted ones resume. With several GPUs, type: torchrun --nproc-per-node 8 -m
    lexbench train ...
    """


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
    made = list(map(str, paths))
    options = [f"--set {quote(text)}" for text in settings] + ([f"--output {quote(output)}"] if output else [])
    following = _next_command(recipe, tasks[-1], name, options)
    say_answer({"recipe": recipe.name, "made": made}, [*made, f"next: {following}"], as_json=as_json)


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


for _name, _help in _COMMANDS.items():
    _function: Any = _SETTINGS(partial(_run, "" if _name == "all" else _name))
    command.command(_name, help=_help)(_STAGE(_function) if _name in {"mine", "finetune"} else _function)
