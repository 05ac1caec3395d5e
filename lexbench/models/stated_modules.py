"""What the files of a sentence-transformers folder say, file by file: its prompts and similarity, and the keys of each module.

A key that has an effect is returned or refused by its name. A key that is not known here is refused too. `stated_settings`
makes settings of encoders from this. The keys are those of sentence-transformers 2 to 6.2. Loads no torch.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lexbench.arrays.vectors import similarity_of
from lexbench.errors import CommandError, InvalidFile, shortened
from lexbench.models.checkpoint import (
    ABOUT,
    AGAIN,
    OLD_TRANSFORMER,
    TRANSFORMER,
    Module,
    optional_json,
    read_json,
    stated_longest,
)

T = TypeVar("T")

POOLINGS = ("mean", "cls", "last", "max", "mean_sqrt_len", "weightedmean")
# Steps of a head: layers with weights, then functions, by the names of their classes in torch.nn.
LAYERS = ("linear", "layernorm")
ACTIVATIONS = {
    "tanh": "Tanh", "relu": "ReLU", "gelu": "GELU", "sigmoid": "Sigmoid", "silu": "SiLU", "mish": "Mish", "elu": "ELU",
    "softplus": "Softplus", "leakyrelu": "LeakyReLU", "hardtanh": "Hardtanh",
}  # fmt: skip
STEPS = (*LAYERS, "residual", "normalize", *ACTIVATIONS)

_POOLING_NAMES = {"lasttoken": "last", "mean_sqrt_len_tokens": "mean_sqrt_len"}
_OLD_POOLINGS = (  # switches of versions before 5.4, in the order in which their vectors are joined
    "cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken",
)  # fmt: skip
HEAD_MODULES = ("Dense", "LayerNorm", "Normalize")
AUTOENCODER_MATRICES = ("encoder.weight", "decoder.linear.weight")  # one matrix, of which files have either name
_TEXT = {"feature-extraction": "last_hidden_state", **dict.fromkeys(("fill-mask", "sequence-classification"), "logits")}
_EXPANSION = {"strategy", "length", "attend", "token"}
_FUNCTION_PREFIX = "torch.nn."
_NO_LIMIT = 10**9  # tokens; transformers writes 10**30 for none
_SHOWN = 60  # characters of a value in a message
_INSTEAD = ", or give the object: lexbench.run(data, [%s(FOLDER)])"


class Keys:
    """The settings in one JSON file. Each is taken by its name, and `end` refuses those that are left."""

    def __init__(self, path: Path, *, optional: bool = False, kind: str = "SentenceTransformer") -> None:
        self._path = path
        # Objects of rerankers, and of ColBERT's authors, cannot be given to `lexbench.run`.
        self.instead = _INSTEAD % kind if kind not in ("CrossEncoder", "") else "; take another model"
        self._left = dict(optional_json(path) if optional else read_json(path))

    def take(self, name: str, default: Any = None) -> Any:
        """Return the value of *name*; *default* if it is missing or null."""
        value = self._left.pop(name, None)
        return default if value is None else value

    def typed(self, name: str, default: T) -> T:
        """Return the value of *name*, *default* if it is missing. Raises CommandError unless it is of the default's type.

        Libraries take "false" for true, and some of them null for false.
        """
        value = self._left.pop(name, default)
        if type(value) is not type(default):
            raise self.refusal(name, value)
        return value

    def count(self, name: str) -> int:
        """Return a number above 0; 0 if it is missing or null. Raises CommandError for any other value."""
        value = self.take(name)
        if value is not None and (type(value) is not int or value < 1):
            raise self.refusal(name, value)
        return value or 0

    def only(self, name: str, *allowed: Any) -> None:
        """Take *name*. Raises CommandError unless it is missing, null or one of *allowed*."""
        if (value := self.take(name)) is not None and value not in allowed:
            raise self.refusal(name, value)

    def refusal(self, name: str, value: Any) -> CommandError:
        """Return the error for a *value* that lexbench does not do."""
        shown = shortened(repr(value), _SHOWN)
        return CommandError(f"{self._path}: {name} is {shown}, which lexbench does not do{self.instead}")

    def end(self, *without_effect: str) -> None:
        """Raise CommandError if a key is left that has a value and is not one of those *without_effect*."""
        if left := [name for name, value in self._left.items() if value is not None and name not in without_effect]:
            value = shortened(repr(self._left[left[0]]), _SHOWN)
            raise CommandError(
                f"{self._path}: lexbench does not know the setting {left[0]} ({value}), so its vectors could be others; remove "
                f"it if it has no effect{self.instead}"
            )


# ---- the whole folder ------------------------------------------------------------------------------------------------------


class About(NamedTuple):
    """What config_sentence_transformers.json says of the whole model."""

    similarity: str  # "" if it says nothing
    dimensions: int  # of cut vectors; 0: they are whole
    terms: int  # largest weights of sparse vectors that are kept; 0: all
    query_prompt: str
    document_prompt: str


_PYLATE_KEYS = (  # of PyLate 1; `stated_settings` reads them
    "query_length", "document_length", "query_prefix", "document_prefix", "attend_to_expansion_tokens", "skiplist_words",
    "do_query_expansion",
)  # fmt: skip


def about(folder: Path, *model_types: str) -> About:
    """Return what a *folder* says of the whole model.

    Raises CommandError for a key that lexbench does not know, or a model that is none of *model_types*.
    """
    keys = Keys(folder / ABOUT, optional=True, kind=model_types[0])
    if (kind := keys.take("model_type")) not in (None, *model_types):
        raise CommandError(f"{folder}: a {kind}, and no {model_types[0]} ({ABOUT})")
    by_name = keys.take("prompts", {})
    default_name = keys.take("default_prompt_name", "")
    if default_name and default_name not in {*by_name, "query", "document"}:  # these two may be missing, and are then empty
        raise CommandError(
            f"{folder / ABOUT}: default_prompt_name is {default_name!r}, and there is no such prompt{keys.instead}"
        )
    if not all(isinstance(prompt or "", str) for prompt in by_name.values()):
        raise keys.refusal("prompts", by_name)
    stated = keys.take("similarity_fn_name")

    found = About(
        similarity_of(stated, str(folder / ABOUT)) if stated else "",
        keys.count("truncate_dim"),
        keys.count("max_active_dims"),
        by_name.get("query") or "",
        by_name.get("document") or "",
    )
    legacy = () if "MultiVectorEncoder" in model_types else _PYLATE_KEYS  # which that class takes as its own settings
    keys.end("__version__", "activation_fn", *legacy)  # a reranker's activation keeps the order
    return found


def unused_prompts(by_name: Mapping[str, str], default_name: str | None, instead: str) -> list[str]:
    """Return notes on prompts that seem to be meant for all queries or documents, and that sentence-transformers leaves out.

    Its `encode_query` and `encode_document` put the prompts "query" and "document" before texts, which are empty if a model
    states none: there is no way to the default prompt, and none to "passage" and "corpus". *instead* is what to type, with
    {side} for "query" or "document", and {prompt}.
    """
    texts = {"query": "queries", "document": "documents"}
    meant = [("document", name) for name in ("passage", "corpus")] + [(side, default_name or "") for side in texts]
    return [
        f"its prompt {name!r} is put before no {texts[side]}, as in sentence-transformers; to put it there, "
        + instead.format(side=side, prompt=shortened(repr(by_name[name]), _SHOWN))
        for side, name in dict.fromkeys(meant)
        if by_name.get(name) and not by_name.get(side) and name not in texts
    ]


# ---- modules ---------------------------------------------------------------------------------------------------------------


class TransformerKeys(NamedTuple):
    """What a module Transformer says."""

    query_length: int  # 0: it says nothing
    document_length: int
    lowercase: bool
    expansion: Mapping[str, Any]  # of queries, for late interaction; {}: none


def transformer(
    folder: Path, config: Mapping[str, Any], task: str = "feature-extraction", kind: str = "SentenceTransformer"
) -> TransformerKeys:
    """Return what the module Transformer in *folder* says; *config* is its config.json. *task* is what it must be for.

    *kind* is the class of the whole model, for messages.
    """
    name = next((name for name in (TRANSFORMER, *OLD_TRANSFORMER) if (folder / name).is_file()), TRANSFORMER)
    keys = Keys(folder / name, optional=True, kind=kind)
    length = keys.count("max_seq_length")
    length = length or length_limit(folder, config)  # since version 6
    keys.only("transformer_task", task)
    for modality, way in keys.take("modality_config", {}).items():
        if modality != "text" or way.get("method", "forward") != "forward" or way.get("method_output_name") != _TEXT[task]:
            raise keys.refusal("modality_config", {modality: way})
    keys.only("module_output_name", "scores" if task == "sequence-classification" else "token_embeddings")
    for name in ("processing_kwargs", "model_args", "tokenizer_args", "config_args"):
        keys.only(name, {})
    if task == "sequence-classification":  # a reranker does not read these two
        keys.only("query_length")
        keys.only("document_length")
    expansion = keys.take("query_expansion", {})
    if expansion and (expansion.get("strategy") not in ("fixed", "min") or not _EXPANSION.issuperset(expansion)):
        raise keys.refusal("query_expansion", expansion)
    found = TransformerKeys(
        keys.count("query_length") or length,
        keys.count("document_length") or length,
        keys.typed("do_lower_case", False) and not _lower_cases(folder),
        expansion,
    )
    keys.end("unpad_inputs")
    return found


def _lower_cases(folder: Path) -> bool:
    """Return whether the tokenizer in *folder* lower-cases texts itself."""
    normalizer = optional_json(folder / "tokenizer.json").get("normalizer") or {}
    steps = normalizer.get("normalizers") or [normalizer]
    by_itself = any(step.get("type") == "Lowercase" or step.get("lowercase") is True for step in steps)
    return by_itself and optional_json(folder / "tokenizer_config.json").get("do_lower_case") is not False


def length_limit(folder: Path, config: Mapping[str, Any]) -> int:
    """Return the most tokens of a text by the tokenizer in *folder* or by the model's *config*; 0 if both state none."""
    tokenizer = optional_json(folder / "tokenizer_config.json")
    limits = tokenizer.get("model_max_length", tokenizer.get("max_len")), stated_longest(config)  # max_len is its old name
    return min((limit for limit in limits if type(limit) is int and limit < _NO_LIMIT), default=0)


class PoolingKeys(NamedTuple):
    """What a module Pooling says."""

    pooling: str  # some of POOLINGS, joined by +
    pools_prompt: bool


def pooling(folder: Path) -> PoolingKeys:
    """Return what the module Pooling in *folder* says. Its modes have two forms: `pooling_mode`, or a boolean for each."""
    keys = Keys(folder / "config.json")
    switches = {name: keys.typed(f"pooling_mode_{name}", False) for name in _OLD_POOLINGS}
    old = [name.removesuffix("_tokens").removesuffix("_token") for name, on in switches.items() if on]
    old = ["mean_sqrt_len" if name == "mean_sqrt_len_tokens" else name for name in old]
    stated = keys.take("pooling_mode", old or ["mean"])
    modes = [_POOLING_NAMES.get(mode, mode) for mode in ([stated] if isinstance(stated, str) else stated)]
    if unknown := [mode for mode in modes if mode not in POOLINGS]:
        raise CommandError(f"{folder}: it pools by {unknown[0]!r}; lexbench does {', '.join(POOLINGS)}")
    found = PoolingKeys("+".join(modes), keys.typed("include_prompt", True))
    keys.end("embedding_dimension", "word_embedding_dimension")
    return found


def head(folder: Path, listed: Sequence[Module], stream: str = "sentence_embedding") -> list[str]:
    """Return the steps of the modules behind the pooling (or, of token vectors, in the *stream* "token_embeddings").

    Raises CommandError for a module that is no step of a head.
    """
    steps: list[str] = []
    kind = "SentenceTransformer" if stream == "sentence_embedding" else "MultiVectorEncoder"
    for module in listed:
        place = folder / module.subfolder / "config.json"
        if module.kind in ("Dropout", "MultiVectorMask"):  # the first does nothing when a model encodes
            continue
        if module.kind not in HEAD_MODULES or (module.kind == "LayerNorm" and stream != "sentence_embedding"):
            raise CommandError(f"{folder}: a module {module.kind}, which lexbench does not run{_INSTEAD % kind}")
        keys = Keys(place, optional=module.kind == "Normalize", kind=kind)
        keys.only("module_input_name", stream)
        keys.only("module_output_name", stream)
        if module.kind == "Normalize":
            steps.append("normalize")
        elif module.kind == "LayerNorm":
            steps.append("layernorm")
        else:
            steps += ["linear", *_activation(keys), *(["residual"] if keys.typed("use_residual", False) else [])]
        keys.end("in_features", "out_features", "bias", "dimension")
    return steps


def tensor_shapes(folder: Path, kind: str) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of the module in *folder* by its config.json; *kind* is one of WITH_WEIGHTS.

    Raises InvalidFile for a size that is no number.
    """
    keys = Keys(folder / "config.json")

    def size(name: str, default: int | None = None) -> int:
        value = keys.take(name, default)
        if type(value) is not int:
            raise InvalidFile(f"{folder / 'config.json'}: {name} must be a whole number, and is {value!r}; {AGAIN}")
        return value

    if kind == "LayerNorm":
        return dict.fromkeys(("norm.weight", "norm.bias"), (size("dimension"),))
    if kind == "SparseAutoEncoder":
        features, width = size("hidden_dim", 512), size("input_dim")
        matrices = dict.fromkeys(AUTOENCODER_MATRICES, (features, width))
        return {**matrices, "latent_bias": (features,), "pre_bias": (width,), "stats_last_nonzero": (features,)}
    outputs, inputs = size("out_features"), size("in_features")
    biases = {"linear.bias": (outputs,)} if keys.typed("bias", True) else {}
    is_projected = keys.typed("use_residual", False) and inputs != outputs
    return {"linear.weight": (outputs, inputs), **biases, **({"residual.weight": (outputs, inputs)} if is_projected else {})}


def _activation(keys: Keys) -> list[str]:
    """Return the step of a Dense layer's activation, [] for none. Classes outside torch are code of the authors."""
    name = str(keys.take("activation_function", f"{_FUNCTION_PREFIX}Tanh"))
    kind = name.rpartition(".")[2]
    if kind == "Identity":
        return []
    if name.startswith(_FUNCTION_PREFIX) and (step := next((step for step, one in ACTIVATIONS.items() if one == kind), "")):
        return [step]
    raise keys.refusal("activation_function", name)


def splade_pooling(folder: Path) -> tuple[str, str]:
    """Return how the module SpladePooling in *folder* pools, "max" or "sum", and its activation."""
    keys = Keys(folder / "config.json", kind="SparseEncoder")
    found = keys.take("pooling_strategy", "max"), keys.take("activation_function", "relu")
    if found[0] not in ("max", "sum"):
        raise keys.refusal("pooling_strategy", found[0])
    keys.end("embedding_dimension", "word_embedding_dimension", "chunk_size")
    return found


class MaskKeys(NamedTuple):
    """What a module MultiVectorMask says: which tokens have no vector."""

    words: Sequence[str]
    in_queries: bool
    in_documents: bool


def mask(folder: Path, listed: Sequence[Module]) -> MaskKeys:
    """Return what the MultiVectorMask among the *listed* modules says; no tokens if there is none."""
    place = next((folder / module.subfolder for module in listed if module.kind == "MultiVectorMask"), None)
    if place is None:
        return MaskKeys((), in_queries=False, in_documents=False)
    keys = Keys(place / "config.json")
    tasks = keys.take("skiplist_tasks", ["document"])
    keys.only("keep_only_token_ids", [])
    words = keys.take("skiplist_words", [])
    keys.end()
    return MaskKeys(words, "query" in tasks, "document" in tasks)
