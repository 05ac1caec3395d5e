"""Compiling beforehand: while documents are encoded a process compiles what is needed afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fruit import CORPUS, write

from lexbench.plugins import EncodesVectors
from lexbench.runner import jobs
from lexbench.runner.plan import plan_dataset
from lexbench.runner.warm_up import MadeUp, made_up_parts
from lexbench.storage.children import command, environment
from lexbench.storage.store import Store
from lexbench.types import Kind

SYSTEMS = ["bm25", "lexmae_nano@impact", "lexmae_nano|top_k(8)@impact", "pipeline(bm25, lexmae_nano@impact, k=100)"]


class Length:
    """An encoder of one number, which keeps whether a file was there when it encoded."""

    def __init__(self, file):
        self.file = file
        self.seen = {}

    def encode_document(self, texts):
        """Return the length of each text."""
        self.seen |= dict.fromkeys(map(str.strip, texts), self.file.exists())
        return np.array([[len(text)] for text in texts], np.float32)

    encode_query = encode_document


@pytest.fixture
def planned(tmp_path):
    """Plan bm25, then an encoder, on a tiny folder."""
    encoder = Length(tmp_path / "compiled")
    return encoder, plan_dataset(str(write(tmp_path / "fruit")), ["bm25", encoder], ["nDCG@10"], 10)


def test_what_encodes_is_done_first_and_waits_for_what_compiles(planned, tmp_path, monkeypatch):
    """Documents are encoded while it compiles, bm25 is indexed when it has ended, and outcomes are in the plan's order."""
    encoder, plan = planned
    slowly = f"import sys, time; time.sleep(1); open({str(encoder.file)!r}, 'w').write(' '.join(sys.argv[1:]))"
    monkeypatch.setattr(
        "lexbench.runner.precompilation.children.command", lambda _, *systems: [sys.executable, "-c", slowly, *systems]
    )
    monkeypatch.setattr("lexbench.runner.jobs.MANY", 0)
    outcomes = list(jobs.run(plan, Store(tmp_path / "store")))

    (index,) = (tmp_path / "store" / "indexes").glob("fruit-bm25-*")
    assert encoder.seen[CORPUS["a4"]] is False
    assert min(path.stat().st_mtime_ns for path in index.rglob("*.*")) > encoder.file.stat().st_mtime_ns
    assert encoder.file.read_text() == "bm25"  # an object of this process has no text
    assert [outcome.job.system.label for outcome in outcomes] == ["bm25", "Length"]
    assert all(outcome.result for outcome in outcomes)


def test_where_little_is_encoded_nothing_is_started(planned, tmp_path, monkeypatch):
    """For few documents, and for vectors that are there, no process is started."""
    encoder, plan = planned
    monkeypatch.setattr(
        "lexbench.runner.precompilation.children.command",
        lambda *_: [sys.executable, "-c", f"open({str(encoder.file)!r}, 'w')"],
    )
    assert all(outcome.result for outcome in jobs.run(plan, Store(tmp_path / "store")))
    monkeypatch.setattr("lexbench.runner.jobs.MANY", 0)
    assert all(outcome.result for outcome in jobs.run(plan_bm25(tmp_path), Store(tmp_path / "store")))

    assert not encoder.file.exists()


def plan_bm25(tmp_path):
    """Plan bm25 alone."""
    return plan_dataset(str(tmp_path / "fruit"), ["bm25"], ["nDCG@10"], 10)


def test_the_parts_of_systems_are_tried_once_each_and_without_models():
    """Of systems that differ in settings one is enough; run files, servers and engines of others have no loops of ours."""
    others = ['run_file(path="x")', "bm25@lucene", "no_such", "lexmae_nano@opensearch", "lexmae_nano@sharded(opensearch)"]
    parts = list(made_up_parts([*SYSTEMS, "lexmae_nano|top_k(4)@impact", *others]))
    vectors = [part for part in parts if isinstance(part, EncodesVectors)]

    assert [type(part).__name__ for part in parts] == ["BM25", "Encoded", "Encoded"]
    assert [part.encoder for part in vectors] == [MadeUp(Kind.SPARSE)] * 2
    assert [len(part.transforms) for part in vectors] == [1, 2]  # quantize, and top_k before it


@pytest.mark.slow
def test_nothing_is_left_to_compile(tmp_path):
    """What a run with the embedded collection calls has been compiled for made-up documents, and is compiled once."""
    given = {"NUMBA_CACHE_DIR": str(tmp_path / "compiled"), "LEXBENCH_STORE": str(tmp_path / "store")}
    run = [sys.executable, "-m", "lexbench", "run", "suite", "pydoc", *[word for one in SYSTEMS for word in ("-r", one)]]
    words = command("lexbench.runner.warm_up", *SYSTEMS)
    with subprocess.Popen(
        words, env=environment(**given), stdin=subprocess.PIPE
    ) as process:  # whose input has no end before it
        assert process.wait() == 0
    compiled = kernels(tmp_path)
    subprocess.run(run, env={**os.environ, **given}, check=True, stdout=subprocess.DEVNULL)

    assert len(compiled) > 40
    assert kernels(tmp_path) == compiled


def kernels(place: Path):
    """Return the files of compiled loops."""
    return {path.name for path in (place / "compiled").rglob("*.nbc")}
