"""Architectures that lexbench computes itself, without transformers: one file per `model_type` of config.json.

A file here adds an architecture: its constant ARCHITECTURE says how config.json is read, which modules compute the model, and
how its tensors are called. Encoders and rerankers then run it faster, also in int8. This module loads no torch.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

NATIVE = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py")))  # model types


class MaskedLMNames(NamedTuple):
    """The names of tensors in the `…ForMaskedLM` of a model_type."""

    embedding: str  # (vocabulary, h); in most models the output projection is the same tensor
    weight: str  # (vocabulary, h) the output projection
    transform: tuple[str, ...]  # the head up to the output projection: one module, or a linear layer and a normalisation
    biases: tuple[str, str] | None = None  # (vocabulary,) of the output projection, if it has two names

    @property
    def body(self) -> str:
        """The name of the body."""
        return self.embedding.partition(".")[0]


class Architecture(NamedTuple):
    """How to build the models of a model_type. The modules are for inference only: they have no dropout."""

    names: MaskedLMNames
    # The configuration from the content of config.json; None if a setting is missing or unusual.
    configuration: Callable[[Mapping[str, Any]], Any]
    body: Callable[[Any], Any]  # configuration -> module: (input_ids, attention_mask, token_type_ids) -> .last_hidden_state
    masked_lm: Callable[[Any], Any]  # configuration -> module with the parts of these names; it has no forward
    classifier: Callable[[Any, Any], Any] | None = None  # a body, a sequence classifier of transformers -> that with this body
    settings: tuple[str, ...] = ()  # of config.json, all that are known; () for those of transformers
    # What makes a config.json unusual, in words; None if transformers has the model_type.
    unusual: Callable[[Mapping[str, Any]], str] | None = None

    @property
    def embedding(self) -> str:
        """The name of the word embeddings inside the body."""
        return self.names.embedding.partition(".")[2]


@cache
def architecture(model_type: str) -> Architecture | None:
    """Return the architecture of a *model_type*, None if lexbench leaves it to transformers."""
    if model_type not in NATIVE:
        return None
    found: Architecture = import_module(f"{__name__}.{model_type}").ARCHITECTURE
    return found
