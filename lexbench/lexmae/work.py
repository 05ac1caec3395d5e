"""The parts of a recipe's work, in order: what each needs, and doing it."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from lexbench.errors import CannotStart, CommandError, require
from lexbench.lexmae import sizes
from lexbench.lexmae._recipe_checks import placeholders
from lexbench.lexmae.places import Places
from lexbench.lexmae.recipe import Recipe, Stage
from lexbench.lexmae.splits import check_selection
from lexbench.progress import Progress

_ON_THE_HUB = re.compile(r"\w[\w.-]*(/[\w.-]+)?")


class Part(NamedTuple):
    """One command's work."""

    kind: Literal["start", "pretrain", "mine", "finetune"]
    stage: int = 0  # of mine and finetune

    def __str__(self) -> str:
        """Write it as the command that does it."""
        return f"{self.kind} --stage {self.stage}" if self.stage else self.kind


def parts(recipe: Recipe) -> list[Part]:
    """Return all parts of *recipe* in the order in which they are done."""
    stages = [number for number in (1, 2, 3) if recipe.stage(number)]
    found = [Part("start"), *([Part("pretrain")] if recipe.pretrain else [])]
    return found + [Part(kind, number) for number in stages for kind in ("mine", "finetune")]


def part(recipe: Recipe, kind: Literal["pretrain", "mine", "finetune"], stage: int = 0) -> list[Part]:
    """Return that part of *recipe*, after the initial model if it needs that; CommandError where the recipe has none."""
    asked, have = Part(kind, stage), parts(recipe)
    if asked not in have:
        commands = ", ".join(str(each) for each in have if each.kind != "start")
        raise CommandError(f"recipe {recipe.name} has no {asked}; it has: {commands or 'nothing to do'}")
    return [Part("start"), asked] if "start" in _models(recipe, asked) else [asked]


def check(recipe: Recipe, wanted: Sequence[Part]) -> None:
    """Raise what can be known before any work: missing packages, data or models, and queries that are for testing."""
    require("lexbench train", ("torch", "transformers", "accelerate"), "train")
    check_selection(recipe)
    places, coming = Places(recipe), set[Path]()
    for each in wanted:
        if each.kind == "start" and not places.start.is_dir():
            _check_model(recipe.start.model, recipe.start.revision)
        if each.kind == "finetune" and (teacher := _stage(recipe, each).teacher):
            _check_model(teacher)
        for name in _queries(recipe, each):
            sizes.dataset(name)
        for name in _corpora(recipe, each):
            sizes.check_corpus(name)
        for needed, command in _needed(recipe, each):
            if needed not in coming and not needed.exists():
                raise CannotStart(f"{each} needs {needed}, which is not there yet; type: lexbench train {command}")
        coming |= set(_made(recipe, each))


def data(recipe: Recipe, each: Part) -> dict[str, sizes.Size]:
    """Return the sizes of what a part reads, by name; errors are those of finding it."""
    found = {name: sizes.of_corpus(name) for name in _corpora(recipe, each)}
    return found | {name: sizes.of_dataset(name) for name in _queries(recipe, each)}


def carry_out(recipe: Recipe, each: Part, progress: Progress) -> list[Path]:
    """Do one part, unless it is finished, and return what it makes: a model's folder, or files of negatives."""
    if each.kind == "start":
        from lexbench.lexmae import start

        return [start.make(recipe, progress)]
    if each.kind == "pretrain":
        from lexbench.lexmae import pretrain

        return [pretrain.pretrain(recipe, progress)]
    if each.kind == "mine":
        from lexbench.lexmae import negatives

        return negatives.mine(recipe, each.stage, progress)
    from lexbench.lexmae import finetune

    return [finetune.finetune(recipe, each.stage, progress)]


def _corpora(recipe: Recipe, each: Part) -> tuple[str, ...]:
    return recipe.pretrain.corpora if each.kind == "pretrain" and recipe.pretrain else ()


def _queries(recipe: Recipe, each: Part) -> tuple[str, ...]:
    chosen = recipe.selection.datasets if each.kind == "finetune" else ()
    return (*_stage(recipe, each).queries, *chosen) if each.stage else ()


def _stage(recipe: Recipe, each: Part) -> Stage:
    stage = recipe.stage(each.stage)
    assert stage is not None
    return stage


def _models(recipe: Recipe, each: Part) -> list[str]:
    """Return the models that a part begins with or searches with, by name."""
    match each.kind:
        case "start":
            return []
        case "pretrain":
            return ["start"]
        case "mine":
            return placeholders(_stage(recipe, each).negatives)
        case "finetune":
            return [_stage(recipe, each).start]


def _needed(recipe: Recipe, each: Part) -> Iterator[tuple[Path, str]]:
    """Yield what has to be there before a part, with the command that makes it."""
    places = Places(recipe)
    for name in _models(recipe, each):
        number = name.removeprefix("stage")
        yield places.root / name, f"finetune --stage {number}" if number.isdigit() else "pretrain"
    if each.kind == "finetune":
        for name in _stage(recipe, each).queries:
            yield places.negatives(each.stage, name), f"mine --stage {each.stage}"


def _made(recipe: Recipe, each: Part) -> list[Path]:
    places = Places(recipe)
    match each.kind:
        case "start":
            return [places.start]
        case "pretrain":
            return [places.pretrained]
        case "mine":
            return [places.negatives(each.stage, name) for name in _stage(recipe, each).queries]
        case "finetune":
            return [places.stage(each.stage)]


def _check_model(model: str, revision: str | None = None) -> None:
    """Raise what finding it would, where it is a folder; what is on the hub is fetched when the work begins."""
    if Path(model).is_dir() or not _ON_THE_HUB.fullmatch(model):
        from lexbench.lexmae import given_models

        given_models.find(model, revision)
