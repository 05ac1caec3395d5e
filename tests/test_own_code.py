"""Foreign code given to `lexbench.run`: encoders and search systems as objects, functions, programs and servers."""

import gc
import json
import os
import re
import sqlite3
import sys
import traceback
from types import SimpleNamespace
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec
import numpy as np
import pytest
from samples import texts_of
from scipy import sparse
from servers import serving
from tiny import answer, ended, enter, write_files

import lexbench
from lexbench.arrays.vectors import converted
from lexbench.artifacts.turns import RemoteReranker
from lexbench.engines.kernels.checks import as_hits, as_scores
from lexbench.errors import CannotStart, LexbenchError
from lexbench.outside.foreign import ForeignSearcher
from lexbench.plugins import ScoredPairs
from lexbench.retrievers._fusion import search_without
from lexbench.runner.adapters import adapted
from lexbench.runner.systems import system
from lexbench.testing.retrievers import Bench
from lexbench.timing.protocol import TimingSettings
from lexbench.trec.ids import encode
from lexbench.types import Kind, MultiVectors, Query

TEXTS = ["aab", "c", ""]
COUNTS = np.array([[2, 1, 0], [0, 0, 1], [0, 0, 0]])  # of a, b and c in TEXTS


def counts(texts):
    """Return how often a, b and c occur in each text (n, 3)."""
    return np.array([[text.count(letter) for letter in "abc"] for text in texts], float)


def torch_of(convert):
    """Return a conversion by torch, which skips the test without torch."""
    return lambda matrix: convert(pytest.importorskip("torch", reason="it is in the extra neural").tensor(matrix))


def named(matrix):
    """Return dicts {letter: count} without zeros."""
    return [{"abc"[at]: count for at, count in enumerate(row) if count} for row in matrix]


FORMS = {
    "float64": lambda matrix: matrix,
    "int": lambda matrix: matrix.astype(int),
    "lists": lambda matrix: matrix.tolist(),
    "tuple of arrays": tuple,
    "tensor": torch_of(lambda tensor: tensor),
    "bfloat16": torch_of(lambda tensor: tensor.bfloat16().requires_grad_()),
    "list of tensors": torch_of(list),
    # sparse ones
    "csr": sparse.csr_matrix,
    "coo": sparse.coo_array,
    "csc": sparse.csc_array,
    "list of sparse rows": lambda matrix: [sparse.csr_array(row[None]) for row in matrix],
    "torch coo": torch_of(lambda tensor: tensor.to_sparse()),
    "torch csr": torch_of(lambda tensor: tensor.to_sparse_csr()),
    "list of torch rows": torch_of(lambda tensor: [row.to_sparse() for row in tensor]),
    "dicts": named,
    "array of dicts": lambda matrix: np.array(named(matrix), object),
}


SPARSE = list(FORMS)[list(FORMS).index("csr") :]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state:UserWarning")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_vectors_is_converted(form):
    """The counts come back as float32: an array, or a csr_array if the form was sparse."""
    columns = {}
    vectors = converted(FORMS[form](COUNTS.astype(float)), 3, columns)

    assert vectors.dtype == np.float32
    assert sparse.issparse(vectors) == (form in SPARSE)
    found = vectors.toarray() if sparse.issparse(vectors) else vectors
    assert found[:, columns.get("a", 0) :][:, :3].tolist() == COUNTS.tolist()
    assert found.sum() == COUNTS.sum()
    assert list(columns) == (["", "a", "b", "c"] if "dicts" in form else [])


def test_one_matrix_per_text_is_one_vector_per_token():
    """Lists of matrices, e.g. of late interaction, become MultiVectors; a text may have no token."""
    vectors = converted([np.ones((2, 4)), np.zeros((0, 4)), np.full((1, 4), 3)], 3, {})

    assert isinstance(vectors, MultiVectors)
    assert vectors.offsets.tolist() == [0, 2, 2, 3]
    assert vectors.values[2].tolist() == [3, 3, 3, 3]


REFUSED = [
    (None, "returned NoneType; it must return a 2-d numpy array, a torch tensor"),
    ("text", "returned str; it must"),
    ({"dense_vecs": COUNTS}, "returned dict; it must"),  # adapters take the value first
    (["a", "b", "c"], "returned list of str; it must"),
    ([1.0, 2.0, 3.0], "returned list of float; it must"),
    ([[1.0], [1.0, 2.0], [1.0]], "returned list of list; it must"),
    (np.zeros(3), r"returned ndarray of shape \(3,\); it must"),
    (np.zeros((3, 2, 2)), r"returned ndarray of shape \(3, 2, 2\); it must"),
    (np.zeros((3, 2), complex), r"ndarray of shape \(3, 2\) of complex128; return real numbers"),
    (list(np.zeros((3, 2), complex)), r"ndarray of shape \(2,\) of complex128; return real numbers"),
    (sparse.csr_array((3, 2), dtype=complex), r"csr_array of shape \(3, 2\) of complex128; return real numbers"),
    ([{"a": "much"}] * 3, "returned list of dict; it must"),
    (np.zeros((2, 2)), "returned 2 vectors for 3 texts"),
    (np.array([[1.0], [np.nan], [1.0]]), "a value that is NaN, infinite or too large"),
    ([{"a": 1e300}] * 3, "a value that is NaN, infinite or too large"),
]


@pytest.mark.parametrize(("returned", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_other_values_are_refused_by_their_type(returned, message):
    """The error message names the returned type and the accepted ones."""
    with pytest.raises(LexbenchError, match=message):
        converted(returned, 3, {})


def test_tensors_without_real_numbers_are_refused():
    """A complex tensor, sparse or not, is not cut to its real part, and a tensor without data is one line."""
    torch = pytest.importorskip("torch", reason="it is in the extra neural")
    given = torch.zeros((3, 2), dtype=torch.complex64)
    for returned, said in (
        (given, " of complex64; return real numbers"),
        (given.to_sparse(), " of complex64; return real numbers"),
        (torch.zeros((3, 2), device="meta"), "; it must"),
    ):
        with pytest.raises(LexbenchError, match=rf"returned Tensor of shape \(3, 2\){said}"):
            converted(returned, 3, {})


class Old:
    """An encoder like those of sentence-transformers before version 5: `encode` with prompts."""

    def __init__(self, **prompts):
        self.prompts = prompts

    def encode(self, texts, prompt_name=None, batch_size=32):
        """Return counts (n, 3) of prompt and text."""
        return counts([self.prompts.get(prompt_name, "") + text for text in texts])


class New(Old):
    """One like those of version 5."""

    def encode_query(self, texts):
        """Return counts (n, 3), with one c more."""
        return self.encode(["c" + text for text in texts])

    def encode_document(self, texts):
        """Return counts (n, 3)."""
        return self.encode(texts)


ENCODERS = [
    (counts, [2, 1, 0], [2, 1, 0]),
    (Old(), [2, 1, 0], [2, 1, 0]),
    (Old(query="b", passage="a"), [2, 2, 0], [3, 1, 0]),
    (New(), [2, 1, 1], [2, 1, 0]),
    (lambda texts: named(counts(texts)), [2, 1], [2, 1]),
    (lambda text, size=3: counts(text)[:, :size], [2, 1, 0], [2, 1, 0]),
]


@pytest.mark.parametrize(
    ("given", "query", "document"), ENCODERS, ids=["function", "encode", "prompts", "two methods", "dicts", "a width"]
)
def test_an_encoder_has_one_or_two_functions(given, query, document):
    """A function and `encode` serve both sides, with the prompts of each; a method of a side comes first.

    The exact engine for the kind of vectors searches them.
    """
    encoder = adapted(given)

    found = [side(["aab"])[[0]] for side in (encoder.encode_query, encoder.encode_document)]
    assert [one.data.tolist() if sparse.issparse(one) else one[0].tolist() for one in found] == [query, document]
    assert encoder.kind is (Kind.SPARSE if sparse.issparse(found[0]) else Kind.DENSE)
    made = system(given)
    assert made.name == getattr(given, "__name__", type(given).__name__)
    assert type(made.retriever.engine).__name__ == ("Csr" if encoder.kind is Kind.SPARSE else "Flat")


def of_one_text(text: str) -> list[float]:
    """Return the counts of one text (3,)."""
    return counts([text])[0].tolist()


def clearing(texts):
    """Return counts (n, 3), and empty the list of texts."""
    found = counts(texts)
    texts.clear()
    return found


@pytest.mark.parametrize("given", [of_one_text, SimpleNamespace(encode=of_one_text), clearing])
def test_functions_are_called_as_they_ask(given):
    """A function of one text, as its signature says, is called for each; one that changes its list is asked for all texts."""
    encoder = adapted(given)

    assert (
        encoder.encode_query(["ab", "b"]).tolist()
        == encoder.encode_document(["ab", "b"]).tolist()
        == counts(["ab", "b"]).tolist()
    )


async def waiting(texts):
    """Return counts later."""
    return counts(texts)


def broken_later(texts):
    """Return an iterator that raises."""
    yield counts(texts)[0]
    raise ValueError("the second text is wrong")


def leaving(_texts):
    """Leave the program."""
    sys.exit(3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (waiting, r"waiting is asynchronous; give a function that waits, e\.g\. lambda texts: asyncio\.run"),
        (SimpleNamespace(encode=waiting), "SimpleNamespace is asynchronous"),
        (SimpleNamespace(search=waiting), r"SimpleNamespace is asynchronous; .* lambda texts: asyncio.run\(waiting\(texts\)\)"),
        (broken_later, "broken_later cannot encode: ValueError: the second text is wrong"),
        (leaving, "leaving cannot encode: SystemExit: 3"),
    ],
)
def test_functions_that_do_not_answer_are_one_line(given, message):
    """Asynchronous functions, iterators that raise and functions that leave the program end in one line with their name."""
    with pytest.raises(LexbenchError, match=message):
        adapted(given).encode_query(["a", "b"])


def test_terms_are_named_and_kept_in_one_session():
    """Dicts give terms their names; their columns are valid in this process only, even if the object has an identity."""
    old = type("Words", (), {"encode": lambda _, texts: named(counts(texts)), "identity": lambda _: {"a": 1}})()
    made = system(old)
    column = made.retriever.encoder.encode_query(["b"]).indices[0]

    assert made.retriever.encoder.token(column) == "b"
    assert made.retriever.encoder.names_terms
    assert not made.reusable
    with pytest.raises(LexbenchError, match="names its terms, which works in one process only: leave out on="):
        made.retriever.encoder.__reduce__()


THREE = type("Three", (), {"search": lambda self, queries, k, depth: None})  # its search takes three arguments


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (object(), "object cannot be benchmarked; give a name such as 'bm25', an object with encode"),
        (
            SimpleNamespace(predict=counts, rank=counts, forward=counts),
            r"another system found; save it, and type rerank\(bm25, ",
        ),
        (SimpleNamespace(transform=counts), "give its method, OBJECT.transform; or else a name such as 'bm25'"),
        (Old, r"Old is a class; give an object of it, e.g. Old\(\)"),
        (lambda: None, r"a function of one argument \(texts -> vectors\) or two \(queries, k -> "),
        (lambda a, b, c: None, r"a function of one argument"),
        (lambda texts: texts, "the encoder returned list of str"),
        (lambda query: [("d1", 1)], "with one vector per text; a function that searches takes two arguments, queries and k"),
        (lambda *k, **limit: None, "its signature does not say what it takes; give lambda queries, k: FUNCTION"),
        (lambda k, queries: None, "its first argument is k; it must take queries first, and then k"),
        (SimpleNamespace(invoke=counts), r"give a function, e.g. lambda query, k: OBJECT.invoke\(query\); or else a name"),
        (THREE(), "Three: its search takes 3 arguments; it must take two, queries and k"),
    ],
)
def test_other_objects_are_refused(given, message):
    """Anything else is refused in one line before any work."""
    with pytest.raises(LexbenchError, match=message):
        adapted(given)


# ---- search systems --------------------------------------------------------------------------------------------------------

CORPUS = {"d1": "red fox", "d2": "red car", "d3": "blue car", "d4": "blue fox fox"}
QUERIES = [Query("q1", "red"), Query("q2", "fox"), Query("q3", "green")]
FOUND = {"q1": [("d2", 1), ("d1", 1)], "q2": [("d4", 2), ("d1", 1)], "q3": []}  # of equal scores the larger id first


def found(given, path, k=10):
    """Return what a system finds for QUERIES, with its index in a store at *path*."""
    plugin = system(given).retriever
    bench = Bench(path, CORPUS)
    searcher = bench.searcher(plugin)
    hits, ids = searcher.search(searcher.encode_queries(QUERIES), k), bench.corpus.doc_ids.astype(str).tolist()
    return {
        query.query_id: [(ids[doc], score) for doc, score in zip(docs, scores, strict=True) if doc >= 0]
        for query, docs, scores in zip(QUERIES, hits.docs.tolist(), hits.scores.tolist(), strict=True)
    }


def count(query, documents):
    """Return how often the query is in each document that has it, {document id: score}."""
    return {name: text.split().count(query) for name, text in documents.items() if query in text.split()}


class Indexed:
    """A system with an index."""

    def index(self, corpus):
        """Keep the texts, in the form of beir."""
        assert all(set(fields) == {"title", "text"} for fields in corpus.values())
        self.texts = {name: fields["text"] for name, fields in corpus.items()}

    def search(self, queries, k):
        """Return dicts."""
        return {name: count(text, self.texts) for name, text in queries.items()}


class BeirSearch:
    """A search system of beir."""

    calls = 0

    def search(self, corpus, queries, top_k, score_function, **_):
        """Return dicts."""
        BeirSearch.calls += 1
        texts = {name: fields["text"] for name, fields in corpus.items()}
        return {name: count(text, texts) for name, text in queries.items() if name != "q3"}


def pairs(queries, k):
    """Return the lists from worst to best, and more than k documents."""
    return {name: list(count(text, CORPUS).items())[::-1] for name, text in queries.items()}


def pyterrier():
    """Return a transformer of PyTerrier, which needs no Java."""
    terrier = pytest.importorskip("pyterrier", reason="it comes with the extra pisa")
    rows = [(qid, docno, float(score)) for qid, docs in FOUND.items() for docno, score in docs]
    frame = pytest.importorskip("pandas").DataFrame(rows, columns=["qid", "docno", "score"])
    return terrier.Transformer.from_df(frame)


class Hit(NamedTuple):
    """A hit of a search library."""

    docid: str
    score: float
    text: str


def of_text(text):
    """Return the documents of one text as objects."""
    return [Hit(*one, "…") for one in FOUND[{query.text: query.query_id for query in QUERIES}[text]]]


def texts_in_a_list(queries, k):
    """Return a list per query; the function takes a list of texts, and does not say so."""
    return [of_text(text) for text in queries]


def by_text(queries, k):
    """Return a mapping by text."""
    return {text: of_text(text) for text in queries}


def annotated(texts: list[str], limit: int, explain=False):
    """Return a list per query, and need the list to be one."""
    return [of_text(texts[at]) for at in range(len(texts))]


class Columns(NamedTuple):
    """Ids and scores, whose length is the number of queries, like that of bm25s."""

    ids: list[list[str]]
    scores: list[list[float]]

    def __len__(self):
        """Return the number of queries."""
        return len(self.ids)


def columns(queries, k):
    """Return ids and scores, each as a list of lists, like bm25s; every query finds two documents."""
    every = [count(text, CORPUS) | {"d3": -1, "d2": -1} for text in queries.values()]
    return Columns([list(one) for one in every], [list(map(float, one.values())) for one in every])


def frame(queries, k):
    """Return a data frame."""
    rows = [(name, *one) for name, text in queries.items() for one in of_text(text)]
    return pytest.importorskip("pandas", reason=PANDAS).DataFrame(
        [(name, docid, score) for name, docid, score, _ in rows], columns=["qid", "docno", "score"]
    )


class Engine:
    """A search object with options between the query and the number of documents."""

    def search(self, query, index_name=None, *, limit=10):
        """Return an iterator."""
        assert index_name is None
        return iter(of_text(query)[:limit])


PANDAS = "pandas is not installed; pip install 'lexbench[pandas]'"
SEARCHES = {
    "a list of texts": lambda: texts_in_a_list,
    "by text": lambda: by_text,
    "an annotation": lambda: annotated,
    "one text": lambda: lambda query, k: of_text(query),
    "one text, annotated": lambda: annotate(lambda s, n: of_text(s), s=str),
    "an object of one text": Engine,
    "documents as well": lambda: lambda corpus, queries, k: BeirSearch().search(corpus, queries, k, ""),
    "in the order of the mapping": lambda: lambda queries, k: [of_text(text) for text in queries.values()],
    "a data frame": lambda: frame,
    "pairs of id and list": lambda: lambda queries, k: ((name, of_text(text)) for name, text in queries.items()),
    "values": lambda: lambda queries, k: {name: of_text(text) for name, text in queries.items()}.values(),
    "items": lambda: lambda queries, k: {name: of_text(text) for name, text in queries.items()}.items(),
    "function": lambda: pairs,
    "default k": lambda: lambda queries, top_k=10: pairs(queries, top_k),
    "numpy scores": lambda: lambda queries, k: {q: {d: np.float64(s) for d, s in FOUND[q]} for q in queries},
    "object": Indexed,
    "beir": BeirSearch,
    "pyterrier": pyterrier,
}


def annotate(function, **types):
    """Return a function with annotations."""
    function.__annotations__ = types
    return function


@pytest.mark.parametrize("kind", SEARCHES)
def test_every_search_system_finds_the_same(kind, tmp_path):
    """Functions, objects, and systems of beir and PyTerrier give the lists in one order; k cuts them."""
    given = SEARCHES[kind]()
    assert found(given, tmp_path / "store") == FOUND
    assert found(given, tmp_path / "other", k=1) == {query: docs[:1] for query, docs in FOUND.items()}
    assert not system(given).reusable


def series(values):
    """Return values as a Series of pandas."""
    return pytest.importorskip("pandas", reason=PANDAS).Series(values)


def sqlite_rows(rows):
    """Return rows of a database."""
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    return database.execute("select column1 as docid, column2 as score from (values (?, ?), (?, ?))", [*rows[0], *rows[1]])


def test_lists_of_ids_and_scores_are_paired(tmp_path):
    """A pair of tables, with the ids and the scores of each query, is read in the order of the queries."""
    assert found(columns, tmp_path / "store", k=2) == {
        "q1": [("d1", 1), ("d3", -1)],
        "q2": [("d4", 2), ("d1", 1)],
        "q3": [("d3", -1), ("d2", -1)],
    }


def test_what_a_function_was_given_has_a_note(tmp_path):
    """The first call decides between a mapping and a list; a function that reads no text may be mistaken."""
    systems = {"listed": texts_in_a_list, "stored": lambda queries, k: {name: FOUND[name] for name in queries}, "pairs": pairs}
    queries = {query.query_id: query.text for query in QUERIES}
    data = {"corpus": CORPUS, "queries": queries, "qrels": {"q1": {"d1": 1}}}
    results = lexbench.run(data, systems, measures=["nDCG@10"], store=tmp_path)
    said = {one.system: [line for line in texts_of(one.notes) if "given" in line] for one in results}
    assert said == {
        "listed": ["it was given a list of texts"],
        "stored": ["it was given texts by id, and read no text"],
        "pairs": [],
    }


# Answers that stand for the list "35", "12"; ids have two characters, so a text could be taken for a pair.
RANKINGS = {
    "ids": ["35", "12"],
    "numbers as ids": [35, 12],
    "an array of ids": np.array(["35", "12"]),
    "a tuple": ("35", "12"),
    "pairs": [("12", 0.5), ("35", 2)],
    "pairs with ids as numbers": [(35, 0.75), (12, 0.5)],
    "lists of JSON": [["35", 2.5], ["12", -1]],
    "rank and id": [(1, "35"), (2, "12")],
    "rank and id from 0": [(0, "35"), (1, "12")],
    "scores of NumPy": [("12", np.float32(0.5)), ("35", np.int64(3))],
    "scores first": [(0.5, "12"), (2.5, "35")],
    "ids and scores": (["12", "35"], [0.5, 2.5]),
    "scores and ids": [np.array([0.5, 2.5]), np.array([12, 35])],
    "objects": [SimpleNamespace(docid="12", score=0.5, docno=None), SimpleNamespace(docid="35", score=2)],
    "objects with their id in metadata": [
        SimpleNamespace(id=None, metadata={"doc_id": one, "page": 1}) for one in ("35", "12")
    ],
    "objects and scores": [(SimpleNamespace(id="12"), 0.5), (SimpleNamespace(id="35"), 2)],
    "rows of sqlite3": lambda: sqlite_rows([("12", 0.5), ("35", 2)]),
    "rows of Elasticsearch": [{"_id": "12", "_score": 1.5, "_source": {}}, {"_id": "35", "_score": 2.5, "_source": {}}],
    "rows": [{"id": "12", "score": 1}, {"id": "35", "score": 2}],
    "rows in order": [{"doc_id": "35", "rank": 1, "text": "x"}, {"doc_id": "12", "rank": 2, "text": "y"}],
    "a mapping": {"12": 1, "35": 2},
    "a series of scores": lambda: series({"12": 1, "35": 12}),
    "a series of ids": lambda: series(["35", "12"]),
}


@pytest.mark.parametrize("answer", RANKINGS.values(), ids=RANKINGS)
def test_every_clear_form_of_an_answer_is_the_same_list(answer):
    """A list of ids is a ranking, and a text is never a pair of its letters."""
    table = encode(["35", "3", "12", "1"])  # in descending order, as in a corpus
    answer = answer() if callable(answer) else answer
    searcher = ForeignSearcher("mine", lambda queries, k: dict.fromkeys(queries, answer), table)
    hits = searcher.search([Query("q1", "x")], 3)

    assert table[hits.docs[0]].tolist() == [b"35", b"12"]
    assert hits.scores[0][0] > hits.scores[0][1]


WRONG = [
    ([1], "it returned 1 entries for 3 queries; it must return {query id: {document id: score}}, or one list"),
    (3, "it returned int; it must return {query id: {document id: score}}; if it takes one text, call"),
    ([(1, 12), (2, 35), (3, 1)], "which of its pairs of whole numbers are ids? Return {query id: {id: score}}"),
    ({"q1": {7: 0.5}}, "query 'q1': document '7' is not in the corpus; a number must be the id of a document, not its"),
    (
        {"q1": [{"corpus_id": 7, "score": 0.5}]},
        "query 'q1': it answered \"[{'corpus_id': 7, 'score': 0.5}]\" (corpus_id is a position among the texts",
    ),
    (
        {"q1": [{"id": "d1", "score": 1, "relevance_score": 2}]},
        "query 'q1': it answered \"[{'id': 'd1', 'score': 1, 'relevance_score': 2}]\" (is the score in 'score' or in",
    ),
    ({"q1": {"d9": 1}}, "query 'q1': document 'd9' is not in the corpus"),
    ({"q1": {"d1": 1, "d2": float("nan")}}, "query 'q1': document 'd2' has a score that is no finite number"),
    ({"q2": [("d1", 1), ("d2", 1), ("d1", 3)]}, "query 'q2': document 'd1' comes twice"),
    ({"q4": {}}, "it answered query 'q4', which was not asked"),
    ([{"qid": "q1", "docs": ["d1"]}, {"qid": "q1", "docs": []}], "it answered query 'q1' twice"),
    (
        {"q1": {"d1": "high"}},
        "query 'q1': it answered \"{'d1': 'high'}\" (the score 'high' is no number); write",
    ),
    ({"q1": ["d1", "d9"]}, "query 'q1': document 'd9' is not in the corpus"),
    ({"q1": [(1, 12), (2, 35)]}, "query 'q1': it answered '[(1, 12), (2, 35)]' (which of the whole numbers are ids?)"),
    ({"q1": [(0.9, "d1"), ("d2", 0.5)]}, "query 'q1': it answered \"[(0.9, 'd1'), ('d2', 0.5)]\" (0.9 is no id)"),
    ({"q1": {1: "d1", 2: "d2"}}, "query 'q1': it answered \"{1: 'd1', 2: 'd2'}\" (the score 'd1' is no number)"),
    ({"q1": {"d1", "d2"}}, "query 'q1': it answered"),
    ({"q1": "d1"}, "query 'q1': it answered 'd1' (str is no list)"),
    (
        {"q1": [{"id": "d1", "distance": 0.2}]},
        "query 'q1': it answered \"[{'id': 'd1', 'distance': 0.2}]\" (a row has no",
    ),
    ({"q1": (["d1", "d2"], ["d3", "d4"])}, "query 'q1': it answered"),
    ({"q1": np.array([["d1", "2"]])}, "query 'q1': it answered \"[['d1' '2']]\" (the score"),
    ({"q1": [("d1", True)]}, "query 'q1': it answered \"[('d1', True)]\" (the score True is no number)"),
    ({"q1": None}, "query 'q1': it answered 'None' (NoneType is no list); write"),
]


@pytest.mark.parametrize(("answer", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_answers_name_system_query_and_document(answer, message, tmp_path):
    """A wrong answer is one line with the name of the system, the query and the document."""

    def mine(queries, k):
        return answer

    with pytest.raises(LexbenchError) as raised:
        found(mine, tmp_path / "store")
    assert str(raised.value).startswith(f"mine: {message}")


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (lambda queries, k: queries.lower(), "no attribute 'lower' .*'list' object has no .*call its first"),
        (lambda queries, k: [FOUND[name] for name in queries], "it read no text of .*, and of a list: KeyError: 'red'; if"),
        (lambda queries, k: list(queries.items())[k], "list index out of range$"),
        (lambda q, k: q.items(), "'str' object has no attribute 'items' .it was given one text; if it takes one text, call"),
    ],
    ids=["one text", "ids in order", "another error", "not one text"],
)
def test_a_failing_function_says_what_it_was_given(search, message, tmp_path):
    """If neither a mapping nor a list suits, the line has the errors of both, and how to say what the function takes."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - the class is the function's own
        found(search, tmp_path / "store")
    assert re.search(message, " ".join("".join(traceback.format_exception_only(raised.value)).split()))


def test_a_function_in_a_module_is_typed(tmp_path, capsys, monkeypatch):
    """On the command line, module:function is a system under this name or the user's, and reproduce.sh has both."""
    enter(tmp_path, monkeypatch)
    write_files(
        tmp_path, {"ones_of.py": "def ones(texts):\n    return [[text.count(one) for one in 'etaoinsr'] for text in texts]\n"}
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = ("run", "dataset", "pydoc/test", "--results", "board", "--json")
    typed = answer(capsys, *run, "-r", "ones_of:ones", "-r", "mine = ones_of:ones")
    assert [result["system"] for result in typed["results"]] == ["ones_of:ones", "mine"]
    assert typed["results"][0]["means"] == typed["results"][1]["means"]
    ended(capsys, 0, "leaderboard", "--results", "board")
    assert "-r ones_of:ones" in (repeats := (tmp_path / "board/reproduce.sh").read_text())
    assert "-r 'mine = ones_of:ones'" in repeats
    again = answer(capsys, *run, "-r", "mine")
    assert again["results"][0]["means"] == typed["results"][0]["means"]


def test_a_failing_system_costs_the_others_nothing(tmp_path):
    """Other systems have results, short lists have a note, and a system of beir gets all queries in one call."""
    BeirSearch.calls = 0

    def wrong(queries, k):
        return {name: {"nowhere": 1} for name in queries}

    systems = {"ok": lambda queries, k: {}, "bad": wrong, "beir": BeirSearch()}
    results = lexbench.run(DATA | {"name": "mine"}, systems, measures=["nDCG@10"], store=tmp_path)

    assert [result.system for result in results] == ["ok", "beir"]
    assert list(map(str, results.failures)) == ["bad on mine: wrong: query 'q1': document 'nowhere' is not in the corpus"]
    assert "it returned fewer than 4 documents for 2 of 2 queries" in texts_of(next(iter(results)).notes)
    assert BeirSearch.calls == 1


# ---- programs and servers --------------------------------------------------------------------------------------------------


def test_the_process_stays_as_it_was(tmp_path, monkeypatch, capsys):
    """A system changes the current folder, NumPy's errors and the output for itself alone; what it prints is no output."""
    monkeypatch.chdir(tmp_path)

    def moving(queries, k):
        sys.stdout.write("found")
        sys.stdout = None
        os.chdir("/")
        np.seterr(all="raise")
        return {query: count(text, CORPUS) for query, text in queries.items()}

    before = np.geterr()
    lexbench.run(DATA, [moving, "bm25"], measures=["nDCG@10"], results="board", store=tmp_path / "store")
    assert np.geterr() == before
    sys.stdout.write("written")
    out, err = capsys.readouterr()
    assert (out, err[:5]) == ("written", "found")
    written = (tmp_path / "board" / "results").glob("*/*.json")
    assert sorted(path.name for path in written) == ["bm25.json", "moving.json"]


def test_a_program_searches(tmp_path):
    """A program finds what other systems find; without a revision no other process reuses its answers."""
    program = tmp_path / "search"
    answers = {query: dict(docs) if query == "q2" else docs for query, docs in FOUND.items()}
    lines = ["import json, sys", f"answers = {answers!r}", "for line in sys.stdin:", "    qid = json.loads(line)['qid']"]
    lines += ["    print(json.dumps({'qid': qid, 'docs': answers[qid]}), flush=True)", ""]
    program.write_text("\n".join([f"#!{sys.executable}", *lines]))
    program.chmod(0o755)
    expression = f'command("{program}")'
    assert found(expression, tmp_path / "store") == FOUND

    plain, named = system(expression), system(f'command("{program}", revision="1")')
    assert (plain.reusable, named.reusable) == (False, True)
    program.write_text(program.read_text() + "\n")
    assert system(f'command("{program}", revision="1")').recipe != named.recipe


@pytest.mark.parametrize(
    ("scores", "said"), [((0.1, 0.2, 0.3), True), ((0.3, 0.2, 0.1), False), ((0.1, 0.3, 0.2), False), ((1, 1, 1), False)]
)
def test_distances_have_a_note(tmp_path, scores, said):
    """Answers whose scores rise from document to document, in every query, may be distances; a dict has an order, too."""
    pairs = list(zip(("d1", "d2", "d3"), scores, strict=True))
    names = ("q1", "q2", "q3")
    data = {"corpus": CORPUS, "queries": dict.fromkeys(names, "a"), "qrels": {one: {"d1": 1} for one in names}}
    answers = {form.__name__: lambda queries, _k, form=form: {one: form(pairs) for one in queries} for form in (list, dict)}
    for result in lexbench.run(data, answers, measures=["nDCG@10"], store=tmp_path):
        assert ("the scores never fall from line to line" in "".join(texts_of(result.notes))) is said


def test_distances_of_a_member_have_a_note(tmp_path):
    """A program that is a member of others is looked at, too."""
    program = tmp_path / "search"
    lines = ["import json, sys", "for line in sys.stdin:", "    query = json.loads(line)['qid']"]
    lines += ["    print(json.dumps({'qid': query, 'docs': {'d1': 1, 'd2': 2, 'd3': 3}}), flush=True)", ""]
    program.write_text("\n".join([f"#!{sys.executable}", *lines]))
    program.chmod(0o755)
    names = ("q1", "q2", "q3")
    data = {"corpus": CORPUS, "queries": dict.fromkeys(names, "a"), "qrels": {one: {"d1": 1} for one in names}}
    systems = [f'ensemble(bm25, command("{program}"))', f'pipeline(command("{program}"), bm25, k=2)']
    results = lexbench.run(data, systems, measures=["RR@2"], store=tmp_path, depth=2)

    notes = [text for result in results for text in texts_of(result.notes) if "never fall" in text]
    assert [note.partition(": the scores never fall")[0] for note in notes] == ["member 2", "member 1"]


def script(tmp_path, body, timeout=1.0):
    """Write a program in Python that runs *body* for each line, and return its expression with a *timeout* in seconds."""
    (tmp_path / "p.py").write_text(f"{PROGRAM}{body}\n")
    return f'command("{sys.executable} {tmp_path / "p.py"}", timeout={timeout})'


BROKEN = {  # what a program does for each line, and the error for query q1 or q2
    "sys.exit('no index\\nat all')": "q1': it ended with exit code 1 before it answered; the last line of its stderr: at all",
    "time.sleep(9)": "q1': no answer in 1 s; does it flush its output after each line? else give more, e.g. timeout=600",
    "write('hello')": 'q1\': it wrote \'hello\'; it must write {"qid": …, "docs": [[id, score], …]}',
    "write('[1]')": "q1': it wrote '[1]'; it must write",
    "answer('q2', [])": "q1': it answered query 'q2'; it must answer in the order",
    """write('{"qid": "q1", "docs": [], "docs": [["d1", 1]]}')""": "q1': it wrote '{",
    "answer(json.loads(line)['qid'], [['d1', 10**400]])": "q1': it answered \"[['d1', 1000000",
    "answer('q1', [['d9', 1]])": "q2': it answered query 'q1'; it must",
}
PROGRAM = """
import json, sys, time

def write(text):
    print(text, flush=True)

def answer(query, documents):
    write(json.dumps({"qid": query, "docs": documents}))

for line in sys.stdin:
    """


@pytest.mark.parametrize(("body", "message"), BROKEN.items(), ids=BROKEN.values())
def test_a_broken_program_is_one_line(body, message, tmp_path):
    """A crash, a hang and a wrong answer name the program, the query and what came."""
    expression = script(tmp_path, body, 1.0 if "sleep" in body else 60.0)  # a busy machine starts Python in seconds
    with pytest.raises(LexbenchError) as raised:
        found(expression, tmp_path / "store")
    assert str(raised.value).startswith(f"{expression.partition(', ')[0]}): query '{message}")


@pytest.fixture
def server():
    """Serve `answer(queries, k)`, a function that a test sets, on a free port; yield the server, which has a `url`."""

    def answer(_method, _path, body, _headers):
        asked = json.loads(body)
        return 200, made.answer(asked["queries"], asked["k"]), {}

    with serving(answer) as made:
        made.url += "/search"
        yield made


def test_a_server_searches(server, tmp_path):
    """A server finds what others find, in both forms of answers and one by one; a wrong answer is one line with its address."""
    sizes = []

    def listed(queries, k):
        sizes.append(len(queries))
        return [{"qid": one["qid"], "docs": list(count(one["text"], CORPUS).items())[:k]} for one in queries]

    server.answer = listed
    assert found(f'url("{server.url}")', tmp_path / "a") == FOUND
    assert found(f'url("{server.url}", batch=1)', tmp_path / "b") == FOUND
    assert sizes == [3, 1, 1, 1]
    server.answer = lambda queries, k: {one["qid"]: count(one["text"], CORPUS) for one in queries}
    assert found(f'url("{server.url}")', tmp_path / "c") == FOUND
    assert not system(f'url("{server.url}")').reusable
    server.answer = lambda queries, k: {"q1": {"d9": 1}}
    with pytest.raises(LexbenchError, match=f"^{server.url}: query 'q1': document 'd9' is not in the corpus$"):
        found(f'url("{server.url}")', tmp_path / "d")
    server.answer = lambda queries, k: [{"qid": "q1", "docs": []}]  # always the first query, as a server with a mixed-up cache
    with pytest.raises(LexbenchError, match=f"^{server.url}: it answered query 'q1', which was not asked"):
        found(f'url("{server.url}", batch=1)', tmp_path / "e")


ELASTIC = (
    'url("{url}/idx/_search?size={k}", body=\'{"query": {"match": {"text": "{query}"}}}\', documents="hits.hits", '
    'id="_source.id", score="_score", parallel=3)'
)
RANKS = (
    'url("{url}/indexes/idx/search", body=\'{"q": "{query}", "limit": {k}}\', documents="hits.0.list", score="", '
    'key="MY_KEY", header="X-API-Key: {key}")'
)


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ('url("{url}/v1/idx/search?query={query}&hits={k}", documents="candidates", id="docid")', "anserini"),
        (ELASTIC, "elasticsearch"),
        (RANKS, "ranks"),
    ],
)  # fmt: skip
def test_other_servers_are_asked_by_templates(tmp_path, monkeypatch, template, form):
    """A query with the characters of URLs, JSON and templates arrives unchanged, and the server's own form is read."""
    monkeypatch.setenv("MY_KEY", "sesame")
    odd = 'a&b="c" {k} {query} #?ü\\'
    asked = []

    def answer(method, path, body, headers):
        parts = urlsplit(path)
        words = dict(parse_qsl(parts.query))
        if form == "anserini":
            asked.append((method, words["query"], int(words["hits"])))
            found = sorted(count(words["query"], CORPUS).items(), key=lambda one: -one[1])
            return 200, {"candidates": [{"docid": name, "score": score, "rank": 1} for name, score in found]}, {}
        sent = json.loads(body)
        if form == "elasticsearch":
            asked.append((method, sent["query"]["match"]["text"], int(words["size"])))
            found = count(sent["query"]["match"]["text"], CORPUS)
            return 200, {"hits": {"hits": [{"_source": {"id": name}, "_score": score} for name, score in found.items()]}}, {}
        asked.append((method, sent["q"], sent["limit"]))
        assert headers["X-API-Key"] == "sesame"
        found = sorted(count(sent["q"], CORPUS).items(), key=lambda one: (-one[1], -int(one[0][1:])))
        return 200, {"hits": [{"list": [{"id": name} for name, _ in found]}]}, {}

    with serving(answer) as server:
        made = template.replace("{url}", server.url)
        lists = found(made, tmp_path / "a")
        system(made).retriever.asker()({"odd": odd}, 7)
        assert "sesame" not in str(system(made).recipe)
    if form == "ranks":
        expected = {query: [(name, -float(rank)) for rank, (name, _) in enumerate(best)] for query, best in FOUND.items()}
        assert lists == expected
    else:
        assert lists == FOUND
    method = "GET" if form == "anserini" else "POST"
    assert asked[-1] == (method, odd, 7)
    assert sorted(query for _, query, _ in asked[:-1]) == ["fox", "green", "red"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ('documents="hits"', "documents describe another server's form"),
        ('score="s", id="x"', "id, score describe another server's form"),
        ("body='{'", "body is no JSON"),
        ("body='{\"q\": 1}'", "write {query} where the query belongs"),
        ('header="X"', 'write it like header="X-API-Key: {key}"'),
        ("parallel=0", "from 1 up"),
    ],
)
def test_a_wrong_template_is_one_line(settings, says):
    """Each setting is obeyed or refused by name."""
    with pytest.raises(LexbenchError) as raised:
        system(f'url("http://localhost:9/x", {settings})')
    assert says in str(raised.value)


@pytest.mark.parametrize(
    "content", [{}, {"hits": 3}, {"hits": [3]}, {"hits": [{"id": "d1"}]}, {"hits": [{"id": None, "score": 1}]}, [],
                {"hits": [{"id": "d1", "score": "x"}]}, {"hits": [{"id": "d1", "score": 10**400}]},
                {"hits": [{"id": "d1", "score": True}]}, {"hits": [{"id": "d1", "score": "1_0"}]}]
)  # fmt: skip
def test_an_answer_of_another_form_is_one_line(content, tmp_path):
    """The line says which form was expected and shows the answer."""
    with serving(lambda *_: (200, content, {})) as server:
        made = f'url("{server.url}/s?q={{query}}", documents="hits")'
        with pytest.raises(LexbenchError, match="the answer is not a list at 'hits' of documents with 'id' and 'score': "):
            found(made, tmp_path)


@pytest.mark.parametrize(
    ("status", "more", "says"),
    [
        (200, {"timed_out": True}, "the server says that its answer is partial: timed_out is true"),
        (200, {"timed_out": False, "_shards": {"total": 5, "failed": 3}}, "partial: _shards.failed is 3"),
        (200, {"responseHeader": {"partialResults": True}}, "partial: responseHeader.partialResults is true"),
        (200, {"root": {"coverage": {"degraded": {"timeout": True}}}}, "partial: root.coverage.degraded is"),
        (206, {}, "status 206"),
        (200, b'{"hits": [], "hits": [{"id": "d1", "score": 1}]}', "the key 'hits' is there twice"),
    ],
)
def test_a_partial_answer_is_refused(status, more, says, tmp_path):
    """A server that could not search all of its index says so in its answer, or says two things."""
    hits = {"hits": [{"id": "d1", "score": 1}]}
    content = more if isinstance(more, bytes) else hits | more
    with serving(lambda *_: (status, content, {})) as server, pytest.raises(LexbenchError) as raised:
        found(f'url("{server.url}/s?q={{query}}", documents="hits")', tmp_path)
    assert says in str(raised.value)


# ---- timing ----------------------------------------------------------------------------------------------------------------

DATA = {
    "corpus": CORPUS,
    "queries": {query.query_id: query.text for query in QUERIES[:2]},
    "qrels": {query: {docs[0][0]: 1} for query, docs in FOUND.items() if docs},
}
SETTINGS = TimingSettings(seconds=0.01, threads=1, processes=2)


def test_objects_are_timed_in_this_process(tmp_path):
    """Encoders and search systems are timed in one process, are flagged and not ranked, and leave the process as it was."""
    before = os.sched_getaffinity(0)
    gc.freeze()  # as servers and notebooks do after their imports
    found = lexbench.run(DATA, {"encoder": counts, "search": Indexed()}, store=tmp_path, time=SETTINGS)

    assert not found.failures
    assert os.sched_getaffinity(0) == before
    assert gc.isenabled()
    assert gc.get_freeze_count(), "objects that the user froze are collected again"
    encoder, search = found
    for single, offline in (encoder.timings, search.timings):
        assert "in process" in single.flags
        assert "in process" in offline.flags
        assert single.unranked in ("noisy timing", "timing in the user's process")
        assert (single.checked, offline.checked) == (True, True)
        assert (single.processes, single.memory, single.queries) == (1, {}, 2)
    assert "index" in encoder.sizes
    assert "index" not in search.sizes  # it is in memory, of a size that nobody knows
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.parts[-3] in ("timings", "runs", "indexes")]
    assert list((tmp_path / "sessions").iterdir()) == []  # no other session can know these objects


def test_a_program_is_timed_with_its_round_trip(tmp_path):
    """A program is timed in a fresh process like other systems; a flag says that the round trip is included."""
    expression = script(tmp_path, "answer(json.loads(line)['qid'], [['d1', 1]])", timeout="60.0, revision='1'")
    settings = msgspec.structs.replace(SETTINGS, offline=False, processes=1)
    (result,) = lexbench.run(DATA, [expression], store=tmp_path / "store", time=settings)

    (single,) = result.timings
    assert (single.processes, single.checked, single.memory) == (1, True, {})
    assert "elsewhere" in single.flags
    assert "a program answers: the round trip is included, and its processor time is not in CPU/wall" in single.notes
    assert not any("it had its core for" in note for note in single.notes)


def test_what_cannot_be_timed_honestly_is_refused_before_work(tmp_path):
    """A search of beir gets the corpus in each call: its time would not be that of a search."""
    with pytest.raises(CannotStart, match="BeirSearch gets the corpus with every query, so its time is not that of a search"):
        lexbench.run("pydoc", [BeirSearch()], store=tmp_path, time=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow  # importing sentence-transformers takes ten seconds
def test_models_of_sentence_transformers(tmp_path):
    """The installed version gives the vectors of its own methods: dense ones, with prompts, and sparse ones."""
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the extra test")
    checkpoints = pytest.importorskip("checkpoints", reason="torch is in the extra neural")
    folder = str(checkpoints.masked_lm(tmp_path / "model", max_position_embeddings=64))
    model = library.SentenceTransformer(folder, device="cpu", prompts={"query": "w1 ", "document": "w2 w3 "})
    old = type("Old", (), {"encode": lambda _, texts, **kwargs: model.encode(texts, **kwargs), "prompts": model.prompts})()
    for encoder, scaled in ((adapted(model), True), (adapted(old), False)):  # the first states cosine
        for ours, theirs in (
            (encoder.encode_query, model.encode_query),
            (encoder.encode_document, model.encode_document),
        ):
            np.testing.assert_allclose(ours(["w4"]), theirs(["w4"], normalize_embeddings=scaled), rtol=1e-5, atol=1e-6)
    words = library.SparseEncoder(checkpoints.masked_lm(tmp_path / "mlm").as_posix(), device="cpu")
    vectors = adapted(words).encode_query(["w4 w5"])
    assert sparse.issparse(vectors)
    np.testing.assert_array_equal(vectors.toarray(), words.encode_query(["w4 w5"]).to_dense().numpy())


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "None"),
        ([[0, 1], [1, 0]], "int64 (2,) and int64 (2,)"),
        ({"docs": [[0]], "scores": [[1.0]]}, "<U4 () and <U6 ()"),
        (([[0.5, 1.0], [1.0, 0.0]], [[2.0, 1.0], [2.0, 1.0]]), "float64 (2, 2) and float64 (2, 2)"),
        (([[0, 1]], [[2.0, 1.0]]), "int64 (1, 2) and float64 (1, 2)"),
        (([[0, 1], [1, 0]], [[2.0], [2.0]]), "int64 (2, 2) and float64 (2, 1)"),
        (([[0, 1], [1]], [[2.0, 1.0], [2.0]]), "([[0, 1], [1]], [[2.0, 1.0], [2.0]])"),
        ((["d1", "d2"], [2.0, 1.0]), "<U2 (2,) and float64 (2,)"),
    ],
)
def test_what_a_search_returns_is_hits_or_refused(found, said):
    """Whole positions and scores of each query are needed; positions are not rounded, and nothing ends in a traceback."""
    with pytest.raises(LexbenchError) as error:
        as_hits(found, "Theirs", 2)
    assert f"Theirs returned {said}; return lexbench.types.Hits(docs, scores)" in str(error.value)
    assert str(error.value).endswith("both (2 queries, k)")
    hits = as_hits(([[0, 1], [1, -1]], [[2, 1], [0.5, 0]]), "Theirs")
    assert (hits.docs.tolist(), hits.scores.tolist()) == ([[0, 1], [1, -1]], [[2, 1], [0.5, 0]])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "NoneType"),
        (0.5, "ndarray of shape ()"),
        ([0.5], "ndarray of shape (1,)"),
        (["a", "b"], "list of str"),
        ([[0.5], [0.25]], "ndarray of shape (2, 1)"),
        ([0.5, np.nan], "nan"),
        ([-np.inf, 0.5], "-inf"),
        ([True, False], "list of bool"),
        ([[1, 2], [3]], "list of list"),
    ],
)
def test_what_a_reranker_returns_is_a_score_per_pair_or_refused(found, said):
    """One number would be the score of all documents, and NaN would hide behind the order: both are refused by name."""
    with pytest.raises(LexbenchError) as error:
        as_scores(found, "Theirs", (2,))
    assert str(error.value) == f"Theirs.score returned {said}; return a finite number for each document: float32 (2,)"


def test_a_reranker_on_workers_is_named_like_one_in_this_process():
    """What a worker returns comes unchanged, and the line names the user's class."""
    turns = SimpleNamespace(scored_pairs=lambda *_: ScoredPairs(None, np.zeros(1, bool)))
    with pytest.raises(LexbenchError, match=r"SimpleNamespace\.score returned NoneType; return a finite number"):
        RemoteReranker(SimpleNamespace(), 0, turns).scored_pairs(["q"], ["d"])


@pytest.mark.parametrize("form", [list, tuple, np.float64, FORMS["tensor"], FORMS["bfloat16"]])
def test_scores_come_as_a_user_has_them(form):
    """Lists, arrays of other types and tensors that require a gradient are scores; those of no document may be anything."""
    scores = as_scores(form(np.array([0.5, 2])), "Theirs", (2,))
    assert (scores.dtype, scores.tolist()) == (np.float32, [0.5, 2])
    padded = as_scores(np.array([[0.5, np.nan]]), "Theirs", (1, 2), np.array([[True, False]]))
    assert padded[0, 0] == 0.5


@pytest.mark.parametrize("own", [None, np.array([-1])])
def test_what_a_member_returns_is_hits_or_refused(own):
    """A member of an ensemble or a pipeline gets the same line."""
    member = SimpleNamespace(search=lambda _encoded, _k: ([[0.5]], [[1.0]]))
    with pytest.raises(LexbenchError, match=r"SimpleNamespace returned float64 \(1, 1\) and float64 \(1, 1\); return"):
        search_without(member, None, 1, own)


def test_an_engine_that_returns_something_else_costs_its_own_row(tmp_path, monkeypatch):
    """It gets one line that names it, and the other system of the run is measured."""
    monkeypatch.setattr("lexbench.engines.flat.FlatIndex.search", lambda *_: None)
    found = lexbench.run(DATA, {"words": "bm25", "encoder": counts}, store=tmp_path)

    assert [result.system for result in found] == ["words"]
    assert [str(one.error).startswith("Flat returned None; return") for one in found.failures] == [True]
