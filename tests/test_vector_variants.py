"""Cut vectors, int8 and bits: by hand, against sentence-transformers' codes, a plain loop and Faiss."""

import numpy as np
import pytest
from samples import texts_of
from scipy import sparse

from lexbench.engines.flat import Flat
from lexbench.engines.impact import Impact
from lexbench.engines.kernels.code_products import raw_scores
from lexbench.errors import CommandError, LexbenchError
from lexbench.plugins import Encoder, Transform
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.systems import describe, named_systems, system
from lexbench.storage.artifact_folder import ENGINE_DIR, VECTORS_FILE, notes_in
from lexbench.testing.retrievers import Bench
from lexbench.transforms.binary import Binary
from lexbench.transforms.int8 import Int8
from lexbench.transforms.quantize import Quantize
from lexbench.transforms.truncate import Truncate
from lexbench.types import Codes, Kind, MultiVectors

WIDTH, DOCUMENTS, QUERIES = 44, 900, 13  # a width that fills no whole word


@pytest.fixture(scope="module")
def data():
    """Return random documents and queries, of which some numbers are 0."""
    chance = np.random.default_rng(4)
    documents, queries = (chance.normal(size=(count, WIDTH)).astype(np.float32) for count in (DOCUMENTS, QUERIES))
    documents[:, 3] = 0.25  # a dimension that never varies
    documents[7], documents[11] = 0, documents[12]
    return documents, queries


def built(engine, transforms, documents, path, shards=3):
    """Build an index of the transformed documents, in shards, and return its index and the transforms ready for queries."""
    retriever = Encoded(None, engine, tuple(transforms)).learned(lambda: np.array_split(documents, shards))
    path.mkdir()
    engine.build((retriever.as_documents(shard) for shard in np.array_split(documents, shards)), path)
    return engine.open(path), retriever


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda vectors: vectors[:-1], "ndarray (80, 44) of 81"),
        (lambda vectors: None, "NoneType of 81"),
        (lambda vectors: vectors.tolist(), "list of 81"),
        (sparse.csr_array, "csr_array (81, 44) of 81"),
    ],
    ids=["fewer", "nothing", "a list", "another kind"],
)
def test_a_transform_returns_as_many_vectors_of_one_kind(data, change, said):
    """Fewer vectors would belong to other documents."""

    class Mine(Transform):
        learns = False

        def document(self, vectors):
            return change(vectors)

    with pytest.raises(LexbenchError) as raised:
        Encoded(None, Flat(), (Mine(),)).as_documents(data[0][:81])
    assert str(raised.value) == f"Mine made {said} dense vectors; it must return as many, of the same kind"


def best(scores, k):
    """Return the positions and scores of the k best, of equal scores the lower position first, by a plain sort."""
    order = np.lexsort((np.broadcast_to(np.arange(scores.shape[1]), scores.shape), -scores), axis=1)[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


# ---- cutting ---------------------------------------------------------------------------------------------------------------


def test_vectors_of_length_1_are_scaled_again_after_the_cut():
    """(3, 4, 12) / 13 becomes (.6, .8); a vector of another length is only cut, and 0 stays 0; token vectors likewise."""
    rows = np.array([[3, 4, 12], [0, 0, 0], [39, 52, 156]], np.float32) / 13
    expected = [[0.6, 0.8], [0, 0], [3, 4]]

    cut = Truncate(2)
    np.testing.assert_allclose(cut.document(rows), expected, rtol=1e-6)
    np.testing.assert_allclose(cut.query(rows), expected, rtol=1e-6)
    np.testing.assert_allclose(cut.document(MultiVectors(rows, np.array([0, 1, 3]))).values, expected, rtol=1e-6)
    assert Truncate(3).document(rows) is rows
    with pytest.raises(CommandError, match=r"truncate\(4\): the vectors have 3 dimensions; type fewer"):
        Truncate(4).document(rows)
    with pytest.raises(CommandError, match=r"truncate\(0\) keeps nothing; give a whole number from 1"):
        Truncate(0)


# ---- bits ------------------------------------------------------------------------------------------------------------------


def test_bits_are_signs():
    """A number above 0 is 1; the first dimension is the highest bit."""
    codes = Binary().document(np.array([[1, -1, 0, 2, 0, 0, 0, 3, 0.5]], np.float32))
    assert codes.values.tolist() == [[0b10010001, 0b10000000]]
    assert (codes.shape, codes.bytes_per_text) == ((1, 9), 2 + 36)


@pytest.mark.parametrize("k", [5, 40, DOCUMENTS + 1])
def test_bits_are_found_by_hamming_distance(data, tmp_path, k):
    """Lists and scores are those of a plain count: as many equal bits as possible, of equal ones the lower position."""
    documents, queries = data
    index, ready = built(Flat(), [Binary()], documents, tmp_path / "index")
    hits = index.search(ready.as_queries(queries), k)
    docs, equal = best(((queries[:, None] > 0) == (documents > 0)).sum(axis=2), k)

    assert np.array_equal(hits.docs, docs)
    assert np.array_equal(hits.scores, 2 * equal - WIDTH)  # the product of signs


def test_bits_are_those_of_faiss(data, tmp_path):
    """Distances are those of IndexBinaryFlat, and so are the documents, but for those as far as the last one."""
    faiss = pytest.importorskip("faiss", reason="it is in the extra faiss")
    documents, queries = data
    index, ready = built(Flat(), [Binary()], documents, tmp_path / "index")
    asked = ready.as_queries(queries)
    other = faiss.IndexBinaryFlat(8 * asked.values.shape[1])
    other.add(np.packbits(documents > 0, axis=1))
    distances, found = other.search(asked.values, 50)

    hits = index.search(asked, 50)
    assert np.array_equal((WIDTH - hits.scores) / 2, distances)
    near = distances < distances[:, -1:]
    for ours, theirs, nearer in zip(hits.docs, found, near, strict=True):
        assert nearer.sum() > 20
        assert set(ours[nearer]) == set(theirs[nearer])


# ---- int8 ------------------------------------------------------------------------------------------------------------------


def test_int8_codes_are_those_of_sentence_transformers(data):
    """With the ranges of the corpus, codes of documents are the same."""
    quantization = pytest.importorskip("sentence_transformers.util.quantization", reason="it is in the extra test")
    documents, _ = data
    ready = Int8().learned(np.array_split(documents, 4))
    expected = quantization.quantize_embeddings(documents, "int8", ranges=ready.ranges)

    assert np.array_equal(ready.ranges, [documents.min(0), documents.max(0)])
    assert np.array_equal(ready.document(documents).values, expected)


@pytest.mark.parametrize("k", [5, DOCUMENTS + 1])
def test_int8_is_found_by_whole_products(data, tmp_path, k):
    """Lists are those of a plain loop over whole numbers; scores are near those of the vectors."""
    documents, queries = data
    index, ready = built(Flat(), [Int8()], documents, tmp_path / "index")
    asked = ready.as_queries(queries)
    hits = index.search(asked, k)
    codes = ready.as_documents(documents).values
    sums = [
        [sum(int(a) * int(b) for a, b in zip(query, document, strict=True)) for document in codes] for query in asked.values
    ]
    docs, whole = best(np.array(sums), k)

    assert np.array_equal(hits.docs, docs)
    np.testing.assert_allclose(hits.scores, whole * asked.scales[:, None] + asked.offsets[:, None], rtol=1e-5, atol=1e-5)
    exact = np.take_along_axis(queries @ documents.T, docs, axis=1)
    np.testing.assert_allclose(hits.scores, exact, atol=0.3)  # of products from about -20 to 20


def test_int8_is_that_of_faiss(data, tmp_path):
    """Faiss finds the same documents for the same codes."""
    faiss = pytest.importorskip("faiss", reason="it is in the extra faiss")
    documents, queries = data
    index, ready = built(Flat(), [Int8()], documents, tmp_path / "index")
    asked = ready.as_queries(queries)
    other = faiss.IndexScalarQuantizer(WIDTH, faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT)
    other.add(ready.as_documents(documents).values.astype(np.float32))
    products, _ = other.search(asked.values.astype(np.float32), 30)

    hits = index.search(asked, 30)
    np.testing.assert_allclose(hits.scores, products * asked.scales[:, None] + asked.offsets[:, None], rtol=1e-6)
    assert np.array_equal(np.take_along_axis(raw_scores(asked, ready.as_documents(documents).values), hits.docs, 1), products)


def test_products_of_wide_vectors_are_exact():
    """At 3,000 dimensions sums pass what float32 holds in one piece; they are added in parts."""
    chance = np.random.default_rng(1)
    codes = chance.integers(-128, 128, (3, 3000)).astype(np.int8)
    asked = Codes(codes, 3000, None, np.ones(3, np.float32), np.zeros(3, np.float32))
    expected = codes.astype(np.int64) @ codes.astype(np.int64).T
    assert np.array_equal(raw_scores(asked, codes), expected.astype(np.float32))


def test_a_query_of_zeros_and_an_empty_corpus(tmp_path):
    """A query of 0 has codes of 0; without documents nothing is found."""
    index, ready = built(Flat(), [Int8()], np.zeros((0, 4), np.float32), tmp_path / "index", shards=1)
    asked = ready.as_queries(np.zeros((2, 4), np.float32))
    assert not asked.values.any()
    assert index.search(asked, 3).docs.shape == (2, 0)
    with pytest.raises(LexbenchError, match="int8 learns its ranges from the vectors of a corpus"):
        Int8().document(np.zeros((1, 4), np.float32))


# ---- scoring candidates again ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [[Binary()], [Int8()], [Truncate(24), Binary()]])
def test_candidates_are_scored_by_the_vectors(data, tmp_path, form):
    """The 4 k best by codes are ordered by the products of the vectors, and of these the best k are found."""
    documents, queries = data
    plain, ready = built(Flat(), form, documents, tmp_path / "plain")
    index, again = built(Flat(rescore=4), form, documents, tmp_path / "again")
    candidates = plain.search(ready.as_queries(queries), 20).docs
    vectors = (documents, queries)
    for transform in form[:-1]:
        vectors = transform.document(vectors[0]), transform.query(vectors[1])
    products = vectors[1] @ vectors[0].T
    left = np.where(np.isin(np.arange(DOCUMENTS)[None], candidates), products, -np.inf)
    for row, found in enumerate(candidates):
        left[row, np.setdiff1d(np.arange(DOCUMENTS), found)] = -np.inf
    docs, scores = best(left, 5)

    hits = index.search(again.as_queries(queries), 5)
    assert np.array_equal(hits.docs, docs)
    np.testing.assert_allclose(hits.scores, scores, rtol=1e-5)


def test_candidates_of_bits_are_scored_by_int8(data, tmp_path):
    """int8|binary: bits are of the vectors, and the scores those of int8."""
    documents, queries = data
    form = [Int8(), Binary()]
    index, ready = built(Flat(rescore=100), form, documents, tmp_path / "again")
    fine, codes = built(Flat(), [Int8()], documents, tmp_path / "int8")
    hits, expected = index.search(ready.as_queries(queries), 9), fine.search(codes.as_queries(queries), 9)

    assert np.array_equal(hits.docs, expected.docs)  # all documents are candidates
    assert np.array_equal(hits.scores, expected.scores)
    assert np.array_equal(ready.as_documents(documents).values, np.packbits(documents > 0, axis=1))
    assert (tmp_path / "again" / "source").stat().st_size == DOCUMENTS * WIDTH


# ---- systems ---------------------------------------------------------------------------------------------------------------

TEXTS = {f"d{number}": f"{number} {number * 7 % 13} {number * 3 % 5}" for number in range(60)}


class Numbers(Encoder):
    """Vectors from the numbers of a text."""

    kind = Kind.DENSE

    def encode_document(self, texts):
        """Return vectors (n, 40)."""
        chance = np.random.default_rng(0).normal(size=(64, 40))
        return np.array([sum(chance[int(word)] for word in text.split()) for text in texts], np.float32)

    encode_query = encode_document


def searched(form, engine, path):
    """Return the hits of three queries, the folder of the index and the retriever."""
    plugin = Encoded(Numbers(), engine, tuple(form))
    context = Bench(path, TEXTS)
    folder = context.index(plugin)
    searcher = plugin.open({"index": folder})
    asked = searcher.encode(["3 1 2", "40 5 1", "9 9 0"])
    return searcher.search(asked, 10), folder, plugin, context


SIZES = {  # bytes per document of an index at 40 dimensions
    "float": ([], Flat(), 160),
    "cut": ([Truncate(10)], Flat(), 40),
    "int8": ([Int8()], Flat(), 40),
    "bits": ([Binary()], Flat(), 5),
    "cut bits": ([Truncate(16), Binary()], Flat(), 2),
    "bits and vectors": ([Binary()], Flat(rescore=4), 5 + 160),
    "bits and int8": ([Int8(), Binary()], Flat(rescore=4), 5 + 40),
    "int8 and vectors": ([Int8()], Flat(rescore=2), 40 + 160),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_of_the_index(tmp_path, name):
    """Bytes per document count what the index stores: codes, and with rescoring both parts."""
    import json

    form, engine, size = SIZES[name]
    hits, folder, plugin, context = searched(form, engine, tmp_path)
    stored = sum(path.stat().st_size for path in (folder / ENGINE_DIR).iterdir() if path.suffix != ".json")

    assert json.loads((folder / VECTORS_FILE).read_bytes())["bytes_per_document"] == size
    assert stored == size * len(TEXTS)
    # Another process opens the index and finds the same; given documents get the same scores.
    again = plugin.open({"index": folder})
    assert np.array_equal(again.search(again.encode(["3 1 2", "40 5 1", "9 9 0"]), 10).docs, hits.docs)
    rescorer = context.scorer(plugin)
    scores = rescorer.score(rescorer.encode(["3 1 2", "40 5 1", "9 9 0"]), np.sort(hits.docs, axis=1))
    expected = np.take_along_axis(hits.scores, np.argsort(hits.docs, axis=1), axis=1)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


def test_weights_that_rounding_changes_are_noted(tmp_path):
    """Whole numbers below 5 differ from their weights by a tenth or more: a note says how many there are and what to type."""

    class Words(Numbers):
        kind = Kind.SPARSE
        size = 0.01

        def encode_document(self, texts):
            rows = np.array([[self.size * (1 + text.count(letter)) for letter in "0123456789"] for text in texts])
            return sparse.csr_array(rows.astype(np.float32))

        encode_query = encode_document

    def noted(size, *form):
        encoder = type("Sized", (Words,), {"size": size})()
        context = Bench(tmp_path / str((size, len(form))), TEXTS)
        return notes_in(context.index(Encoded(encoder, Impact(), form)))

    (line,) = noted(0.01, Quantize())
    assert line.startswith(
        "100% of the weights are whole numbers below 5 after rounding, so scores differ from exact ones; type"
    )
    assert noted(0.01, Quantize(scale=10_000)) == noted(1.0, Quantize()) == []


def test_lists_make_several_systems():
    """A list of dimensions is a system each, and quotes are needed nowhere."""
    names = [expression for _, expression in named_systems("minilm|truncate([384, 64])@flat")]
    assert names == ["minilm|truncate(384)@flat", "minilm|truncate(64)@flat"]


def test_settings_are_in_the_key():
    """Dimensions and rescoring decide the index; what int8 has learned does not, because the corpus decides it."""
    recipes = [describe(Encoded(None, engine, form)) for form, engine, _ in SIZES.values()]
    assert len({str(recipe) for recipe in recipes}) == len(SIZES)
    learned = Int8().learned([np.ones((1, 3), np.float32)])
    assert describe(learned) == describe(Int8())


REFUSED = {
    "minilm|binary|truncate(64)": r"truncate\(64\) takes vectors, and binary makes codes .* write \|truncate\(64\)\|binary",
    "minilm|binary|int8": r"int8 takes vectors, and binary makes codes of them; write \|int8\|binary",
    "minilm|binary@faiss": r"faiss takes vectors, and binary makes codes of them; write \|binary@flat",
    "minilm|int8@sharded(flat)": r"sharded takes vectors, and int8 makes codes of them; write \|int8@flat",
    "minilm@flat(rescore=4)": r"rescore=4 scores the candidates that codes find again, and there are none; write \|binary@flat",
    "splade_tiny|truncate(4)": "truncate.4. takes dense vectors; splade_tiny makes sparse ones",
    "colbert_v2|int8": "int8 takes dense vectors; colbert_v2 makes multi ones",
    "minilm@flat(rescore=-1)": r"flat\(rescore=-1\): give a number above 0, e.g. 4",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_does_not_fit_is_refused(expression):
    """Codes for an engine or a transform that takes vectors, and rescoring without codes, are one line with what to write."""
    pytest.importorskip("faiss", reason="it is in the extra faiss")
    pytest.importorskip("torch", reason="it is in the extra neural")
    with pytest.raises(CommandError, match=REFUSED[expression]):
        system(expression)


def test_other_queries_than_codes_are_refused(data, tmp_path):
    """An index of codes takes queries in these codes alone."""
    documents, queries = data
    index, _ = built(Flat(), [Binary()], documents, tmp_path / "index")
    with pytest.raises(LexbenchError, match=r"the index has codes \(bits\) and the queries have none of these"):
        index.search(queries, 3)


def test_vectors_of_0_and_unequal_lengths_are_noted(tmp_path):
    """Notes count vectors of 0, and warn of unequal lengths if nobody states the similarity."""
    import lexbench

    data = {"corpus": {"a": "aa b", "b": "", "c": "aaaa"}, "queries": {"q": "a"}, "qrels": {"q": {"a": 1}}}

    def letters(texts):
        return np.array([[text.count("a"), text.count("b")] for text in texts], float)

    class Stated:
        similarity_fn_name = "dot"
        encode = staticmethod(letters)

    notes = [texts_of(result.notes) for result in lexbench.run(data, {"one": letters, "two": Stated()}, store=tmp_path)]
    zero = "1 of 3 document vectors are 0, so every query gives them the score 0"
    lengths = (
        "compared by dot product, and the lengths of vectors differ (2.24 to 4); for cosine, scale them to length 1, or give"
    )
    assert zero in notes[0]
    assert any(line.startswith(lengths) for line in notes[0])
    assert zero in notes[1]
    assert not any("lengths" in line for line in notes[1])
    (sparse_result,) = lexbench.run(data, {"s": lambda texts: sparse.csr_array(letters(texts))}, store=tmp_path)
    assert not any("lengths" in line for line in texts_of(sparse_result.notes))
