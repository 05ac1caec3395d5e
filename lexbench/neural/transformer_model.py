"""Checkpoints as encoders run them: loaded once a process, on their device, with what cuts texts for them."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import nn

from lexbench.errors import CannotStart, CommandError
from lexbench.neural.token_batches import cutter

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_KEPT = 4  # checkpoints in memory: two towers of each of two encoders in a hybrid, or one beside a reranker
_TRAILING = ("roberta", "xlm-roberta", "camembert", "mpnet")  # their positions are counted from behind the number of [PAD]
_loading = Lock()  # tokenising and encoding threads ask for the same model at the same time


class Place(NamedTuple):
    """Where a checkpoint is, and how it is run."""

    name: str
    revision: str | None
    dtype: str
    device: str

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type of its weights."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found


class TransformerModel:
    """What every checkpoint has: a body that makes states of tokens, and its tokenizer."""

    def __init__(self, place: Place, body: nn.Module, tokenizer: Any, config: Any) -> None:
        self.name = place.name
        self.device = torch.device(device(place.device))
        self.body = body
        self.tokenizer = tokenizer
        self.pad = int(tokenizer.pad_token_id or 0)
        self.specials = [one for one in (tokenizer.cls_token_id, tokenizer.sep_token_id) if one is not None]
        self.longest = _longest(config, self.pad)
        self._cutters: dict[int, Tokenizer] = {}

    def cutter(self, length: int, setting: str) -> "Tokenizer":
        """Return what tokenises and cuts to *length* tokens; CommandError where the model has fewer positions."""
        if self.longest is not None and length > self.longest:
            raise CommandError(
                f"{setting}={length}: {self.name} takes at most {self.longest} tokens; type {setting}={self.longest}"
            )
        if length not in self._cutters:
            self._cutters[length] = cutter(self.tokenizer, length)
        return self._cutters[length]


M = TypeVar("M", bound=TransformerModel)


def loaded(kind: Callable[[Place], M], place: Place) -> M:
    """Return what *kind* makes of the checkpoint at *place*; it is kept, and made again if the files have changed."""
    files = [file for file in Path(place.name).expanduser().rglob("*") if file.is_file()]
    seen = tuple(sorted((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files))
    with _loading:
        found: M = _loaded(kind, place, seen)
        return found


@lru_cache(maxsize=_KEPT)
def _loaded(kind: Callable[[Place], Any], place: Place, seen: tuple[tuple[str, int, int], ...]) -> Any:
    del seen
    return kind(place)


def device(named: str) -> str:
    """Return the device that *named* is; CannotStart where this machine does not have it."""
    there = torch.cuda.device_count()
    if named == "auto":
        return "cuda" if there else "cpu"
    if named == "mps" and not torch.backends.mps.is_available():
        raise CannotStart("device=mps: torch finds no Apple GPU here; type device=cpu")
    if named.startswith("cuda") and int(named.partition(":")[2] or 0) >= there:
        raise CannotStart(f"device={named}: torch {torch.__version__} finds {there} CUDA devices here; type device=auto")
    return named


def _longest(config: Any, pad: int) -> int | None:
    """Return how many tokens a text may have, None for as many as one likes."""
    positions = getattr(config, "max_position_embeddings", None)
    return positions - pad - 1 if positions and config.model_type in _TRAILING else positions
