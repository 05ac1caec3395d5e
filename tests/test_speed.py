"""`lexbench speed`: documents per second of an encoder by its settings, and the loss of faster dtypes."""

import numpy as np
import pytest
from checkpoints import VOCABULARY, masked_lm
from fruit import write
from tiny import answer, ended, measure_here

from lexbench.errors import LexbenchError
from lexbench.runner.systems import encoded_leaves, system
from lexbench.timing.encoding_speed import OTHERS, choices, speeds, with_settings
from lexbench.types import Document


@pytest.fixture
def folder(store, tmp_path):
    """Write a small dataset, set an empty store, and return the folder of the dataset."""
    return str(write(tmp_path / "fruit"))


def test_every_choice_is_timed_and_every_dtype_scored(folder, timed_here, capsys):
    """Each dtype has a row with rates that follow from its rounds, and its difference is that of `lexbench compare`."""
    words = ["speed", "lexmae_nano", "-d", folder, "--threads", "1", "--sample", "3", "--json"]
    found = answer(capsys, *words, "--dtype", "float32", "--dtype", "bfloat16")

    assert [row["settings"] for row in found["rows"]] == [{"dtype": dtype, "threads": 1} for dtype in ("float32", "bfloat16")]
    assert all(0 < row["speed"]["slowest"] <= row["speed"]["documents_per_second"] for row in found["rows"])
    expressions = [with_settings("lexmae_nano", {"dtype": dtype}) for dtype in ("float32", "bfloat16")]
    results = answer(capsys, "run", folder, *(f"-r{one}" for one in expressions), "-m", "nDCG@10", "--json")["results"]
    means = [result["means"]["nDCG@10"] for result in results]
    assert found["differences"]["bfloat16"]["difference"] == pytest.approx(means[1] - means[0])


@pytest.mark.parametrize("fresh", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["here", "in a fresh process"])
def test_costs_follow_from_the_rate(folder, fresh, monkeypatch, capsys):
    """Hours are documents over documents/s over 3,600, and costs are hours times the price; the advice names the row."""
    if not fresh:
        measure_here(monkeypatch.setattr)
    words = ["speed", "lexmae_nano", "-d", folder, "--dtype", "float32", "--threads", "1", "--documents", "1000000000"]
    lines = ended(capsys, 0, *words, "--price", "2", "--no-scores").out.splitlines()
    (row,) = [line.split() for line in lines if line.startswith("float32")]
    rate, hours, costs = (float(row[at].replace(",", "")) for at in (2, -2, -1))

    assert hours == pytest.approx(1e9 / rate / 3600, rel=0.01)
    assert costs == pytest.approx(2 * hours, rel=0.01)
    assert lines[-1].startswith("fastest: lexmae_nano(")


def test_settings_are_those_that_the_encoder_has():
    """All combinations are tried; settings that are typed already are replaced."""
    found = choices("lexmae_nano", {"dtype": ["int8"], "threads": [1, 2], "unknown": [3]})
    replaced = with_settings('m(dtype="int8", k=1)|top_k(2)@impact', {"dtype": "float32"})

    assert list(found) == [{"dtype": "int8", "threads": 1}, {"dtype": "int8", "threads": 2}]
    assert replaced == 'm(dtype="float32", k=1)|top_k(2)@impact'


@pytest.mark.parametrize("runtime", OTHERS)
@pytest.mark.parametrize("model", ["lexmae_nano", "dense"])
def test_other_runtimes_compute_the_same_vectors(runtime, model, tmp_path):
    """Every other library gives our vectors in float32, so `--with` compares the same work."""
    for package in OTHERS[runtime].packages:
        pytest.importorskip(package)
    from lexbench.timing import other_runtimes

    settings = f'model="{masked_lm(tmp_path / "bert")}", query_length=16, document_length=16, threads=1'
    if model == "dense":
        expression = f'dense({settings}, pooling="mean")'
    elif runtime == "sentence-transformers":  # it does not have the exact terms of lexmae_nano
        expression = f"sparse_mlm({settings}, dense_ok=True)@csr"
    else:
        expression = "lexmae_nano(threads=1)"
    (leaf,) = encoded_leaves(system(expression).retriever)
    documents = [Document("", text) for text in ("apples and pears", "one", "pear " * 40)]
    ours = leaf.encoder.encode_tokens(leaf.encoder.tokenise_documents(documents))
    other = other_runtimes.use(leaf.encoder, runtime, [document.text for document in documents])
    theirs = other.encode_tokens(other.tokenise_documents(documents))

    assert np.abs(dense(ours) - dense(theirs)).max() < 1e-4
    assert np.abs(dense(leaf.encoder.encode_query(["pears"])) - dense(other.encode_query(["pears"]))).max() < 1e-4


def test_vectors_are_made_of_what_the_other_library_answers(tmp_path, monkeypatch):
    """By hand: its maxima are e - 1 for two terms, so these have weight 1; its states are 2, and so is their mean."""
    from lexbench.timing import other_runtimes

    settings = f'model="{masked_lm(tmp_path / "bert")}", query_length=16, document_length=16'
    maxima = np.full(len(VOCABULARY), -1, np.float32)
    maxima[[3, 7]] = np.e - 1

    def answered(arrays):
        return [np.full((*arrays[0].shape, 32), 2, np.float32), np.tile(maxima, (len(arrays[0]), 1))]

    monkeypatch.setattr(other_runtimes.torch.export, "export", lambda *_given, **_settings: None)  # it takes seconds
    monkeypatch.setitem(other_runtimes._NETWORKS, "onnx", lambda *_given: answered)
    sparse, pooled, summed = (
        next(encoded_leaves(system(expression).retriever)).encoder
        for expression in (
            f"sparse_mlm({settings})",
            f'dense({settings}, pooling="mean")',
            f'sparse_mlm({settings}, pooling="sum")',
        )
    )

    assert dense(other_runtimes.use(sparse, "onnx", []).encode_query(["a", "b"])) == pytest.approx(
        np.tile((maxima > 0) * 1.0, (2, 1))
    )
    assert dense(other_runtimes.use(pooled, "onnx", []).encode_query(["a", "b"])) == pytest.approx(np.full((2, 32), 2.0))
    with pytest.raises(LexbenchError, match=r"takes models with maxima over positions, and .*pooling=.sum"):
        other_runtimes.use(summed, "onnx", [])


def dense(vectors):
    """Return vectors of any library as an array."""
    return np.asarray(vectors.to_dense() if hasattr(vectors, "to_dense") else getattr(vectors, "toarray", lambda: vectors)())


def test_a_device_is_a_setting_like_others(timed_here):
    """`device` is tried and stated like a dtype; a device that is not here is a reason and no row."""
    found = list(choices("lexmae_nano", {"dtype": ["float32"], "device": ["cpu", "cuda:99"]}))
    assert found == [{"dtype": "float32", "device": device} for device in ("cpu", "cuda:99")]

    texts = [Document("", "apples and pears")] * 3
    rows = list(
        speeds("lexmae_nano", {"dtype": ["float32"], "device": ["cpu", "cuda:99"]}, texts, ["pear"], lambda _line: None)
    )
    assert rows[0].speed.gpus == []
    assert rows[0].speed.gpu_memory == 0
    assert rows[0].speed.queries_per_second > 0
    assert "type device=auto" in rows[1].refused
