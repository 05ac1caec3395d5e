"""The contract tests of `lexbench.testing.encoders` on each encoder.

Models are tiny and have random weights. A skipped test says why its rule does not apply.
"""

import json
import shutil
from dataclasses import dataclass
from inspect import signature
from typing import ClassVar

import numpy as np
import pytest
from tiny import write_rows
from workbench import available

from lexbench import registry
from lexbench.errors import CommandError
from lexbench.notation import Call
from lexbench.plugins import Encoder
from lexbench.registry import at_search, runtime
from lexbench.testing.encoders import DOCUMENTS, QUERIES, EncoderCase, EncoderContract
from lexbench.types import Kind

LENGTHS = {"query_length": 16, "document_length": 32, "device": "cpu"}


def case_of(name, given, **other_cases):
    """Return the case of an encoder with the settings *given*."""

    def make(**settings):
        return registry.create("encoders", Call(name, kwargs=tuple((given | settings).items())))

    return EncoderCase(make, **other_cases)


def models():
    """Import the writers of tiny models, which need torch."""
    import checkpoints

    return checkpoints


def model_case(name, folders, write, **settings):
    """Return the case of a checkpoint that *write* writes into a folder; another seed gives another checkpoint."""
    model, changed = (str(write(folders / f"{name}-{seed}", seed=seed)) for seed in (1, 2))
    moved = {"model": str(shutil.copytree(model, folders / f"{name}-moved"))}
    given = {"model": model, **LENGTHS, **settings}
    return case_of(name, given, moved=moved, changed={"model": changed}, devices={"device": "cpu,cpu"})


def with_text_head(path, seed):
    """Write a BERT with a text head and as few positive logits as a learned sparse model has."""
    import torch

    from lexbench.models.added_terms import AddedTerms, TextHead
    from lexbench.models.added_terms import write as write_terms

    folder = models().sparsified(models().masked_lm(path, seed=seed))
    write_terms(AddedTerms(text_head=TextHead(torch.randn(8, 32), torch.zeros(8), torch.arange(8, 16))), folder)
    return folder


def with_latent_features(path, seed):
    """Write a ModernBERT with a sparse autoencoder."""
    from sparse_models import slideon

    return models().rewrite(slideon(path), lambda state: {name: tensor * (1 + seed / 10) for name, tensor in state.items()})


def with_query_weights(path, seed):
    """Write a BERT with a table of query weights."""
    folder = models().sparsified(models().masked_lm(path, seed=seed))
    (folder / "idf.json").write_text(json.dumps(dict.fromkeys((*models().WORDS, "a", "##a"), 1 + seed / 2)))
    return folder


def file_case(name, folders, write, **settings):
    """Return the case of files of vectors; *write* returns the rows of documents and of queries, for a factor."""

    def written(place, factor):
        files = {name: folders / place / f"{name}.jsonl" for name in ("documents", "queries")}
        for path, rows in zip(files.values(), write(factor), strict=True):
            write_rows(path, rows)
        return settings | {name: str(path) for name, path in files.items()}

    return case_of(name, written("files", 1), moved=written("moved", 1), changed=written("changed", 2))


def sparse_rows(factor):
    """Return sparse vectors of documents and queries in the layout of Seismic."""
    vectors = ({f"t{i}": factor * (i + at) for i in range(1, 6 - at)} for at in range(len(DOCUMENTS)))
    documents = [{"id": one.doc_id, "contents": "", "vector": row} for one, row in zip(DOCUMENTS, vectors, strict=True)]
    return documents, [{"id": one.query_id, "contents": "", "vector": {"t2": at, "t3": 1}} for at, one in enumerate(QUERIES, 1)]


def dense_rows(factor):
    """Return dense vectors of documents in the layout of Anserini, and of queries in that of the hub."""
    documents = [{"docid": one.doc_id, "vector": [factor * at, 1.0, -0.5 * at]} for at, one in enumerate(DOCUMENTS)]
    return documents, [{"_id": one.query_id, "emb": [1.0, at, 0.25]} for at, one in enumerate(QUERIES)]


def served(name, **settings):
    """Return the case of a local server; a second one runs the same model, a third one another."""
    from model_server import ModelServer

    same, moved, changed = (ModelServer(seed, info=True).url for seed in (1, 1, 2))
    return case_of(name, {"url": same, **settings}, moved={"url": moved}, changed={"url": changed})


def table_case(folders):
    """Return the case of a table of token vectors."""
    model, changed = (str(models().static_embedding(folders / f"static-{seed}", seed=seed)) for seed in (1, 2))
    moved = {"model": str(shutil.copytree(model, folders / "static-moved"))}
    return case_of("static_embedding", {"model": model}, moved=moved, changed={"model": changed})


def routed_case(folders):
    """Return the case of a model of sentence-transformers with a Router."""
    library = pytest.importorskip("sentence_transformers", reason="it is in the extra sentence-transformers")
    from sentence_transformers.base.modules import Router, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    def saved(name, seed):
        body = str(models().masked_lm(folders / f"{name}-body", seed=seed))
        routes = ([Transformer(body), Pooling(32, pooling)] for pooling in ("mean", "cls"))
        router = Router.for_query_document(*routes)
        library.SentenceTransformer(modules=[router], device="cpu").save(str(folders / name), create_model_card=False)
        return {"model": str(folders / name)}

    first, changed = saved("routed", 1), saved("routed-changed", 2)
    moved = {"model": str(shutil.copytree(first["model"], folders / "routed-moved"))}
    return case_of("sentence_transformer", first, moved=moved, changed=changed)


HEAD = {"titles": "pair", "text_terms": 3, "query_text_terms": 2}
CASES = {  # by encoder: how to make its case in a folder
    "dense": lambda to: model_case("dense", to, models().masked_lm, pooling="mean"),
    "dense_vectors": lambda to: file_case("dense_vectors", to, dense_rows),
    "endpoint": lambda _to: served("endpoint", model="m"),
    "endpoint_sparse": lambda _to: served("endpoint_sparse", vocabulary=64),
    "inference_free": lambda to: model_case("inference_free", to, with_query_weights),
    "late_interaction": lambda to: model_case("late_interaction", to, models().colbert, mask_queries_to=16),
    "sentence_transformer": routed_case,
    "sparse_clm": lambda to: model_case("sparse_clm", to, models().causal_lm, attention="bidirectional"),
    "sparse_latent": lambda to: model_case("sparse_latent", to, with_latent_features, active=4),
    "sparse_mlm": lambda to: model_case("sparse_mlm", to, with_text_head, **HEAD),
    "static_embedding": table_case,
    "term_weights": lambda to: model_case("term_weights", to, models().uni_coil, expansion_length=8),
    "vectors": lambda to: file_case("vectors", to, sparse_rows, format="seismic"),
}


def default(name):
    """Return the case of an encoder without settings; skip an encoder that needs some."""
    try:
        registry.create("encoders", Call(name))
    except CommandError as error:
        pytest.skip(f"no settings for it here: {error}")
    return case_of(name, {})


SLOW = {"sentence_transformer"}  # importing the library takes ten seconds; `test_stated_models` runs it, too
PARAMS = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in registry.names("encoders")]


@pytest.fixture(scope="module", params=PARAMS)
def encoder_case(request, tmp_path_factory):
    """Write the files of one encoder and return its case."""
    name = request.param
    available(lambda: registry.load("encoders", name))
    return CASES[name](tmp_path_factory.mktemp(name)) if name in CASES else default(name)


@pytest.fixture(scope="module")
def loaded(encoder_case):
    """Make the encoder."""
    return encoder_case.make()


class TestEncoders(EncoderContract):
    """Each encoder, by name."""

    @pytest.fixture
    def case(self, encoder_case):
        """Return the case of one encoder."""
        return encoder_case

    @pytest.fixture
    def encoder(self, loaded):
        """Return the same object to each test, so that its model is loaded once."""
        return loaded


@dataclass(frozen=True)
class Lengths(Encoder):
    """An encoder that keeps all rules: words and characters of a text."""

    threads: int = runtime(1)
    most: int = at_search(10)
    kind: ClassVar[Kind] = Kind.DENSE
    deterministic: ClassVar[bool] = True

    def encode_document(self, texts):
        """Return the vectors (texts, 2)."""
        return np.array([[len(text.split()), len(text)] for text in texts], np.float32).reshape(-1, 2)

    encode_query = encode_document


def words(self, texts):
    """Return the right vectors."""
    return Lengths.encode_document(self, texts)


NOISE = np.random.default_rng()
FAULTY = {  # the check that finds a fault, and the faulty method
    "texts are sorted": ("order", {"encode_document": lambda self, texts: words(self, sorted(texts, key=len))}),
    "texts are scaled together": (
        "order", {"encode_document": lambda self, texts: words(self, texts) / words(self, texts).max(axis=0).clip(1)},
    ),
    "noise": ("deterministic", {"encode_document": lambda self, texts: words(self, texts) + np.float32(NOISE.random())}),
    "float64": ("form", {"encode_document": lambda self, texts: words(self, texts).astype(np.float64)}),
    "infinity": ("form", {"encode_document": lambda _self, texts: np.full((len(texts), 2), np.inf, np.float32)}),
    "another kind": ("form", {"kind": Kind.SPARSE}),
    "wide queries": ("one_vector_per_text", {"encode_query": lambda _self, texts: np.ones((len(texts), 3), np.float32)}),
    "one vector": ("one_vector_per_text", {"encode_document": lambda _self, texts: np.ones((len(texts), 2), np.float32)}),
    "threads matter": ("runtime_settings", {"encode_query": lambda self, texts: words(self, texts) * np.float32(self.threads)}),
    "limit of searching": ("search_settings", {"encode_document": lambda self, texts: words(self, texts).clip(0, self.most)}),
    "no texts": ("no_texts", {"encode_document": lambda self, texts: np.stack([words(self, [text])[0] for text in texts])}),
    "key of an object": ("key", {"identity": lambda self: {"object": id(self)}}),
}  # fmt: skip


class TestLengths(EncoderContract):
    """An encoder that keeps the rules passes."""

    plugin = Lengths


@pytest.mark.parametrize("fault", FAULTY)
def test_a_fault_is_found(fault):
    """An encoder that breaks a rule fails the check of that rule."""
    check, changed = FAULTY[fault]
    encoder = type("Faulty", (Lengths,), changed)
    made = []  # kept alive, so that no two have the same id()
    case = EncoderCase(lambda **settings: made.append(encoder(**settings)) or made[-1])
    test, given = getattr(EncoderContract, f"test_{check}"), {"case": case, "encoder": case.make()}
    arguments = {name: given[name] for name in signature(test).parameters if name in given}
    with pytest.raises((AssertionError, ValueError)):
        test(EncoderContract(), **arguments)


REFUSED = [  # encoder, setting, and a part of the message
    ("sparse_mlm", {"positions": "texts"}, "positions='texts'): there is all, text"),
    ("sparse_mlm", {"titles": "on"}, "titles='on'): there is off, pair, string"),
    ("sparse_mlm", {"activation": "softmax"}, "there is log1p_relu, log1p_log1p_relu, relu"),
    ("sparse_mlm", {"dtype": "int4"}, "there is float32, bfloat16, float16, int8"),
    ("sparse_mlm", {"storage": "uint8"}, "there is float32, float16"),
    ("sparse_mlm", {"query_length": 2}, "query_length=2): give at least 8"),
    ("sparse_mlm", {"document_length": 0}, "document_length=0): give at least 8"),
    ("sparse_mlm", {"document_terms": -1}, "document_terms=-1): give a number above 0, or 0 for all"),
    ("sparse_mlm", {"batch_tokens": -1}, "batch_tokens=-1): give a number above 0"),
    ("sparse_mlm", {"device": "cpu,auto"}, "device='cpu,auto')"),
    ("sparse_mlm", {"query_revision": "main"}, "query_model, which is not given"),
    ("sparse_clm", {"attention": "both"}, "sparse_clm(attention='both'): there is causal, bidirectional"),
    ("sparse_clm", {"pooling": "mean"}, "sparse_clm(pooling='mean'): there is max, last"),
    ("dense", {"pooling": "median"}, "dense(pooling='median'): there is mean, cls, last"),
    ("dense", {"pooling": "mean+none"}, "dense(pooling='mean+none'): there is mean, cls, last"),
    ("dense", {"pooling": "mean", "head": "linear_tan"}, "dense(head='linear_tan'): there is linear, layernorm"),
    ("dense", {"pooling": "mean", "dimensions": -1}, "dense(dimensions=-1): a whole number from 0"),
    ("late_interaction", {"head": "tanh_"}, "late_interaction(head='tanh_'): there is linear, layernorm"),
    ("dense", {"similarity": "l2"}, "dense(similarity='l2'): there is dot, cosine"),
    ("dense", {"skip": -1}, "dense(skip=-1): a whole number from 0"),
    ("dense", {"mask_queries_to": 40}, "queries have at most query_length=16 tokens"),
    ("dense", {"device": "gpu"}, "device='gpu'): there is auto, cpu, cuda"),
    ("late_interaction", {"mask_queries_to": -1}, "mask_queries_to=-1): a whole number from 0"),
]


@pytest.mark.parametrize(("name", "setting", "message"), REFUSED)
def test_an_impossible_setting_is_refused(name, setting, message):
    """The refusal has one line with the possible values, and no model is read before."""
    pytest.importorskip("torch", reason="models are in the extra neural")
    given = LENGTHS | ({"pooling": "mean"} if name == "dense" else {}) | setting
    with pytest.raises(CommandError) as error:
        registry.load("encoders", name)("nowhere", **given)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
