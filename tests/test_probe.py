"""`lexbench probe`: recall of exact, ties and latency of an index that somebody else built."""

import json
import sys
import threading

import numpy as np
import pytest
from scipy import sparse
from servers import serving
from tiny import answer, ended

from lexbench.errors import CommandError
from lexbench.outside import http_client
from lexbench.probing.answer import FilterShare, ProbedPoint
from lexbench.probing.exact import exact_answers, recall, sample
from lexbench.probing.probe import advise, offered, probe

DOCUMENTS = np.random.default_rng(7).normal(size=(300, 8)).astype(np.float32)
TERMS = sparse.csr_array(
    np.random.default_rng(9).integers(0, 3, (300, 12)) * (np.random.default_rng(10).random((300, 12)) < 0.2), dtype=np.float32
)
QUERIES = np.random.default_rng(8).normal(size=(20, 8)).astype(np.float32)
HALF = """
import json, sys
import numpy as np
documents = np.load(sys.argv[1])
for line in sys.stdin:
    query = json.loads(line)
    scores = (documents @ np.array(query["vector"], np.float32))[: query.get("reads", len(documents))]
    best = np.argsort(-scores)[: query["k"]]
    print(json.dumps({"docs": [[str(row), float(scores[row])] for row in best]}), flush=True)
"""
# Like a graph, it looks at the best `reads` documents and filters them afterwards: row % 100 is the tenant.
PROGRAM = """
import json, sys
import numpy as np
documents = np.load(sys.argv[1])
for line in sys.stdin:
    query = json.loads(line)
    scores = documents @ np.array(query["vector"], np.float32)
    below = int(query.get("filter", "tenant < 100").split()[-1])
    best = [row for row in np.argsort(-scores)[: query.get("reads", 300)].tolist() if row % 100 < below]
    print(json.dumps({"docs": [] if "mute" in sys.argv else [[str(row), 0] for row in best[: query["k"]]]}), flush=True)
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
    sparse.save_npz("terms.npz", TERMS)
    (tmp_path / "half.py").write_text(HALF)
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
    program = probed(capsys, f"{sys.executable} half.py documents.npy", *given, "--knob", "reads=150,300", "--seconds", "0")
    knob = ["--knob", "ef_search=150,300", "--seconds", "0"]
    knn = probed(capsys, f"opensearch://{address}/idx/v", "--queries", "queries.npy", *knob)

    for found in (http, program, knn):
        assert [point["recall"] for point in found["points"]] == pytest.approx([share(150), 1])
        assert (found["documents"], found["queries"], found["ties"]) == (300, 20, 0)
    assert knn["advice"].startswith("Set ef_search=300: it finds 100.0% of the exact top 10")
    assert http["points"][0]["load"]["p50"] > 0
    assert program["points"][0]["load"] is None


@pytest.mark.slow
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

    assert (found["similarity"], found["points"][0]["recall"], found["points"][0]["settings"]) == ("cosine", 1.0, {})
    assert "vectors of documents" in found["notes"][0]
    assert "none" in ended(capsys, 3, "probe", f"qdrant://{tmp_path}/qdrant/none").err


def filtered(place, *, below=(100, 10), **options):
    """Return a probe of the program with filters, of which tenants below these numbers pass."""
    for number in below:
        (place / f"below{number}").write_text(" ".join(str(row) for row in range(300) if row % 100 < number))
    options = {"knob": "reads=30,300", "queries": "queries.npy", "sample": 20, **options}
    return probe(
        f"{sys.executable} search.py documents.npy", k=10, vectors="documents.npy", seconds=0,
        filter=[f"tenant < {number}" for number in below], passing=[f"below{number}" for number in below], **options,
    )  # fmt: skip


def test_short_answers_under_a_filter_are_counted_and_named_first(place, tmp_path):
    """Expected by brute force: of the best 30 documents those that pass are found; with 300 all of them.

    A program that filters after its search gives short answers. The warning says how many and under which filter.
    """
    found = filtered(tmp_path)
    order = np.argsort(-(QUERIES @ DOCUMENTS.T), axis=1)
    passing = [[[row for row in some if row % 100 < 10] for some in order[:, :reads]] for reads in (30, 300)]
    shares = [np.mean([len(some[:10]) / 10 for some in one]) for one in passing]

    assert [point.recall for point in found.points] == pytest.approx([1, 1, *shares])
    assert [point.short for point in found.points] == [0, 0, sum(len(some) < 10 for some in passing[0]), 0]
    assert found.points[2].short == 20
    assert [(point.filter.documents, point.filter.share) for point in found.points[::2]] == [(300, 1.0), (30, 0.1)]
    where = "filter 'tenant < 10', which 10.00% of the documents pass, reads=30"
    length = found.points[2].length
    assert found.warnings == [f"20 of 20 answers are shorter than they should be (median {length:g} of 10): {where}"]
    assert found.advice.startswith("Set reads=300: it finds at least 100.0% of the exact top 10")
    (table,) = found.tables()
    assert table.header[:2] == ("passes", "reads")
    assert [row[:2] for row in table.rows] == [("100.00%", "30"), ("100.00%", "300"), ("10.00%", "30"), ("10.00%", "300")]


def test_a_setting_that_changes_no_answer_is_named(place, tmp_path):
    """The program does not read `raeds`. If it finds everything anyway, nobody can know, and the warning says so."""
    unread = filtered(tmp_path, knob=["reads=30", "raeds=40,80"], below=(10,)).warnings
    assert "raeds changes no answer: is its name right, and does the server read it?" in unread
    complete = filtered(tmp_path, knob="raeds=30,300", below=(100,))
    assert complete.notes == [
        "raeds changes no answer: every value finds everything, so nobody knows whether the server reads it"
    ]
    assert not complete.warnings
    assert not any("changes no" in line for line in filtered(tmp_path, knob="reads=5,300", below=(100,)).warnings)


def test_a_dead_server_gets_no_verdict(place, tmp_path, capsys):
    """Empty answers are an error, and one answer to all queries a warning."""
    said = ended(capsys, 1, "probe", f"{sys.executable} search.py documents.npy mute", "--vectors", "documents.npy").err
    assert "every answer is empty: nothing was measured" in said
    with serving(lambda *_: (200, {"docs": [[str(row), 1] for row in range(10)]}, {})) as server:
        found = probe(server.url, vectors="documents.npy", queries="queries.npy", seconds=0)
    assert found.warnings == ["20 of 20 queries get one and the same answer: does the server read the query?"]


def test_sparse_vectors_are_searched_exactly():
    """The best documents by products of whole numbers; documents without a common term do not match."""
    blocks = [([str(row) for row in range(at, at + 100)], TERMS[at : at + 100]) for at in (0, 100, 200)]
    ((answers, some), documents) = exact_answers(blocks, TERMS[:20], 10, "dot", filters=(None, {"7", "8", "250"}))
    products = (TERMS[:20] @ TERMS.T).toarray()

    assert documents == 300
    for exact, under, row in zip(answers, some, products, strict=True):
        best = [str(at) for at in np.lexsort((np.arange(300), -row)) if row[at] > 0][:10]
        assert exact.k == len(best)
        assert recall(exact, best) == 1
        assert set(under.scores) == {name for name in ("7", "8", "250") if row[int(name)] > 0}


def test_selectivity_fills_in_values_that_pass_about_the_wanted_shares(tmp_path):
    """By hand: tenants 0 to 9 have 10 of 100 points each, so `< 1` passes a tenth; a share of 1 is no filter."""
    client = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed; pip install 'lexbench[qdrant]'")
    local, models = client.QdrantClient(path=str(tmp_path)), client.models
    local.create_collection("docs", vectors_config=models.VectorParams(size=8, distance=models.Distance.DOT))
    payloads = [{"tenant": row % 10, "word": "odd" if row % 2 else "even"} for row in range(100)]
    local.upload_collection("docs", DOCUMENTS[:100], payloads, ids=list(range(100)))
    local.close()
    address = f"qdrant://{tmp_path}/docs"
    found = probe(address, filter="tenant < {}", selectivity=[1, 0.1, 0.5], seconds=0)

    assert [(point.filter.text, point.filter.documents) for point in found.points] == [
        ("", 100), ("tenant < 1", 10), ("tenant < 5", 50),
    ]  # fmt: skip
    assert [point.recall for point in found.points] == [1, 1, 1]
    both = probe(
        address, filter=["word = odd and tenant != 3", '{"must_not": [{"key": "word", "match": {"value": "odd"}}]}'], seconds=0
    )
    assert [point.filter.documents for point in both.points] == [40, 50]
    with pytest.raises(CommandError, match=r"write FIELD = VALUE"):
        probe(address, filter="tenant LIKE 3", seconds=0)


@pytest.mark.parametrize("similarity", ["dot", "cosine", "l2"])
def test_exact_search_equals_brute_force(similarity):
    """The best documents, read in blocks, are those of all scores at once; the query's own document is left out."""
    blocks = [([str(row) for row in range(at, at + 100)], DOCUMENTS[at : at + 100]) for at in (0, 100, 200)]
    names, queries = sample(blocks, 5)
    (exact,), documents = exact_answers(blocks, queries, 10, similarity, own=names)
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
    (exact,), _ = exact_answers(documents, np.ones((1, 1), np.float32), 2, "dot")

    assert exact[0].ties
    assert [recall(exact[0], found) for found in (["a", "c"], ["a", "b", "c"], ["a", "d"], ["b", "b"])] == [1, 1, 0.5, 0.5]


def test_a_latency_counts_from_when_the_query_was_due():
    """One query of 20 ms at a time, offered 200 times a second: the queue grows, and so do the latencies."""
    event = threading.Event()
    taken, rate = offered(lambda _: event.wait(0.02), 200, 0.2, 1)

    assert taken[-1] > 10 * 20e6
    assert rate < 75


EVERY = FilterShare(text="", documents=300, share=1.0)
NONE = "No setting finds 95% of the exact top 10: the best finds"
SOME = FilterShare(text="tenant < 1", documents=3, share=0.01)


def point(value, share, alone, achieved=100.0, low=None, where=EVERY, short=0):
    """Make a point."""
    settings = {"ef": value} if not isinstance(value, dict) else value
    return ProbedPoint(
        settings=settings, filter=where, recall=share, recall_range=(low or share, share), short=short, length=10, alone=alone,
        load=None, achieved=achieved, plan="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("points", "begins"),
    [
        ([point(16, 0.9, 0.001), point(64, 0.97, 0.002), point(256, 0.999, 0.004)], "Set ef=64: it finds 97.0% of"),
        ([point(16, 0.9, 0.001), point(64, 0.94, 0.002)], f"{NONE} 94.0% (ef=64). Try larger"),
        ([point(16, 0.99, 0.001, achieved=10)], "No setting keeps up with 100 queries/s"),
        ([point(16, 0.96, 0.001), point(64, 0.99, 0.002, achieved=10)], "Set ef=16"),
        ([point({"scan": "slow"}, 0.99, 0.004), point({"scan": "fast"}, 0.96, 0.002)], "Set scan=fast: it finds 96.0% of"),
        ([point(16, 0.99, 0.001), point(16, 0.4, 0.001, where=SOME, short=9)], f"{NONE} 40.0% under"),
        ([point(16, 0.99, 0.001), point(16, 0.96, 0.001, where=SOME)], "Set ef=16: it finds at least 96.0% of"),
    ],
)  # fmt: skip
def test_the_advice_is_the_smallest_value_that_suffices(points, begins):
    """It names the smallest value with the wanted recall among those that keep up, and what the best one costs more."""
    assert advise(points, 10, 0.95, 100).startswith(begins)
    assert "--sample" in advise([point(16, 0.96, 0.001, low=0.94)], 10, 0.95, 100)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["ftp://x"], 2, "qdrant://"),
        (["http://me:secret@127.0.0.1:9/x"], 2, "no name and no key"),
        (["opensearch://127.0.0.1:9/x"], 2, "name the index and the field"),
        (["http://127.0.0.1:9/x"], 2, "--vectors FILE.npy"),
        (["http://127.0.0.1:9/x", "--vectors", "documents.npy"], 3, "does not answer"),
        (["no-such-program", "--vectors", "documents.npy"], 3, "does not start"),
        (["cat", "--vectors", "documents.npy"], 1, 'it must write {"docs":'),
        (["cat", "--vectors", "documents.npy", "--knob", "ef"], 2, "write each setting once, with its values"),
        (["cat", "--vectors", "documents.npy", "--selectivity", "1,x"], 2, "shares of the documents"),
        (["cat", "--vectors", "documents.npy", "--selectivity", "0.1"], 2, "need a filter"),
        (["cat", "--vectors", "documents.npy", "--filter", "a = {}"], 2, "say which shares"),
        (["cat", "--vectors", "documents.npy", "--filter", "a = {}", "--selectivity", "0.1"], 2, "does not count values"),
        (["cat", "--vectors", "documents.npy", "--filter", "a = 1"], 2, "--passing FILE"),
        (
            ["cat", "--vectors", "documents.npy", "--queries", "terms.npz"],
            2,
            "queries are sparse vectors, and documents are dense",
        ),
        (["cat", "--vectors", "search.py"], 2, "not a .npy or .npz file"),
        (["cat", "--vectors", "documents.npy", "--ids", "search.py"], 2, "ids, and documents.npy has more vectors"),
        (["true", "--vectors", "documents.npy"], 1, "ended with exit code 0"),
        ([f"{sys.executable} search.py documents.npy", "--vectors", "documents.npy", "--ids", "ids"], 2, "like 'd"),
    ],
)
def test_a_mistake_gets_one_line(place, capsys, monkeypatch, arguments, status, says):
    """Each mistake has one line that says what to type."""
    monkeypatch.setattr(http_client, "_FIRST_WAIT", 0.001)
    assert says in ended(capsys, status, "probe", *arguments).err
