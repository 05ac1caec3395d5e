"""Models behind an address, tested with a small server on this machine that can also fail."""

from functools import partial

import numpy as np
import pytest
from model_server import VOCABULARY, ModelServer, numbers
from servers import serving

from lexbench.cli import code
from lexbench.encoders.endpoint import Endpoint
from lexbench.encoders.endpoint_sparse import EndpointSparse
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.models.served import server_identity
from lexbench.rerankers.endpoint_reranker import EndpointReranker
from lexbench.types import Document

TEXTS = [f"text {number}" for number in range(7)]


@pytest.fixture
def serve(monkeypatch):
    """Return a function that starts a server; all servers are stopped at the end."""
    servers = []
    monkeypatch.setattr("lexbench.outside.http_client.time.sleep", lambda _seconds: None)

    def start(**settings):
        servers.append(ModelServer(**settings))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize("kind", ["openai", "tei"])
def test_vectors_come_in_the_order_of_the_texts(serve, kind):
    """Each text has the vector of its prompt and text, in any order of the server's answers."""
    server = serve()
    encoder = Endpoint(server.url, "m", kind, query_prompt="query: ", batch=2, parallel=3)
    expected = np.array([numbers(f"query: {text}") for text in TEXTS], np.float32)
    np.testing.assert_array_equal(encoder.encode_query(TEXTS), expected)
    assert len(server.requests) == 4
    lengths = np.linalg.norm(Endpoint(server.url, "m", kind, normalize=True).encode_document(TEXTS), axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-6)


def test_requests_to_a_busy_server_are_repeated(serve):
    """A request to a busy server is repeated up to *retries* times; then there is an error of one line."""
    server = serve(fail=[503, 429, 500])
    assert Endpoint(server.url, "m").encode_query(["a"]).shape == (1, 8)
    assert len(server.requests) == 4
    server.fail = [503] * 9
    with pytest.raises(CannotStart, match=r"/v1/embeddings: status 503, 3 times: busy; is the server running"):
        Endpoint(server.url, "m", retries=2).encode_query(["a"])


def test_an_unreachable_server_is_one_line(serve):
    """A server that cannot be reached is an error of one line."""
    server = serve()
    server.close()
    with pytest.raises(CannotStart, match=r"does not answer \(Connection refused\); is it running\?"):
        Endpoint(server.url, "m", retries=1).encode_query(["a"])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"data": []}, "expected the vectors of 2 texts, but the answer is something else"),
        ({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}, "the answer is something else"),
        ({"data": [{"index": at, "embedding": [float("nan")]} for at in (0, 1)]}, "the answer is something else"),
        ({"error": "the model is not loaded"}, r'something else: {"error": "the model is not loaded"}'),
        (b"<html>", "the answer is no JSON"),
    ],
)
def test_a_wrong_answer_is_one_line(serve, broken, message):
    """An answer without a vector of numbers for each text is refused in one line."""
    server = serve()
    server.broken = broken
    with pytest.raises(LexbenchError, match=message):
        Endpoint(server.url, "m").encode_query(["a", "b"])


WRONG_INDEXES = {
    "negative": [0, -1],
    "repeated": [0, 0],
    "out of range": [0, 2],
    "one too many": [0, 1, 1],
    "one too few": [1],
    "from one": [1, 2],
    "a fraction": [0, 1.5],
    "text": ["0", "1"],
    "none": [None, None],
}


@pytest.mark.parametrize("indexes", WRONG_INDEXES.values(), ids=WRONG_INDEXES)
@pytest.mark.parametrize("kind", ["openai", "jina", "tei"])
def test_wrong_indexes_are_refused(serve, kind, indexes):
    """A vector or score whose index is not that of one text, or is another's too, is never given to a text."""
    server = serve()
    entries = [{"index": at, "embedding": [1.0], "relevance_score": 1.0, "score": 1.0} for at in indexes]
    server.broken = {"openai": {"data": entries}, "jina": {"results": entries}, "tei": entries}[kind]
    if kind == "openai":
        ask = partial(Endpoint(server.url, "m").encode_query, ["a", "b"])
    else:
        documents = [Document("1", "a"), Document("2", "b")]
        ask = partial(EndpointReranker(server.url, "m", kind).score, ["q", "q"], documents)
    with pytest.raises(LexbenchError, match=r"of 2 (texts|documents), but the answer is something else"):
        ask()


@pytest.mark.parametrize("terms", [[1, 1], [-1], [VOCABULARY], [1.5], ["1"], [None]])
def test_wrong_terms_are_refused(serve, terms):
    """A term of a sparse vector is a whole number in the vocabulary, and stands in a vector once."""
    server = serve()
    server.broken = [[{"index": term, "value": 1.0} for term in terms]]
    with pytest.raises(LexbenchError, match="each term once and below vocabulary=64, but the answer is something else"):
        EndpointSparse(server.url, VOCABULARY).encode_query(["a"])


def test_the_api_key_comes_from_the_environment_and_is_never_printed(serve, monkeypatch):
    """The key is sent as a bearer token; errors name its variable and not its value."""
    server = serve(key="sesame")
    encoder = Endpoint(server.url, "m", key="MY_KEY")
    with pytest.raises(CannotStart, match="the environment has no MY_KEY"):
        encoder.encode_query(["a"])
    monkeypatch.setenv("MY_KEY", "wrong-sesame")
    with pytest.raises(CannotStart, match="status 401, access denied") as error:
        encoder.encode_query(["a"])
    assert "wrong-sesame" not in str(error.value)
    monkeypatch.setenv("MY_KEY", "sesame")
    assert encoder.encode_query(["a"]).shape == (1, 8)
    assert "sesame" not in repr(encoder) + str(encoder.identity())


def test_the_description_of_a_server_is_a_key_fact(serve):
    """The description has no times; a server without a description shares its key with no other."""
    described, mute, other = serve(seed=1), serve(mute=True), serve(mute=True)
    key = Endpoint(described.url, "m").identity()
    assert "model-1" in Endpoint(described.url, "m").notes()[0]
    server_identity.cache_clear()
    assert Endpoint(described.url, "m").identity() == key
    assert Endpoint(mute.url, "m").identity()["said"] == "nothing"
    assert Endpoint(mute.url, "m").identity() != Endpoint(other.url, "m").identity()


@pytest.mark.parametrize("said", [b"<html>", {"error": "Unexpected endpoint (GET /info)"}, [], {"data": None}])
def test_what_is_no_description_is_none(said):
    """Some servers answer every path with a page, or with an error and a good status."""
    with serving(
        lambda _, path, *__: (404 if path == "/info" and isinstance(said, dict) and "data" in said else 200, said, {})
    ) as server:
        assert Endpoint(server.url, "m").identity()["said"] == "nothing"


def test_the_address_may_end_in_v1(serve):
    """OpenAI's clients call such an address base_url; the server and its description are the same."""
    server = serve()
    plain, long = Endpoint(server.url, "m"), Endpoint(f"{server.url}/v1/", "m")
    assert plain.identity() == long.identity()
    assert plain.encode_query(["a"]).tolist() == long.encode_query(["a"]).tolist()
    with pytest.raises(CommandError, match=r"the address, so it has no parameters; leave out \?tenant=1"):
        Endpoint(f"{server.url}?tenant=1", "m")


def test_the_models_that_answers_name_are_noted(serve):
    """A server may run another model than it was asked for, or change it."""
    server = serve()
    encoder = Endpoint(server.url, "m")
    for name, said in (("m", []), ("n", ["its answers name several models, so its vectors may not fit each other: m, n"])):
        server.broken = {"model": name, "data": [{"index": 0, "embedding": [1, 2]}]}
        encoder.encode_query(["a"])
        assert encoder.notes()[1:] == said


def test_sparse_vectors_of_a_server(serve):
    """Lists of terms and weights are rows; a term beyond the vocabulary is refused."""
    server = serve()
    vectors = EndpointSparse(server.url, VOCABULARY, batch=3).encode_document(TEXTS)
    assert vectors.shape == (7, VOCABULARY)
    np.testing.assert_allclose(vectors.toarray()[2, 1], numbers(TEXTS[2])[0] + 0.1, rtol=1e-6)
    with pytest.raises(LexbenchError, match="below vocabulary=4, but the answer is something else"):
        EndpointSparse(server.url, 4).encode_document(TEXTS)


@pytest.mark.parametrize("kind", ["jina", "tei"])
def test_each_pair_has_its_own_score(serve, kind):
    """A server answers best first; each pair gets the score of its own document."""
    documents = [Document(str(at), text) for at, text in enumerate(TEXTS)]
    scores = EndpointReranker(serve().url, "m", kind, batch=3).score(["q"] * 4 + ["r"] * 3, documents)
    expected = [numbers(("q" if at < 4 else "r") + text)[0] for at, text in enumerate(TEXTS)]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


@pytest.mark.parametrize("url", ["localhost:80", "file:///etc/passwd", "http://no such host", "http://me:secret@host"])
def test_a_wrong_address_is_refused(url):
    """An address is http or https, without a name or password in it."""
    with pytest.raises(CommandError, match="endpoint"):
        Endpoint(url)


@pytest.mark.parametrize(
    ("system", "route", "what"),
    [
        ('endpoint(url="{url}", model="m")', "/v1/embeddings", "vectors"),
        ('rerank(bm25, endpoint_reranker(url="{url}", model="m"), k=20)', "/rerank", "scores"),
    ],
)
def test_a_run_with_a_served_model_has_a_note(serve, bread, store, capsys, system, route, what):
    """A run with a served model is stored, and has a note that the model cannot be pinned."""
    server = serve()
    run = ["run", "dataset", str(bread / "qrels" / "test.tsv"), "-r", system.format(url=server.url)]
    assert code(run) == 0
    assert f"a server computed the {what}, and its model cannot be pinned" in " ".join(capsys.readouterr().out.split())
    asked = sum(path == route for path, *_ in server.requests)
    assert asked > 0
    assert code(run) == 0
    assert sum(path == route for path, *_ in server.requests) == asked
