"""PostgreSQL with pgvector, started for real: the engine's contract, what happens when the server dies, and `probe`."""

import json
import threading
import time
from contextlib import suppress
from platform import node

import fruit
import numpy as np
import postgres
import pytest
from scipy import sparse
from tiny import answer, ended

from lexbench.engines import pgvector
from lexbench.engines.flat import Flat
from lexbench.engines.pgvector import Pgvector
from lexbench.errors import CannotStart, CommandError, LexbenchError, MissingData
from lexbench.probing.probe import probe
from lexbench.storage.artifact_folder import digest
from lexbench.testing import EngineContract
from lexbench.testing.engines import learned
from lexbench.types import Kind

DOCUMENTS = np.random.default_rng(1).normal(size=(3000, 16)).astype(np.float32)
QUERIES = np.random.default_rng(2).normal(size=(50, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def server():
    """Run a server for all tests of this file; those that kill it start it again."""
    with postgres.running() as running:
        yield running


class TestExact(EngineContract):
    """Without an index: dense and sparse vectors."""

    @pytest.fixture(params=[Kind.DENSE, Kind.SPARSE], ids=str)
    def engine(self, request, server):
        """Make the engine for one kind."""
        return Pgvector(server.url).for_kind(request.param)


@pytest.mark.slow
class TestHnsw(EngineContract):
    """With a graph: dense and sparse vectors."""

    @pytest.fixture(params=[Kind.DENSE, Kind.SPARSE], ids=str)
    def engine(self, request, server):
        """Make the engine for one kind."""
        return Pgvector(server.url, index="hnsw", ef_search=400).for_kind(request.param)


def found(engine, tmp_path, documents=DOCUMENTS, queries=QUERIES, k=10):
    """Build an index of two shards; return its hits and facts."""
    tmp_path.mkdir(exist_ok=True)
    half = documents.shape[0] // 2
    engine.build(iter([documents[:half], documents[half:]]), tmp_path)
    facts = json.loads((tmp_path / "table.json").read_text())
    return engine.open(tmp_path).search(queries, k), facts | {"bytes": int((tmp_path / "bytes_on_server").read_text())}


def flat(tmp_path, documents=DOCUMENTS, queries=QUERIES, k=10):
    """Return the hits of our own exact engine."""
    tmp_path.mkdir()
    Flat().build(iter([documents]), tmp_path)
    return Flat().open(tmp_path).search(queries, k)


def test_real_vectors_have_the_lists_of_flat(server, tmp_path):
    """Exact lists are those of `flat`; a graph with many candidates, and all lists of ivfflat, find them too."""
    expected = flat(tmp_path / "flat")
    every = (
        Pgvector(server.url),
        Pgvector(server.url, index="hnsw", ef_search=1000),
        Pgvector(server.url, index="ivfflat", lists=20, probes=20),
    )
    for made in every:
        hits, facts = found(made, tmp_path / made.index)
        shared = [len({*one} & {*other}) for one, other in zip(hits.docs.tolist(), expected.docs.tolist(), strict=True)]
        assert np.mean(shared) >= (10 if made.index != "hnsw" else 9.9)
        assert facts["bytes"] > DOCUMENTS.nbytes
    few, _ = found(Pgvector(server.url, index="ivfflat", lists=20, probes=1, iterative_scan="off"), tmp_path / "few")
    assert 0.2 < np.mean([np.isin(one, other).mean() for one, other in zip(expected.docs, few.docs, strict=True)]) < 0.9


def test_short_forms_have_the_scores_of_short_vectors(server, tmp_path):
    """Half-precision scores are products of float16 values; those of bits are products of signs: equal signs minus others."""
    hits, facts = found(Pgvector(server.url, storage="half"), tmp_path / "half")
    halves = QUERIES.astype(np.float16).astype(np.float32) @ DOCUMENTS.astype(np.float16).astype(np.float32).T
    np.testing.assert_allclose(hits.scores, -np.sort(-halves, axis=1)[:, :10], rtol=1e-4)
    signs, bits = found(Pgvector(server.url, storage="bit"), tmp_path / "bit")
    products = np.where(QUERIES > 0, 1, -1) @ np.where(DOCUMENTS > 0, 1, -1).T
    order = np.lexsort((np.broadcast_to(np.arange(3000), products.shape), -products), axis=1)[:, :10]
    assert signs.docs.tolist() == order.tolist()
    assert signs.scores.tolist() == np.take_along_axis(products, order, axis=1).tolist()
    assert bits["bytes"] < facts["bytes"]
    with pytest.raises(LexbenchError, match='too large for storage="half"'):
        found(Pgvector(server.url, storage="half"), tmp_path / "large", np.full((2, 4), 1e6, np.float32))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"index": "graph"}, "there is exact, hnsw, ivfflat"),
        ({"storage": "int8"}, "there is full, half, bit"),
        ({"ef_search": 100}, "does not use ef_search"),
        ({"index": "ivfflat", "m": 8}, "does not use m"),
        ({"index": "ivfflat", "iterative_scan": "strict_order"}, "lists are sorted anyway"),
        ({"index": "hnsw", "m": 0}, "numbers from 1 up"),
        ({"url": "http://localhost"}, "write it like"),
        ({"url": "postgresql://me:secret@localhost/db"}, "set PGPASSWORD"),
        ({"url": "postgresql://localhost/db?password=secret"}, "set PGPASSWORD"),
    ],
)
def test_an_impossible_setting_is_refused(settings, says):
    """Each setting is obeyed or refused by name."""
    with pytest.raises(CommandError, match=says):
        Pgvector(**settings)


def test_more_documents_than_a_graph_looks_at_are_refused(server, tmp_path):
    """ef_search=20 without an iterative scan cannot find 50 documents."""
    with pytest.raises(LexbenchError, match="finds at most ef_search=20 documents, and 50 are asked for"):
        found(Pgvector(server.url, index="hnsw", ef_search=20, iterative_scan="off"), tmp_path, k=50)
    assert (Pgvector(server.url, index="hnsw", ef_search=20).open(tmp_path).search(QUERIES, 50).docs >= 0).all()


def test_what_the_server_has_lost_is_named(server, tmp_path):
    """A table that lacks rows, or is gone, is no index; where nobody listens there is one line."""
    made = Pgvector(server.url)
    _, facts = found(made, tmp_path)
    with server.connect() as connection:
        connection.execute(f"DELETE FROM {facts['table']} WHERE id = 7")
        with pytest.raises(MissingData, match=r"has 2,999 of the 3,000 documents of lexbench_.*: remove"):
            made.open(tmp_path)
        connection.execute(f"DROP TABLE {facts['table']}")
    with pytest.raises(MissingData, match=r"has 0 of the 3,000 documents"):
        made.open(tmp_path)
    with pytest.raises(CannotStart, match=r"postgresql at 127.0.0.1:9/db does not answer \(.*\); is it running\?"):
        Pgvector("postgresql://127.0.0.1:9/db").build(iter([DOCUMENTS]), tmp_path)
    with pytest.raises(LexbenchError, match="2000 dimensions"):
        found(Pgvector(server.url, index="hnsw"), tmp_path, np.ones((4, 2100), np.float32))


def test_an_interrupted_build_goes_on_with_the_missing_blocks(server, tmp_path, monkeypatch):
    """After a stop in the third block two blocks are there. The second build sends the third, and one block that changed."""
    made = Pgvector(server.url)
    sent = []

    def packed(*arguments, honest=pgvector._packed):
        sent.append(arguments[1])
        if len(sent) == 3:
            raise KeyboardInterrupt
        return honest(*arguments)

    monkeypatch.setattr(pgvector, "_packed", packed)
    with pytest.raises(KeyboardInterrupt):
        made.build(iter([DOCUMENTS]), tmp_path)
    monkeypatch.undo()
    other = DOCUMENTS.copy()
    other[1500] = 9
    name = f"lexbench_{digest([node(), str(tmp_path.resolve())])}"
    written = f"SELECT id / 1000, array_agg(DISTINCT xmin::text) FROM {name} GROUP BY 1 ORDER BY 1"
    with server.connect() as connection:
        before = dict(connection.execute(written).fetchall())
        hits, _ = found(made, tmp_path, other)
        after = dict(connection.execute(written).fetchall())
    assert (list(before), list(after)) == ([0, 1], [0, 1, 2])
    assert before[0] == after[0]
    assert before[1] != after[1]
    assert np.array_equal(hits.docs, flat(tmp_path / "flat", other).docs)


def test_a_run_reports_the_size_on_the_server(server, store, tmp_path, capsys):
    """The size of the index is that of the table and its index on the server; the lists are those of csr."""
    path, vectors = fruit.write(tmp_path), fruit.write_vectors(tmp_path)
    systems = ["-r", f'there = {vectors}@pgvector(url="{server.url}")', "-r", f"here = {vectors}@csr"]
    there, here = answer(capsys, "run", "dataset", path, "--split", "train", *systems, "-m", "nDCG@10", "--json")["results"]
    with server.connect() as connection:
        (size,) = connection.execute(
            "SELECT pg_total_relation_size(oid) FROM pg_class WHERE relname ~ '^lexbench_[0-9a-f]*$' ORDER BY oid DESC LIMIT 1"
        ).fetchone()
    assert there["sizes"]["index"] == size
    assert there["per_query"] == here["per_query"]


# ---- a server that dies ----------------------------------------------------------------------------------------------------


@pytest.fixture
def mortal(server, monkeypatch):
    """Return the server, which the test may kill. Waits are short. After the test the server answers again."""
    monkeypatch.setattr(pgvector, "_WAITS", (0.05, *[0.2] * 40))
    yield server
    server.answering()


def killed(server, after, restart=True):
    """Kill the server after some seconds, and start it again, in the background."""

    def act():
        time.sleep(after)
        server.kill()
        if restart:
            time.sleep(0.1)
            server.start()

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def survived(server, tmp_path, delay, moment, index):
    """Kill the server while it loads, builds or searches; return whether the hits are right."""
    documents = np.random.default_rng(3).normal(size=(2400, 16)).astype(np.float32)
    queries = np.random.default_rng(4).normal(size=(200, 16)).astype(np.float32)
    made = Pgvector(server.url, index=index, **({"ef_search": 1000} if index == "hnsw" else {}))
    tmp_path.mkdir(exist_ok=True)
    parts = np.array_split(documents, 6)

    def shards():
        for number, part in enumerate(parts):
            if moment == "load" and number == 2:
                shards.thread = killed(server, delay)
            yield part
        if moment == "build":
            shards.thread = killed(server, delay)

    made.build(shards(), tmp_path)
    if moment != "search":
        shards.thread.join()
    opened = made.open(tmp_path)
    if moment == "search":
        shards.thread = killed(server, delay)
    hits = opened.search(queries, 10)
    shards.thread.join()
    exact = np.argsort(-(queries @ documents.T), axis=1)[:, :10]
    same = np.mean([np.isin(one, other).mean() for one, other in zip(exact, hits.docs, strict=True)])
    products = np.take_along_axis(queries @ documents.T, hits.docs, axis=1)
    np.testing.assert_allclose(hits.scores, products, rtol=1e-4, atol=1e-4)
    assert same >= (1 if index == "exact" else 0.98)


@pytest.mark.parametrize("moment", ["load", *(pytest.param(one, marks=pytest.mark.slow) for one in ("build", "search"))])
def test_a_server_that_is_killed_and_comes_back_changes_no_answer(mortal, tmp_path, moment):
    """SIGKILL while loading, indexing or searching: the work goes on, and lists and scores are right."""
    survived(mortal, tmp_path, 0.02, moment, "hnsw" if moment == "build" else "exact")


def test_a_server_that_stays_away_is_one_line(mortal, tmp_path, monkeypatch):
    """After the last attempt the line says that the server does not answer. A second start continues."""
    monkeypatch.setattr(pgvector, "_WAITS", (0.01, 0.01))
    made = Pgvector(mortal.url)

    def shards():
        yield DOCUMENTS[:1000]
        mortal.kill()
        yield DOCUMENTS[1000:]

    with pytest.raises(CannotStart, match=r"postgresql at 127.0.0.1:\d+/postgres does not answer \(.*\); is it running\?"):
        made.build(shards(), tmp_path)
    mortal.start()
    hits, _ = found(made, tmp_path)
    assert np.array_equal(hits.docs, flat(tmp_path / "flat").docs)


@pytest.mark.slow  # it fills a disk
def test_a_full_disk_is_one_line(tmp_path):
    """On a small disk the load ends with what to do. With more room the same command continues."""
    big = np.random.default_rng(1).normal(size=(4000, 1000)).astype(np.float32)
    with postgres.running(disk="120m") as server:
        made = Pgvector(server.url)
        with pytest.raises(CannotStart, match=r"its disk is full \(.*\); make room and give the command again"):
            made.build(iter([big] * 10), tmp_path)
        server.mount("400m", "remount")
        hits, _ = found(made, tmp_path, big, big[:5], 1)
    assert hits.docs[:, 0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("cut", [3000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_a_network_that_is_cut_and_slow_changes_no_answer(mortal, tmp_path, cut):
    """A proxy delays all bytes and cuts each of the first three connections after some bytes. The work goes on."""
    with postgres.proxy(mortal.port, cut=cut, times=3, delay=0.001) as port:
        made = Pgvector(mortal.url.replace(str(mortal.port), str(port)))
        hits, _ = found(made, tmp_path)
    assert np.array_equal(hits.docs, flat(tmp_path / "flat").docs)


def test_two_clients_share_a_server(server, tmp_path):
    """Two clients that build and search at once, one of them the same table as a third, have right lists."""
    errors, lists = [], {}

    def act(name, documents, folder):
        with suppress(Exception):
            lists[name] = found(Pgvector(server.url), tmp_path / folder, documents)[0].docs.tolist()
            return
        errors.append(name)

    work = [("a", DOCUMENTS, "a"), ("b", DOCUMENTS[::-1].copy(), "b"), ("c", DOCUMENTS, "a")]
    threads = [threading.Thread(target=act, args=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = flat(tmp_path / "flat").docs
    assert errors == []
    assert lists["a"] == lists["c"] == expected.tolist()
    assert lists["b"] == (2999 - expected).tolist()


# ---- probe -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(server):
    """Make tables as users do: dense with tenants and a graph, sparse with a graph, half, bit, and one without an index."""
    weights = sparse.csr_array(learned(1000).astype(np.float32))
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("CREATE TABLE docs (id text, tenant int, word text, v vector(16), h halfvec(16), b bit(16))")
        with connection.cursor().copy("COPY docs FROM STDIN") as copy:
            for row, vector in enumerate(DOCUMENTS):
                bits = "".join("01"[int(value > 0)] for value in vector)
                copy.write_row(
                    (f"d{row}", row % 100, "odd" if row % 2 else "100%", str(vector.tolist()), str(vector.tolist()), bits)
                )
        connection.execute("CREATE INDEX docs_graph ON docs USING hnsw (v vector_cosine_ops)")
        connection.execute("CREATE INDEX ON docs USING ivfflat (h halfvec_l2_ops) WITH (lists = 20)")
        connection.execute("CREATE INDEX ON docs USING hnsw (b bit_hamming_ops)")
        connection.execute("CREATE TABLE terms (name int, v sparsevec(1500))")
        with connection.cursor().copy("COPY terms FROM STDIN") as copy:
            for row, text in enumerate(pgvector._texts(weights, "sparsevec")):
                copy.write_row((row, text or "{}/1500"))
        connection.execute("CREATE INDEX ON terms USING hnsw (v sparsevec_ip_ops)")
        connection.execute("CREATE TABLE plain (id int, v vector(2))")
        connection.execute("ANALYZE")
    return server.address


@pytest.mark.slow
def test_filters_give_short_answers_and_the_probe_says_so(tables):
    """A graph filters after its search. Counted by hand for one query; an iterative scan fills the lists."""
    knobs = ["ef_search=40", "iterative_scan=off,strict_order,relaxed_order", "enable_seqscan=off"]
    seen = probe(
        f"pgvector://{tables}/docs/v", knob=knobs, filter="tenant < {}", selectivity=[1, 0.1, 0.01], sample=100, seconds=0
    )
    points = {(point.filter.text, point.settings["iterative_scan"]): point for point in seen.points}

    assert [(point.filter.text, point.filter.documents) for point in seen.points[::3]] == [
        ("", 3000), ("tenant < 10", 300), ("tenant < 1", 30),
    ]  # fmt: skip
    assert points["", "off"].recall > 0.97
    assert points["tenant < 10", "off"].recall < 0.7
    assert points["tenant < 1", "off"].recall < 0.2
    assert points["tenant < 1", "off"].short == 100
    assert points["tenant < 1", "off"].length <= 1
    for scan in ("strict_order", "relaxed_order"):
        assert points["tenant < 10", scan].recall > 0.9
        assert points["tenant < 1", scan].short == 0
    assert points["", "off"].plan == "Index Scan using docs_graph"
    assert seen.warnings[0].startswith(("9", "100 of 100 answers are shorter"))
    assert "--knob iterative_scan=off,strict_order,relaxed_order" in seen.warnings[-1]
    assert seen.advice.startswith("Set ef_search=40 iterative_scan=")


def test_a_filter_is_sql(tables):
    """Quotes, percent signs and functions of SQL work; exact answers are those of the rows that pass."""
    seen = probe(f"pgvector://{tables}/docs/v", knob="enable_indexscan=off", filter="word = '100%' AND tenant < 50", seconds=0)
    assert (seen.points[0].filter.documents, seen.points[0].recall, seen.points[0].plan) == (750, 1.0, "Seq Scan")
    picked = probe(
        f"pgvector://{tables}/docs/v", knob="enable_indexscan=off", filter="word = '{}'", selectivity=[0.4], seconds=0
    )
    assert picked.points[0].filter.documents == 1500


@pytest.mark.parametrize(
    ("column", "similarity", "knob", "least"),
    [
        ("docs/v", "cosine", "ef_search", 0.97),
        ("docs/h", "l2", "probes", 0.9),
        ("docs/b", "dot", "ef_search", 0.8),
        ("terms/v?id=name", "dot", "ef_search", 0.9),
    ],
)
def test_every_kind_of_column_is_probed(tables, column, similarity, knob, least):
    """Type, index and similarity are read from the server; with the largest value nearly all is found."""
    seen = probe(f"pgvector://{tables}/{column}", sample=50, seconds=0)
    assert seen.similarity == similarity
    assert list(seen.points[0].settings) == [knob]
    assert seen.points[-1].recall >= least
    assert seen.points[0].recall <= seen.points[-1].recall


@pytest.mark.slow
def test_a_load_of_many_connections(tables, capsys):
    """At an offered load each setting has a latency, and the server is not asked for more connections than it has."""
    words = ["--knob", "ef_search=20,320", "--load", "300", "--seconds", "1", "--sample", "50", "--json"]
    seen = answer(capsys, "probe", f"pgvector://{tables}/docs/v", *words)
    assert [point["load"]["p50"] > 0 for point in seen["points"]] == [True, True]


@pytest.mark.parametrize(
    ("place", "arguments", "status", "says"),
    [
        ("docs/v", ["--knob", "ef_serch=40"], 1, "unrecognized configuration parameter"),
        ("docs/v", ["--knob", "hnsw.ef_serch=40"], 1, "invalid configuration parameter"),
        ("docs/v", ["--knob", "ef_search=many"], 1, "hnsw.ef_search"),
        ("docs/v", ["--filter", "tenant ="], 1, "syntax error"),
        ("docs/v", ["--filter", "DELETE"], 1, "column"),
        ("docs/v", ["--filter", "x < {}", "--selectivity", "0.1"], 1, "does not exist"),
        ("docs/x", [], 2, "has no column docs.x"),
        ("none/v", [], 2, "has no column none.v"),
        ("docs/word", [], 2, "has the type text"),
        ("docs", [], 2, "name the database, the table and the column"),
        ("docs/v?port=1", [], 2, "not port"),
        ("plain/v", [], 2, "say how it is searched"),
        ("plain/v?similarity=dot", [], 3, "the index has no vectors"),
    ],
)
def test_a_mistake_is_one_line(tables, capsys, place, arguments, status, says):
    """PostgreSQL's own message, in one line."""
    said = ended(capsys, status, "probe", f"pgvector://{tables}/{place}", "--seconds", "0", *arguments).err
    assert says in said
    assert "Traceback" not in said


def test_a_probe_writes_nothing(tables, server):
    """A filter that would change the table is refused by the server."""
    with pytest.raises(LexbenchError, match=r"read-only transaction|cannot execute"):
        probe(
            f"pgvector://{tables}/docs/v",
            filter="lo_creat(-1) > 0",
            seconds=0,
        )
    with server.connect() as connection:
        assert connection.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchone() == (0,)
