"""`lexbench probe`: recall of exact, ties and latency of an index that somebody else built."""

import json
import sys
import threading

import numpy as np
import pytest
from servers import serving
from tiny import answer, ended

from lexbench.probing.probe import Point, advise, exact_answers, offered, recall, sample

DOCUMENTS = np.random.default_rng(7).normal(size=(300, 8)).astype(np.float32)
QUERIES = np.random.default_rng(8).normal(size=(20, 8)).astype(np.float32)
PROGRAM = """
import json, sys
import numpy as np
documents = np.load(sys.argv[1])
for line in sys.stdin:
    query = json.loads(line)
    scores = (documents @ np.array(query["vector"], np.float32))[: query.get("reads", len(documents))]
    best = np.argsort(-scores)[: query["k"]]
    print(json.dumps({"docs": [[str(row), float(scores[row])] for row in best]}), flush=True)
"""


def best(vector, k, reads=300):
    """Return ids and scores of the best of the first *reads* documents."""
    scores = DOCUMENTS[:reads] @ np.array(vector, np.float32)
    return [(str(row), float(scores[row])) for row in np.argsort(-scores)[:k]]


def searched(_method, path, content, _headers):
    """Answer by any of three protocols; search the first `reads` documents only."""
    body = json.loads(content or b"{}")
    if path == "/search":
        found = {"docs": best(body["vector"], body["k"], body.get("reads", 300))}
    elif path == "/idx/_mapping":
        field = {"type": "knn_vector", "method": {"space_type": "innerproduct"}}
        found = {"idx": {"mappings": {"properties": {"v": field}}}}
    elif path == "/idx/_search":
        near = body["query"]["knn"]["v"]
        hits = best(near["vector"], near["k"], near["method_parameters"]["ef_search"])
        found = {"hits": {"hits": [{"_id": name} for name, _ in hits]}}
    else:
        start = 0 if "scroll=" in path else 200
        rows = range(start, start + 200) if body.get("scroll_id") != "end" else ()
        hits = [{"_id": str(row), "_source": {"v": DOCUMENTS[row].tolist()}} for row in rows if row < 300]
        found = {"hits": {"hits": hits}, "_scroll_id": "next" if not start else "end"}
    return 200, found, {}


@pytest.fixture
def address():
    """Serve the documents; return host and port."""
    with serving(searched) as server:
        yield server.url.removeprefix("http://")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Write the vectors and a program that searches them."""
    monkeypatch.chdir(tmp_path)
    np.save("documents.npy", DOCUMENTS)
    np.save("queries.npy", QUERIES)
    (tmp_path / "search.py").write_text(PROGRAM)
    (tmp_path / "ids").write_text(" ".join(f"d{row}" for row in range(300)))


def probed(capsys, *arguments):
    """Return the JSON of a probe."""
    return answer(capsys, "probe", *arguments, "--sample", "20", "--json")


def share(reads):
    """Return by brute force which share of the exact top 10 is among the first *reads* documents."""
    top = np.argsort(-(QUERIES @ DOCUMENTS.T), axis=1)[:, :10]
    return (top < reads).mean()


def test_recall_is_the_share_of_the_exact_top_k(place, address, capsys):
    """A server, a program and OpenSearch that search the first 150 documents find the share that brute force says."""
    given = ["--vectors", "documents.npy", "--queries", "queries.npy"]
    http = probed(capsys, f"http://{address}/search", *given, "--knob", "reads=150,300", "--seconds", ".4", "--load", "50")
    program = probed(capsys, f"{sys.executable} search.py documents.npy", *given, "--knob", "reads=150,300", "--seconds", "0")
    knob = ["--knob", "ef_search=150,300", "--seconds", "0"]
    knn = probed(capsys, f"opensearch://{address}/idx/v", "--queries", "queries.npy", *knob)

    for found in (http, program, knn):
        assert [point["recall"] for point in found["points"]] == pytest.approx([share(150), 1])
        assert (found["documents"], found["queries"], found["ties"]) == (300, 20, 0)
    assert knn["advice"].startswith("Set ef_search to 300: it finds 100.0% of the exact top 10")
    assert http["points"][0]["load"]["p50"] > 0
    assert program["points"][0]["load"] is None


def test_qdrant_in_this_process(place, tmp_path, capsys):
    """Vectors and similarity are read from Qdrant; the sampled queries are documents, which are left out of their lists."""
    client = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    opened_client = client.QdrantClient(path=str(tmp_path / "qdrant"))
    vectors = client.models.VectorParams(size=8, distance=client.models.Distance.COSINE)
    opened_client.create_collection("docs", vectors_config=vectors)
    points = [client.models.PointStruct(id=row, vector=vector.tolist()) for row, vector in enumerate(DOCUMENTS)]
    opened_client.upsert("docs", points)
    opened_client.close()
    found = probed(capsys, f"qdrant://{tmp_path}/qdrant/docs", "--seconds", "0")

    assert (found["similarity"], found["points"][0]["recall"], found["points"][0]["value"]) == ("cosine", 1.0, None)
    assert "vectors of documents" in found["notes"][0]
    assert "none" in ended(capsys, 3, "probe", f"qdrant://{tmp_path}/qdrant/none").err


@pytest.mark.parametrize("similarity", ["dot", "cosine", "l2"])
def test_exact_search_equals_brute_force(similarity):
    """The best documents, read in blocks, are those of all scores at once; the query's own document is left out."""
    blocks = [([str(row) for row in range(at, at + 100)], DOCUMENTS[at : at + 100]) for at in (0, 100, 200)]
    names, queries = sample(blocks, 5)
    exact, documents = exact_answers(blocks, queries, 10, similarity, names)
    scores = {
        "dot": queries @ DOCUMENTS.T,
        "cosine": queries @ DOCUMENTS.T / np.linalg.norm(DOCUMENTS, axis=1),
        "l2": -((queries[:, None] - DOCUMENTS) ** 2).sum(2),
    }[similarity]

    assert documents == 300
    for name, one, row in zip(names, exact, scores, strict=True):
        best = [str(at) for at in np.argsort(-row) if str(at) != name]
        assert name not in one.scores
        assert (recall(one, best[:10]), recall(one, best[1:11]), recall(one, [])) == (1, 0.9, 0)


def test_any_document_of_a_tie_counts():
    """By hand: scores 3, 2, 2, 1 and k = 2: either document of score 2 is right, the query counts as tied, never above 1."""
    documents = [(["a", "b", "c", "d"], np.array([[3], [2], [2], [1]], np.float32))]
    exact, _ = exact_answers(documents, np.ones((1, 1), np.float32), 2, "dot", None)

    assert exact[0].ties
    assert [recall(exact[0], found) for found in (["a", "c"], ["a", "b", "c"], ["a", "d"], ["b", "b"])] == [1, 1, 0.5, 0.5]


def test_a_latency_counts_from_when_the_query_was_due():
    """One query of 20 ms at a time, offered 200 times a second: the queue grows, and so do the latencies."""
    event = threading.Event()
    taken, rate = offered(lambda _: event.wait(0.02), 200, 0.2, 1)

    assert taken[-1] > 10 * 20e6
    assert rate < 75


def point(value, share, alone, achieved=100.0, low=None):
    """Make a point."""
    return Point(value=value, recall=share, recall_range=(low or share, share), alone=alone, load=None, achieved=achieved)


@pytest.mark.parametrize(
    ("points", "begins"),
    [
        ([point(16, 0.9, 0.001), point(64, 0.97, 0.002), point(256, 0.999, 0.004)], "Set ef to 64: it finds 97.0% of"),
        ([point(16, 0.9, 0.001), point(64, 0.94, 0.002)], "No value of ef finds 95% of the exact top 10: the best is 94.0%"),
        ([point(16, 0.99, 0.001, achieved=10)], "No value keeps up with 100 queries/s"),
        ([point(16, 0.96, 0.001), point(64, 0.99, 0.002, achieved=10)], "Set ef to 16"),
    ],
)  # fmt: skip
def test_the_advice_is_the_smallest_value_that_suffices(points, begins):
    """It names the smallest value with the wanted recall among those that keep up, and what the best one costs more."""
    assert advise(points, "ef", 10, 0.95, 100).startswith(begins)
    assert "--sample" in advise([point(16, 0.96, 0.001, low=0.94)], "ef", 10, 0.95, 100)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["ftp://x"], 2, "begin with qdrant://"),
        (["opensearch://127.0.0.1:9/x"], 2, "name the index and the field"),
        (["http://127.0.0.1:9/x"], 2, "--vectors FILE.npy"),
        (["http://127.0.0.1:9/x", "--vectors", "documents.npy"], 3, "does not answer"),
        (["no-such-program", "--vectors", "documents.npy"], 3, "does not start"),
        (["cat", "--vectors", "documents.npy"], 1, 'it must write {"docs":'),
        (["cat", "--vectors", "documents.npy", "--knob", "ef"], 2, "write a name and whole numbers"),
        (["cat", "--vectors", "search.py"], 2, "not a .npy file"),
        (["cat", "--vectors", "documents.npy", "--ids", "search.py"], 2, "ids, and documents.npy has more vectors"),
        (["true", "--vectors", "documents.npy"], 1, "ended with exit code 0"),
        ([f"{sys.executable} search.py documents.npy", "--vectors", "documents.npy", "--ids", "ids"], 2, "like 'd"),
    ],
)
def test_a_mistake_gets_one_line(place, capsys, arguments, status, says):
    """Each mistake has one line that says what to type."""
    assert says in ended(capsys, status, "probe", *arguments).err
