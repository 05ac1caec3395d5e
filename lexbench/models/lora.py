"""LoRA adapters saved by peft: which model they adapt, and their weights merged into its own.

An adapter's folder has `adapter_config.json` and `adapter_model.safetensors`. Its model is the folder `base` inside it, if
there is one, else `base_model_name_or_path`, a folder or a name on the hub. Merged is W + scale B A, computed in float32.
Modules of modules_to_save replace the same modules of the model. Any other setting that would change the
result is refused by name. Used by `architectures`. Loads torch only to merge.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.models.checkpoint import (
    ADAPTER,
    ADAPTER_WEIGHTS,
    AGAIN,
    CONFIG,
    Adapter,
    CheckpointFiles,
    check_padding,
    downloaded,
    fetch,
    folder_reader,
    read_json,
    tokenizer_files,
    transformer_files,
    transformer_folder,
    weight_files,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor

BASE = "base"  # the folder inside an adapter's folder that may hold its model
MERGE = "merge it with peft (merge_and_unload) and give the folder of the whole model"
_UNCHANGING = {  # settings of peft's LoraConfig that do not change what the saved matrices mean, or that are read below
    *("auto_mapping", "base_model_name_or_path", "inference_mode", "peft_type", "peft_version", "revision", "task_type"),
    *("exclude_modules", "layers_pattern", "layers_to_transform", "lora_dropout", "modules_to_save", "target_modules"),
    *("bias", "init_lora_weights", "lora_alpha", "r", "rank_pattern", "use_rslora"),
    *("ensure_weight_tying", "eva_config", "megatron_core", "qalora_group_size", "runtime_config"),
}
_UNCHANGED_BASE = (True, False, None, "gaussian", "eva", "orthogonal")  # initialisations that leave the model's weights alone
_PREFIX = "base_model.model."  # of all names in an adapter's file; the rest is the name in the adapted class
_A, _B = ".lora_A.weight", ".lora_B.weight"


# ---- files -----------------------------------------------------------------------------------------------------------------


def model_files(folder: Path, model_types: Collection[str] | None = None) -> CheckpointFiles:
    """Return the files of the model in *folder* like `transformer_files`, or of an adapter and the model that it adapts.

    Raises MissingData if the model cannot be found, CommandError for adapters that cannot be merged here.
    """
    if not (folder / ADAPTER).is_file():
        return transformer_files(folder, model_types)
    adapter = _adapter(folder)
    files = transformer_files(base_folder(folder), model_types)
    if own := tokenizer_files(folder):
        check_padding(folder, files.config)
    return replace(files, adapter=adapter, tokenizer=own or files.tokenizer)


@folder_reader
def _adapter(folder: Path) -> Adapter:
    """Return the adapter in *folder*. Raises CommandError if it cannot be merged here."""
    config = read_json(folder / ADAPTER)
    try:
        weight_files(folder)
    except MissingData:
        pass
    else:
        raise CommandError(f"{folder}: it has an adapter ({ADAPTER}) and the weights of a whole model; keep one of them")
    if (kind := config.get("peft_type")) != "LORA":
        raise CommandError(f"{folder}: an adapter of type {kind!r}; lexbench merges LORA alone: {MERGE}")
    unknown = [f"{name}={value!r}" for name, value in config.items() if name not in _UNCHANGING and value]
    if config.get("bias", "none") != "none":
        unknown.append(f"bias={config['bias']!r}")
    if config.get("init_lora_weights") not in _UNCHANGED_BASE:
        unknown.append(f"init_lora_weights={config['init_lora_weights']!r}")
    if unknown:
        raise CommandError(f"{folder / ADAPTER}: {unknown[0][:100]}, which lexbench does not merge; {MERGE}")
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise MissingData(
            f"{folder}: no {ADAPTER_WEIGHTS} (an adapter_model.bin is a pickle, which lexbench does not read); {MERGE}"
        )
    return Adapter(downloaded(folder / ADAPTER_WEIGHTS), float(config["lora_alpha"]), bool(config.get("use_rslora")))


@folder_reader
def base_folder(folder: Path) -> Path:
    """Return the folder of the model that the adapter in *folder* adapts. Raises MissingData if it cannot be found."""
    config = read_json(folder / ADAPTER)
    named = str(config.get("base_model_name_or_path") or "")
    if (folder / BASE).is_dir():
        base = folder / BASE
    elif not named:
        raise MissingData(f"{folder}: an adapter that names no model; put its model, or a link to it, there as {BASE}")
    else:
        try:
            base = fetch(named, None if Path(named).expanduser().is_dir() else config.get("revision"))
        except MissingData as error:
            raise MissingData(
                f"{folder}: its model cannot be found ({error}); put it, or a link to it, there as {BASE}"
            ) from error
    base = transformer_folder(base)
    if (base / ADAPTER).is_file() and not (base / CONFIG).is_file():
        raise CommandError(f"{folder}: its model {base} is an adapter itself; {MERGE}")
    return base


# ---- weights ---------------------------------------------------------------------------------------------------------------


def adapted_tensors(files: CheckpointFiles, dtype: "torch.dtype") -> "dict[str, Tensor]":
    """Return the tensors of the weights by name. An adapter is merged into them, and what it changes is in *dtype*.

    Products of pairs are added, whole tensors replaced. Names of both may differ at their beginnings, because either may have
    been saved inside another class. Raises InvalidFile if a pair has no tensor or does not fit it.
    """
    from lexbench.models.loading import read_tensors

    tensors = read_tensors(files.weights)
    if not (adapter := files.adapter):
        return tensors
    saved = {name.removeprefix(_PREFIX): tensor for name, tensor in read_tensors([adapter.weights]).items()}
    adapted = {name.removesuffix(_A) for name in saved if name.endswith(_A)}
    if adapted != {name.removesuffix(_B) for name in saved if name.endswith(_B)}:
        raise InvalidFile(f"{adapter.weights}: one of a pair of matrices is missing; {AGAIN}")
    result = dict(tensors)
    for module in adapted:
        if (target := _matching(f"{module}.weight", tensors)) is None:
            if "pooler" in module:  # encoders do not use it, and many files lack it
                continue
            raise InvalidFile(f"{adapter.weights}: the model has no {module}; take the base that it was trained on")
        result[target] = _merged(tensors[target], saved[module + _B], saved[module + _A], adapter).to(dtype)
    for name in saved.keys() - {module + ending for module in adapted for ending in (_A, _B)}:
        if ".lora_" in name or "embed" in name:
            raise CommandError(f"{adapter.weights}: lexbench does not merge its tensor {name}; {MERGE}")
        result[_matching(name, tensors) or name] = saved[name]
    return result


def _merged(weight: "Tensor", b: "Tensor", a: "Tensor", adapter: Adapter) -> "Tensor":
    """Return *weight* (out, in) + scale x *b* (out, rank) @ *a* (rank, in), float32. Raises InvalidFile for other shapes."""
    rank = len(a)
    fits = rank and weight.shape == (len(b), *a.shape[1:]) and b.shape[1:] == (rank,)
    if not fits or not weight.is_floating_point():
        shapes = f"{tuple(b.shape)} and {tuple(a.shape)} for {tuple(weight.shape)} of {weight.dtype}"
        raise InvalidFile(f"{adapter.weights}: matrices of {shapes} do not fit; take the base that it was trained on")
    scale = adapter.alpha / (sqrt(rank) if adapter.by_root else rank)
    return weight.float() + scale * (b.float() @ a.float())


def _matching(name: str, names: Iterable[str]) -> str | None:
    """Return *name* if it is among *names*, else the only one that equals it but for a prefix; None if none or several do."""
    names = list(names)
    if name in names:
        return name
    found = [other for other in names if other.endswith(f".{name}") or name.endswith(f".{other}")]
    return found[0] if len(found) == 1 else None
