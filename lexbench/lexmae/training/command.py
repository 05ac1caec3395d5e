"""Training by a recipe, task by task: `lexbench train` and the function `lexbench.train`."""

import os
from collections.abc import Sequence
from json import dumps
from shlex import quote
from typing import Any

import msgspec

from lexbench.display.answer import Answer
from lexbench.display.progress import Progress
from lexbench.display.table import Table, number
from lexbench.errors import UnknownName
from lexbench.lexmae import recipe as recipes
from lexbench.lexmae.recipe.settings import Recipe
from lexbench.lexmae.training import plan
from lexbench.lexmae.training.plan import Task
from lexbench.models.stated_settings import expression_of_folder

STEPS = ("pretrain", "imitate", "mine", "finetune", "all")


class Trained(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """What a training made. It can be used as the path of the model's folder."""

    recipe: str
    made: list[str]  # folders of models and of negatives, in order
    folder: str  # of the model
    following: str  # the command that continues

    def __fspath__(self) -> str:
        """Return the folder of the model."""
        return self.folder

    def lines(self) -> list[str]:
        """Return what was made, and what to type next."""
        return [*self.made, f"next: {self.following}"]

    def document(self) -> dict[str, Any]:
        """Return the recipe and what was made."""
        return {"recipe": self.recipe, "made": self.made}


class TrainingPlan(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a training, which were checked and not done."""

    recipe: str
    preset: str
    output: str
    parts: list[dict[str, Any]]
    costs: dict[str, dict[str, Any]] = {}  # by part, the fields of `cost.Cost`, where they were measured

    def tables(self) -> list[Table]:
        """Return one row per part, and one per part whose cost was measured."""
        amounts = ("texts", "steps", "epochs")
        rows = tuple((str(part["part"]), *(number(part[name], ",") for name in amounts)) for part in self.parts)
        found = [Table("", ("part", *amounts), rows, is_text=True)]
        if not self.costs:
            return found
        measured = tuple(
            (
                part,
                number(cost["seconds"], ".3f"),
                *(number(cost[name], ".1f") for name in ("hours", "memory_gib", "disk_gib")),
            )
            for part, cost in self.costs.items()
        )
        columns = ("part", "seconds", "hours", "memory\nGiB", "disk\nGiB")
        notes = ("seconds: of a step, or of mining with 1,000 texts; here, with random weights and the longest texts",)
        return [*found, Table("", columns, measured, notes)]

    def lines(self) -> list[str]:
        """Return that nothing was trained."""
        return ["Everything was checked. Nothing was trained."]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per part."""
        return self.parts


def _planned(name: str, step: str, settings: Sequence[str], output: str | None, stage: int) -> tuple[Recipe, list[Task]]:
    """Return the recipe and the tasks of a *step*, with everything checked. *settings* and *output* replace the recipe's."""
    if step not in STEPS:
        raise UnknownName("step of a training", step, STEPS)
    recipe = recipes.read(recipes.find(name), [*settings, *([f"output={dumps(output)}"] if output else [])])
    tasks = plan.tasks(recipe) if step == "all" else plan.single_task(recipe, step, stage)
    plan.check(recipe, tasks)
    return recipe, tasks


def training_plan(name: str, step: str, *, settings: Sequence[str], output: str | None, stage: int, time: bool) -> TrainingPlan:
    """Return the parts of a *step* of the recipe *name*. Raises all errors that can be found before any work.

    With *time*, three steps of each part are done on this device, to measure what the part costs.
    """
    recipe, tasks = _planned(name, step, settings, output, stage)
    costs = {part: cost._asdict() for part, cost in plan.costs(recipe, tasks).items()} if time else {}
    parts = plan.outline(recipe, tasks)
    return TrainingPlan(recipe=recipe.name, preset=recipe.preset, output=str(recipe.output), parts=parts, costs=costs)


def train(
    name: str, step: str, *, settings: Sequence[str], output: str | None, stage: int, progress: Progress
) -> Trained | None:
    """Do a *step* of the recipe *name*, or "all". Return None in all processes but the first that torchrun started."""
    recipe, tasks = _planned(name, step, settings, output, stage)
    plan.open_training_sets(recipe, tasks, progress)
    made = [str(path) for task in tasks for path in plan.carry_out(recipe, task, progress)]
    if os.environ.get("RANK", "0") != "0":
        return None
    options = [f"--set {quote(text)}" for text in settings] + ([f"--output {quote(output)}"] if output else [])
    return Trained(
        recipe=recipe.name,
        made=made,
        folder=str(recipe.folder(tasks[-1].model)),
        following=_next_command(recipe, tasks[-1], name, options),
    )


def _next_command(recipe: Recipe, last: Task, name: str, options: list[str]) -> str:
    """Return the command that continues after *last*: the next task with the same *options*, or a test of the model."""
    tasks = plan.tasks(recipe)
    following = tasks[tasks.index(last) + 1 :]
    if following:
        task, recipe_name = following[0], quote(name)
        return " ".join(
            ["lexbench train", task.kind, recipe_name, *([f"--stage {task.stage}"] if task.stage else []), *options]
        )
    return f"lexbench run suite pydoc -r {quote(expression_of_folder(recipe.folder(last.model)))}"
