"""The kinds of models that lexbench runs: which files each needs, and how it is taken apart for encoding.

    masked-language models    LexMAE, SPLADE: BERT, DistilBERT, RoBERTa, ModernBERT, for `sparse_mlm` and `inference_free`
    causal language models    Llama, Mistral, Qwen2 and Qwen3, for `sparse_clm`
    bodies                    models without a head for words, for `dense`, `late_interaction` and `term_weights`
    sequence classifiers      for the reranker `cross_encoder`

`model_type` in config.json and the names of tensors decide how a checkpoint is read; its class name and its Python code do not.
Each kind has a function `..._files`, which needs no torch, and a function `load_...`, which imports it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.models.body_types import BODIES, CAUSAL_LMS
from lexbench.models.checkpoint import (
    ABOUT,
    ADAPTER,
    CONFIG,
    MODULES,
    WITH_WEIGHTS,
    CheckpointFiles,
    modules,
    optional_json,
    prompts,
    transformer_files,
    transformer_folder,
    weight_files,
)
from lexbench.models.lora import MERGE, adapted_tensors, model_files
from lexbench.models.native import NATIVE, MaskedLMNames, architecture
from lexbench.models.stated_modules import AUTOENCODER_MATRICES, about, length_limit, tensor_shapes, transformer
from lexbench.models.stated_settings import (
    EXACT_TERMS,
    EXACT_TERMS_FILE,
    OF_ANY_MODEL,
    TEXT_HEAD_FILE,
    VOCABULARY_RULES,
    check_body,
    instead,
    sparse_encoder_modules,
    sparse_mlm_defaults,
    states_vocabulary_rules,
)

if TYPE_CHECKING:
    import numpy as np
    import torch
    import transformers
    from numpy.typing import NDArray

    from lexbench.models.added_terms import AddedTerms
    from lexbench.models.wordpiece import WordPiece

# A body(input_ids, attention_mask) -> .last_hidden_state (b, l, h); other tensors by name; tokenizer; configuration.
Body: TypeAlias = "tuple[torch.nn.Module, Mapping[str, torch.Tensor], transformers.PreTrainedTokenizerFast, Any]"


# ---- language models -------------------------------------------------------------------------------------------------------


# The types that transformers computes; lexbench computes those in the package `native`.
_OTHERS: Mapping[str, MaskedLMNames] = {
    "distilbert": MaskedLMNames(
        "distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight", ("vocab_transform", "vocab_layer_norm")
    ),
    "roberta": MaskedLMNames(
        "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.weight",
        ("lm_head.dense", "lm_head.layer_norm"),
        ("lm_head.bias", "lm_head.decoder.bias"),
    ),
}
MASKED_LMS = tuple(sorted((*NATIVE, *_OTHERS)))  # model types


def masked_lm_tensors(model_type: str) -> MaskedLMNames:
    """Return the names of tensors in the `…ForMaskedLM` of one of MASKED_LMS."""
    own = architecture(model_type)
    return _OTHERS[model_type] if own is None else own.names


@dataclass(frozen=True)
class LanguageModel:
    """A language model in its parts: the logits of a token are `transform(states) @ weight.T + bias`."""

    body: "torch.nn.Module"  # without pooler: body(input_ids, attention_mask) -> .last_hidden_state (b, l, h)
    transform: "torch.nn.Module"  # the head up to the output projection: (…, h) -> (…, h)
    weight: "torch.Tensor"  # (vocabulary, h)
    bias: "torch.Tensor | None"  # (vocabulary,)
    tokenizer: "transformers.PreTrainedTokenizerFast | WordPiece"
    config: Any  # of transformers, or of one of our own architectures
    added: "AddedTerms | None" = None  # exact terms and the text head of a masked-language model
    fold: "NDArray[np.int64] | None" = None  # (vocabulary,) the term that each term is folded onto, if there is such a table


def masked_lm_files(folder: Path, *, documents_only: bool = False) -> CheckpointFiles:
    """Return the files of the masked-language model in *folder*, with the settings of `sparse_mlm` that it states.

    With *documents_only* it may be the document model of a Router. Raises MissingData if a file is missing, CommandError for
    other kinds of models.
    """
    has_modules = (folder / MODULES).is_file() and not states_vocabulary_rules(folder)
    listed = sparse_encoder_modules(folder, documents_only=documents_only) if has_modules else []
    if len(listed) == len(modules(folder)):  # a Router's models are in its routes
        check_body(folder, MASKED_LMS)
    files = model_files(folder / listed[0].subfolder if listed else folder, MASKED_LMS)
    defaults = sparse_mlm_defaults(folder, files.config, documents_only=documents_only)
    stated = bool(defaults.pop(EXACT_TERMS, False))
    heads = {path: "" for name in (EXACT_TERMS_FILE, TEXT_HEAD_FILE) if (path := files.folder / name).is_file()}
    needed = {EXACT_TERMS: (stated, EXACT_TERMS_FILE), "text_terms": (defaults.get("text_terms"), TEXT_HEAD_FILE)}
    for setting, (value, file) in needed.items():
        if value and files.folder / file not in heads:
            raise MissingData(
                f"{files.folder}: config.json says {setting}, and {file} is missing, which other programs do not save; copy it "
                "there from the folder of the model that was trained; for a model NAME, see: lexbench show model NAME"
            )
    return replace(files, defaults=defaults, heads=heads)


def unknown_settings(config: Mapping[str, Any]) -> list[str]:
    """Return the settings in a config.json that name code of its authors (auto_map) and that lexbench does not know.

    Only that code can say whether such a setting changes vectors. The list is empty if config.json names no code.
    """
    if not (config.get("auto_map") and config.get("model_type")):
        return []
    own = architecture(config["model_type"])
    if own is not None and own.settings:
        known = set(own.settings)
    else:
        from transformers import CONFIG_MAPPING, AutoConfig

        if config["model_type"] not in CONFIG_MAPPING:  # then the model does not load, and that error says more
            return []
        known = set(AutoConfig.for_model(config["model_type"]).to_dict())
    return sorted(set(config) - known - OF_ANY_MODEL - set(VOCABULARY_RULES))


def load_masked_lm(files: CheckpointFiles, *, dtype: "torch.dtype", device: "torch.device | str" = "cpu") -> LanguageModel:
    """Return the masked-language model, ready for inference.

    Raises InvalidFile if its files cannot be read or the weights do not fit config.json.
    """
    from lexbench.models import added_terms, loading, wordpiece

    tokenizer = wordpiece.read_wordpiece(files.tokenizer_folder) or loading.load_encoding_tokenizer(files.tokenizer_folder)
    names = masked_lm_tensors(files.config["model_type"])
    model = _empty(files, "masked_lm", "AutoModelForMaskedLM")
    tensors = loading.masked_lm_names(adapted_tensors(files, dtype), files.folder, names.embedding)
    tensors, fold = _fold_table(tensors, model.state_dict(), files)
    pairs = [names.biases] if names.biases else []
    if model.config.tie_word_embeddings:
        pairs.append((names.embedding, names.weight))
    model = _filled(model, loading.tied(tensors, pairs), files, dtype, device)
    projection = model.get_submodule(names.weight.removesuffix(".weight"))
    weight, bias = projection.weight.detach(), None if projection.bias is None else projection.bias.detach()
    loading.check_token_ids(tokenizer.get_vocab(), len(weight), files.folder)
    added = added_terms.read(files.folder, *weight.shape)
    for part in filter(None, added):
        part.to(device).eval().requires_grad_(requires_grad=False)
    return LanguageModel(*body_and_transform(model), weight, bias, tokenizer, model.config, added, fold)


def _fold_table(
    tensors: "dict[str, torch.Tensor]", expected: Iterable[str], files: CheckpointFiles
) -> "tuple[dict[str, torch.Tensor], NDArray[np.int64] | None]":
    """Return the *tensors* without a table of folded terms, and that table.

    It is the only tensor of whole numbers (vocabulary,) without one of the *expected* names. Raises InvalidFile if config.json
    says that there is one and there is none, or if its numbers are no terms.
    """
    size, others = files.config.get("vocab_size"), tensors.keys() - set(expected)
    found = {name: tensors[name] for name in others if tuple(tensors[name].shape) == (size,)}
    tables = {name: one for name, one in found.items() if not one.is_floating_point()}
    if not tables and files.defaults.get("vocab_fold", "none") != "none":
        raise InvalidFile(f"{files.folder}: config.json says vocab_fold, and no tensor ({size},) of whole numbers is its table")
    if len(tables) != 1:
        return tensors, None
    ((name, table),) = tables.items()
    if not 0 <= int(table.min()) <= int(table.max()) < len(table):
        raise InvalidFile(f"{files.folder}: {name} folds a term onto one that is not in the vocabulary")
    return {other: one for other, one in tensors.items() if other != name}, table.long().numpy()


def _empty(files: CheckpointFiles, part: str, auto_class: str, model_type: str = "", **settings: bool) -> Any:
    """Return the model that config.json describes, without values.

    It is the *part* of one of our own architectures ("body" or "masked_lm"; "" for none) if config.json is usual, else a model
    of transformers. Raises CommandError if neither has it.
    """
    from lexbench.models import loading

    loading.check_sizes(files.config, loading.tensor_names(files.weights), files.folder)
    own = architecture(files.config["model_type"]) if part else None
    if own is not None and (config := own.configuration(files.config)) is not None:
        return loading.without_values(getattr(own, part), config)
    if own is not None and own.unusual is not None:
        raise CommandError(f"{files.folder / CONFIG}: lexbench does not compute a model with {own.unusual(files.config)}")
    return loading.empty_model(files, auto_class, model_type, **settings)


def body_and_transform(model: Any) -> "tuple[torch.nn.Module, torch.nn.Module]":
    """Return the body of a `…ForMaskedLM`, and its head up to the output projection."""
    names = masked_lm_tensors(model.config.model_type)
    body, parts = getattr(model, names.body), [model.get_submodule(name) for name in names.transform]
    if len(parts) == 1:
        return body, parts[0]
    from torch.nn import GELU, Sequential

    activation: Any = GELU()  # RoBERTa's head always has it, even if config.json says otherwise
    if model.config.model_type == "distilbert":
        from transformers.activations import ACT2FN

        activation = ACT2FN[model.config.activation]
    return body, Sequential(parts[0], activation, parts[1])


def load_causal_lm(files: CheckpointFiles, *, dtype: "torch.dtype", device: "torch.device | str" = "cpu") -> LanguageModel:
    """Return the causal language model, ready for inference; it has no transform and no bias.

    Raises InvalidFile if its files cannot be read or the weights do not fit config.json.
    """
    from torch.nn import Identity

    from lexbench.models import loading

    tokenizer = loading.load_tokenizer(files.tokenizer_folder)
    model = _empty(files, "", "AutoModelForCausalLM")
    tensors = {name: tensor for name, tensor in adapted_tensors(files, dtype).items() if not name.endswith(_CONSTANTS)}
    if model.config.tie_word_embeddings:
        tensors = loading.tied(tensors, [("model.embed_tokens.weight", "lm_head.weight")])
    model = _filled(model, tensors, files, dtype, device)
    weight = model.lm_head.weight.detach()
    loading.check_token_ids(tokenizer.get_vocab(), len(weight), files.folder)
    return LanguageModel(model.model, Identity(), weight, None, tokenizer, model.config)


def _filled(
    model: Any,
    tensors: "Mapping[str, torch.Tensor]",
    files: CheckpointFiles,
    dtype: "torch.dtype",
    device: "torch.device | str",
) -> Any:
    """Return the empty *model* with all *tensors*. Raises InvalidFile if their names or shapes do not fit."""
    from lexbench.models import loading

    classes = "/".join(map(str, files.config.get("architectures") or ["no architecture named"]))
    described = f"{files.folder}: config.json says model_type {files.config['model_type']} ({classes})"
    loading.check_names_and_shapes(tensors, loading.shapes_of(model.state_dict()), described)
    return loading.fill(model, loading.converted(tensors, dtype, device, files.folder), device)


# ---- bodies ----------------------------------------------------------------------------------------------------------------

# Constants that old versions of transformers saved as tensors.
_CONSTANTS = ("embeddings.position_ids", "embeddings.token_type_ids", "rotary_emb.inv_freq")
_PROJECTION = "lm_head."  # onto the vocabulary: large, and unused by encoders of bodies


def body_files(folder: Path, *, causal: bool = False) -> CheckpointFiles:
    """Return the files of a body and of the sentence-transformers modules behind it, without stated settings.

    With *causal* it may be a causal language model. Raises MissingData if a file is missing, CommandError for other models.
    """
    if [module.kind for module in modules(folder)][:1] == ["Router"]:
        hint = instead(folder, "late_interaction") or "; give the object: lexbench.run(data, [MultiVectorEncoder(FOLDER)])"
        raise CommandError(f"{folder}: a Router, which has several models{hint}")
    model_types = [model_type for model_type in BODIES if causal or model_type not in CAUSAL_LMS]
    check_body(folder, model_types)
    files = model_files(transformer_folder(folder), model_types)
    own_code = "AutoModel" in (files.config.get("auto_map") or {}) or files.config.get("is_causal") is False
    if files.config["model_type"] in CAUSAL_LMS and own_code:
        raise CommandError(
            f"{files.folder}: this model needs its authors' code (auto_map or is_causal in config.json), and lexbench does "
            "not run such code; run it on a server, and type endpoint(url=…, model=…)"
        )
    behind = {module.subfolder: module.kind for module in modules(folder)[1:] if module.kind in WITH_WEIGHTS}
    stated = {place: tensor_shapes(folder / place, kind) for place, kind in behind.items()}
    return replace(
        files,
        heads={path: place for place in behind for path in weight_files(folder / place)},
        shapes={f"{place}/{name}": shape for place, shapes in stated.items() for name, shape in shapes.items()},
    )


def latent_files(folder: Path) -> CheckpointFiles:
    """Return the files of a body and of its sparse autoencoder, without stated settings.

    The model_type may be one of the authors' code: then that of a model in config.json counts, or the architecture whose name
    of word embeddings is in the weights. Raises the errors of `body_files`.
    """
    place = transformer_folder(folder)
    config = optional_json(place / CONFIG)
    if not config or config.get("model_type") in BODIES or (place / ADAPTER).is_file():
        return body_files(folder, causal=True)
    nested = [value for value in config.values() if isinstance(value, dict) and value.get("model_type") in BODIES]
    if len(nested) == 1:
        return replace(transformer_files(place), config=config | nested[0])
    from lexbench.models.loading import tensor_names

    files = transformer_files(place)
    names = tensor_names(files.weights)
    fitting = [kind for kind in NATIVE if any(name.endswith(_embedding(kind)) for name in names)]
    if len(fitting) != 1:
        return body_files(folder)  # it raises an error about the model_type
    return replace(files, config=config | {"model_type": fitting[0]})


def _embedding(model_type: str) -> str:
    """Return how the name of the word embeddings ends in the body of a *model_type*."""
    own = architecture(model_type)
    return BODIES[model_type].embedding if own is None else own.embedding


def load_body(files: CheckpointFiles, *, dtype: "torch.dtype", device: "torch.device | str" = "cpu") -> "Body":
    """Return the body, ready for inference, all other tensors of the checkpoint by name, the tokenizer and the configuration.

    The other tensors are e.g. heads. Tensors of a module in a subfolder have names like `2_Dense/linear.weight`. Raises
    InvalidFile if the files cannot be read or the weights do not fit config.json.
    """
    from lexbench.models import loading, wordpiece

    model_type = files.config["model_type"]
    body_class = BODIES[model_type]
    unpooled = {"add_pooling_layer": False} if body_class.poolable else {}
    model = _empty(files, "body", "AutoModel", body_class.model_type, **unpooled)
    tensors, others = _split(adapted_tensors(files, dtype), _embedding(model_type), model.state_dict(), files.folder)
    body = _filled(model, tensors, files, dtype, device)
    others |= _tensors_behind(files)
    floats = {name: tensor for name, tensor in others.items() if tensor.is_floating_point()}
    tokenizer: Any = wordpiece.read_wordpiece(files.tokenizer_folder)
    if tokenizer is None:
        load = loading.load_tokenizer if model_type in CAUSAL_LMS else loading.load_encoding_tokenizer
        tokenizer = load(files.tokenizer_folder)
    loading.check_token_ids(tokenizer.get_vocab(), model.config.vocab_size, files.folder)
    return body, loading.converted(floats, dtype, device, files.folder), tokenizer, model.config


def _tensors_behind(files: CheckpointFiles) -> "dict[str, torch.Tensor]":
    """Return the tensors of the modules after the model. Raises InvalidFile unless they are those that their configs imply."""
    from lexbench.models import loading

    found = {
        f"{place}/{name}": tensor
        for path, place in files.heads.items()
        for name, tensor in loading.read_tensors([path]).items()
    }
    places = list(dict.fromkeys(files.heads.values()))
    first, second = AUTOENCODER_MATRICES
    found = loading.tied(found, [(f"{place}/{first}", f"{place}/{second}") for place in places])
    described = f"{files.folder}: modules state their tensors ({', '.join(f'{place}/{CONFIG}' for place in places)})"
    loading.check_names_and_shapes(found, files.shapes, described)
    return found


def _split(
    tensors: "Mapping[str, torch.Tensor]", embedding: str, expected: Iterable[str], folder: Path
) -> "tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]":
    """Return the tensors of the body without their prefix, and the other tensors.

    A tensor belongs to the body if it has the prefix of the *embedding*, and is in a module of the *expected* names.
    """
    from lexbench.models.loading import current_name

    by_name = {current_name(key): tensor for key, tensor in tensors.items()}
    prefixes = [name.removesuffix(embedding) for name in by_name if name.endswith(embedding)]
    if len(prefixes) != 1:
        count = f"{len(prefixes)} (under {', '.join(prefixes)})" if prefixes else "none"
        raise InvalidFile(
            f"{folder}: exactly one tensor must have a name that ends in {embedding}, and there is {count}; "
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


# ---- sequence classifiers --------------------------------------------------------------------------------------------------

_CLASS_ENDING = "ForSequenceClassification"
_MOST_LOGITS = 2  # not relevant and relevant; a single logit means relevant
_OLD_ACTIVATION = "sbert_ce_default_activation_function"  # in config.json, until sentence-transformers 4
# Activations that keep the order of scores; the last two that of the difference of two logits.
_INCREASING = (
    *("Identity", "Sigmoid", "LogSigmoid", "Tanh", "Softplus", "Softsign", "ELU", "SELU", "CELU", "LeakyReLU"),
    *("Softmax", "LogSoftmax"),
)


def is_classifier(config: Mapping[str, Any]) -> bool:
    """Return whether a config.json describes a `…ForSequenceClassification`."""
    return any(str(name).endswith(_CLASS_ENDING) for name in config.get("architectures") or ())


def classifier_files(top: Path) -> CheckpointFiles:
    """Return the files of the reranker in the folder *top*.

    Its `defaults` may have a `length`, the most tokens of a pair. Raises MissingData if a file is missing, CommandError for
    other kinds of models and adapters, or if it puts prompts before texts or has an activation that changes the order.
    """
    if len(listed := modules(top)) > 1:
        kinds = " and ".join(module.kind for module in listed)
        raise CommandError(f"{top}: a model of {kinds}; a reranker of lexbench is a Transformer alone")
    folder = transformer_folder(top)
    if (folder / ADAPTER).is_file():
        raise CommandError(f"{folder}: an adapter, which lexbench does not merge into a reranker; {MERGE}")
    files = transformer_files(folder)
    if not is_classifier(files.config):
        classes = "/".join(map(str, files.config.get("architectures") or ["no architecture named"]))
        raise CommandError(
            f"{folder}: {classes} is no *{_CLASS_ENDING}, so it scores no pairs; a retriever scores what another found in "
            "pipeline(bm25, RETRIEVER, weights=[0, 1])"
        )
    logits = len(files.config.get("id2label") or ()) or files.config.get("num_labels") or _MOST_LOGITS  # as in transformers
    if logits > _MOST_LOGITS:
        raise CommandError(f"{folder}: it has {logits} logits; a reranker has one, or two")
    if any(prompts(top).values()):
        raise CommandError(f"{top}: it puts a prompt before texts ({ABOUT}); lexbench does not: take another reranker")
    newest, older, old = (
        optional_json(top / ABOUT),
        files.config.get("sentence_transformers"),
        files.config.get(_OLD_ACTIVATION),
    )
    stated = (newest.get("activation_fn"), older.get("activation_fn") if isinstance(older, dict) else older, old)
    increasing = _INCREASING if logits == _MOST_LOGITS else _INCREASING[:-2]
    for name in map(str, filter(None, stated)):
        if not name.startswith("torch.") or name.rpartition(".")[2] not in increasing:
            raise CommandError(f"{top}: its activation {name} may change the order of its logits; take another reranker")
    length = length_limit(folder, files.config)
    if listed:  # sentence-transformers reads its own files beside modules.json alone
        about(top, "CrossEncoder")
        keys = transformer(folder, files.config, "sequence-classification")
        if keys.lowercase or keys.expansion:
            raise CommandError(f"{folder}: it lower-cases texts or fills queries; lexbench does neither in a reranker")
        length = keys.document_length
    return replace(files, defaults={"length": length} if length else {})


def load_classifier(folder: Path) -> Any:
    """Return the classifier in *folder*, in float32. Raises InvalidFile if it cannot be read or a weight is missing."""
    from transformers import AutoModelForSequenceClassification

    from lexbench.models.loading import load_model

    model, missing = load_model(folder, AutoModelForSequenceClassification)
    if missing:
        raise InvalidFile(f"{folder}: {len(missing)} weights are missing ({missing[0]}); a reranker needs all of them")
    return model


def with_own_body(model: Any) -> Any:
    """Return a classifier of transformers with the body of our own architecture, or *model* itself if it has none."""
    from lexbench.models.loading import fill, without_values

    own = architecture(model.config.model_type)
    if own is None or own.classifier is None or not type(model).__name__.endswith(_CLASS_ENDING):
        return model
    if (config := own.configuration(model.config.to_dict())) is None:
        return model
    tensors = getattr(model, own.names.body).state_dict()
    unpooled = {name: tensor for name, tensor in tensors.items() if not name.startswith("pooler.")}
    return own.classifier(fill(without_values(own.body, config), unpooled, model.device), model).eval()
