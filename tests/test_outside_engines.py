"""Engines on servers, Qdrant and OpenSearch, compared with the ids, order and scores of our exact engines.

Real servers are tested if LEXBENCH_QDRANT_URL or LEXBENCH_OPENSEARCH_URL names them. Otherwise Qdrant's protocol is tested with
the local mode of its client, and OpenSearch's with `rank_feature_server`, which rounds weights like Lucene.
"""

import os
from importlib import import_module

import numpy as np
import pytest
import rank_feature_server
from scipy import sparse
from workbench import built, engine

from lexbench import registry
from lexbench.engines import qdrant
from lexbench.engines.csr import Csr
from lexbench.engines.elasticsearch import Elasticsearch
from lexbench.engines.kernels.java import java_class
from lexbench.engines.opensearch import OpenSearch
from lexbench.engines.qdrant import Qdrant
from lexbench.errors import CannotStart, CommandError, LexbenchError, MissingData, MissingExtra
from lexbench.outside import http_client
from lexbench.testing import EngineContract
from lexbench.testing.engines import learned
from lexbench.types import Kind


def url_of(variable):
    """Return the address of a real server, or skip the test."""
    if not (url := os.environ.get(variable)):
        pytest.skip(f"holds for a real server, and {variable} names none")
    return url


@pytest.fixture
def search_server():
    """Run a server that rounds like Lucene."""
    with rank_feature_server.running() as server:
        yield server


class TestOpenSearch(EngineContract):
    """The protocol."""

    test_vectors_like_learned_sparse_ones = None  # too many for a server in Python; fewer are searched below

    @pytest.fixture
    def engine(self, search_server):
        """Name the server."""
        return OpenSearch(search_server.url)


@pytest.mark.slow
class TestRealOpenSearch(EngineContract):
    """A server."""

    @pytest.fixture
    def engine(self):
        """Name the server."""
        return OpenSearch(url_of("LEXBENCH_OPENSEARCH_URL"), shards=2)


@pytest.fixture
def local_qdrant(monkeypatch):
    """Let the engine use the client's local mode in place of a server, unless the environment names one; return the engine."""
    client = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed; pip install 'lexbench[qdrant]'")
    if url := os.environ.get("LEXBENCH_QDRANT_URL"):
        return engine("qdrant", url=url)
    local = client.QdrantClient(":memory:")
    monkeypatch.setattr(qdrant, "connect", lambda _url: local)
    return engine("qdrant")


@pytest.mark.filterwarnings("ignore:Local mode:UserWarning")
class TestQdrant(EngineContract):
    """The requests to a server, real or the client's local mode."""

    if not os.environ.get("LEXBENCH_QDRANT_URL"):
        test_an_index_opens_in_another_process = None  # the local mode lives in this process
    test_vectors_like_learned_sparse_ones = pytest.mark.slow(EngineContract.test_vectors_like_learned_sparse_ones)

    @pytest.fixture(params=Kind, ids=str)
    def engine(self, request, local_qdrant):
        """Make the engine for one kind."""
        return local_qdrant.for_kind(request.param)


def test_weights_that_lucene_rounds_are_refused(search_server, tmp_path):
    """512 is exact, 513 is the first that is not, and it is refused before it is sent."""
    assert rank_feature_server.nine_bits(511) == 511
    assert rank_feature_server.nine_bits(513) == 512
    with pytest.raises(LexbenchError, match=r"opensearch takes whole weights from 0 to 512, and there is 513; quantise"):
        OpenSearch(search_server.url).build(iter([sparse.csr_array(np.array([[513.0]], np.float32))]), tmp_path)


def test_transfer_is_measured_and_a_lost_index_is_named(search_server, tmp_path, monkeypatch):
    """The server reports that it worked no time, so the whole time of a search counts as transfer.

    Opening an index that the server has lost says which folder to remove. Where nobody listens there is one line.
    """
    made = OpenSearch(search_server.url)
    index = built(made, tmp_path, sparse.csr_array(np.array([[3.0, 0.0], [0.0, 2.0]], np.float32)))
    assert index.transfer == 0.0
    index.search(sparse.csr_array(np.array([[1.0, 1.0]], np.float32)), 2)

    assert index.transfer > 0
    monkeypatch.setattr(http_client, "_FIRST_WAIT", 0.001)
    search_server.indexes.clear()
    with pytest.raises(MissingData, match=r"has 0 of the 2 documents of lexbench-.*: remove .*, and the command"):
        made.open(tmp_path)
    with pytest.raises(CannotStart, match=r"opensearch at http://127.0.0.1:9 does not answer \(.*\); is it running\?"):
        OpenSearch("http://127.0.0.1:9").build(iter([]), tmp_path)


def test_lucene_rounds_weights_above_512():
    """Lucene's own FeatureField keeps every whole number to 512, and of 513 keeps 512."""
    try:
        field = java_class("org.apache.lucene.document.FeatureField")
    except (MissingExtra, CannotStart) as missing:
        pytest.skip(str(missing))
    kept = []
    for weight in (1, 255, 511, 512, 513, 515):
        stream = field("f", "t", float(weight)).tokenStream(None, None)
        name = "org.apache.lucene.analysis.tokenattributes.TermFrequencyAttribute"
        frequency = import_module("jnius").cast(name, stream.addAttribute(java_class(name)))
        stream.reset()
        stream.incrementToken()
        kept.append(java_class("java.lang.Float").intBitsToFloat(frequency.getTermFrequency() << 15))

    assert kept == [1, 255, 511, 512, 512, 514]
    assert kept == [rank_feature_server.nine_bits(weight) for weight in (1, 255, 511, 512, 513, 515)]


def test_keys_come_from_the_environment_alone(search_server, tmp_path, monkeypatch):
    """A key is sent as a header and refused in an address; no setting and no recipe contains it."""
    monkeypatch.setenv("OPENSEARCH_API_KEY", "c2VjcmV0")
    made = OpenSearch(search_server.url)
    made.build(iter([sparse.csr_array(np.array([[3.0]], np.float32))]), tmp_path)

    assert {headers["Authorization"] for _, _, headers in search_server.asked} == {"ApiKey c2VjcmV0"}
    assert "c2VjcmV0" not in str(registry.settings(made))
    assert not any(b"c2VjcmV0" in file.read_bytes() for file in tmp_path.iterdir())
    for made in (OpenSearch, Elasticsearch, Qdrant):
        with pytest.raises(CommandError, match="no name and no key in it"):
            made(url="https://me:secret@localhost:9200")


@pytest.mark.filterwarnings("ignore:Local mode:UserWarning")
def test_sums_that_float32_cannot_hold_are_refused(local_qdrant, tmp_path):
    """One more than 2**24 could be rounded: the query is refused; at 2**24 it is answered."""
    index = built(local_qdrant, tmp_path, sparse.csr_array(np.array([[4096.0, 1.0]], np.float32)))

    assert index.search(sparse.csr_array(np.array([[4096.0, 0.0]], np.float32)), 1).scores.tolist() == [[2**24]]
    with pytest.raises(LexbenchError, match=r"a score could be 16,777,217, and above 16,777,216 .* quantise more coarsely"):
        index.search(sparse.csr_array(np.array([[4096.0, 1.0]], np.float32)), 1)


def test_learned_vectors_have_the_lists_of_csr(search_server, tmp_path):
    """OpenSearch's protocol gives the lists of csr, at k = 10 and beyond a server's default window."""
    documents, queries = (sparse.csr_array(rows.astype(np.float32)) for rows in (learned(400), learned(405)[400:]))
    answers = []
    for made in (Csr(), OpenSearch(search_server.url)):
        index = built(made, tmp_path / type(made).__name__, documents)
        answers += [index.search(queries, k) for k in (10, 20_000)]
    for found, expected in ((answers[2], answers[0]), (answers[3], answers[1])):
        assert all(map(np.array_equal, found, expected))
