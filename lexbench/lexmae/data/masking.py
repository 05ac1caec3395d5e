"""Masked texts, the examples of pretraining: which words the encoder has to predict, and which the decoder.

Paper, sections 3.1 and 3.3; released code, its collator. Each text is masked on its own with its own random generator, so that
the result depends neither on the batch nor on workers or interruptions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from lexbench.lexmae.data.batches import padded
from lexbench.lexmae.data.tokens import TokenisedCorpus
from lexbench.lexmae.recipe.settings import Pretrain

IGNORED = -100  # label of a position without a loss, as in torch's cross_entropy
_HIDDEN, _REPLACED = 0.8, 0.1  # shares of masked words: replaced by [MASK], by another word; the rest stay (BERT)

Ids = NDArray[np.int64]
Chosen = NDArray[np.bool_]


class Masked(NamedTuple):
    """One text as encoder and decoder see it; every array is (length,)."""

    encoder_ids: Ids  # x̄ of the paper
    encoder_labels: Ids  # the original words at masked positions, else IGNORED
    decoder_ids: Ids  # x̃
    decoder_labels: Ids


@dataclass(frozen=True)
class Masking:
    """Masks texts as a recipe says. *mask_id* is the id of [MASK]; random words are drawn from all *vocabulary* ids."""

    recipe: Pretrain
    mask_id: int
    vocabulary: int

    def __call__(self, ids: Ids, words: Chosen, rng: np.random.Generator) -> Masked:
        """Return one text (length,), masked only at positions of *words*, which exclude special tokens."""
        for_encoder = random_share(words, self.recipe.encoder_share, rng)
        for_decoder = self.decoder_positions(words, for_encoder, rng)
        encoder_ids = self.corrupted(ids, for_encoder, rng)
        decoder_ids = self.corrupted(ids, for_decoder, rng)
        if self.recipe.corruption == "extend":  # the decoder sees the encoder's replacements; only the additional ones are new
            decoder_ids = np.where(for_encoder & for_decoder, encoder_ids, decoder_ids)
        return Masked(encoder_ids, np.where(for_encoder, ids, IGNORED), decoder_ids, np.where(for_decoder, ids, IGNORED))

    def decoder_positions(self, words: Chosen, for_encoder: Chosen, rng: np.random.Generator) -> Chosen:
        """Return the positions that the decoder has to recover (length,): *decoder_share* of the words in expectation.

        They are all positions masked for the encoder and some more.
        """
        hidden = self.recipe.encoder_share  # of the words already; the others make up the rest of the share
        more = (self.recipe.decoder_share - hidden) / (1 - hidden) if hidden < 1 else 0.0
        return for_encoder | (words & (rng.random(len(words)) < more))

    def corrupted(self, ids: Ids, chosen: Chosen, rng: np.random.Generator) -> Ids:
        """Return *ids* with the *chosen* positions masked, replaced or kept: 80 / 10 / 10 % in expectation."""
        lot = rng.random(len(ids))
        others = rng.integers(self.vocabulary, size=len(ids))
        corrupted = np.where(lot < _HIDDEN, self.mask_id, np.where(lot < _HIDDEN + _REPLACED, others, ids))
        return np.where(chosen, corrupted, ids)


def random_share(words: Chosen, share: float, rng: np.random.Generator) -> Chosen:
    """Return ceil(share x n) of the n positions of *words*; every set of that size is equally likely."""
    positions = np.flatnonzero(words)
    chosen = np.zeros(len(words), bool)
    count = int(np.ceil(round(share * len(positions), 6)))  # rounded first: .3 x 10 is slightly more than 3 in floats
    chosen[rng.permutation(positions)[:count]] = True
    return chosen


@dataclass(frozen=True, eq=False)
class MaskedTexts:
    """The texts of several corpora, masked anew each time one is drawn."""

    corpora: Sequence[TokenisedCorpus]
    masking: Masking
    special: Sequence[int]  # ids that are never masked
    silent: Sequence[int]  # ids whose positions are not pooled

    @cached_property
    def _is_special(self) -> Chosen:
        """Whether each id is never masked (vocabulary,). A look-up takes a tenth of the time of np.isin."""
        return _table(self.special, self.masking.vocabulary)

    @cached_property
    def _is_silent(self) -> Chosen:
        """Whether the positions of each id are not pooled (vocabulary,)."""
        return _table(self.silent, self.masking.vocabulary)

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """Where the texts of each corpus end (corpora,)."""
        return np.cumsum([len(corpus) for corpus in self.corpora])

    def __len__(self) -> int:
        """Return the number of texts."""
        return int(self._ends[-1])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each text (texts,)."""
        return np.concatenate([corpus.lengths for corpus in self.corpora])

    def example(self, index: int, rng: np.random.Generator) -> tuple[Masked, Chosen]:
        """Return one text, masked, and which of its positions are pooled (length,)."""
        corpus = int(np.searchsorted(self._ends, index, side="right"))
        first = int(self._ends[corpus - 1]) if corpus else 0
        ids = self.corpora[corpus][index - first]
        return self.masking(ids, ~self._is_special[ids], rng), ~self._is_silent[ids]


def _table(ids: Sequence[int], vocabulary: int) -> Chosen:
    """Return a table that is true for *ids* (vocabulary,)."""
    table = np.zeros(vocabulary, bool)
    table[list(ids)] = True
    return table


def collate(pad: int) -> Callable[[Sequence[tuple[Masked, Chosen]]], dict[str, torch.Tensor]]:
    """Return a function from examples to the arguments of `MaskedAutoencoder.forward`, (n, longest) each, padded with *pad*."""

    def batch(examples: Sequence[tuple[Masked, Chosen]]) -> dict[str, torch.Tensor]:
        fills = {"encoder_ids": pad, "encoder_labels": IGNORED, "decoder_ids": pad, "decoder_labels": IGNORED}
        rows = {name: [getattr(masked, name) for masked, _ in examples] for name in fills}
        tensors = {name: padded(rows[name], fill) for name, fill in fills.items()}
        lengths = torch.tensor([len(masked.encoder_ids) for masked, _ in examples])
        tensors["real"] = torch.arange(tensors["encoder_ids"].shape[1]) < lengths[:, None]
        tensors["pools"] = padded([pools for _, pools in examples], 0)
        return tensors

    return batch
