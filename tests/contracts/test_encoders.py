"""The contract tests of `lexbench.testing.encoders` on each encoder, also those of the example package.

Models are tiny and have random weights. A skipped test says why its rule does not apply.
"""

import json
import shutil
import tomllib
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from inspect import signature
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from workbench import available

from lexbench import registry
from lexbench.errors import CommandError
from lexbench.notation import Call
from lexbench.plugins import Encoder
from lexbench.registry import at_search, runtime
from lexbench.testing.encoders import DOCUMENTS, QUERIES, EncoderCase, EncoderContract
from lexbench.types import Kind

PLUGIN = Path(__file__).parents[1] / "plugin"
EXAMPLES = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]["entry-points"]["lexbench.encoders"]
LENGTHS = {"query_length": 16, "document_length": 32, "device": "cpu"}


def case_of(name, given, **other_cases):
    """Return the case of an encoder with the settings *given*."""

    def make(**settings):
        return registry.create("encoders", Call(name, kwargs=tuple((given | settings).items())))

    return EncoderCase(make, **other_cases)


def model_case(name, folders, write, **settings):
    """Return the case of a checkpoint that *write* writes into a folder; another seed gives another checkpoint."""
    model, changed = (str(write(folders / f"{name}-{seed}", seed)) for seed in (1, 2))
    moved = {"model": str(shutil.copytree(model, folders / f"{name}-moved"))}
    given = {"model": model, **LENGTHS, **settings}
    return case_of(name, given, moved=moved, changed={"model": changed}, devices={"device": "cpu,cpu"})


def dense(folders):
    """Return the case of a BERT whose states are averaged."""
    from checkpoints import masked_lm

    return model_case("dense", folders, lambda path, seed: masked_lm(path, "bert", seed=seed), pooling="mean")


def sparse_mlm(folders):
    """Return the case of a BERT with a text head and as few positive logits as a learned sparse model has."""
    import torch
    from checkpoints import masked_lm, sparsified

    from lexbench.models import added_terms

    def write(path, seed):
        folder = sparsified(masked_lm(path, "bert", seed=seed))
        weight = torch.randn(8, json.loads((folder / "config.json").read_text())["hidden_size"])
        added_terms.write(
            added_terms.AddedTerms(text_head=added_terms.TextHead(weight, torch.zeros(8), torch.arange(8, 16))), folder
        )
        return folder

    return model_case("sparse_mlm", folders, write, titles="pair", text_terms=3, query_text_terms=2)


def sparse_clm(folders):
    """Return the case of a Llama with bidirectional attention."""
    from checkpoints import causal_lm

    return model_case("sparse_clm", folders, lambda path, seed: causal_lm(path, seed=seed), attention="bidirectional")


def inference_free(folders):
    """Return the case of the same BERT with a table of query weights."""
    from checkpoints import WORDS, masked_lm, sparsified

    def write(path, seed):
        folder = sparsified(masked_lm(path, "bert", seed=seed))
        (folder / "idf.json").write_text(json.dumps(dict.fromkeys((*WORDS, "a", "##a"), 1 + seed / 2)))
        return folder

    return model_case("inference_free", folders, write)


def term_weights(folders):
    """Return the case of a uniCOIL without expansions."""
    from checkpoints import uni_coil

    return model_case("term_weights", folders, lambda path, seed: uni_coil(path, seed=seed), expansion_length=8)


def late_interaction(folders):
    """Return the case of a ColBERT."""
    from checkpoints import colbert

    return model_case("late_interaction", folders, lambda path, seed: colbert(path, seed=seed), mask_queries_to=16)


def vectors(folders):
    """Return the case of files of sparse vectors in the layout of Anserini."""

    def write(path, factor):
        path.mkdir()
        lines = [
            {"id": document.doc_id, "contents": "", "vector": {f"t{i}": factor * (i + at) for i in range(1, 6 - at)}}
            for at, document in enumerate(DOCUMENTS)
        ]
        (path / "documents.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        topics = [f"{query.query_id}\t{' '.join(['t2'] * at + ['t3'])}\n" for at, query in enumerate(QUERIES)]
        (path / "topics.tsv").write_text("".join(topics))
        return {"documents": str(path / "documents.jsonl"), "queries": str(path / "topics.tsv")}

    files, moved, changed = write(folders / "vectors", 1), write(folders / "moved", 1), write(folders / "changed", 2)
    return case_of("vectors", files, moved=moved, changed=changed)


def dense_vectors(folders):
    """Return the case of files of dense vectors: documents in the layout of Anserini, queries in that of the hub."""

    def write(path, factor):
        path.mkdir()
        rows = [{"docid": text.doc_id, "vector": [factor * at, 1.0, -0.5 * at]} for at, text in enumerate(DOCUMENTS)]
        (path / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        rows = [{"_id": text.query_id, "emb": [1.0, at, 0.25]} for at, text in enumerate(QUERIES)]
        (path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return {"documents": str(path / "documents.jsonl"), "queries": str(path / "queries.jsonl")}

    files, moved, changed = (write(folders / name, factor) for name, factor in (("ready", 1), ("there", 1), ("other", 2)))
    return case_of("dense_vectors", files, moved=moved, changed=changed)


def served(name, **settings):
    """Return the case of a local server; a second one runs the same model, a third one another."""
    from model_server import ModelServer

    same, moved, changed = (ModelServer(seed, info=True).url for seed in (1, 1, 2))
    return case_of(name, {"url": same, **settings}, moved={"url": moved}, changed={"url": changed})


def endpoint(_folders):
    """Return the case of a server of dense vectors."""
    return served("endpoint", model="m")


def endpoint_sparse(_folders):
    """Return the case of a server of sparse vectors."""
    return served("endpoint_sparse", vocabulary=64)


MODELS = (dense, inference_free, late_interaction, sparse_clm, sparse_mlm, term_weights)
WRITERS = {writer.__name__: writer for writer in (*MODELS, dense_vectors, endpoint, endpoint_sparse, vectors)}


def example(name):
    """Return the case of an encoder of the example package, which is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGIN))
        return EncoderCase(EntryPoint(name, EXAMPLES[name], "lexbench.encoders").load())


def default(name):
    """Return the case of an encoder without settings; skip an encoder that needs some."""
    try:
        registry.create("encoders", Call(name))
    except CommandError as error:
        pytest.skip(f"no settings for it here: {error}")
    return case_of(name, {})


@pytest.fixture(scope="module", params=sorted({*registry.names("encoders"), *EXAMPLES}))
def encoder_case(request, tmp_path_factory):
    """Write the files of one encoder and return its case."""
    name = request.param
    if name in EXAMPLES:
        return example(name)
    available(lambda: registry.load("encoders", name))
    return WRITERS[name](tmp_path_factory.mktemp(name)) if name in WRITERS else default(name)


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
    ("dense", {"pooling": "max"}, "dense(pooling='max'): there is mean, cls, last"),
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
