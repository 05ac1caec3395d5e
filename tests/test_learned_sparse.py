"""LexMAE and SPLADE end to end: from a checkpoint in a folder to scores, on several engines."""

import contextlib
import io
import json
import random

import checkpoints
import numpy as np
import pytest
import tiny

from lexbench.analysis.stored_results import stored_results
from lexbench.cli import code
from lexbench.runner.search import read_run
from lexbench.runner.systems import system
from lexbench.storage import store

DOCUMENTS, QUERIES = 200, 20


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Write a LexMAE checkpoint with random weights in its authors' form."""
    place = tmp_path_factory.mktemp("models") / "lexmae"
    return checkpoints.masked_lm(place, form="fine_tuned", safetensors=False, max_position_embeddings=512)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a BEIR folder of 200 documents, some of them empty."""
    chance = random.Random(11)
    texts = {f"d{i:03d}": " ".join(chance.choices(checkpoints.WORDS, k=chance.randrange(30))) for i in range(DOCUMENTS)}
    queries = {f"q{i}": " ".join(chance.choices(checkpoints.WORDS, k=3)) for i in range(QUERIES)}
    judged = [(f"q{i}", f"d{i * 7:03d}", 1) for i in range(QUERIES)]
    return tiny.write(tmp_path_factory.mktemp("letters") / "letters", texts, queries, judged)


def lexmae(checkpoint):
    """Return the encoder as a user types it; random weights need dense_ok."""
    return f'lexmae(model="{checkpoint}", dense_ok=True)'


def options(*systems):
    """Return the options of a run of *systems*."""
    return [*(word for one in systems for word in ("-r", one)), "--json", "--depth", "50", "-m", "nDCG@10"]


@pytest.fixture(scope="module")
def finished(checkpoint, folder, tmp_path_factory):
    """Run LexMAE on three engines, and its top-K on one, in one command; return the results and the store."""
    place, name = tmp_path_factory.mktemp("store"), lexmae(checkpoint)
    systems = [f"{name}@impact", f"{name}|quantize(100)@csr", f"{name}|top_k([8, 2])@impact"]
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setenv("LEXBENCH_STORE", str(place))
        assert code(["run", "dataset", str(folder), *options(*systems)]) == 0
    return {one["system"].partition(")")[2]: one for one in json.loads(said.getvalue())["results"]}, place


def test_the_run_has_the_products_of_rounded_vectors(checkpoint, folder, finished):
    """Scores are those of vectors times 100 in whole numbers, and the documents are those with the largest scores."""
    _, place = finished
    encoder = system(lexmae(checkpoint)).retriever.encoder
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    queries = [json.loads(line)["text"] for line in (folder / "queries.jsonl").read_text().splitlines()]
    vectors = (encoder.encode_query(queries), encoder.encode_document([one["text"] for one in documents]))
    queries, texts = (np.rint(np.float32(100) * one.toarray()) for one in vectors)
    expected, ids = {f"q{i}": row for i, row in enumerate(queries @ texts.T)}, [one["_id"] for one in documents]

    kept = next(one for one in stored_results(store.Store(place)).entries if one.result.system.endswith(")@impact") and one.run)
    run = read_run(kept.run).run
    for row, query in enumerate(run.query_ids):
        found = slice(run.offsets[row], run.offsets[row + 1])
        names = [run.table[doc].decode() for doc in run.docs[found]]
        truth = expected[query][[ids.index(name) for name in names]]

        assert np.allclose(truth, run.scores[found], rtol=1e-3)
        assert np.isclose(truth.min(), np.sort(expected[query])[-len(names)], rtol=1e-3)


def test_systems_of_one_encoder_are_encoded_once(finished):
    """All engines and values of K share one encoding and have separate indexes."""
    _, place = finished

    assert len(list((place / "encodings").iterdir())) == 1
    assert len(list((place / "indexes").iterdir())) == 4


def test_the_result_has_the_size_of_the_vectors(finished):
    """Top-K keeps at most K terms but for ties, takes three bytes per term, and needs fewer postings."""
    results, _ = finished
    for k in (8, 2):
        cut = results[f"|top_k({k})@impact"]
        assert k <= cut["vectors"]["terms"]["max"] < k + 3
        assert cut["vectors"]["bytes_per_document"] == pytest.approx(3 * cut["vectors"]["terms"]["mean"])
    whole, cut = results["@impact"], results["|top_k(8)@impact"]

    assert cut["work"]["query_terms"] == whole["work"]["query_terms"]
    assert cut["work"]["postings"]["mean"] < whole["work"]["postings"]["mean"]
    assert whole["work"]["flops"] == pytest.approx(whole["work"]["postings"]["mean"] / DOCUMENTS)
    assert len(whole["vectors"]["examples"]) == 5
    assert whole["vectors"]["empty"] >= 1  # a text without words has only [CLS] and [SEP], which do not count


@pytest.mark.parametrize(("layout", "rest"), [("seismic", "@csr"), ("anserini", "|quantize(100)@impact")])
@pytest.mark.usefixtures("bread_suite")
def test_exported_vectors_can_be_read_again(layout, rest, checkpoint, store, tmp_path, capsys):
    """Exported vectors, read again as `vectors`, give the same scores."""
    suite = ("run", "suite", "bread", "-d", "bread/test", "-m", "nDCG@10", "--json", "-r")
    name = lexmae(checkpoint).replace("dense_ok", "document_length=16, dense_ok")
    first = tiny.answer(capsys, *suite, name + rest)["results"][0]
    documents, queries = tiny.answer(capsys, "export", layout, str(tmp_path / "out"), "-r", first["system"], "--json")
    rest = rest.replace("100", "1")  # they are whole numbers already
    exported = f'vectors(documents="{documents}", queries="{queries}", format="{layout}")'
    again = tiny.answer(capsys, *suite, exported + rest)["results"][0]

    assert again["per_query"] == first["per_query"]
    assert again["work"] == first["work"]


def test_vectors_for_impact_are_quantised(checkpoint):
    """For `impact` vectors are quantised by default, and the recipe says so."""
    expressions = ("@impact", "|quantize(50)@impact", "|top_k(8)@impact", "@csr")
    recipes = [system(f'splade(model="{checkpoint}"){rest}', name="s").retriever.transforms for rest in expressions]
    names = [[f"{type(one).__name__}({getattr(one, 'scale', '')})" for one in transforms] for transforms in recipes]

    assert names == [["Quantize(100.0)"], ["Quantize(50.0)"], ["TopK()", "Quantize(100.0)"], []]
