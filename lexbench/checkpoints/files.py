"""Where the files of a checkpoint are, on this machine or on the Hugging Face hub, and the digests of them. Loads no torch."""

import hashlib
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from lexbench.checkpoints.keys import ARCHITECTURES
from lexbench.checkpoints.settings import MODULES, defaults, model_folder, modules, read_json
from lexbench.errors import CannotStart, CommandError, InvalidFile, MissingData, require
from lexbench.storage.reading import cached_file_digest

_TOKENIZER = ("added_tokens.json", "merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json")
_VOCABULARY = ("tokenizer.json", "vocab.txt", "vocab.json")  # one of these has the tokens
WEIGHTED = ("Dense", "LayerNorm")  # modules behind the first that have weights, as sentence-transformers calls them
_INDEX = "model.safetensors.index.json"
_PICKLE = "pytorch_model.bin"
_SMALL = (
    *(
        "artifact.metadata",
        "config.json",
        MODULES,
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "router_config.json",
    ),
    *(*_TOKENIZER, "vocab.txt", "vocab.json", _INDEX),
)
_PATTERNS = [pattern for name in _SMALL for pattern in (name, f"*/{name}")]
_SAFE = ("model.safetensors", "model-*.safetensors")
_NOT_IN_VECTORS = ("_name_or_path", "transformers_version", "torch_dtype", "dtype")  # of config.json
_COPY = 'put a copy of the model into a folder and give model="FOLDER"'


@dataclass(frozen=True)
class Files:
    """The files of one checkpoint."""

    place: Path  # where the model is
    config: dict[str, Any]  # of config.json
    weights: Sequence[Path]  # safetensors, or one pytorch_model.bin
    tokenizer: Sequence[Path]
    defaults: dict[str, Any] = field(default_factory=dict)  # settings of the encoder that the folder carries
    heads: Sequence[Path] = ()  # weights of layers behind the model, in files of their own


def files(folder: Path) -> Files:
    """Return what of *folder* a masked-language model needs; errors as of `transformer_files`."""
    found = transformer_files(model_folder(folder), ARCHITECTURES)
    return replace(found, defaults=defaults(folder, found.config))


def transformer_files(place: Path, known: Collection[str]) -> Files:
    """Return the files of the model of transformers in *place*, whose model_type must be *known*.

    MissingData where something is not there, CommandError for other kinds of models.
    """
    if not (place / "config.json").is_file():
        raise MissingData(f"{place}: no config.json, so this is no model; give the folder that save_pretrained wrote")
    config = read_json(place / "config.json")
    if (kind := config.get("model_type")) not in known:
        raise CommandError(f"{place}: model_type {kind!r} is not supported; there is: {', '.join(known)}")
    tokenizer = [place / name for name in sorted({*_TOKENIZER, *_VOCABULARY}) if (place / name).is_file()]
    if not any(path.name in _VOCABULARY for path in tokenizer):
        raise MissingData(f"{place}: no tokenizer ({', '.join(_VOCABULARY)}); copy its files from the model's source")
    return Files(place, config, weights(place), tokenizer)


def weights(place: Path) -> list[Path]:
    """Return the files of the weights in the folder *place*; MissingData, or InvalidFile, where they are not all there."""
    if (whole := place / "model.safetensors").is_file():
        return [whole]
    if (index := place / _INDEX).is_file():
        names = read_json(index).get("weight_map")
        if not isinstance(names, dict) or any(Path(str(name)).name != name for name in names.values()):
            raise InvalidFile(f"{index}: `weight_map` is no table of files beside it; take it from the model's source again")
        shards = [place / name for name in sorted(set(names.values()))]
        if missing := [shard.name for shard in shards if not shard.is_file()]:
            raise MissingData(f"{place}: {missing[0]} is missing, one of {len(shards)} files of weights; copy it there")
        return shards
    if (pickled := place / _PICKLE).is_file():
        return [pickled]
    raise MissingData(f"{place}: no weights (model.safetensors, {_INDEX} or {_PICKLE}); copy them from the model's source")


def fetch(model: str, revision: str | None = None) -> Path:
    """Return *model*, a folder, as it is, or else the copy of the hub's model of that name, downloaded if need be.

    MissingData where there is neither. Of a hub's model only settings, tokenizer and weights are downloaded, these as
    safetensors if it has them.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise CommandError(f"revision={revision!r} is for models of the hub; {model} is a folder")
        return folder
    if folder.exists():
        raise CommandError(f"{model} is a file; give the folder that it is in")
    if model.startswith(("/", ".", "~")) or model.count("/") > 1:
        raise MissingData(f"no folder {model}; {_COPY}")
    require(f"model {model!r}", ("huggingface_hub",), "neural")
    return _snapshot(model, revision)


@lru_cache
def _snapshot(model: str, revision: str | None) -> Path:
    """Download what is needed of the hub's *model*, of whatever kind, once a process: two calls see one revision."""
    folder = _download(model, revision, _PATTERNS)
    (_, first), *others = modules(folder) or [("", "")]

    def download(inside: str, *names: str) -> None:  # with config.json, for the client warns where nothing matches
        _download(model, folder.name, [(PurePosixPath(inside) / name).as_posix() for name in ("config.json", *names)])

    for inside in (first, *(place for kind, place in others if kind in WEIGHTED)):
        download(inside, *_SAFE)
        if not any((folder / inside).glob("*.safetensors")):
            download(inside, _PICKLE)
    return folder


def _download(model: str, revision: str | None, patterns: list[str]) -> Path:
    """Return the folder of a revision of the hub's *model*, with at least the files that match; it is named by its commit."""
    from huggingface_hub import errors, snapshot_download
    from tqdm.auto import tqdm  # which it needs itself

    class Bar(tqdm):  # type: ignore[type-arg] # generic in its stubs only
        """Shown to people only, and for what takes long: weights."""

        def __init__(self, *args: Any, **settings: Any) -> None:
            hidden = patterns is _PATTERNS or not sys.stderr.isatty()
            super().__init__(*args, **settings | {"disable": hidden or settings.get("disable")})

    named = model if revision is None else f"{model} at revision {revision}"
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=patterns, tqdm_class=Bar))
    except errors.HFValidationError as error:
        raise MissingData(f"no folder {model}, and the Hugging Face hub has no such names; {_COPY}") from error
    except errors.GatedRepoError as error:
        raise MissingData(f"{model}: accept its terms at https://huggingface.co/{model}, then type: hf auth login") from error
    except errors.RevisionNotFoundError as error:
        raise MissingData(f"{named}: the Hugging Face hub has no such revision; look at its branches and commits") from error
    except errors.RepositoryNotFoundError as error:
        raise MissingData(f"no folder {model}, and no model of that name on the Hugging Face hub; {_COPY}") from error
    except errors.LocalEntryNotFoundError as error:
        why = _first_line(error.__cause__ or error)
        raise MissingData(
            f"{named} is not on this machine, nor to be had from the Hugging Face hub ({why}); {_COPY}"
        ) from error
    except Exception as error:  # whatever the hub's client, its transport and the disk raise
        raise CannotStart(f"{named} cannot be downloaded ({_first_line(error)}); {_COPY}") from error


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def digest(found: Files) -> dict[str, str]:
    """Return the SHA-256 of all that determines the vectors, in three parts, wherever the files lie.

    `weights` is the file's own digest, as the hub shows it, where there is one file of weights.
    """
    config = {key: value for key, value in found.config.items() if key not in _NOT_IN_VECTORS}
    digests = [cached_file_digest(path) for path in (*found.weights, *found.heads)]
    return {
        "weights": digests[0] if len(digests) == 1 else _canonical(digests),
        "tokenizer": _canonical({path.name: cached_file_digest(path) for path in found.tokenizer}),
        "config": _canonical({"config": config, "defaults": found.defaults}),
    }


def _canonical(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
