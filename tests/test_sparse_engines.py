"""Tests of single sparse engines beyond those of all engines (tests/contracts/test_engines.py)."""

import json
import os
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from scipy import sparse
from tiny import loaded_modules
from workbench import built, engine

from lexbench.engines.kernels import java
from lexbench.engines.kernels.checks import quiet
from lexbench.errors import LexbenchError

RNG = np.random.default_rng(8)
DOCUMENTS = sparse.csr_array((RNG.integers(1, 256, (2000, 300)) * (RNG.random((2000, 300)) < 0.1)).astype(np.float32))
QUERIES = sparse.csr_array((RNG.integers(1, 100, (30, 300)) * (RNG.random((30, 300)) < 0.05)).astype(np.float32))


def answer(made, path, *, k=50, documents=DOCUMENTS, queries=QUERIES):
    """Build an index with an engine and return the hits of the queries."""
    return built(made, path, documents).search(queries, k)


@pytest.mark.parametrize("settings", [{}, {"prune": True}])
def test_lucene_scores_as_anserini(tmp_path, settings):
    """Anserini's indexer reads the same weights as JSON, and its SimpleImpactSearcher gives every document the same score."""
    documents = DOCUMENTS[:300]
    hits = answer(engine("lucene", **settings), tmp_path / "ours", k=20, documents=documents)
    (tmp_path / "json").mkdir()
    rows = [documents[[position]] for position in range(documents.shape[0])]
    with (tmp_path / "json" / "documents.jsonl").open("w") as file:
        for position, row in enumerate(rows):
            vector = {f"t{term}": int(weight) for term, weight in zip(row.indices, row.data, strict=True)}
            file.write(json.dumps({"id": f"{position:04}", "contents": "", "vector": vector}) + "\n")
    java_class = java.java_class
    options = "-collection JsonVectorCollection -generator DefaultLuceneDocumentGenerator -impact -pretokenized -optimize"
    places = ["-input", str(tmp_path / "json"), "-index", str(tmp_path / "theirs"), "-threads", "1"]
    with quiet():
        java_class("io.anserini.index.IndexCollection").main([*options.split(), *places])
    searcher = java_class("io.anserini.search.SimpleImpactSearcher")(str(tmp_path / "theirs"))
    for row in range(5):
        query = QUERIES[[row]]
        text = " ".join(f"t{t} " * int(w) for t, w in zip(query.indices, query.data, strict=True))
        theirs = searcher.search(text, 20)
        assert [int(hit.docid) for hit in theirs] == hits.docs[row].tolist()  # ids of one length sort as the positions
        assert [hit.score for hit in theirs] == pytest.approx(hits.scores[row].tolist(), abs=0.01)  # it sets ties apart


def test_lucene_keeps_positions_when_it_merges(tmp_path, monkeypatch):
    """Documents that come to lie in many segments are numbered as they came, and one segment is left."""
    whole = answer(engine("lucene"), tmp_path / "whole")
    monkeypatch.setattr(java, "_BUFFER_MB", 0.2)
    merged = answer(engine("lucene"), tmp_path / "merged")

    assert np.array_equal(whole.docs, merged.docs)
    assert len(list((tmp_path / "merged").glob("*.si"))) == 1
    assert next((tmp_path / "merged").glob("*.si")).name != next((tmp_path / "whole").glob("*.si")).name  # it was merged


def test_lucene_refuses_a_document_longer_than_a_java_int(tmp_path):
    """Weights of one document that add up to 2**31 are refused in one line; one less is indexed."""
    weights = np.full((1, 32_769), 65_535.0, np.float32)
    weights[0, -1] = 32_767  # all of them: 2**31 - 1
    query = sparse.csr_array(([1.0], ([0], [32_768])), shape=(1, 32_769), dtype=np.float32)
    hits = answer(engine("lucene"), tmp_path / "most", documents=sparse.csr_array(weights), queries=query)
    weights[0, -1] += 1

    assert hits.scores.tolist() == [[32_767]]
    with pytest.raises(LexbenchError, match=r"add up to 2,147,483,647 at most, and there is 2,147,483,648"):
        answer(engine("lucene"), tmp_path / "more", documents=sparse.csr_array(weights))


ALGORITHMS = ("block_max_maxscore", "block_max_wand", "maxscore", "ranked_or", "ranked_or_taat", "wand")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_pisa_answers_alike_by_every_algorithm(tmp_path, algorithm):
    """The products, and of equal scores the lower position, with empty and unknown queries between."""
    queries = sparse.csr_array(sparse.vstack([QUERIES[:5], sparse.csr_array((2, 300), dtype=np.float32), QUERIES[5:]]))
    hits = answer(engine("pisa", algorithm=algorithm), tmp_path / "index", queries=queries)
    expected = answer(engine("csr"), tmp_path / "csr", queries=queries)

    assert all(map(np.array_equal, hits, expected))


def test_pisa_keeps_what_searching_needs(tmp_path):
    """The uncompressed collection is gone when the index is built."""
    answer(engine("pisa"), tmp_path / "index")

    kept = {"documents", "fwd.doclex", "fwd.termlex", "quantized.q0.bmw.64", "quantized.q0.bmw.64.block_simdbp"}
    assert {path.name for path in (tmp_path / "index").iterdir()} == kept


def test_pisa_needs_no_pyterrier():
    """Only the compiled module is loaded: PyTerrier would take seconds and may start Java."""
    engine("pisa")
    found = loaded_modules("from lexbench.engines import pisa; pisa.compiled_library()")

    assert not [name for name in found if name.startswith(("pyterrier", "jnius"))]


def test_seismic_finds_more_with_a_smaller_heap_factor(tmp_path):
    """Vectors of twelve terms are hard for it: with clusters left out late it finds all that it misses by default."""
    rng = np.random.default_rng(3)
    documents, queries = (sparse.csr_array(rng.integers(0, 4, (n, 12)).astype(np.float32)) for n in (300, 40))
    best = (queries @ documents.T).toarray().max(axis=1)
    built(engine("seismic"), tmp_path / "index", documents)
    found = {}
    for factor in (1.0, 0.1):
        hits = engine("seismic", heap_factor=factor).open(tmp_path / "index").search(queries, 1)
        found[factor] = int((hits.scores[:, 0] == best).sum())

    assert found[0.1] == 40
    assert found[1.0] < 30


@pytest.mark.slow
def test_seismic_takes_large_vocabularies_and_real_weights(tmp_path):
    """Terms above 65,535 differ from terms that are equal modulo 65,536.

    A document's weight of 0.1 counts as the nearest number with 11 bits, 0.0999755859375; a query's weight stays as it is.
    """
    documents, queries = (
        sparse.csr_array((np.array(weights, np.float32), np.array(terms), np.array([0, 1, 2])), shape=(2, 120_000))
        for weights, terms in (([1, 2], [7, 65_543]), ([1, 1], [65_543, 119_999]))
    )
    hits = answer(engine("seismic"), tmp_path / "index", documents=documents, queries=queries, k=2)

    assert hits.docs.tolist() == [[1, -1], [-1, -1]]
    assert hits.scores[0, 0] == 2
    real = [sparse.csr_array(np.array([[weight, 0]], np.float32)) for weight in (0.1, 0.3)]
    hits = answer(engine("seismic"), tmp_path / "real", documents=real[0], queries=real[1], k=1)
    assert hits.scores[0, 0] == pytest.approx(0.0999755859375 * 0.3, rel=1e-6)


@pytest.mark.parametrize("weight", [-0.5, 65_505, np.inf, np.nan])
def test_seismic_refuses_weights_out_of_range(tmp_path, weight):
    """Weights below 0, or too large for half precision, are refused in one line."""
    with pytest.raises(LexbenchError, match=r"^seismic takes weights from 0 to 65,504, and there is (-0.5|65505|inf|nan);"):
        answer(engine("seismic"), tmp_path / "index", documents=sparse.csr_array(np.array([[1, weight]], np.float32)))


def test_silence_ends(capfd):
    """Output inside the context is discarded in any language; output after it is not, also after an exception."""
    command = [sys.executable, "-c", "print('unheard')"]
    with suppress(KeyError), quiet():
        os.write(1, b"unheard")
        subprocess.run(command, check=True)
        raise KeyError
    os.write(1, b"heard")

    assert capfd.readouterr() == ("heard", "")
