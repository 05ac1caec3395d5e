"""Tokenizers, configurations and whole models as transformers loads them from a folder, with one-line errors.

No code of a model is run, and no pickled object made. Needs torch.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from lexbench.checkpoints.files import CONFIG, optional_json
from lexbench.checkpoints.weights import check_sizes, tensor_names
from lexbench.errors import InvalidFile

_UNHEARD_OF = "\U00013080 \u2603"  # a hieroglyph, a snowman: a tokenizer without [UNK] fails there
_AGAIN = "take the model from its source again"


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer in *folder*; InvalidFile where it does not read, or has no fast form."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)  # local_files_only would be saved with it
    except Exception as error:  # tokenizers raises no class of its own
        raise InvalidFile(f"{folder}: the tokenizer does not load ({first_line(error)}); {_AGAIN}") from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InvalidFile(f"{folder}: {type(tokenizer).__name__} has no fast form; save it as tokenizer.json")
    return tokenizer


def load_encoding_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer in *folder* as `load_tokenizer`; InvalidFile where it lacks a special token that encoding needs."""
    tokenizer = load_tokenizer(folder)
    ids = {"first": tokenizer.cls_token_id, "separating": tokenizer.sep_token_id, "padding": tokenizer.pad_token_id}
    if missing := [role for role, token_id in ids.items() if token_id is None]:
        raise InvalidFile(f"{folder}: the tokenizer has no {' and no '.join(missing)} token; {_AGAIN}")
    try:
        tokenizer(_UNHEARD_OF)
    except Exception as error:  # tokenizers raises no class of its own
        raise InvalidFile(
            f"{folder}: the tokenizer fails at a text that it does not know ({first_line(error)}); {_AGAIN}"
        ) from error
    return tokenizer


def load_config(folder: Path) -> Any:
    """Return the configuration in *folder*; InvalidFile where it does not read."""
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever a setting that does not fit the others leads to
        raise InvalidFile(f"{folder / 'config.json'}: does not read ({first_line(error)}); {_AGAIN}") from error


def load_model(folder: Path, auto_class: Any, **settings: Any) -> tuple[Any, list[str]]:
    """Return the model in *folder*, of the class that *auto_class* of transformers chooses, and the parameters not there.

    *settings* take the place of what config.json says. In float32 and in evaluation mode. InvalidFile where its files do not
    read or fit.
    """
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call] # what is missing is returned
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
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
        raise InvalidFile(f"{folder}: the model does not load ({first_line(error)}); {_AGAIN}") from error
    return model.eval(), sorted(loading["missing_keys"])


def load_complete_model(folder: Path, auto_class: Any, role: str, unneeded: tuple[str, ...] = ()) -> Any:
    """Return the model as `load_model` does; InvalidFile where a parameter is missing that is not *unneeded*.

    *role* is what the model is to be, for the message: "a teacher". *unneeded* are beginnings of names.
    """
    model, missing = load_model(folder, auto_class)
    if needed := [name for name in missing if not name.startswith(unneeded)]:
        raise InvalidFile(f"{folder}: {len(needed)} weights are missing ({needed[0]}); {role} needs all of them")
    return model


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class where it has none."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
