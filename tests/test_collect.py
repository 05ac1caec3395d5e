"""`lexbench collect` and `judge page`: from a folder of texts to a collection that other commands use."""

import json
import re
import shutil
import socket
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager

import pytest
import tiny
from model_server import ModelServer
from tiny import answer, ended

from lexbench.cli import code
from lexbench.collecting.collect import Collected
from lexbench.collecting.collection import Collection, CollectionFacts, _read_queries
from lexbench.collecting.documents import read_documents
from lexbench.collecting.made_queries import COPIED, REAL, leak, made_queries
from lexbench.collecting.page import JudgingPage, JudgingSession, PageServer, _Handler
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.datasets.text_files import Text
from lexbench.errors import CommandError, InvalidFile
from lexbench.runner.judging import Agreement, grade_agreement

FILES = {
    "install.md": "# Install it\n\nPut the maker on a flat table. Plug it in.\n\n## Where to put it\n\nNear water.",
    "clean.txt": "Cleaning\n========\n\nHow do I clean the pan? Wash the pan with warm water. Dry the pan well.\n",
    "yeast.rst": "*****\nYeast\n*****\n\nDry yeast keeps for a year in a dry place. Fresh yeast keeps for two weeks.\n",
    "a b/dough.html": "<title>no</title><h1>Dough that is too wet</h1><p>Add flour to wet dough.</p><script>no</script>",
    "plain notes.txt": "The dough needs warm water and yeast, and a warm place for an hour.",
    ".hidden.txt": "no",
    "picture.png": "no",
}


@pytest.fixture
def place(store, tmp_path):
    """Write a folder of five texts and two files that are none."""
    tiny.write_files(tmp_path / "docs", FILES)
    (tmp_path / "asked.txt").write_text("wet dough\nclean the pan\nkeep yeast\n")
    return tmp_path


def collect(*more):
    """Return the command."""
    return ["collect", "docs", "-r", "bm25", "-r", "bm25(k1=2.0)", "-k", "3", *more]


def test_a_folder_of_texts_has_one_document_per_file(place):
    """The title is the first heading or the file's name; headings are paragraphs; rules, scripts, other files are left out."""
    found = {text.text_id: text for text in read_documents(place / "docs")}

    assert {name: text.title for name, text in found.items()} == {
        "a_b/dough.html": "Dough that is too wet", "clean.txt": "Cleaning", "install.md": "Install it",
        "plain_notes.txt": "plain notes", "yeast.rst": "Yeast",
    }  # fmt: skip
    assert found["install.md"].text == "Put the maker on a flat table. Plug it in.\n\nWhere to put it\n\nNear water."
    assert found["a_b/dough.html"].text == "Add flour to wet dough."
    assert found["yeast.rst"].text.startswith("Dry yeast")


def test_what_a_query_gives_away():
    """By hand: 2 of 3 terms (clean, pan, not kettl), the run 'clean the pan'; the reference is what pydoc's queries have."""
    assert leak("clean the pan kettle", "How do I clean the pan?") == (2 / 3, 3)
    assert leak("???", "How do I clean the pan?") == (0, 0)
    dataset = open_dataset(*find_dataset("pydoc/test"))
    texts = {document.doc_id: document.text for document in dataset.source.documents()}
    queries = {query.query_id: query.text for query in dataset.queries}
    judged = [row for row in dataset.topics.judgements if row.grade >= 2 and row.doc_id in texts]
    found = [leak(queries[row.query_id], texts[row.doc_id]) for row in judged]

    assert sum(one.shared for one in found) / len(found) == pytest.approx(REAL[1], abs=0.01)
    assert sum(one.run for one in found) / len(found) == pytest.approx(REAL[2], abs=0.05)


def test_queries_are_made_from_texts():
    """A question is cut to its rarest words that another text has too; a heading of two texts is no query; no two are alike."""
    question = "See also\n\nHow do I clean the very old bread pan with warm water"
    texts = [Text(f"d{number}", "Same title", f"{question} {number}?") for number in range(20)]
    made = list(made_queries(texts))

    assert {query.kind for query in made} <= {"question", "first sentence", "key words", "heading"}
    assert "same title" not in {query.text.lower() for query in made}
    assert all(len(query.text.split()) <= 5 for query in made)
    assert len({query.text.lower() for query in made}) == len(made) > 0


def test_a_log_is_drawn_by_its_counts(tmp_path):
    """Equal queries are added up; large counts are drawn before small ones; a plain file is read whole."""
    (tmp_path / "log").write_text("".join(f"often {n}\t1000000\nrarely {n}\t1\n" for n in range(20)) + "often 3\t5\n\n")
    (tmp_path / "plain").write_text("route 66\nroute\t66 east\nroute 66\n")

    assert all(text.startswith("often") for _, text in _read_queries(tmp_path / "log", 15))
    assert _read_queries(tmp_path / "plain", None) == [(1, "route 66"), (2, "route 66 east")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("asked.txt", "red² ²\t7\nblue\t1\n"),
        ("asked.txt", "q1\tred² ²\nq2\tblue\n"),
        ("asked.tsv", "qid\tquery\nq1\tred² ²\nq2\tblue\n"),
        ("asked.json", '{"q1": "red² ²", "q2": "blue"}'),
        ("topics.txt", "<top><num>1</num><title>red² ²</title></top>\n<top><num>2</num><title>blue</title></top>\n"),
    ],
)
def test_ids_of_queries_are_no_part_of_their_texts(tmp_path, name, content):
    """Tables with ids, JSON and topics of TREC are read as such; in a log the number behind the tab is a count."""
    (tmp_path / name).write_text(content)
    assert [text for _, text in _read_queries(tmp_path / name, None)] == ["red² ²", "blue"]
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidFile, match=r"not UTF-8|can't decode"):
        _read_queries(tmp_path / name, None)


def test_tables_of_own_columns_are_collected(place, capsys):
    """`--columns` names the columns of documents and queries; other columns later, and columns of text files, are refused."""
    (place / "shop.csv").write_text("sku,words\np1,a red fox\np2,a blue car\n")
    (place / "asked.csv").write_text("number,asked\n7,red\n8,car\n")
    columns = "id=sku,text=words,queries.id=number,queries.text=asked"
    command = ["collect", "shop.csv", "-r", "bm25", "--queries", "asked.csv"]
    assert "shop.csv" in ended(capsys, 2, *command, "--columns", "id=sku,text=word", "--output", "other").err
    found = answer(capsys, *command, "--columns", columns, "--json")
    assert (found["facts"]["documents"], found["facts"]["queries"], found["pool"]) == (2, 2, 2)
    assert json.loads((place / "shop-collection" / "corpus.jsonl").read_text().splitlines()[0])["_id"] == "p1"
    assert answer(capsys, *command, "--json") == found
    assert "made with other columns" in ended(capsys, 2, *command, "--columns", "id=words,text=sku").err
    assert "docs has none" in ended(capsys, 2, "collect", "docs", "--columns", "id=sku", "--output", "another").err


def test_agreement_of_two_judges():
    """By hand: grades 0,1,2,3 against 0,1,3,3 and one document of each alone; sklearn gives the same on longer lists."""
    made = grade_agreement({1: 0, 2: 1, 3: 2, 4: 3, 5: 0}, {1: 0, 2: 1, 3: 3, 4: 3, 6: 1})
    metrics = pytest.importorskip("sklearn.metrics", reason="sklearn is not installed")
    one, two = [0, 1, 2, 3, 0, 1, 2, 3, 0, 0, 3, 1], [0, 1, 1, 3, 2, 0, 2, 3, 0, 1, 3, 1]
    long = grade_agreement(dict(enumerate(one)), dict(enumerate(two)))

    assert (made.pairs, made.same) == (4, 0.75)
    assert made.kappa == pytest.approx((0.75 - 0.25) / 0.75)  # by chance 1/4*1/4 + 1/4*1/4 + 0 + 1/4*1/2
    assert made.by_grade == pytest.approx({"0": 1, "1": 1, "2": 0, "3": 2 / 3})
    assert long.kappa == pytest.approx(metrics.cohen_kappa_score(one, two))
    assert long.weighted == pytest.approx(metrics.cohen_kappa_score(one, two, weights="quadratic"))
    assert grade_agreement({1: 0}, {2: 0}) is None
    assert grade_agreement({1: 0}, {1: 0}).kappa is None
    assert Agreement(both=20, judge=5, official=10, neither=15).kappa == pytest.approx(0.4)  # an example of textbooks
    assert Agreement().kappa is Agreement(neither=3).kappa is None


def ask(url, path="state", body=None, **headers):
    """Return the status and the JSON of an answer of the page's server."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, None


@contextmanager
def serving(collection, judge):
    """Serve the page of a collection to one person; yield its address."""
    server = PageServer(JudgingSession(collection, judge))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def served(place):
    """Serve the page of a collection of three queries."""
    assert code(collect("--queries", "asked.txt")) == 0
    with serving(Collection(place / "docs-collection"), "ann") as url:
        yield url


def judge_all(url, grade_of):
    """Judge everything that is left through the page's server."""
    _, state = ask(url)
    while "query" in state:
        query, doc = state["query"], state["document"]
        grade = grade_of(state["text"], doc["text"])
        _, state = ask(url, "grade", {"query": query, "document": doc["text_id"], "grade": grade})
    return state


def test_a_judged_folder_is_a_dataset(served, place, capsys):
    """Two people judge; the qrels are the first one's; the contract has digests, pool, agreement; `run`, `compare` work."""
    state = judge_all(served, lambda query, text: 3)
    with serving(Collection(place / "docs-collection"), "bob") as second:
        left = judge_all(second, lambda query, text: 3 if "pan" in query else 2)
    made = answer(capsys, *collect("--json"))
    contract = (place / "docs-collection" / "contract.toml").read_text()

    assert state["done"] == state["total"] == made["pool"] == made["judged"]["judged"]
    assert made["judged"]["by"] == "ann"
    # Of five pairs, one has two grades of 3.
    assert made["judged"]["agreement"]["bob"]["by_grade"] == pytest.approx({"2": 0, "3": 2 * 1 / (5 + 1)})
    assert "documents judged by both" in left["agreement"]["ann"]
    assert 'contributors = ["bm25", "bm25(k1=2.0)"]' in contract
    assert "qrels_sha256" in contract
    assert "ann and bob" in contract
    systems = ["-r", "bm25", "-r", "bm25(b=0)"]
    results = answer(capsys, "run", "dataset", "docs-collection", *systems, "-m", "nDCG@10", "--json")["results"]
    assert {result["contract"] for result in results} == {"docs-collection@1"}
    assert all(result["means"]["nDCG@10"] > 0.9 for result in results)
    assert code(["compare", "bm25", "bm25(b=0)", "-d", "docs-collection"]) == 0
    (place / "docs-collection" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tclean.txt\t3\n")
    assert "not what its contract" in ended(capsys, 1, "run", "dataset", "docs-collection", "-r", "bm25", "-m", "nDCG@10").err


def test_grades_are_stored_undone_and_checked(served, place):
    """A grade is stored before the answer comes; undo removes the last one; grades and documents out of range are refused."""
    log = place / "docs-collection" / "judgements" / "ann.jsonl"
    _, first = ask(served)
    body = {"query": first["query"], "document": first["document"]["text_id"]}
    status, second = ask(served, "grade", body | {"grade": 2})

    assert (status, second["done"], second["undo"]) == (200, 1, True)
    assert json.loads(log.read_text().splitlines()[-1])["grade"] == 2
    assert ask(served, "undo", {})[1]["document"]["text_id"] == body["document"]
    assert Collection(place / "docs-collection").judges() == {}
    wrong = [body | {"grade": grade} for grade in (4, True, 2.0, 10**400, [1], None, "2")]
    for one in (*wrong, body | {"grade": 1, "document": "x"}, body | {"grade": 1, "query": "\ud800"}, {}, [], "x"):
        assert ask(served, "grade", one)[0] == 400
    assert ask(served)[1]["done"] == 0


def spoken(url, *lines, body=b""):
    """Send a request as typed; return the first line of the answer."""
    port, path = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/.*)", url).groups()
    with socket.create_connection(("127.0.0.1", int(port)), timeout=5) as connection:
        head = [lines[0].format(path), f"Host: 127.0.0.1:{port}", "Content-Type: application/json", *lines[1:]]
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        return connection.makefile("rb").readline().decode().strip()


GRADE = "POST {}grade HTTP/1.1"
BROKEN = [
    ([GRADE, "Content-Length: -1"], b""), ([GRADE], b"{}"),
    ([GRADE, f"Content-Length: {10**12}"], b"{}"),
    ([GRADE, "Content-Length: \u00b2"], b"{}"),
    ([GRADE, "Content-Length: 1_0"], b"0123456789"),
    ([GRADE, "Content-Length: " + "9" * 5000], b"{}"),
    ([GRADE, "Transfer-Encoding: chunked"], b"2\r\n{}\r\n0\r\n\r\n"),
    (["POST {}undo HTTP/1.1", "Content-Length: 60000"], b"[" * 60000),
    (["POST {}undo HTTP/1.1", "Content-Length: 2"], b"\xff\xfe"),
    (["PUT {}grade HTTP/1.1", "Content-Length: 2"], b"{}"), (["GET {}state HTTP/9.9"], b""), (["GET"], b""),
    (["POST {}other HTTP/1.1", "Content-Length: 2"], b"{}"), (["GET {}" + "x" * 70000 + " HTTP/1.1"], b""),
]  # fmt: skip


def test_broken_requests_are_answered_at_once(served, capfd):
    """No length, a wrong, negative or huge one, chunks, deep or foreign JSON, other methods: an error, and no traceback."""
    for lines, body in BROKEN:
        assert re.match(r"HTTP/1.0 (400|404|414|501|505) |<!DOCTYPE", spoken(served, *lines, body=body)), lines
    assert ask(served)[0] == 200
    assert capfd.readouterr().err == ""


def test_a_client_that_goes_away_or_says_nothing_blocks_nobody(served, monkeypatch, capfd):
    """The server waits for a limited time, and prints no traceback."""
    monkeypatch.setattr(_Handler, "timeout", 0.1)
    assert spoken(served, "POST {}grade HTTP/1.1", "Content-Length: 50", body=b"{") == ""
    for number in range(4):
        with socket.create_connection(("127.0.0.1", int(served.split(":")[2].split("/")[0]))) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closes with a reset
            connection.sendall(b"GET / HTTP/1.1\r\n" * (number % 2))
    assert ask(served)[0] == 200
    assert capfd.readouterr().err == ""


def test_a_full_disk_is_said_on_the_page(served, place, capfd):
    """The grade is refused with the reason, and can be given again when there is space."""
    _, state = ask(served)
    body = {"query": state["query"], "document": state["document"]["text_id"], "grade": 2}
    log = place / "docs-collection" / "judgements" / "ann.jsonl"
    log.symlink_to("/dev/full")

    assert ask(served, "grade", body)[0] == 507
    assert ask(served)[1]["done"] == 0
    log.unlink()
    assert ask(served, "grade", body)[1]["done"] == 1
    assert capfd.readouterr().err == ""


def test_two_pages_of_one_person_are_refused(served, place, capsys):
    """The second page would overwrite grades of the first; another name may judge at the same time."""
    first, other = JudgingPage(place / "docs-collection", "judge-1", 0), JudgingPage(place / "docs-collection", "bob", 0)
    said = ended(capsys, 3, "judge", "page", "docs-collection").err

    assert "judge-1 judges docs-collection in another process; end that one, or give another person's name: --name NAME" in said
    assert other.state["judge"] == "bob"
    first.close()
    JudgingPage(place / "docs-collection", "judge-1", 0).close()
    other.close()


def test_a_damaged_collection_is_named(place, capsys):
    """Facts that cannot be read, rows of judgements of another shape, and documents that changed give one line."""
    folder = place / "docs-collection"
    assert code(collect("--queries", "asked.txt")) == 0
    (folder / "judgements").mkdir(exist_ok=True)
    rows = [{"query": ["q1"]}, {"query": "q1", "document": 1}, {"query": "q1", "document": "x", "grade": "good"}, []]
    text = "".join("\n" + (json.dumps(row | {"judge": "judge-1"}) if isinstance(row, dict) else "1" * 4001) for row in rows)
    (folder / "judgements" / "judge-1.jsonl").write_text(text + "\n" + "[" * 100_000)
    page = JudgingPage(folder, "judge-1", 0)
    assert page.state["done"] == 0
    page.close()
    (folder / "corpus.jsonl").write_text('{"_id": "other", "text": "x"}\n')
    assert "the documents of docs-collection have changed" in ended(capsys, 3, "judge", "page", "docs-collection").err
    (folder / "collection.json").write_text('{"x": ' + "[" * 100_000)
    assert "collection.json: it is nested too deep" in ended(capsys, 2, "judge", "page", "docs-collection").err


def test_other_web_pages_cannot_use_the_page(served):
    """Refused: another host, another origin, another token, a form; the page loads nothing from elsewhere."""
    with urllib.request.urlopen(served, timeout=10) as answer:
        text, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]

    assert ask(served, "state", Host="evil.example")[0] == 403
    assert ask(served, "state", Origin="https://evil.example")[0] == 403
    assert ask(re.sub(r"[^/]+/$", "x/", served))[0] == 404
    assert ask(served, "undo", {}, **{"Content-Type": "text/plain"})[0] == 400
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"(src|href)=|https?://|@import", text)


def test_a_kill_loses_no_judgement(place, monkeypatch, capsys):
    """After a kill between two judgements, with half a line in the file, judging continues after the last whole one.

    Ctrl-C ends the command without an error.
    """
    assert code(collect("--queries", "asked.txt")) == 0
    folder = place / "docs-collection"
    with serving(Collection(folder), "judge-1") as url:
        _, state = ask(url)
        ask(url, "grade", {"query": state["query"], "document": state["document"]["text_id"], "grade": 1})
    log = folder / "judgements" / "judge-1.jsonl"
    log.write_bytes(log.read_bytes() + b'\n{"query": "q1", "docu')
    with serving(Collection(folder), "judge-1") as url:
        assert ask(url)[1]["done"] == 1
        judge_all(url, lambda query, text: 0)

    def interrupt(_server):
        raise KeyboardInterrupt

    monkeypatch.setattr(PageServer, "serve_forever", interrupt)
    assert "are judged, by judge-1" in ended(capsys, 0, "judge", "page", "docs-collection").out


def test_the_page_in_a_browser(place):
    """Keys grade and undo, a button grades, words of the query are marked, and a lost server is reported; no console errors."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    executable = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if executable is None:
        pytest.skip("no Chromium: apt install chromium-headless-shell")
    complaints = []
    assert code(collect("--queries", "asked.txt")) == 0
    with playwright.sync_playwright() as started, ExitStack() as server:
        page = started.chromium.launch(executable_path=executable, args=["--no-sandbox"]).new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(server.enter_context(serving(Collection(place / "docs-collection"), "ann")))
        page.wait_for_selector("#grades button")
        marked = page.inner_text("mark").lower()
        query = page.inner_text("#query")
        for count, action in enumerate((lambda: page.keyboard.press("3"), lambda: page.click("#grades button >> nth=1")), 1):
            action()
            page.wait_for_selector(f"#place:has-text('ann: {count} of')")
        page.keyboard.press("u")
        page.wait_for_selector("#place:has-text('ann: 1 of')")
        server.close()
        page.keyboard.press("0")
        page.wait_for_selector("#error:not([hidden])")

    assert marked in query.lower()
    assert list(Collection(place / "docs-collection").judges()["ann"].values()) == [3]
    assert complaints == []


def test_a_later_system_joins_the_pool(place, capsys):
    """Typed again with another system, its documents are added and judgements stay; another depth or source is refused."""
    before = answer(capsys, *collect("--queries", "asked.txt", "--json"))
    after = answer(capsys, "collect", "docs", "-r", "bm25(b=0)", "-k", "3", "--json")

    assert list(after["facts"]["systems"]) == ["bm25", "bm25(k1=2.0)", "bm25(b=0)"]
    facts = place / "docs-collection" / "collection.json"
    killed = json.loads(facts.read_text())
    killed["systems"] = {"bm25": "bm25"}  # as a kill after the first system leaves it
    facts.write_text(json.dumps(killed))
    assert answer(capsys, "collect", "docs", "-k", "3", "--json") == after
    assert after["pool"] >= before["pool"]
    assert "type -k 3" in ended(capsys, 2, "collect", "docs", "-k", "4").err
    assert "has the documents of" in ended(capsys, 2, "collect", "asked.txt", "--output", "docs-collection").err
    assert "has other files in it" in ended(capsys, 2, "collect", "docs", "--output", "docs").err
    with pytest.raises(CommandError, match="person's name"):
        Collection(place / "docs-collection").answers("../x")


def test_a_model_writes_queries_and_judges(place, capsys):
    """A query that copies its document is replaced; answers are asked for once; the qrels have the judge's stamp."""
    server = ModelServer()
    said = iter(["wash the pan with warm water dry", "sticky dough", "sticky dough", "where to place the machine", "how long"])
    real = server.answer
    server.answer = lambda path, body: (
        (200, {"choices": [{"message": {"content": next(said)}}]})
        if body and "Write one search query" in str(body)
        else real(path, body)
    )
    judge = f'endpoint_judge(url="{server.url}", model="m")'
    arguments = collect("--writer", server.url, "--writer-model", "m", "--count", "2", "--judge", judge, "--json")
    try:
        made = answer(capsys, *arguments)
        count = len(server.requests)
        assert code(arguments) == 0
    finally:
        server.close()
    queries = [json.loads(line) for line in (place / "docs-collection" / "queries.jsonl").read_text().splitlines()]

    assert made["facts"]["queries"] == 2
    assert all(query["metadata"]["run"] < COPIED for query in queries)
    assert made["judged"]["by"].startswith("judge:")
    assert sum(path == "/v1/chat/completions" for path, *_ in server.requests[count:]) == 0


def test_what_to_type_next_quotes_the_folder_once():
    """A folder with a space in its name can be copied from the message into a shell."""
    made = Collected(folder="my docs", facts=CollectionFacts(source="my docs", documents=1), pool=0, judged=None)
    assert made.lines()[-1].endswith("lexbench judge page 'my docs'")
