"""The masking for LexMAE's encoder and decoder."""

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

from hypothesis import given
from hypothesis import strategies as st
from tiny_recipes import pretraining

from lexbench.lexmae.data.masking import IGNORED, Masking, random_share

MASK = 4
CLS, SEP = 2, 3
TEXT = np.array([CLS, *range(10, 20), SEP])  # ten words between two special tokens
WORDS = np.array([False, *[True] * 10, False])
DRAWS = 4000


def masking(vocabulary=100, **settings):
    """Return the masking of a recipe with the *settings* of [pretrain]."""
    return Masking(pretraining(**settings), MASK, vocabulary)


def drawn(mask, draws=DRAWS, ids=TEXT, words=WORDS):
    """Return one text, masked many times."""
    rng = np.random.default_rng(1)
    return [mask(ids, words, rng) for _ in range(draws)]


def counts(texts, chosen):
    """Return the number of positions in *chosen* per masked text (texts,)."""
    return np.array([chosen(one).sum() for one in texts])


def for_encoder(one):
    """Return the positions that the encoder has to recover."""
    return one.encoder_labels != IGNORED


def for_decoder(one):
    """Return the positions that the decoder has to recover."""
    return one.decoder_labels != IGNORED


@pytest.mark.parametrize(("words", "wanted"), [(0, 0), (1, 1), (3, 1), (4, 2), (10, 3), (20, 6), (47, 15), (140, 42)])
def test_the_encoders_share_is_rounded_up(words, wanted):
    """Exactly ceil(.3 n) of n words are masked for the encoder, although .3 x 10 is more than 3 in floats."""
    ids = np.array([CLS, *[7] * words, SEP])
    chosen = np.array([False, *[True] * words, False])
    for one in drawn(masking(), 5, ids, chosen):
        assert for_encoder(one).sum() == wanted
    assert random_share(np.ones(100, bool), 0.07, np.random.default_rng(0)).sum() == 7  # .07 x 100 is 7.000000000000001


def test_each_choice_is_equally_likely():
    """Each of the six pairs of four words is equally frequent, within five standard deviations."""
    rng = np.random.default_rng(0)
    words = np.array([True, False, True, True, True])
    found = Counter(tuple(np.flatnonzero(random_share(words, 0.5, rng)).tolist()) for _ in range(6000))

    assert found.keys() == {(0, 2), (0, 3), (0, 4), (2, 3), (2, 4), (3, 4)}
    assert all(abs(count - 1000) < 5 * 28.9 for count in found.values())  # (6000 x 1/6 x 5/6)^(1/2) = 28.9


@given(
    words=st.lists(st.booleans(), min_size=1, max_size=30),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
    corruption=st.sampled_from(["fresh", "extend"]),
    seed=st.integers(0, 100),
)
def test_inclusive(words, shares, corruption, seed):
    """The decoder recovers all that the encoder recovers; only words are masked, and labels are the words."""
    ids, chosen = np.arange(10, 10 + len(words)), np.array(words)
    one = masking(encoder_share=shares[0], decoder_share=shares[1], corruption=corruption)(
        ids, chosen, np.random.default_rng(seed)
    )

    assert not (for_encoder(one) & ~for_decoder(one)).any()
    for seen, labels in ((one.encoder_ids, one.encoder_labels), (one.decoder_ids, one.decoder_labels)):
        told = labels != IGNORED
        assert not (told & ~chosen).any()
        assert (labels[told] == ids[told]).all()
        assert (seen[~told] == ids[~told]).all()


def test_half_of_the_words_are_the_decoders():
    """Of ten words five are masked for the decoder in expectation, with all three that the encoder has to recover.

    The variance of a count is at most that of ten coins, 10 x .5 x .5 = 2.5, so four standard deviations of a mean are
    4 x (2.5 / 4000)^(1/2) = .1. The additional words are drawn one by one, so they vary like seven coins of 2/7.
    """
    texts = drawn(masking())
    assert abs(counts(texts, for_decoder).mean() - 5) < 0.1
    assert set(counts(texts, lambda one: for_encoder(one) & for_decoder(one)).tolist()) == {3}
    assert counts(texts, for_decoder).var() == pytest.approx(7 * 2 / 7 * 5 / 7, abs=0.15)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_80_10_10(side):
    """Of masked words 80 % become [MASK], 10 % any word of the whole vocabulary, and 10 % stay.

    40 000 words, none of them of the 50 that are drawn from: the standard deviation of the first count is
    (40 000 x .8 x .2)^(1/2) = 80, of the others (40 000 x .1 x .9)^(1/2) = 60. One of 50 replacements is [MASK] by chance.
    """
    vocabulary, total = 50, 40_000
    ids, everywhere = np.full(total, 1000), np.ones(total, bool)
    one = masking(vocabulary, encoder_share=1.0, decoder_share=1.0)(ids, everywhere, np.random.default_rng(0))
    found = Counter(getattr(one, f"{side}_ids").tolist())

    by_chance = 4000 / vocabulary
    assert abs(found.pop(MASK) - (32_000 + by_chance)) < 4 * 80
    assert abs(found.pop(1000) - 4000) < 4 * 60
    assert found.keys() == set(range(vocabulary)) - {MASK}
    assert abs(sum(found.values()) - (4000 - by_chance)) < 4 * 60
    assert max(found.values()) < by_chance + 5 * by_chance**0.5


def test_fresh_and_extend():
    """A word that both have to recover looks the same to both with "extend"; drawn afresh it differs in 35 % of cases.

    It is the same if both are [MASK] (.8 x .8) or both stay (.1 x .1), and hardly ever otherwise. 30 000 words are compared:
    the standard deviation of the share is (.35 x .65 / 30 000)^(1/2) = .0028.
    """
    words = 1000
    ids, everywhere = np.arange(words) + 10_000, np.ones(words, bool)
    differing = {}
    for corruption in ("fresh", "extend"):
        texts = drawn(masking(5000, corruption=corruption), 100, ids, everywhere)
        both = [(one.encoder_ids != one.decoder_ids)[for_encoder(one)] for one in texts]
        differing[corruption] = np.concatenate(both).mean()
        assert any((one.decoder_ids != ids)[~for_encoder(one)].any() for one in texts)

    assert abs(differing["fresh"] - 0.35) < 4 * 0.0028
    assert differing["extend"] == 0
