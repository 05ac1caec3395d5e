"""Systems that did not work are not measured, instead of worse: in run, score, compare, gate, audit and the board."""

import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
import samples
from servers import serving
from tiny import ended
from workbench import results as results_of

import lexbench
from lexbench.analysis.gate.files import read_baselines
from lexbench.display.table import number
from lexbench.errors import CannotStart
from lexbench.results import Counts, SystemResults, files_of, load
from lexbench.runner.given import given_qrels
from lexbench.runner.list_faults import list_facts, list_notes
from lexbench.runner.scoring import score_ranked
from lexbench.trec.qrels import read_qrels
from lexbench.trec.runs import Run, read_run

BOARD = Path(__file__).parent.parent / "leaderboard"
STAMPS = {"system": "s", "dataset": "d", "contract": "none"}


def judged(queries, documents):
    """Return judgements of *queries* queries that name so many different *documents*, d0 first."""
    most = max(queries, documents)
    return given_qrels(
        {f"q{at}": {f"d{number % documents}": 1 for number in range(at, most, queries)} for at in range(queries)}
    )


def lists(count, documents=lambda at: [f"d{at + rank}" for rank in range(6)], score=lambda rank: 9 - rank):
    """Return a list for each of *count* queries, of the documents for the number of a query."""
    return {f"q{at}": [(name, score(rank)) for rank, name in enumerate(documents(at))] for at in range(count)}


def made(given, dtype=float):
    """Return the run of *given* lists."""
    rows = [(query, name, score) for query, pairs in given.items() for name, score in pairs]
    queries, names, scores = zip(*rows, strict=True)
    return Run.from_entries(queries, names, np.array(scores, dtype))


ONE = [f"d{rank}" for rank in range(6)]


@pytest.mark.parametrize(
    ("given", "queries", "documents", "reason"),
    [
        (lists(10), 10, 20, ""),
        (lists(10), 20, 20, ""),
        (lists(10), 21, 21, "11 of 21 queries got no document"),
        (lists(10, lambda _: ONE), 10, 20, "10 of 10 queries got one and the same list"),
        (lists(10, lambda at: ONE if at < 6 else [f"d{at}"]), 10, 20, "6 of 10 queries got one and the same list"),
        (lists(10, lambda at: ONE if at < 5 else [f"d{at}"]), 10, 20, ""),
        (lists(10, lambda at: [*ONE, "d6", "d7", "d8", "d9", f"d{10 + at}"]), 10, 20,
         "10 of 10 queries got one and the same list"),  # the first ten documents count
        (lists(10, lambda _: ["d3"]), 10, 20, "10 of 10 queries got one and the same list"),
        (lists(10, lambda at: [*ONE[:-1], f"d{6 + at}"]), 10, 20, ""),
        (lists(10, lambda at: [*ONE[:4], ONE[5 - at % 2], ONE[4 + at % 2]]), 10, 9, ""),
        (lists(10, lambda _: ONE), 10, 9, ""),  # a collection of so few documents may have one order
        (lists(9, lambda _: ONE), 9, 20, ""),  # and so few queries may be alike
        (lists(2), 9, 20, ""),  # or have no word of the collection
        (lists(10, score=lambda _: 1), 10, 20, "in the lists of 10 of 10 queries all scores are equal"),
        (lists(10, lambda at: [f"d{at}", f"d{at + 1}"], lambda _: 1), 10, 20, ""),  # two documents may tie
        (lists(10, lambda at: [f"x{at}{rank}" for rank in range(6)]), 10, 20,
         "none of the 20 judged documents is in its lists"),
        (lists(9, lambda at: [f"x{at}"]), 9, 20, ""),
    ],
)  # fmt: skip
def test_a_dead_system_has_a_reason(given, queries, documents, reason):
    """By hand: more than half of the queries must show a sign."""
    result = score_ranked(made(given), judged(queries, documents), ["nDCG@10"], STAMPS)
    assert result.unmeasured == reason


def test_equal_scores_matter_only_to_measures_that_ties_can_change():
    """A system that returns a set has one score for all. Its recall of the whole set is measured."""
    run, qrels = made(lists(10, score=lambda _: 1)), judged(10, 20)
    assert score_ranked(run, qrels, ["R@100"], STAMPS).unmeasured == ""
    assert "all scores are equal" in score_ranked(run, qrels, ["R@100", "RR@10"], STAMPS).unmeasured


def test_the_same_lists_are_recognised():
    """Scores do not matter; documents, their order, the number of lists and what follows the first ten do."""
    qrels, long = judged(10, 20), lambda at: [f"d{(at + rank) % 20}" for rank in range(12)]
    given = {
        "a": lists(10, long), "scaled": lists(10, long, lambda rank: 20 - 2 * rank),
        "later": dict(reversed(lists(10, long).items())), "turned": lists(10, lambda at: long(at)[::-1]),
        "tail": lists(10, lambda at: [*long(at)[:11], f"d{at + 30}"]), "fewer": lists(9, long),
    }  # fmt: skip
    found = [score_ranked(made(one), qrels, ["nDCG@10"], {**STAMPS, "system": name}) for name, one in given.items()]
    expected = "d: a, scaled and later found the same documents in the same order; what differs between them changed nothing"
    assert [*list_notes(found)] == [expected]


def test_short_lists_are_named():
    """More than half of the lists have fewer than ten documents, in a collection of more."""
    qrels = judged(10, 20)
    long, short = (made(lists(10, lambda at, n=n: [f"d{(at + rank) % 20}" for rank in range(n)])) for n in (10, 9))
    found = [score_ranked(run, qrels, ["RR@5"], {**STAMPS, "system": name}) for name, run in (("a", long), ("b", short))]
    assert [*list_notes(found)] == ["b on d: 10 of 10 queries got fewer than 10 documents"]


def test_no_committed_result_is_called_dead():
    """All results of the leaderboard; those of an older lexbench have fewer signs."""
    found = [(one, path) for path in files_of(BOARD) for one in load(path, SystemResults).results]
    assert len(found) > 100
    assert [one.system for one, _ in found if one.unmeasured] == []


@pytest.mark.slow
def test_no_published_run_is_called_dead(shared):
    """Runs of DL-HARD by their own judgements. By those of its other collection, none of their documents is judged."""
    folder = shared / "data" / "runs" / "dl-hard"
    qrels = {kind: read_qrels(folder / f"dl_hard-{kind}.qrels") for kind in ("doc", "passage")}
    names = {"doc": ["bm25", "bm25+rm3", "bm25+parade-electra"], "passage": ["bm25", "bm25+t5(zs)"]}
    for kind, name in [(kind, name) for kind, of_kind in names.items() for name in of_kind]:
        run = read_run(folder / "baselines" / kind / f"{name}.run.gz")
        said = {other: score_ranked(run, judged, ["nDCG@10"], STAMPS).unmeasured for other, judged in qrels.items()}
        assert said.pop(kind) == ""
        assert next(iter(said.values())).startswith("none of the ")


def test_no_system_of_lexbench_is_called_dead(bread, store):
    """Lexical and learned systems on a small collection, also with one term per document, and for one document per query."""
    systems = ["bm25", "lexmae_nano@impact", "lexmae_nano|top_k(1)@impact"]
    for depth in (1, 1000):
        found = results_of(bread, store, systems, ["nDCG@1"], depth)
        assert [one.unmeasured for one in found] == [""] * len(systems)


# ---- the commands ----------------------------------------------------------------------------------------------------------


def empty(queries, _k):
    """Answer nothing."""
    return {query: {} for query in queries}


@pytest.fixture(scope="module")
def dead(bread, tmp_path_factory):
    """Return the results of bm25, of another bm25, of a system that answers nothing, and of one with one list for all."""
    names = [json.loads(line)["_id"] for line in (bread / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[:10]]

    def one_list(queries, _k):
        return {query: {name: 10.0 - at for at, name in enumerate(names)} for query in queries}

    return lexbench.run(
        bread,
        {"bm25": "bm25", "other": "bm25(k1=0.5)", "empty": empty, "one": one_list},
        store=tmp_path_factory.mktemp("store"),
    )


def test_a_server_at_a_wrong_address_ends_with_one(bread, store, capsys):
    """Every answer is empty: the exit code is 1, the line says how many, and `compare` calls it not measured."""
    with serving(lambda *_: (200, {"docs": []}, {})) as server:
        served = f'served = url("{server.url}/wrong?q={{query}}", documents="docs", id="id", revision="1")'
        printed = ended(capsys, 1, "run", "dataset", bread, "-r", "bm25", "-r", served, "-m", "nDCG@10")
        printed_json = json.loads(ended(capsys, 1, "run", "dataset", bread, "-r", "bm25", "-r", served, "--json").out)
    line = "served on bread/test: not measured: 16 of 16 queries got no document"
    assert line in printed.err
    assert line in " ".join(printed.out.split())
    assert printed_json["unmeasured"] == [
        {"dataset": "bread/test", "system": "served", "error": "16 of 16 queries got no document"}
    ]
    out = " ".join(ended(capsys, 0, "compare", "bm25", "served").out.split())
    assert "not measured" in out
    assert " worse" not in out.replace("better than A", "")
    assert "not measured: served on bread/test" in ended(capsys, 1, "compare", "bm25", "served", "--fail-if-worse").err
    assert "served was not measured on bread/test, so nothing can be compared with it" in (
        ended(capsys, 3, "compare", "served", "bm25").err
    )


def test_a_comparison_has_no_test_of_a_dead_arm(dead):
    """No difference, p or place in the family of tests; the others are as without it."""
    with_dead, without = dead.compare("bm25", "other", "empty", "one", margin=0.1), dead.compare("bm25", "other", margin=0.1)
    (on,) = with_dead.datasets
    assert on.unmeasured == {
        "empty": "16 of 16 queries got no document", "one": "16 of 16 queries got one and the same list",
    }  # fmt: skip
    assert on.differences == without.datasets[0].differences
    assert with_dead.worse == without.worse
    assert with_dead.unmeasured == ["empty on bread/test", "one on bread/test"]
    rows = {row["system"]: row for row in with_dead.rows()}
    assert "p" not in rows["empty"]
    assert rows["empty"]["unmeasured"] == "16 of 16 queries got no document"
    assert {change.system for change in with_dead.query_changes} == {"other"}
    with pytest.raises(CannotStart, match="one was not measured on bread/test, so nothing can be compared with it: 16 of 16"):
        dead.compare("one", "bm25")


def test_a_setting_that_did_nothing_is_named(bread, store):
    """Two systems with the same lists get a line in `run` and in `compare`."""
    found = lexbench.run(bread, ["bm25", "same = bm25(threads=2)", "bm25(k1=0.3)"])
    line = "bread/test: bm25 and same found the same documents in the same order; what differs between them changed nothing"
    assert line in found.compare("bm25", "same", "bm25(k1=0.3)").notes
    assert any(line in note for table in found.tables() for note in table.notes)


def test_a_run_file_and_a_given_run_are_checked(bread, store, tmp_path, capsys):
    """`score`, and `compare` of run files as systems: a file with one list for all, and a mapping."""
    queries = read_qrels(bread / "qrels" / "test.tsv").query_ids
    names = [json.loads(line)["_id"] for line in (bread / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[:10]]
    lines = [f"{query} Q0 {name} {rank} {20 - rank} x" for query in queries for rank, name in enumerate(names)]
    file = tmp_path / "one.run"
    file.write_text("\n".join(lines) + "\n")
    reason = "16 of 16 queries got one and the same list"
    assert f"one.run on bread/test: not measured: {reason}" in ended(capsys, 1, "score", file, "-d", bread).err
    printed = ended(capsys, 1, "score", file, "--qrels", bread / "qrels" / "test.tsv", "--json")
    assert json.loads(printed.out)["unmeasured"] == reason
    given = {query: dict.fromkeys(names, 1.0) for query in queries[:3]}
    assert lexbench.score(given, bread).result.unmeasured == "13 of 16 queries got no document"
    assert reason in ended(capsys, 1, "run", "dataset", bread, "-r", "bm25", "-r", file).err


def test_runs_as_systems_claims_and_reports_are_checked(dead, bread, store, tmp_path, capsys):
    """A run file with one list for all is not measured; no order and no report is made with it."""
    qrels = bread / "qrels" / "test.tsv"
    judged_documents = read_qrels(qrels)
    for name, documents in (
        ("good", lambda at: [f"b{(at * 7 + rank) % 80 + 1:02}" for rank in range(10)]),
        ("same", lambda _: ONE),
    ):
        rows = [
            f"{query} Q0 {document} {rank} {20 - rank} x"
            for at, query in enumerate(judged_documents.query_ids)
            for rank, document in enumerate(["b45", *documents(at)] if name == "same" else documents(at))
        ]
        (tmp_path / f"{name}.run").write_text("\n".join(rows) + "\n")
    words = ["compare", tmp_path / "good.run", tmp_path / "same.run", "--qrels", qrels]
    out = " ".join(ended(capsys, 0, *words).out.split())
    assert "same on test.tsv: not measured: 16 of 16 queries got one and the same list" in out
    assert (
        "'A > B nDCG@10' cannot be checked: same was not measured" in ended(capsys, 3, *words, "--claim", "A > B nDCG@10").err
    )
    with pytest.raises(CannotStart, match="one was not measured on bread/test, so there is nothing to report: 16 of 16"):
        lexbench.report(dead, "bm25", "one")


def test_a_gate_accepts_no_dead_baseline(bread, store, tmp_path, capsys, monkeypatch):
    """Neither `gate init` nor `gate` nor `gate update` takes a system that answers nothing, or a baseline of zeros."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "silent.py").write_text("def search(queries, k):\n    return {query: {} for query in queries}\n")
    said = ended(capsys, 3, "gate", "init", "-d", bread, "-r", "silent:search").err
    assert "was not measured: 16 of 16 queries got no document" in said
    assert not (tmp_path / "lexbench-gate.toml").exists()

    ended(capsys, 0, "gate", "init", "-d", bread, "-r", "bm25")
    baselines = Path("lexbench-gate.json")
    (name, baseline), *_ = read_baselines(baselines).items()
    zeros = msgspec.structs.replace(baseline, values=dict.fromkeys(baseline.values, 0.0))
    baselines.write_bytes(msgspec.json.encode({name: zeros}))
    assert "its baseline is 0 for all queries, so no fall can be found" in ended(capsys, 3, "gate").err
    ended(capsys, 0, "gate", "update")
    ended(capsys, 0, "gate")

    gates = Path("lexbench-gate.toml")
    gates.write_text(gates.read_text().replace('"bm25"', '"silent:search"'))
    for words in (["gate"], ["gate", "update"]):
        assert "was not measured: 16 of 16 queries got no document" in ended(capsys, 3, *words).err
    assert any(read_baselines(baselines)[name].values.values())


def test_audit_ranks_and_board_put_a_dead_system_aside(dead, tmp_path, capsys):
    """It has no rank, no test and no mark of the best; a note says why."""
    folder = tmp_path / "results"
    dead.save(folder)
    printed = " ".join(ended(capsys, 0, "audit", folder).out.split())
    assert "empty on bread/test: not measured: 16 of 16 queries got no document" in printed
    assert not re.search(r"(empty|one) +0\.", printed)
    assert {one.system for one in dead.ranks().systems} == {"bm25", "other"}
    assert dead.ranks().left_out == ["empty", "one"]
    (section,) = lexbench.leaderboard(folder).board.suites
    aside = {system.label: system.aside for system in section.systems}
    assert aside == {"bm25": "", "other": "", "empty": "not measured", "one": "not measured"}
    assert set(list(aside)[-2:]) == {"empty", "one"}
    rows = {row.name: row for row in section.summary.rows}
    assert [rows[name].ranked for name in ("bm25", "empty", "one")] == [True, False, False]
    assert rows["empty"].values[0].text == number(None)
    (panel,) = section.datasets
    assert {section.systems[at].label for at in panel.compared} == {"bm25", "other"}
    assert any(note.startswith("Not measured and not ranked") for note in section.notes)


def test_a_mean_over_seeds_with_a_dead_seed_is_not_measured(dead):
    """A seed that did not work makes the group say nothing."""
    compared = dead.compare("bm25", "group", seeds={"group": ["other", "one"]})
    assert compared.unmeasured == ["group on bread/test"]


def test_results_of_an_older_lexbench_have_one_sign_less(store):
    """Without counts of lists, only queries without a document count."""
    values = np.full(40, 0.5)
    old = samples.result("old", values, counts=Counts(queries=40, missing=0))
    gone = samples.result("gone", values * 0, counts=Counts(queries=40, missing=21))
    assert (old.unmeasured, gone.unmeasured) == ("", "21 of 40 queries got no document")
    few = [samples.result("few", values[:count], counts=Counts(queries=count, missing=count)).unmeasured for count in (4, 5)]
    assert few == ["", "5 of 5 queries got no document"]


def test_facts_by_hand():
    """Two lists of three documents, one of them of equal scores; the third query has none."""
    run = made({"q0": [("d0", 3), ("d1", 2), ("x", 1)], "q1": [("d0", 1), ("d1", 1), ("x", 1)], "other": [("d9", 1)]})
    facts = list_facts(run, given_qrels({"q0": {"d0": 1}, "q1": {"d1": 0, "d5": 1}, "q2": {"d6": 2}}))
    found = {name: getattr(facts, name) for name in ("short", "same", "constant", "judged", "found")}
    assert found == {"short": 2, "same": 1, "constant": 0, "judged": 4, "found": 2}
