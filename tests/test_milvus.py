"""Milvus, by the server of milvus-lite, started for real."""

import numpy as np
import pytest
from servers import free_port, milvus_words, started
from tiny import ended

from lexbench.engines.milvus import Milvus
from lexbench.errors import CannotStart, CommandError, MissingData
from lexbench.probing.probe import probe
from lexbench.testing import EngineContract

DOCUMENTS = np.random.default_rng(1).normal(size=(1000, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Run a server; yield its address."""
    for module in ("pymilvus", "milvus_lite"):
        pytest.importorskip(module, reason=f"{module} is not installed; pip install 'lexbench[milvus]' milvus-lite")
    port, folder = free_port(), tmp_path_factory.mktemp("milvus")
    with started(milvus_words(folder / "data", port), port, folder / "log"):
        yield f"http://127.0.0.1:{port}"


class TestMilvus(EngineContract):
    """Brute force and a graph."""

    test_vectors_like_learned_sparse_ones = pytest.mark.slow(EngineContract.test_vectors_like_learned_sparse_ones)

    @pytest.fixture(params=["FLAT", pytest.param("HNSW", marks=pytest.mark.slow)])
    def engine(self, request, url):
        """Make the engine."""
        return Milvus(url, index=request.param)


@pytest.fixture(scope="module")
def collection(url):
    """Make a collection with a graph, as users do; return its address."""
    from pymilvus import DataType, MilvusClient

    client = MilvusClient(uri=url)
    schema, index = client.create_schema(), client.prepare_index_params()
    schema.add_field("key", DataType.VARCHAR, max_length=20, is_primary=True)
    schema.add_field("tenant", DataType.INT64)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=8)
    index.add_index("v", index_type="HNSW", metric_type="COSINE", params={"M": 4, "efConstruction": 8})
    client.create_collection("docs", schema=schema, index_params=index)
    rows = [{"key": f"d{row}", "tenant": row % 10, "v": vector} for row, vector in enumerate(DOCUMENTS.tolist())]
    client.insert("docs", rows)
    client.flush("docs")
    client.close()
    return f"milvus://{url.removeprefix('http://')}/docs"


@pytest.mark.slow
def test_a_collection_is_probed(collection):
    """Similarity and vectors are read from the server; filters are its expressions; a larger value finds nearly everything."""
    found = probe(f"{collection}/v", knob="ef=10,400", filter="tenant < {}", selectivity=[1, 0.1], sample=50, seconds=0)
    assert (found.similarity, found.documents) == ("cosine", 1000)
    assert [(point.filter.text, point.filter.documents) for point in found.points[1::2]] == [("", 1000), ("tenant < 1", 100)]
    assert [point.recall > 0.9 for point in found.points[1::2]] == [True, True]


def test_a_setting_that_milvus_does_not_know_is_named(collection):
    """The server takes it in silence; the probe says that it changes no answer."""
    found = probe(f"{collection}/v", knob=["ef=10", "eff=20,400"], sample=50, seconds=0)
    assert any("eff changes no answer" in line for line in [*found.warnings, *found.notes])


@pytest.mark.parametrize(
    ("place", "arguments", "status", "says"),
    [
        ("", [], 2, "name the collection and the field"),
        ("/none", [], 2, "has no dense vectors in 'none'; its fields: key, tenant, v"),
        ("none/v", [], 1, "does not exist"),
        ("/v", ["--filter", "tenant <"], 1, "unexpected end of expression"),
    ],
)
def test_a_mistake_is_one_line(collection, capsys, place, arguments, status, says):
    """Milvus' own message, in one line."""
    said = ended(capsys, status, "probe", f"{collection}{place}", "--seconds", "0", *arguments).err
    assert says in said
    assert "Traceback" not in said


def test_what_the_server_has_lost_is_named(url, tmp_path):
    """A collection that is gone is no index; where nobody listens there is one line; settings are obeyed or refused."""
    from pymilvus import MilvusClient

    Milvus(url).build(iter([DOCUMENTS]), tmp_path)
    client = MilvusClient(uri=url)
    for name in client.list_collections():
        if name.startswith("lexbench_"):
            client.drop_collection(name)
    client.close()
    with pytest.raises(MissingData, match=r"has 0 of the 1,000 documents of lexbench_.*: remove"):
        Milvus(url).open(tmp_path)
    with pytest.raises(CannotStart, match=r"milvus at http://127.0.0.1:9 does not answer \(.*\); is it running\?"):
        Milvus("http://127.0.0.1:9").build(iter([DOCUMENTS]), tmp_path)
    for settings in ({"index": "IVF"}, {"m": 8}, {"ef_search": 0}, {"url": "localhost"}):
        with pytest.raises(CommandError):
            Milvus(**settings)
