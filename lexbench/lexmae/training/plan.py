"""The tasks of a recipe in order, the checks before any work, and carrying the tasks out. Used by `lexbench train`."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lexbench.artifacts.graph import Graph
from lexbench.display.progress import Progress
from lexbench.errors import CannotStart, CommandError, MissingData, require
from lexbench.lexmae import provenance
from lexbench.lexmae.data import collections, negatives
from lexbench.lexmae.recipe.settings import MODELS, Fitting, Imitation, Pretrain, Recipe, Stage, placeholders
from lexbench.models.checkpoint import fetch_settings
from lexbench.retrievers.run_file import RunFile
from lexbench.runner import systems
from lexbench.storage.store import Store

if TYPE_CHECKING:
    from lexbench.lexmae.card import What
    from lexbench.lexmae.training.cost import TrainingCost

_WORK = {"start": ("start",), "pretrained": ("pretrain",), "imitated": ("imitate",)}  # the tasks that make a model
_OF_STAGES = ("mine", "finetune")


class Task(NamedTuple):
    """The work of one command: it makes a model, or mines the negatives that a stage trains it with."""

    kind: str  # start, pretrain, imitate, mine or finetune
    model: str  # one of `MODELS`

    def __str__(self) -> str:
        """Return the command that does it."""
        return f"{self.kind} --stage {self.stage}" if self.stage else self.kind

    @property
    def stage(self) -> int:
        """The number of the stage of fine-tuning, 0 for other tasks."""
        return int(self.model[-1]) if self.kind in _OF_STAGES else 0

    def trains(self, recipe: Recipe) -> Fitting | None:
        """Return the settings of the training, or None for a task that trains nothing."""
        section = recipe.section(self.model)
        return section if isinstance(section, Fitting) and self.kind != "mine" else None

    def models(self, recipe: Recipe) -> list[str]:
        """Return the models that it needs: those that it starts from, or that find its negatives."""
        section = recipe.section(self.model)
        if isinstance(section, Stage):
            return [*([section.start] if self.kind == "finetune" else []), *placeholders(section.negatives)]
        return [] if self.kind == "start" else ["start"]


def tasks(recipe: Recipe) -> list[Task]:
    """Return all tasks of *recipe* in order."""
    return [Task(kind, model) for model in MODELS if recipe.section(model) for kind in _WORK.get(model, _OF_STAGES)]


def single_task(recipe: Recipe, kind: str, stage: int = 0) -> list[Task]:
    """Return one task of *recipe*, after that of the initial model if it is needed. Raises CommandError if there is none."""
    start, *known = tasks(recipe)
    for task in known:
        if (task.kind, task.stage) == (kind, stage):
            return [start, task] if "start" in task.models(recipe) else [task]
    asked, commands = f"{kind} --stage {stage}" if stage else kind, ", ".join(map(str, known))
    raise CommandError(f"recipe {recipe.name} has no {asked}; it has: {commands or 'no task'}")


def check(recipe: Recipe, planned: Sequence[Task]) -> None:
    """Raise every error that can be found before any work.

    These are missing packages, data or models, test queries, settings that the hardware cannot do, and folders of another
    recipe.
    """
    require("lexbench train", ("torch", "transformers", "accelerate"), "train")
    from lexbench.lexmae.training import processes

    collections.check_selection(recipe)
    for position, task in enumerate(planned):
        _check_inputs(recipe, task)
        for needed, earlier in _needed(recipe, task):
            if earlier not in planned[:position] and not needed.exists():
                raise CannotStart(f"{task} needs {needed}, which does not exist yet; type: lexbench train {earlier}")
    for task in planned:
        if fitting := task.trains(recipe):
            processes.check(fitting, recipe.hardware)
    provenance.check(recipe, planned[-1].model)


def outline(recipe: Recipe, planned: Sequence[Task]) -> list[dict[str, Any]]:
    """Return a row for each task except the start: its command, and the texts, steps or epochs that the recipe states, or None.

    Texts are those drawn in all steps.
    """
    rows = []
    for task in planned:
        row: dict[str, Any] = {"part": str(task), "texts": None, "steps": None, "epochs": None}
        if fitting := task.trains(recipe):
            per_example = fitting.documents + 1 if isinstance(fitting, Stage) else 1
            per_example *= recipe.ranking.group if task.kind == "imitate" and recipe.ranking else 1
            texts = fitting.steps * fitting.batch_size * per_example
            row |= {"texts": texts or None, "steps": fitting.steps or None, "epochs": fitting.epochs or None}
        if task.kind != "start":
            rows.append(row)
    return rows


def costs(recipe: Recipe, planned: Sequence[Task]) -> dict[str, "TrainingCost"]:
    """Return the cost of each task except the start, measured with random weights on this device; see `cost`.

    The models that the recipe starts from and imitates are fetched, because their shape decides. Raises the errors of finding
    them.
    """
    from lexbench.lexmae.training import cost

    found = {}
    for task in planned:
        section = recipe.section(task.model)
        if fitting := task.trains(recipe):
            found[str(task)] = cost.of_fitting(recipe, fitting, _examples(fitting))
        elif isinstance(section, Stage) and task.models(recipe):
            expected = [collections.find_dataset(name).contract.expected for name in section.queries]
            found[str(task)] = cost.of_mining(recipe, _total(one.documents for one in expected))
    return found


def _examples(fitting: Fitting) -> int | None:
    """Return the number of examples per epoch by the contracts of the data, or None if one does not say."""
    if isinstance(fitting, Stage):
        expected = [collections.find_dataset(name).contract.expected for name in fitting.queries]
        return _total(one.judgements if fitting.pairs == "all" else one.queries for one in expected)
    assert isinstance(fitting, Pretrain | Imitation)
    return _total(collections.find_corpus(name).contract.expected.documents for name in fitting.corpora)


def _total(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of *numbers*, None if one is unknown."""
    listed = list(numbers)
    return None if None in listed else sum(number or 0 for number in listed)


def open_training_sets(recipe: Recipe, planned: Sequence[Task], progress: Progress) -> None:
    """Open the training sets of the planned stages, so that what is wrong with them is said before hours of work.

    The processes that torchrun started do it one after the other. Raises the errors of `open_training_set` and `carry_out`.
    """
    sections = [section for task in planned if isinstance(section := recipe.section(task.model), Stage)]
    if names := dict.fromkeys(name for section in sections for name in section.queries):
        from lexbench.lexmae.data.training_sets import open_training_set
        from lexbench.lexmae.training import processes

        with processes.joined(recipe.hardware), Graph(_store(progress), progress) as graph, processes.first_goes_first():
            for name in names:
                open_training_set(name, graph, recipe.leave_out)


def _store(progress: Progress) -> Store:
    return Store(on_wait=progress.note, on_damage=progress.note)


def carry_out(recipe: Recipe, task: Task, progress: Progress) -> list[Path]:
    """Do a task unless it is finished. Return what it makes: a model's folder, or folders of negatives.

    Processes started by torchrun train models together; every other task is done by the first one while the others wait.
    Raises CommandError if a folder belongs to another recipe, and CannotStart if another process trains the model, or if one
    of those started by torchrun has ended.
    """
    from lexbench.lexmae.training import processes

    with processes.joined(recipe.hardware), Graph(_store(progress), progress) as graph:
        recipe = processes.resolved(recipe)
        if task.trains(recipe):
            return [_trained(recipe, task, graph)]
        with processes.first_goes_first():
            if task.kind == "mine":
                return negatives.mine(recipe, task.stage, graph)
            from lexbench.lexmae.model import start

            return [start.make(recipe, graph)]


def _trained(recipe: Recipe, task: Task, graph: Graph) -> Path:
    """Return the folder of a trained model. The state of its training, in a folder beside it, is removed at the end."""
    from lexbench.lexmae.training import finetune, imitation, pretrain, processes, publishing, resuming

    if not provenance.finished(recipe, task.model):
        with resuming.locked(recipe, task.model) as state:
            if task.stage:
                trained = finetune.train(recipe, task.stage, state, graph)
            else:
                train = {"pretrain": pretrain.train, "imitate": imitation.train}[task.kind]
                trained = train(recipe, state, graph)
            publishing.publish(recipe, cast("What", task.model), trained)
    if processes.is_first():
        resuming.clear(recipe.state(task.model))
    return recipe.folder(task.model)


def _check_inputs(recipe: Recipe, task: Task) -> None:
    """Raise the errors of finding the models and data of a task."""
    from lexbench.lexmae.model import start

    section = recipe.section(task.model)
    if task.kind == "start" and not recipe.folder("start").is_dir():
        start.check_model(recipe, fetch_settings(recipe.start.model, recipe.start.revision))
        for name in recipe.exact_terms.corpora if recipe.exact_terms else ():
            collections.find_corpus(name)
    if isinstance(section, Imitation):
        for model in (section.model, *([recipe.ranking.model] if recipe.ranking else [])):
            start.check_architecture(model, fetch_settings(model))
    if isinstance(section, Imitation | Pretrain):
        for name in section.corpora:
            collections.check_left_out(collections.find_corpus(name).contract, recipe.leave_out)
    if isinstance(section, Stage):
        _check_stage(recipe, section, teacher=section.teacher if task.kind == "finetune" else None)
        for name in recipe.selection.datasets if task.kind == "finetune" else ():
            collections.find_dataset(name)


def _check_stage(recipe: Recipe, stage: Stage, teacher: str | None) -> None:
    """Raise the errors of finding the data of a stage, its negatives, and its *teacher* or the file of its scores."""
    with suppress(MissingData) if placeholders(stage.negatives) else nullcontext():  # their models are not trained yet
        systems.system(negatives.fill_placeholders(stage.negatives, recipe), stage.negatives)
    system = negatives.teaching_system(teacher)
    if teacher and not system:
        fetch_settings(teacher)
        if Path(teacher).expanduser().is_dir():  # the weights of one on the hub are fetched later
            from lexbench.lexmae.training import finetune

            finetune.teaching_model(teacher, recipe.hardware).identity()
    for name in stage.queries:
        contract = collections.find_dataset(name).contract
        collections.check_left_out(contract, recipe.leave_out)
        if system and isinstance(system.retriever, RunFile):
            system.retriever.file_identity(contract.id)


def _needed(recipe: Recipe, task: Task) -> Iterator[tuple[Path, Task]]:
    """Yield the paths that must exist before a task, each with the task that makes it."""
    for model in task.models(recipe):
        yield recipe.folder(model), Task(_WORK.get(model, _OF_STAGES)[-1], model)
    if task.kind == "finetune":
        for name in cast("Stage", recipe.section(task.model)).queries:
            yield recipe.negatives(task.stage, name), task._replace(kind="mine")
