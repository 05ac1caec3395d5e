"""The work of a recipe: its tasks in order, what each needs, and doing them."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from lexbench.errors import CannotStart, CommandError, require
from lexbench.lexmae.data import sizes
from lexbench.lexmae.data.negatives import teaching_system
from lexbench.lexmae.data.splits import check_selection
from lexbench.lexmae.recipe import Paths, Recipe, Stage, placeholders
from lexbench.models.checkpoint import fetch_model
from lexbench.progress import Progress

_HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


class Task(NamedTuple):
    """The work of one command."""

    kind: Literal["start", "pretrain", "vectors", "mine", "finetune"]
    stage: int = 0  # of mine and finetune

    def __str__(self) -> str:
        """Write it as the command that does it."""
        return f"{self.kind} --stage {self.stage}" if self.stage else self.kind

    @property
    def trains(self) -> bool:
        """Whether a model is trained, which all processes do together."""
        return self.kind in ("pretrain", "vectors", "finetune")


def tasks(recipe: Recipe) -> list[Task]:
    """Return all tasks of *recipe* in the order in which they are done."""
    stages = [number for number in (1, 2, 3) if recipe.stage(number)]
    before = [Task("start"), *([Task("pretrain")] if recipe.pretrain else []), *([Task("vectors")] if recipe.vectors else [])]
    return before + [Task(kind, number) for number in stages for kind in ("mine", "finetune")]


def tasks_of(recipe: Recipe, kind: Literal["pretrain", "vectors", "mine", "finetune"], stage: int = 0) -> list[Task]:
    """Return one task of *recipe*, after that of the initial model if it needs that; CommandError where there is none."""
    asked, known = Task(kind, stage), tasks(recipe)
    if asked not in known:
        commands = ", ".join(str(other) for other in known if other.kind != "start")
        raise CommandError(f"recipe {recipe.name} has no {asked}; it has: {commands or 'nothing to do'}")
    return [Task("start"), asked] if "start" in _models(recipe, asked) else [asked]


def check(recipe: Recipe, planned: Sequence[Task]) -> None:
    """Raise what can be known before any work.

    That is missing packages, data or models, queries that are for testing, what the hardware cannot do, and models of another
    recipe in the way.
    """
    require("lexbench train", ("torch", "transformers", "accelerate"), "train")
    check_selection(recipe)
    coming = set[Path]()
    for task in planned:
        _check_inputs(recipe, task)
        for needed, command in _needed(recipe, task):
            if needed not in coming and not needed.exists():
                raise CannotStart(f"{task} needs {needed}, which is not there yet; type: lexbench train {command}")
        coming |= set(_outputs(recipe, task))
    from lexbench.lexmae.cards import provenance
    from lexbench.lexmae.training import processes

    for task in planned:
        fitting = recipe.stage(task.stage) if task.stage else recipe.vectors if task.kind == "vectors" else recipe.pretrain
        if fitting and task.trains:
            processes.check(fitting, recipe.hardware)
    provenance.check(recipe, model_after(recipe, planned[-1]).name)


def data(recipe: Recipe, task: Task) -> dict[str, sizes.Size]:
    """Return the sizes of what a task reads, by name; errors are those of finding it."""
    corpora = {name: sizes.of_corpus(name) for name in _corpora(recipe, task)}
    return corpora | {name: sizes.of_dataset(name) for name in _queries(recipe, task)}


def carry_out(recipe: Recipe, task: Task, progress: Progress) -> list[Path]:
    """Do a task, unless it is finished, and return what it makes: a model's folder, or files of negatives.

    Processes that torchrun started train models together; any other task is done by the first one while the others wait.
    """
    from lexbench.lexmae.training import processes

    processes.join(recipe.hardware)
    if task.kind == "pretrain":
        from lexbench.lexmae.training import pretrain

        return [pretrain.pretrain(recipe, progress)]
    if task.kind == "vectors":
        from lexbench.lexmae.training import vectors

        return [vectors.learn_vectors(recipe, progress)]
    if task.kind == "finetune":
        from lexbench.lexmae.training import finetune

        return [finetune.finetune(recipe, task.stage, progress)]
    with processes.first_goes_first():
        if task.kind == "start":
            from lexbench.lexmae.model import start

            return [start.make(recipe, progress)]
        from lexbench.lexmae.data import negatives

        return negatives.mine(recipe, task.stage, progress)


def model_after(recipe: Recipe, task: Task) -> Path:
    """Return the folder of the model that a task trains, or that its negatives are for."""
    if task.kind == "vectors":
        return Paths(recipe).vectors
    return Paths(recipe).stage(task.stage) if task.stage else Paths(recipe).pretrained


def _corpora(recipe: Recipe, task: Task) -> tuple[str, ...]:
    if task.kind == "vectors" and recipe.vectors:
        return recipe.vectors.corpora
    return recipe.pretrain.corpora if task.kind == "pretrain" and recipe.pretrain else ()


def _queries(recipe: Recipe, task: Task) -> tuple[str, ...]:
    if task.kind == "vectors" and recipe.vectors:
        return recipe.vectors.queries
    chosen_by = recipe.selection.datasets if task.kind == "finetune" else ()
    return (*_stage(recipe, task).queries, *chosen_by) if task.stage else ()


def _stage(recipe: Recipe, task: Task) -> Stage:
    stage = recipe.stage(task.stage)
    assert stage is not None
    return stage


def _models(recipe: Recipe, task: Task) -> list[str]:
    """Return the models that a task begins with or searches with, by name."""
    match task.kind:
        case "start":
            return []
        case "pretrain":
            return ["start"]
        case "vectors":
            return [recipe.vectors.start] if recipe.vectors else []
        case "mine":
            return placeholders(_stage(recipe, task).negatives)
        case "finetune":
            return [_stage(recipe, task).start]


def _check_inputs(recipe: Recipe, task: Task) -> None:
    """Raise what finding the models and data of a task would."""
    if task.kind == "start" and not Paths(recipe).start.is_dir():
        _check_model(recipe.start.model, recipe.start.revision)
        for name in recipe.exact_terms.corpora if recipe.exact_terms else ():
            sizes.check_corpus(name)
    if task.kind == "finetune" and (teacher := _stage(recipe, task).teacher) and not teaching_system(teacher):
        _check_model(teacher)
    if task.kind == "vectors" and recipe.vectors:
        _check_model(recipe.vectors.teacher)
    for name in _queries(recipe, task):
        sizes.find_dataset(name)
    for name in _corpora(recipe, task):
        sizes.check_corpus(name)


def _check_model(model: str, revision: str | None = None) -> None:
    """Raise what finding a model in a folder would; one on the hub is fetched when the work begins."""
    if Path(model).is_dir() or not _HUB_NAME.fullmatch(model):
        fetch_model(model, revision)


def _needed(recipe: Recipe, task: Task) -> Iterator[tuple[Path, str]]:
    """Yield what has to be there before a task, with the command that makes it."""
    paths = Paths(recipe)
    for name in _models(recipe, task):
        number = name.removeprefix("stage")
        yield paths.root / name, f"finetune --stage {number}" if number.isdigit() else name.removesuffix("ed")
    if task.kind == "finetune":
        for name in _stage(recipe, task).queries:
            yield paths.negatives(task.stage, name), f"mine --stage {task.stage}"


def _outputs(recipe: Recipe, task: Task) -> list[Path]:
    paths = Paths(recipe)
    match task.kind:
        case "start":
            return [paths.start]
        case "pretrain":
            return [paths.pretrained]
        case "vectors":
            return [paths.vectors]
        case "mine":
            stage = _stage(recipe, task)
            runs = [paths.negatives, *([paths.teacher_scores] if teaching_system(stage.teacher) else [])]
            return [run(task.stage, name) for run in runs for name in stage.queries]
        case "finetune":
            return [paths.stage(task.stage)]
