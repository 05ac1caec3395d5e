"""The HTTP client: what it repeats, what it refuses, and where keys go. The servers are real and on this machine."""

import json
import socket
import ssl
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
import rank_feature_server
from scipy import sparse
from servers import serving

from lexbench.engines.opensearch import OpenSearch, RunningOpenSearch
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.outside import http_client
from lexbench.outside.http_client import HttpClient, key_header
from lexbench.probing.probe import probe
from lexbench.probing.targets import opened


@pytest.fixture
def waits(monkeypatch):
    """Do not sleep; return the seconds that would have been slept."""
    slept, main = [], threading.main_thread()
    monkeypatch.setattr(
        http_client.time, "sleep", lambda wait: slept.append(wait) if threading.current_thread() is main else None
    )
    return slept


@contextmanager
def talking(*pieces, pause=0.0, after=True):
    """Serve raw bytes: after each request the *pieces*, each after a *pause*; the last one for ever. Yields the address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        with listener:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        connection.recv(1 << 16)
                        for piece in pieces:
                            time.sleep(pause)
                            connection.sendall(piece)
                        while after:
                            time.sleep(pause)
                            connection.sendall(pieces[-1])
                    except OSError:
                        pass

    threading.Thread(target=answer, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("start", [HEAD + b"X: ", HEAD + b"Content-Length: 9999\r\n\r\n", HEAD + b"\r\n", b"HTTP/1.1 "])
def test_a_server_that_drips_is_stopped(start):
    """A byte every 20 ms, in the headers or in the body, ends after the deadline of 0.1 s."""
    with talking(start, b"x", pause=0.02) as url:
        begin = time.perf_counter()
        with pytest.raises(CannotStart, match=r"no complete answer in 0\.1 s"):
            HttpClient(url, timeout=0.1, retries=0).ask("GET", "/")
        assert time.perf_counter() - begin < 2


@pytest.mark.parametrize("start", [b"", HEAD, HEAD + b"Content-Length: 9\r\n\r\n"])
def test_a_server_that_falls_silent_is_stopped(start):
    """Nothing, or nothing after a part of the answer, ends after the deadline, too."""
    release = threading.Event()

    def answer(connection):
        with connection:
            connection.recv(1 << 16)
            connection.sendall(start)
            release.wait(10)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: answer(listener.accept()[0]), daemon=True)
        thread.start()
        begin = time.perf_counter()
        with pytest.raises(CannotStart, match=r"no complete answer in 0\.1 s"):
            HttpClient(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.1, retries=0).ask("GET", "/")
        assert time.perf_counter() - begin < 2
        release.set()
        thread.join()


def test_an_endless_answer_takes_no_memory():
    """An answer that does not end is refused at the limit."""
    with (
        talking(HEAD + b"\r\n", b"x" * (1 << 16)) as url,
        pytest.raises(LexbenchError, match="the answer has more than 1,000,000 bytes; ask for less"),
    ):
        HttpClient(url, largest=1_000_000).ask("GET", "/")


def test_an_answer_that_is_cut_short_is_repeated_and_then_one_line(waits):
    """Half an answer is no answer. After the last attempt the line says what happened."""
    with (
        talking(HEAD + b'Content-Length: 99\r\n\r\n{"a":', after=False) as url,
        pytest.raises(CannotStart, match=r"(?s)^http.*IncompleteRead.*, 3 times; is the server running"),
    ):
        HttpClient(url, retries=2).ask("GET", "/")
    assert waits == [0.5, 1.0]


def test_a_server_that_hangs_up_is_one_line(waits):
    """A server that closes the connection without an answer is named with the reason in words, not as Python writes it."""
    with (
        talking(after=False) as url,
        pytest.raises(CannotStart, match=rf"{url}/: (Remote end closed|Connection reset)[a-z ]*, 1"),
    ):
        HttpClient(url, retries=0).ask("GET", "/")


@pytest.mark.parametrize(
    ("said", "waited"),
    [
        ("7", 7), ("0.25", 0.25), ("99999", 60), ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("²", 0.5), ("-3", 0.5), ("soon", 0.5),
        ("9" * 5000, 60), ("1e9", 0.5), ("", 0.5),
    ],
)  # fmt: skip
def test_a_busy_server_is_asked_again_when_it_says(waits, said, waited):
    """Retry-After in seconds or as a date is obeyed up to a minute. Anything else is no number, and the usual wait applies."""
    statuses = [429, 503, 200]
    with serving(lambda *_: (statuses.pop(0), {"ok": 1}, {"Retry-After": said})) as server:
        client = HttpClient(server.url)
        assert client.ask("POST", "/", {"a": 1}) == {"ok": 1}
    assert waits[0] == pytest.approx(waited)
    assert (client.repeated, statuses) == (2, [])


def test_each_answer_belongs_to_its_request():
    """Two hundred requests of eight threads over shared connections, some of them refused at first, get their own answers."""
    count = iter(range(10_000))

    def answer(_method, _path, body, _headers):
        return (503, {}, {"Retry-After": "0"}) if next(count) % 7 == 3 else (200, {"same": json.loads(body)}, {})

    with serving(answer) as server:
        client, found = HttpClient(server.url), {}

        def ask(first):
            for number in range(first, 200, 8):
                found[number] = client.ask("POST", "/", {"n": number})["same"]["n"]

        threads = [threading.Thread(target=ask, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {number: number for number in range(200)}
    assert client.repeated > 20


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(monkeypatch, status):
    """A redirect is one line with its goal. The other server gets no request and no key."""
    monkeypatch.setenv("MY_KEY", "sesame")
    asked = []
    with serving(lambda *request: asked.append(request) or (200, {}, {})) as other:
        answer = (status, {}, {"Location": f"{other.url}/\x1b[31m"})
        with serving(lambda *_: answer) as server:
            client = HttpClient(server.url, secrets=key_header("MY_KEY"), variable="MY_KEY")
            with pytest.raises(
                LexbenchError, match=f"status {status}: it redirects to '{other.url}/.*'; give that address"
            ) as error:
                client.ask("POST", "/", {"text": "private"})
    assert asked == []
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize(("allowed", "says"), [("", "without encryption"), ("example.org", None)])
def test_a_key_needs_encryption_or_permission(monkeypatch, allowed, says):
    """A key for another machine over plain http is refused before anything is sent, unless the user names the machine."""
    monkeypatch.setenv("MY_KEY", "sesame")
    monkeypatch.setenv("LEXBENCH_PLAIN_HTTP", allowed)
    if says:
        with pytest.raises(CannotStart, match=r"the key in MY_KEY would go to example\.org without encryption") as error:
            HttpClient("http://example.org", secrets=key_header("MY_KEY"), variable="MY_KEY").ask("GET", "/")
        assert "sesame" not in str(error.value)
    else:
        http_client.check_encrypted("http://example.org", "MY_KEY")
    for near in ("http://localhost:1", "http://127.0.0.9", "http://[::1]:80", "https://example.org"):
        http_client.check_encrypted(near, "MY_KEY")
    for far in ("http://example.com", "http://10.0.0.1", "http://localhost.example.com", "http://127.example.com"):
        with pytest.raises(CannotStart):
            http_client.check_encrypted(far, "MY_KEY")


def test_a_key_with_the_end_of_a_line_is_one_line(monkeypatch):
    """A key cannot add headers."""
    monkeypatch.setenv("MY_KEY", "sesame\r\nX-Evil: 1")
    with pytest.raises(CannotStart, match="characters that a header cannot have"):
        HttpClient("http://localhost:9", secrets=key_header("MY_KEY"), variable="MY_KEY").ask("GET", "/")


def test_a_server_of_the_user_gets_no_key_of_opensearch(monkeypatch, tmp_path):
    """The keys of OpenSearch go to OpenSearch; `probe http://` sends none."""
    monkeypatch.setenv("OPENSEARCH_API_KEY", "sesame")
    np.save(tmp_path / "v.npy", np.eye(4, dtype=np.float32))
    seen = []

    def answer(_method, _path, body, headers):
        seen.append(headers)
        best = np.argsort(-np.eye(4) @ json.loads(body)["vector"])[: json.loads(body)["k"]]
        return 200, {"docs": best.tolist()}, {}

    with serving(answer) as server:
        assert probe(server.url, vectors=tmp_path / "v.npy", queries=tmp_path / "v.npy", k=1, seconds=0).points[0].recall == 1
    assert seen
    assert not any("sesame" in str(headers) for headers in seen)


@pytest.mark.parametrize(
    "content",
    [b"[" * 200_000, b"<html>", b'{"a": NaN', b"\xff\xfe", b'"\x1b[31m"', b"1" + b"0" * 400, b"null", b"[]", b"{}", b"7"],
)
@pytest.mark.parametrize("status", [200, 500])
def test_foreign_bytes_are_one_line(waits, content, status):
    """Any bytes as an answer, with a good status or a bad one, are one line without control characters."""
    with serving(lambda *_: (status, content, {})) as server:
        with pytest.raises(LexbenchError) as error:
            HttpClient(server.url, retries=1).ask("GET", "/", read=lambda answer: answer["docs"][0], form="a list")
        host = server.url.removeprefix("http://")
        for address in (f"opensearch://{host}/idx/v", f"elasticsearch://{host}/idx/v"):
            with pytest.raises(LexbenchError) as another:
                opened(address)
            assert "\n" not in str(another.value)
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)


def test_certificates_are_read_for_https_alone(monkeypatch):
    """Those of the system take longer to read than most answers, and nothing checks them without encryption."""
    read, real = [], ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda **settings: read.append(settings) or real(**settings))
    for url in ("http://localhost:1", "https://localhost:1"):
        HttpClient(url)

    assert read == [{"cafile": None}]


@pytest.mark.parametrize(
    "url",
    ["localhost:80", "file:///etc/passwd", "http://", "http://a:port", "http://[::1", "ftp://x", "http://a#b", " http://a", ""],
)
def test_a_wrong_address_is_refused(url):
    """An address is http or https with a host."""
    with pytest.raises(CommandError, match="is no address; write it like"):
        HttpClient(url)


@pytest.mark.parametrize("proxy", ["socks5://me:sesame@localhost:1", "http://me:sesame@a:port", "http://me:sesame@"])
def test_a_proxy_of_another_kind_is_refused(monkeypatch, proxy):
    """The line says which variable to mend, and does not show its value."""
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(CannotStart, match=r"a proxy for a\.test that is no http://HOST:PORT; mend http_proxy, or set") as error:
        HttpClient("http://a.test")
    assert "sesame" not in str(error.value)


def test_a_proxy_is_asked_and_named(monkeypatch, waits):
    """It gets the whole address, and its password; without a scheme it is one of http. Errors name it without the password."""
    seen = []
    with serving(
        lambda _, path, __, headers: (200, seen.append((path, headers.get("proxy-authorization"))) or {}, {})
    ) as server:
        place = server.url.removeprefix("http://")
        monkeypatch.setenv("http_proxy", f"me:open%20sesame@{place}")
        assert HttpClient("http://a.test/b").ask("GET", "/c") == {}
    assert seen == [("http://a.test/b/c", "Basic bWU6b3BlbiBzZXNhbWU=")]
    with pytest.raises(CannotStart, match=f"a\\.test.* through the proxy {place}") as error:
        HttpClient("http://a.test", retries=0).ask("GET", "/")
    assert "sesame" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:sesame@localhost:1",
        "http://sesame@localhost",
        "http://me:sesame@a:port",
        "http://me:sesame@[::1",
        "http://a/x?q={query}&api_key=sesame",
        "http://a?accessToken=sesame&q=1",
        "http://a?key=",
    ],
)
def test_an_address_has_no_secret(url):
    """A name, password or key in an address would be in every result, so it is refused, and the message does not have it."""
    with pytest.raises(CommandError, match="a server: results show the address") as error:
        HttpClient(url)
    assert "sesame" not in str(error.value)


def test_a_compressed_answer_is_one_line():
    """Nobody asks for compressed answers, which could be small and endless."""
    answers = serving(lambda *_: (200, b"\x1f\x8b", {"Content-Encoding": "gzip"}))
    with answers as server, pytest.raises(LexbenchError, match=r"the answer is no JSON \(it is compressed: gzip\)"):
        HttpClient(server.url).ask("GET", "/")


def test_documents_for_which_opensearch_has_no_room_are_sent_again(tmp_path, monkeypatch):
    """A bulk request of which single documents get 429, and one that gets 429 as a whole, end in a complete index."""
    monkeypatch.setattr("lexbench.engines.opensearch.time.sleep", lambda _: None)
    calls = []
    with rank_feature_server.running() as server:
        honest = server.RequestHandlerClass

        class Busy(honest):
            """Refuses two of three documents the first two times, and the third request."""

            def serve(self):
                if not self.path.endswith("/_bulk"):
                    return honest.serve(self)
                calls.append(self.path)
                if len(calls) == 3:
                    self.rfile.read(int(self.headers["Content-Length"]))
                    self.send_response(429)
                    self.send_header("Content-Length", "0")
                    return self.end_headers()
                server.answers.full = len(calls) < 3
                return honest.serve(self)

            do_POST = serve  # noqa: N815 - the name that http.server calls

        server.RequestHandlerClass = Busy
        made = OpenSearch(server.url)
        vectors = sparse.csr_array(np.arange(1, 31, dtype=np.float32).reshape(30, 1))
        made.build(iter([vectors]), tmp_path)
        hits = made.open(tmp_path).search(sparse.csr_array(np.array([[2.0]], np.float32)), 5)
    assert hits.docs.tolist() == [[29, 28, 27, 26, 25]]
    assert len(calls) >= 4


def test_a_document_that_opensearch_refuses_is_one_line(tmp_path):
    """Another error than 429 ends the build with the reason."""
    with rank_feature_server.running() as server:
        server.answers.refuse = "mapper_parsing_exception"
        with pytest.raises(LexbenchError, match=r"refused document 0: .*mapper_parsing_exception"):
            OpenSearch(server.url).build(iter([sparse.csr_array(np.array([[1.0]], np.float32))]), tmp_path)


def test_filters_become_the_json_of_the_server():
    """By OpenSearch's documentation: term, range and must_not."""
    with serving(lambda *_: (200, {"i": {"mappings": {"properties": {"v": {"type": "knn_vector"}}}}}, {})) as server:
        index = opened(f"opensearch://{server.url.removeprefix('http://')}/i/v")
    assert isinstance(index, RunningOpenSearch)
    assert index._filter("a = 1 and b != 'x y' and c >= 2.5") == {
        "bool": {"filter": [
            {"term": {"a": 1}}, {"bool": {"must_not": [{"term": {"b": "x y"}}]}}, {"range": {"c": {"gte": 2.5}}},
        ]}
    }  # fmt: skip
    assert index._filter('{"exists": {"field": "a"}}') == {"exists": {"field": "a"}}
    for wrong in ("a", "a = ", "a ~ 1", "{", "a = 1 or b = 2"):
        with pytest.raises(CommandError, match="filter"):
            index._filter(wrong)
