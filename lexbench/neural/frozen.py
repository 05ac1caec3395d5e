"""A model of transformers that does not change, computed in batches of like lengths, the longest first, so little is padded."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast


class Row(NamedTuple):
    """The tokens of one text, or pair, special ones included."""

    ids: NDArray[np.int64]  # (tokens,)
    types: NDArray[np.int64]  # (tokens,) which segment each is of


class Computed(NamedTuple):
    """What the model returns for one batch."""

    rows: list[int]  # their places in the input
    output: Any
    real: Tensor  # bool (rows, longest), False for padding


class Frozen:
    """A model on its device, and its tokenizer. In another *dtype* than its weights have the computation is under autocast."""

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerFast, device: torch.device, dtype: torch.dtype) -> None:
        self.model = model.to(device).requires_grad_(False)
        self.device, self.dtype = device, dtype
        self.cut = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())  # a copy, which nobody else sets up
        self.cut.no_padding()
        self.cut.no_truncation()
        self.separator = str(tokenizer.sep_token)
        self._pad = tokenizer.pad_token_id or 0
        self._types = "token_type_ids" in tokenizer.model_input_names

    @torch.no_grad()  # and not inference_mode, whose tensors no loss can take
    def computed(self, rows: Sequence[Row], most_tokens: int) -> Iterator[Computed]:
        """Yield all *rows* in batches of at most *most_tokens*, padding included, or of one row."""
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place].ids))
        reduced = self.dtype != self.model.dtype
        at = 0
        while at < len(order):
            longest = max(len(rows[order[at]].ids), 1)
            places = order[at : at + max(1, most_tokens // longest)]
            given, real = self._tensors([rows[place] for place in places], longest)
            with torch.autocast(self.device.type, self.dtype, enabled=reduced):
                output = self.model(**given)
            yield Computed(places, output, real)
            at += len(places)

    def _tensors(self, rows: Sequence[Row], longest: int) -> tuple[dict[str, Tensor], Tensor]:
        """Return what the model is given, padded on the right, and what of that is real."""
        real = np.arange(longest) < np.array([[len(row.ids)] for row in rows])
        arrays = {"input_ids": _padded([row.ids for row in rows], real, self._pad)}
        if self._types:
            arrays["token_type_ids"] = _padded([row.types for row in rows], real, 0)
        given = {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}
        mask = torch.from_numpy(real).to(self.device)
        return given if real.all() else given | {"attention_mask": mask.long()}, mask


def _padded(columns: Sequence[NDArray[np.int64]], real: NDArray[np.bool_], filler: int) -> NDArray[np.int64]:
    filled = np.full(real.shape, filler, np.int64)
    filled[real] = np.concatenate(columns)
    return filled
