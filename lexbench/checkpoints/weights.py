"""Tensors: read from files, given the names that transformers has for them today, and put into a model of transformers.

Only tensors are read: no pickled object of a checkpoint is ever made. Needs torch.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from lexbench.checkpoints.files import CheckpointFiles
from lexbench.errors import InvalidFile, LexbenchError

_DRAWS = (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_)
_AGAIN = "take the file from the model's source again"
_LAYER = re.compile(r"\.layers?\.([0-9]{1,9})\.")  # in the name of a tensor
_LAYERS = ("num_hidden_layers", "n_layers")  # as settings call how many there are
_SIZE = re.compile(r"size$|dim$|^num_|^n_|^max_position")  # names of settings that say how large a model is
_LARGEST = 10**7
_LISTED = 12  # keys in one message, of each kind of misfit
_WRAPPERS = re.compile(r"^(?:(?:module|_orig_mod|encoder)\.)+")  # DistributedDataParallel, torch.compile, LexMAE's learner
_OLD_NORM = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}  # converted from TensorFlow
# What training needs and encoding does not: LexMAE's decoder and reranker, poolers, next-sentence heads, saved constants.
_UNUSED = re.compile(
    r"^(?:decoder_heads|decoder_cls|decoder_lm_head|reranker|cls\.seq_relationship)\."
    r"|^decoder_vocab_|\.pooler\.|\.embeddings\.(?:position|token_type)_ids$"
)


# ---- from files ------------------------------------------------------------------------------------------------------------


def read_tensors(paths: Iterable[Path]) -> dict[str, Tensor]:
    """Return the tensors of all files by name; InvalidFile where one is cut, or holds anything but tensors."""
    tensors: dict[str, Tensor] = {}
    for path in paths:
        tensors |= _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
    return tensors


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> InvalidFile:
    return InvalidFile(f"{path}: does not read as safetensors ({error}); it is cut or damaged: {_AGAIN}")


def _read_pickle(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file of torch.save, by the reader of torch that makes nothing but tensors."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of the pickle's version, which the errors below say better
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise InvalidFile(
            f"{path}: it holds more than tensors, which lexbench does not unpickle: that could run any program; "
            "save the model as safetensors where you trust it"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidFile(f"{path}: does not read ({reason}); it is cut or damaged: {_AGAIN}") from error
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise InvalidFile(f"{path}: it is no table of tensors by name; save the model by save_pretrained")
    return tensors


# ---- names -----------------------------------------------------------------------------------------------------------------


def current_name(key: str) -> str:
    """Return a tensor's name with what old versions of transformers called otherwise as it is called today."""
    for old, new in _OLD_NORM.items():
        key = key.replace(old, new)
    return key


def masked_lm_names(tensors: Mapping[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint by the names of a `…ForMaskedLM`, without those that encoding does not use.

    InvalidFile where two keys mean one name.
    """
    renamed: dict[str, Tensor] = {}
    keys: dict[str, str] = {}
    for key, tensor in tensors.items():
        name = current_name(_WRAPPERS.sub("", key))
        if _UNUSED.search(name):
            continue
        if name in renamed:
            raise InvalidFile(f"{folder}: the keys {keys[name]} and {key} both mean {name}; keep one of them")
        renamed[name], keys[name] = tensor, key
    return renamed


def tied(tensors: Mapping[str, Tensor], pairs: Iterable[tuple[str, str]]) -> dict[str, Tensor]:
    """Return *tensors* with both names of each of *pairs*, which are two names for one tensor; files often hold just one.

    Where a file holds both, they become one if they are equal, and stay as they are if not, as transformers has it.
    """
    filled = dict(tensors)
    for first, second in pairs:
        if first not in filled and second in filled:
            filled[first] = filled[second]
        elif first in filled and (second not in filled or torch.equal(filled[first], filled[second])):
            filled[second] = filled[first]
    return filled


def check_names_and_shapes(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], model: str) -> None:
    """Raise InvalidFile, which says what does not fit, unless *tensors* have the names and shapes of those *expected*.

    *model* is how the message calls the model.
    """
    shapes, expected_shapes = ({name: tuple(tensor.shape) for name, tensor in group.items()} for group in (tensors, expected))
    shared = sorted(shapes.keys() & expected_shapes.keys())
    wrong = [f"{name} {shapes[name]} for {expected_shapes[name]}" for name in shared if shapes[name] != expected_shapes[name]]
    misfits = {
        "missing": sorted(expected_shapes.keys() - shapes.keys()),
        "unexpected": sorted(shapes.keys() - expected_shapes.keys()),
        "of another shape": wrong,
    }
    lists = [f"{len(names)} {kind} ({_first(names)})" for kind, names in misfits.items() if names]
    if lists:
        raise InvalidFile(f"{model}, and its weights do not fit that: {'; '.join(lists)}")


def _first(names: list[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


# ---- into a model ----------------------------------------------------------------------------------------------------------


def check_sizes(config: Mapping[str, Any], names: Iterable[str], folder: Path) -> None:
    """Raise InvalidFile where config.json describes a model that would take for ever to make, whatever its weights are.

    That is one of more layers than the tensors of these *names* are in, if there are names, or of sizes that no model has.
    """
    numbered = [int(layer[1]) for name in names if (layer := _LAYER.search(f".{name}"))]
    said = next((config[name] for name in _LAYERS if type(config.get(name)) is int), 0)
    if numbered and said > max(numbered) + 1:
        raise InvalidFile(
            f"{folder / 'config.json'}: it says {said:,} layers, and the weights are of {max(numbered) + 1}; {_AGAIN}"
        )
    for name, value in config.items():
        if type(value) is int and _SIZE.search(name) and value > _LARGEST:
            raise InvalidFile(f"{folder / 'config.json'}: {name} is {value:,}, as in no model; {_AGAIN}")


def check_token_ids(vocabulary: Mapping[str, int], embeddings: int, folder: Path) -> None:
    """Raise InvalidFile where a tokenizer of that *vocabulary* gives ids that the model, of so many *embeddings*, has not."""
    if (largest := max(vocabulary.values(), default=0)) >= embeddings:
        raise InvalidFile(
            f"{folder}: the tokenizer numbers its tokens up to {largest} and the model has {embeddings}; "
            "they do not belong together: take both from one source"
        )


def tensor_names(paths: Iterable[Path]) -> list[str]:
    """Return the names of the tensors of safetensors files, of which only the beginning is read; none of other files."""
    names: list[str] = []
    for path in paths:
        if path.suffix == ".safetensors":
            try:
                with safe_open(path, framework="pt") as file:
                    names += file.keys()
            except (SafetensorError, OSError) as error:
                raise _damaged(path, error) from error
    return names


class WithoutValues(TorchFunctionMode):
    """Makes tensors that nobody has filled without memory; constants that a model works out for itself stay real."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call *func*, `torch.empty` on the meta device; draw no numbers, for which torch would import half of itself."""
        del types
        kwargs = dict(kwargs or {})
        if func in _DRAWS and kwargs["tensor"].is_meta:
            return kwargs["tensor"]
        if func is torch.empty:
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


def empty_model(files: CheckpointFiles, auto_class: Any, model_type: str = "", **settings: bool) -> Any:
    """Return the model that config.json describes, its parameters without values: initialising them takes seconds.

    *auto_class* of transformers chooses the model's class, by *model_type* where that is not to be the one of config.json;
    *settings* are arguments of that class. InvalidFile where config.json does not make sense.
    """
    from transformers import AutoConfig

    check_sizes(files.config, tensor_names(files.weights), files.folder)
    sizes = {key: value for key, value in files.config.items() if key not in {"model_type", "auto_map"}}
    try:
        config = AutoConfig.for_model(model_type or files.config["model_type"], **sizes)
        with WithoutValues():
            return auto_class.from_config(config, attn_implementation="sdpa", dtype=torch.float32, **settings)
    except Exception as error:  # whatever a setting that does not fit the others leads to
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InvalidFile(f"{files.folder / 'config.json'}: no model can be made from it ({reason}); {_AGAIN}") from error


def converted(tensors: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device | str, folder: Path) -> dict[str, Tensor]:
    """Return copies of *tensors* as *dtype* on *device*; those that share their memory still do."""
    if whole := [name for name, tensor in tensors.items() if not tensor.is_floating_point()]:
        raise InvalidFile(f"{folder}: {whole[0]} holds {tensors[whole[0]].dtype}; take the model that is not quantised")
    copies: dict[tuple[int, tuple[int, ...]], Tensor] = {}
    for tensor in tensors.values():
        if _memory(tensor) not in copies:  # a copy, for what is read from safetensors may be the file itself, mapped
            copies[_memory(tensor)] = tensor.to(device=device, dtype=dtype, copy=True)
    return {name: copies[_memory(tensor)] for name, tensor in tensors.items()}


def _memory(tensor: Tensor) -> tuple[int, tuple[int, ...]]:
    return tensor.data_ptr(), tuple(tensor.shape)


def fill(model: Any, tensors: Mapping[str, Tensor], device: torch.device | str) -> nn.Module:
    """Return *model*, an empty one, with its parameters from *tensors*, which are all of them, for encoding only."""
    model.load_state_dict(tensors, strict=True, assign=True)
    if empty := [name for name, tensor in (*model.named_parameters(), *model.named_buffers()) if tensor.is_meta]:
        raise LexbenchError(f"this version of transformers makes {empty[0]} in a way that lexbench does not know")
    filled: nn.Module = model.to(device).eval().requires_grad_(False)
    return filled
