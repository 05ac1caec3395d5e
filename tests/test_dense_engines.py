"""Tests of `flat` and `faiss` beyond those of all engines (tests/contracts/test_engines.py), and of their comparison."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from workbench import built, engine

from lexbench import registry
from lexbench.engines.flat import Flat
from lexbench.engines.kernels import dense
from lexbench.engines.kernels.dense import Best, overlap, widen
from lexbench.engines.maxsim import MaxSim
from lexbench.errors import CommandError, LexbenchError
from lexbench.testing.engines import vectors
from lexbench.types import Hits

RNG = np.random.default_rng(12)
FEW = RNG.integers(-2, 3, (5000, 6)).astype(np.float32)  # at most 49 different scores with one query: ties everywhere
ASKING = RNG.integers(-2, 3, (70, 6)).astype(np.float32)


def clustered():
    """Return 4,100 vectors of length 1 around 50 centres."""
    rng = np.random.default_rng(7)
    middles = rng.standard_normal((50, 48))
    near = middles[rng.integers(0, 50, 4100)] + 0.5 * rng.standard_normal((4100, 48))
    return (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)


DOCUMENTS, QUERIES = np.split(clustered(), [4000])


def exact(documents, queries, k):
    """Return the best k by numpy: a stable sort of all products."""
    products = queries @ documents.T
    docs = np.argsort(-products, axis=1, kind="stable")[:, :k]
    return Hits(docs.astype(np.int32), np.take_along_axis(products, docs, axis=1))


def opened(engine, path, documents):
    """Build an index of seven shards and open it."""
    return built(engine, path, *np.array_split(documents, 7))


faiss = partial(engine, "faiss")


@pytest.mark.parametrize("storage", ["float32", "float16"])
@pytest.mark.parametrize(("count", "k"), [(1, 1), (1, 6000), (16, 10), (70, 1), (70, 1000), (70, 6000)])
def test_flat_is_exact_to_the_last_tie(tmp_path, monkeypatch, storage, count, k):
    """With any number of queries and blocks, hits equal a stable sort of all products."""
    monkeypatch.setattr(dense, "_QUERIES", 50)
    monkeypatch.setattr(dense, "_DOCUMENTS", 999)
    monkeypatch.setattr("lexbench.engines.flat._QUERIES", 60)
    hits = opened(Flat(storage), tmp_path, FEW).search(ASKING[:count], k)
    expected = exact(FEW, ASKING[:count], k)

    assert (tmp_path / "vectors").stat().st_size == FEW.size * np.dtype(storage).itemsize
    assert all(map(np.array_equal, hits, expected))


def test_ties_at_the_cut_keep_the_lowest_positions():
    """Of a hundred equal scores after three better ones the lowest positions are kept, and of both zeros the lower position."""
    scores = np.zeros((1, 300), np.float32)
    scores[0, ::2] = -0.0
    scores[0, [299, 7, 150]] = 1, 2, 3
    best = Best(1, 6)
    for start in range(0, 300, 37):
        best.add(np.ascontiguousarray(scores[:, start : start + 37]), start)

    assert best.hits().docs.tolist() == [[150, 7, 299, 0, 1, 2]]


def test_scores_of_every_size_and_sign_are_ordered():
    """Ascending scores of either sign, subnormal ones and inf among them, come back in the opposite order; nan is no score."""
    scores = [-3e38, -1.5, -1e-45, 0.0, 1e-45, 1e-38, 1.5, 3e38, np.inf]
    best = Best(1, 20)
    best.add(np.array([[*scores, np.nan]], np.float32), 0)
    hits = best.hits()

    assert hits.docs[0].tolist() == [8, 7, 6, 5, 4, 3, 2, 1, 0] + [-1] * 11
    assert hits.scores[0, :9].tolist() == np.array(scores[::-1], np.float32).tolist()
    assert np.all(hits.scores[0, 9:] == -np.inf)


def test_every_finite_half_is_widened_as_by_numpy():
    """All 63,488 finite float16 numbers, also subnormal and negative ones, are widened bit by bit."""
    halves = np.arange(1 << 16, dtype=np.uint16)
    halves = halves[np.isfinite(halves.view(np.float16))]
    singles = np.empty(len(halves), np.float32)
    widen(halves, singles)

    assert np.array_equal(singles.view(np.uint32), halves.view(np.float16).astype(np.float32).view(np.uint32))


@pytest.mark.parametrize("made", [Flat(), MaxSim(), "faiss"], ids=["flat", "maxsim", "faiss"])
def test_wrong_vectors_are_refused_in_one_line(tmp_path, made):
    """Documents and queries with values that are not finite, and documents of several widths, are refused with a reason."""
    made = faiss(factory="Flat") if made == "faiss" else made
    wrong, narrow = DOCUMENTS[:3].copy(), DOCUMENTS[:3, :47]
    wrong[1, 5] = np.nan
    right, wrong, narrow = (vectors(made, rows) for rows in (DOCUMENTS[:3], wrong, narrow))

    with pytest.raises(LexbenchError, match="a document vector has nan at dimension 5, which is no finite float32 number"):
        built(made, tmp_path / "wrong", wrong)
    with pytest.raises(LexbenchError, match=f"{type(made).__name__.lower()} got vectors of 48 dimensions and of 47"):
        built(made, tmp_path / "widths", right, narrow)
    with pytest.raises(LexbenchError, match="a query vector has nan"):
        built(made, tmp_path / "right", right).search(wrong, 1)


def test_flat_refuses_what_its_storage_cannot_hold(tmp_path):
    """70,000 is not a float16 number."""
    with pytest.raises(LexbenchError, match="has inf at dimension 0, which is no finite float16 number"):
        Flat("float16").build(iter([np.array([[70_000.0]], np.float32)]), tmp_path)


# The least share of the exact ten and hundred that is found of the clustered vectors, and whether scores are the products.
VARIANTS = {  # measured: 1 where not said
    "Flat": (1.0, 1.0, True),
    "HNSW32": (0.99, 0.99, True),
    "IVF64,Flat": (0.99, 0.98, True),
    "SQ8": (0.9, 0.98, False),  # .955
    "PQ24x6": (0.45, 0.85, False),  # .553, .946
    "OPQ6_48,PQ6x6": (0.1, 0.75, False),  # .182, .855
    "PQ24x4,RFlat": (0.95, 0.85, True),  # 1, .908
}


ROTATED = pytest.param("OPQ6_48,PQ6x6", marks=pytest.mark.slow)  # learning the rotation takes seconds


@pytest.mark.parametrize("factory", [ROTATED if name.startswith("OPQ") else name for name in VARIANTS])
def test_faiss_finds_its_share_with_its_scores_in_our_order(tmp_path, factory):
    """Each kind of index has the stated recall; hits descend, ties by position, and are exact if vectors are kept."""
    hits = opened(faiss(factory=factory, training=1000), tmp_path, DOCUMENTS).search(QUERIES, 100)
    ten, hundred, true = VARIANTS[factory]
    shares = overlap(iter([DOCUMENTS]), QUERIES, hits)

    assert shares[10] >= ten
    assert shares[100] >= hundred
    for query, docs, scores in zip(QUERIES, hits.docs, hits.scores, strict=True):
        assert np.array_equal(np.lexsort((docs, -scores)), np.arange(100))
        assert len(set(docs.tolist())) == 100
        if true:
            assert np.allclose(scores, DOCUMENTS[docs] @ query, rtol=0, atol=1e-6)


def test_faiss_finds_more_where_it_looks_longer(tmp_path):
    """An index is opened with nprobe and ef_search, and more of either finds more."""
    for factory, setting, values in (("IVF64,Flat", "nprobe", (1, 64)), ("HNSW4", "ef_search", (1, 400))):
        folder = tmp_path / setting
        opened(faiss(factory=factory, ef_construction=10), folder, DOCUMENTS)
        hits = [faiss(factory=factory, **{setting: value}).open(folder).search(QUERIES, 10) for value in values]
        less, more = (overlap(iter([DOCUMENTS]), QUERIES, one, (10,))[10] for one in hits)
        assert less < 0.97 * more


def test_faiss_gives_fewer_hits_where_its_lists_have_no_more(tmp_path):
    """One list of 64 holds fewer than 2,000 documents: the rest of a row is -1, after all hits."""
    hits = opened(faiss(factory="IVF64,Flat", nprobe=1), tmp_path, DOCUMENTS).search(QUERIES, 2000)
    found = (hits.docs >= 0).sum(axis=1)

    assert np.all((found > 0) & (found < 2000))
    for docs, scores, count in zip(hits.docs, hits.scores, found, strict=True):
        assert np.all(docs[count:] == -1)
        assert np.all(scores[count:] == -np.inf)
        assert np.all(docs[:count] >= 0)


def test_faiss_settings_of_searching_share_an_index():
    """The key of an index has the settings of building, and not nprobe, ef_search or threads."""
    assert registry.settings(faiss(), index=True) == {"factory": "HNSW32", "ef_construction": 200, "training": 262_144}


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        ("IVF200,Flat", "cannot learn the 200 clusters of 'IVF200,Flat' from 100 vectors; use fewer, e.g. 'IVF10,Flat'"),
        ("PQ8", "cannot learn the 256 clusters of 'PQ8' from 100 vectors"),
        ("PQ7", "cannot make 'PQ7' of vectors of 48 dimensions: The dimension of the vector .* multiple"),
    ],
)
def test_faiss_explains_why_it_cannot_make_an_index(tmp_path, capfd, factory, told):
    """Too few vectors to learn from, and a width that does not divide, are one line; nothing is printed, nothing left."""
    with pytest.raises(LexbenchError, match=told) as error:
        opened(faiss(factory=factory), tmp_path, DOCUMENTS[:100])

    assert "\n" not in str(error.value)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_faiss_takes_what_some_width_fits():
    """A factory is refused before any work if no width fits it: PQ50 takes widths of 50, 100 ..., but never those of PCA49."""
    faiss(factory="PQ50")
    faiss(factory="IVF16,PQ50x4fs")
    with pytest.raises(CommandError, match="faiss makes no index of inner products of factory='PCA49,PQ50'"):
        faiss(factory="PCA49,PQ50")


def test_an_error_of_the_encoder_is_not_blamed_on_faiss(tmp_path):
    """An error of the encoder is raised as it is, not as one of Faiss."""

    def shards():
        yield DOCUMENTS[:10]
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        faiss().build(shards(), tmp_path)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_overlap_by_hand(form):
    """Of the exact two (documents 3 and 2), hits have one and both; of four, a half and all; a fifth counts for nothing."""
    documents = np.array([[0.0], [1], [2], [3], [-1]], np.float32)
    hits = Hits(np.array([[3, 0, -1, -1, -1], [2, 3, 1, 0, 4]], np.int32), np.zeros((2, 5), np.float32))
    shards = [form(documents[:2]), form(documents[2:2]), form(documents[2:])]

    assert overlap(iter(shards), form(np.ones((2, 1), np.float32)), hits, (2, 4, 100)) == {2: 0.75, 4: 0.75, 100: 0.7}


def test_overlap_counts_any_of_equals():
    """Where the second best is one of three equals, each of them is as good; a document that is worse is not."""
    documents = np.array([[5.0], [1], [1], [1], [0]], np.float32)
    hits = [Hits(np.array([[0, last]], np.int32), np.zeros((1, 2), np.float32)) for last in (1, 3, 4)]

    assert [overlap(iter([documents]), documents[1:2], one, (2,))[2] for one in hits] == [1.0, 1.0, 0.5]


def test_overlap_of_nothing():
    """Hits without documents have a recall of 0; without anything to find it is 1."""
    none = Hits(np.full((3, 0), -1, np.int32), np.zeros((3, 0), np.float32))

    assert overlap(iter([DOCUMENTS]), QUERIES[:3], none) == {10: 0.0, 100: 0.0}
    assert overlap(iter([]), QUERIES[:3], none) == {10: 1.0, 100: 1.0}
    assert overlap(iter([DOCUMENTS]), QUERIES[:0], Hits(none.docs[:0], none.scores[:0])) == {10: 1.0, 100: 1.0}
