"""Which examples make up which step, and the tensors of a batch.

A *draw* is one example taken for training, counted from 0 over all steps. Draw d belongs to epoch d // n, and its random
generator is seeded with (seed, d), so that workers, devices and the step at which training resumes change nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

T = TypeVar("T")
_WINDOW = 50  # batches whose texts are sorted by length together, to save padding


class Draws(Dataset[T], Generic[T]):
    """All draws of a training: draw d is *example(i, rng)*, where i is the next example in the order of its epoch.

    *lengths* (n,) group draws of similar length into batches of *batch* draws, as SentenceTransformers and the Trainer do.
    Without them the order is only shuffled.
    """

    def __init__(
        self,
        example: Callable[[int, np.random.Generator], T],
        examples: int,
        draws: int,
        seed: int,
        *,
        batch: int = 1,
        lengths: NDArray[np.int64] | None = None,
    ) -> None:
        self.example, self.examples, self.draws, self.seed = example, examples, draws, seed
        self.batch, self.lengths = batch, lengths
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def __len__(self) -> int:
        """Return the number of draws."""
        return self.draws

    def __getitem__(self, draw: int) -> T:
        """Return the example of draw number *draw*."""
        epoch, rank = divmod(int(draw), self.examples)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self.order(epoch)
        return self.example(int(self._order[rank]), np.random.default_rng((self.seed, int(draw))))

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Return the order of an epoch (examples,): shuffled, then grouped by length."""
        rng = np.random.default_rng((self.seed, epoch, self.examples))
        shuffled = rng.permutation(self.examples)
        if self.lengths is None:
            return shuffled
        # The first examples fill the last batch of the previous epoch, so that groups and batches coincide in every epoch.
        first = -epoch * self.examples % self.batch
        grouped = [shuffled[:first]]
        for start in range(first, self.examples, _WINDOW * self.batch):
            window = shuffled[start : start + _WINDOW * self.batch]
            window = window[np.argsort(self.lengths[window], kind="stable")]
            groups = [window[at : at + self.batch] for at in range(0, len(window), self.batch)]
            whole = [group for group in groups if len(group) == self.batch]
            # Shuffle the batches, so that training does not see short texts first; an incomplete batch stays last.
            grouped += [whole[index] for index in rng.permutation(len(whole))] + groups[len(whole) :]
        return np.concatenate(grouped)


def padded(rows: Sequence[NDArray[Any]], value: int) -> torch.Tensor:
    """Return *rows*, (length,) each, as one tensor (rows, longest), padded on the right with *value*."""
    return pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_value=value)


def tensors(rows: Sequence[NDArray[np.int64]], *, pad: int, silent: Sequence[int]) -> dict[str, torch.Tensor]:
    """Return the tokens of texts, (length,) each, as tensors *ids*, *real* and *pools* (texts, longest).

    *ids* are padded with *pad*; *real* marks tokens, as opposed to padding; *pools* marks the tokens that max-pooling reads:
    all except the ids in *silent*.
    """
    ids = padded(rows, pad)
    real = torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
    return {"ids": ids, "real": real, "pools": real & ~torch.isin(ids, torch.tensor(silent, dtype=torch.int64))}
