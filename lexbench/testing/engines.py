"""The contract of engines: the form of what they return (order, ties, padding, widths), and the scores.

Documents and queries are whole numbers, so the right scores are known without rounding. An engine with `exact = False` may miss
documents, up to a stated share, but the scores that it returns must be right. One with `compressed = True` has scores of its
own, e.g. because it keeps one bit per dimension, so only its form is tested.
"""

import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import cache
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from lexbench.errors import LexbenchError
from lexbench.types import Hits, Kind, MultiVectors

# The least recall of exact of an approximate engine
LEARNED = 0.98  # on vectors like those of learned sparse retrieval; measured: seismic 1.0 at 10 and 1000
GRAPH = 0.85  # on dense vectors; these differ in length, for which graphs are not made; measured: faiss .91 at 1000
DENSE = 0.1  # on 300 vectors of 12 terms, most of which each vector has; measured: seismic .3 to .4 at 1, .74 at 10

_FRESH = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"  # its processes inherit nothing of this one


def vectors(engine: Any, rows: Any) -> Any:
    """Return *rows* of whole numbers as vectors of the engine's kind."""
    matrix = np.array(rows, np.float32)
    if engine.kind is Kind.SPARSE:
        return sparse.csr_array(matrix)
    if engine.kind is Kind.DENSE:
        return matrix
    return MultiVectors(matrix, np.arange(len(matrix) + 1))  # one token each, so that scores are the products again


def indexed(engine: Any, path: Path, *shards: Any) -> Any:
    """Build an index of the shards in the folder and open it."""
    path.mkdir(exist_ok=True)
    engine.build(iter([vectors(engine, shard) for shard in shards]), path)
    return engine.open(path)


def check_form(hits: Hits, queries: int, documents: int, k: int) -> None:
    """Compare the form of hits with what every engine promises.

    Rows are in order of score, ties in order of position. No document comes twice. Missing ones are -1, at the end. There are
    *k* columns, or as many as *documents* in the index if they are fewer; engines may return more, all -1.
    """
    assert hits.docs.dtype == np.int32
    assert hits.scores.dtype == np.float32
    assert hits.docs.shape == hits.scores.shape
    assert hits.docs.shape[0] == queries
    assert min(k, documents) <= hits.docs.shape[1] <= k
    for docs, scores in zip(hits.docs, hits.scores, strict=True):
        count = int((docs >= 0).sum())
        assert (docs[count:] == -1).all(), "a document after a missing one"
        assert (docs < documents).all(), "a position that no document has"
        assert len(set(docs[:count].tolist())) == count, "a document comes twice"
        assert np.isfinite(scores[:count]).all()
        in_order = np.array_equal(np.lexsort((docs[:count], -scores[:count])), np.arange(count))
        assert in_order, "not in order of score, or equal scores not in order of position"


def check(engine: Any, hits: Hits, queries: Any, documents: Any, k: int, least: float = DENSE) -> None:
    """Compare hits with the products, which are exact for whole numbers.

    An exact engine returns the top k, ties in order of position. An approximate engine returns true scores in the same order,
    no document twice, and at least the share *least* of the hits is as good as the exact k-th.
    """
    check_form(hits, len(queries), len(documents), k)
    # BLAS multiplies float64, which holds these sums exactly, many times as fast as NumPy whole numbers.
    products = (np.asarray(queries, np.float64) @ np.asarray(documents, np.float64).T).astype(np.int64)
    returned = np.take_along_axis(products, np.maximum(hits.docs, 0), axis=1)
    assert np.array_equal(returned[hits.docs >= 0], hits.scores[hits.docs >= 0]), (
        "scores are not the dot products; an engine that stores vectors in fewer bits on purpose says so: compressed = True"
    )
    order = np.lexsort((np.broadcast_to(np.arange(products.shape[1]), products.shape), -products), axis=1)[:, :k]
    expected = np.take_along_axis(products, order, axis=1)
    found = expected > 0 if engine.kind is Kind.SPARSE else np.ones_like(expected, bool)  # no common term, no hit
    assert hits.docs.shape == order.shape
    if engine.exact:
        assert np.array_equal(np.where(found, order, -1), hits.docs)
        return
    last = found.sum(axis=1)
    worst = np.take_along_axis(expected, np.maximum(last - 1, 0)[:, None], axis=1)
    good = (returned >= worst) & (hits.docs >= 0) & (last > 0)[:, None]
    assert good.sum() >= least * found.sum()


DOCUMENTS = np.random.default_rng(3).integers(0, 4, (300, 12))
QUERIES = np.random.default_rng(4).integers(0, 3, (40, 12))
PARTS = DOCUMENTS[:7], DOCUMENTS[7:8], DOCUMENTS[8:8], DOCUMENTS[8:250], *DOCUMENTS[250:].reshape(50, 1, 12)
EMPTY = (0,), (4,), (2,), (0, 1, 3, 4), (0, 1, 2, 3, 4)  # documents of zeros among five


def check_known(engine: Any, hits: Hits, k: int) -> None:
    """Compare the form of hits, and their scores unless the engine compresses vectors."""
    if engine.compressed:
        check_form(hits, len(QUERIES), len(DOCUMENTS), k)
    else:
        check(engine, hits, QUERIES, DOCUMENTS, k)


def with_zeros(empty: tuple[int, ...]) -> NDArray[np.int64]:
    """Return five documents of two weights, those at the positions *empty* without any."""
    documents = np.array([[1, 2], [3, 4], [5, 1], [1, 1], [2, 2]])
    documents[list(empty)] = 0
    return documents


@cache
def learned(count: int) -> NDArray[np.int64]:
    """Return synthetic vectors like those of learned sparse retrieval: frequent and rare terms, weights from 1 to 255."""
    vocabulary, terms = 1500, 40
    rng = np.random.default_rng(5)
    frequency = np.minimum(1.0, terms / np.arange(5, vocabulary + 5) / np.log(vocabulary / 5))
    weights = np.clip(rng.lognormal(np.log(60), 0.6, (count, vocabulary)), 1, 255).round()
    drawn: NDArray[np.int64] = (weights * (rng.random((count, vocabulary)) < frequency)).astype(np.int64)
    drawn.setflags(write=False)  # tests share it
    return drawn


class EngineContract:
    """The tests of an engine. A subclass sets `plugin` to one, or overrides the fixture `engine`."""

    plugin: Any
    widths_refused = r"(?s)(\b3\b.*\b2\b|\b2\b.*\b3\b)"  # in the error for queries of width 3 and an index of width 2

    @pytest.fixture
    def engine(self) -> Any:
        """Return the engine to check."""
        return self.plugin

    @pytest.fixture(scope="class")
    @classmethod
    def process(cls) -> Iterator[Executor]:
        """Start a process that has built nothing."""
        with ProcessPoolExecutor(1, get_context(_FRESH)) as pool:
            yield pool

    @pytest.fixture
    def exact_scores(self, engine: Any) -> Any:
        """Return the engine. Skip one that compresses vectors: only it knows its scores."""
        if engine.compressed:
            pytest.skip("compressed = True: the scores are the engine's own")
        return engine

    @pytest.fixture
    def sparse_engine(self, exact_scores: Any) -> Any:
        """Return the engine, only if it takes sparse vectors."""
        if exact_scores.kind is not Kind.SPARSE:
            pytest.skip("not an engine of sparse vectors")
        return exact_scores

    @pytest.mark.parametrize("k", [1, 10, 300])
    def test_top_k_with_ties_in_order_of_position(self, engine: Any, tmp_path: Path, k: int) -> None:
        """Scores are dot products, best first; ties, which whole numbers often have, are in order of position."""
        hits = indexed(engine, tmp_path, DOCUMENTS).search(vectors(engine, QUERIES), k)
        check_known(engine, hits, k)
        assert (hits.docs[:, 0] >= 0).any(), "nothing is found"

    def test_shards_make_one_index(self, engine: Any, tmp_path: Path) -> None:
        """Documents in several shards, some of them empty, have the positions 0 to 299, and their scores."""
        hits = indexed(engine, tmp_path, *PARTS).search(vectors(engine, QUERIES), 300)
        check_known(engine, hits, 300)
        assert (hits.docs >= 250).any()

    def test_k_above_the_number_of_documents(self, engine: Any, tmp_path: Path) -> None:
        """Every matching document is found, none twice, and other columns are -1 or missing; there may be one document."""
        for count, k in ((3, 3), (3, 4), (3, 100_000), (1, 5)):
            index = indexed(engine, tmp_path / f"{count} {k}", [[row, 0] for row in range(1, count + 1)])
            hits = index.search(vectors(engine, [[1, 0]]), k)
            check_form(hits, 1, count, k)
            assert engine.compressed or hits.docs[0, :count].tolist() == list(range(count))[::-1]

    @pytest.mark.parametrize("shards", [(), (np.zeros((0, 2)),)], ids=["no shard", "an empty shard"])
    def test_no_documents_are_an_index(self, engine: Any, tmp_path: Path, shards: tuple[Any, ...]) -> None:
        """Without shards, and with a shard of no documents, nothing is found."""
        check_form(indexed(engine, tmp_path, *shards).search(vectors(engine, [[1, 1]] * 3), 5), 3, 0, 5)

    def test_no_query_and_queries_of_zeros(self, engine: Any, tmp_path: Path) -> None:
        """No queries give no rows. A query without weights has no score above 0, and does not change the next answer."""
        index = indexed(engine, tmp_path, [[1, 2], [3, 4]])
        hits = index.search(vectors(engine, [[0, 0], [0, 1], [0, 0]]), 2)
        alone = index.search(vectors(engine, [[0, 1]]), 2)

        check_form(index.search(vectors(engine, np.zeros((0, 2))), 5), 0, 2, 5)
        check_form(hits, 3, 2, 2)
        assert np.array_equal(hits.docs[1], alone.docs[0])
        assert np.array_equal(hits.scores[1], alone.scores[0])
        if not engine.compressed:
            assert not np.any(hits.scores[[0, 2]][hits.docs[[0, 2]] >= 0] > 0)
            assert hits.docs[1].tolist() == [1, 0]

    @pytest.mark.parametrize("empty", EMPTY)
    def test_documents_of_zeros_come_last(self, engine: Any, tmp_path: Path, empty: tuple[int, ...]) -> None:
        """Documents without weights, also the first, the last or all, count, and are never above one that matches."""
        documents = with_zeros(empty)
        hits = indexed(engine, tmp_path, documents).search(vectors(engine, [[1, 1]]), 5)
        best = sorted(np.flatnonzero(documents.sum(axis=1)).tolist(), key=lambda doc: (-documents[doc].sum(), doc))

        check_form(hits, 1, 5, 5)
        if not engine.compressed:
            assert hits.docs[0].tolist()[: len(best)] == best
            assert not np.any(hits.scores[0, len(best) :][hits.docs[0, len(best) :] >= 0] > 0)

    def test_queries_of_another_width(self, engine: Any, tmp_path: Path) -> None:
        """Queries of another width are refused in one line; engines that know terms by name may answer with known terms."""
        index = indexed(engine, tmp_path, [[1, 2], [3, 4]])
        try:
            hits = index.search(vectors(engine, [[0, 1, 5]]), 2)
        except LexbenchError as refused:
            assert re.search(self.widths_refused, str(refused))  # noqa: PT017 - either is right
            assert "\n" not in str(refused)  # noqa: PT017 - likewise
        else:
            assert engine.kind is Kind.SPARSE, "queries of 3 dimensions are answered by an index of 2"
            check_form(hits, 1, 2, 2)
            assert engine.compressed or hits.docs[0].tolist() == [1, 0]

    def test_vectors_are_not_changed(self, engine: Any, tmp_path: Path) -> None:
        """The engine does not write into the vectors that it is given."""
        given = [vectors(engine, DOCUMENTS), vectors(engine, QUERIES)]
        engine.build(iter(given[:1]), tmp_path)
        engine.open(tmp_path).search(given[1], 10)
        now = [
            one.values if engine.kind is Kind.MULTI else one.toarray() if engine.kind is Kind.SPARSE else one for one in given
        ]

        assert np.array_equal(now[0], DOCUMENTS)
        assert np.array_equal(now[1], QUERIES)

    def test_an_index_opens_again(self, engine: Any, tmp_path: Path, capfd: Any) -> None:
        """The folder is complete: opened again after it was moved, it answers the same. The engine prints nothing."""
        first = indexed(engine, tmp_path / "here", DOCUMENTS).search(vectors(engine, QUERIES), 10)
        moved = (tmp_path / "here").rename(tmp_path / "there")
        again = engine.open(moved).search(vectors(engine, QUERIES), 10)

        assert all(map(np.array_equal, first, again))
        assert capfd.readouterr() == ("", "")

    def test_an_index_opens_in_another_process(self, engine: Any, tmp_path: Path, process: Executor) -> None:
        """A process that did not build the index gives the same answers. The engine can be pickled."""
        queries = vectors(engine, QUERIES)
        first = indexed(engine, tmp_path, DOCUMENTS).search(queries, 10)
        there = process.submit(found_by, engine, tmp_path, queries, 10).result()

        assert all(map(np.array_equal, first, there))

    def test_dropping_an_index_leaves_nothing_elsewhere(self, engine: Any, tmp_path: Path) -> None:
        """After `drop` a server has lost the index, and no other one; what is in the folder alone still opens."""
        indexed(engine, tmp_path / "other", DOCUMENTS)
        indexed(engine, tmp_path / "own", DOCUMENTS)
        for _ in range(2):
            engine.drop(tmp_path / "own")
        engine.open(tmp_path / "other")
        if engine.remote:
            with pytest.raises(LexbenchError):
                engine.open(tmp_path / "own")
        else:
            engine.open(tmp_path / "own")

    def test_two_indexes_are_open_at_once(self, engine: Any, tmp_path: Path) -> None:
        """Two open indexes answer from their own documents."""
        query = vectors(engine, [[0, 1]])
        one = indexed(engine, tmp_path / "a", [[1, 0]])
        alone = one.search(query, 2)
        found = indexed(engine, tmp_path / "b", [[0, 2], [0, 3]]).search(query, 2)

        check_form(found, 1, 2, 2)
        assert all(map(np.array_equal, one.search(query, 2), alone))
        check_form(alone, 1, 1, 2)
        assert engine.compressed or (found.docs.tolist() == [[1, 0]] and not np.any(alone.scores > 0))

    def test_two_builds_are_the_same_bytes(self, engine: Any, tmp_path: Path) -> None:
        """If the engine is `deterministic`, two builds write the same files."""
        if not engine.deterministic:
            pytest.skip("it is not `deterministic`")
        for name in "ab":
            indexed(engine, tmp_path / name, DOCUMENTS)

        assert digests_of(tmp_path / "a") == digests_of(tmp_path / "b")

    def test_vectors_like_learned_sparse_ones(self, exact_scores: Any, tmp_path: Path) -> None:
        """Scores are products of whole numbers on 1,500 documents of about forty terms with weights up to 255."""
        documents, queries = learned(1500), learned(1540)[1500:]
        index = indexed(exact_scores, tmp_path, *np.array_split(documents, 3))
        for k in (10, 1000):
            hits = index.search(vectors(exact_scores, queries), k)
            check(exact_scores, hits, queries, documents, k, LEARNED if exact_scores.kind is Kind.SPARSE else GRAPH)
            assert np.array_equal(hits.scores[hits.docs >= 0], hits.scores[hits.docs >= 0].round())

    def test_ties_across_the_cut_keep_the_lowest_positions(self, exact_scores: Any, tmp_path: Path) -> None:
        """Of 900 documents with the same score the first five are returned, with better ones between and after them."""
        documents = np.full((900, 2), [3, 0])
        documents[[20, 450, 899]] = [4, 1]
        hits = indexed(exact_scores, tmp_path, documents).search(vectors(exact_scores, [[1, 0], [2, 1]]), 8)

        if exact_scores.exact:
            assert hits.docs.tolist() == [[20, 450, 899, 0, 1, 2, 3, 4]] * 2
        else:
            check(exact_scores, hits, [[1, 0], [2, 1]], documents, 8)

    def test_a_term_that_no_document_has(self, exact_scores: Any, tmp_path: Path) -> None:
        """An unknown term adds nothing, beside other terms or alone, also as the first or last of the vocabulary."""
        documents = [[0, 1, 0, 2, 0], [0, 2, 0, 1, 0]]
        hits = indexed(exact_scores, tmp_path, documents).search(
            vectors(exact_scores, [[9, 1, 9, 0, 9], [9, 0, 0, 0, 0], [0, 0, 0, 0, 9]]), 2
        )

        assert hits.docs[0].tolist() == [1, 0]
        assert hits.scores[0].tolist() == [2, 1]
        assert not np.any(hits.scores[1:][hits.docs[1:] >= 0] > 0)

    @pytest.mark.parametrize("weight", [1, 255, 256, 2048, 65_504, 65_535, 65_536])
    def test_weights_at_the_limits_are_right_or_refused(self, exact_scores: Any, tmp_path: Path, weight: float) -> None:
        """A large weight gives the right score, or an error in one line that names the weight."""
        documents: list[list[Any]] = [[weight, 1], [1, 1], [weight - 1, 0]]
        try:
            hits = indexed(exact_scores, tmp_path, documents).search(vectors(exact_scores, [[255, 1]]), 3)
        except LexbenchError as refused:
            assert f"{weight:g}" in str(refused).replace(",", "")  # noqa: PT017 - either is right
            assert "\n" not in str(refused)  # noqa: PT017 - likewise
            return
        ranked = sorted(((255 * a + b, -at) for at, (a, b) in enumerate(documents) if a or b), reverse=True)
        scores, docs = hits.scores[0].tolist(), (-hits.docs[0]).tolist()
        if exact_scores.exact:
            assert list(zip(scores, docs, strict=True))[: len(ranked)] == ranked
        else:  # it may store weights in half precision, with 11 bits
            assert scores[: len(ranked)] == pytest.approx([score for score, _ in ranked], rel=2**-11)

    @pytest.mark.parametrize("weight", [-1, np.nan, np.inf, 0.5])
    def test_impossible_weights_are_refused(self, sparse_engine: Any, tmp_path: Path, weight: float) -> None:
        """Engines of `impacts` refuse weights that are not whole numbers, in documents and queries."""
        if not sparse_engine.impacts:
            pytest.skip("it takes real weights")
        (tmp_path / "index").mkdir()
        index = indexed(sparse_engine, tmp_path / "right", [[1, 2], [3, 4]])

        with pytest.raises(LexbenchError, match="whole weights"):
            sparse_engine.build(iter([vectors(sparse_engine, [[1, weight]])]), tmp_path / "index")
        with pytest.raises(LexbenchError, match="whole weights"):
            index.search(vectors(sparse_engine, [[1, weight]]), 1)

    def test_untidy_scipy_matrices(self, sparse_engine: Any, tmp_path: Path) -> None:
        """Stored zeros and unsorted columns change nothing, and the caller's matrices are not modified."""
        documents = sparse.csr_array(
            (np.array([2.0, 0, 1, 5], np.float32), np.array([3, 0, 1, 0]), np.array([0, 3, 4])), shape=(2, 4)
        )
        query = sparse.csr_array((np.array([1.0, 0, 3], np.float32), np.array([3, 2, 1]), np.array([0, 3])), shape=(1, 4))
        kept = [array.copy() for matrix in (documents, query) for array in (matrix.data, matrix.indices, matrix.indptr)]
        sparse_engine.build(iter([documents]), tmp_path)
        hits = sparse_engine.open(tmp_path).search(query, 2)

        assert hits.docs.tolist() == [[0, -1]]
        assert hits.scores[0, 0] == 5
        now = [array for matrix in (documents, query) for array in (matrix.data, matrix.indices, matrix.indptr)]
        assert all(np.array_equal(before, after) for before, after in zip(kept, now, strict=True))


def found_by(engine: Any, path: Path, queries: Any, k: int) -> Hits:
    """Return what the index in the folder finds."""
    hits: Hits = engine.open(path).search(queries, k)
    return hits


def digests_of(path: Path) -> dict[str, str]:
    """Return the digest of each file below *path*, by its place there."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
