"""Audits of leaderboards: ranks that can be told apart, faults of a board, and predictions from small suites."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from tiny import answer, ended

from lexbench.analysis.audit import audit as audited_tables
from lexbench.analysis.audit import audited, predict
from lexbench.errors import InvalidFile
from lexbench.interop.boards import read_boards
from lexbench.report.leaderboard import sections
from lexbench.results import Counts, Result, Results


def mean(system, dataset, value):
    """Return a result of which only the mean is known, as on boards of other tools."""
    none = {"contract": "none", "depth": 0, "query_ids": [], "per_query": {}, "counts": Counts(queries=0)}
    return Result(system=system, dataset=dataset, means={"score": value}, **none)


def results(datasets, **systems):
    """Return results of systems with one score for all datasets, or a list of scores."""
    scores = {name: value if isinstance(value, list) else [value] * datasets for name, value in systems.items()}
    return Results(mean(name, f"d{at}", value) for name, row in scores.items() for at, value in enumerate(row))


def board(datasets, **systems):
    """Return the board of these results."""
    return audited("board", results(datasets, **systems))


def audit(board):
    """Return the tables of an audit; the first is empty if nothing can be tested."""
    tables = audited_tables(board).tables()
    return tables if len(tables) > 1 else [None, *tables]


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
    # Best and worst are further apart than neighbours, but no further than a test over so few datasets can show.
    possible = {5: ("1-3", "1-3", "1-3"), 6: ("1-3", "1-3", "1-3"), 7: ("1", "2", "3")}[datasets]
    expected = dict(zip("abc", zip(("0.3000", "0.2000", "0.1000"), possible, strict=True), strict=True))
    assert rows(ranks) == {name: (*row, "—") for name, row in expected.items()}


def test_rank_ranges_show_the_effect_of_other_datasets():
    """A system whose lead comes from one dataset of eight may have any rank; one that always wins is the first."""
    lead = rows(audit(board(8, a=[1.0, *[0.1] * 7], b=0.2, c=0.2))[1])
    always = rows(audit(board(8, a=0.3, b=[0.2, 0.1] * 4, c=[0.1, 0.2] * 4))[1])

    assert {name: row[1] for name, row in lead.items()} == {"a": "1-3", "b": "1-3", "c": "1-3"}
    assert {name: row[1] for name, row in always.items()} == {"a": "1", "b": "2-3", "c": "2-3"}


def test_ranks_over_queries_are_those_of_the_board(tmp_path):
    """On some committed results, an audit has the ranks that the leaderboard has."""
    committed = Path(__file__).parents[1] / "leaderboard" / "results" / "pydoc"
    (tmp_path / "results" / "pydoc").mkdir(parents=True)
    for path in sorted(path for path in committed.glob("*.json") if "top" not in path.name)[::2]:
        shutil.copy(path, tmp_path / "results" / "pydoc")
    (board,) = read_boards(tmp_path)
    (section,) = sections.board(board.results).suites
    at = [column.name for column in section.summary.columns].index("rank")
    ranks = {row.name: row.values[at].text for row in section.summary.rows if row.values[at].text != "—"}
    main = board._replace(results=board.results.select(systems=ranks))

    assert len(set(ranks.values())) > 2
    assert {row[0]: row[3] for row in audit(main)[1].rows} == ranks


def test_few_datasets_say_nothing_about_others():
    """With four datasets there are no ranks over datasets, and a note says why."""
    first, ranks = audit(board(4, a=0.3, b=0.2))

    assert first is None
    assert rows(ranks)["a"] == ("0.3000", "—", "—")
    assert "nothing can be said about other datasets: that takes 5, and there are 4" in ranks.notes


def test_missing_cells_are_not_averaged():
    """A system without a dataset is not ranked, so no mean is over other datasets than the others'; a note counts it."""
    table = audit(audited("board", results(6, a=0.3, b=0.2) + Results([mean("c", "d0", 0.9)])))[1]

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
    assert rows(table)["org/c"][0] == "0.5000"


def test_a_score_of_nan_is_a_missing_cell_of_mteb(tmp_path):
    """MTEB writes NaN where it could not evaluate. A clone of its repository has the results in a folder `results`."""
    for model in ("org__a", "org__b", "org__c"):
        mteb(tmp_path / "results", model, "SciFact", float("nan") if model == "org__c" else 0.5)

    (read,) = read_boards(tmp_path)
    assert read.results.systems == ["org/a", "org/b"]
    mteb(tmp_path / "results", "org__c", "FiQA2018", 0.5).rename(tmp_path / "results" / "org__c" / "FiQA2018.json")
    with pytest.raises(InvalidFile, match=r"FiQA2018.json: results of MTEB are in MODEL/REVISION/TASK.json"):
        read_boards(tmp_path)


def test_catalogued_models_have_their_training_data(tmp_path):
    """A note names a model that was trained on MS MARCO according to the catalogue, even if the board does not say so."""
    (tmp_path / "x.csv").write_text("model,msmarco-passage/dev/small,beir/scifact/test\nsplade_v3,0.4,0.7\nbm25,0.2,0.6\n")

    notes = audit(*read_boards(tmp_path / "x.csv"))[1].notes
    assert "seen of msmarco-passage/dev/small in training: in-domain: splade_v3" in notes


WIDE = "Model,Rank,A,B,Mean (Task)\none,1,50,60.5,55.25\ntwo,2,40,,40\nthree,3,30,10,20\n"
EXPORTED = (
    "Rank (Borda),Model,Number of Parameters (B),Max Tokens,A,B\n1,one,7,512,50,60.5\n2,two,1,512,40,n/a\n3,three,1,9,30,10\n"
)
SHARES = "model;A;B\none;5000%;60.5\ntwo;40;nan\nthree;30;10\n"
LONG = "system,dataset,score,measure\none,A,50,m\ntwo,A,40,m\none,A,9,n\none,B,60.5,m\nthree,A,30,m\nthree,B,10,m\n"


@pytest.mark.parametrize("text", [WIDE, LONG, EXPORTED, WIDE.replace(",", "\t"), SHARES])
def test_tables(tmp_path, text):
    """A table has a column per dataset, or a row per score; ranks, sizes and means in it are no datasets."""
    path = tmp_path / ("x.tsv" if "\t" in text else "x.csv")
    path.write_text(text)
    (read,) = read_boards(path)

    values = {
        system: {name: one.means[read.measures[name]] for name, one in read.results.row(system).items()}
        for system in read.results.systems
    }
    assert values == {"one": {"A": 50, "B": 60.5}, "two": {"A": 40}, "three": {"A": 30, "B": 10}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,A,A\none,1,2\n", r"x.csv, line 1: two columns are called 'A'"),
        ("model,A,B\none,1,2\ntwo,1\n", r"x.csv, line 3: 2 columns, not 3"),
        ("one,.5,.6\ntwo,.4,.3\n", r"line 1: there are scores and no names of columns"),
        ("dataset,one,two\nA,.5,.4\n", r"line 1: it has a row per dataset, .* swap rows and columns"),
        ("query,nDCG@10\nq1,.5\n", r"line 1: it has a row per query"),
        ("system,dataset,ndcg\none,A,.5\n", r"line 1: there is no column 'score'; there is: system, dataset, ndcg"),
        ("model,A\none,inf\ntwo,.5\n", r"one on A: 'inf' is no score"),
        ("model;A\none;0,5\n", r"has no scores: .* of numbers like 0.5"),
        ("model,A\nB\xe9la,.5\n", r"x.csv, line 2: not UTF-8"),
    ],
)
def test_a_table_that_is_no_board_is_refused(tmp_path, text, message):
    """What would be read as other scores, or as scores of other systems, is named."""
    (tmp_path / "x.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidFile, match=message):
        read_boards(tmp_path / "x.csv")


def test_scales_and_columns_of_a_table_are_said(tmp_path):
    """A percentage beside a share has a note, and so have columns that are no datasets."""
    (tmp_path / "x.csv").write_text("model,licence,A,B\none,MIT,61,.5\ntwo,MIT,.6,.4\n")

    notes = audit(*read_boards(tmp_path / "x.csv"))[1].notes
    assert "the scores of A are from 0.6 to 61: are they on one scale?" in notes
    assert "not read, because they are no datasets: licence" in notes


def test_runs_are_ranked_over_queries(tmp_path):
    """Runs with a qrels file are scored, and told apart over queries: 12 of 12 queries is p = 2 / 2^12."""
    queries = [f"q{number}" for number in range(12)]
    (tmp_path / "test.qrels").write_text("".join(f"{query} 0 d1 1\n" for query in queries))
    for name, order in {"good": ("d1", "d2"), "bad": ("d2", "d1")}.items():
        lines = [f"{q} Q0 {doc} {rank} {9 - rank} x\n" for q in queries for rank, doc in enumerate(order, start=1)]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    first, ranks = audit(*read_boards(tmp_path, "RR@10"))

    assert rows(first) == {"queries": ("1", "1", "1", "1 of 2")}
    assert rows(ranks) == {"good": ("1.0000", "—", "1"), "bad": ("0.5000", "—", "2")}


def test_every_run_of_a_folder_is_a_system(tmp_path):
    """JSON files beside judgements are runs, a file may have several, and equal names are told apart by the files."""
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\n")
    for name in ("a.json", "b.json", "b.json.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b'{"q1": {"d1": 1.5}}') if name.endswith("gz") else b'{"q1": {"d1": 1.5}}')
    (tmp_path / "more.run").write_text("q1 Q0 d1 1 2 x\nq1 Q0 d1 1 3 y\n")

    (read,) = read_boards(tmp_path)
    assert sorted(read.results.systems) == ["a", "b.json", "b.json.gz", "x", "y"]


@pytest.mark.parametrize(("small", "tau", "same"), [([0.3, 0.2, 0.1], "1.00", "100%"), ([0.1, 0.2, 0.3], "-1.00", "0%")])
def test_prediction(small, tau, same):
    """A suite with the same order has tau 1, one with the opposite order -1."""
    scores = dict(zip("abc", small, strict=True))
    large = {"a": 0.3, "b": 0.2, "c": 0.1}
    (table,) = predict(board(2, **{name: [scores[name], large[name]] for name in "abc"}), ["d0"], ["d1"]).tables()

    assert rows(table) == {"0.05 or more": ("3", same)}
    assert table.notes[0].startswith(f"Kendall's tau {tau} [")


def test_commands(tmp_path, capsys):
    """`audit PATH` needs no subcommand; `audit suite` takes a suite or names of datasets."""
    path = tmp_path / "x.csv"
    path.write_text("model,A,B,C\none,5,6,7\ntwo,4,5,6\nthree,3,4,5\n")
    assert "x: ranks on 3 datasets" in ended(capsys, 0, "audit", str(path)).out
    assert answer(capsys, "audit", path, "--json")[0] == {
        "system": "one",
        "mean": "6.0000",
        "rank over\ndatasets": "—",
        "rank over\nqueries": "—",
    }
    assert "Kendall's tau 1.00" in ended(capsys, 0, "audit", "suite", "A", "--of", "B,C", "--board", str(path)).out
