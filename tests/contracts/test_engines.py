"""The contract tests of `lexbench.testing.engines` on each engine."""

import numpy as np
import pytest
import workbench
from signs import Signs

from lexbench import registry
from lexbench.errors import LexbenchError
from lexbench.testing import EngineContract
from lexbench.testing.engines import DOCUMENTS, QUERIES, check, check_form, indexed, vectors
from lexbench.types import Hits

# test_outside_engines.py, test_milvus.py, test_pgvector.py, test_sharded.py, test_plaid.py (its vectors have length 1 and some
# width): each in tests/
ELSEWHERE = ("elasticsearch", "milvus", "opensearch", "pgvector", "plaid", "qdrant", "sharded")


class TestEngines(EngineContract):
    """Each engine with its default settings."""

    widths_refused = "the queries have 3 (terms|dimensions) and the index has 2"

    @pytest.fixture(params=[name for name in registry.names("engines") if name not in ELSEWHERE])
    def engine(self, request):
        """Make one engine."""
        return workbench.engine(request.param)


class TestSigns(EngineContract):
    """An engine of one bit per dimension: its form is tested, its scores are its own."""

    plugin = Signs()


def test_an_engine_that_compresses_and_does_not_say_so_is_told(tmp_path):
    """Where scores are not the dot products, the tests name the attribute that may be missing."""
    hits = indexed(Signs(), tmp_path, DOCUMENTS).search(vectors(Signs(), QUERIES), 10)

    with pytest.raises(AssertionError, match="in fewer bits on purpose says so: compressed = True"):
        check(Signs(), hits, QUERIES, DOCUMENTS, 10)


WRONG = {  # docs and scores of one query, three documents in the index
    "a document comes twice": ([1, 1, 0], [3, 3, 2]),
    "equal scores not in order of position": ([2, 1, 0], [3, 3, 2]),
    "not in order of score": ([0, 1, 2], [1, 2, 3]),
    "a document after a missing one": ([0, -1, 1], [3, 2, 1]),
    "a position that no document has": ([0, 1, 3], [3, 2, 1]),
    "isfinite": ([0, 1, 2], [np.nan, 2, 1]),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_form_is_found(fault):
    """Each fault of the form fails with its name, whatever the scores are."""
    docs, scores = WRONG[fault]
    with pytest.raises(AssertionError, match=fault):
        check_form(Hits(np.array([docs], np.int32), np.array([scores], np.float32)), 1, 3, 3)


def test_hits_of_another_type_or_shape_are_found():
    """Positions are int32 and scores float32; there are as many columns as documents were asked for."""
    docs, scores = np.array([[0, 1]], np.int32), np.array([[2, 1]], np.float32)
    check_form(Hits(docs, scores), 1, 2, 2)
    for wrong in (Hits(docs.astype(np.int64), scores), Hits(docs, scores.astype(np.float64)), Hits(docs[:, :1], scores[:, :1])):
        with pytest.raises(AssertionError):
            check_form(wrong, 1, 2, 2)


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
