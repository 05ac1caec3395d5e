"""Linear layers in int8, against exact whole numbers by numpy; and encoders that use them."""

import re
from dataclasses import replace

import checkpoints
import numpy as np
import pytest
import torch
from tiny import corpus

from lexbench.artifacts import dtype_trial
from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.errors import CannotStart
from lexbench.models.architectures import load_masked_lm, masked_lm_files
from lexbench.models.dtype_speed import faster, fastest, slow_note, times_as_long
from lexbench.models.int8 import Int8Linear, check_int8, int8_works, quantised_states, write_largest
from lexbench.models.transformer_model import pack
from lexbench.types import Document

SHORT = {"document_length": 64, "query_length": 64}
RNG = np.random.default_rng(7)

pytestmark = pytest.mark.skipif(not int8_works(), reason="this torch has no int8 products for this processor")


def whole_numbers(rows, width, most):
    """Return numbers from -most to most: each row has -most, and some rows have the largest possible products."""
    numbers = RNG.integers(-most, most + 1, (rows, width))
    numbers[:, 0] = -most
    numbers[1] = most
    numbers[2] = np.where(np.arange(width) % 2, most, -most)
    return numbers


@pytest.mark.parametrize(("inputs", "outputs"), [(64, 48), (3072, 33)])
def test_products_of_whole_numbers_are_exact(inputs, outputs):
    """Products of whole numbers up to 127 and 63 are exact."""
    states, weight = whole_numbers(7, inputs, 127), whole_numbers(outputs, inputs, 63)
    with torch.inference_mode():
        found = Int8Linear(torch.tensor(weight).float(), None)(torch.tensor(states).float())

    assert np.array_equal(found.numpy(), states @ weight.T)


def test_other_numbers_are_rounded_row_by_row():
    """States are scaled to 127 per row, weights to 63 per output; the rest is float32."""
    states = RNG.normal(size=(9, 40)).astype(np.float32) * np.geomspace(1e-3, 1e3, 9, dtype=np.float32)[:, None]
    weight, bias = (RNG.normal(size=shape).astype(np.float32) for shape in ((21, 40), (21,)))
    state_steps = np.abs(states).max(1, keepdims=True).astype(np.float64) / 127
    weight_steps = np.abs(weight).max(1).astype(np.float64) / 63
    whole = np.floor(states / state_steps + 0.5) @ np.round(weight / weight_steps[:, None]).T
    with torch.inference_mode():
        found = Int8Linear(torch.tensor(weight), torch.tensor(bias))(torch.tensor(states)).numpy()

    largest = np.abs(found).max(1, keepdims=True)
    assert np.allclose(found, whole * state_steps * weight_steps + bias, rtol=1e-5, atol=1e-5 * largest)


def test_a_row_does_not_depend_on_others():
    """A token has the same bits alone and among others; no tokens give none, and zeros give the bias."""
    states, layer = torch.randn(2, 5, 48), torch.nn.Linear(48, 33)
    whole = torch.nn.Sequential(layer)
    with torch.inference_mode():
        states[0, 1] = 0
        pack(whole, Int8Linear)
        together = whole(states)
        alone = torch.stack([whole(row[None])[0] for row in states.flatten(0, 1)])

        assert isinstance(whole[0], Int8Linear)
        assert together.shape == (2, 5, 33)
        assert torch.equal(together.flatten(0, 1), alone)
        assert torch.equal(together[0, 1], layer.bias)
        assert whole(states[:, :0]).shape == (2, 0, 33)


def test_nan_and_infinity_stay():
    """A state with NaN or infinity gives NaN or infinity for every output."""
    states = torch.ones(3, 16)
    states[1, 3], states[2, 4] = torch.nan, torch.inf
    with torch.inference_mode():
        found = Int8Linear(torch.randn(4, 16), None)(states)

    assert found.isfinite().all(1).tolist() == [True, False, False]
    assert not found[1:].isfinite().any()
    assert quantised_states(states).scales.isfinite().tolist() == [True, False, False]


def test_the_largest_products_of_each_text():
    """The largest values have the bits of a maximum over all layers; empty texts are skipped, and NaN stays."""
    layers = [Int8Linear(torch.randn(outputs, 48), torch.randn(outputs)) for outputs in (33, 20)]
    lengths, states = [3, 0, 1, 4], torch.randn(8, 48)
    found = torch.full((4, 53), -7.0)
    with torch.inference_mode():
        write_largest(layers, states, lengths, found)
        results = torch.cat([layer(states) for layer in layers], 1)
        expected = [part.amax(0) if len(part) else torch.full((53,), -7.0) for part in results.split(lengths)]

        assert torch.equal(found, torch.stack(expected))
        states[4, 9] = torch.nan
        write_largest(layers, states, lengths, found)
        assert found.isnan().all(1).tolist() == [False, False, False, True]


@pytest.mark.parametrize(("length", "difference"), [(6, 0.02), (70, 0.06)])
def test_a_fused_layer_of_bert(tmp_path, length, difference):
    """A fused layer gives the result of torch's steps with int8 products, with and without a mask, for short and long texts."""
    files = masked_lm_files(checkpoints.masked_lm(tmp_path / "model"))
    layer = load_masked_lm(files, dtype=torch.float32).body.encoder.layer[0]
    states = torch.randn(2, length, layer.output.dense.out_features, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, 1, length, length, dtype=torch.bool)
    mask[1, ..., 4:] = False
    fused = layer.in_int8()
    with torch.inference_mode():
        pack(layer, Int8Linear)
        for one in (None, mask):
            assert torch.allclose(fused(states, one), layer(states, one), atol=difference)


def test_int8_is_for_processors():
    """Another device is refused in one line; a note appears if the processor is slow."""
    with pytest.raises(CannotStart, match=r"dtype=int8 is for processors, and the device is cuda:1; type device=cpu"):
        check_int8(torch.device("cuda:1"))
    assert not slow_note("int8", torch.device("cuda:1"), "x")
    assert bool(slow_note("int8", torch.device("cpu"), "x")) == (times_as_long("int8") > 1.2)


def test_the_fastest_dtype_is_suggested():
    """Dtypes with faster products are tried before long encodings; the demo takes the fastest."""
    assert faster() == [dtype for dtype in ("bfloat16", "int8") if times_as_long(dtype) < 1]
    assert times_as_long(fastest()) <= 1
    assert (fastest() == "bfloat16") == (times_as_long("bfloat16") <= 0.75)


def test_a_long_encoding_is_told_what_another_dtype_saves_and_changes(tmp_path, monkeypatch):
    """The note has the measured time and the agreement of vectors for each dtype that is faster, and what to type."""
    monkeypatch.setattr(dtype_trial, "_LEAST", 10)
    monkeypatch.setattr(dtype_trial, "_LONG", 0.0)
    encoder = SparseMLM(
        str(checkpoints.sparsified(checkpoints.masked_lm(tmp_path / "model"))), dense_ok=True, device="cpu", **SHORT
    )
    texts = corpus(tmp_path / "corpus", {f"d{at}": " ".join(checkpoints.WORDS[at % 9 :]) for at in range(40)})
    monkeypatch.setattr(dtype_trial, "_FASTER", 0.0)
    assert dtype_trial.faster_dtypes(encoder, texts, [range(40)]) == ""
    monkeypatch.setattr(dtype_trial, "_FASTER", 1e9)
    monkeypatch.setattr(SparseMLM, "other_dtypes", lambda self: {"int8": replace(self, dtype="int8"), "same": self})
    said = dtype_trial.faster_dtypes(encoder, texts, [range(40)])
    assert re.search(r'dtype="int8" takes \d+\.\d\d of the time, with a cosine of (0\.\d{4}|1\.0000) to these', said)
    assert re.search(r'"same" takes .* with a cosine of 1\.0000 .*at least 1\.0000.* nearest neighbour for 40 of 40', said)
    assert dtype_trial.faster_dtypes(encoder, texts, [range(9)]) == ""


def test_progress_counts_tokens_as_documents(tmp_path):
    """The longest documents come first and count more; all together they are the number of documents."""
    encoder = SparseMLM(
        str(checkpoints.sparsified(checkpoints.masked_lm(tmp_path / "model"))), dense_ok=True, device="cpu", **SHORT
    )
    encoder = replace(encoder, batch_tokens=64)
    texts = [*["the of and in " * 8] * 4, *["the"] * 96]
    reported = []
    encoder.encode_tokens(encoder.tokenise_documents([Document("", text) for text in texts]), reported.append)
    assert sum(reported) == 100
    assert reported[0] > 5  # one or two of four long documents, which have a quarter of the tokens
