"""Models of beir among our systems: beir's own search and evaluation are the reference."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import lexbench
from lexbench.errors import CommandError
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.object_encoders import beir_encoder as encoder
from lexbench.runner.systems import system
from lexbench.types import Document


@pytest.fixture(scope="module")
def beir():
    """Import beir's evaluation and search; its imports warn of others' plans."""
    pytest.importorskip("beir", reason="beir is in the extra beir")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from beir.retrieval.evaluation import EvaluateRetrieval
        from beir.retrieval.search.dense import DenseRetrievalExactSearch

    return SimpleNamespace(evaluate=EvaluateRetrieval, exact=DenseRetrievalExactSearch)


class Letters:
    """A retrieval model with beir's methods: it counts letters, those of titles twice, and records its input."""

    def __init__(self, form=np.asarray):
        self.form = form
        self.given = []

    def encode_queries(self, queries, batch_size=16, **kwargs):
        """Return counts (n, 26)."""
        return self.form(np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in queries], np.float64))

    def encode_corpus(self, corpus, batch_size=16, **kwargs):
        """Return counts (n, 26)."""
        self.given += corpus
        return self.encode_queries([2 * one["title"] + one["text"] for one in corpus])


def test_a_beir_model_is_recognised():
    """An object with beir's two methods is an encoder with the exact engine for its vectors, named after its class."""
    dense, counted = system(Letters()), system(Letters(sparse.csr_matrix))

    assert (dense.name, counted.name) == ("Letters", "Letters")
    assert isinstance(dense.retriever, Encoded)
    assert [type(one.retriever.engine).__name__ for one in (dense, counted)] == ["Flat", "Csr"]
    assert not dense.reusable
    with pytest.raises(CommandError, match="similarity='cos' is unknown; it is one of cosine, dot"):
        encoder(Letters(), similarity="cos")
    assert not encoder(Letters()).encode_query(["?"]).any()  # has no length, so none that could be made 1


def test_titles_and_bodies_are_handed_apart(tmp_path):
    """The model gets the same input as from beir; progress counts every document."""
    model, told = Letters(), []
    documents = [Document("d1", "Foxes A red fox", 6), Document("d2", "A red car")] * 200
    made = encoder(model, "dot")
    vectors = made.encode_tokens(made.tokenise_documents(documents), told.append)

    assert model.given[:2] == [{"title": "Foxes", "text": "A red fox"}, {"title": "", "text": "A red car"}]
    assert sum(told) == len(vectors) == 400
    assert vectors.dtype == np.float32
    assert vectors[0].tolist() == Letters().encode_queries(["FoxesFoxesA red fox"])[0].tolist()
    assert made.encode_document(["A fox"]).tolist() == made.encode_query(["A fox"]).tolist()


def test_a_model_with_an_identity_is_known_again():
    """Two sessions' objects of one identity are one system; another similarity is another."""

    class Known(Letters):
        def identity(self):
            return "letters"

    recipes = [system(Known()).recipe, system(Known()).recipe, system(encoder(Known(), "dot")).recipe]
    assert recipes[0] == recipes[1] != recipes[2]
    assert system(Known()).reusable


def random_dataset():
    """Return 300 documents, some with titles, 40 queries and their judgements, in words of three letters."""
    chance = np.random.default_rng(0)
    words = ["".join(chance.choice(list("abcdefghij"), 3)) for _ in range(120)]

    def text(count):
        return " ".join(chance.choice(words, count))

    corpus = {f"d{i}": {"title": text(2) if i % 3 else "", "text": text(9)} for i in range(300)}
    queries = {f"q{i}": text(3) for i in range(40)}
    qrels = {query: {f"d{i}": int(chance.integers(0, 3)) for i in chance.choice(300, 60, replace=False)} for query in queries}
    return corpus, queries, qrels


class Mixed(Letters):
    """A model under which no two texts are alike: a random vector a letter, the more of it the later it stands."""

    def encode_queries(self, queries, batch_size=16, **kwargs):
        """Return vectors (n, 16)."""
        letters = np.random.default_rng(1).normal(size=(128, 16))
        rows = [sum((letters[ord(one)] * (1 + at / 50) for at, one in enumerate(text)), np.zeros(16)) for text in queries]
        return self.form(np.array(rows, np.float32))


def scores(beir, model, given, store, similarity="cos_sim"):
    """Return the nDCG@10 that beir's exact search gives *model*, and the one that lexbench gives the system *given*."""
    corpus, queries, qrels = random_dataset()
    search = beir.exact(model, corpus_chunk_size=64, show_progress_bar=False)
    evaluation = beir.evaluate(search, k_values=[10], score_function=similarity)
    theirs, *_ = evaluation.evaluate(qrels, evaluation.retrieve(corpus, queries), evaluation.k_values)
    data = {"corpus": corpus, "queries": queries, "qrels": qrels}
    (ours,) = lexbench.run(data, {"mine": given}, measures=["nDCG@10"], depth=10, store=store)
    return theirs["NDCG@10"], round(ours.means["nDCG@10"], 5)


@pytest.mark.parametrize(("similarity", "ours"), [("cos_sim", "cosine"), ("dot", "dot")])
def test_a_model_scores_the_same_here_and_there(beir, tmp_path, similarity, ours):
    """A model in beir's exact search and the same model as our encoder have one nDCG."""
    torch = pytest.importorskip("torch", reason="torch is in the extra neural")
    model = Mixed(torch.tensor)
    expected, found = scores(beir, model, encoder(model, ours), tmp_path, similarity)

    assert found == expected > 0.05


@pytest.mark.slow  # importing beir's models takes ten seconds
def test_a_sentence_transformer_of_beir(beir, tmp_path):
    """A SentenceBERT of beir with random weights has the same scores here and there."""
    pytest.importorskip("sentence_transformers", reason="sentence-transformers comes with beir")
    checkpoints = pytest.importorskip("checkpoints", reason="torch is in the extra neural")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from beir.retrieval.models import SentenceBERT

        model = SentenceBERT(str(checkpoints.masked_lm(tmp_path / "model", max_position_embeddings=64)))
    expected, found = scores(beir, model, model, tmp_path / "store")

    assert found == expected
