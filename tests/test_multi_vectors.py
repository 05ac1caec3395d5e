"""Texts with one vector per token: storing them, finding documents, and scoring given ones."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import fruit
import numpy as np
import pytest
import workbench
from workbench import bytes_needed

from lexbench.contracts import contract_of
from lexbench.encodings import shards as format_
from lexbench.encodings.shards import write_shard
from lexbench.engines import maxsim
from lexbench.engines.kernels import dense
from lexbench.engines.maxsim import MaxSim
from lexbench.errors import LexbenchError
from lexbench.plugins import Encoder
from lexbench.retrievers.encoded import Encoded, VectorRescorer
from lexbench.runner import plan
from lexbench.runner.systems import system
from lexbench.types import Kind, MultiVectors

WIDTH = 16
ROWS = [[[1, 2], [3, 4]], [], [[5, 6]], [[7, 8], [9, 0.1], [0, 0]]]


def multi(rows, width=2):
    """Return the vectors of texts that have these lists of vectors."""
    values = np.array([vector for row in rows for vector in row], np.float32).reshape(-1, width)
    return MultiVectors(values, np.cumsum([0, *map(len, rows)]))


def random_texts(count, seed):
    """Return that many texts of 0 to 9 vectors of length 1; the first, two in the middle and the last have none."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 10, count)
    counts[[0, count // 2, count // 2 + 1, -1]] = 0
    values = rng.normal(size=(counts.sum(), WIDTH)).astype(np.float32)
    return MultiVectors(values / np.linalg.norm(values, axis=1, keepdims=True), np.cumsum([0, *counts]))


def plain(queries, documents):
    """Return scores (queries, documents) in float64, one pair after another; None where either has no token."""
    ends = [(vectors.values.astype(np.float64), vectors.offsets.tolist()) for vectors in (queries, documents)]
    of = [[values[start:stop] for start, stop in pairwise(at)] for values, at in ends]
    return [[float((q @ d.T).max(axis=1).sum()) if len(q) and len(d) else None for d in of[1]] for q in of[0]]


@dataclass(frozen=True)
class Letters(Encoder):
    """An encoder object of a user: the vector of a word stands for its first letter."""

    kind: ClassVar[Kind] = Kind.MULTI

    def encode_document(self, texts):
        """Return one vector per word, of length 1."""
        return multi([np.eye(26)[[ord(word[0]) - 97 for word in text.split()]] for text in texts], 26)

    encode_query = encode_document


def built(path, vectors, **settings):
    """Build an index of one shard and open it."""
    return workbench.built(MaxSim(**settings), path, vectors)


@pytest.mark.parametrize("offsets", [[0, 1], [1, 2], [0, 2, 1, 2], [0, 3]])
def test_offsets_that_do_not_fit_the_vectors_are_refused(tmp_path, offsets):
    """Offsets that leave vectors out, descend, or exceed the vectors are refused with a reason."""
    with pytest.raises(LexbenchError, match="not those of its 2 vectors"):
        write_shard(tmp_path / "x", MultiVectors(np.ones((2, 3), np.float32), np.array(offsets)))


def test_a_score_is_the_sum_of_the_largest_products(tmp_path):
    """By hand: (1, 0) is nearest to (3, 4), with 3, and (0, 2) with 8; (5, 6) gives 5 and 12, and no other document as much."""
    hits = built(tmp_path, multi(ROWS)).search(multi([[[1, 0], [0, 2]], [[-1, 0]]]), 3)

    assert hits.docs.tolist() == [[3, 2, 0], [3, 0, 2]]
    assert hits.scores.tolist() == [[9 + 16, 5 + 12, 3 + 8], [0, -1, -5]]


@pytest.mark.parametrize(("tokens", "k"), [(1, 10), (7, 500), (64, 1), (32_768, 10), (32_768, 500)])
def test_the_best_are_those_of_a_plain_computation(tmp_path, monkeypatch, tokens, k):
    """For blocks of any size, hits are the best of all pairs computed one by one; documents without tokens are never found."""
    monkeypatch.setattr(maxsim, "_TOKENS", tokens)
    monkeypatch.setattr(dense, "_PRODUCTS", 300)
    documents, queries = random_texts(300, 1), random_texts(11, 2)
    hits = built(tmp_path, documents).search(queries, k)

    for docs, scores, expected in zip(hits.docs, hits.scores, plain(queries, documents), strict=True):
        order = sorted((doc for doc, score in enumerate(expected) if score is not None), key=lambda doc: -expected[doc])[:k]
        assert docs.tolist() == [*order, *[-1] * (min(k, 300) - len(order))]
        assert scores[: len(order)] == pytest.approx([expected[doc] for doc in order], abs=1e-5)
        assert np.isneginf(scores[len(order) :]).all()


def test_half_precision_takes_half_the_disk_and_finds_what_its_vectors_give(tmp_path):
    """Scores are those of the rounded vectors; the file has two bytes per value."""
    documents, queries = random_texts(200, 3), random_texts(8, 4)
    hits = built(tmp_path, documents, storage="float16").search(queries, 5)
    rounded = MultiVectors(documents.values.astype(np.float16).astype(np.float32), documents.offsets)

    assert (tmp_path / "vectors").stat().st_size == 2 * documents.values.size
    expected = [-9 if score is None else score for score in plain(queries, rounded)[1]]
    assert hits.docs[1].tolist() == np.argsort(np.negative(expected), kind="stable")[:5].tolist()


def test_given_documents_get_the_scores_of_the_engine(tmp_path, monkeypatch):
    """Any documents of several shards get the scores of an exact search, and 0 without tokens."""
    monkeypatch.setattr(format_, "SHARD", 64)
    monkeypatch.setattr("lexbench.retrievers.encoded._ROWS", 50)
    documents, queries = random_texts(200, 5), random_texts(9, 6)
    for start in range(0, 200, 64):
        part = documents.offsets[start : start + 65]
        block = MultiVectors(documents.values[part[0] : part[-1]], part - part[0])
        write_shard(tmp_path / f"shard-{start // 64:05d}.safetensors", block)
    rng = np.random.default_rng(7)
    docs = np.sort(np.stack([rng.choice(200, 40, replace=False) for _ in range(9)]).astype(np.int32), axis=1)
    docs[:, -3:] = -1
    scores = VectorRescorer(Encoded(Letters(), MaxSim()), tmp_path).score(queries, docs)

    for row, found, expected in zip(docs, scores, plain(queries, documents), strict=True):
        assert found[:-3] == pytest.approx([expected[doc] or 0 for doc in row[:-3]], abs=1e-5)


def test_an_encoder_object_runs_without_naming_an_engine(store, tmp_path):
    """Its vectors are searched by the exact engine of their kind, also where the object does not say which that is."""
    bare = type("Bare", (), {"encode_document": Letters.encode_document, "encode_query": Letters.encode_query})
    given = {"letters": Letters(), "bare": bare()}
    done = workbench.results(fruit.write(tmp_path / "fruit"), store, given, ["RR@3"])

    assert isinstance(system(Letters()).retriever.engine, MaxSim)
    assert isinstance(system(bare()).retriever.engine, MaxSim)
    # Every document with the word scores 1, so the larger id comes first: a4 a3 for apple, a3 a2 for fig; pear is as plum.
    expected = {"qa": 1 / 2, "qf": 1 / 2, "qp": 1, "qn": 0, "qz": 0}
    assert [dict(zip(one.query_ids, one.per_query["RR@3"], strict=True)) for one in done] == [expected] * 2


def test_the_disk_that_vectors_need_is_known_before_they_are_made():
    """The estimate of multi-vectors is 70 tokens of 128 numbers per document, in the encodings and in the index."""
    plans = [plan.plan_dataset("beir/scifact/test", [given], ["nDCG@10"], 10) for given in (Letters(), "bm25")]
    sizes = [bytes_needed(one, Path("no store")) for one in plans]

    assert sizes[0] - sizes[1] == contract_of("beir/scifact/test").expected.documents * 72_000
