"""Reading tensors, tokenizers and whole models from files, with one-line errors that name what is wrong.

Nothing is unpickled and no code of a checkpoint is run. `architectures` builds models from these functions; LexMAE's training
also uses them directly. Needs torch; transformers is imported only when it is needed, because that takes two seconds.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lexbench.errors import CannotStart, InvalidFile, LexbenchError, listed
from lexbench.models.checkpoint import AGAIN, CONFIG, SENTENCEPIECE, CheckpointFiles, first_line, optional_json, tokenizer_files

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_MODEL_AGAIN = "take the model from its source again"
_UNKNOWN_TEXT = "\U00013080 \u2603"  # a hieroglyph and a snowman, at which a tokenizer without [UNK] fails
_NO_SIZES = ("model_type", "auto_map", "attn_implementation", "_attn_implementation")  # transformers chooses the attention
_CONVERTERS = ("sentencepiece", "google", "google.protobuf")  # modules; a package comes before what is in it
_DRAWS = (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_)
_LAYER = re.compile(r"\.layers?\.([0-9]{1,9})\.")  # in the name of a tensor
_LAYERS = ("num_hidden_layers", "n_layers")  # settings that state the number of layers
_SIZE = re.compile(r"size$|dim$|^num_|^n_|^max_position")  # names of settings that state a size
_LARGEST = 10**7
_LISTED = 12  # names in one message, per kind of misfit
_WRAPPERS = re.compile(r"^(?:(?:module|_orig_mod|encoder)\.)+")  # DistributedDataParallel, torch.compile, LexMAE's learner
_OLD_NORM = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}  # converted from TensorFlow
# Tensors for training only: LexMAE's decoder and reranker, poolers, next-sentence heads, saved constants.
_UNUSED = re.compile(
    r"^(?:decoder_heads|decoder_cls|decoder_lm_head|reranker|cls\.seq_relationship)\."
    r"|^decoder_vocab_|\.pooler\.|\.embeddings\.(?:position|token_type)_ids$"
)


# ---- tensors of files ------------------------------------------------------------------------------------------------------


def read_tensors(paths: Iterable[Path]) -> dict[str, Tensor]:
    """Return the tensors of all files by name. Raises InvalidFile if a file is cut or has anything but tensors in it."""
    tensors: dict[str, Tensor] = {}
    for path in paths:
        try:
            tensors |= load_file(path) if path.suffix == ".safetensors" else _read_pickle(path)
        except (SafetensorError, OSError) as error:
            raise _damaged(path, error) from error
    return tensors


def _damaged(path: Path, error: Exception) -> InvalidFile:
    return InvalidFile(f"{path}: not a valid safetensors file ({error}), so it is cut or damaged; {AGAIN}")


def _read_pickle(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file of torch.save; torch's reader with `weights_only` creates nothing but tensors."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about the pickle's version; the errors below say more
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise InvalidFile(
            f"{path}: this pickle has more than tensors in it, and unpickling the rest could run any program; "
            "save the model as safetensors where you trust it"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError) as error:
        raise InvalidFile(f"{path}: torch cannot read it ({first_line(error)}), so it is cut or damaged; {AGAIN}") from error
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise InvalidFile(f"{path}: expected a table of tensors by name; save the model by save_pretrained")
    return tensors


def tensor_names(paths: Iterable[Path]) -> list[str]:
    """Return the names of the tensors in safetensors files, reading only their headers; other files are skipped."""
    names: list[str] = []
    for path in paths:
        if path.suffix == ".safetensors":
            try:
                with safe_open(path, framework="pt") as file:
                    names += file.keys()
            except (SafetensorError, OSError) as error:
                raise _damaged(path, error) from error
    return names


# ---- names of tensors ------------------------------------------------------------------------------------------------------


def current_name(name: str) -> str:
    """Return the name that transformers uses today for a tensor saved by an old version."""
    for old, new in _OLD_NORM.items():
        name = name.replace(old, new)
    return name


def masked_lm_names(tensors: Mapping[str, Tensor], folder: Path, embedding: str) -> dict[str, Tensor]:
    """Return the tensors that encoding uses, by the names of a `…ForMaskedLM` whose word embeddings are called *embedding*.

    The prefix that a class around the model has given to all names is removed. Raises InvalidFile if two tensors get the same
    name.
    """
    renamed: dict[str, Tensor] = {}
    keys: dict[str, str] = {}
    names = {key: current_name(_WRAPPERS.sub("", key)) for key in tensors}
    around = [name.removesuffix(embedding) for name in names.values() if name.endswith(f".{embedding}")]
    prefix = around[0] if len(around) == 1 and embedding not in names.values() else ""
    for key, tensor in tensors.items():
        name = names[key].removeprefix(prefix)
        if _UNUSED.search(name):
            continue
        if name in renamed:
            raise InvalidFile(f"{folder}: the keys {keys[name]} and {key} both mean {name}; keep one of them")
        renamed[name], keys[name] = tensor, key
    return renamed


def tied(tensors: Mapping[str, Tensor], pairs: Iterable[tuple[str, str]]) -> dict[str, Tensor]:
    """Return *tensors* with both names of each of *pairs*, two names for one tensor. Files often have only one of them.

    Two equal tensors of a file become one. Two different ones stay, which is also what transformers does.
    """
    filled = dict(tensors)
    for first, second in pairs:
        if first not in filled and second in filled:
            filled[first] = filled[second]
        elif first in filled and (second not in filled or torch.equal(filled[first], filled[second])):
            filled[second] = filled[first]
    return filled


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def check_names_and_shapes(tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]], model: str) -> None:
    """Raise InvalidFile unless *tensors* have the *expected* names and shapes; the message lists the misfits of *model*."""
    shapes = shapes_of(tensors)
    shared = sorted(shapes.keys() & expected.keys())
    wrong = [f"{name} {shapes[name]} for {expected[name]}" for name in shared if shapes[name] != expected[name]]
    misfits = {
        "missing": sorted(expected.keys() - shapes.keys()),
        "unexpected": sorted(shapes.keys() - expected.keys()),
        "of another shape": wrong,
    }
    if lists := [f"{len(names)} {kind} ({listed(names, _LISTED)})" for kind, names in misfits.items() if names]:
        raise InvalidFile(f"{model}, but its weights do not fit: {'; '.join(lists)}")


# ---- tensors into a model --------------------------------------------------------------------------------------------------


def check_sizes(config: Mapping[str, Any], names: Iterable[str], folder: Path) -> None:
    """Raise InvalidFile if config.json describes a model so large that building it would not end.

    That is a model with more layers than the tensors called *names* (if any), or with a size that no model has.
    """
    numbered = [int(layer[1]) for name in names if (layer := _LAYER.search(f".{name}"))]
    layers = next((config[name] for name in _LAYERS if type(config.get(name)) is int), 0)
    if numbered and layers > max(numbered) + 1:
        raise InvalidFile(f"{folder / CONFIG}: it has {layers:,} layers, but the weights have {max(numbered) + 1}; {AGAIN}")
    for name, value in config.items():
        if type(value) is int and _SIZE.search(name) and value > _LARGEST:
            raise InvalidFile(f"{folder / CONFIG}: {name} is {value:,}, which no model has; {AGAIN}")


def check_token_ids(vocabulary: Mapping[str, int], embeddings: int, folder: Path) -> None:
    """Raise InvalidFile if a tokenizer of that *vocabulary* gives an id that the model's *embeddings* do not have."""
    if (largest := max(vocabulary.values(), default=0)) >= embeddings:
        raise InvalidFile(
            f"{folder}: the tokenizer numbers its tokens up to {largest} and the model has {embeddings}; "
            "they do not belong together: take both from one source"
        )


class WithoutValues(TorchFunctionMode):
    """Context in which parameters take no memory; constants that a model computes itself keep their values."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call *func*, but `torch.empty` on the meta device, and draw no random numbers."""
        del types
        kwargs = dict(kwargs or {})
        # Random numbers on the meta device would make torch import half of itself.
        if func in _DRAWS and kwargs["tensor"].is_meta:
            return kwargs["tensor"]
        if func is torch.empty:
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


def without_values(model_class: Callable[[Any], Any], config: Any) -> Any:
    """Return model_class(config), a module whose parameters take no memory yet."""
    with WithoutValues():
        return model_class(config)


def empty_model(files: CheckpointFiles, auto_class: str, model_type: str = "", **settings: bool) -> Any:
    """Return the model that config.json describes, without values: initialising its parameters would take seconds.

    *auto_class* of transformers chooses the class, by *model_type* if given. *settings* are arguments of that class. Raises
    InvalidFile if no model can be made.
    """
    import transformers

    sizes = {key: value for key, value in files.config.items() if key not in _NO_SIZES}
    try:
        config = transformers.AutoConfig.for_model(model_type or files.config["model_type"], **sizes)
        with WithoutValues():
            return getattr(transformers, auto_class).from_config(config, dtype=torch.float32, **settings)
    except Exception as error:  # settings that do not fit each other raise errors of any class
        raise InvalidFile(f"{files.folder / CONFIG}: no model can be made from it ({first_line(error)}); {AGAIN}") from error


def converted(tensors: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device | str, folder: Path) -> dict[str, Tensor]:
    """Return copies of *tensors* as *dtype* on *device*; tensors that share memory still do.

    Raises InvalidFile if one has whole numbers, as those of quantised models.
    """
    if whole := [name for name, tensor in tensors.items() if not tensor.is_floating_point()]:
        raise InvalidFile(f"{folder}: {whole[0]} has the type {tensors[whole[0]].dtype}; take the model that is not quantised")
    copies: dict[tuple[int, tuple[int, ...]], Tensor] = {}
    for tensor in tensors.values():
        if _memory(tensor) not in copies:  # always a copy: a tensor of safetensors may be the mapped file itself
            copies[_memory(tensor)] = tensor.to(device=device, dtype=dtype, copy=True)
    return {name: copies[_memory(tensor)] for name, tensor in tensors.items()}


def _memory(tensor: Tensor) -> tuple[int, tuple[int, ...]]:
    return tensor.data_ptr(), tuple(tensor.shape)


def fill(model: Any, tensors: Mapping[str, Tensor], device: torch.device | str) -> nn.Module:
    """Fill the empty *model* with *tensors*, and return it on *device*, for inference only.

    Raises LexbenchError if a tensor of the model stays empty.
    """
    model.load_state_dict(tensors, strict=True, assign=True)
    if empty := [name for name, tensor in (*model.named_parameters(), *model.named_buffers()) if tensor.is_meta]:
        raise LexbenchError(f"this version of transformers makes {empty[0]} in a way that lexbench does not know")
    filled: nn.Module = model.to(device).eval().requires_grad_(False)
    return filled


# ---- tokenizers and whole models by transformers ---------------------------------------------------------------------------


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerFast":
    """Return the tokenizer in *folder*. Raises InvalidFile if there is none, or it does not load or has no fast form.

    transformers converts one of sentencepiece. Raises CannotStart if that needs packages that are not installed.
    """
    from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    by_pieces = [path.name for path in tokenizer_files(folder) if path.name in SENTENCEPIECE]
    if by_pieces and not all(map(find_spec, _CONVERTERS)):  # the error of transformers would be another one
        raise CannotStart(f"{folder}: its tokenizer is {by_pieces[0]}; to convert it, type: pip install sentencepiece protobuf")
    unknown = optional_json(folder / CONFIG).get("model_type", "bert") not in CONFIG_MAPPING
    settings = {"config": PreTrainedConfig()} if unknown else {}  # instead of reading what transformers does not know
    try:
        # local_files_only would be saved with it
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **settings)
    except Exception as error:  # tokenizers raises plain Exception
        raise InvalidFile(f"{folder}: the tokenizer does not load ({first_line(error)}); {_MODEL_AGAIN}") from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InvalidFile(f"{folder}: {type(tokenizer).__name__} has no fast form; save it as tokenizer.json")
    if getattr(tokenizer.backend_tokenizer.model, "dropout", None):
        raise InvalidFile(
            f"{folder}: its tokenizer leaves out pieces at random (dropout in tokenizer.json); set it to null there"
        )
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):  # transformers makes one if there are no files
        raise InvalidFile(f"{folder}: there is no tokenizer with words; {_MODEL_AGAIN}")
    return tokenizer


def load_encoding_tokenizer(folder: Path) -> "PreTrainedTokenizerFast":
    """Return the tokenizer in *folder*. Raises InvalidFile also if it lacks a special token that encoding needs."""
    tokenizer = load_tokenizer(folder)
    ids = {"first": tokenizer.cls_token_id, "separating": tokenizer.sep_token_id, "padding": tokenizer.pad_token_id}
    if missing := [role for role, token_id in ids.items() if token_id is None]:
        raise InvalidFile(
            f"{folder}: the tokenizer has no {' and no '.join(missing)} token, which lexbench puts around texts; take a model "
            "whose tokenizer has them, or run this one on a server"
        )
    try:
        tokenizer(_UNKNOWN_TEXT)
    except Exception as error:  # tokenizers raises plain Exception
        raise InvalidFile(f"{folder}: the tokenizer fails at an unknown word ({first_line(error)}); {_MODEL_AGAIN}") from error
    return tokenizer


def load_config(folder: Path) -> Any:
    """Return the configuration in *folder*, of transformers. Raises InvalidFile if it cannot be read."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # settings that do not fit each other raise errors of any class
        raise InvalidFile(f"{folder / CONFIG}: not a valid configuration ({first_line(error)}); {_MODEL_AGAIN}") from error


def load_model(folder: Path, auto_class: Any, **settings: Any) -> tuple[Any, list[str]]:
    """Return the model in *folder* and the names of the parameters that its files lack.

    *auto_class* of transformers chooses the class, *settings* replace those of config.json. The model is in float32 and in
    evaluation mode. Raises InvalidFile if its files cannot be read or do not fit.
    """
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()  # missing parameters are returned instead
    transformers_logging.disable_progress_bar()
    check_sizes(optional_json(folder / CONFIG), tensor_names(sorted(folder.glob("model*.safetensors"))), folder)
    try:
        model, loading = auto_class.from_pretrained(
            folder,
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=False,
            weights_only=True,
            output_loading_info=True,
            **settings,
        )
    except Exception as error:  # of transformers, safetensors and torch
        raise InvalidFile(f"{folder}: the model does not load ({first_line(error)}); {_MODEL_AGAIN}") from error
    return model.eval(), sorted(loading["missing_keys"])
