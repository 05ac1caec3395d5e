"""The model types whose bodies lexbench runs, and how transformers builds each of them.

`architectures` loads models by this table, and `stated_settings` asks it whether `dense` runs a folder. Loads no torch.
"""

from collections.abc import Mapping
from typing import NamedTuple

from lexbench.models.native import NATIVE

CAUSAL_LMS = ("llama", "mistral", "qwen2", "qwen3")


class BodyClass(NamedTuple):
    """How transformers builds the body of a model_type."""

    poolable: bool = False  # whether its class takes add_pooling_layer
    embedding: str = "embeddings.word_embeddings.weight"  # the part of its name before this is the prefix of all names
    model_type: str = ""  # the model_type to build, if it is another


BODIES: Mapping[str, BodyClass] = {  # by model_type
    **{model_type: BodyClass() for model_type in NATIVE},
    "bert": BodyClass(poolable=True),
    "camembert": BodyClass(poolable=True),
    "distilbert": BodyClass(),
    "dpr": BodyClass(poolable=True, model_type="bert"),  # each of its two towers is a BERT
    "electra": BodyClass(),
    "ernie": BodyClass(poolable=True),
    "mpnet": BodyClass(poolable=True),
    "roberta": BodyClass(poolable=True),
    "xlm-roberta": BodyClass(poolable=True),
    **{model_type: BodyClass(embedding="embed_tokens.weight") for model_type in CAUSAL_LMS},
}
