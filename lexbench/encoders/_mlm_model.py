"""Checkpoints as `sparse_mlm` runs them: loaded once a process, on their device, with what cuts texts for them."""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from lexbench.encoders import _checkpoint, _mlm_packed
from lexbench.encoders._token_batches import cutter
from lexbench.errors import CannotStart, CommandError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_PIECE = 2048  # terms projected at a time: their logits stay in the processor's cache
_KEPT = 2  # checkpoints in memory: a document tower and a query tower
_TRAILING = ("roberta", "xlm-roberta", "camembert")  # their positions are counted from behind the number of [PAD]
_loading = Lock()  # tokenising and encoding threads ask for the same model at the same time


class Place(NamedTuple):
    """Where a checkpoint is, and how it is run."""

    name: str
    revision: str | None
    dtype: str
    device: str


class Model:
    """A masked-language model in three steps (body, transform, projection), and its tokenizer."""

    def __init__(self, place: Place) -> None:
        device, dtype = _device(place.device), getattr(torch, place.dtype)
        found = _checkpoint.load(place.name, place.revision, dtype=dtype, device=device)
        self.name = place.name
        self.device = torch.device(device)
        self.body: nn.Module = found.body
        self.transform: nn.Module = found.transform
        self.vocabulary = len(found.weight)
        packed = _mlm_packed.usable(self.device.type, dtype)
        self.pieces = _projection(found.weight, found.bias, packed=packed)
        if packed:
            _mlm_packed.pack(self.body)
            _mlm_packed.pack(self.transform)
        self.tokenizer: Any = found.tokenizer
        self.pad = int(self.tokenizer.pad_token_id or 0)
        self.specials = [one for one in (self.tokenizer.cls_token_id, self.tokenizer.sep_token_id) if one is not None]
        self.longest = _longest(found.config, self.pad)
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


def model(place: Place) -> Model:
    """Return the model at *place*; it is kept, and read again if the files of its folder have changed."""
    files = [file for file in Path(place.name).expanduser().rglob("*") if file.is_file()]
    seen = tuple(sorted((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files))
    with _loading:
        return _model(place, seen)


@lru_cache(maxsize=_KEPT)
def _model(place: Place, seen: tuple[tuple[str, int, int], ...]) -> Model:
    del seen
    return Model(place)


def _device(named: str) -> str:
    """Return the device that *named* is; CannotStart where this machine does not have it."""
    there = torch.cuda.device_count()
    if named == "auto":
        return "cuda" if there else "cpu"
    if named == "mps" and not torch.backends.mps.is_available():
        raise CannotStart("device=mps: torch finds no Apple GPU here; type device=cpu")
    if named.startswith("cuda") and int(named.partition(":")[2] or 0) >= there:
        raise CannotStart(f"device={named}: torch {torch.__version__} finds {there} CUDA devices here; type device=auto")
    return named


def _projection(weight: Tensor, bias: Tensor | None, *, packed: bool) -> list[Callable[[Tensor], Tensor]]:
    """Return the projection onto the vocabulary in pieces, each (tokens, width) to (tokens, terms)."""
    starts = range(0, len(weight), _PIECE)
    parts = [(weight[at : at + _PIECE], None if bias is None else bias[at : at + _PIECE]) for at in starts]
    return [_mlm_packed.Packed(*part) if packed else partial(_linear, *part) for part in parts]


def _linear(weight: Tensor, bias: Tensor | None, states: Tensor) -> Tensor:
    return functional.linear(states, weight, bias)


def _longest(config: Any, pad: int) -> int | None:
    """Return how many tokens a text may have, None for as many as one likes."""
    positions = getattr(config, "max_position_embeddings", None)
    return positions - pad - 1 if positions and config.model_type in _TRAILING else positions
