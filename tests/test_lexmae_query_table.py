"""Training of documents for queries that a table encodes: losses by hand, batches, and a training to a searched model."""

import json

import pytest

pytest.importorskip("accelerate", reason="training is in the extra train")

import checkpoints
import numpy as np
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import zscore
from tiny import answer
from topics import VOCABULARY, losses, train, write

from lexbench import registry
from lexbench.display.progress import Progress
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.model.encoder import Texts, load_encoder
from lexbench.lexmae.recipe.settings import Encoding, Hardware, Imitation, Ranking
from lexbench.lexmae.training import query_table, ranking
from lexbench.lexmae.training.query_table import AddedWords
from lexbench.models.added_terms import ExactTerms
from lexbench.models.loading import load_tokenizer
from lexbench.models.stated_settings import expression_of_folder
from lexbench.notation import Call

RECIPE = """
schema = 1
name = "table"
output = "table"

[encoding]
titles = "off"
document_length = 32
document_terms = 24

[start]
model = "model"

[exact_terms]
corpora = ["topics"]

[imitation]
model = "imitated"
corpora = ["queries", "topics"]
shares = [1, 1]
length = 20
keep_means = 0.0
steps = 40
batch_size = 2
learning_rate = 3e-3
save_every = 20

[ranking]
model = "dense"
texts = 80
distance = [0.1, 0.1]
queries = ["queries"]
expansions = 2
expansion_weight = 0.25

[hardware]
device = "cpu"
threads = 1
"""
SETTINGS = Imitation(model="any", corpora=("any",), steps=1, batch_size=1, learning_rate=1.0)


def test_the_losses_by_hand(tmp_path):
    """A query's vector is the table's weights of its pieces, each once, and of the words that they add.

    It ranks documents as both teachers together do.
    """
    student, taught = (load_encoder(checkpoints.masked_lm(tmp_path / f"{seed}", seed=seed))[0].eval() for seed in (1, 2))
    size = len(student.embeddings)
    idf, rng = torch.linspace(0.5, 3.0, size), np.random.default_rng(0)
    taught.exact_terms = ExactTerms(torch.ones(size), 0.2 * idf, 4.0)
    student.exact_terms = ExactTerms(torch.ones(size), 0.3 * idf, 4.0)
    added = AddedWords(torch.zeros((size, 2), dtype=torch.int64), torch.zeros((size, 2)))
    added.terms[8], added.factors[8] = torch.tensor([9, 21]), torch.tensor([0.5, 0.25])
    added.terms[30], added.factors[30] = torch.tensor([21, 0]), torch.tensor([0.5, 0.0])
    learner = query_table.TableRanker(student, taught, SETTINGS, idf, added, whole_counts=True)
    with torch.no_grad():
        learner.factors.copy_(torch.linspace(-0.5, 0.5, size))
        learner.added[8, 1] = np.log(3)
    texts = [[2, 8, 9, 8, 3], [2, 8, 9, 20, 21, 3], [2, 30, 3], [2, 30, 31, 3], [2, 20, 9, 3]]
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)
    real, pools = ids > 0, ids > 3
    is_query = torch.tensor([True, False, True, False, False])
    vectors, weights = torch.from_numpy(rng.normal(size=(5, 3))), torch.tensor([[0.5, 7], [1, 2], [2.0, 7], [1, 3], [1, 4]])
    found = learner(ids, real, pools, vectors, weights, torch.arange(5), is_query)

    with torch.no_grad():
        whole = Texts(ids, real, pools)
        table = idf**0.75 * torch.linspace(-0.5, 0.5, size).exp()
        queries = torch.zeros(2, size)
        queries[0, [8, 9, 21]] = torch.stack([table[8], table[9] + 0.5 * table[8], 0.75 * table[8]])
        queries[1, [30, 21]] = torch.stack([table[30], 0.5 * table[30]])
        scores = (0.5 * queries @ student(whole)[~is_query].T).numpy()
        of_queries = taught.exact_terms(taught.predicted(whole), ids, pools, whole=True)[is_query] * idf**0.3
        sparse = (of_queries @ taught(whole)[~is_query].T).numpy()
        dense = (vectors[is_query] @ vectors[~is_query].T).numpy()
        divergence = 0.0
        for row, share in enumerate((0.5, 2.0)):
            target = 2.4 * zscore(zscore(dense[row]) + share * zscore(sparse[row]))
            divergence += softmax(target) @ (log_softmax(target) - log_softmax(scores[row])) / 2
        theirs, ours = (encoder.predicted(whole)[~is_query] for encoder in (taught, student))
        distances = (ours - theirs).square().sum(1) / theirs.square().sum(1).clamp(min=1)
    assert found["ranking"].item() == pytest.approx(divergence, rel=1e-4)
    assert found["predictions"].item() == pytest.approx((distances * torch.tensor([2.0, 3.0, 4.0])).mean().item(), rel=1e-5)
    assert found["loss"].item() == pytest.approx(found["ranking"].item() + found["predictions"].item(), rel=1e-6)
    found["loss"].backward()
    learned = torch.nonzero(learner.added.grad).tolist()
    assert learned == [[8, 0], [8, 1], [30, 0]]  # the factors of words that a query adds


def test_a_word_that_is_not_predicted_yet_can_be_learned(tmp_path):
    """A logit that is at most 2 below 0 weighs nothing, but has a gradient; one further below has none."""
    folder = checkpoints.masked_lm(tmp_path / "model")
    student, taught = (load_encoder(folder)[0].eval() for _ in range(2))
    size = len(student.embeddings)
    no_words = AddedWords(torch.zeros((size, 0), dtype=torch.int64), torch.zeros((size, 0)))
    learner = query_table.TableRanker(student, taught, SETTINGS, torch.ones(size), no_words, whole_counts=False)
    bias = student.projection[1]
    ids = torch.tensor([[2, 8, 9, 3]])
    texts = Texts(ids, ids > 0, ids > 3)
    with torch.no_grad():
        bias -= student.largest_logits(texts)[0] - torch.tensor([1.0, -1.0, -3.0]).repeat(len(bias))[: len(bias)]
    predicted = learner._predicted(texts)
    predicted.sum().backward()
    np.testing.assert_allclose(predicted.detach()[0, :3], [np.log(2), 0, 0], atol=1e-5)
    np.testing.assert_allclose(bias.grad[:3], [0.5, 0.25, 0], atol=1e-5)


def test_a_group_has_a_query_documents_near_it_and_queries_near_these(tmp_path):
    """Neighbours are of the other kind, so no query is a document of a batch."""
    folder = checkpoints.masked_lm(tmp_path / "dense")
    reader = TextReader(load_tokenizer(folder), Encoding(titles="off"))
    rows = reader.queries([f"{first} w{number} {first}" for number in range(12) for first in ("query", "document")])
    is_query, settings = np.arange(24) % 2 == 0, Ranking(model=str(folder), distance=(3.0, 4.0), queries=("q",))
    vectors = ranking.dense_vectors(rows, reader, str(folder), Hardware(device="cpu"), tmp_path, Progress())
    groups = query_table.QueryGroups(rows, (~is_query).astype(int), reader, settings, vectors, is_query)
    drawn = groups.example(3, np.random.default_rng(0))
    batch = groups.tensors([drawn])

    assert len(drawn) == settings.group == 22
    assert drawn[0] == 6
    assert not is_query[drawn[1:8]].any()
    assert is_query[drawn[8:]].all()
    for document, asked in zip(drawn[1:8], drawn[8:].reshape(7, 2), strict=True):
        assert set(asked) <= set(groups.neighbours[document])
    texts = np.unique(drawn)
    assert batch["queries"].tolist() == is_query[texts].tolist()
    assert batch["weights"][:, 1].tolist() == [3.0 if is_query[text] else 4.0 for text in texts]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write the recipe and what it needs, beside a recipe of stages, and return the folder."""
    place = write(tmp_path_factory.mktemp("table"))
    for seed, name in enumerate(("imitated", "dense")):
        checkpoints.masked_lm(place / name, vocabulary=VOCABULARY, seed=seed + 7)
    queries = [json.loads(line) for line in (place / "topics" / "queries.jsonl").read_text().splitlines()]
    (place / "queries").mkdir()
    lines = [json.dumps({"_id": query["_id"], "text": query["text"]}) + "\n" for query in queries]
    (place / "queries" / "corpus.jsonl").write_text("".join(lines))
    (place / "table.toml").write_text(RECIPE)
    return place


@pytest.fixture(scope="module")
def trained(place):
    """Train the recipe, and return the model's folder."""
    said = train(place, "all", "table.toml")
    assert "next: lexbench run suite pydoc -r 'inference_free(model=\"table/imitated\")@impact'" in said
    return place / "table" / "imitated"


def test_a_ranking_is_learned(trained):
    """The divergence falls."""
    log = losses(trained)
    assert np.mean([line["ranking"] for line in log[-2:]]) < 0.8 * log[0]["ranking"]


def test_the_folder_is_searched_with_its_table(trained):
    """The trained folder says that it is inference_free, and its queries have the weights of its table."""
    assert expression_of_folder(trained) == f'inference_free(model="{trained}")@impact'
    settings = {"model": str(trained), "device": "cpu", "dense_ok": True}
    encoder = registry.create("encoders", Call("inference_free", kwargs=tuple(settings.items())))
    table = json.loads((trained / "idf.json").read_text())
    vector = encoder.encode_query(["w3 w5 w3"]).toarray()[0]
    added = json.loads((trained / "query_expansions.json").read_text())

    words = [VOCABULARY.index("w3"), VOCABULARY.index("w5")]
    expected = {"w3": table["w3"], "w5": table["w5"]}
    for word in ("w3", "w5"):
        for term, factor in added[word].items():
            expected[term] = expected.get(term, 0) + table[word] * factor
    np.testing.assert_allclose(vector, [expected.get(word, 0) for word in VOCABULARY], rtol=1e-6)
    assert len(table) == len(VOCABULARY)
    assert encoder.encode_document(["w3 w5 w3"]).toarray()[0, words].min() > 0
    assert "inference_free(model=" in (trained / "README.md").read_text()
    assert "table in\nidf.json" in (trained / "README.md").read_text()


def test_a_word_adds_what_the_imitated_model_predicts_for_it(trained, place):
    """Each whole word begins with its two largest words beside itself and their weights relative to its own; it learns on."""
    encoder, tokenizer = load_encoder(place / "imitated")
    reader = TextReader(tokenizer, Encoding(titles="off"))
    asked = Ranking(model="dense", queries=("queries",), expansions=2, expansion_weight=0.25)
    added = query_table.added_words(encoder.eval(), reader, asked)
    settings = {"model": str(place / "imitated"), "device": "cpu", "dense_ok": True, "positions": "text", "query_length": 32}
    settings["document_length"] = 32
    searched = registry.create("encoders", Call("sparse_mlm", kwargs=tuple(settings.items())))
    weights = searched.encode_query(["w3"]).toarray()[0]
    word = VOCABULARY.index("w3")
    others = [other for other in np.argsort(-weights, kind="stable").tolist() if other != word][:2]
    learned = json.loads((trained / "query_expansions.json").read_text())

    assert added.terms[word].tolist() == others
    np.testing.assert_allclose(added.factors[word], (0.25 * weights / weights[word])[others], rtol=1e-4)
    assert set(learned) == {piece for piece in VOCABULARY if piece.isalnum()}
    assert {VOCABULARY[row] for row in torch.nonzero(added.factors.any(1))[:, 0]} == set(learned)
    assert list(learned["w3"]) == [VOCABULARY[other] for other in others]
    began = {piece: added.factors[VOCABULARY.index(piece)].tolist() for piece in learned}
    assert sum(list(learned[piece].values()) != pytest.approx(began[piece], abs=2e-3) for piece in learned) > 10


@pytest.mark.parametrize(("recipe", "untimed"), [("table", set()), ("tiny", {"mine --stage 1"})])
def test_a_dry_run_times_each_part(place, capsys, monkeypatch, recipe, untimed):
    """Every part except mining with BM25 has seconds per step, hours of all steps, memory, and disk for ten copies."""
    monkeypatch.chdir(place)
    planned = answer(capsys, "train", "all", f"{recipe}.toml", "--dry-run", "--time", "--json", "--output", "elsewhere")
    parts = {part["part"]: part for part in planned["parts"]}

    assert parts.keys() - planned["costs"].keys() == untimed
    for name, cost in planned["costs"].items():
        steps = parts[name]["steps"]
        assert 0 < cost["seconds"] < 60
        assert cost["hours"] == (pytest.approx(steps * cost["seconds"] / 3600) if steps else None)
        assert 0.1 < cost["memory_gib"] < 100
    assert not (place / "elsewhere").exists()
    if recipe == "table":  # an example is a query, seven documents near it, and two queries near each of these
        parameters = load_encoder(place / "model")[0].parameters()
        count = sum(parameter.numel() for parameter in parameters) + 3 * len(VOCABULARY) + 1
        assert planned["costs"]["imitate"]["disk_gib"] == pytest.approx(40 * count / 2**30)
        assert parts["imitate"]["texts"] == 40 * 2 * 22
