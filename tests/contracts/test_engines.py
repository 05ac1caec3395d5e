"""The contract tests of `lexbench.testing.engines` on each engine."""

import numpy as np
import pytest
import workbench

from lexbench import registry
from lexbench.errors import LexbenchError
from lexbench.testing import EngineContract
from lexbench.testing.engines import indexed, vectors

# tests/test_outside_engines.py, tests/test_milvus.py, tests/test_pgvector.py, tests/test_sharded.py
ELSEWHERE = ("elasticsearch", "milvus", "opensearch", "pgvector", "qdrant", "sharded")


class TestEngines(EngineContract):
    """Each engine with its default settings."""

    widths_refused = "the queries have 3 (terms|dimensions) and the index has 2"

    @pytest.fixture(params=[name for name in registry.names("engines") if name not in ELSEWHERE])
    def engine(self, request):
        """Make one engine."""
        engine = workbench.engine(request.param)
        if engine.compressed:
            pytest.skip(f"scores are those of compressed vectors: see tests/test_{request.param}.py")
        return engine

    @pytest.mark.parametrize("shards", [(), (np.zeros((0, 2)),)], ids=["none", "empty"])
    def test_no_documents_are_an_index(self, engine, tmp_path, shards):
        """Without shards, and with a shard of no documents, nothing is found."""
        assert indexed(engine, tmp_path, *shards).search(vectors(engine, [[1, 1]] * 3), 5).docs.shape == (3, 0)


FACTORIES = ("nonsense", "", "HNSW0", "HNSW1", "IVF0,Flat", "LSH", "HNSW32_PQ48", "PQ48x20y")  # some would crash the process
REFUSED = [  # engine, setting, and a part of the message
    ("flat", {"storage": "int8"}, "takes 'float32' or 'float16', not 'int8'"),
    ("pisa", {"algorithm": "max_score"}, "did you mean 'maxscore'"),
    *(("seismic", {name: 0}, "above 0") for name in ("n_postings", "query_cut", "threads", "heap_factor")),  # it would panic
    *(("faiss", {"factory": name}, "faiss makes no index of inner products of factory=.*'IVF1024,Flat'") for name in FACTORIES),
]


@pytest.mark.parametrize(("name", "setting", "message"), REFUSED)
def test_an_impossible_setting_is_refused(name, setting, message):
    """The error names what exists, or an example."""
    with pytest.raises(LexbenchError, match=message):
        workbench.engine(name, **setting)
