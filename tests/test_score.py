"""`lexbench score`: slices, runs of the store, precision of scores, compressed and damaged files."""

import bz2
import gzip
import lzma
import random
import time

import fruit
import numpy as np
import pytest
import pytrec_eval
import samples
import tiny
from samples import texts_of
from tiny import answer, ended

from lexbench.analysis.significance import bootstrap
from lexbench.analysis.slices import read_slices
from lexbench.retrievers.run_file import RunFile
from lexbench.runner.scoring import JudgementRules, score_lists


@pytest.fixture
def files(store, tmp_path):
    """Write a run of four queries, judgements, and slices; the first relevant document is at rank 1, 2, 1 and nowhere."""
    ranks = {"q1": "ab", "q2": "ba", "q3": "ab", "q4": "bc"}
    lines = [f"{query} Q0 {doc} {at + 1} {9 - at} x\n" for query, docs in ranks.items() for at, doc in enumerate(docs)]
    (tmp_path / "x.run").write_text("".join(lines))
    (tmp_path / "x.qrels").write_text("".join(f"{query} 0 a 1\n" for query in ranks))
    (tmp_path / "x.slices").write_text("q1 short\nq2 short\nq4 long\nq2 odd\n")
    return tmp_path


def test_each_slice_has_its_mean_its_count_and_a_corrected_interval(files, capsys):
    """RR of short is (1 + .5) / 2, of long 0, of odd .5; intervals are bootstrap intervals at 1 - .05 / 3."""
    words = ["score", "x.run", "--qrels", "x.qrels", "-m", "RR@10", "--slices", "x.slices"]
    slices = answer(capsys, *words, "--json")["slices"]

    found = [(one["slice"], one["queries"], one["means"]["RR@10"]) for one in slices]
    assert found == [("short", 2, 0.75), ("long", 1, 0.0), ("odd", 1, 0.5)]
    expected = bootstrap.interval(np.array([1.0, 0.5]), level=1 - 0.05 / 3)
    assert slices[0]["intervals"]["RR@10"] == pytest.approx(expected)
    out = " ".join(ended(capsys, 0, *words).out.split())
    assert "hold together with 95 % confidence" in out
    assert read_slices(files / "x.slices").sha256[:12] in out


def test_compare_tests_every_slice_and_corrects_for_all_of_them(files, tmp_path, monkeypatch, capsys):
    """For two runs on two slices, p is corrected by Holm over both."""
    folder = tiny.write(tmp_path / "tiny", tiny.DOCUMENTS, tiny.QUERIES, [("q1", "d2", 2), ("q1", "d1", 1), ("q2", "d3", 1)])
    ended(capsys, 0, "run", "dataset", folder, "-r", "bm25", "-r", "bm25(k1=2.0)", "-m", "RR@10")
    (tmp_path / "declared").write_text("q1 one\nq2 two\n")
    words = ["compare", "bm25", "bm25(k1=2.0)", "-m", "RR@10", "--slices", "declared"]
    found = answer(capsys, *words, "--json")

    assert [(on["slice"], on["queries"]) for on in found["slices"]] == [("one", 1), ("two", 1)]
    assert [on["differences"][0]["corrected"] for on in found["slices"]] == [1.0, 1.0]
    assert found["slices_sha256"] == read_slices(tmp_path / "declared").sha256
    assert "over 2 comparisons on slices" in " ".join(ended(capsys, 0, *words).out.split())


def test_a_system_of_the_store_is_scored_by_any_measure(files, capsys):
    """What was run with RR@10 is scored by P@1 from its run; an unknown name is one line."""
    folder = str(fruit.write(files / "fruit", split="test"))
    ended(capsys, 0, "run", "dataset", folder, "-r", "bm25", "-m", "RR@10")

    found = answer(capsys, "score", "bm25", "-d", folder, "-m", "P@1", "--json")
    assert (found["system"], found["precision"]) == ("bm25", "float32")
    assert "there are: bm25" in ended(capsys, 3, "score", "bm26", "-d", folder).err


@pytest.mark.parametrize("words", [["score", "f.run", "-d"], ["run", "dataset", "-r", "f.run"]], ids=lambda words: words[0])
def test_documents_of_a_run_file_that_a_folder_lacks_are_counted(files, capsys, words):
    """A note has their number and one of them."""
    (files / "f.run").write_text("qa Q0 a3 1 9 x\nqa Q0 z9 2 8 x\nqa Q0 z8 3 7 x\nqf Q0 a3 1 9 x\n")
    printed = ended(capsys, 0, *words, fruit.write(files / "fruit", split="test"))
    assert "2 of its 3 documents are not in the corpus, e.g. 'z8'" in " ".join(printed.out.split())


@pytest.mark.slow
def test_a_system_that_was_run_again_is_scored_by_its_newest_run(files, capsys):
    """Changed expansions give another index under the same name; the newest run counts."""
    folder, system = str(fruit.write(files / "fruit", split="test")), 'bm25(expansions="e.tsv")'
    for document, relevant in (("a1", 0), ("a2", 1), ("p1", 0)):  # by turns, so that no other order than time would do
        (files / "e.tsv").write_text(f"{document}\t{200 * 'fig '}\n")
        ended(capsys, 0, "run", "dataset", folder, "-r", system, "-m", "RR@10")
        found = answer(capsys, "score", system, "-d", folder, "-m", "Success@1", "--per-query", "--json")
        assert dict(zip(found["query_ids"], found["per_query"]["Success@1"], strict=True))["qf"] == relevant
        time.sleep(1.0)  # results tell in whole seconds when they were made


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_a_compressed_run_is_read_whatever_its_name_is(files, capsys, pack):
    """The compression is recognised by the bytes, scores are equal, and a truncated file gives one line."""
    packed = pack((files / "x.run").read_bytes())
    words = ["--qrels", "x.qrels", "-m", "RR@10", "--json"]
    (files / "packed").write_bytes(packed)
    found = answer(capsys, "score", "packed", *words)
    assert answer(capsys, "score", "x.run", *words)["per_query"] == found["per_query"]
    (files / "packed").write_bytes(packed[: len(packed) - 6])
    assert ended(capsys, 2, "score", "packed", *words).err.count("\n") == 1


def test_queries_without_relevant_documents_have_a_note(files, capsys):
    """A note counts judged queries without relevant documents."""
    (files / "x.qrels").write_text("q1 0 a 1\nq2 0 a 1\nq3 0 a 0\nq4 0 a 1\n")
    notes = answer(capsys, "score", "x.run", "--qrels", "x.qrels", "--json")["notes"]
    assert "1 of 4 judged queries have no relevant document: on them every system scores 0" in texts_of(notes)

    (files / "other.run").write_text("q1 Q0 MED-1 1 1 x\n")
    notes = answer(capsys, "score", "other.run", "--qrels", "x.qrels", "--json")["notes"]
    assert "none of its documents is judged; their ids look like 'MED-1', those of the judgements like 'a'" in texts_of(notes)


CLOSE = "q Q0 a 1 12.34567891 t\nq Q0 b 2 12.34567890 t\nq Q0 c 3 1 t\n"  # a and b are one number as float32
SCORE_CLOSE = ["score", "close.run", "--qrels", "close.qrels", "-m"]


@pytest.fixture
def close(files):
    """Write a run whose scores of a and b are equal as float32, and judgements of a and c as relevant."""
    (files / "close.run").write_text(CLOSE)
    (files / "close.qrels").write_text("q 0 a 1\nq 0 c 1\n")
    return files / "close.run"


@pytest.mark.parametrize(("precision", "mean", "other", "lowest"), [("double", 1.0, 0.5, 1.0), ("float32", 0.5, 1.0, 0.5)])
def test_scores_are_compared_in_either_precision(close, capsys, precision, mean, other, lowest):
    """Double is like trec_eval since 2023, float32 like pytrec_eval; ties and the mean in the other precision are shown."""
    found = answer(capsys, *SCORE_CLOSE, "RR", "--scores", precision, "--json")

    assert (found["precision"], found["means"], found["other_precision"]) == (precision, {"RR": mean}, {"RR": other})
    assert (found["ties"]["RR"]["lowest"], found["ties"]["RR"]["highest"]) == (lowest, 1.0)
    if precision == "float32":
        ranked = {"q": {"a": 12.34567891, "b": 12.3456789, "c": 1.0}}
        theirs = pytrec_eval.RelevanceEvaluator({"q": {"a": 1, "c": 1}}, {"recip_rank"}).evaluate(ranked)
        assert theirs["q"]["recip_rank"] == mean
    else:
        told = " ".join(ended(capsys, 0, *SCORE_CLOSE, "RR").out.split())
        assert "as float32, like trec_eval to v9.0.8 of 2020, pytrec_eval" in told


def test_orders_that_give_equal_means_need_no_note(close, capsys):
    """If the order differs only among unjudged documents, or not at all, the other precision is not mentioned."""
    close.write_text("q Q0 a 1 2 t\nq Q0 x 2 1.00000001 t\nq Q0 y 3 1 t\n")

    assert answer(capsys, *SCORE_CLOSE, "RR", "-m", "nDCG@10", "--json")["other_precision"] == {}


def test_measures_deeper_than_a_run_are_named(close, capsys):
    """R@1000 of lists with three documents is R@3, and a note says so; RR@2 needs no note."""
    notes = answer(capsys, *SCORE_CLOSE, "R@1000", "-m", "RR@2", "--json")["notes"]

    assert texts_of(notes) == ["the longest list has 3 documents, and R@1000 would look at more"]


def test_a_run_file_in_a_suite_is_read_in_either_precision(close):
    """The setting is part of the file's identity, so the two precisions are never confused."""
    double, single = RunFile(str(close)), RunFile(str(close), scores="float32")

    assert [double.read("x").scores.dtype, single.read("x").scores.dtype] == [np.float64, np.float32]
    assert double.file_identity("x") != single.file_identity("x")


def judged_and_run(chance, filler=0, lost=0):
    """Make judgements of 40 queries and a run of exactly their relevant documents, with more and with fewer documents."""
    relevant = {f"q{at}": {f"d{at}-{number}": 1 for number in range(1 + at % 3)} for at in range(40)}
    judgements = {query: {**graded, f"n{query}": 0} for query, graded in relevant.items()}
    lists = {query: [*graded, *(f"x{number}" for number in range(filler))] for query, graded in relevant.items()}
    for query in list(lists)[:lost]:
        chance.shuffle(lists[query])
    return samples.judged(**judgements), samples.ranked(**lists)


@pytest.mark.parametrize(
    ("filler", "lost", "signs"),
    [
        (0, 0, ["nDCG@10 is 1 for 40 of 40 queries", "all 79 documents in its lists are judged", "as long as the query has"]),
        (5, 0, ["nDCG@10 is 1 for 40 of 40 queries"]),
        (5, 40, []),
    ],
)
def test_a_run_made_from_the_judgements_has_notes(filler, lost, signs):
    """Perfect queries, only judged documents, and lists as long as the answers are noted; an ordinary run has no such note."""
    qrels, run = judged_and_run(random.Random(1), filler, lost)
    found = [
        note.text
        for note in score_lists(run, "x", ["nDCG@10"], JudgementRules(qrels, None, "q")).notes
        if note.kind == "too good"
    ]

    assert len(found) == len(signs)
    assert all(sign in text for sign, text in zip(signs, found, strict=True))
