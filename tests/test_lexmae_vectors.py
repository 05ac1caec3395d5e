"""Learning a teacher's vectors: what is learned, how it is measured, and `lexbench train vectors` on a tiny collection."""

import json

import numpy as np
import pytest

pytest.importorskip("accelerate", reason="training is in the extra train")

import safetensors.torch
import torch
import transformers
from checkpoints import tiny_bert
from topics import RECIPE, VOCABULARY, Process, enter, losses, write

from lexbench.cli import code
from lexbench.lexmae.cards import card
from lexbench.lexmae.data.batches import tensors
from lexbench.lexmae.data.statistics import Statistics
from lexbench.lexmae.data.tokens import TokenisedCorpus
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts
from lexbench.lexmae.model.vector_learner import VectorLearner
from lexbench.lexmae.recipe import Vectors

PAD, CLS, SEP = 0, 2, 3
SECTION = """
[vectors]
corpora = ["topics"]
queries = ["topics"]
teacher = "teacher"
steps = 40
batch_size = 16
learning_rate = 5e-3
dropout = 0.0
save_every = 20

[stage1]"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a collection, a model, a teacher with other weights, and a recipe that learns its vectors."""
    place = write(tmp_path_factory.mktemp("vectors"))
    tiny_bert(place / "teacher", form="transformers", safetensors=True, vocabulary=VOCABULARY, seed=1)
    tiny_bert(place / "stranger", form="transformers", safetensors=True, vocabulary=(*VOCABULARY[:-1], "stranger"))
    recipe = RECIPE.replace('weights = "fresh"', 'weights = "keep"').replace("\n[stage1]", SECTION + '\nstart = "vectors"', 1)
    (place / "tiny.toml").write_text(recipe)
    return place


@pytest.fixture(scope="module")
def learned(place):
    """Learn in a process of its own; return the folder and what was said."""
    process = Process(place, code, ["train", "vectors", "tiny.toml"])
    assert process.code() == 0, process.said
    return place / "out" / "vectors", process.said


def asked(**settings):
    """Return the settings of the stage."""
    needed = {"corpora": ("a",), "teacher": "t", "steps": 1, "batch_size": 1, "learning_rate": 1e-3}
    return Vectors(**needed | settings)


def learner(place, **settings):
    """Return a learner on two corpora of a few texts, with both models of the folder."""
    models = [transformers.AutoModelForMaskedLM.from_pretrained(place / name) for name in ("model", "teacher")]
    rows = [[[CLS, 9, 9, 10, SEP], [CLS, 9, 11, SEP]], [[CLS, 11, 12, SEP]]]
    corpora = [TokenisedCorpus(np.concatenate(texts), np.cumsum([0, *map(len, texts)])) for texts in rows]
    statistics = Statistics.of(corpora, len(VOCABULARY), 2)
    return VectorLearner(LexiconEncoder(models[0]), models[1], statistics, asked(**settings))


def batch(*rows, corpus=0, is_query=False):
    """Return texts as `VectorLearner` takes them."""
    texts = tensors([np.array([CLS, *row, SEP]) for row in rows], pad=PAD, silent=(CLS, SEP))
    return texts | {"corpus": torch.tensor([corpus] * len(rows)), "is_query": torch.tensor([is_query] * len(rows))}


def test_statistics_are_the_means_of_one_corpus_and_all():
    """The inverse document frequency is the mean of that in the corpus and that in all; lengths are without special tokens."""
    corpora = [
        TokenisedCorpus(np.array([2, 9, 9, 3, 2, 10, 3]), np.array([0, 4, 7])),
        TokenisedCorpus(np.array([2, 9, 3]), np.array([0, 3])),
    ]
    idf, lengths = Statistics.of(corpora, 12, 2)

    one_of_two, two_of_three, one_of_one = np.log1p(1.5 / 1.5), np.log1p(1.5 / 2.5), np.log1p(0.5 / 1.5)
    assert idf[:, 9].tolist() == pytest.approx([(one_of_two + two_of_three) / 2, (one_of_one + two_of_three) / 2])
    assert lengths.tolist() == [1.5, 1.0]


def test_what_is_learned_of_a_document(place):
    """It is the teacher's weights and BM25's of the text's own word pieces, each with its power of idf, scaled."""
    model = learner(place, document_terms=200)
    texts = batch([9, 9, 12])
    wanted = model.target(Texts(texts["ids"], texts["real"], texts["pools"]), texts["corpus"], texts["is_query"])[0]

    teacher = LexiconEncoder(transformers.AutoModelForMaskedLM.from_pretrained(place / "teacher").eval())
    with torch.no_grad():
        weights = teacher(Texts(texts["ids"], texts["real"], texts["pools"]))[0]
    idf, average = model.idf[0], 2.5
    expected = weights * idf**0.25
    for piece, count in ((9, 2), (12, 1)):
        saturated = count * 1.9 / (count + 0.9 * (0.6 + 0.4 * 3 / average))
        expected[piece] += 2 * idf[piece] ** 0.5 * saturated
    torch.testing.assert_close(wanted, (0.35 * expected).clamp(max=4.5))


def test_a_query_has_fewer_terms_whatever_its_length(place):
    """The largest terms of a text are learned, of a query as many as it asks for, and its length plays no part."""
    model = learner(place, document_terms=7, query_terms=3)
    for texts, terms in ((batch([9, 10, 11]), 7), (batch([9, 10, 11], is_query=True), 3)):
        wanted = model.target(Texts(texts["ids"], texts["real"], texts["pools"]), texts["corpus"], texts["is_query"])
        assert (wanted > 0).sum() == terms
    alone = model.target(Texts(texts["ids"], texts["real"], texts["pools"]), texts["corpus"], torch.tensor([True]))
    assert alone[0, 11] == pytest.approx(wanted[0, 11].item())


def test_a_silent_word_that_is_wanted_is_learned(place):
    """Where the model gives a wanted word nothing, the loss still tells it to give more."""
    model = learner(place)
    _, bias = model.encoder.projection
    with torch.no_grad():
        bias.fill_(-9.0)  # all words are silent
    found = model(**batch([9, 10]))
    found["loss"].backward()

    assert found["terms_d"] == 0
    assert bias.grad is not None
    assert bias.grad[9] < 0  # Adam goes the other way


def test_the_loss_is_relative(place):
    """A model that gives nothing has a loss of about 1 for every text, long or short; one that has learned it, of 0."""
    model = learner(place, sparsity=0)
    texts = batch([9, 10, 11, 12], [9])
    wanted = model.target(Texts(texts["ids"], texts["real"], texts["pools"]), texts["corpus"], texts["is_query"])
    model.encoder.largest_logits = lambda _: torch.expm1(wanted)
    model.settings = asked(sparsity=0)

    assert model(**texts)["loss"] == pytest.approx(0, abs=1e-6)


def test_the_teacher_is_no_part_of_the_model(place):
    """Its weights are neither trained nor written into checkpoints."""
    model = learner(place)

    assert not [name for name, _ in model.named_parameters() if "frozen" in name or "teacher" in name]
    assert not any(value.requires_grad for value in model._frozen[0].parameters())
    assert list(model.rates.values()) == [10.0]


def test_the_difference_falls(learned):
    """What is left of the difference after training is less than half, for documents and queries."""
    first, *_, last = losses(learned[0])

    assert last["step"] == 40
    for name in ("loss", "difference_d", "difference_q"):
        assert last[name] < 0.5 * first[name]


def test_the_bias_learns_faster(place, learned):
    """After one step of Adam the projection's bias has moved ten times as far as the other weights."""
    process = Process(
        place, code, ["train", "vectors", "tiny.toml", "--steps", "1", "--output", "one", "--set", "vectors.warmup=0"]
    )
    assert process.code() == 0, process.said
    before, after = (safetensors.torch.load_file(place / name / "model.safetensors") for name in ("one/start", "one/vectors"))
    moved = {name: (after[name] - before[name]).abs().max().item() for name in before}

    assert moved["cls.predictions.bias"] == pytest.approx(10 * 5e-3, rel=0.05)
    assert moved["cls.predictions.transform.dense.bias"] == pytest.approx(5e-3, rel=0.05)


def test_the_card_says_what_was_seen(learned):
    """Its texts and queries are counted, and whose knowledge it inherits is named."""
    folder, said = learned
    facts = card.read(folder).facts
    text = (folder / "README.md").read_text()

    assert [(one.use, one.counts) for one in facts.data] == [("vectors", {"documents": 120, "queries": 60})]
    assert "without judgements: no score on them is one on unseen texts." in text
    assert "It inherits what model and teacher had been trained on." in text
    assert said.splitlines()[-1] == "next: lexbench train mine tiny.toml --stage 1"


def test_a_stage_goes_on_from_it(place, learned, monkeypatch):
    """Fine-tuning begins with the model that has learned the vectors, and its data are on the card of the next."""
    enter(place, monkeypatch)
    assert code(["train", "mine", "tiny.toml", "--stage", "1"]) == 0
    assert code(["train", "finetune", "tiny.toml", "--stage", "1", "--set", "stage1.steps=1"]) == 0

    assert [one.use for one in card.read(place / "out" / "stage1").facts.data][:2] == ["vectors", "training"]


def test_the_plan_counts_it(place, monkeypatch, capsys):
    """The dry run has a row for it."""
    enter(place, monkeypatch)
    assert code(["train", "vectors", "tiny.toml", "--dry-run", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["parts"]

    assert (row["part"], row["texts"], row["steps"]) == ("vectors", 640, 40)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('vectors.queries=["others"]', "Expected queries of the corpora, and others is none of them"),
        ('vectors.start="pretrained"', "vectors needs other/pretrained, which is not there yet"),
        ("vectors.teacher=./nowhere", "./nowhere"),
        ("vectors.teacher=stranger", "vectors.teacher: stranger has other word pieces than the model"),
    ],
)
def test_mistakes_are_told_before_any_work(place, monkeypatch, capsys, setting, message):
    """A setting that cannot be is named, and what there is."""
    enter(place, monkeypatch)
    arguments = ["train", "vectors", "tiny.toml", "--output", "other", "--set", setting]

    assert code(arguments) != 0
    assert message in capsys.readouterr().err


def test_queries_for_testing_are_refused(place, monkeypatch, capsys):
    """Not even the texts of queries that a table reports are learned from."""
    enter(place, monkeypatch)
    names = '["pydoc/test"]'
    settings = ["--set", f"vectors.corpora={names}", "--set", f"vectors.queries={names}"]

    assert code(["train", "vectors", "tiny.toml", "--output", "other", *settings]) != 0
    assert "vectors.queries: pydoc/test is for testing" in capsys.readouterr().err
