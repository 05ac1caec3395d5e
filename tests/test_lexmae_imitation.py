"""Imitation: a tiny model learns the predictions of another one, and keeps its own mean states."""

from functools import cache

import pytest

pytest.importorskip("accelerate", reason="training is in the extra train")

import numpy as np
import torch
from checkpoints import masked_lm
from topics import VOCABULARY, losses, train, write

from lexbench.lexmae.model.encoder import Texts, load_encoder
from lexbench.lexmae.recipe.settings import Imitation
from lexbench.lexmae.training import imitation
from lexbench.models.added_terms import ExactTerms, means

RECIPE = """
schema = 1
name = "copy"
output = "{output}"

[encoding]
titles = "off"
document_length = 32
document_terms = 24
text_terms = 8
query_text_terms = 8

[start]
model = "model"
head = "embeddings"

[exact_terms]
corpora = ["topics"]

[text_head]
terms = 32
texts = 40
steps = 20

[imitation]
model = "{imitated}"
corpora = ["topics", "topics"]
shares = [3, 1]
length = 12
keep_means = {keep_means}
states = {states}
steps = {steps}
batch_size = 8
learning_rate = 3e-3
save_every = 20
start_share = {share}
{ranking}

[hardware]
device = "cpu"
threads = 1
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write recipes with and without the term for mean states, with a ranking, and with other word pieces."""
    place = write(tmp_path_factory.mktemp("imitation"))
    masked_lm(place / "imitated", vocabulary=VOCABULARY, seed=7)
    masked_lm(place / "other", vocabulary=VOCABULARY[:-1])
    masked_lm(place / "padded", vocabulary=VOCABULARY, vocab_size=len(VOCABULARY) + 3)
    ranks = '[ranking]\nmodel = "other dense"\ntexts = 40\ndistance = [0.1, 0.1]'
    for name, imitated, steps, keep, states, share, ranking in (
        ("both", "imitated", 40, 20.0, 0.0, 0.0, ""),
        ("alone", "imitated", 120, 0.0, 0.3, 0.0, ""),  # states are learned more slowly
        ("ranked", "imitated", 120, 0.0, 0.0, 0.25, ranks),
        ("refused", "other", 40, 20.0, 0.0, 0.0, ""),
    ):
        text = RECIPE.format(
            output=name, imitated=imitated, steps=steps, keep_means=keep, states=states, share=share, ranking=ranking
        )
        (place / f"{name}.toml").write_text(text)
    masked_lm(place / "other dense", vocabulary=VOCABULARY, seed=9)
    return place


@pytest.fixture(scope="module")
def trained(place):
    """Return a function that trains by a recipe, once, and returns its log of losses."""

    @cache
    def trained(name):
        train(place, "all", f"{name}.toml")
        return losses(place / name / "imitated")

    return trained


def test_predictions_come_near_the_imitated_ones(trained):
    """The distance to the imitated predictions falls to less than half. A head that is fitted to their states begins nearer."""
    first = trained("both")[0]["predictions"]
    for name in ("both", "alone"):
        assert trained(name)[-1]["predictions"] < 0.5 * first
    assert trained("alone")[0]["predictions"] < 0.2 * first


def test_states_are_imitated_if_the_recipe_says_so(trained):
    """With a weight for states, those of the imitated model are learned, too; without one they are not in the log."""
    assert trained("alone")[-1]["states"] < 0.5 * trained("alone")[0]["states"]
    assert "states" not in trained("both")[-1]


def test_the_distance_of_states(place):
    """The distance of states is squared, and divided by the squared length of the imitated states."""
    encoder, imitated = (load_encoder(place / name)[0].eval() for name in ("other dense", "imitated"))
    settings = Imitation(model="any", corpora=("any",), steps=1, batch_size=1, learning_rate=1.0, states=1.0)
    of_states = torch.nn.Linear(32, 32)
    learner = imitation.Imitator(encoder, imitated, settings, of_states=of_states)
    texts = [torch.tensor([5, 6, 7, 8]), torch.tensor([9, 10])]
    ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    expected = []
    with torch.no_grad():
        found = learner(ids, ids > 0, ids > 0)["states"]
        for text in texts:
            whole = torch.ones((1, len(text)), dtype=torch.bool)
            wanted = imitated.transformed(imitated.hidden(text[None], whole))
            mapped = of_states(encoder.hidden(text[None], whole))
            expected.append((mapped - wanted).square().sum() / wanted.square().sum())
    torch.testing.assert_close(found, torch.stack(expected).mean())


@pytest.mark.slow  # test_lexmae_query_table learns one, too
def test_a_ranking_is_learned(trained):
    """With [ranking] the divergence falls, too."""
    assert trained("ranked")[-1]["ranking"] < 0.5 * trained("ranked")[0]["ranking"]


def test_texts_to_rank_are_different():
    """Every text occurs once, even if its corpus has too few texts for its share. In an epoch such texts occur again."""
    corpora = [[np.array([text]) for text in range(5)], [np.array([text]) for text in range(5, 8)]]
    settings = Imitation(model="m", corpora=("a", "b"), shares=(3, 1), steps=1, batch_size=1, learning_rate=1)
    assert len(imitation._Texts(corpora, settings, seed=1)) == 8
    drawn = [int(row[0]) for row in imitation._Texts(corpora, settings, seed=1, most=8).rows()]
    assert len(drawn) == len(set(drawn)) == 7
    assert set(drawn) >= set(range(5))


def test_trained_weights_are_averaged_with_the_start(place):
    """The masked-language model moves towards the initial one by the share; exact terms stay."""
    trained, initial = (load_encoder(place / name)[0] for name in ("imitated", "other dense"))
    trained.exact_terms = ExactTerms(*torch.full((2, len(VOCABULARY)), 3.0), 9.0)
    expected = [
        0.75 * one + 0.25 * other
        for one, other in zip(trained.language_model.parameters(), initial.language_model.parameters(), strict=True)
    ]
    imitation.average(trained, initial, 0.25)

    for found, wanted in zip(trained.language_model.parameters(), expected, strict=True):
        torch.testing.assert_close(found, wanted)
    assert trained.exact_terms.exact.unique().tolist() == [3.0]


def test_weights_of_words_have_a_separate_learning_rate(place):
    """term_rate applies to the projection's bias and the exact terms, and to nothing else."""
    encoder, imitated = (load_encoder(place / "imitated")[0] for _ in range(2))
    encoder.exact_terms = ExactTerms(*torch.ones((2, len(VOCABULARY))), 9.0)
    settings = Imitation(model="any", corpora=("any",), steps=1, batch_size=1, learning_rate=1.0, term_rate=5.0)
    rates = imitation.Imitator(encoder, imitated, settings).rates
    assert set(rates.values()) == {5.0}
    named = {name.removeprefix("encoder.").removeprefix("language_model.") for name in rates}
    assert {"exact_terms.predicted", "exact_terms.exact"} < named
    assert len(named) == 3


def test_mean_states_stay(trained, place):
    """With the term for mean states they stay nearer to those before training, on whole texts too."""
    assert trained("both")[-1]["means"] < 0.5 * trained("alone")[-1]["means"]
    models = [load_encoder(place / name)[0].eval() for name in ("both/start", "both/imitated", "alone/imitated")]
    ids = torch.randint(5, len(VOCABULARY), (6, 20), generator=torch.Generator().manual_seed(1))
    texts = Texts(ids, ids > 0, ids > 0)
    with torch.no_grad():
        before, kept, alone = (means(model.hidden(texts.ids, texts.real), texts.real) for model in models)
    assert (before * kept).sum(1).mean() > (before * alone).sum(1).mean()


def test_exact_terms_stay_and_a_recipe_without_stages_has_its_text_head(trained, place):
    """Imitation changes no exact term; the text head is trained at its end."""
    trained("both")
    start, end = (load_encoder(place / "both" / name)[0] for name in ("start", "imitated"))

    assert torch.equal(start.exact_terms.exact, end.exact_terms.exact)
    assert start.text_head is None
    assert len(end.text_head.words) == 32


def test_other_word_pieces_are_refused(place):
    """The imitated model must have the same vocabulary, and as many logits."""
    said = train(place, "imitate", "refused.toml", ends=2)
    assert "imitation.model: other has other word pieces than model; name another" in said
    said = train(place, "imitate", "refused.toml", "--set", "imitation.model=padded", "--output", "padded out", ends=2)
    assert f"padded has {len(VOCABULARY) + 3} logits, and model {len(VOCABULARY)}; name one with the same vocab_size" in said
