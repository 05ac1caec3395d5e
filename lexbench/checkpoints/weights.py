"""Tensors from files into a model of transformers. Only tensors are read: no pickled object of a checkpoint is ever made."""

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig

from lexbench.checkpoints.files import Files
from lexbench.errors import InvalidFile, LexbenchError

_AGAIN = "take the file from the model's source again"


def read(paths: Iterable[Path]) -> dict[str, Tensor]:
    """Return the tensors of all files; InvalidFile where one is cut, or holds anything but tensors."""
    found: dict[str, Tensor] = {}
    for path in paths:
        found |= _safe(path) if path.suffix == ".safetensors" else _pickled(path)
    return found


def _safe(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise InvalidFile(f"{path}: does not read as safetensors ({error}); it is cut or damaged: {_AGAIN}") from error


def _pickled(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file of torch.save, by the reader of torch that makes nothing but tensors."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of the pickle's version, which the errors below say better
            found = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise InvalidFile(
            f"{path}: it holds more than tensors, which lexbench does not unpickle: that could run any program; "
            "save the model as safetensors where you trust it"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidFile(f"{path}: does not read ({reason}); it is cut or damaged: {_AGAIN}") from error
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InvalidFile(f"{path}: it is no table of tensors by name; save the model by save_pretrained")
    return found


class _OnMeta(TorchFunctionMode):
    """Makes tensors that nobody has filled without memory; constants that a model works out for itself stay real."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call *func*, `torch.empty` on the meta device."""
        del types
        kwargs = dict(kwargs or {})
        if func is torch.empty:
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


def unfilled(found: Files, auto: Any, kind: str = "", **parts: bool) -> Any:
    """Return the model that config.json describes, its parameters without values: initialising them takes seconds.

    *auto* is the Auto class of transformers that chooses the model's class; *kind* its model_type, where the file's is another;
    *parts* what that class is to have.
    """
    settings = {key: value for key, value in found.config.items() if key not in {"model_type", "auto_map"}}
    try:
        config = AutoConfig.for_model(kind or found.config["model_type"], **settings)
        with _OnMeta():
            return auto.from_config(config, attn_implementation="sdpa", dtype=torch.float32, **parts)
    except Exception as error:  # whatever a setting that does not fit the others leads to
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InvalidFile(f"{found.place / 'config.json'}: no model can be made from it ({reason}); {_AGAIN}") from error


def converted(tensors: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device | str, place: Path) -> dict[str, Tensor]:
    """Return copies of *tensors* as *dtype* on *device*; those that share their numbers still do."""
    if whole := [key for key, tensor in tensors.items() if not tensor.is_floating_point()]:
        raise InvalidFile(f"{place}: {whole[0]} holds {tensors[whole[0]].dtype}; take the model that is not quantised")
    done: dict[tuple[int, tuple[int, ...]], Tensor] = {}
    for tensor in tensors.values():
        if _memory(tensor) not in done:  # a copy, for what is read from safetensors may be the file itself, mapped
            done[_memory(tensor)] = tensor.to(device=device, dtype=dtype, copy=True)
    return {key: done[_memory(tensor)] for key, tensor in tensors.items()}


def _memory(tensor: Tensor) -> tuple[int, tuple[int, ...]]:
    return tensor.data_ptr(), tuple(tensor.shape)


def fill(model: Any, tensors: Mapping[str, Tensor], device: torch.device | str) -> nn.Module:
    """Return *model* with its parameters from *tensors*, which are all of them, for encoding only."""
    model.load_state_dict(tensors, strict=True, assign=True)
    if empty := [name for name, tensor in (*model.named_parameters(), *model.named_buffers()) if tensor.is_meta]:
        raise LexbenchError(f"this version of transformers makes {empty[0]} in a way that lexbench does not know")
    filled: nn.Module = model.to(device).eval().requires_grad_(False)
    return filled
