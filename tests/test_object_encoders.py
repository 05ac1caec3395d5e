"""Encoders of other libraries: what objects state is obeyed or refused by name, and they are called as their methods ask."""

import enum
from functools import partial
from inspect import Parameter, Signature
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import ClassVar, Literal

import numpy as np
import pytest
from scipy import sparse

import lexbench
from lexbench.arrays.vectors import converted, unit_length
from lexbench.encodings.shards import packed
from lexbench.engines.flat import Flat
from lexbench.errors import CommandError, LexbenchError
from lexbench.runner.adapters import adapted
from lexbench.runner.systems import system
from lexbench.testing.retrievers import Bench
from lexbench.types import Kind, MultiVectors

PLACES = {"alpha": [0, 1], "beta": [3, 3], "gamma": [1, 0], "delta": [0.4, 0.9]}
DATA = {
    "corpus": {"d1": "alpha", "d2": "beta", "d3": "gamma", "d4": "delta"},
    "queries": {"q1": "x"},
    "qrels": {"q1": {"d1": 1}},
}
# By hand, for the query (0, 1): products 1, 3, 0, .9; cosines 1, .707, 0, .914; distances 0, 3.606, 1.414, .412; 0, 5, 2, .5.
ORDERS = {
    "dot": ["d2", "d1", "d4", "d3"],
    "cosine": ["d1", "d4", "d2", "d3"],
    "euclidean": ["d1", "d4", "d3", "d2"],
    "manhattan": ["d1", "d4", "d3", "d2"],
}


def places(texts):
    """Return the place of each text (n, 2); that of queries is (0, 1)."""
    return np.array([PLACES.get(text, [0, 1]) for text in texts], float)


class Places:
    """An object like one of sentence-transformers, which states *similarity*."""

    prompts: ClassVar[dict[str, str]] = {}

    def __init__(self, similarity=None, form=np.asarray):
        self.similarity_fn_name, self.form = similarity, form

    def encode(self, texts, **kwargs):
        """Return places."""
        return self.form(places(texts))


def order(given):
    """Return the ids of the documents by the engine, best first; the rescorer must have the same scores."""
    plugin = system(given).retriever
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder), DATA["corpus"])
        searcher = bench.searcher(plugin)
        query = searcher.encode(["x"])
        hits, ids = searcher.search(query, 4), bench.corpus.doc_ids.astype(str)
        rescorer = bench.scorer(plugin)
        docs = hits.docs[0][hits.docs[0] >= 0]
        scores = rescorer.score(query, np.arange(4, dtype=np.int32)[None])[0]
        np.testing.assert_allclose(scores[docs], hits.scores[0][: len(docs)], rtol=1e-6, atol=1e-6)
    return ids[docs].tolist()


# ---- similarity ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ORDERS)
def test_the_stated_similarity_ranks(similarity):
    """Dense vectors are ranked by the similarity that an object states, exactly; engine and rescorer agree."""
    assert order(Places(similarity)) == ORDERS[similarity]


class Name(enum.Enum):
    """Like SimilarityFunction of sentence-transformers and ScoringFunction of mteb."""

    COSINE = "cosine"
    DOT = "dot"
    MAX_SIM = "MaxSim"


class Computes:
    """An object whose method `similarity` compares two matrices, or two vectors, by cosine."""

    def __init__(self, compare):
        self.similarity = compare

    def encode(self, texts):
        """Return places."""
        return places(texts)


def cosine(a, b):
    """Return the cosine of two vectors."""
    return float(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))


def with_meta():
    """Return an object that has a description for mteb, and methods of its own for queries and documents."""
    found = Places()
    found.mteb_model_meta = SimpleNamespace(similarity_fn_name=Name.COSINE)
    found.encode_query = found.encode_document = found.encode
    return found


STATED = {
    "an enumeration": lambda: Places(Name.COSINE),
    "another spelling": lambda: Places("cos_sim"),
    "the description for mteb": with_meta,
    "a wrapper": lambda: SimpleNamespace(encode=places, _client=Places("cosine")),
    "a method": lambda: Places("cosine").encode,
    "a method with settings": lambda: partial(Places("cosine").encode, batch_size=3),
    "a method similarity of matrices": lambda: Computes(lambda a, b: unit_length(a) @ unit_length(b).T),
    "a method similarity of vectors": lambda: Computes(cosine),
    **{
        f"the attribute {name}": lambda name=name: SimpleNamespace(encode=places, **{name: "cos_sim"})
        for name in ("similarity_function", "similarity_metric", "score_function", "distance_metric")
    },
    "Chroma's default space": lambda: SimpleNamespace(encode=places, default_space=lambda: "cosine"),
    "sparse vectors": lambda: Places("cosine", sparse.csr_array),
    "a vector per token": lambda: Places("cosine", lambda rows: [row[None] for row in rows]),
}


@pytest.mark.parametrize("place", STATED)
def test_every_place_that_states_a_similarity_is_read(place):
    """Cosine is read from each place where libraries state it, for every kind of vectors, and is in the key and in a note."""
    given = STATED[place]()

    found = order(given)
    assert found == ORDERS["cosine"][: len(found)]  # sparse search does not return d3, whose score is 0
    assert len(found) >= 3
    made = system(given)
    assert made.recipe["settings"]["encoder"]["similarity"] == "cosine"
    assert any("compared by cosine, as it states" in line for line in made.retriever.encoder.notes())


def test_other_similarities_are_refused_by_name():
    """An unknown name, a method that computes something else, maxsim of one vector, and distances of sparse vectors."""
    with pytest.raises(CommandError, match=r"Places.similarity_fn_name states the similarity 'jaccard', and lexbench has dot"):
        adapted(Places("jaccard"))
    raising = type("Raising", (Computes,), {"similarity_fn_name": property(lambda _: 1 // 0)})(cosine)
    with pytest.raises(CommandError, match=r"Raising\.similarity_fn_name cannot be read: ZeroDivisionError"):
        adapted(raising)
    with pytest.raises(CommandError, match="its method similarity computes none of cosine, dot, euclidean, manhattan"):
        adapted(Computes(lambda a, b: (a @ b.T) ** 3))
    with pytest.raises(LexbenchError, match="Places states maxsim, and returned one vector per text"):
        adapted(Places(Name.MAX_SIM))
    with pytest.raises(CommandError, match=r"csr compares vectors by dot product, and the model states .* euclidean"):
        system(Places("euclidean", sparse.csr_array))
    assert adapted(Places(Name.MAX_SIM, lambda rows: [row[None] for row in rows])).kind is Kind.MULTI


def test_flat_says_which_similarities_it_has():
    """Distances can be typed for an engine; another word is refused."""
    assert Flat(similarity="euclidean").for_metric("dot").similarity == "euclidean"
    with pytest.raises(CommandError, match=r"flat\(similarity='cosine'\): there is dot, euclidean, manhattan; for cosine type"):
        Flat(similarity="cosine")


def test_a_zero_vector_has_no_direction():
    """Scaling keeps vectors of 0, for every kind."""
    rows = np.array([[0, 0], [3, 4]], np.float32)
    for found in (
        unit_length(rows),
        unit_length(sparse.csr_array(rows)).toarray(),
        unit_length(MultiVectors(rows, np.array([0, 2]))).values,
    ):
        np.testing.assert_allclose(found, [[0, 0], [0.6, 0.8]], rtol=1e-6)


# ---- codes -----------------------------------------------------------------------------------------------------------------

BITS = np.array([[255, 0], [3, 7], [1, 1]], np.uint8)


def torch_of(matrix):
    """Return a tensor; skips the test without torch."""
    return pytest.importorskip("torch", reason="it is in the extra neural").from_numpy(matrix)


CODES = {
    "packed bits": lambda: BITS,
    "int8": lambda: BITS.astype(np.int8),
    "a tensor": lambda: torch_of(BITS),
    "a list of arrays": lambda: list(BITS),
    "a list of tensors": lambda: list(torch_of(BITS)),
    "an array of objects": lambda: np.array([*list(BITS), None], object)[:3],
    "a vector per token": lambda: [BITS[:2], BITS[:1], BITS],
    "MultiVectors": lambda: MultiVectors(BITS, np.array([0, 1, 2, 3])),
    "a matrix": lambda: np.matrix(BITS),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("form", CODES)
def test_codes_are_no_vectors(form):
    """8-bit codes and packed bits are refused in every form, and the message says how codes are made."""
    with pytest.raises(LexbenchError, match=r"of u?int8: 8-bit codes are no vectors .* MODEL\|binary@flat\(rescore=4\)"):
        converted(CODES[form](), 3, {})


MASKED = np.ma.array(np.ones((3, 2)), mask=np.eye(3, 2))
NO_NUMBERS = {  # what an encoder returns, and the message
    "masked": (MASKED, "MaskedArray of shape .* with masked values; return numbers"),
    "masked rows": (list(MASKED), "with masked values"),
    "masked tokens": ([MASKED, MASKED, MASKED], "with masked values"),
    "a frame of codes": (None, "8-bit codes are no vectors"),
    "wrong offsets": (MultiVectors(np.ones((3, 2)), np.array([0, 1, 2, 2])), "returned MultiVectors of shape"),
    "offsets that fall": (MultiVectors(np.ones((3, 2)), np.array([0, 3, 2, 3])), "returned MultiVectors of shape"),
    "no offsets": (MultiVectors(np.ones((3, 2)), np.array([], int)), "returned MultiVectors"),
}


@pytest.mark.parametrize("form", NO_NUMBERS)
def test_masks_and_wrong_offsets_are_refused(form):
    """Values that numpy would take from below a mask, codes in a data frame, and offsets that leave vectors out."""
    returned, message = NO_NUMBERS[form]
    if form == "a frame of codes":
        returned = pytest.importorskip("pandas").DataFrame(BITS)
    with pytest.raises(LexbenchError, match=message):
        converted(returned, 3, {})


def test_plug_ins_return_numbers():
    """Vectors of an Encoder are checked like those of objects: codes, complex numbers and masks are refused by name."""
    for vectors, message in (
        (BITS, "8-bit codes"),
        (np.ones((3, 2), complex), "of complex128; return real numbers"),
        (sparse.csr_array(np.ones((3, 2), complex)), "of complex128; return real numbers"),
        (MASKED, "with masked values"),
        (MultiVectors(MASKED, np.arange(4)), "with masked values"),
    ):
        with pytest.raises(LexbenchError, match=message):
            packed(vectors)


def test_weights_may_be_small_numbers():
    """Sparse weights of 8 bits, flags, and whole numbers of other types are numbers."""
    for form in (sparse.csr_array(BITS), BITS > 1, BITS.astype(int), BITS.tolist()):
        assert converted(form, 3, {}).dtype == np.float32


# ---- how objects are called ------------------------------------------------------------------------------------------------
# Each returns vectors (1, 0) for texts that it encodes as queries, and (0, 1) for documents. The signatures are those of the
# libraries' releases in November 2026.


def as_role(texts, role):
    """Return a vector per text that says its role."""
    assert all(isinstance(text, str) for text in texts)
    return np.array([[role == "query", role == "document"] for _ in texts], float)


class SentenceTransformers:
    """The methods that sentence-transformers 6 has: both pass `task` to `encode`."""

    prompts: ClassVar[dict[str, str]] = {"query": "", "document": ""}
    similarity_fn_name = "cosine"

    def encode_query(self, inputs, prompt_name=None, prompt=None, batch_size=32, show_progress_bar=None, **kwargs):
        """Encode as queries."""
        return self.encode(inputs, prompt_name=prompt_name, prompt=prompt, task="query", **kwargs)

    def encode_document(self, inputs, prompt_name=None, prompt=None, batch_size=32, show_progress_bar=None, **kwargs):
        """Encode as documents."""
        return self.encode(inputs, prompt_name=prompt_name, prompt=prompt, task="document", **kwargs)

    def encode(self, inputs, prompt_name=None, prompt=None, batch_size=32, **kwargs):
        """Encode as the task says."""
        return as_role(inputs, kwargs.get("task"))


class PyLate(SentenceTransformers):
    """PyLate 1.6: `encode` has is_query, and does not take task."""

    similarity_fn_name = "MaxSim"

    def encode(self, sentences, prompt_name=None, prompt=None, batch_size=32, is_query=True, pool_factor=1):
        """Encode queries unless told otherwise."""
        return [row[None] for row in as_role(sentences, "query" if is_query else "document")]


class PyLateWithAny(PyLate):
    """The same, with further settings."""

    def encode(self, sentences, is_query=True, **kwargs):
        """Encode queries unless told otherwise."""
        return [row[None] for row in as_role(sentences, "query" if is_query else "document")]


class Replaced(SentenceTransformers):
    """A subclass whose `encode` takes no task: prompts tell the roles apart."""

    prompts: ClassVar[dict[str, str]] = {"query": "query: ", "passage": "passage: "}

    def encode(self, sentences, prompt_name=None):
        """Encode as the prompt's name says."""
        return as_role(sentences, "document" if prompt_name == "passage" else prompt_name)


class FlagModel:
    """FlagEmbedding 1.4: lists of texts."""

    def encode_queries(self, queries: list[str] | str, batch_size: int | None = None, **kwargs):
        """Encode queries; other settings would reach the tokenizer."""
        assert not kwargs
        return as_role(queries, "query")

    def encode_corpus(self, corpus: list[str] | str, batch_size: int | None = None, **kwargs):
        """Encode texts."""
        assert not kwargs
        return as_role(corpus, "document")


class BGEM3(FlagModel):
    """BGE-M3: a table with one value, unless more are asked for."""

    def encode_queries(self, queries: list[str] | str, **kwargs):
        """Return a table."""
        return {"dense_vecs": as_role(queries, "query"), "lexical_weights": None, "colbert_vecs": None}

    def encode_corpus(self, corpus: list[str] | str, **kwargs):
        """Return a table."""
        return {"dense_vecs": as_role(corpus, "document"), "lexical_weights": None, "colbert_vecs": None}


class Untyped:
    """A model with beir's methods that takes texts, without annotations."""

    def encode_queries(self, queries, **kwargs):
        """Encode queries."""
        return as_role(queries, "query")

    def encode_corpus(self, corpus):
        """Encode texts; a dict has no hash."""
        return as_role([{text: text}[text] for text in corpus], "document")


class LangChain:
    """LangChain: lists of numbers, queries one by one."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Encode texts."""
        return as_role(texts, "document").tolist()

    def embed_query(self, text: str) -> list[float]:
        """Encode one query."""
        return as_role([text], "query")[0].tolist()


class LlamaIndex:
    """LlamaIndex: other names."""

    def get_text_embedding_batch(self, texts, show_progress=False, **kwargs):
        """Encode texts."""
        return as_role(texts, "document").tolist()

    def get_query_embedding(self, query):
        """Encode one query."""
        return as_role([query], "query")[0].tolist()


class FastEmbed:
    """fastembed: generators."""

    def embed(self, documents, batch_size=256, parallel=None):
        """Encode texts as documents."""
        yield from as_role(documents, "document")

    def passage_embed(self, texts):
        """Encode texts."""
        yield from as_role(texts, "document")

    def query_embed(self, query):
        """Encode queries."""
        yield from as_role(query, "query")


class Side(enum.StrEnum):
    """Like mteb's PromptType."""

    query = "query"
    document = "document"


def by_input_type(texts, input_type: Literal["search_query", "search_document"] = "search_document"):
    """Encode like clients of servers."""
    return as_role(texts, input_type.removeprefix("search_"))


class ByPromptType:
    """An object whose `encode` takes a member of an enumeration."""

    def encode(self, texts, prompt_type: Side | None = None):
        """Encode as the member says."""
        return as_role(texts, prompt_type.value)


class ByDefault:
    """An object whose parameter has no annotation, and a default that says what it is for."""

    def encode(self, texts, input_type="passage"):
        """Encode as the type says."""
        return as_role(texts, {"passage": "document"}.get(input_type, input_type))


def flagged(texts, is_doc=False):
    """Encode queries unless told otherwise."""
    return as_role(texts, "document" if is_doc else "query")


class Chroma:
    """Chroma's EmbeddingFunction: its call encodes documents, `embed_query` a list of queries."""

    def __call__(self, input):  # noqa: A002 - the name is theirs
        """Encode documents."""
        return as_role(input, "document").tolist()

    def embed_query(self, input):  # noqa: A002
        """Encode queries."""
        return as_role(input, "query").tolist()


def pair(document, query):
    """Return an object with two methods of these names, each of a list."""
    methods = {name: staticmethod(partial(as_role, role=role)) for name, role in ((document, "document"), (query, "query"))}
    return type("Pair", (), methods)()


class WithParameter:
    """An object whose `encode` has one parameter more, with a default."""

    def __init__(self, name, values, default):
        self.name, self.values, self.default = name, values, default
        parameters = [Parameter(one, Parameter.POSITIONAL_OR_KEYWORD) for one in ("self", "texts")]
        parameters.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default))
        self.encode = self._encode
        type(self)._encode.__signature__ = Signature(parameters)

    def _encode(self, texts, **given):
        return as_role(texts, self.values[given.get(self.name, self.default)])


OF_FLAG = {True: "query", False: "document"}
UNUSUAL = {  # the name of a parameter, what its values mean, and its default
    "mode": ({"query": "query", "document": "document"}, "document"),
    "text_kind": ({"query": "query", "passage": "document"}, "passage"),
    "side": ({"search_query": "query", "search_document": "document"}, "search_document"),
    "as_query": (OF_FLAG, False),
    "queries": (OF_FLAG, False),
    "for_documents": ({True: "document", False: "query"}, True),
}
PAIRS = (
    ("encode_documents", "encode_queries"),
    ("encode_passages", "encode_queries"),
    ("encode_passage", "encode_query"),
    ("encode_corpus", "encode_query"),
    ("embed_documents", "embed_queries"),
    ("embed_passages", "embed_queries"),
)

OBJECTS = {
    "Chroma": (Chroma(), "documents by its call, queries by embed_query, which takes a list"),
    **{f"{one} and {two}": (pair(one, two), f"documents by {one}, queries by {two}") for one, two in PAIRS},
    "sentence-transformers": (SentenceTransformers(), ""),
    "PyLate": (PyLate(), "documents by encode(is_query=False), queries by encode(is_query=True)"),
    "PyLate with any settings": (PyLateWithAny(), "documents by encode(is_query=False), queries by encode(is_query=True)"),
    "a method of PyLate": (PyLate().encode, "documents by encode(is_query=False), queries by encode(is_query=True)"),
    "a subclass of sentence-transformers": (
        Replaced(),
        "documents by encode(prompt_name='passage'), queries by encode(",
    ),
    "FlagEmbedding": (FlagModel(), "documents by encode_corpus, which takes texts, queries by encode_queries"),
    "BGE-M3": (BGEM3(), "of the table that it returned, dense_vecs was taken"),
    "untyped": (Untyped(), "its encode_corpus does not take beir's documents, so it got their texts"),
    "LangChain": (LangChain(), "documents by embed_documents, queries by embed_query"),
    "LlamaIndex": (LlamaIndex(), "documents by get_text_embedding_batch, queries by get_query_embedding"),
    "fastembed": (FastEmbed(), "documents by passage_embed, queries by query_embed"),
    "input_type": (by_input_type, "documents by by_input_type(input_type='search_document'), queries by by_input_type("),
    "prompt_type": (ByPromptType(), "documents by encode(prompt_type='document'), queries by encode(prompt_type='query')"),
    "a default": (ByDefault(), "documents by encode(input_type='passage'), queries by encode(input_type='query')"),
    "a flag": (flagged, "documents by flagged(is_doc=True), queries by flagged(is_doc=False)"),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_called_as_their_signatures_ask(name):
    """Queries are encoded as queries and documents as documents, and a note says how, unless the methods' names say it."""
    given, said = OBJECTS[name]
    encoder = adapted(given)

    for side, column in ((encoder.encode_query, 0), (encoder.encode_document, 1)):
        vectors = side(["red", "blue"])
        rows = vectors.values if isinstance(vectors, MultiVectors) else vectors
        assert rows[:, column].tolist() == [1, 1]
        assert rows[:, 1 - column].tolist() == [0, 0]
    assert any(line.startswith(said) for line in encoder.notes()) if said else len(encoder.notes()) == 1


@pytest.mark.parametrize("name", UNUSUAL)
def test_parameters_that_tell_the_roles_apart_are_found_by_their_values(name):
    """A switch with a role in its name, and any parameter whose default is a role, whatever it is called."""
    values, default = UNUSUAL[name]
    encoder = adapted(WithParameter(name, values, default))
    assert encoder.encode_query(["red"]).tolist() == [[1, 0]]
    assert encoder.encode_document(["red"]).tolist() == [[0, 1]]
    assert any(f"({name}=" in line for line in encoder.notes())


def test_an_instruction_that_nobody_gives_is_noted():
    """GritLM's `encode` takes an instruction for queries, which is empty unless somebody gives it."""

    class GritLM:
        def encode(self, sentences, batch_size=256, max_length=512, instruction=""):
            return as_role(sentences, "query" if instruction else "document")

    assert adapted(GritLM()).notes() == ["queries by encode without instruction=…; to give it, write a function"]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, lambda matrix: [row[None] for row in matrix]])
def test_vectors_that_change_are_noted(form):
    """A model with dropout gives one text two vectors; rounding and growing widths are no change."""
    numbers = count(1)

    def notes(vectors):
        return [line for line in adapted(lambda texts: form(vectors(texts))).notes() if line.startswith("one text got two")]

    def steps(step):
        return lambda texts: np.array([[1, 1 + step * next(numbers)]] * len(texts), float)

    assert (len(notes(steps(0.1))), len(notes(steps(1e-4)))) == (1, 0)
    assert not notes(lambda texts: np.ones((len(texts), next(numbers))))


@pytest.mark.parametrize("order", [sorted, lambda texts: sorted(texts, key=len, reverse=True), reversed, list])
def test_another_order_of_the_vectors_is_noted(order):
    """An encoder that sorts its texts and returns the vectors in this order gives a text the vector of another one."""
    made = adapted(lambda texts: np.array([[len(text), 0.5] for text in order(texts)]))
    assert ["in the order of the texts" in line for line in made.notes()] == [True] * (order is not list)


def test_codes_whose_type_got_lost_are_noted():
    """Whole numbers alone, as in a list of int8 codes, are strange; short vectors and other numbers are not."""
    note = "its vectors have whole numbers alone, as codes have: int8 codes and packed bits are no vectors"

    def lists(texts):
        return [[-3, 127, 0, 5, 9, -128, 1, 2] for _ in texts]

    assert adapted(lists).notes() == [note]
    for numbers in ([1.0, 3.0], [0.5, *range(8)], [0, 1] * 8, [-1, 1] * 8, [300, *range(8)]):
        assert adapted(lambda texts, numbers=numbers: [numbers for _ in texts]).notes() == []


def test_sparse_vectors_of_indices_and_values_are_taken():
    """Objects of fastembed and Qdrant have indices, which may be any numbers, and values."""
    rows = [
        SimpleNamespace(indices=np.array([7, 2_000_000_000]), values=np.array([0.5, 2])),
        {"indices": [7], "values": [3]},
    ]
    columns = {}
    found = converted(rows, 2, columns)
    assert [found[0, columns["7"]], found[0, columns["2000000000"]], found[1, columns["7"]]] == [0.5, 2, 3]
    assert found.nnz == 3


def unknown_values(texts, input_type=None):
    """Take a parameter whose values nobody states."""


def failing(texts):
    """Fail like foreign code."""
    raise KeyError("no such\nmodel")


REFUSED = [
    (unknown_values, CommandError, r"unknown_values: its encode takes input_type=…, which may tell queries from documents"),
    (failing, LexbenchError, r"failing cannot encode: KeyError: 'no such\\nmodel'"),
    (lambda texts: [{"known": [1.0]}[text] for text in texts], LexbenchError, r"'what .*\?', which is a trial; give vectors"),
    (lambda texts: {"dense_vecs": 1, "colbert_vecs": 2}, LexbenchError, "a table of dense_vecs, colbert_vecs, and one of them"),
    (lambda texts: {"dense_vecs": None}, LexbenchError, "returned a table of , and one"),
]


@pytest.mark.parametrize(("given", "error", "message"), REFUSED, ids=[message[:30] for *_, message in REFUSED])
def test_what_is_not_clear_is_refused_in_one_line(given, error, message):
    """An unknown parameter, an exception and a table of several vectors are one line that names the object."""
    with pytest.raises(error, match=message) as raised:
        adapted(given)
    assert "\n" not in str(raised.value)


def test_an_exception_during_a_run_is_one_line(tmp_path):
    """An exception of foreign code in the middle of a run names the object, and other systems keep their results."""

    def fragile(texts):
        if "gamma" in texts:
            raise RuntimeError("out of\nwords")
        return [[1.0] for _ in texts]

    found = lexbench.run(DATA, {"fragile": fragile, "ok": lambda texts: [[1.0] for _ in texts]}, store=tmp_path)
    assert [result.system for result in found] == ["ok"]
    (line,) = (failure.error for failure in found.failures)
    assert "document 'd3' cannot be encoded: fragile cannot encode: RuntimeError: out of words" in line
