"""Exact search on devices: what torch does on a GPU, done here by processor devices, next to numpy's search."""

import sys
import threading

import numpy as np
import pytest
import torch
from tiny import loaded_modules

from lexbench import registry
from lexbench.arrays.vectors import offsets_of
from lexbench.engines.flat import Flat
from lexbench.engines.kernels import on_devices
from lexbench.engines.kernels.dense import Best
from lexbench.engines.kernels.on_devices import DeviceVectors
from lexbench.engines.maxsim import MaxSim
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.notation import parse
from lexbench.testing import EngineContract
from lexbench.testing.engines import vectors
from lexbench.types import MultiVectors

CPU = torch.device("cpu")
RNG = np.random.default_rng(11)
DOCUMENTS = RNG.standard_normal((3000, 24), np.float32)
QUERIES = RNG.standard_normal((70, 24), np.float32)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let blocks, batches of queries and the room for products be so small that there are many of each."""
    monkeypatch.setattr(on_devices, "_BLOCK", 40_000)
    monkeypatch.setattr(on_devices, "_QUERIES", 32)
    monkeypatch.setattr(on_devices, "_LEAST_ROOM", 1 << 10)
    monkeypatch.setattr(on_devices, "_ROOM", 1 << 18)


class TestSeveralDevices(EngineContract):
    """`flat` and `maxsim` on two devices find what they find on the processor, ties included."""

    @pytest.fixture(params=["flat", "maxsim"])
    def engine(self, request):
        """Make one engine with two processor devices."""
        return {"flat": Flat, "maxsim": MaxSim}[request.param](device="cpu,cpu")

    def test_vectors_like_learned_sparse_ones(self, exact_scores, tmp_path, monkeypatch):
        """As for every engine, with blocks of a hundred of these wide vectors instead of six."""
        monkeypatch.setattr(on_devices, "_BLOCK", 600_000)
        monkeypatch.setattr(on_devices, "_ROOM", 1 << 23)
        super().test_vectors_like_learned_sparse_ones(exact_scores, tmp_path)


def multi(rows, counts):
    """Return texts of *counts* tokens, with vectors from *rows*."""
    return MultiVectors(rows[: sum(counts)], offsets_of(np.array(counts)))


def built(engine, path, shards):
    """Build an index and return the folder."""
    path.mkdir()
    engine.build(iter([shards]), path)
    return path


@pytest.mark.parametrize("storage", ["float32", "float16"])
@pytest.mark.parametrize("k", [1, 10, 700, 5000])
def test_flat_finds_what_numpy_finds(tmp_path, storage, k):
    """The lists are those of the processor; a document may change places only with one whose score is as good as equal."""
    folder = built(Flat(storage), tmp_path / "index", DOCUMENTS)
    ours, theirs = (Flat(storage, device=device).open(folder).search(QUERIES, k) for device in ("cpu,cpu,cpu", "cpu"))

    assert ours.docs.dtype == np.int32
    assert np.allclose(ours.scores, theirs.scores, rtol=1e-5, atol=1e-5)
    moved = ours.docs != theirs.docs
    assert moved.mean() < 0.001
    assert all(sorted(row) == list(range(3000)) for row in ours.docs.tolist()) or k < 3000


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_maxsim_finds_what_numpy_finds(tmp_path, storage):
    """Documents and queries of any number of tokens, none included, have the scores of the processor."""
    documents = multi(DOCUMENTS, RNG.integers(0, 20, 280).tolist())
    queries = multi(QUERIES, [*RNG.integers(0, 6, 20).tolist(), 0])
    folder = built(MaxSim(storage), tmp_path / "index", documents)
    ours, theirs = (MaxSim(storage, device=device).open(folder).search(queries, 280) for device in ("cpu,cpu", "cpu"))

    assert (ours.docs[-1] == -1).all()
    assert np.array_equal(ours.docs, theirs.docs)
    assert np.allclose(ours.scores, theirs.scores, rtol=1e-5, atol=1e-5)


def test_documents_without_tokens_only(tmp_path):
    """An index of texts without tokens opens, and nothing is found."""
    folder = built(MaxSim(), tmp_path / "index", MultiVectors(np.zeros((0, 24), np.float32), np.zeros(6, np.int64)))
    hits = MaxSim(device="cpu,cpu").open(folder).search(multi(QUERIES, [3, 0]), 4)

    assert (hits.docs == -1).all()


@pytest.mark.parametrize("k", [3, 100])
@pytest.mark.parametrize("order", ["ascending", "descending", "equal", "random"])
def test_the_best_are_kept_in_any_order_of_scores(monkeypatch, order, k):
    """Where each score is better than all before, where all are equal, and with nan and infinities, the best k are right.

    In random order scores are compared with the bar after the first few hundred, and few become candidates.
    """
    scores = np.sort(RNG.standard_normal((5, 2560), np.float32), axis=1)
    scores = {"descending": scores[:, ::-1], "equal": scores * 0, "random": RNG.permuted(scores, axis=1)}.get(order, scores)
    scores = np.ascontiguousarray(scores)
    scores[1, [2000, 2001, 2559]] = np.nan, np.inf, -np.inf  # the first two are in one group
    scores[2, ::2], scores[2, 1::2] = -0.0, 0.0
    scores[3] = -np.inf
    dense, add_all = [], on_devices._Best._add_all

    def counted(self, some, position, rows):
        dense.append(position)
        add_all(self, some, position, rows)

    monkeypatch.setattr(on_devices._Best, "_add_all", counted)
    ours, theirs = on_devices._Best(5, k, CPU), Best(5, k)
    for start in range(0, 2560, 320):
        ours.add(torch.tensor(scores[:, start : start + 320]), start, 0)
        theirs.add(np.ascontiguousarray(scores[:, start : start + 320]), start)

    assert all(map(np.array_equal, on_devices._hits_of(ours.keys()), theirs.hits()))
    assert order != "random" or dense == [0]


def test_blocks_that_fit_stay_on_the_device(tmp_path, monkeypatch):
    """A second search copies nothing if all blocks fit, and what does not fit is copied at each search."""
    copied, found, copy = [], {}, on_devices._Device._copied

    def counted(self, part, stream):
        copied.append(part)
        return copy(self, part, stream)

    monkeypatch.setattr(on_devices._Device, "_copied", counted)
    for free in (1 << 20, 1 << 18):
        monkeypatch.setattr("lexbench.devices.free_memory", lambda _device, free=free: free)
        index = DeviceVectors(DOCUMENTS, None, [CPU], "float32")
        for _ in range(2):
            copied.clear()
            found[free, len(found)] = index.search(QUERIES, None, 10).docs
        again = {part.start for part in copied}
        assert not again if free == 1 << 20 else 0 < len(again) < len(index._parts)

    assert len({docs.tobytes() for docs in found.values()}) == 1


def expected(k=10):
    """Return the lists of one device that has room."""
    return DeviceVectors(DOCUMENTS, None, [CPU], "float32").search(QUERIES, None, k)


def failing(monkeypatch, fails):
    """Let a device raise fails(device, number of the block) where it adds the scores of a block."""
    add, lock, counts = on_devices._Device._add, threading.Lock(), {}

    def sometimes(self, best, part, documents, queries):
        with lock:
            counts[id(self)] = counts.get(id(self), 0) + 1
            number = list(counts).index(id(self))
        add(self, best, part, documents, queries)
        if error := fails(number, counts[id(self)], self):
            raise error

    monkeypatch.setattr(on_devices._Device, "_add", sometimes)


@pytest.mark.parametrize("memory", [torch.OutOfMemoryError, MemoryError])
def test_a_device_that_is_short_of_memory_takes_smaller_blocks(monkeypatch, memory):
    """After errors in the middle of a search, blocks are smaller, and no document is missing or there twice."""
    right = expected()
    index = DeviceVectors(DOCUMENTS, None, [CPU, CPU], "float32")
    failing(monkeypatch, lambda _device, block, self: memory("out of memory") if self.room > 1 << 16 and block > 2 else None)
    hits = index.search(QUERIES, None, 10)

    assert np.array_equal(hits.docs, right.docs)
    assert min(one.room for one in index._devices) == 1 << 16


def test_a_device_that_is_too_small_is_one_error(monkeypatch):
    """A device without room for any block ends the search in one line, which says what to type."""
    failing(monkeypatch, lambda *_: torch.OutOfMemoryError("out of memory"))
    with pytest.raises(LexbenchError, match=r'searching on cpu failed: its memory is too small; type device="cpu"'):
        expected()


def test_another_device_does_the_work_of_a_lost_one(monkeypatch):
    """A device that disappears in the middle costs time, and nothing else; the search after it uses the others."""
    right = expected(700)
    index = DeviceVectors(DOCUMENTS, None, [CPU, CPU], "float32")
    lost = RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be reported later")
    failing(monkeypatch, lambda device, block, _self: lost if device == 1 and block > 3 else None)
    with pytest.warns(
        UserWarning, match="searching on cpu failed, and other devices do its work: CUDA error: unspec.* failure$"
    ):
        hits = index.search(QUERIES, None, 700)

    assert np.array_equal(hits.docs, right.docs)
    assert len(index._devices) == 1
    assert np.array_equal(index.search(QUERIES, None, 700).docs, right.docs)


def test_the_last_device_that_disappears_is_one_error(monkeypatch):
    """The error is one line of torch's, and the same index can be searched when the device is back."""
    index = DeviceVectors(DOCUMENTS, None, [CPU], "float32")
    with monkeypatch.context() as patch:
        failing(patch, lambda *_: RuntimeError("CUDA error: device is lost\nmore"))
        with pytest.raises(
            LexbenchError, match=r'^searching on cpu failed: CUDA error: device is lost; type device="cpu", or [^\n]*$'
        ):
            index.search(QUERIES, None, 10)

    assert np.array_equal(index.search(QUERIES, None, 10).docs, expected().docs)


def test_bfloat16_rounds_vectors_and_nothing_else(tmp_path):
    """Scores are the products of rounded vectors, added up in float32; the setting is in the key of a search only if set."""
    folder = built(Flat(), tmp_path / "index", DOCUMENTS)
    hits = Flat(precision="bfloat16").open(folder).search(QUERIES, 10)
    rounded = [torch.tensor(rows).bfloat16().double().numpy() for rows in (QUERIES, DOCUMENTS)]
    products = rounded[0] @ rounded[1].T

    assert np.allclose(hits.scores, np.take_along_axis(products, hits.docs, 1), rtol=1e-6, atol=1e-6)
    assert np.allclose(hits.scores[:, -1], np.sort(products, axis=1)[:, -10], rtol=1e-6, atol=1e-6)
    assert registry.settings(Flat(device="cpu,cpu")) == {"storage": "float32"}
    assert registry.settings(Flat(precision="bfloat16")) == {"storage": "float32", "precision": "bfloat16"}
    assert registry.settings(Flat(precision="bfloat16"), index=True) == {"storage": "float32"}


def test_precision_of_other_code_is_left_alone():
    """A search in float32 multiplies in float32 where a process has allowed less, and leaves that setting as it was."""
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        expected()
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


WRONG = {
    "flat(device='gpu')": (CommandError, r"flat\(device='gpu'\): there is auto, cpu, cuda, cuda:0; several as cpu,cpu"),
    "maxsim(device='cpu,auto')": (CommandError, "there is auto"),
    "flat(device='mps')": (CommandError, "there is auto"),
    "flat(precision='float16')": (CommandError, r"precision='float16'\): there is float32, tf32, bfloat16"),
    "maxsim(device='cuda:99')": (CannotStart, r"device=cuda:99: torch .* finds \d+ CUDA devices here; type device=auto"),
    "flat(precision='tf32', device='cpu')": (
        CannotStart,
        "precision=tf32 is for NVIDIA GPUs .* device is cpu",
    ),
}


@pytest.mark.parametrize("expression", WRONG)
def test_what_is_not_here_is_refused(tmp_path, expression):
    """Unknown devices and precisions, and those that this machine lacks, are refused in one line."""
    error, message = WRONG[expression]

    def opened():
        engine = registry.create("engines", parse(expression).head)
        engine.build(iter([vectors(engine, [[1, 2]])]), tmp_path)
        engine.open(tmp_path)

    with pytest.raises(error, match=message):
        opened()


def test_auto_takes_a_gpu_for_large_indexes(monkeypatch):
    """64 MiB or more are searched on the first GPU; less on the processor, unless a precision was asked for."""
    monkeypatch.setattr("lexbench.devices.has_gpu", lambda: True)
    monkeypatch.setattr("lexbench.devices.torch_device", lambda name: torch.device("cuda" if name == "auto" else name))
    assert on_devices.places("auto", "float32", (64 << 20) - 1) == []
    assert on_devices.places("auto", "float32", 64 << 20) == [torch.device("cuda")]
    assert on_devices.places("auto", "bfloat16", 1) == [torch.device("cuda")]
    assert on_devices.places("cpu", "float32", 64 << 20) == []
    assert on_devices.places("cuda:1,cuda:0", "float32", 1) == [torch.device("cuda:1"), torch.device("cuda:0")]


def test_torch_is_not_loaded_where_no_gpu_is(tmp_path):
    """Without a GPU `flat` and `maxsim` search large indexes without torch, whatever the default device is."""
    program = """
import sys, numpy as np
from lexbench import devices
from lexbench.engines import flat, maxsim
from lexbench.engines.kernels import on_devices
from lexbench.types import MultiVectors
on_devices._WORTH = 1
rows = np.ones((9, 4), np.float32)
for number, engine in enumerate((flat.Flat(), maxsim.MaxSim())):
    shard = MultiVectors(rows, np.arange(10)) if number else rows
    path = __import__("pathlib").Path(sys.argv[1], str(number)); path.mkdir()
    engine.build(iter([shard]), path)
    assert engine.open(path).search(shard, 3).docs.shape == (9, 3)
print("gpu" if devices.has_gpu() else "", file=sys.stderr)
"""
    loaded = loaded_modules(program, str(tmp_path))

    assert ("torch" in loaded) == on_devices.devices.has_gpu()
    assert sys.modules["torch"].cuda.is_available() == on_devices.devices.has_gpu()
