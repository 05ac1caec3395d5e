"""Which files of a folder make a checkpoint, what its JSON files hold, and the digests of what decides its vectors.

A folder is either a plain model of transformers or one of sentence-transformers, whose `modules.json` lists the modules that a
text goes through, each in a subfolder. Loads no torch.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path, PurePosixPath
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.storage.reading import cached_file_digest

P = ParamSpec("P")
R = TypeVar("R")

CONFIG = "config.json"
MODULES = "modules.json"
ABOUT = "config_sentence_transformers.json"  # prompts and the like
TRANSFORMER = "sentence_bert_config.json"  # lengths and the like of a module Transformer
PICKLED_WEIGHTS = "pytorch_model.bin"
WEIGHTS_INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"  # of peft: what an adapter is, and of which model
ADAPTER_WEIGHTS = "adapter_model.safetensors"
TOKENIZER = ("added_tokens.json", "merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json")
VOCABULARY = ("tokenizer.json", "vocab.txt", "vocab.json")  # one of these has the tokens
WITH_WEIGHTS = ("Dense", "LayerNorm")  # modules behind the first that have weights
_NOT_IN_VECTORS = ("_name_or_path", "transformers_version", "torch_dtype", "dtype")  # of config.json
_AGAIN = "take the file from the model's source again"


class Adapter(NamedTuple):
    """A LoRA adapter: pairs of matrices, B (out, rank) and A (rank, in), whose product is added to weights (out, in)."""

    weights: Path  # safetensors
    alpha: float  # the product is multiplied by alpha / rank
    by_root: bool  # or by alpha / sqrt(rank): rank-stabilised


@dataclass(frozen=True)
class CheckpointFiles:
    """The files of one checkpoint."""

    folder: Path  # of the model of transformers, an adapter's base; below the checkpoint's folder where that lists modules
    config: dict[str, Any]  # what config.json holds
    weights: Sequence[Path]  # safetensors, or one pytorch_model.bin
    tokenizer: Sequence[Path]
    defaults: dict[str, Any] = field(default_factory=dict)  # the encoder's settings, as the folder states them
    heads: Sequence[Path] = ()  # weights of modules behind the model, in files of their own
    adapter: Adapter | None = None  # what is added to the weights

    @property
    def tokenizer_folder(self) -> Path:
        """Where the tokenizer is: an adapter may have its own."""
        return self.tokenizer[0].parent


class Module(NamedTuple):
    """A module of a sentence-transformers folder."""

    kind: str  # its class without the package: "Transformer", "Pooling"
    subfolder: str  # relative to the checkpoint's folder, "" for that itself


def of_folder(read: Callable[Concatenate[Path, P], R]) -> Callable[Concatenate[Path, P], R]:
    """Let whatever the JSON files of a folder say that *read* can make no sense of be one InvalidFile that names the folder."""

    @wraps(read)
    def reading(folder: Path, /, *args: P.args, **settings: P.kwargs) -> R:
        try:
            return read(folder, *args, **settings)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise InvalidFile(f"{folder}: a file of settings makes no sense ({reason}); {_AGAIN}") from error

    return reading


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds; InvalidFile where it does not read or holds something else."""
    value = _json_value(path)
    if not isinstance(value, dict):
        raise InvalidFile(f"{path}: it holds no table {{…}} of settings; {_AGAIN}")
    return value


def optional_json(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds, {} where there is no file; InvalidFile where it does not read."""
    return read_json(path) if path.is_file() else {}


def _json_value(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidFile(f"{path}: does not read as JSON ({error}); {_AGAIN}") from error


def modules(folder: Path) -> list[Module]:
    """Return the modules that a sentence-transformers *folder* lists, in order; an empty list for a plain model.

    InvalidFile where `modules.json` does not read, or names a place outside the folder.
    """
    path = folder / MODULES
    if not path.is_file():
        return []
    try:
        listed = [Module(str(entry["type"]).rpartition(".")[2], str(entry["path"])) for entry in _json_value(path)]
    except (TypeError, KeyError) as error:
        raise InvalidFile(f"{path}: it is no list of modules, each with `type` and `path`; {_AGAIN}") from error
    subfolders = [PurePosixPath(module.subfolder) for module in listed]
    if any(subfolder.is_absolute() or ".." in subfolder.parts for subfolder in subfolders):
        raise InvalidFile(f"{path}: a module lies outside the folder; {_AGAIN}")
    return listed


@of_folder
def transformer_folder(folder: Path) -> Path:
    """Return where the model of transformers is: in *folder* itself, or in that of its first module."""
    return next((folder / module.subfolder for module in modules(folder)), folder)


@of_folder
def prompts(folder: Path) -> dict[str, str]:
    """Return the prompts by name that a sentence-transformers *folder* puts before texts, {} for none."""
    return optional_json(folder / ABOUT).get("prompts") or {}


@of_folder
def transformer_files(folder: Path, model_types: Collection[str] | None = None) -> CheckpointFiles:
    """Return the files of the model of transformers in *folder*, which must be of one of the *model_types*, if they are given.

    MissingData where a file is missing, CommandError for another model_type.
    """
    if not (folder / CONFIG).is_file():
        raise MissingData(f"{folder}: no config.json, so this is no model; give the folder that save_pretrained wrote")
    config = read_json(folder / CONFIG)
    if model_types is not None and (model_type := config.get("model_type")) not in set(model_types):
        raise CommandError(f"{folder}: model_type {model_type!r} is not supported; there is: {', '.join(model_types)}")
    if not (tokenizer := tokenizer_files(folder)):
        raise MissingData(f"{folder}: no tokenizer ({', '.join(VOCABULARY)}); copy its files from the model's source")
    return CheckpointFiles(folder, config, weight_files(folder), tokenizer)


def tokenizer_files(folder: Path) -> list[Path]:
    """Return the files of the tokenizer in *folder*, none where the one with the tokens is missing."""
    files = [folder / name for name in sorted({*TOKENIZER, *VOCABULARY}) if (folder / name).is_file()]
    return files if any(path.name in VOCABULARY for path in files) else []


@of_folder
def weight_files(folder: Path) -> list[Path]:
    """Return the files of the weights in *folder*; MissingData, or InvalidFile, where they are not all there."""
    if (whole := folder / "model.safetensors").is_file():
        return [whole]
    if (index := folder / WEIGHTS_INDEX).is_file():
        names = read_json(index).get("weight_map")
        if not isinstance(names, dict) or any(Path(str(name)).name != name for name in names.values()):
            raise InvalidFile(f"{index}: `weight_map` is no table of files beside it; take it from the model's source again")
        shards = [folder / name for name in sorted(set(names.values()))]
        if missing := [shard.name for shard in shards if not shard.is_file()]:
            raise MissingData(f"{folder}: {missing[0]} is missing, one of {len(shards)} files of weights; copy it there")
        return shards
    if (pickled := folder / PICKLED_WEIGHTS).is_file():
        return [pickled]
    names = f"model.safetensors, {WEIGHTS_INDEX} or {PICKLED_WEIGHTS}"
    raise MissingData(f"{folder}: no weights ({names}); copy them from the model's source")


def weight_bytes(files: CheckpointFiles) -> dict[str, int]:
    """Return the bytes of each file of weights, by its path."""
    return {str(path): path.stat().st_size for path in _all_weights(files)}


def _all_weights(files: CheckpointFiles) -> list[Path]:
    return [*files.weights, *files.heads, *([files.adapter.weights] if files.adapter else [])]


def digests(files: CheckpointFiles) -> dict[str, str]:
    """Return the SHA-256 of all that decides the vectors, in three parts: weights, tokenizer, config.

    They are the same wherever the files lie. `weights` is the file's own digest, as the hub shows it, where there is one file.
    """
    config = {key: value for key, value in files.config.items() if key not in _NOT_IN_VECTORS}
    weights = [cached_file_digest(path) for path in _all_weights(files)]
    added = {"adapter": [files.adapter.alpha, files.adapter.by_root]} if files.adapter else {}
    return {
        "weights": weights[0] if len(weights) == 1 else _json_digest(weights),
        "tokenizer": _json_digest({path.name: cached_file_digest(path) for path in files.tokenizer}),
        "config": _json_digest({"config": config, "defaults": files.defaults} | added),
    }


def _json_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
