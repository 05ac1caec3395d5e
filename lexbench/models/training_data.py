"""The training data of a model, as its folder states it: training.json of our trainings, or `datasets:` in a model card.

Encoders and rerankers return it, so that results can say which judged queries a model has seen.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from lexbench.errors import NotationError
from lexbench.models.checkpoint import ADAPTER, optional_json, transformer_folder
from lexbench.notation import Call, Expression, parse
from lexbench.types import TrainingData

_CARD = "README.md"
_HEADER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_NAMES = {  # the name of a collection on the hub: its name in contracts
    "ms_marco": "msmarco",
    "microsoft/ms_marco": "msmarco",
    "natural_questions": "natural-questions",
    "google-research-datasets/natural_questions": "natural-questions",
    "hotpot_qa": "hotpotqa",
    "hotpotqa/hotpot_qa": "hotpotqa",
    "embedding-data/specter": "specter",
    "embedding-data/paq_pairs": "wikipedia",
    "embedding-data/qqp": "quora",
}


def training_data(folder: Path) -> TrainingData | None:
    """Return the training data of the model in *folder*, with an adapter's base model; None if the folder states none."""
    data = _stated(folder)
    base = optional_json(transformer_folder(folder) / ADAPTER).get("base_model_name_or_path")
    return data._replace(models=(*data.models, str(base))) if data and base else data


def _stated(folder: Path) -> TrainingData | None:
    training = optional_json(folder / "training.json")
    if isinstance(recipe := training.get("recipe"), dict):
        facts = training.get("facts")
        return _from_training(recipe, facts if isinstance(facts, dict) else {})
    if datasets := _card_datasets(folder / _CARD):
        return TrainingData(tuple(_NAMES.get(name.lower(), name.lower()) for name in datasets), (), (), "its card")
    return None


def _from_training(recipe: dict[str, Any], facts: dict[str, Any]) -> TrainingData:
    """Return the collections, the initial model and the teachers that training.json records."""
    uses = [(str(data.get("dataset")), data.get("use")) for data in facts.get("data") or () if isinstance(data, dict)]
    start = (recipe.get("start") or {}).get("model")
    named: dict[Any, Any] = {start: facts.get("base_model") or start}  # a local folder, and its name on the hub
    stages = [stage for stage in recipe.values() if isinstance(stage, dict)]
    teachers = [name for stage in stages for name in _teacher_models(stage.get("teacher"))]
    models = [named.get(model, model) for model in (start, *teachers) if model]
    lists = [stage["queries"] for stage in stages if isinstance(stage.get("queries"), list)]  # in [selection] it is a number
    queries = [str(name) for names in lists for name in names]
    return TrainingData(
        queries=tuple(dict.fromkeys([*queries, *(name for name, use in uses if use == "training")])),
        texts=tuple(dict.fromkeys(name for name, use in uses if use not in ("training", "selection"))),
        models=tuple(dict.fromkeys(map(str, models))),
        source="its training.json",
        chosen=tuple(dict.fromkeys(name for name, use in uses if use == "selection")),
    )


def _teacher_models(teacher: Any) -> Iterator[str]:
    """Yield the models of a *teacher*, which is a model or a system in the notation; BM25 is not trained."""
    if not isinstance(teacher, str) or "(" not in teacher:
        yield from [teacher] if isinstance(teacher, str) and teacher != "bm25" else []
        return
    try:
        waiting: list[Any] = [parse(teacher)]
    except NotationError:
        yield teacher
        return
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, Expression):
            waiting.insert(0, value.head)
        elif isinstance(value, Call):
            inner = [argument for argument in value.args if isinstance(argument, Expression | Call)]
            waiting += inner
            if not inner and value.name != "bm25":
                yield value.name


def _card_datasets(card: Path) -> list[str]:
    """Return the entries of `datasets:` in the header of a model card, which is YAML between two lines of `---`."""
    try:
        header = _HEADER.match(card.read_text(encoding="utf-8", errors="replace"))
        stated = msgspec.yaml.decode(header[1], type=dict[str, Any]).get("datasets") if header else None
    except (OSError, msgspec.MsgspecError):
        return []
    return [str(name) for name in (stated if isinstance(stated, list) else [stated] if stated else [])]
