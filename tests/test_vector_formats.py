"""Files of sparse vectors: their bytes by hand, writing and reading again, and refusals."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from lexbench.errors import CommandError, InvalidFile
from lexbench.vector_formats import blocks
from lexbench.vector_formats.blocks import ROWS, VectorBlock, Vocabulary
from lexbench.vector_formats.json_lines import FORMATS

JSON = ["anserini", "seismic"]
TOKENS = ["a", "##b", "ü", "d"]
NAMES = {"anserini": "v.jsonl", "anserini-topics": "v.tsv", "seismic": "v.jsonl"}
# Two documents of the vocabulary above: {a: 2, ü: 300} and {##b: 1}; between them one without terms, where that may be.
WEIGHTS = [[2, 0, 300, 0], [0, 0, 0, 0], [0, 1, 0, 0]]
EXAMPLES = {
    "anserini": (
        '{"id":"d1","contents":"","vector":{"a":2,"ü":300}}\n'
        '{"id":"d2","contents":"","vector":{}}\n'
        '{"id":"d3","contents":"","vector":{"##b":1}}\n'
    ).encode(),
    "anserini-topics": ("d1\ta a " + " ".join(["ü"] * 300) + "\nd3\t##b\n").encode(),
    "seismic": (
        '{"id":"d1","content":"","vector":{"a":2.0,"ü":300.0}}\n'
        '{"id":"d2","content":"","vector":{}}\n'
        '{"id":"d3","content":"","vector":{"##b":1.0}}\n'
    ).encode(),
}
WHOLE = ["anserini", "anserini-topics"]  # formats of integers
every = pytest.mark.parametrize("name", FORMATS)
LASTING = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def blocks_of(dense, ids=None, size=ROWS):
    """Yield rows of weights as blocks."""
    ids = ids or [f"d{row}" for row in range(1, len(dense) + 1)]
    for at in range(0, len(dense), size):
        yield VectorBlock(ids[at : at + size], sparse.csr_array(np.array(dense[at : at + size], np.float32)))


def read(name, path, vocabulary=None):
    """Return the ids of a file, and its weights by token for each."""
    vocabulary = Vocabulary(TOKENS) if vocabulary is None else vocabulary
    blocks = list(FORMATS[name].read(path, vocabulary))
    tokens = vocabulary.tokens or [str(column) for column in range(100)]
    found = []
    for block in blocks:
        assert block.vectors.dtype == np.float32
        assert block.vectors.has_canonical_format
        assert block.vectors.data.all()
        assert block.vectors.shape[0] == len(block.ids)
        rows = [block.vectors[[row]] for row in range(len(block.ids))]
        found += [dict(zip([tokens[i] for i in row.indices], row.data.tolist(), strict=True)) for row in rows]
    return [text_id for block in blocks for text_id in block.ids], found


def expected(name, dense=WEIGHTS, ids=None):
    """Return the expected result of `read` for rows of weights."""
    ids = ids or [f"d{row}" for row in range(1, len(dense) + 1)]
    return ids, [{TOKENS[i]: float(row[i]) for i in np.flatnonzero(row)} for row in dense]


def example(name):
    """Return the example's weights and ids, without the empty vector for queries of Anserini."""
    kept = [0, 2] if name == "anserini-topics" else [0, 1, 2]
    return [WEIGHTS[row] for row in kept], [f"d{row + 1}" for row in kept]


@every
def test_the_example_is_written_and_read(tmp_path, name):
    """The example is written as the bytes that were derived by hand from the format's description, and is read from them."""
    weights, ids = example(name)
    for file in (NAMES[name], f"x{NAMES[name]}.gz", f"y{NAMES[name]}.gz"):
        path = tmp_path / file
        FORMATS[name].write(blocks_of(weights, ids), path, Vocabulary(TOKENS))
        content = path.read_bytes()
        assert (gzip.decompress(content) if file.endswith("gz") else content) == EXAMPLES[name]
        assert read(name, path) == expected(name, weights, ids)
    assert (tmp_path / f"x{NAMES[name]}.gz").read_bytes() == content  # compressed twice to the same bytes
    assert len(list(tmp_path.iterdir())) == 3


@given(arrays(np.float32, (3, 4), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
@LASTING
def test_every_float32_survives_seismic(tmp_path, dense):
    """Weights of any size and sign come back to the last bit."""
    FORMATS["seismic"].write(blocks_of(dense), tmp_path / "v.jsonl", Vocabulary(TOKENS))
    assert read("seismic", tmp_path / "v.jsonl") == expected("seismic", dense)


@every
def test_files_longer_than_a_block(tmp_path, monkeypatch, name):
    """Nine hundred vectors come in blocks of 409 at most, in their order."""
    monkeypatch.setattr(blocks, "ROWS", 409)
    dense = np.random.default_rng(2).integers(0, 3, (900, 4))
    dense[:, 1] += 1
    FORMATS[name].write(blocks_of(dense, size=100), tmp_path / NAMES[name], Vocabulary(TOKENS))
    sizes = [len(block.ids) for block in FORMATS[name].read(tmp_path / NAMES[name], Vocabulary(TOKENS))]

    assert sizes == [409, 409, 82]
    assert read(name, tmp_path / NAMES[name]) == expected(name, dense)


@every
def test_the_vocabulary_can_come_from_the_file(tmp_path, name):
    """Without a vocabulary, tokens are numbered in order of appearance, and blocks can be written on the way."""
    (tmp_path / NAMES[name]).write_bytes(EXAMPLES[name])
    grown = Vocabulary()
    weights, ids = example(name)

    assert read(name, tmp_path / NAMES[name], grown) == expected(name, weights, ids)
    assert sorted(grown.tokens) == ["##b", "a", "ü"]

    with pytest.raises(InvalidFile, match=r"v\.\w+.*: token 'ü' is not one of the 2 of the vocabulary"):
        read(name, tmp_path / NAMES[name], Vocabulary(["a", "##b"]))  # one that is given does not grow

    other = Vocabulary()
    FORMATS["seismic"].write(FORMATS[name].read(tmp_path / NAMES[name], other), tmp_path / "on.jsonl", other)
    assert read("seismic", tmp_path / "on.jsonl") == expected("seismic", weights, ids)


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz"])
def test_a_vocabulary_from_a_file(tmp_path, name):
    """One token per line, the first is term 0; only newlines end a line."""
    text = "[PAD]\r\nü\n\u2028\n##x".encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)

    assert Vocabulary.from_file(tmp_path / name).tokens == ["[PAD]", "ü", "\u2028", "##x"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\na\n", r"v\.txt: token 'a' is twice in the vocabulary, as number 0 and number 2"),
        (b"a\n\xff\n", r"v\.txt: 'utf-8' codec can't decode"),
        (None, r"v\.txt: No such file"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, content, message):
    """Twice one token, other bytes than UTF-8, and no file at all."""
    if content is not None:
        (tmp_path / "v.txt").write_bytes(content)
    with pytest.raises(InvalidFile, match=message):
        Vocabulary.from_file(tmp_path / "v.txt")


# A numeric id, another field, a weight of 0, a blank line; a query without terms, repeated white space.
FINE = b'{"id": 7, "more": [1], "vector": {"d": 1, "##b": 0, "a": 2}}\n \n', (["7"], [{"a": 2.0, "d": 1.0}])
TOPICS = b"q1\t\nq2\ta  d a\r\n", (["q1", "q2"], [{}, {"a": 2.0, "d": 1.0}])
NO_VECTORS = [
    (b'{"id": "x", "vector": {"a": 1}', "Input data was truncated"),
    (b'{"id": "x"}', "Object missing required field `vector`"),
    (b'{"vector": {}}', "Object missing required field `id`"),
    (b'{"id": 1.5, "vector": {}}', r"Expected `int \| str`, got `float`"),
    (b'{"id": "x", "vector": {"a": "1"}}', "Expected `float`, got `str`"),
    (b'{"id": "x", "vector": [1]}', "Expected `object`, got `array`"),
    (b'{"id": "x", "vector": {"a": 1e39}}', r"the weight 1e\+39 of 'a' is not a "),
    (b"<html>", "JSON is malformed"),
    (b'{"id": "\xff", "vector": {}}', ""),
]
WHOLE_ONLY = "v.jsonl:3: the weight .* of 'd' is not a whole number from 0 that float32 holds"


@pytest.mark.parametrize(
    ("name", "fine", "found", "line", "message"),
    [
        *(
            ("anserini", *FINE, json.dumps({"id": 1, "vector": {"a": 1, "d": weight}}).encode(), WHOLE_ONLY)
            for weight in (0.5, -1, 16777217)
        ),
        ("anserini-topics", *TOPICS, b"q3 a\n", r"v\.tsv:3: a query is an id, a tab and tokens"),
        ("anserini-topics", *TOPICS, b"\ta\n", r"v\.tsv:3: a query is an id, a tab and tokens"),
        ("anserini-topics", *TOPICS, b"q3\t\xff\n", r"v\.tsv:3: 'utf-8' codec can't decode"),
        ("anserini-topics", *TOPICS, b"q3\tx\n", r"v\.tsv:3: token 'x' is not one of the 4"),
        *((name, *FINE, line, rf"v\.jsonl:3: {message}") for name in JSON for line, message in NO_VECTORS),
    ],
)
def test_a_line_that_is_no_vector_is_refused(tmp_path, name, fine, found, line, message):
    """The error message names the file, the line and the fault; the lines before it are read, also queries without terms."""
    path = tmp_path / NAMES[name]
    path.write_bytes(fine)
    assert read(name, path) == found
    path.write_bytes(fine + line + b"\n")
    with pytest.raises(InvalidFile, match=message) as caught:
        read(name, path)
    assert "\n" not in str(caught.value)


@every
def test_missing_and_broken_files_are_refused(tmp_path, name):
    """A missing file, and a file cut short anywhere, is refused in one line; a file cut at the end of a line is shorter."""
    path = tmp_path / NAMES[name]
    with pytest.raises(InvalidFile, match=r"v\.\w+: No such file"):
        read(name, path)
    for stop in range(len(EXAMPLES[name])):
        path.write_bytes(EXAMPLES[name][:stop])
        try:
            assert len(read(name, path)[0]) == len(EXAMPLES[name][:stop].splitlines())
        except InvalidFile as error:
            assert str(path) in str(error)  # noqa: PT017 - either is right
            assert "\n" not in str(error)  # noqa: PT017 - likewise


@every
@pytest.mark.parametrize("weight", [0.5, -1.0, 1e10, float("nan"), float("inf")])
def test_weights_that_a_format_does_not_hold_are_refused(tmp_path, name, weight):
    """The message names the text, and how to quantise where only whole weights are held; no part of a file is left."""
    said = r"'d2' has the weight .*; it is no number"
    if name in WHOLE:
        said = r"'d2' has the weight .*; \w+ holds whole weights from 1; quantise .*quantize\(100\)"
    elif np.isfinite(weight):
        pytest.skip("it holds real weights")
    with pytest.raises(CommandError, match=said):
        FORMATS[name].write(blocks_of([[1, 0, 0, 0], [0, 2, weight, 0]]), tmp_path / NAMES[name], Vocabulary(TOKENS))
    assert not list(tmp_path.iterdir())


@every
def test_vectors_with_other_sizes_are_refused(tmp_path, name):
    """More terms than the vocabulary has, and other than one id a vector."""
    with pytest.raises(CommandError, match="the vectors have 4 terms, and the vocabulary 3"):
        FORMATS[name].write(blocks_of(WEIGHTS), tmp_path / NAMES[name], Vocabulary(TOKENS[:3]))
    with pytest.raises(CommandError, match="2 ids for 1 vectors"):
        FORMATS[name].write(blocks_of([[1, 2]], ["a", "b"]), tmp_path / NAMES[name], Vocabulary(TOKENS))
    assert not list(tmp_path.iterdir())


@every
def test_stored_zeros_and_unsorted_rows_are_written_like_others(tmp_path, name):
    """The file does not depend on the inner form of a matrix."""
    parts = (np.array([300, 0, 2, 1], np.float32), np.array([2, 1, 0, 1]), np.array([0, 3, 4]))
    block = VectorBlock(["d1", "d2"], sparse.csr_array(parts, shape=(2, 4)))
    FORMATS[name].write([block], tmp_path / NAMES[name], Vocabulary(TOKENS))

    assert read(name, tmp_path / NAMES[name]) == expected(name, [WEIGHTS[0], WEIGHTS[2]])
    assert block.vectors.indices.tolist() == [2, 1, 0, 1]


@pytest.mark.parametrize("name", ["anserini", "anserini-topics"])
@pytest.mark.parametrize("token", ["new york", "", "tab\t", "\u2003", "x" * 256, "\U0001d54f" * 128])
def test_tokens_that_anserini_would_split_are_refused(tmp_path, name, token):
    """Tokens that are empty, have white space or more than 255 characters in Java are refused if a vector has them."""
    vocabulary = Vocabulary(["a", token])
    said = "cannot be written for Anserini: it is empty, has white space or over 255 characters"
    with pytest.raises(CommandError, match=said):
        FORMATS[name].write(blocks_of([[1, 0], [1, 2]]), tmp_path / NAMES[name], vocabulary)
    assert not list(tmp_path.iterdir())
    FORMATS[name].write(blocks_of([[1, 0]]), tmp_path / NAMES[name], vocabulary)
    FORMATS[name].write(blocks_of([[1, 2]]), tmp_path / NAMES[name], Vocabulary(["a", "x" * 255]))


@pytest.mark.parametrize(
    ("query_id", "weight", "message"),
    [
        ("a b", 1, "query id 'a b' cannot be written"),
        ("", 1, "query id '' cannot be written"),
        ("q", 0, "query 'q' has no terms, and Anserini stops at such a query"),
    ],
)
def test_queries_that_anserini_does_not_take_are_refused(tmp_path, query_id, weight, message):
    """An id with white space in it ends early, and a query without terms ends the program."""
    with pytest.raises(CommandError, match=message):
        FORMATS["anserini-topics"].write(blocks_of([[weight]], [query_id]), tmp_path / "t.tsv", Vocabulary(TOKENS))


def test_a_folder_of_files_is_read(tmp_path):
    """The files of a folder are read in the order of their names; a folder without files is refused."""
    with pytest.raises(InvalidFile, match=r": no file in this folder ends in \.json, \.jsonl, \.gz"):
        read("anserini", tmp_path)
    for number, block in enumerate(blocks_of(WEIGHTS, size=2)):
        FORMATS["anserini"].write([block], tmp_path / f"part-{number}.jsonl.gz", Vocabulary(TOKENS))
    assert read("anserini", tmp_path) == expected("anserini")


def test_anserini_reads_what_is_written(tmp_path):
    """Its own collection and topic reader see each token as often as it weighs."""
    pytest.importorskip("jnius_config")
    from lexbench.engines.kernels.java import java_class

    (tmp_path / "v").mkdir()
    FORMATS["anserini"].write(blocks_of([[2, 0, 1, 0], [0] * 4, [0, 3, 0, 0]]), tmp_path / "v" / "v.jsonl", Vocabulary(TOKENS))
    FORMATS["anserini-topics"].write(blocks_of([[2, 0, 1, 0]], ["q"]), tmp_path / "t.tsv", Vocabulary(TOKENS))
    paths = java_class("java.nio.file.Paths")
    segments, found = java_class("io.anserini.collection.JsonVectorCollection")(paths.get(str(tmp_path / "v"))).iterator(), {}
    while segments.hasNext():
        documents = segments.next().iterator()
        while documents.hasNext():
            document = documents.next()
            found[document.id()] = sorted(document.contents().split())
    topics = java_class("io.anserini.search.topicreader.TsvStringTopicReader")(paths.get(str(tmp_path / "t.tsv"))).read()

    assert found == {"d1": ["a", "a", "ü"], "d2": [], "d3": ["##b"] * 3}
    assert topics.toString() == "{q={title=a a ü}}"


def test_seismic_reads_what_is_written(tmp_path):
    """Its own index finds each document with the dot product."""
    seismic = pytest.importorskip("seismic")
    FORMATS["seismic"].write(blocks_of([[2, 0, 0.5, 0], [0, 3, 0, 0], [1, 0, 0, 0]]), tmp_path / "v.jsonl", Vocabulary(TOKENS))
    index = seismic.SeismicIndex.build(str(tmp_path / "v.jsonl"), num_threads=1)
    tokens = np.array(["a", "ü"], seismic.get_seismic_string())
    hits = index.search("q", tokens, np.array([1, 2], np.float32), k=3, query_cut=2, heap_factor=1.0)

    assert {(document, score) for _, score, document in hits} == {("d1", 3.0), ("d3", 1.0)}
