"""Search tools for agents: a real server of the package mcp, and programs that break the protocol."""

import json
import re
import sys

import pytest
from servers import free_port, serving, started

from lexbench.errors import CommandError, LexbenchError
from lexbench.runner.systems import system
from lexbench.testing.retrievers import Bench
from lexbench.types import Query

CORPUS = {"d1": "red fox", "d2": "red car", "d3": "blue car", "d4": "blue fox fox"}
SERVER = '''
from mcp.server import MCPServer

server = MCPServer("docs")
TEXTS = {texts}

@server.tool()
def search_docs(q: str, limit: int = 2) -> str:
    """Search the documents."""
    if q == "crash":
        raise ValueError("no such word")
    counts = {{name: sum(text.split().count(word) for word in q.split()) for name, text in TEXTS.items()}}
    best = [name for name in sorted(counts, key=lambda one: (-counts[one], one)) if counts[name]][:limit]
    passage = "## Passage of {{0}}\\nSource: {{0}}\\nScore: {{1}}.5\\n"
    return "\\n".join(passage.format(name, counts[name]) * 2 for name in best) or "No results."

import sys
server.run("streamable-http", port=int(sys.argv[1])) if sys.argv[1:] else server.run()
'''
# The same protocol without a package, which starts at once: its answer is always of two documents
SMALL = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        tool = {"name": "search_docs", "inputSchema": {"properties": {"q": {}, "limit": {}}}}
        text = "## Passage of d1\\nSource: d1\\n" * 2 + "## Passage of d2\\nSource: d2\\n" * 2
        print(json.dumps({"method": "notifications/progress"}), flush=True)
        result = {"tools": [tool], "content": [{"type": "text", "text": text}]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
SETTINGS = 'tool="search_docs", query="q", k="limit", id="Source: (.+)"'


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Write a server; return the command that starts it."""
    pytest.importorskip("mcp", reason="mcp is not installed; pip install mcp")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(SERVER.format(texts=json.dumps(CORPUS)))
    return f"{sys.executable} server.py"


@pytest.fixture
def address(program, tmp_path):
    """Start the same server on a free port; return its address."""
    port = free_port()
    with started([*program.split(), str(port)], port, tmp_path / "log"):
        yield f"http://127.0.0.1:{port}/mcp"


def found(expression, path, queries, k=10):
    """Return the ids and scores that a system finds for *queries*, texts."""
    plugin = system(expression).retriever
    bench = Bench(path, CORPUS)
    searcher = bench.searcher(plugin)
    hits = searcher.search(searcher.encode_queries([Query(text, text) for text in queries]), k)
    names = bench.corpus.doc_ids.astype(str)
    return [
        [(str(names[doc]), score) for doc, score in zip(docs, scores, strict=True) if doc >= 0]
        for docs, scores in zip(hits.docs.tolist(), hits.scores.tolist(), strict=True)
    ]


def test_a_tool_is_searched(program, tmp_path):
    """By hand: the documents with the query's words, by their number. A document that comes twice counts once."""
    made = f'mcp("{program}", {SETTINGS}, score="Score: (.+)", nothing="No results")'
    assert found(made, tmp_path / "a", ["red", "fox", "green"]) == [
        [("d2", 1.5), ("d1", 1.5)], [("d4", 2.5), ("d1", 1.5)], [],
    ]  # fmt: skip


@pytest.mark.slow
def test_a_tool_is_searched_over_http(address, tmp_path):
    """The same lists as from the program. The server sends events, and knows requests by its session."""
    made = f'mcp("{address}", {SETTINGS}, score="Score: (.+)", nothing="No results")'
    assert found(made, tmp_path / "a", ["red", "fox", "green"]) == [
        [("d2", 1.5), ("d1", 1.5)], [("d4", 2.5), ("d1", 1.5)], [],
    ]  # fmt: skip
    ranks = f'mcp("{address}", {SETTINGS}, nothing="No results")'
    assert found(ranks, tmp_path / "ranks", ["fox"]) == [[("d4", 0.0), ("d1", -1.0)]]
    assert found(ranks, tmp_path / "one", ["fox"], 1) == [[("d4", 0.0)]]
    for query, says in (("green", "no id like 'Source: (.+)' in 'No results.'"), ("crash", "the tool failed")):
        with pytest.raises(LexbenchError, match=re.escape(says)) as raised:
            found(f'mcp("{address}", {SETTINGS})', tmp_path / query, [query])
        assert "\n" not in str(raised.value)
    with pytest.raises(LexbenchError, match=r"it has no tool 'search'; there is: search_docs"):
        found(f'mcp("{address}", tool="search", id="(.+)")', tmp_path / "b", ["red"])
    with pytest.raises(LexbenchError, match="there is nothing of that name; does the server have this route"):
        found(f'mcp("{address}/other", {SETTINGS})', tmp_path / "c", ["red"])


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((200, b"<html>", {}), "is no JSON"),
        ((200, [], {}), "no answer among its messages"),
        ((202, b"", {}), "no answer among its messages"),
        ((200, {"id": "initialize", "result": 3}, {}), "initialize failed"),
        ((200, b"data: {}\n\ndata: [\n\n", {"Content-Type": "text/event-stream"}), "is no JSON"),
        ((200, b'event: x\ndata: {"id": "initialize",\ndata: "error": {"message": "too old"}}\n\n',
          {"Content-Type": "text/event-stream"}), "initialize failed: too old"),
        ((301, b"", {"Location": "http://127.0.0.1:9/"}), "it redirects to"),
        ((401, b"", {}), "access denied; is the key in MY_KEY right?"),
    ],
)  # fmt: skip
def test_a_server_that_breaks_the_protocol_is_one_line(tmp_path, monkeypatch, answer, says):
    """Over HTTP, too; the key goes to this server as a bearer token."""
    monkeypatch.setenv("MY_KEY", "sesame")
    asked = []
    with serving(lambda *request: asked.append(request[-1]) or answer) as server, pytest.raises(LexbenchError) as raised:
        found(f'mcp("{server.url}", {SETTINGS}, key="MY_KEY")', tmp_path / "a", ["red"])
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
    assert {headers["Authorization"] for headers in asked} == {"Bearer sesame"}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("", "name the tool and a pattern of ids"),
        ('tool="search_docs", id="("', "is no regular expression"),
        ('tool="search_docs", id="Source: .+"', "needs one group"),
        ('tool="search", id="(.+)"', "it has no tool 'search'; there is: search_docs"),
        ('tool="search_docs", id="(.+)"', "has no argument 'query'; there is: q, limit"),
        ('tool="search_docs", query="q", k="top", id="(.+)"', "has no argument 'top'"),
        ('tool="search_docs", query="q", id="(## .+)"', "is not in the corpus"),
        ('tool="search_docs", query="q", id="Source: (.+)", score="Passage of (.+)"', "is no number"),
        ('tool="search_docs", query="q", id="Source: (.+)", score="Passage of (d1)"', "4 ids and 2 scores"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, monkeypatch, settings, says):
    """Each setting is obeyed or refused by name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.py").write_text(SMALL)
    with pytest.raises(LexbenchError) as raised:
        found(f'mcp("{sys.executable} small.py"{", " if settings else ""}{settings})', tmp_path / "a", ["red"])
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[]", "it must write"),
        ("{}", "messages"),
        ('{"id": "initialize", "error": {"code": 1, "message": "too old"}}', "initialize failed: too old"),
        ('{"id": "initialize", "result": 3}', "initialize failed"),
        ("[" * 100_000, "it must write"),
    ],
)
def test_a_program_that_breaks_the_protocol_is_one_line(tmp_path, monkeypatch, line, says):
    """No answer of a program is a traceback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line").write_text(line + "\n")
    (tmp_path / "server.py").write_text(
        "import sys\nline = open('line').read().strip()\nfor _ in range(2000): print(line, flush=True)\n"
    )
    with pytest.raises(LexbenchError) as raised:
        found(f'mcp("{sys.executable} server.py", {SETTINGS})', tmp_path / "a", ["red"])
    assert says in str(raised.value)


@pytest.mark.parametrize("made", ['mcp("http://", {})', 'mcp("http://user:word@h/mcp", {})', 'mcp("ls", {}, key="K")'])
def test_an_address_is_checked_and_a_program_takes_no_key(made):
    """What is stated is obeyed or refused."""
    with pytest.raises(CommandError):
        system(made.format(SETTINGS))
