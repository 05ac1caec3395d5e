"""Numbers and claims that could mislead a reader: each is complete, named, and with what it is based on."""

import csv
import inspect
import json

import numpy as np
import pytest
import samples
from test_public_api import commands
from tiny import answer, ended, enter, write

import lexbench
from lexbench.analysis.judgements import judged_levels
from lexbench.analysis.significance import randomisation
from lexbench.display import progress
from lexbench.results import Counts, Incomplete, write_results
from lexbench.runner.systems import system
from lexbench.storage import stopwatch
from lexbench.timing import encoding_speed, measuring
from lexbench.timing.measuring import _circumstances

DOCUMENTS = {f"d{number}": text for number, text in enumerate(["red fox", "red red car", "blue sky", "red sky", "car car"])}
QUERIES = {"q1": "red car", "q2": "blue sky", "q3": "fox"}
JUDGED = [("q1", "d1", 2), ("q1", "d4", 1), ("q2", "d2", 3), ("q3", "d0", 1)]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Make a folder of data in the current folder, with an empty store."""
    enter(tmp_path, monkeypatch)
    monkeypatch.setenv("COLUMNS", "100")
    return write(tmp_path / "own", DOCUMENTS, QUERIES, JUDGED)


# ---- measures of several commands


def test_measures_of_a_second_command_are_added(own, capsys):
    """Two commands score one run by other measures: exports, the store and a folder of results have them all."""
    for measure in ("nDCG@10", "P@2"):
        ended(capsys, 0, "run", "dataset", "own", "-r", "bm25", "-m", measure, "--results", "board")

    ended(capsys, 0, "export", "csv", "out")
    (file,) = (own.parent / "out").iterdir()
    assert next(csv.reader(file.read_text().splitlines())) == ["query", "nDCG@10", "P@2"]
    ended(capsys, 0, "export", "json", "json")
    (file,) = (own.parent / "json").iterdir()
    assert list(json.loads(file.read_text())["means"]) == ["nDCG@10", "P@2"]
    for found in (lexbench.results(), lexbench.results("board")):
        (result,) = found
        assert list(result.per_query) == list(result.means) == list(result.ties) == ["nDCG@10", "P@2"]
        assert result.per_query["P@2"] == [1.0, 0.5, 0.5]


def test_measures_of_another_run_are_not_added(own, capsys):
    """Lists of another depth are another run; an export has the newest run, and says that there are others."""
    ended(capsys, 0, "run", "dataset", "own", "-r", "bm25", "-m", "nDCG@2", "--depth", "2")
    ended(capsys, 0, "run", "dataset", "own", "-r", "bm25", "-m", "P@1", "--depth", "1")

    assert [(one.depth, list(one.means)) for one in lexbench.results()] == [(1, ["P@1"]), (2, ["nDCG@2"])]
    for form in ("trec", "ranx", "msmarco", "csv", "latex"):
        notes = ended(capsys, 0, "export", form, form).err
        assert "bm25 on own: the newest of 2 results; depths 1, 2" in notes
        assert len(list((own.parent / form).iterdir())) == 1
    assert len((own.parent / "trec" / "own.bm25.trec").read_text().splitlines()) == 3  # one document for each query


def test_of_two_systems_with_one_name_the_newest_is_exported(own, capsys):
    """The note says what to type for the other one."""
    for k1 in ("0.9", "2"):
        ended(capsys, 0, "run", "dataset", "own", "-r", f"mine = bm25(k1={k1})")

    notes = ended(capsys, 0, "export", "csv", "out").err
    assert "mine on own: the newest of 2 results; for another, type its expression: -r 'bm25(k1=" in notes


def test_every_measure_of_a_comparison_is_tested(own, capsys):
    """`-m` is repeatable: one table for each measure, p corrected by Holm over the systems of one measure."""
    systems = [word for name in ("bm25", "bm25(k1=2)", "bm25(b=0)") for word in ("-r", name)]
    ended(capsys, 0, "run", "dataset", "own", *systems, "-m", "nDCG@10", "-m", "P@1", "-m", "RR@10")

    found = lexbench.compare("bm25", "bm25(k1=2)", "bm25(b=0)", measures=["RR@10", "P@1"])
    assert [on.measure for on in found.datasets] == ["RR@10", "P@1"]
    assert found.family == 2
    printed = ended(capsys, 0, "compare", "bm25", "bm25(k1=2)", "bm25(b=0)", "-m", "RR@10", "-m", "P@1").out
    assert "own, RR@10, 3 queries" in printed
    assert "own, P@1, 3 queries" in printed
    assert "corrected for \n2 comparisons by one measure" in printed or "corrected for 2 comparisons by one measure" in printed
    lacking = ended(capsys, 3, "compare", "bm25", "bm25(k1=2)", "-m", "nDCG@10", "-m", "P@3", "-m", "P@4").err
    assert "bm25 on own has no P@3, P@4; it has: nDCG@10, P@1, RR@10" in lacking


# ---- one value for each row


def test_each_pair_has_its_own_smallest_difference(tmp_path, monkeypatch, capsys):
    """The close pair finds less than the far pair; the values are those of the test of each pair alone."""
    enter(tmp_path, monkeypatch)
    monkeypatch.setenv("COLUMNS", "100")
    rng = np.random.default_rng(0)
    base = rng.random(40) * 0.5 + 0.2
    values = {"base": base, "close": base + rng.normal(0, 0.01, 40), "far": rng.random(40) * 0.5 + 0.2}
    write_results(
        [samples.result(name, list(one), "mine", contract="mine@0") for name, one in values.items()],
        "pydoc",
        tmp_path / "board",
    )

    found = answer(capsys, "compare", "base", "close", "far", "--results", "board", "--json")["datasets"][0]["differences"]
    for one in found:
        assert one["detectable"] == pytest.approx(randomisation.minimum_detectable(values[one["system"]] - base, level=0.05))
    assert found[0]["detectable"] < found[1]["detectable"] / 5
    rows = ended(capsys, 0, "compare", "base", "close", "far", "--results", "board").out.splitlines()
    for one in found:
        assert f" {one['detectable']:.4f} " in next(row for row in rows if f"  {one['system']} " in row)


# ---- stars in tables


@pytest.fixture
def board(tmp_path, monkeypatch):
    """Make a board of two systems on two collections: equal by nDCG@10, different by AP and by Judged@10."""
    enter(tmp_path, monkeypatch)
    rng = np.random.default_rng(1)
    for dataset in ("one", "two"):
        noise = rng.normal(0, 0.05, 40)
        for name, lift in (("base", 0.0), ("new", 0.1), ("third", 0.1)):
            values = {
                "nDCG@10": 0.5 + noise * (name == "new"),
                "AP@1000": 0.4 + lift + noise,
                "Judged@10": np.round(0.3 + lift + noise, 1),
            }
            facts = {"per_query": {measure: one.tolist() for measure, one in values.items()}, "contract": f"{dataset}@0"}
            means = {measure: float(np.mean(one)) for measure, one in values.items()}
            made = samples.result(name, list(values["nDCG@10"]), dataset, means=means, **facts)
            write_results([made], "datasets", tmp_path / "board")
    return tmp_path / "board"


def starred(latex):
    """Return the figures with a star in the rows of a LaTeX table, by the system and the name of the column."""
    rows = [line.removesuffix(r" \\").split(" & ") for line in latex.splitlines() if " & " in line]
    names = rows[0][1:]
    return {(row[0], name) for row in rows[1:] for name, cell in zip(names, row[1:], strict=True) if "{*}" in cell}


def test_every_measure_of_a_table_is_tested(board, capsys):
    """AP differs, and has a star; nDCG does not; Judged@10 is named as not tested. The same in LaTeX, Markdown and Python."""
    words = ("leaderboard", "--results", board, "--baseline", "base", "-d", "one")
    latex = ended(capsys, 0, *words, "--copy", "latex").out
    assert starred(latex) == {("new", "AP@1000"), ("third", "AP@1000")}
    caption = next(line for line in latex.splitlines() if "caption" in line)
    assert "*: significantly different from base in this measure" in caption
    assert "each measure by itself; Judged@10: not tested" in caption
    assert lexbench.results(board).to_latex("one", "base").splitlines() == latex.splitlines()
    markdown = ended(capsys, 0, *words, "--copy", "markdown").out
    assert {line.split(" | ")[0]: line.count(" \\* |") for line in markdown.splitlines()[2:5]} == {
        "| base": 0,
        "| new": 1,
        "| third": 1,
    }
    assert "each measure by itself; Judged@10: not tested" in markdown
    assert "CSV has no marks for what differs from base" in ended(capsys, 2, *words, "--copy", "csv").err


def test_stars_of_a_measure_are_its_own_test(board):
    """Each pair tested by `compare`'s test, with p corrected by Holm over the three pairs, gives the same stars."""
    results = lexbench.results(board)
    values = results.values("one", "AP@1000")
    ps = randomisation.holm(
        [randomisation.p_value(values[b] - values[a], resamples=10_000) for a, b in ((0, 1), (0, 2), (1, 2))]
    )
    assert [p < 0.05 for p in ps] == [True, True, False]
    assert starred(results.to_latex("one", "new")) == {("base", "AP@1000")}


def test_the_main_table_tests_each_column(board):
    """With several collections, each has its column, and the mean over them has its own test."""
    latex = lexbench.results(board).to_latex(baseline="base")
    assert starred(latex) == set()
    assert "No figure is significantly different from that of base (paired randomisation tests" in latex
    assert "Rank by nDCG@10: what paired" in latex


# ---- few judgements


BOUNDS = "nDCG@10 may be anything from -0.36 to +0.40"  # .6 - .96, .9 - .5


def low(system, judged, mean, highest, **facts):
    """Make a result with this share of judged documents."""
    open_ = {"nDCG@10": Incomplete(condensed=mean, highest=highest)}
    counts = Counts(queries=2, judged=judged)
    return samples.result(
        system, (mean, mean), **{"dataset": "clicks", "contract": "clicks@0"} | facts, counts=counts, incomplete=open_
    )


@pytest.mark.parametrize(
    ("systems", "expected"),
    [
        (
            [low("a", 0.29, 0.5, 0.96)],
            "71 % of the top 10 documents are unjudged (a); with them nDCG@10 may be anything from 0.50 to 0.96",
        ),
        (
            [low("a", 0.29, 0.5, 0.96), low("b", 0.34, 0.6, 0.9)],
            "71 % and 66 % of the top 10 documents are unjudged (a, b); with them the difference in " + BOUNDS,
        ),
        (
            [low("a", 0.29, 0.5, 0.96), low("b", 0.34, 0.6, 0.9), low("c", 0.9, 0.55, 0.7)],
            "10 % to 71 % of the top 10 documents are unjudged (a, b, c); with them nDCG@10 may be anything from 0.50 to 0.96",
        ),
        ([low("a", 0.29, 1.0, 1.0)], "71 % of the top 10 documents are unjudged (a); with them nDCG@10 is 1.00, too"),
        ([low("a", 0.81, 0.5, 0.6)], None),
        ([low("a", 0.1, 0.5, 0.9, dataset="beir/scifact/test", contract="beir/scifact/test@1")], None),  # one per query
        ([low("a", 0.1, 0.5, 0.9, dataset="cranfield", contract="cranfield@1")], None),  # complete
    ],
)
def test_a_low_level_of_judgements_is_said(systems, expected):
    """Below .8, one line says how many of the first documents are unjudged, and what they could change."""
    found = list(judged_levels(systems, "nDCG@10"))
    assert found == ([f"clicks: {expected}"] if expected else [])


def test_every_report_says_that_few_documents_are_judged(own, capsys):
    """Of data of a user, Judged@10 is measured by default; run, brief, compare, score, board and page have the line."""
    systems = ["-r", "bm25", "-r", "bm25(b=0)"]
    printed = ended(capsys, 0, "run", "dataset", "own", *systems, "--results", "board").out
    shares = [one.means["Judged@10"] for one in lexbench.results()]
    assert [one.counts.judged for one in lexbench.results()] == shares
    line = f"{1 - shares[0]:.0%} and {1 - shares[1]:.0%} of the top 10 documents are unjudged".replace("%", " %")
    text = lambda out: " ".join(out.split())  # noqa: E731 - lines wrap
    assert line in text(printed)
    assert line in text(ended(capsys, 0, "run", "dataset", "own", *systems, "--brief").out)
    assert line in text(ended(capsys, 0, "compare", "bm25", "bm25(b=0)").out)
    one = line.partition(" and ")[0]
    assert f"{one} of the top 10 documents" in text(ended(capsys, 0, "score", "bm25", "-d", "own", "-m", "nDCG@10").out)
    ended(capsys, 0, "leaderboard", "--results", "board")
    for page in ("README.md", "index.html"):  # equal systems share a row
        assert f"{one} of the top 10 documents" in (own.parent / "board" / page).read_text()


# ---- grades


def test_grades_without_a_contract_have_a_note(own, capsys):
    """Measures that count from grade 1 are named, with the text to type; measures with a grade, and nDCG, need none."""
    expected = (
        "the grades are 1, 2, 3, and RR@10, R@100, R@1000, AP@1000 count a document as relevant from grade 1; to count from 2, "
        "type e.g. -m 'RR(rel=2)@10'"
    )
    (result,) = lexbench.run("own")
    assert expected in samples.texts_of(result.notes)
    ended(capsys, 0, "export", "trec", "runs")
    (file,) = (own.parent / "runs").iterdir()
    for words in (["-d", "own"], ["--qrels", "own/qrels/test.tsv"]):
        notes = samples.texts_of(answer(capsys, "score", file, *words, "--json")["notes"])
        assert expected in notes
        typed = answer(capsys, "score", file, *words, "-m", "RR(rel=2)@10", "-m", "nDCG@10", "--json")
        assert not any("count" in note for note in samples.texts_of(typed["notes"]))
    assert typed["means"]["RR(rel=2)@10"] == pytest.approx((1 + 1 + 0) / 3)
    (published,) = lexbench.run("pydoc/dev")
    assert not any("grades are" in note for note in samples.texts_of(published.notes))


def test_binary_grades_have_no_note(tmp_path, monkeypatch):
    """With grades 0 and 1 there is nothing to choose."""
    enter(tmp_path, monkeypatch)
    write(tmp_path / "binary", DOCUMENTS, QUERIES, [("q1", "d1", 1), ("q2", "d2", 1), ("q3", "d0", 0), ("q3", "d3", 1)])
    (result,) = lexbench.run("binary")
    assert not any("grades are" in note for note in samples.texts_of(result.notes))


def test_a_pool_test_says_from_which_grade_it_counts(own, capsys):
    """`judge pool` has the note, too: it counts relevant documents."""
    systems = ["bm25", "bm25(b=0)"]
    ended(capsys, 0, "run", "dataset", "own", *(word for name in systems for word in ("-r", name)))
    printed = ended(capsys, 0, "judge", "pool", *systems, "-d", "own", "-m", "RR@10").out
    assert "the grades are 1, 2, 3, and RR@10 counts a document as relevant from grade 1" in " ".join(printed.split())


# ---- speeds


def test_a_look_up_is_not_ranked_and_a_stored_speed_is_shown(own, timed_here, capsys):
    """Vectors that are read from a file are flagged "no encoding", and not ranked, alone or in an ensemble.

    A later `run --brief` has the stored speeds, and the recall that the board calls official.
    """
    for name, ids in (("documents", DOCUMENTS), ("queries", QUERIES)):
        np.save(own / f"{name}.npy", np.eye(len(ids), 5, dtype=np.float32))
        (own / f"{name}.ids").write_text("\n".join(ids) + "\n")
    looked_up = f"""dense_vectors(documents="{own / "documents.npy"}", queries="{own / "queries.npy"}")@flat"""
    systems = {"bm25": "bm25", "file": looked_up, "both": f"ensemble(bm25, {looked_up})"}
    words = ["run", "dataset", "own", *(word for name, one in systems.items() for word in ("-r", f"{name} = {one}"))]
    ended(capsys, 0, *words, "--time-single", "--time", "--time-seconds", ".02", "--time-processes", "1")

    timings = {one.system: one.timings[0] for one in lexbench.results()}
    assert {name: "no encoding" in timing.flags for name, timing in timings.items()} == {
        "bm25": False,
        "file": True,
        "both": True,
    }
    assert timings["file"].unranked
    printed = ended(capsys, 0, *words, "--brief", "--results", "board").out
    rates = {line.split()[0]: "~" in line for line in printed.splitlines() if line.startswith(tuple(systems))}
    assert rates == {"bm25": rates["bm25"], "file": True, "both": True}
    assert " — " not in next(line for line in printed.splitlines() if line.startswith("file"))  # the stored speed
    ended(capsys, 0, "leaderboard", "--results", "board")
    board = (own.parent / "board" / "README.md").read_text()
    recalls = [text for text in ("R@100", "R@1000", "Success@100", "Success@1000") if text in printed]
    assert recalls == ["R@100", "Success@100"]
    assert [text for text in ("R@100 official", "R@1000 official", "Success@100 DPR", "Success@1000 DPR") if text in board] == [
        "R@100 official", "Success@100 DPR",
    ]  # fmt: skip
    assert "file" in board


def test_a_timing_without_encoding_says_so():
    """The flag alone keeps it out of rankings, in these words."""
    assert samples.timing(249, flags=["no encoding"]).unranked == "timing without encoding"


def test_an_index_on_a_server_is_not_ranked():
    """A server may use all cores for one query: the flag depends on the engine, also inside an ensemble."""
    for text in ("lexmae_nano@qdrant", "ensemble(bm25, lexmae_nano@opensearch)"):
        assert [flag for flag, _ in _circumstances(system(text).retriever, own=False)] == ["elsewhere"]
    assert not list(_circumstances(system("ensemble(bm25, lexmae_nano@impact)").retriever, own=False))


def test_no_clock_counts_compilation():
    """Stopwatches, first answers and progress have the clock that stands still while loops are compiled."""
    for module in (stopwatch, measuring, encoding_speed, progress):
        assert "clock()" in inspect.getsource(module)


# ---- splits


@pytest.fixture
def splits(own):
    """Add a split dev, with other queries, to the folder of data."""
    (own / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq3\td0\t1\n")
    return own


def test_every_command_that_takes_data_has_a_split():
    """Whoever names a folder can name the judgements. `run suite` has ids; `audit` and `train` have their own files."""
    for typed, command in commands():
        names = {one.name for one in command.params}
        if names & {"dataset", "datasets", "data"} and typed not in ("run suite", "encode suite", "watch"):
            assert "split" in names, typed


def test_a_split_is_obeyed_and_named(splits, capsys):
    """Each command uses the judgements of dev, and says so; without --split it uses those of test."""
    for split in ("test", "dev"):
        ended(capsys, 0, "run", "dataset", "own", "-r", "bm25", "-r", "bm25(b=0)", "--split", split, "--results", "board")

    assert answer(capsys, "score", "bm25", "-d", "own", "--split", "dev", "--json")["query_ids"] == ["q3"]
    assert answer(capsys, "score", "bm25", "-d", "own", "--json")["dataset"] == "own/test"
    assert answer(capsys, "score", "bm25", "-d", "own/dev", "--json")["query_ids"] == ["q3"]  # as results are called
    dev = ["-d", "own", "--split", "dev"]
    assert "own/dev, nDCG@10, 1 queries" in ended(capsys, 0, "compare", "bm25", "bm25(b=0)", *dev).out
    assert "own/test, nDCG@10, 3 queries" in ended(capsys, 0, "compare", "bm25", "bm25(b=0)", "-d", "own").out
    assert "own/dev" in ended(capsys, 0, "compare", "--lists", "bm25", "bm25(b=0)", *dev).out
    assert "no judged query of own/dev: 'q1'" in ended(capsys, 3, "explain", "qid:q1", "-r", "bm25", *dev).err
    assert "fox" in ended(capsys, 0, "explain", "qid:q3", "-r", "bm25", *dev).out
    assert "own#dev" in ended(capsys, 0, "judge", "pool", "bm25", "bm25(b=0)", *dev).out
    out = ended(capsys, 0, "export", "csv", "out", *dev).out
    assert {line.rpartition("/")[2] for line in out.splitlines()} == {"own-dev.bm25(b=0).csv", "own-dev.bm25.csv"}
    assert "own/dev" in ended(capsys, 0, "show", "dataset", "own", "--split", "dev").out
    assert "own/dev" in ended(capsys, 1, "verify", "own", "--split", "dev", "--json").out
    latex = ended(capsys, 0, "leaderboard", "--results", "board", "--copy", "latex", *dev).out
    assert "own/dev" in latex
    ended(capsys, 0, "gate", "init", "-r", "bm25", *dev)
    assert 'dataset = "own#dev"' in (splits.parent / "lexbench-gate.toml").read_text()
    assert "own/dev" in (splits.parent / "lexbench-gate.json").read_text()
    assert "own" in ended(capsys, 0, "encode", "dataset", "own", "--split", "dev", "-r", "lexmae_nano@impact").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["score", "x.run", "--split", "dev"], "--split dev chooses the judgements of a dataset; name it with -d"),
        (["compare", "a", "b", "--split", "dev"], "--split dev chooses the judgements of a dataset; name it with -d"),
        (["verify", "pydoc", "--split", "dev"], "--split dev chooses the judgements of one dataset, and pydoc is a suite"),
        (["score", "x.run", "-d", "pydoc/test", "--split", "dev"], "--split chooses the judgements of a folder"),
        (["score", "bm25", "-d", "own", "--split", "tset"], "has no judgements of the split 'tset'"),
        (["show", "model", "minilm", "--split", "dev"], "--split chooses the judgements of a dataset, not of a model"),
    ],
)
def test_a_split_of_nothing_is_refused(splits, capsys, words, message):
    """In one line."""
    (splits.parent / "x.run").write_text("q1 Q0 d1 1 1.0 x\n")
    with pytest.raises(AssertionError, match="lexbench") as ends:  # exit codes differ
        ended(capsys, 0, *words)
    assert message in str(ends.value)


def test_weights_for_own_data_are_chosen_on_dev(splits, capsys):
    """What is chosen is chosen on dev, and named; a folder without dev is refused, and so is dev itself."""
    (splits / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t3\n")
    fusion = 'ensemble(bm25, bm25(b=0), weights="tuned")'
    (result,) = lexbench.run("own", [fusion])
    assert result.dataset == "own/test"
    assert any("own/dev" in note.text for note in result.notes if note.kind == "chosen weights")
    only = "own/dev has no other split for development; put qrels/dev.tsv into"
    assert only in ended(capsys, 2, "run", "dataset", "own", "--split", "dev", "-r", fusion).err
