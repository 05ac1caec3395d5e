"""A sharded index has the lists of one index, to the last tie."""

import gc
import multiprocessing

import numpy as np
import pytest
from quick_workers import quick_workers
from workbench import RAY

from lexbench.engines.csr import Csr
from lexbench.engines.flat import Flat
from lexbench.engines.impact import Impact
from lexbench.engines.maxsim import MaxSim
from lexbench.engines.sharded import Sharded
from lexbench.errors import CommandError, LexbenchError
from lexbench.executors import executor, written
from lexbench.runner.systems import describe, system
from lexbench.testing import EngineContract
from lexbench.testing.engines import digests_of, indexed, vectors

__all__ = ["quick_workers"]  # a fixture

RNG = np.random.default_rng(5)
DOCUMENTS, QUERIES = RNG.integers(0, 3, (700, 9)), RNG.integers(0, 3, (25, 9))


class TestSharded(EngineContract):
    """The contract of engines."""

    plugin = Sharded(Csr(), shards=3, threads=2)
    test_vectors_like_learned_sparse_ones = None  # `csr` itself is tested with them


@pytest.mark.parametrize("engine", [Csr(), Impact(), Flat(), MaxSim()], ids=lambda engine: type(engine).__name__)
@pytest.mark.parametrize("shards", [1, 5, 40])
def test_shards_have_the_lists_of_the_whole(tmp_path, engine, shards):
    """Whole numbers tie all the time; with any number of shards, also more than files of vectors, hits are the same."""
    opened = []
    for name, made in (("whole", engine), ("shards", Sharded(engine, shards))):
        opened.append(indexed(made, tmp_path / name, *np.array_split(DOCUMENTS, 13)))
    for k in (1, 30, 5000):
        whole, merged = (index.search(vectors(engine, QUERIES), k) for index in opened)
        assert all(map(np.array_equal, whole, merged))
    assert len(list((tmp_path / "shards").glob("part-*"))) == min(shards, 13)


@pytest.mark.parametrize("name", ["here", "processes(2)", RAY])
def test_workers_have_the_lists_of_the_whole(name, on, tmp_path, quick_workers):
    """Five shards that workers build and search have the files of this process, and the lists of a single index."""
    notes = []
    parts = Sharded(Impact(), 5)
    elsewhere = parts.on_workers(executor(on), notes.append)
    found = {}
    for place, made in (("whole", Impact()), ("here", parts), ("there", elsewhere)):
        index = indexed(made, tmp_path / place, *np.array_split(DOCUMENTS, 13))
        found[place] = [index.search(vectors(made, QUERIES), k) for k in (10, 1000)]

    assert digests_of(tmp_path / "there") == digests_of(tmp_path / "here")
    for hits, expected in zip(found["there"], found["whole"], strict=True):
        assert all(map(np.array_equal, hits, expected))
    assert (index.transfer > 0) == (name != "here")
    assert elsewhere == parts
    assert not notes


def test_a_shard_is_opened_again_if_its_worker_is_killed(tmp_path, quick_workers):
    """A process is killed between two searches: one note says so, and the lists are the same. A missing index is an error."""
    notes, others = [], set(multiprocessing.active_children())
    made = Sharded(Csr(), 3).on_workers(executor("processes(2)"), notes.append)
    index = indexed(made, tmp_path / "index", *np.array_split(DOCUMENTS, 6))
    before = index.search(vectors(made, QUERIES), 30)
    children = [child for child in multiprocessing.active_children() if child not in others]
    children[0].kill()
    children[0].join()
    after = index.search(vectors(made, QUERIES), 30)

    assert all(map(np.array_equal, after, before))
    assert len(notes) == 1
    assert "killed by signal 9" in notes[0]
    (tmp_path / "index").rename(tmp_path / "elsewhere")
    for child in set(multiprocessing.active_children()) - others:
        child.kill()
        child.join()
    with pytest.raises(LexbenchError, match=r"a worker on .* does not see .*index: share the store with its machine"):
        index.search(vectors(made, QUERIES), 30)
    del index
    gc.collect()
    assert not [child for child in multiprocessing.active_children() if child in children], "its processes outlive the index"


def test_the_engine_is_a_setting():
    """The engine of `sharded` is given as a setting and decides on the vectors; other values are refused."""
    engine = system(f'vectors("{__file__}", "{__file__}")@sharded(impact, shards=4)').retriever.engine  # any file will do
    assert engine == Sharded(Impact(), 4)
    assert describe(engine)["settings"]["engine"] == describe(Impact())
    assert Sharded(Impact(), 4).impacts
    assert not Sharded(Csr()).impacts
    with pytest.raises(CommandError, match="name an engine"):
        Sharded(7)


@pytest.mark.parametrize("text", ["here", "processes(workers=3)", "processes"])
def test_an_executor_is_written_as_it_is_typed(text):
    """`written` is the inverse of `executor`."""
    assert written(executor(text)) == text
