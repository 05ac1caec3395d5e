"""What a trained folder says of itself: how to encode with it, and how it came to be, for people and for programs.

config.json has the first, README.md, a model card as the Hugging Face hub reads them, and training.json have the second.
Nothing stands there that was not given, and the same facts give the same bytes.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from lexbench.checkpoints.files import read_json
from lexbench.errors import InvalidFile
from lexbench.lexmae import _card_text
from lexbench.lexmae.facts import Data, Facts, Loss, Score, Selected, Training, What
from lexbench.lexmae.recipe import Recipe
from lexbench.storage import atomic

__all__ = ["Data", "Facts", "Loss", "Score", "Selected", "Training", "What", "finish", "read"]


def finish(folder: Path, recipe: Recipe, what: What, facts: Facts) -> None:
    """Write into *folder*, which has a model and its tokenizer, how to encode with it, its card, and training.json.

    What is there of these is replaced: a model that has been scored gets its scores by another call. InvalidFile where
    config.json does not read.
    """
    config = read_json(folder / "config.json")
    encoding: dict[str, Any] = msgspec.to_builtins(recipe.encoding)
    atomic.write_text(folder / "config.json", _json(config | {"lexbench": encoding}))
    whole = Training(schema=1, what=what, recipe=recipe, facts=facts)
    atomic.write_text(folder / "training.json", _json(msgspec.to_builtins(whole)))
    atomic.write_text(folder / "README.md", _card_text.text(recipe, what, facts))


def read(folder: Path) -> Training:
    """Return what *finish* wrote into training.json; InvalidFile where it is not there or does not read."""
    path = folder / "training.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Training)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidFile(
            f"{path}: {error}; it tells how the model was trained: train it again, or copy the file there"
        ) from None


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
