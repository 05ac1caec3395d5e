"""Models as `late_interaction` runs them: a body, and a linear layer that makes a vector of each token's state."""

from collections.abc import Sequence
from string import punctuation

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from lexbench.encoders._body_model import BodyModel
from lexbench.errors import CommandError, InvalidFile
from lexbench.neural.token_batches import Batch, Input, Tokens, tokenise
from lexbench.neural.transformer_model import Place


class LateInteractionModel(BodyModel):
    """A body with its projection (`linear` of ColBERT, a Dense module of PyLate), and its tokenizer."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        weight = self.other("linear.weight")
        if weight is None or weight.shape[1:] != (self.width,):
            found = "none" if weight is None else f"one of {tuple(weight.shape)}"
            raise InvalidFile(
                f"{self.name}: late interaction has a tensor linear.weight (dimensions, {self.width}) behind the model, and "
                f"here is {found}; give a ColBERT"
            )
        self.weight, self.bias = weight, self.other("linear.bias")
        self.dimensions = len(weight)

    def token(self, name: str, setting: str) -> int:
        """Return the number of the token *name*; CommandError where the tokenizer does not have it."""
        found = self.tokenizer.convert_tokens_to_ids(name)
        if found is None or found == self.tokenizer.unk_token_id:
            raise CommandError(f"{self.name}: its tokenizer has no token {name!r}; type {setting}=… as its authors do")
        return int(found)

    @property
    def mask(self) -> int:
        """The number of [MASK]; CommandError where the model has none."""
        if self.tokenizer.mask_token_id is None:
            raise CommandError(f"{self.name}: its tokenizer has no [MASK] to fill queries with; type mask_queries_to=0")
        return int(self.tokenizer.mask_token_id)

    @property
    def punctuation(self) -> list[int]:
        """The numbers of the tokens that are one character of ASCII punctuation."""
        found = self.tokenizer.convert_tokens_to_ids(list(punctuation))
        return [number for number in found if number not in (None, self.tokenizer.unk_token_id)]

    def marked(self, texts: Sequence[Input], length: int, setting: str, marker: int | None) -> Tokens:
        """Return the tokens of *texts* with *marker* behind the first ([CLS]), cut so that all are at most *length*."""
        cut = self.cutter(length, setting)  # which refuses more than the model takes
        if marker is None:
            return tokenise(cut, texts)
        tokens = tokenise(self.cutter(length - 1, setting), texts)
        starts = tokens.starts + np.arange(len(tokens.starts))
        return tokens._replace(ids=np.insert(tokens.ids, tokens.starts[:-1] + 1, marker), starts=starts)

    @torch.inference_mode()
    def vectors(self, batch: Batch) -> NDArray[np.float32]:
        """Return the vectors (tokens, dimensions) of length 1 of the positions that pool, text after text."""
        pools = torch.from_numpy(batch.pools).to(self.device)
        projected = functional.linear(self.states(batch)[pools].float(), self.weight, self.bias)
        found: NDArray[np.float32] = functional.normalize(projected, dim=1).cpu().numpy()
        return found
