"""The sizes of the model that a recipe trains, as far as files on this machine tell them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from lexbench.lexmae.recipe import Paths, Recipe, Start

_CONFIG = "config.json"


class Shape(NamedTuple):
    """A stack of transformer layers with a head over a vocabulary."""

    layers: int
    width: int  # of states
    inner: int  # width of the feed-forward layers
    vocabulary: int
    positions: int
    source: str = ""  # the file that says so

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
        """All weights: body, embeddings (which are the output projection too), and the head's dense layer."""
        return self.body + (self.vocabulary + self.positions + self.width) * self.width


BERT_BASE = Shape(12, 768, 3072, 30_522, 512, "BERT-base, for want of the model's config.json on this machine")


def of_recipe(recipe: Recipe) -> Shape:
    """Return the shape of the initial model: of the one made already, or as it will be made of a folder or of the hub's cache.

    BERT-base where none of these is here; its `source` says so.
    """
    initial = Paths(recipe).start / _CONFIG
    if initial.is_file():
        return _read(initial)
    local = Path(recipe.start.model) / _CONFIG
    config = local if local.is_file() else _cached(recipe.start)
    return _cut(_read(config), recipe.start) if config else BERT_BASE


def _cached(start: Start) -> Path | None:
    from huggingface_hub import errors, try_to_load_from_cache

    try:
        path = try_to_load_from_cache(start.model, _CONFIG, revision=start.revision)
    except errors.HFValidationError:  # a folder that does not exist, which `lexbench.lexmae.training.plan.check` refuses
        return None
    return Path(path) if isinstance(path, str) else None


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
    """Return *shape* with the layers and the vocabulary that *start* keeps."""
    layers = len(start.layers) or shape.layers
    return shape._replace(layers=layers, vocabulary=min(start.vocabulary or shape.vocabulary, shape.vocabulary))
