"""The folders of a training's models, and which recipe made them: a file in each. Folders of another recipe are refused.

recipe.json   of a trained model, finished or not: the settings that decide its weights
start.json    of the initial model: the same
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from lexbench.errors import CannotStart, CommandError
from lexbench.lexmae.recipe.settings import MODELS, STAGES, Recipe
from lexbench.storage import atomic

_REMEDY = "remove it, or give another --output"
_DECIDES_NOTHING = {"schema", "name", "description", "preset", "output", "license", "hardware"}  # settings of a recipe
_DECIDES_NOTHING_IN_SECTIONS = {"save_every", "published"}


def finished(recipe: Recipe, model: str) -> Path | None:
    """Return the folder of *model* if it is finished, or None if it does not exist.

    Raises CommandError if it belongs to another recipe.
    """
    folder = recipe.folder(model)
    if not folder.exists():
        return None
    check_folder(folder, recipe, model)
    return folder


@contextmanager
def drafted(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside *folder* to write into; after the block it is flushed to the disk and becomes *folder*.

    Raises CannotStart if another process has made *folder* in the meantime.
    """
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    yield draft
    for path in draft.iterdir():
        atomic.sync(path)
    try:
        draft.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        raise CannotStart(f"another process has made {folder} in the meantime; type the command again") from None
    atomic.sync(folder.parent)


def check(recipe: Recipe, last: str) -> None:
    """Raise CommandError if a model up to *last*, or an unfinished training of one, exists and belongs to another recipe."""
    models = list(MODELS)
    for model in filter(recipe.section, models[: models.index(last) + 1]):
        finished(recipe, model)
        if is_recorded(recipe.state(model), model):
            check_folder(recipe.state(model), recipe, model)


def is_recorded(folder: Path, model: str) -> bool:
    """Return whether *folder* has a record of the recipe that made it."""
    return _record(folder, model).exists()


def check_folder(folder: Path, recipe: Recipe, model: str) -> None:
    """Raise CommandError unless *recipe* made *folder*, of *model*. The message names the first setting that differs."""
    path = _record(folder, model)
    try:
        recorded = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise CommandError(f"{folder} has no valid {path.name}, so lexbench did not make it; {_REMEDY}") from None
    if difference := _difference(recorded, _deciding(recipe, model)):
        raise CommandError(f"{folder} was made by another recipe ({difference}); {_REMEDY}")


def write(folder: Path, recipe: Recipe, model: str) -> None:
    """Record in *folder* the settings of *recipe* that decide *model*."""
    atomic.write_json(_record(folder, model), _deciding(recipe, model))


def start_corpora(recipe: Recipe) -> Sequence[str]:
    """Return the names of the corpora that decide the vocabulary and the head of the initial model; () if no text does.

    Raises CommandError if texts are needed and the recipe has none.
    """
    start = recipe.start
    if not start.vocabulary and start.head == "own":
        return ()
    stages = [stage for number in STAGES if (stage := recipe.stage(number))]
    of_stages = tuple(dict.fromkeys(name for stage in stages for name in stage.queries))
    texts = recipe.pretrain or recipe.imitation
    names = texts.corpora if texts else of_stages
    if not names and start.vocabulary:
        raise CommandError(
            "start.vocabulary needs texts, and the recipe has none; give [pretrain] or [imitation] corpora, or queries"
        )
    return names


def _record(folder: Path, model: str) -> Path:
    return folder / ("start.json" if model == "start" else "recipe.json")


def _deciding(recipe: Recipe, model: str) -> dict[str, Any]:
    """Return the settings that decide the weights of *model*: no names, paths or hardware, and nothing about later models."""
    table: dict[str, Any] = json.loads(msgspec.json.encode(recipe))
    if model == "start":
        corpora = {"corpora": list(names)} if (names := start_corpora(recipe)) else {}
        exact_terms = {"exact_terms": table["exact_terms"]} if recipe.exact_terms else {}
        texts = {"leave_out": table["leave_out"]} if recipe.leave_out and (corpora or exact_terms) else {}
        return {"seed": recipe.seed, **table["start"], **corpora, **exact_terms, **texts}
    models = list(MODELS)
    without = {*_DECIDES_NOTHING, *(MODELS[later] for later in models[models.index(model) + 1 :])}
    if model in ("pretrained", "imitated"):
        without.add("selection")  # only stages select
    if model == "pretrained":
        without |= {"ranking", "text_head"}  # parts of imitation, and of what comes after it
    deciding = {name: value for name, value in table.items() if name not in without and value is not None}
    for section, settings in deciding.items():
        if isinstance(settings, dict):
            deciding[section] = {key: value for key, value in settings.items() if key not in _DECIDES_NOTHING_IN_SECTIONS}
    return deciding


def _difference(recorded: Any, expected: Any, name: str = "") -> str:
    """Return the first setting that differs, with both values, or "". A missing setting counts as None."""
    if not (isinstance(recorded, dict) and isinstance(expected, dict)):
        return "" if recorded == expected else f"{name}: {recorded!r} there, {expected!r} in the recipe"
    keys = sorted({*recorded, *expected})
    differences = (_difference(recorded.get(key), expected.get(key), f"{name}.{key}" if name else key) for key in keys)
    return next(filter(None, differences), "")
