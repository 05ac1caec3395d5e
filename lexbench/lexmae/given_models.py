"""Models that a recipe names, to begin with or to learn from: folders, or names on the hub. No code of a model is run."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from lexbench.encoders import _checkpoint_modules
from lexbench.encoders._checkpoint_files import fetch
from lexbench.errors import InvalidFile, MissingData

_AGAIN = "take the model from its source again"


def find(model: str, revision: str | None = None) -> Path:
    """Return the folder of *model*, downloaded if need be; errors as of `lexbench.encoders._checkpoint_files.fetch`."""
    place = fetch(model, revision)
    if not any((place / name).is_file() for name in ("config.json", _checkpoint_modules.MODULES)):
        raise MissingData(f"{place}: no config.json, so this is no model; give the folder that save_pretrained wrote")
    return place


def modules(place: Path) -> list[tuple[str, Path]]:
    """Return class name and folder of each module of a sentence-transformers folder; none where it is a plain model."""
    return [(kind, place / inside) for kind, inside in _checkpoint_modules.modules(place)]


def transformer(place: Path) -> Path:
    """Return where in a folder the model of transformers is: there itself, or the first of its modules."""
    return next((folder for _, folder in modules(place)), place)


def config(place: Path) -> Any:
    """Return the configuration in a folder; InvalidFile where it does not read."""
    try:
        return AutoConfig.from_pretrained(place, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever a setting that does not fit the others leads to
        raise InvalidFile(f"{place / 'config.json'}: does not read ({_reason(error)}); {_AGAIN}") from error


def tokenizer(place: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer in a folder; InvalidFile where it does not read, or has no fast form."""
    try:
        found = AutoTokenizer.from_pretrained(place, trust_remote_code=False)  # local_files_only would be saved with it
    except Exception as error:  # tokenizers raises no class of its own
        raise InvalidFile(f"{place}: the tokenizer does not load ({_reason(error)}); {_AGAIN}") from error
    if not isinstance(found, PreTrainedTokenizerFast):
        raise InvalidFile(f"{place}: {type(found).__name__} has no fast form; save it as tokenizer.json")
    return found


def model(place: Path, kind: Any) -> tuple[Any, list[str]]:
    """Return the model in a folder as the class that *kind* of transformers chooses, and which parameters were not there.

    In float32 and in evaluation mode. InvalidFile where its files do not read or fit.
    """
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call] # what is missing is returned
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        found, told = kind.from_pretrained(
            place, dtype=torch.float32, local_files_only=True, trust_remote_code=False, output_loading_info=True
        )
    except Exception as error:  # of transformers, safetensors and torch
        raise InvalidFile(f"{place}: the model does not load ({_reason(error)}); {_AGAIN}") from error
    return found.eval(), sorted(told["missing_keys"])


def _reason(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
