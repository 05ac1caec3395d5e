"""The tasks of a recipe in order, the checks before any work, and carrying the tasks out. Used by `lexbench train`."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lexbench.errors import CannotStart, CommandError, require
from lexbench.lexmae import provenance
from lexbench.lexmae.data import collections
from lexbench.lexmae.data.negatives import teaching_system
from lexbench.lexmae.recipe.settings import STAGES, Fitting, Paths, Recipe, Stage, placeholders
from lexbench.models.checkpoint import fetch_model
from lexbench.progress import Progress
from lexbench.retrievers.run_file import RunFile

if TYPE_CHECKING:
    from lexbench.lexmae.training.cost import Cost

_HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


class Task(NamedTuple):
    """The work of one command."""

    kind: Literal["start", "pretrain", "imitate", "mine", "finetune"]
    stage: int = 0  # of mine and finetune

    def __str__(self) -> str:
        """Return the command that does it."""
        return f"{self.kind} --stage {self.stage}" if self.stage else self.kind


_MADE_BY: Mapping[str, Task] = {  # the task that makes each model
    "start": Task("start"),
    "pretrained": Task("pretrain"),
    "imitated": Task("imitate"),
    **{f"stage{number}": Task("finetune", number) for number in STAGES},
}


def tasks(recipe: Recipe) -> list[Task]:
    """Return all tasks of *recipe* in order."""
    first = [Task("start"), *([Task("pretrain")] if recipe.pretrain else []), *([Task("imitate")] if recipe.imitation else [])]
    return first + [Task(kind, number) for number in STAGES if recipe.stage(number) for kind in ("mine", "finetune")]


def single_task(recipe: Recipe, kind: Literal["pretrain", "imitate", "mine", "finetune"], stage: int = 0) -> list[Task]:
    """Return one task of *recipe*, after that of the initial model if it is needed. Raises CommandError if there is none."""
    asked, known = Task(kind, stage), tasks(recipe)
    if asked not in known:
        commands = ", ".join(str(other) for other in known if other.kind != "start")
        raise CommandError(f"recipe {recipe.name} has no {asked}; it has: {commands or 'no task'}")
    return [Task("start"), asked] if "start" in _models(recipe, asked) else [asked]


def check(recipe: Recipe, planned: Sequence[Task]) -> None:
    """Raise every error that can be found before any work.

    These are missing packages, data or models, test queries, settings that the hardware cannot do, and folders of another
    recipe.
    """
    require("lexbench train", ("torch", "transformers", "accelerate"), "train")
    collections.check_selection(recipe)
    for position, task in enumerate(planned):
        _check_inputs(recipe, task)
        for needed, earlier in _needed(recipe, task):
            if earlier not in planned[:position] and not needed.exists():
                raise CannotStart(f"{task} needs {needed}, which does not exist yet; type: lexbench train {earlier}")
    from lexbench.lexmae.training import processes

    for task in planned:
        if fitting := _fitting(recipe, task):
            processes.check(fitting, recipe.hardware)
    provenance.check(recipe, model_after(recipe, planned[-1]).name)


def outline(recipe: Recipe, planned: Sequence[Task]) -> list[dict[str, Any]]:
    """Return a row for each task except the start: its command, and the texts, steps or epochs that the recipe states, or None.

    Texts are those drawn in all steps.
    """
    rows = []
    for task in planned:
        row: dict[str, Any] = {"part": str(task), "texts": None, "steps": None, "epochs": None}
        if fitting := _fitting(recipe, task):
            per_example = fitting.documents + 1 if isinstance(fitting, Stage) else 1
            per_example *= recipe.ranking.group if task.kind == "imitate" and recipe.ranking else 1
            texts = fitting.steps * fitting.batch_size * per_example
            row |= {"texts": texts or None, "steps": fitting.steps or None, "epochs": fitting.epochs or None}
        if task.kind != "start":
            rows.append(row)
    return rows


def costs(recipe: Recipe, planned: Sequence[Task]) -> dict[str, "Cost"]:
    """Return the cost of each task except the start, measured with random weights on this device; see `cost`.

    The models that the recipe starts from and imitates are fetched, because their shape decides. Raises the errors of finding
    them.
    """
    from lexbench.lexmae.training import cost

    found = {}
    for task in planned:
        if fitting := _fitting(recipe, task):
            found[str(task)] = cost.of_fitting(recipe, fitting, _examples(recipe, task))
        elif task.kind == "mine" and _models(recipe, task):
            expected = [collections.find_dataset(name).contract.expected for name in _stage(recipe, task).queries]
            found[str(task)] = cost.of_mining(recipe, _total(one.documents for one in expected))
    return found


def _examples(recipe: Recipe, task: Task) -> int | None:
    """Return the number of examples per epoch by the contracts of the data, or None if one does not say."""
    if task.stage:
        stage = _stage(recipe, task)
        expected = [collections.find_dataset(name).contract.expected for name in stage.queries]
        return _total(one.judgements if stage.pairs == "all" else one.queries for one in expected)
    section = recipe.pretrain if task.kind == "pretrain" else recipe.imitation
    assert section is not None
    return _total(collections.find_corpus(name).contract.expected.documents for name in section.corpora)


def _total(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of *numbers*, None if one is unknown."""
    listed = list(numbers)
    return None if None in listed else sum(number or 0 for number in listed)


def carry_out(recipe: Recipe, task: Task, progress: Progress) -> list[Path]:
    """Do a task unless it is finished. Return what it makes: a model's folder, or folders of negatives.

    Processes started by torchrun train models together; every other task is done by the first one while the others wait.
    """
    from lexbench.lexmae.training import processes

    processes.join(recipe.hardware)
    recipe = processes.resolved(recipe)
    if task.kind == "pretrain":
        from lexbench.lexmae.training import pretrain

        return [pretrain.pretrain(recipe, progress)]
    if task.kind == "imitate":
        from lexbench.lexmae.training import imitation

        return [imitation.imitate(recipe, progress)]
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
    """Return the folder of the model that a task trains, or mines negatives for."""
    if task.stage:
        return Paths(recipe).stage(task.stage)
    return Paths(recipe).imitated if task.kind == "imitate" else Paths(recipe).pretrained


def _fitting(recipe: Recipe, task: Task) -> Fitting | None:
    """Return the section of the recipe with the settings of a training, or None for a task that trains nothing."""
    match task.kind:
        case "pretrain":
            return recipe.pretrain
        case "imitate":
            return recipe.imitation
        case "finetune":
            return recipe.stage(task.stage)
        case _:
            return None


def _stage(recipe: Recipe, task: Task) -> Stage:
    stage = recipe.stage(task.stage)
    assert stage is not None
    return stage


def _models(recipe: Recipe, task: Task) -> list[str]:
    """Return the names of the models that a task starts from or searches with."""
    match task.kind:
        case "start":
            return []
        case "pretrain" | "imitate":
            return ["start"]
        case "mine":
            return placeholders(_stage(recipe, task).negatives)
        case "finetune":
            return [_stage(recipe, task).start]


def _check_inputs(recipe: Recipe, task: Task) -> None:
    """Raise the errors of finding the models and data of a task."""
    if task.kind == "start" and not Paths(recipe).start.is_dir():
        _check_model(recipe.start.model, recipe.start.revision)
        for name in recipe.exact_terms.corpora if recipe.exact_terms else ():
            collections.find_corpus(name)
    if task.kind == "imitate" and recipe.imitation:
        for model in (recipe.imitation.model, *([recipe.ranking.model] if recipe.ranking else [])):
            _check_model(model)
    if task.kind == "finetune" and (teacher := _stage(recipe, task).teacher) and not teaching_system(teacher):
        _check_model(teacher)
    if task.stage:
        _check_stage(recipe, task)
    section = {"pretrain": recipe.pretrain, "imitate": recipe.imitation}.get(task.kind)
    for name in section.corpora if section else ():
        collections.check_left_out(collections.find_corpus(name).contract, recipe.leave_out)


def _check_stage(recipe: Recipe, task: Task) -> None:
    """Raise the errors of finding the data of a stage, and the file of its teacher's scores."""
    stage = _stage(recipe, task)
    for name in recipe.selection.datasets if task.kind == "finetune" else ():
        collections.find_dataset(name)
    teacher = teaching_system(stage.teacher) if task.kind == "finetune" else None
    for name in stage.queries:
        contract = collections.find_dataset(name).contract
        collections.check_left_out(contract, recipe.leave_out)
        if teacher and isinstance(teacher.retriever, RunFile):
            teacher.retriever.file_identity(contract.id)


def _check_model(model: str, revision: str | None = None) -> None:
    """Raise the errors of finding a model in a folder. A model on the hub is fetched when the work begins."""
    if Path(model).is_dir() or not _HUB_NAME.fullmatch(model):
        fetch_model(model, revision)


def _needed(recipe: Recipe, task: Task) -> Iterator[tuple[Path, Task]]:
    """Yield the paths that must exist before a task, each with the task that makes it."""
    paths = Paths(recipe)
    for name in _models(recipe, task):
        yield paths.root / name, _MADE_BY[name]
    if task.kind == "finetune":
        for name in _stage(recipe, task).queries:
            yield paths.negatives(task.stage, name), Task("mine", task.stage)
