"""Estimates of a training, computed by hand for a small shape, and where the sizes come from."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

import tiny
import tiny_recipes
import torch

from lexbench.errors import MissingData, UnknownName
from lexbench.lexmae.data import collections
from lexbench.lexmae.data.collections import Size
from lexbench.lexmae.recipe import Encoding, Hardware, Recipe, Selection, Start
from lexbench.lexmae.training.estimate import BERT_BASE, Cost, Machine, Shape, costs, measured, shape_of, total
from lexbench.lexmae.training.plan import Task

SHAPE = Shape(layers=2, width=4, inner=8, vocabulary=100, positions=16)
MACHINE = Machine("a machine", "fp32", rate=1000.0, memory=10**6)
DATA = {"q": Size(documents=50, queries=10, relevant=20)}
PRETRAIN, MINE, FINETUNE = Task("pretrain"), Task("mine", 1), Task("finetune", 1)


def recipe(stage=None, **settings) -> Recipe:
    """Return a recipe for documents of 10 tokens and queries of 8."""
    pretrain = tiny_recipes.pretraining(corpora=("q",), batch_size=5, steps=2)
    stage1 = tiny_recipes.stage(**{"queries": ("q",), "batch_size": 4, "epochs": 2.0, "documents": 2, **(stage or {})})
    encoding = Encoding(query_length=8, document_length=10)
    return tiny_recipes.recipe(encoding=encoding, pretrain=pretrain, stage1=stage1, **settings)


def cost(task, data=DATA, machine=MACHINE, **settings) -> Cost:
    """Return the cost of one task."""
    (found,) = costs(recipe(**settings), [task], SHAPE, {task: data}, machine)
    return found


def operations(found) -> float:
    """Return the operations behind the shorter time: half of the machine's 1,000 per second are used."""
    return found.seconds[0] * 500


def test_pretraining_by_hand():
    """Ten texts of ten tokens: body, head and decoder at each, 8 masked words, maxima of the softmax bottleneck.

    Memory: 16 bytes for each of 736 + 272 weights, 68 for a state of four layers, 8 for a masked word, 16 for a maximum.
    BERT-base has 110 million parameters; 109 of them are in matrices and embeddings.
    """
    each = 6 * (256 + 16 + 2 * 128 + 16) * 10  # every weight that a token passes through
    each += 6 * 400 * (0.3 + 0.5) * 10  # the projection, at masked words
    each += (2 * 10 + 4) * 400  # the projection again, for the maxima
    states, logits, maxima = 5 * 68 * 4 * 4 * 10, 5 * 8 * 100 * 8, 5 * 100 * 16
    found = cost(PRETRAIN)

    assert (found.part, found.texts, found.steps) == ("pretrain", 10, 2)
    assert found.seconds == pytest.approx((10 * each / 1000 / 0.5, 10 * each / 1000 / 0.15))
    assert found.memory == 16 * (736 + 272) + states + logits + maxima
    assert round(BERT_BASE.parameters / 1e6) == 109


def test_fine_tuning_by_hand():
    """40 queries, each of 8 tokens, with two documents of ten: 28 tokens, three vectors.

    Two epochs of 20 pairs are 10 steps of 4; one example per query makes 5; a tenth held out makes 9. A teacher of the model's
    size takes 2 x 256 operations for each of a query's 2 x (10 + 8) tokens.
    """
    each = 6 * (256 + 16) * 28 + 400 * (2 * 28 + 4 * 3)
    found = cost(FINETUNE)

    assert (found.part, found.texts, found.steps) == ("finetune --stage 1", 120, 10)
    assert operations(found) == pytest.approx(40 * each)
    assert cost(FINETUNE, stage={"pairs": "one_per_query"}).steps == 5
    assert cost(FINETUNE, selection=Selection(held_out=0.1)).steps == 9
    more = operations(cost(FINETUNE, stage={"teacher": "t"})) - operations(found)

    assert more == pytest.approx(40 * 2 * 256 * 2 * 18)


def test_mining_with_a_model_encodes_the_corpus():
    """Each of 50 documents passes through the model once; the time of BM25 is unknown."""
    found = cost(MINE, stage={"negatives": 'sparse_mlm(model="{start}")@impact'})

    assert found.texts == 50
    assert operations(found) == pytest.approx(50 * 2 * (256 + 16 + 400) * 10)
    assert cost(MINE) == ("mine --stage 1", 50, None, None, None)


def test_devices_and_pieces_share_the_work():
    """Two devices halve the time; two pieces halve a batch's memory."""
    alone = cost(FINETUNE)
    two = cost(FINETUNE, machine=MACHINE._replace(devices=2))
    pieces = cost(FINETUNE, hardware=Hardware(accumulate=2))
    weights = 16 * 736

    assert two.seconds == pytest.approx([seconds / 2 for seconds in alone.seconds])
    assert two.memory == pieces.memory == weights + (alone.memory - weights) / 2
    assert pieces.seconds == alone.seconds


def test_sizes_that_are_unknown():
    """Epochs over a set of unknown size have unknown steps and time; given steps have both."""
    unknown = {"q": Size(None, None, None)}
    assert cost(FINETUNE, unknown)[1:4] == (None, None, None)
    assert cost(PRETRAIN, unknown) == cost(PRETRAIN)
    assert total([1, None]) is None
    assert total([1, 2]) == 3


def test_sizes_of_contracts():
    """pydoc/dev has 5,048 documents, 50 queries, and 148 + 111 judgements of grade 2 or more."""
    assert collections.dataset_size("pydoc/dev") == Size(5048, 50, 259)
    assert collections.corpus_size("pydoc/dev") == Size(5048, None, None)
    with pytest.raises(UnknownName, match="did you mean 'pydoc/dev'"):
        collections.dataset_size("pydoc/dec")


def test_folders_are_counted(tmp_path):
    """The split `train` counts; a corpus can be gzipped and one folder up."""
    folder = tmp_path / "all" / "mine"
    tiny.write(folder, {}, {"q": "x"}, [("q", 1, 1), ("q", 2, 2), ("p", 1, 0)], "train")
    tiny.write(folder, {}, {"q": "x"}, [("q", 0, 1)], "test")
    (folder / "corpus.jsonl").unlink()
    tiny.write_rows(folder.parent / "corpus.jsonl.gz", ({"_id": str(i), "text": "x"} for i in range(3)))

    assert collections.dataset_size(str(folder)) == Size(3, 1, 2)
    assert collections.dataset_size(str(folder / "qrels" / "test.tsv")) == Size(3, 1, 1)
    assert collections.corpus_size(str(folder.parent)) == Size(3, None, None)
    with pytest.raises(MissingData, match="has no corpus"):
        collections.check_corpus(str(folder / "qrels"))


def test_the_shape_is_the_models(tmp_path, monkeypatch):
    """The shape comes from the initial model's config.json, reduced as the recipe says; DistilBERT has other names."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    distilbert = {"n_layers": 6, "dim": 32, "hidden_dim": 64, "vocab_size": 200, "max_position_embeddings": 64}
    (tmp_path / "config.json").write_text(json.dumps(distilbert))
    here = Start(model=str(tmp_path))
    cut = Start(model=str(tmp_path), vocabulary=150)

    assert shape_of(recipe(start=here)) == Shape(6, 32, 64, 200, 64, str(tmp_path / "config.json"))
    assert shape_of(recipe(start=cut))[:5] == (6, 32, 64, 150, 64)
    assert shape_of(recipe()) == BERT_BASE
    bert = {"num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 16, "vocab_size": 9, "max_position_embeddings": 5}
    (tmp_path / "out" / "start").mkdir(parents=True)
    (tmp_path / "out" / "start" / "config.json").write_text(json.dumps(bert))
    assert shape_of(recipe(start=cut)) == Shape(1, 8, 16, 9, 5, str(Path("out/start/config.json")))


def test_the_machine_is_measured(monkeypatch):
    """A processor does more than 10^8 operations per second; the number of threads is restored."""
    monkeypatch.setattr("lexbench.lexmae.training.estimate._SECONDS", 0.1)
    threads = torch.get_num_threads()
    found = measured(Hardware(device="cpu", threads=1))

    assert found.rate > 1e8
    assert (found.precision, found.devices) == ("fp32", 1)
    assert found.memory > 2**28
    assert torch.get_num_threads() == threads
