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

from lexbench import registry
from lexbench.errors import CommandError, MissingExtra
from lexbench.notation import Call
from lexbench.plugins import Encoder
from lexbench.registry import at_search, runtime
from lexbench.testing.encoders import DOCUMENTS, QUERIES, EncoderCase, EncoderContract
from lexbench.types import Kind

PLUGIN = Path(__file__).parents[1] / "plugin"
EXAMPLES = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]["entry-points"]["lexbench.encoders"]
LENGTHS = {"query_length": 16, "document_length": 32, "device": "cpu"}


def model_case(name, folders, write, **settings):
    """Return an encoder of a checkpoint that *write* writes into a folder, another one for another seed."""
    model, changed = (str(write(folders / f"{name}-{seed}", seed)) for seed in (1, 2))
    moved = str(shutil.copytree(model, folders / f"{name}-moved"))

    def make(**other):
        return registry.create("encoders", Call(name, kwargs=tuple({"model": model, **LENGTHS, **settings, **other}.items())))

    return EncoderCase(make, moved={"model": moved}, changed={"model": changed}, devices={"device": "cpu,cpu"})


def dense(folders):
    """Return one of a BERT whose states are averaged."""
    from checkpoints import masked_lm

    return model_case("dense", folders, lambda path, seed: masked_lm(path, "bert", seed=seed), pooling="mean")


def sparse_mlm(folders):
    """Return one of a BERT with a text head, whose positive logits are as few as those of a learned sparse model."""
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
    """Return one of a Llama that sees the whole text."""
    from checkpoints import causal_lm

    def write(path, seed):
        return causal_lm(path, seed=seed)

    return model_case("sparse_clm", folders, write, attention="bidirectional")


def inference_free(folders):
    """Return one of the same BERT, and a table for queries beside it."""
    from checkpoints import WORDS, masked_lm, sparsified

    def write(path, seed):
        folder = sparsified(masked_lm(path, "bert", seed=seed))
        (folder / "idf.json").write_text(json.dumps(dict.fromkeys((*WORDS, "a", "##a"), 1 + seed / 2)))
        return folder

    return model_case("inference_free", folders, write)


def term_weights(folders):
    """Return one of a uniCOIL, without expansions."""
    from checkpoints import uni_coil

    return model_case("term_weights", folders, lambda path, seed: uni_coil(path, seed=seed), expansion_length=8)


def late_interaction(folders):
    """Return one of a ColBERT."""
    from checkpoints import colbert

    return model_case("late_interaction", folders, lambda path, seed: colbert(path, seed=seed), mask_queries_to=16)


def vectors(folders):
    """Return one of files of vectors, as Anserini has them."""

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

    def make(**other):
        return registry.create("encoders", Call("vectors", kwargs=tuple({**files, **other}.items())))

    return EncoderCase(make, moved=moved, changed=changed)


def dense_vectors(folders):
    """Return one of files of vectors, documents as Anserini has them, queries as the hub."""

    def write(path, factor):
        path.mkdir()
        rows = [{"docid": text.doc_id, "vector": [factor * at, 1.0, -0.5 * at]} for at, text in enumerate(DOCUMENTS)]
        (path / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        rows = [{"_id": text.query_id, "emb": [1.0, at, 0.25]} for at, text in enumerate(QUERIES)]
        (path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return {"documents": str(path / "documents.jsonl"), "queries": str(path / "queries.jsonl")}

    files, moved, changed = (write(folders / name, factor) for name, factor in (("ready", 1), ("there", 1), ("other", 2)))

    def make(**other):
        return registry.create("encoders", Call("dense_vectors", kwargs=tuple({**files, **other}.items())))

    return EncoderCase(make, moved=moved, changed=changed)


def served(name, **settings):
    """Return an encoder of a server of this machine, of another that runs the same, and of one that runs another model."""
    from model_server import ModelServer

    same, moved, changed = (ModelServer(seed, info=True).url for seed in (1, 1, 2))

    def make(**other):
        return registry.create("encoders", Call(name, kwargs=tuple({"url": same, **settings, **other}.items())))

    return EncoderCase(make, moved={"url": moved}, changed={"url": changed})


def endpoint(_folders):
    """Return one of dense vectors."""
    return served("endpoint", model="m")


def endpoint_sparse(_folders):
    """Return one of sparse vectors."""
    return served("endpoint_sparse", vocabulary=64)


MODELS = (dense, inference_free, late_interaction, sparse_clm, sparse_mlm, term_weights)
WRITERS = {writer.__name__: writer for writer in (*MODELS, dense_vectors, endpoint, endpoint_sparse, vectors)}


def example(name):
    """Return an encoder of the example package, which is not installed here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGIN))
        return EncoderCase(EntryPoint(name, EXAMPLES[name], "lexbench.encoders").load())


def default(name):
    """Return an encoder that needs no settings; skip one that does."""
    try:
        registry.create("encoders", Call(name))
    except CommandError as error:
        pytest.skip(f"no settings for it here: {error}")
    return EncoderCase(lambda **settings: registry.create("encoders", Call(name, kwargs=tuple(settings.items()))))


@pytest.fixture(scope="module", params=sorted({*registry.names("encoders"), *EXAMPLES}))
def encoder_case(request, tmp_path_factory):
    """Write what one encoder needs, and return how to make it."""
    name = request.param
    if name in EXAMPLES:
        return example(name)
    try:
        registry.load("encoders", name)
    except MissingExtra as missing:
        pytest.skip(str(missing))
    return WRITERS[name](tmp_path_factory.mktemp(name)) if name in WRITERS else default(name)


@pytest.fixture(scope="module")
def loaded(encoder_case):
    """Make the encoder."""
    return encoder_case.make()


class TestEncoders(EncoderContract):
    """Each encoder, by name."""

    @pytest.fixture
    def case(self, encoder_case):
        """Return one of them."""
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
        "neighbours", {"encode_document": lambda self, texts: words(self, texts) / words(self, texts).max(axis=0).clip(1)},
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
    """The contract asks nothing more of an encoder than to keep the rules."""

    plugin = Lengths


@pytest.mark.parametrize("fault", FAULTY)
def test_a_fault_is_found(fault):
    """An encoder that breaks a rule fails the check of that rule."""
    check, changed = FAULTY[fault]
    encoder = type("Faulty", (Lengths,), changed)
    made = []  # kept, so that each has a number of its own
    case = EncoderCase(lambda **settings: made.append(encoder(**settings)) or made[-1])
    test, given = getattr(EncoderContract, f"test_{check}"), {"case": case, "encoder": case.make()}
    arguments = {name: given[name] for name in signature(test).parameters if name in given}
    with pytest.raises((AssertionError, ValueError)):
        test(EncoderContract(), **arguments)
