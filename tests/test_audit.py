"""Audits of leaderboards: ranks that can be told apart, faults of a board, and predictions from small suites."""

import json

import pytest
from tiny import answer, ended

from lexbench.analysis.audit import Board, Cell, audit, predict
from lexbench.interop.boards import read_boards


def board(datasets, **systems):
    """Return a board of systems with one score for all datasets, or a list of scores."""
    scores = {name: value if isinstance(value, list) else [value] * datasets for name, value in systems.items()}
    cells = {name: {f"d{at}": Cell(value=value) for at, value in enumerate(row)} for name, row in scores.items()}
    return Board(name="board", cells=cells)


def rows(table):
    """Return the rows of a table by their first cell."""
    return {row[0]: row[1:] for row in table.rows}


@pytest.mark.parametrize(
    ("datasets", "apart", "uncorrected"),
    [
        (5, "0", "0"),  # p = 2 / 2^5 = .0625
        (6, "0", "2"),  # p = 2 / 2^6 = .031; by Holm over two neighbours .0625
        (7, "2", "2"),  # p = 2 / 2^7 = .016; by Holm .031
    ],
)
def test_told_apart_over_datasets(datasets, apart, uncorrected):
    """Systems that win on every dataset are told apart only if there are enough datasets."""
    first, ranks = audit(board(datasets, c=0.1, a=0.3, b=0.2))

    assert rows(first) == {"datasets": ("2", apart, uncorrected, f"{apart} of 3")}
    expected = {"a": ("1", "0.3000", "1-1"), "b": ("2", "0.2000", "2-2"), "c": ("3", "0.1000", "3-3")}
    assert rows(ranks) == {name: (*row, "—") for name, row in expected.items()}


def test_rank_ranges_show_the_effect_of_other_datasets():
    """A system whose lead comes from one dataset of six has the range 1-2; equal systems share their ranks."""
    ranks = rows(audit(board(6, a=[1.0, 0.1, 0.1, 0.1, 0.1, 0.1], b=0.2, c=0.2))[1])

    assert {name: row[2] for name, row in ranks.items()} == {"a": "1-3", "b": "1-2", "c": "1-2"}


def test_few_datasets_say_nothing_about_others():
    """With four datasets there are no ranks over datasets, and a note says why."""
    first, ranks = audit(board(4, a=0.3, b=0.2))

    assert first.rows == ()
    assert rows(ranks)["a"] == ("1", "0.3000", "—", "—")
    assert "nothing can be said about other datasets: that takes 5, and there are 4" in ranks.notes


def test_missing_cells_are_not_averaged():
    """A system without a dataset is not ranked, so no mean is over other datasets than the others'; a note counts it."""
    whole = board(6, a=0.3, b=0.2)
    table = audit(Board(name="board", cells={**whole.cells, "c": {"d0": Cell(value=0.9)}}))[1]

    assert list(rows(table)) == ["a", "b"]
    assert any(note.startswith("ranked: 2 of 3 systems on 6 of 6 datasets") for note in table.notes)
    assert "missing: 5 cells of 1 systems; most: c 5" in table.notes


def mteb(folder, model, task, score, revision="r1", measure="ndcg_at_10"):
    """Write a result file like MTEB."""
    path = folder / model / "abc123" / f"{task}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {"main_score": score, measure: score, "hf_subset": "default", "languages": ["eng-Latn"]}
    content = {"task_name": task, "dataset_revision": revision, "mteb_version": "2.0.1", "scores": {"test": [entry]}}
    path.write_text(json.dumps(content))
    return path


def test_faults_of_a_folder_of_mteb(tmp_path):
    """Mixed revisions and measures, and stated training data, are notes; the scores are the main scores."""
    for number, model in enumerate(["org__a", "org__b", "org__c"]):
        for task in ("SciFact", "NFCorpus", "FiQA2018"):
            mteb(tmp_path, model, task, 0.3 + 0.1 * number)
    mteb(tmp_path, "org__a", "SciFact", 0.3, revision="r2")
    mteb(tmp_path, "org__b", "NFCorpus", 0.4, measure="map")
    meta = {"name": "org/c", "training_datasets": {"FiQA2018": ["train"]}}
    (tmp_path / "org__c" / "abc123" / "model_meta.json").write_text(json.dumps(meta))
    table = audit(*read_boards(tmp_path))[1]

    assert "mixed revisions of SciFact: 2 systems have r1, 1 systems have r2" in table.notes
    assert "mixed measures of NFCorpus: 2 systems have nDCG@10 on test, 1 systems have map on test" in table.notes
    assert "seen of FiQA2018 in training: in-domain: org/c" in table.notes
    assert rows(table)["org/c"][:2] == ("1", "0.5000")


def test_catalogued_models_have_their_training_data(tmp_path):
    """A note names a model that was trained on MS MARCO according to the catalogue, even if the board does not say so."""
    (tmp_path / "x.csv").write_text("model,msmarco-passage/dev/small,beir/scifact/test\nsplade_v3,0.4,0.7\nbm25,0.2,0.6\n")

    notes = audit(*read_boards(tmp_path / "x.csv"))[1].notes
    assert "seen of msmarco-passage/dev/small in training: in-domain: splade_v3" in notes


WIDE = "Model,Rank,A,B,Mean (Task)\none,1,50,60.5,55.25\ntwo,2,40,,40\nthree,3,30,10,20\n"
LONG = "system,dataset,score,measure\none,A,50,m\ntwo,A,40,m\none,A,9,n\none,B,60.5,m\nthree,A,30,m\nthree,B,10,m\n"


@pytest.mark.parametrize("text", [WIDE, LONG])
def test_tables(tmp_path, text):
    """A table has a column per dataset, or a row per score; ranks and means in it are no datasets."""
    (tmp_path / "x.csv").write_text(text)
    (read,) = read_boards(tmp_path / "x.csv")

    values = {system: {name: cell.value for name, cell in cells.items()} for system, cells in read.cells.items()}
    assert values == {"one": {"A": 50, "B": 60.5}, "two": {"A": 40}, "three": {"A": 30, "B": 10}}


def test_runs_are_ranked_over_queries(tmp_path):
    """Runs with a qrels file are scored, and told apart over queries: 12 of 12 queries is p = 2 / 2^12."""
    queries = [f"q{number}" for number in range(12)]
    (tmp_path / "test.qrels").write_text("".join(f"{query} 0 d1 1\n" for query in queries))
    for name, order in {"good": ("d1", "d2"), "bad": ("d2", "d1")}.items():
        lines = [f"{q} Q0 {doc} {rank} {9 - rank} x\n" for q in queries for rank, doc in enumerate(order, start=1)]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    first, ranks = audit(*read_boards(tmp_path, "RR@10"))

    assert rows(first) == {"queries": ("1", "1", "1", "1 of 2")}
    assert rows(ranks) == {"good": ("1", "1.0000", "—", "1-1"), "bad": ("2", "0.5000", "—", "2-2")}


@pytest.mark.parametrize(("small", "tau", "same"), [([0.3, 0.2, 0.1], "1.00", "100%"), ([0.1, 0.2, 0.3], "-1.00", "0%")])
def test_prediction(small, tau, same):
    """A suite with the same order has tau 1, one with the opposite order -1."""
    scores = dict(zip("abc", small, strict=True))
    large = {"a": 0.3, "b": 0.2, "c": 0.1}
    table = predict(board(2, **{name: [scores[name], large[name]] for name in "abc"}), ["d0"], ["d1"])

    assert rows(table) == {"0.05 or more": ("3", same)}
    assert table.notes[0].startswith(f"Kendall's tau {tau} [")


def test_commands(tmp_path, capsys):
    """`audit PATH` needs no subcommand; `audit suite` takes a suite or names of datasets."""
    path = tmp_path / "x.csv"
    path.write_text("model,A,B,C\none,5,6,7\ntwo,4,5,6\nthree,3,4,5\n")
    assert "x: ranks on 3 datasets" in ended(capsys, 0, "audit", str(path)).out
    assert answer(capsys, "audit", path, "--json")[1]["rows"][0] == ["one", "1", "6.0000", "—", "—"]
    assert "Kendall's tau 1.00" in ended(capsys, 0, "audit", "suite", "A", "--of", "B,C", "--board", str(path)).out
