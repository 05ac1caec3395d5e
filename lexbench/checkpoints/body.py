"""Models without a head for words: a body of transformers, and what a retriever's authors have put behind it.

Read are BERT-like models, and the causal ones Llama, Mistral, Qwen2 and Qwen3, as transformers saves them under any prefix
(DPR's towers, a model with a head for words or labels that is not used), the authors' own classes (ANCE, ADORE, ColBERT,
uniCOIL), and folders of sentence-transformers. Loads torch only to load a model.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lexbench.checkpoints.adapter import adapted_tensors, model_files
from lexbench.checkpoints.causal_lm import CAUSAL_LMS
from lexbench.checkpoints.files import (
    WITH_WEIGHTS,
    CheckpointFiles,
    modules,
    transformer_folder,
    weight_files,
)
from lexbench.errors import CommandError, InvalidFile

if TYPE_CHECKING:
    import torch
    import transformers


# Saved by old versions of transformers.
_CONSTANTS = ("embeddings.position_ids", "embeddings.token_type_ids", "rotary_emb.inv_freq")
_PROJECTION = "lm_head."  # onto the vocabulary, which no encoder of bodies has a use for, and which is large


class BodyClass(NamedTuple):
    """How transformers builds the body of a model_type."""

    poolable: bool  # whether its class takes add_pooling_layer
    embedding: str = "embeddings.word_embeddings.weight"  # what stands before this in its name is the prefix of all names
    model_type: str = ""  # the model_type to build, where it is another


BODIES: Mapping[str, BodyClass] = {  # by model_type
    "bert": BodyClass(poolable=True),
    "camembert": BodyClass(poolable=True),
    "distilbert": BodyClass(poolable=False),
    "dpr": BodyClass(poolable=True, model_type="bert"),  # its two classes are a BERT each, and nothing more
    "electra": BodyClass(poolable=False),
    "ernie": BodyClass(poolable=True),
    "modernbert": BodyClass(poolable=False, embedding="embeddings.tok_embeddings.weight"),
    "mpnet": BodyClass(poolable=True),
    "roberta": BodyClass(poolable=True),
    "xlm-roberta": BodyClass(poolable=True),
    **{model_type: BodyClass(poolable=False, embedding="embed_tokens.weight") for model_type in CAUSAL_LMS},
}


@dataclass(frozen=True)
class Body:
    """What makes states of tokens, and all other tensors of the checkpoint by name."""

    body: "torch.nn.Module"  # body(input_ids, attention_mask) -> .last_hidden_state (b, l, h)
    others: "Mapping[str, torch.Tensor]"  # heads among them; of a module in a subfolder as `2_Dense/linear.weight`
    tokenizer: "transformers.PreTrainedTokenizerFast"
    config: "transformers.PretrainedConfig"


def body_files(folder: Path, *, causal: bool = False) -> CheckpointFiles:
    """Return the files of a body, with those of the sentence-transformers modules behind it, but without default settings.

    It may be a *causal* language model's. MissingData where something is not there, CommandError for other kinds of models.
    """
    model_types = [model_type for model_type in BODIES if causal or model_type not in CAUSAL_LMS]
    files = model_files(transformer_folder(folder), model_types)
    own_code = "AutoModel" in (files.config.get("auto_map") or {}) or files.config.get("is_causal") is False
    if files.config["model_type"] in CAUSAL_LMS and own_code:
        raise CommandError(
            f"{files.folder}: it is run by code of its own (auto_map or is_causal in config.json), where tokens may see what "
            "comes behind them; lexbench runs no such code: serve it, and type endpoint(url=…, model=…)"
        )
    behind = [folder / module.subfolder for module in modules(folder)[1:] if module.kind in WITH_WEIGHTS]
    return replace(files, heads=[path for subfolder in behind for path in weight_files(subfolder)])


def load_body(files: CheckpointFiles, *, dtype: "torch.dtype", device: "torch.device | str" = "cpu") -> Body:
    """Return the body, ready to encode and without gradients, and what else the files hold.

    InvalidFile where files do not read or the weights do not fit the model that config.json describes.
    """
    from transformers import AutoModel

    from lexbench.checkpoints import weights
    from lexbench.checkpoints.pretrained import load_encoding_tokenizer, load_tokenizer

    model_type = files.config["model_type"]
    body_class = BODIES[model_type]
    settings = {"add_pooling_layer": False} if body_class.poolable else {}
    model = weights.empty_model(files, AutoModel, body_class.model_type, **settings)
    expected = model.state_dict()
    tensors, others = _split(adapted_tensors(files, dtype), body_class.embedding, expected.keys(), files.folder)
    weights.check_names_and_shapes(tensors, expected, f"{files.folder}: config.json says model_type {model_type}")
    for path in files.heads:
        others |= {f"{path.parent.name}/{name}": tensor for name, tensor in weights.read_tensors([path]).items()}
    floats = {name: tensor for name, tensor in others.items() if tensor.is_floating_point()}
    body = weights.fill(model, weights.converted(tensors, dtype, device, files.folder), device)
    load = load_tokenizer if model_type in CAUSAL_LMS else load_encoding_tokenizer
    tokenizer = load(files.tokenizer_folder)
    weights.check_token_ids(tokenizer.get_vocab(), model.get_input_embeddings().num_embeddings, files.folder)
    return Body(body, weights.converted(floats, dtype, device, files.folder), tokenizer, model.config)


def _split(
    tensors: "Mapping[str, torch.Tensor]", embedding: str, expected: Collection[str], folder: Path
) -> "tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]":
    """Return the tensors of the body, without their prefix, and the others.

    The body's are those below the prefix of its *embedding* that are in the same modules as those *expected*.
    """
    from lexbench.checkpoints.weights import current_name

    by_name = {current_name(key): tensor for key, tensor in tensors.items()}
    prefixes = [name.removesuffix(embedding) for name in by_name if name.endswith(embedding)]
    if len(prefixes) != 1:
        count = f"{len(prefixes)} (under {', '.join(prefixes)})" if prefixes else "none"
        raise InvalidFile(
            f"{folder}: one tensor of the weights is to be called …{embedding}, and there is {count}; "
            "save the model that encodes by itself"
        )
    body_modules = {name.partition(".")[0] for name in expected}
    body, others = {}, {}
    for name, tensor in by_name.items():
        inner = name.removeprefix(prefixes[0])
        if name.startswith(prefixes[0]) and inner.partition(".")[0] in body_modules and not inner.endswith(_CONSTANTS):
            body[inner] = tensor
        elif not name.startswith(_PROJECTION):
            others[name] = tensor
    return body, others
