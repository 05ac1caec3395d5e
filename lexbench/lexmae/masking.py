"""What is masked for the encoder, and what for the decoder: paper, sections 3.1 and 3.3; released code, its collator.

All of it is numpy on one text at a time, drawn from a generator of that text's own, so that it does not depend on what else is
in the batch, on workers, or on where training was resumed.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.lexmae.recipe import Pretrain

IGNORED = -100  # the label of a position that no loss looks at, as torch's cross_entropy has it
_HIDDEN, _REPLACED = 0.8, 0.1  # of masked words: [MASK]; another word; the rest stay as they are (BERT)

Ids = NDArray[np.int64]
Chosen = NDArray[np.bool_]


class Masked(NamedTuple):
    """One text as the two halves of the autoencoder see it; every array is (length,)."""

    encoder_ids: Ids  # x̄
    encoder_labels: Ids
    decoder_ids: Ids  # x̃
    decoder_labels: Ids


@dataclass(frozen=True)
class Masking:
    """How texts are masked. *mask_id* is the number of [MASK]; other words are drawn from all *vocabulary* of them."""

    mask_id: int
    vocabulary: int
    encoder_share: float = 0.3
    decoder_share: float = 0.5
    masking: Literal["inclusive", "exclusive", "random"] = "inclusive"
    corruption: Literal["fresh", "extend"] = "fresh"

    @classmethod
    def of(cls, pretrain: Pretrain, mask_id: int, vocabulary: int) -> "Masking":
        """Return the masking that a recipe asks for."""
        shares = pretrain.encoder_share, pretrain.decoder_share
        return cls(mask_id, vocabulary, *shares, pretrain.masking, pretrain.corruption)

    def __call__(self, ids: Ids, words: Chosen, rng: np.random.Generator) -> Masked:
        """Mask one text (length,); only positions of *words* are, and neither special tokens nor padding."""
        for_encoder = exactly(words, self.encoder_share, rng)
        for_decoder = self.decoder_positions(words, for_encoder, rng)
        encoder_ids = self.corrupted(ids, for_encoder, rng)
        decoder_ids = self.corrupted(ids, for_decoder, rng)
        if self.corruption == "extend":  # what both have to guess looks the same to both
            decoder_ids = np.where(for_encoder & for_decoder, encoder_ids, decoder_ids)
        return Masked(encoder_ids, np.where(for_encoder, ids, IGNORED), decoder_ids, np.where(for_decoder, ids, IGNORED))

    def decoder_positions(self, words: Chosen, for_encoder: Chosen, rng: np.random.Generator) -> Chosen:
        """Return what the decoder has to recover, *decoder_share* of the words in expectation.

        Inclusive: all that the encoder does not see, and some more; exclusive: none of it; random: whatever comes.
        """
        hidden = self.encoder_share
        match self.masking:
            case "inclusive":
                more = (self.decoder_share - hidden) / (1 - hidden) if hidden < 1 else 0.0
                return for_encoder | (words & (rng.random(len(words)) < more))
            case "exclusive":
                others = self.decoder_share / (1 - hidden) if hidden < 1 else 0.0
                return words & ~for_encoder & (rng.random(len(words)) < others)
            case "random":
                return words & (rng.random(len(words)) < self.decoder_share)

    def corrupted(self, ids: Ids, chosen: Chosen, rng: np.random.Generator) -> Ids:
        """Return *ids* with the *chosen* ones hidden, replaced or left: 80 / 10 / 10 % in expectation."""
        lot = rng.random(len(ids))
        others = rng.integers(self.vocabulary, size=len(ids))
        replaced = np.where(lot < _HIDDEN, self.mask_id, np.where(lot < _HIDDEN + _REPLACED, others, ids))
        return np.where(chosen, replaced, ids)


def exactly(words: Chosen, share: float, rng: np.random.Generator) -> Chosen:
    """Return ceil(share x n) of the n positions of *words*, each set of that size equally likely."""
    places = np.flatnonzero(words)
    chosen = np.zeros(len(words), bool)
    wanted = int(np.ceil(round(share * len(places), 6)))  # .3 x 10 is 3, whatever floats say
    chosen[rng.permutation(places)[:wanted]] = True
    return chosen
