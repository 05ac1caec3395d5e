"""Prompts by dataset: a table `prompts` in a TOML file, from the id of a dataset, or the beginning of ids, to a prompt.

The file is that of a model, one of `catalog/prompts`, or a user's own. A prompt is the instruction of a model that has
"{instruction}" in its `query_prompt`; for any other model it is the whole prompt.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from lexbench.errors import MissingData
from lexbench.storage.reading import FileState, file_state, read_toml

_TEST = "/test"  # the end of ids, which people also write after collections with one split


class Prompts(msgspec.Struct, frozen=True):
    """The file; it may have other keys, e.g. those of a model."""

    prompts: dict[str, str]


def prompt_for(dataset: str, prompts: Mapping[str, str]) -> str | None:
    """Return the prompt of the longest of the ids or beginnings of ids in *prompts* that fits *dataset*; None for none."""
    fitting = (key for key in prompts if key in (dataset, dataset + _TEST) or dataset.startswith(f"{key}/"))
    longest = max(fitting, key=len, default=None)
    return None if longest is None else prompts[longest]


def read_prompts(path: Path) -> Mapping[str, str]:
    """Return the table `prompts` of a TOML file. Raises MissingData without a file, InvalidFile without such a table."""
    if not path.is_file():
        raise MissingData(f"there is no file of prompts {path}")
    return _read(path, file_state(path))


@lru_cache(maxsize=16)
def _read(path: Path, _state: FileState) -> Mapping[str, str]:
    return read_toml(path, Prompts).prompts  # type: ignore[type-var] # it may have other keys
