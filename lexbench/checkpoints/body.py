"""Checkpoints without a head for words: a body of transformers, and what a retriever's authors have put behind it.

Read are BERT-like models as transformers saves them under any prefix (DPR's towers, a model with a head for words or labels
that is not used), the authors' own classes (ANCE, ADORE, ColBERT, uniCOIL), and folders of sentence-transformers.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lexbench.checkpoints import keys
from lexbench.checkpoints.files import WEIGHTED, Files, transformer_files, weights
from lexbench.checkpoints.masked_lm import check_tokens, tokenizer_of
from lexbench.checkpoints.settings import modules
from lexbench.errors import InvalidFile

if TYPE_CHECKING:
    import torch
    import transformers


_CONSTANTS = ("embeddings.position_ids", "embeddings.token_type_ids")  # saved by old versions of transformers


class Architecture(NamedTuple):
    """How transformers builds the body of a model_type."""

    poolable: bool  # whether its class takes add_pooling_layer
    embedding: str = "embeddings.word_embeddings.weight"  # what stands before this name is the prefix of a file's keys
    kind: str = ""  # the model_type to build, where it is another


BODIES: Mapping[str, Architecture] = {
    "bert": Architecture(poolable=True),
    "camembert": Architecture(poolable=True),
    "distilbert": Architecture(poolable=False),
    "dpr": Architecture(poolable=True, kind="bert"),  # its two classes are a BERT each, and nothing more
    "electra": Architecture(poolable=False),
    "ernie": Architecture(poolable=True),
    "modernbert": Architecture(poolable=False, embedding="embeddings.tok_embeddings.weight"),
    "mpnet": Architecture(poolable=True),
    "roberta": Architecture(poolable=True),
    "xlm-roberta": Architecture(poolable=True),
}


@dataclass(frozen=True)
class Body:
    """What makes states of tokens, and all other tensors of the checkpoint by name."""

    body: "torch.nn.Module"  # body(input_ids, attention_mask) -> .last_hidden_state (b, l, h)
    others: "Mapping[str, torch.Tensor]"  # heads among them; of files in folders of their own as `2_Dense/linear.weight`
    tokenizer: "transformers.PreTrainedTokenizerFast"
    config: "transformers.PretrainedConfig"


def body_files(folder: Path) -> Files:
    """Return the files of a body, those of further modules of sentence-transformers among them.

    MissingData where something is not there, CommandError for other kinds of models. What the folder says about encoding is
    the encoder's to read.
    """
    listed = modules(folder)
    found = transformer_files(folder / listed[0][1] if listed else folder, BODIES)
    return replace(found, heads=[file for kind, inside in listed[1:] if kind in WEIGHTED for file in weights(folder / inside)])


def load(found: Files, *, dtype: "torch.dtype", device: "torch.device | str" = "cpu") -> Body:
    """Return the body that *found* holds, ready to encode and without gradients, and what else there is.

    InvalidFile where files do not read or the weights do not fit the model that config.json describes.
    """
    from transformers import AutoModel

    from lexbench.checkpoints import weights

    kind = found.config["model_type"]
    architecture = BODIES[kind]
    parts = {"add_pooling_layer": False} if architecture.poolable else {}
    built = weights.unfilled(found, AutoModel, architecture.kind, **parts)
    expected = built.state_dict()
    tensors, others = _divided(weights.read(found.weights), architecture.embedding, expected.keys(), found)
    shapes, wanted = ({key: tuple(value.shape) for key, value in one.items()} for one in (tensors, expected))
    keys.check(shapes, wanted, f"{found.place}: config.json says model_type {kind}")
    for file in found.heads:
        others |= {f"{file.parent.name}/{name}": tensor for name, tensor in weights.read([file]).items()}
    floats = {name: tensor for name, tensor in others.items() if tensor.is_floating_point()}
    body = weights.fill(built, weights.converted(tensors, dtype, device, found.place), device)
    tokenizer = tokenizer_of(found)
    check_tokens(tokenizer, built.get_input_embeddings().num_embeddings, found)
    return Body(body, weights.converted(floats, dtype, device, found.place), tokenizer, built.config)


def _divided(
    found: "Mapping[str, torch.Tensor]", embedding: str, expected: Collection[str], files: Files
) -> "tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]":
    """Return the tensors of the body, named as those *expected* or at least in the same modules, and the others."""
    named = {keys.of_today(name): tensor for name, tensor in found.items()}
    prefixes = [name.removesuffix(embedding) for name in named if name.endswith(embedding)]
    if len(prefixes) != 1:
        several = f"{len(prefixes)} (under {', '.join(prefixes)})" if prefixes else "none"
        raise InvalidFile(
            f"{files.place}: one tensor of the weights is to be called …{embedding}, and there is {several}; "
            "save the model that encodes by itself"
        )
    modules_of_body = {name.partition(".")[0] for name in expected}
    body, others = {}, {}
    for name, tensor in named.items():
        inside = name.removeprefix(prefixes[0])
        if name.startswith(prefixes[0]) and inside.partition(".")[0] in modules_of_body and not inside.endswith(_CONSTANTS):
            body[inside] = tensor
        else:
            others[name] = tensor
    return body, others
