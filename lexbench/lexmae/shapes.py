"""The sizes of the model that a recipe trains, as far as this machine knows them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from lexbench.lexmae.places import Places
from lexbench.lexmae.recipe import Recipe, Start

_CONFIG = "config.json"


class Shape(NamedTuple):
    """A stack of transformer layers with a head over a vocabulary."""

    layers: int
    width: int  # of states
    inner: int  # width of the feed-forward layers
    vocabulary: int
    positions: int
    source: str = ""  # where this is from

    @property
    def layer(self) -> int:
        """Weights of one layer, without biases: four matrices of attention, two of the feed-forward layer."""
        return 4 * self.width**2 + 2 * self.width * self.inner

    @property
    def body(self) -> int:
        """Weights that every token passes through."""
        return self.layers * self.layer

    @property
    def parameters(self) -> int:
        """All of them: body, embeddings (which are the output projection too), and the head's dense layer."""
        return self.body + (self.vocabulary + self.positions + self.width) * self.width


BERT_BASE = Shape(12, 768, 3072, 30_522, 512, "BERT-base, for want of the model's config.json on this machine")


def of_recipe(recipe: Recipe) -> Shape:
    """Return the shape of the initial model: made already, or as the recipe makes it of a folder or a model of the hub's cache.

    BERT-base where none of these is here; its `source` then says so.
    """
    made = Places(recipe).start / _CONFIG
    if made.is_file():
        return _read(made)
    given = Path(recipe.start.model) / _CONFIG
    cached = given if given.is_file() else _cached(recipe.start)
    return _cut(_read(cached), recipe.start) if cached else BERT_BASE


def _cached(start: Start) -> Path | None:
    from huggingface_hub import errors, try_to_load_from_cache

    try:
        found = try_to_load_from_cache(start.model, _CONFIG, revision=start.revision)
    except errors.HFValidationError:  # a folder that is not there, which is complained of elsewhere
        return None
    return Path(found) if isinstance(found, str) else None


def _read(path: Path) -> Shape:
    """Return the shape in a config.json, of BERT or one that calls its sizes as DistilBERT does."""
    config = json.loads(path.read_bytes())

    def size(*names: str) -> Any:
        return next(config[name] for name in names if name in config)

    return Shape(
        size("num_hidden_layers", "n_layers"),
        size("hidden_size", "dim"),
        size("intermediate_size", "hidden_dim"),
        size("vocab_size"),
        size("max_position_embeddings"),
        str(path),
    )


def _cut(shape: Shape, start: Start) -> Shape:
    layers = len(start.layers) or shape.layers
    return shape._replace(layers=layers, vocabulary=min(start.vocabulary or shape.vocabulary, shape.vocabulary))
