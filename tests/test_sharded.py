"""An index in parts: its lists are those of one index, to the last tie."""

import numpy as np
import pytest
from scipy import sparse

from lexbench.engines.csr import Csr
from lexbench.engines.flat import Flat
from lexbench.engines.impact import Impact
from lexbench.engines.maxsim import MaxSim
from lexbench.engines.sharded import Sharded
from lexbench.errors import CommandError
from lexbench.runner.systems import describe, system
from lexbench.testing import EngineContract
from lexbench.testing.engines import vectors

RNG = np.random.default_rng(5)
DOCUMENTS, QUERIES = RNG.integers(0, 3, (700, 9)), RNG.integers(0, 3, (25, 9))


class TestSharded(EngineContract):
    """What every engine must do."""

    plugin = Sharded(Csr(), parts=3, threads=2)
    test_vectors_like_those_of_learned_retrieval = None  # `csr` itself is tested with them


@pytest.mark.parametrize("engine", [Csr(), Impact(), Flat(), MaxSim()], ids=lambda engine: type(engine).__name__)
@pytest.mark.parametrize("parts", [1, 2, 5, 40])
@pytest.mark.parametrize("k", [1, 30, 5000])
def test_parts_have_the_lists_of_the_whole(tmp_path, engine, parts, k):
    """Whole numbers tie all the time; however many parts, fewer shards than parts too, docs and scores are the same."""
    found = []
    for name, made in (("whole", engine), ("parts", Sharded(engine, parts))):
        (tmp_path / name).mkdir()
        made.build((vectors(engine, rows) for rows in np.array_split(DOCUMENTS, 13)), tmp_path / name)
        found.append(made.open(tmp_path / name).search(vectors(engine, QUERIES), k))

    assert np.array_equal(found[0].docs, found[1].docs)
    assert np.array_equal(found[0].scores, found[1].scores)
    assert len(list((tmp_path / "parts").glob("part-*"))) == min(parts, 13)


def test_it_is_named_as_other_engines_are():
    """An engine among the settings is resolved, with what it asks of vectors; what is none is refused."""
    engine = system("lexmae_nano@sharded(impact, parts=4)").retriever.engine
    assert engine == Sharded(Impact(), 4)
    assert describe(engine)["settings"]["engine"] == describe(Impact())
    assert Sharded(Impact(), 4).impacts
    assert not Sharded(Csr()).impacts
    with pytest.raises(CommandError, match="name an engine, as in sharded"):
        Sharded(7)
    with pytest.raises(CommandError, match="each is 1 or more"):
        Sharded(Csr(), parts=0)


def test_no_documents_at_all(tmp_path):
    """Nothing indexed, nothing found."""
    Sharded(Csr()).build(iter([]), tmp_path)

    assert Sharded(Csr()).open(tmp_path).search(sparse.csr_array(np.ones((2, 3), np.float32)), 5).docs.shape == (2, 0)
