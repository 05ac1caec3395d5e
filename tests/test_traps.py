"""The sixteen ways to wrong numbers that were seen in other tools, in the order in which they were written down.

One test a trap. What cannot go wrong here because we do not do it at all is skipped, with the reason.
"""

from collections import Counter
from dataclasses import make_dataclass

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from scipy import sparse

from lexbench import suites
from lexbench.contracts import all_contracts, contract_of
from lexbench.engines.csr import Csr
from lexbench.errors import ContractMismatch
from lexbench.measures import score, tie_report, with_threshold
from lexbench.results import Measurement
from lexbench.runner.systems import describe
from lexbench.storage import environment
from lexbench.storage.artifact_folder import digest
from lexbench.timing import durations as timing
from lexbench.trec.qrels import Qrels, read_qrels
from lexbench.trec.runs import Run, read_run, strictly_decreasing, without_self_matches, write_run
from lexbench.types import Judgement


def qrels_of(grades):
    """Make qrels of {query: {document: grade}}."""
    return Qrels.from_judgements(Judgement(q, d, grade) for q, docs in grades.items() for d, grade in docs.items())


def run_of(ranked):
    """Make a run of {query: {document: score}}."""
    rows = [(q, d, s) for q, docs in ranked.items() for d, s in docs.items()]
    return Run.from_entries([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def test_trap_01_three_tools_three_answers(tmp_path):
    """All tools agree on our files: RR .5, RR@10 .5 and nDCG@10 .631, after a tie of three scores of 300000."""
    qrels = {"q": {"b": 1}}
    tied = {"q": {"c": 300000.0, "b": 300000.0, "a": 300000.0, "z": 1.0}}
    before = ir_measures.calc_aggregate([ir_measures.RR, ir_measures.RR @ 10], qrels, {"q": {**tied["q"], "a0": 300000.0}})
    assert before[ir_measures.RR] != before[ir_measures.RR @ 10]  # the trap is still there

    write_run(run_of(tied), tmp_path / "run")
    exported = list(ir_measures.read_trec_run(str(tmp_path / "run")))
    scored = ir_measures.calc_aggregate([ir_measures.RR, ir_measures.RR @ 10, ir_measures.nDCG @ 10], qrels, exported)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate({"q": {row.doc_id: row.score for row in exported}})
    ours = score(read_run(tmp_path / "run"), qrels_of(qrels), ["RR", "RR@10", "nDCG@10"])

    assert {str(measure): round(value, 3) for measure, value in scored.items()} == {"RR": 0.5, "RR@10": 0.5, "nDCG@10": 0.631}
    assert theirs["q"]["recip_rank"] == 0.5
    assert {name: round(value, 3) for name, value in ours.means.items()} == {"RR": 0.5, "RR@10": 0.5, "nDCG@10": 0.631}


def test_trap_02_scores_that_float32_cannot_tell_apart():
    """We round first and break ties afterwards, like pytrec_eval; float64 scores do not decide."""
    for high, low in ((16777217.0, 16777216.0), (25.12345678, 25.12345674)):
        ranked, qrels = {"q": {"a": high, "b": low}}, {"q": {"a": 1}}
        theirs = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(ranked)

        assert score(run_of(ranked), qrels_of(qrels), ["RR"]).means["RR"] == theirs["q"]["recip_rank"] == 0.5


def test_trap_03_an_adjuster_that_adjusts_nothing():
    """Subtracting 1e-6 does not change float32 scores from 33 up; we use the next number below."""
    for size in (33.0, 300000.0, 2.0**30):
        assert np.float32(size) - np.float32(1e-6) == np.float32(size)
        run = run_of({"q": dict.fromkeys("abcd", size)})
        assert np.all(np.diff(strictly_decreasing(run.offsets, run.scores)) < 0)


def test_trap_04_coarse_quantisation_ties():
    """The result says how far ties could move a measure, and in how many queries they cross its cut-off."""
    impacts = {f"d{i:02}": float(20 - i // 4) for i in range(40)}  # groups of four; the third group is at ranks 9 to 12
    tie = tie_report(run_of({"q": impacts}), qrels_of({"q": {"d08": 1}}), ["RR@10", "P@10", "P@8"])

    assert (tie["RR@10"].lowest, tie["RR@10"].highest, tie["RR@10"].queries) == (0, 1 / 9, 1)
    assert (tie["P@8"].lowest, tie["P@8"].highest, tie["P@8"].queries) == (0, 0, 0)


def test_trap_05_comments_in_run_files(tmp_path):
    """We read files with ir_metadata's comments, on which other tools fail, and write none."""
    with_comments = tmp_path / "commented"
    with_comments.write_text("# ir_metadata.start\n# tag: x\n# ir_metadata.end\nq Q0 d 1 2.5 x\n")
    with pytest.raises(ValueError, match="not enough values"):
        list(ir_measures.read_trec_run(str(with_comments)))

    write_run(read_run(with_comments), tmp_path / "written")
    assert list(ir_measures.read_trec_run(str(tmp_path / "written"))) == [("q", "d", 2.5)]


def test_trap_06_checksums_of_another_dataset(tmp_path, monkeypatch):
    """Every archive has its own MD5 in our contracts, and one that does not match is refused before it is read."""
    from lexbench.datasets.location import find_source

    sources = [one.source for name, one in all_contracts().items() if name != "bright/theoremqa-questions"]  # has those of AoPS
    archives = {(source.md5, source.url) for source in sources if source.md5}
    assert Counter(md5 for md5, _ in archives).most_common(1)[0][1] == 1

    contract = contract_of("beir/scifact/test")
    archive = tmp_path / contract.corpus / str(contract.source.archive)
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"PK, and then the line went dead")
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path))
    with pytest.raises(ContractMismatch, match="5f7d1de60b170fc8027bb7898e2efca1 expected"):
        find_source(contract)


def test_trap_07_means_over_what_was_returned():
    """Every measure averages over all judged queries, and scoring leaves the caller's run as it was."""
    run = run_of({"a": {"x": 1.0}})
    before = (run.docs.tolist(), run.scores.tolist(), run.query_ids)
    names = ["nDCG@10", "RR@10", "R@10", "RCap@10", "Success@10", "AP@10"]

    assert set(score(run, qrels_of({"a": {"x": 1}, "b": {"x": 1}}), names).means.values()) == {0.5}
    assert before == (run.docs.tolist(), run.scores.tolist(), run.query_ids)


def test_trap_08_a_suite_that_is_not_what_its_name_says():
    """BEIR has SCIDOCS and not MS MARCO, ArguAna drops self-matches, and the mean is arithmetic: one 0 does not make it 0."""
    beir = suites.suite("beir").aggregates[0]
    assert "beir/scidocs" in beir.members
    assert not any("msmarco" in member for member in beir.members)
    assert contract_of("beir/arguana").protocol.self_match == "drop"

    scores = dict.fromkeys(beir.members, 0.6) | {"beir/scidocs": 0.0}
    assert beir.over(scores).value == pytest.approx(0.55)
    del scores["beir/scidocs"]
    assert (beir.over(scores).value, str(beir.over(scores))) == (None, "11/12")


def test_trap_09_graded_judgements_collapsed_to_sets():
    """The grade counts: the better document second costs nDCG, which it would not if grades were all 1."""
    ranked = run_of({"q": {"good": 2.0, "best": 1.0}})
    graded = score(ranked, qrels_of({"q": {"good": 1, "best": 3}}), ["nDCG@10"]).means["nDCG@10"]

    assert graded == pytest.approx((1 + 3 / np.log2(3)) / (3 + 1 / np.log2(3)))
    assert score(ranked, qrels_of({"q": {"good": 1, "best": 1}}), ["nDCG@10"]).means["nDCG@10"] == 1


def test_trap_10_times_divided_by_the_wrong_number():
    """Queries per second are the timed queries divided by the time of the median pass; stages have whole wall times."""
    durations = np.array([[1, 2, 3, 4], [2, 4, 6, 8], [10, 10, 10, 10]], np.int64) * 1_000_000  # three passes, four queries

    assert timing.rate(durations, 4) == pytest.approx(4 / 0.020)  # not by 12, nor by the judged ones, nor of the best pass
    assert timing.latency(durations).p50 == pytest.approx(0.005)  # medians of 2, 4, 6 and 8 ms
    assert set(Measurement.__struct_fields__) == {"seconds", "resumed", "machine", "versions", "started"}


def test_trap_11_any_grade_counts_as_relevant():
    """Binary measures need grade 2 on DL passages and grade 1 on DL documents, and the three recalls have three names."""
    passage = contract_of("msmarco-passage/trec-dl-2019/judged")
    document = contract_of("msmarco-document/trec-dl-2019/judged")
    wanted = ["nDCG@10", "RR@10", "R@1000", "RCap@1000", "Success@1000", "AP"]

    assert [with_threshold(measure, document) for measure in wanted] == wanted
    assert [with_threshold(measure, passage) for measure in wanted] == [
        *("nDCG@10", "RR(rel=2)@10", "R(rel=2)@1000", "RCap(rel=2)@1000", "Success(rel=2)@1000", "AP(rel=2)")
    ]
    recalls = score(run_of({"q": {"a": 1.0}}), qrels_of({"q": dict.fromkeys("abcd", 1)}), ["R@2", "RCap@2", "Success@2"])
    assert list(recalls.means.values()) == [0.25, 0.5, 1]


def test_trap_12_an_order_that_depends_on_the_order_of_lines():
    """Ties come out the same however the entries were ordered, and a query without results scores 0 instead of crashing."""
    docs = {f"d{i}": 1.0 for i in range(50)}
    orders = {tuple(run_of({"q": dict(sorted(docs.items(), key=lambda item: hash((item, seed))))}).docs) for seed in range(5)}

    assert len(orders) == 1
    assert score(run_of({}), qrels_of({"q": {"d": 1}}), ["RR@10", "nDCG@10"]).means == {"RR@10": 0, "nDCG@10": 0}


def test_trap_13_cached_vectors_of_another_prompt():
    """The key of kept encodings holds every setting of the encoder and the corpus, not the text alone."""
    encoder = make_dataclass("Encoder", [("prompt", str), ("side", str, "document")], frozen=True)
    recipes = [
        {"encoder": describe(one), "corpus": corpus}
        for one in (encoder("query: "), encoder("passage: "), encoder("query: ", "query"))
        for corpus in ("c1", "c2")
    ]

    assert len({digest(recipe) for recipe in recipes}) == len(recipes)


def test_trap_14_long_terms_that_corrupt_other_weights(tmp_path):
    """An engine sees columns, not words: no term is too long, and every weight comes back as it went in."""
    weights = sparse.csr_array(np.array([[3.0, 0.0, 250.0], [0.0, 7.0, 1.0]], dtype=np.float32))
    Csr().build([weights], tmp_path)
    hits = Csr().open(tmp_path).search(sparse.csr_array(np.eye(3, dtype=np.float32)), 2)

    rows = ((term, doc, score) for term in range(3) for doc, score in zip(hits.docs[term], hits.scores[term], strict=True))
    found = {(term, int(doc)): float(score) for term, doc, score in rows if doc >= 0}
    assert found == {(0, 0): 3, (1, 1): 7, (2, 0): 250, (2, 1): 1}


def test_trap_15_reports_without_the_machine():
    """Every fact of the machine is there, and none is empty."""
    facts = environment.facts()

    assert {"processor", "cores", "memory_gib", "system", "python"} <= set(facts)
    assert all(facts.values())
    assert int(facts["cores"]) >= 1


def test_trap_16_self_matches_dropped_everywhere():
    """Only ArguAna drops them."""
    dropping = [name for name, contract in all_contracts().items() if contract.protocol.self_match == "drop"]
    assert dropping == ["beir/arguana"]
    assert without_self_matches(run_of({"7": {"7": 2.0, "8": 1.0}})).dropped == 1


def test_trap_16_elsewhere_equal_ids_mean_nothing(shared):
    """In no other published judgements is a document with the query's id relevant, which dropping would lose."""
    data = shared / "data"
    files = [*data.glob("beir_topics_qrels/qrels.*"), *data.glob("msmarco/qrels.*-passage*")]
    assert len(files) == 15
    for path in files:  # had one of these a relevant document with the query's id, dropping it would cost score
        assert not [row for row in read_qrels(path).judgements() if row.query_id == row.doc_id and row.grade > 0], path
