"""From what a user names as a model to a folder: that folder itself, or the Hugging Face hub's model, downloaded once.

Of the hub's models only settings, tokenizers and weights are downloaded, and of weights only safetensors where there are some.
Loads no torch.
"""

import sys
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from lexbench.checkpoints.files import (
    ABOUT,
    ADAPTER,
    ADAPTER_WEIGHTS,
    CONFIG,
    MODULES,
    PICKLED_WEIGHTS,
    TOKENIZER,
    TRANSFORMER,
    VOCABULARY,
    WEIGHTS_INDEX,
    WITH_WEIGHTS,
    Module,
    modules,
)
from lexbench.checkpoints.query_table import IDF, ROUTER, routes
from lexbench.errors import CannotStart, CommandError, MissingData, require

_SETTINGS = ("artifact.metadata", ADAPTER, CONFIG, MODULES, TRANSFORMER, ABOUT, ROUTER, IDF)
_SMALL = (*_SETTINGS, *TOKENIZER, *VOCABULARY, WEIGHTS_INDEX)
_PATTERNS = [pattern for name in dict.fromkeys(_SMALL) for pattern in (name, f"*/{name}")]
_SAFE = ("model.safetensors", "model-*.safetensors", ADAPTER_WEIGHTS)
_COPY = 'put a copy of the model into a folder and give model="FOLDER"'


def fetch(model: str, revision: str | None = None) -> Path:
    """Return the folder of *model*: that folder itself, or the copy of the hub's model of that name, downloaded if need be.

    MissingData where there is neither, CommandError for a file, or for a folder with a *revision*.
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


def fetch_model(model: str, revision: str | None = None) -> Path:
    """Return the folder of *model* as `fetch`; MissingData, too, where it holds no model, neither a plain one nor modules."""
    folder = fetch(model, revision)
    if not any((folder / name).is_file() for name in (CONFIG, MODULES)):
        raise MissingData(f"{folder}: no config.json, so this is no model; give the folder that save_pretrained wrote")
    return folder


@lru_cache
def _snapshot(model: str, revision: str | None) -> Path:
    """Download what is needed of the hub's *model*; asked once a process, so that two calls see one revision."""
    folder = _download(model, revision, _PATTERNS)
    routed = [module for route in (routes(folder) or ()) for module in route]
    first, *behind = routed or modules(folder) or [Module("", "")]

    def download(subfolder: str, *names: str) -> None:  # with settings, for the client warns where nothing matches
        _download(model, folder.name, [(PurePosixPath(subfolder) / name).as_posix() for name in (CONFIG, ADAPTER, *names)])

    for module in (first, *(module for module in behind if module.kind in WITH_WEIGHTS or module in routed)):
        download(module.subfolder, *_SAFE)
        if not any((folder / module.subfolder).glob("*.safetensors")):
            download(module.subfolder, PICKLED_WEIGHTS)
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
        reason = _first_line(error.__cause__ or error)
        raise MissingData(
            f"{named} is not on this machine, nor to be had from the Hugging Face hub ({reason}); {_COPY}"
        ) from error
    except Exception as error:  # whatever the hub's client, its transport and the disk raise
        raise CannotStart(f"{named} cannot be downloaded ({_first_line(error)}); {_COPY}") from error


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
