"""Masked-language-model checkpoints, taken apart for sparse encoding. No code of a checkpoint is run, nor trusted by name.

Read are BERT, DistilBERT, RoBERTa and ModernBERT as transformers saves them, SparseEncoders of sentence-transformers, and both
forms of the authors' LexMAE, whose class names are registered nowhere: what decides is `model_type`, and the tensors' keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexbench.checkpoints import files as checkpoint_files
from lexbench.checkpoints import keys
from lexbench.checkpoints.files import Files, fetch, files
from lexbench.errors import InvalidFile

if TYPE_CHECKING:
    import torch
    import transformers


@dataclass(frozen=True)
class Checkpoint:
    """What encodes tokens, what turns states into logits (`transform(states) @ weight.T + bias`), and the tokenizer."""

    body: "torch.nn.Module"  # without pooler: body(input_ids, attention_mask) -> .last_hidden_state (b, l, h)
    transform: "torch.nn.Module"  # the head up to the output projection: (…, h) -> (…, h)
    weight: "torch.Tensor"  # (vocabulary, h)
    bias: "torch.Tensor | None"  # (vocabulary,)
    tokenizer: "transformers.PreTrainedTokenizerFast"
    config: "transformers.PretrainedConfig"
    defaults: Mapping[str, Any]  # settings of `sparse_mlm` that the folder carries


def carried(model: str, revision: str | None = None) -> dict[str, Any]:
    """Return the settings of `sparse_mlm` that *model* carries; errors as of `fetch` and `files`."""
    return files(fetch(model, revision)).defaults


def digest(model: str, revision: str | None = None) -> dict[str, str]:
    """Return the SHA-256 of all that determines the vectors, in three parts, wherever the files lie."""
    return checkpoint_files.digest(files(fetch(model, revision)))


def load(model: str, revision: str | None = None, *, dtype: "torch.dtype", device: "torch.device | str" = "cpu") -> Checkpoint:
    """Return the checkpoint in *model*, a folder or a name on the hub, ready to encode and without gradients.

    MissingData where files are not there; InvalidFile where they do not read or the weights do not fit the model that
    config.json describes; CommandError for a kind of model that lexbench does not run.
    """
    found = files(fetch(model, revision))
    tokenizer = tokenizer_of(found)
    built = _model(found, dtype, device)
    weight = built.get_output_embeddings().weight.detach()
    check_tokens(tokenizer, len(weight), found)
    body, transform = parts(built)
    bias = built.get_output_embeddings().bias
    return Checkpoint(body, transform, weight, None if bias is None else bias.detach(), tokenizer, built.config, found.defaults)


def _model(found: Files, dtype: "torch.dtype", device: "torch.device | str") -> Any:
    """Return transformers' own *ForMaskedLM with every parameter from the checkpoint, none left as it was initialised."""
    import torch
    from transformers import AutoModelForMaskedLM

    from lexbench.checkpoints import weights

    kind = found.config["model_type"]
    built = weights.unfilled(found, AutoModelForMaskedLM)
    tensors = keys.renamed(weights.read(found.weights), str(found.place))
    ties = built.config.tie_word_embeddings
    tensors = keys.tied(tensors, keys.ARCHITECTURES[kind], embeddings=ties, same=torch.equal)
    shapes, expected = ({key: tuple(value.shape) for key, value in one.items()} for one in (tensors, built.state_dict()))
    named = "/".join(map(str, found.config.get("architectures") or ["no architecture named"]))
    keys.check(shapes, expected, f"{found.place}: config.json says model_type {kind} ({named})")
    return weights.fill(built, weights.converted(tensors, dtype, device, found.place), device)


def parts(model: Any) -> "tuple[torch.nn.Module, torch.nn.Module]":
    """Return the body of a *ForMaskedLM of transformers, and its head up to the output projection."""
    from torch.nn import Sequential
    from transformers.activations import ACT2FN

    match model.config.model_type:
        case "bert":
            return model.bert, model.cls.predictions.transform
        case "distilbert":
            activation = ACT2FN[model.config.activation]
            return model.distilbert, Sequential(model.vocab_transform, activation, model.vocab_layer_norm)
        case "roberta":  # its head has GELU whatever config.json says
            return model.roberta, Sequential(model.lm_head.dense, ACT2FN["gelu"], model.lm_head.layer_norm)
        case _:
            return model.model, model.head


def tokenizer_of(found: Files) -> "transformers.PreTrainedTokenizerFast":
    """Return the tokenizer; InvalidFile where it does not load, or lacks a special token that encoding needs."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    advice = "take the tokenizer's files from the model's source again"
    try:
        tokenizer = AutoTokenizer.from_pretrained(found.place, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # tokenizers raises no class of its own
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InvalidFile(f"{found.place}: the tokenizer does not load ({reason}); {advice}") from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InvalidFile(f"{found.place}: {type(tokenizer).__name__} has no fast form; save it as tokenizer.json")
    roles = {"first": tokenizer.cls_token_id, "separating": tokenizer.sep_token_id, "padding": tokenizer.pad_token_id}
    if none := [role for role, number in roles.items() if number is None]:
        raise InvalidFile(f"{found.place}: the tokenizer has no {' and no '.join(none)} token; {advice}")
    return tokenizer


def check_tokens(tokenizer: "transformers.PreTrainedTokenizerFast", rows: int, found: Files) -> None:
    """Raise InvalidFile where the tokenizer numbers tokens that the model does not have."""
    if (largest := max(tokenizer.get_vocab().values(), default=0)) >= rows:
        raise InvalidFile(
            f"{found.place}: the tokenizer numbers its tokens up to {largest} and the model has {rows}; "
            "they do not belong together: take both from one source"
        )
