"""Encoding on a GPU, imitated on the processor: shards side by side, little padding, and batches that fit."""

import threading
from dataclasses import replace

import checkpoints
import numpy as np
import pytest
import tiny
import torch
from staged import Letters, contents, encode

from lexbench.arrays.vectors import offsets_of
from lexbench.encoders import _torch_models
from lexbench.encoders.dense import Dense
from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.encodings import shards
from lexbench.errors import LexbenchError
from lexbench.models.pair_scoring import CrossEncoderModel
from lexbench.models.token_batches import Tokens, batches
from lexbench.rerankers.cross_encoder import CrossEncoder
from lexbench.types import Document

TEXTS = ["apples", "apples and pears " * 4, "one two three", "pear " * 20, "w1 w2", "sparse"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a BERT with random weights."""
    return str(checkpoints.masked_lm(tmp_path_factory.mktemp("models") / "bert"))


def encoder(kind, folder, **settings):
    """Return an encoder of the tiny model."""
    more = {"dense_ok": True} if kind is SparseMLM else {"pooling": "mean"}
    return kind(folder, device="cpu", query_length=32, document_length=32, **more, **settings)


def tokens(lengths):
    """Return tokens of texts of these *lengths*."""
    return Tokens(np.arange(sum(lengths), dtype=np.int32), offsets_of(np.array(lengths)), 0)


def test_batches_end_before_they_have_much_padding():
    """From the least number of tokens on a batch ends before padding is a tenth of it; every text is in one batch."""
    lengths = [10, 10, 9, 8, 7, 2, 2, 1]

    def cut(**settings):
        found = batches(tokens(lengths), 1000, 100, pad=0, silent=(), **settings)
        return [lengths_of.tolist() for lengths_of in (batch.real.sum(1) for batch in found)]

    assert cut() == [lengths]
    assert cut(least_tokens=0) == [[10, 10, 9, 8], [7], [2, 2], [1]]  # 37 of 40; 44 of 50 would be too few
    assert cut(least_tokens=50) == [[10, 10, 9, 8, 7], [2, 2, 1]]


class Pairs(Letters):
    """An encoder of which two threads encode at the same time, each waiting for the other."""

    shards_at_once = 2

    def encode_tokens(self, tokens, advance):
        """Return the vectors, when another thread is here too."""
        try:
            MEETING.wait(2)
        except threading.BrokenBarrierError:
            ALONE.append(tokens)
        return super().encode_tokens(tokens, advance)


MEETING, ALONE = threading.Barrier(2), []


def test_two_shards_at_once_give_the_same_files(tmp_path, monkeypatch):
    """Two threads encode at the same time; files and counts of documents are those of one."""
    monkeypatch.setattr(shards, "SHARD", 3)
    corpus = tiny.corpus(tmp_path / "corpus", {str(i): "a b c d e"[: i % 9] for i in range(12)})
    places = tmp_path / "one", tmp_path / "two"
    for place in places:
        place.mkdir()
    heard = [encode(one, corpus, place) for one, place in zip((Letters(), Pairs()), places, strict=True)]

    assert contents(places[0]) == contents(places[1])
    assert sum(heard[0].done) == sum(heard[1].done) == 12
    assert not ALONE


@pytest.mark.parametrize("kind", [SparseMLM, Dense])
def test_a_batch_that_does_not_fit_is_halved(folder, monkeypatch, kind):
    """Where memory is short vectors are computed in smaller batches, down to one text, unless batch_tokens are stated."""
    right = encoder(kind, folder).encode_document(TEXTS)
    model = kind._computation()
    whole, rows = model.vectors, []

    def short(self, batch, *rest, **settings):
        rows.append(len(batch.texts))
        if len(batch.texts) > 1:
            raise torch.OutOfMemoryError
        return whole(self, batch, *rest, **settings)

    monkeypatch.setattr(model, "vectors", short)
    found = encoder(kind, folder).encode_document(TEXTS)
    assert np.abs(found - right).max() < 1e-5
    assert sorted(rows) == [1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 6]
    with pytest.raises(LexbenchError, match=r"does not fit into the memory of cpu; type batch_tokens=\d+"):
        encoder(kind, folder, batch_tokens=900).encode_document(TEXTS)


def test_a_batch_of_pairs_that_does_not_fit_is_halved(tmp_path, monkeypatch):
    """A reranker takes smaller batches where memory is short, unless batch_tokens are stated."""
    reranker = CrossEncoder(str(checkpoints.cross_encoder(tmp_path / "pairs")), device="cpu", length=32)
    pairs = ["apples"] * len(TEXTS), [Document("", text) for text in TEXTS]
    right, whole = reranker.score(*pairs), CrossEncoderModel.scored_pairs

    def short(self, cutter, queries, documents, most_tokens, **settings):
        if most_tokens > 100:
            raise torch.OutOfMemoryError
        return whole(self, cutter, queries, documents, most_tokens, **settings)

    monkeypatch.setattr(CrossEncoderModel, "scored_pairs", short)
    assert np.abs(reranker.score(*pairs) - right).max() < 1e-5
    with pytest.raises(LexbenchError, match="does not fit into the memory of cpu; type batch_tokens=400"):
        replace(reranker, batch_tokens=800).score(*pairs)


def test_the_largest_of_each_text_in_one_step():
    """It is what many steps find; a text without tokens has -inf."""
    logits, lengths = torch.randn(9, 5, generator=torch.Generator().manual_seed(1)), [2, 3, 0, 3, 1]
    expected = torch.full((5, 5), -torch.inf)
    _torch_models._write_pooled([lambda states: states], logits, lengths, expected, _torch_models._largest)

    assert torch.equal(_torch_models._largest_of_each(logits, torch.tensor(lengths)), expected)


def test_a_processor_encodes_one_shard_at_a_time(folder):
    """Shards side by side are for GPUs: on a processor batches share its cores already."""
    assert encoder(Dense, folder).shards_at_once == 1
    assert replace(encoder(Dense, folder), device="cuda:1").shards_at_once == 2
