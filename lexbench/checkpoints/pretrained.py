"""Whole models of transformers, and their tokenizers, from folders. No code of a model is run, and no pickled object made."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from lexbench.errors import InvalidFile

_AGAIN = "take the model from its source again"


def tokenizer(place: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer in a folder; InvalidFile where it does not read, or has no fast form."""
    try:
        found = AutoTokenizer.from_pretrained(place, trust_remote_code=False)  # local_files_only would be saved with it
    except Exception as error:  # tokenizers raises no class of its own
        raise InvalidFile(f"{place}: the tokenizer does not load ({first_line(error)}); {_AGAIN}") from error
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
            place,
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=False,
            weights_only=True,
            output_loading_info=True,
        )
    except Exception as error:  # of transformers, safetensors and torch
        raise InvalidFile(f"{place}: the model does not load ({first_line(error)}); {_AGAIN}") from error
    return found.eval(), sorted(told["missing_keys"])


def complete(place: Path, kind: Any, role: str, unneeded: tuple[str, ...] = ()) -> Any:
    """Return the model as `model` does; InvalidFile where a weight is missing that does not begin with one of *unneeded*.

    *role* is what errors say the model is to be: "a teacher".
    """
    found, missing = model(place, kind)
    if lost := [name for name in missing if not name.startswith(unneeded)]:
        raise InvalidFile(f"{place}: {len(lost)} weights are missing ({lost[0]}); {role} needs all of them")
    return found


def first_line(error: Exception) -> str:
    """Return the first line that an error says, or its class."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
