"""Masked-language models, taken apart for sparse encoding: body, head up to the output projection, and projection.

Read are BERT, DistilBERT, RoBERTa and ModernBERT as transformers saves them, SparseEncoders of sentence-transformers, and both
forms of the authors' LexMAE, whose class names are registered nowhere: what decides is `model_type`, and the tensors' names.
No code of a checkpoint is run. Loads torch only to load a model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lexbench.checkpoints.adapter import adapted_tensors, model_files
from lexbench.checkpoints.files import MODULES, CheckpointFiles
from lexbench.checkpoints.settings import EXACT_TERMS, EXACT_TERMS_FILE, sparse_encoder_modules, sparse_mlm_defaults
from lexbench.errors import MissingData

if TYPE_CHECKING:
    import torch
    import transformers

    from lexbench.checkpoints.bert import BertConfig
    from lexbench.checkpoints.exact_terms import ExactTerms
    from lexbench.checkpoints.wordpiece import WordPiece


class MaskedLMNames(NamedTuple):
    """What the `…ForMaskedLM` of a model_type calls its tensors."""

    embedding: str  # (vocabulary, h), which the output projection repeats in most models
    weight: str  # (vocabulary, h) the output projection
    biases: tuple[str, str] | None = None  # (vocabulary,) of the output projection, where that has two names for one tensor


MASKED_LMS: Mapping[str, MaskedLMNames] = {  # by model_type
    "bert": MaskedLMNames(
        "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.weight",
        ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ),
    "distilbert": MaskedLMNames("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"),
    "modernbert": MaskedLMNames("model.embeddings.tok_embeddings.weight", "decoder.weight"),
    "roberta": MaskedLMNames(
        "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight", ("lm_head.bias", "lm_head.decoder.bias")
    ),
}


@dataclass(frozen=True)
class MaskedLM:
    """What encodes tokens, what turns states into logits (`transform(states) @ weight.T + bias`), and the tokenizer."""

    body: "torch.nn.Module"  # without pooler: body(input_ids, attention_mask) -> .last_hidden_state (b, l, h)
    transform: "torch.nn.Module"  # the head up to the output projection: (…, h) -> (…, h)
    weight: "torch.Tensor"  # (vocabulary, h)
    bias: "torch.Tensor | None"  # (vocabulary,)
    tokenizer: "transformers.PreTrainedTokenizerFast | WordPiece"
    config: "transformers.PretrainedConfig | BertConfig"
    exact_terms: "ExactTerms | None" = None  # weights of a text's own word pieces, where the folder has them


def masked_lm_files(folder: Path, *, documents_alone: bool = False) -> CheckpointFiles:
    """Return the files of the masked-language model in *folder*, with the settings of `sparse_mlm` that it states.

    With *documents_alone* it may be a Router's, whose queries go through no model. MissingData where something is not there,
    CommandError for other kinds of models.
    """
    listed = sparse_encoder_modules(folder, documents_alone=documents_alone) if (folder / MODULES).is_file() else []
    files = model_files(folder / listed[0].subfolder if listed else folder, MASKED_LMS)
    defaults = sparse_mlm_defaults(folder, files.config, documents_alone=documents_alone)
    stated = bool(defaults.pop(EXACT_TERMS, False))
    exact_terms = [path] if (path := files.folder / EXACT_TERMS_FILE).is_file() else []
    if stated and not exact_terms:
        raise MissingData(
            f"{folder}: config.json says {EXACT_TERMS}, and {path.name} is missing; copy it from the model's source"
        )
    return replace(files, defaults=defaults, heads=exact_terms)


def load_masked_lm(files: CheckpointFiles, *, dtype: "torch.dtype", device: "torch.device | str" = "cpu") -> MaskedLM:
    """Return the model, ready to encode and without gradients.

    InvalidFile where files do not read or the weights do not fit the model that config.json describes.
    """
    from lexbench.checkpoints import exact_terms, weights
    from lexbench.checkpoints.wordpiece import read_wordpiece

    tokenizer = read_wordpiece(files.tokenizer_folder) or _by_transformers(files.tokenizer_folder)
    model = _load(files, dtype, device)
    projection = model.get_output_embeddings()
    weight = projection.weight.detach()
    weights.check_token_ids(tokenizer.get_vocab(), len(weight), files.folder)
    body, transform = body_and_transform(model)
    bias = None if projection.bias is None else projection.bias.detach()
    terms = exact_terms.read(files.folder, len(weight))
    terms = terms and terms.to(device).eval().requires_grad_(requires_grad=False)
    return MaskedLM(body, transform, weight, bias, tokenizer, model.config, terms)


def _by_transformers(folder: Path) -> "transformers.PreTrainedTokenizerFast":
    from lexbench.checkpoints.pretrained import load_encoding_tokenizer

    return load_encoding_tokenizer(folder)


def _load(files: CheckpointFiles, dtype: "torch.dtype", device: "torch.device | str") -> Any:
    """Return a `…ForMaskedLM` with every parameter from the checkpoint, none left as it was initialised."""
    from lexbench.checkpoints import weights

    model_type = files.config["model_type"]
    names = MASKED_LMS[model_type]
    model = _empty_model(files)
    tensors = weights.masked_lm_names(adapted_tensors(files, dtype), files.folder)
    pairs = [names.biases] if names.biases else []
    if model.config.tie_word_embeddings:
        pairs.append((names.embedding, names.weight))
    tensors = weights.tied(tensors, pairs)
    classes = "/".join(map(str, files.config.get("architectures") or ["no architecture named"]))
    described = f"{files.folder}: config.json says model_type {model_type} ({classes})"
    weights.check_names_and_shapes(tensors, model.state_dict(), described)
    return weights.fill(model, weights.converted(tensors, dtype, device, files.folder), device)


def _empty_model(files: CheckpointFiles) -> Any:
    """Return the `…ForMaskedLM` that config.json describes: ours where it is an ordinary BERT, else transformers' own."""
    from lexbench.checkpoints import bert, weights

    weights.check_sizes(files.config, weights.tensor_names(files.weights), files.folder)
    if (model := bert.empty_model(files.config)) is not None:
        return model
    from transformers import AutoModelForMaskedLM

    return weights.empty_model(files, AutoModelForMaskedLM)


def body_and_transform(model: Any) -> "tuple[torch.nn.Module, torch.nn.Module]":
    """Return the body of a `…ForMaskedLM`, and its head up to the output projection."""
    if model.config.model_type == "bert":
        return model.bert, model.cls.predictions.transform
    from torch.nn import Sequential
    from transformers.activations import ACT2FN

    match model.config.model_type:
        case "distilbert":
            activation = ACT2FN[model.config.activation]
            return model.distilbert, Sequential(model.vocab_transform, activation, model.vocab_layer_norm)
        case "roberta":  # its head has GELU whatever config.json says
            return model.roberta, Sequential(model.lm_head.dense, ACT2FN["gelu"], model.lm_head.layer_norm)
        case _:
            return model.model, model.head
