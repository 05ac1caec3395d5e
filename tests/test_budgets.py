"""Measures with a budget of tokens, and default measures of continuous grades."""

import numpy as np
import pytest
from samples import judged, texts_of
from tiny import answer, ended, enter, write

import lexbench
from lexbench.catalog import __file__ as catalog_file
from lexbench.errors import LexbenchError
from lexbench.measures import DocumentTokens, parse, score
from lexbench.trec.runs import Run

NAME = "lexmae_nano"
RUN = Run.from_entries(["q"] * 4 + ["r"], ["a", "b", "c", "d", "a"], [4.0, 3.0, 2.0, 1.0, 1.0])
QRELS = judged(q={"a": 1, "c": 3, "e": 2}, r={"b": 1})
TOKENS = DocumentTokens(
    np.array([b"e", b"d", b"c", b"b", b"a"]), {NAME: np.array([50, 10, 20, 30, 40])}
)  # a 40, b 30, c 20, d 10, e 50
LOG = np.log2


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("R@39tok", [0, 0]),  # a does not fit
        ("R@40tok", [1 / 3, 0]),
        ("R@89tok", [1 / 3, 0]),  # a and b have 70, with c it is 90
        ("R@90tok", [2 / 3, 0]),
        ("R(rel=2)@90tok", [1 / 2, 0]),
        ("nDCG@90tok", [(1 + 3 / LOG(4)) / (3 + 2 / LOG(3)), 0]),  # two of a, c, e fit at most: c and a, 60 tokens
        ("nDCG@40tok", [1 / 3, 0]),  # one fits
        ("nDCG@1000tok", [(1 + 3 / LOG(4)) / (3 + 2 / LOG(3) + 1 / LOG(4)), 0]),
    ],
)
def test_what_fits_counts(measure, expected):
    """Documents count until one does not fit; the ideal has as many of the best grades as can fit."""
    assert score(RUN, QRELS, [measure], TOKENS).values[str(parse(measure))].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("text", ["R@2000tok", "nDCG@4000tok", "R(rel=2)@500tok", "R(rel=2,tokenizer='x')@7tok"])
def test_the_text_is_read_back(text):
    """A measure is its text; recall and other names of other tools work, too."""
    assert str(parse(text)) == text
    assert str(parse("recall@2000tokens")) == "R@2000tok"
    assert str(parse("ndcg@9tok")) == "nDCG@9tok"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("P@100tok", "a budget of tokens is for R and nDCG"),
        ("R@0tok", "a budget is a whole number of tokens"),
        ("R@tok", "not valid"),
    ],
)
def test_what_is_no_budget_is_refused(text, message):
    """In one line."""
    with pytest.raises(LexbenchError, match=message):
        parse(text)


def test_tokens_must_be_known():
    """Without counts, and for a document outside the corpus, the line says so."""
    with pytest.raises(LexbenchError, match="name the dataset that has them with -d"):
        score(RUN, QRELS, ["R@10tok"])
    unknown = Run.from_entries(["q"], ["z"], [1.0])
    with pytest.raises(LexbenchError, match="document 'z' of the run is not in the corpus"):
        score(unknown, QRELS, ["R@10tok"], TOKENS)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Make a folder of data in the current folder, with an empty store."""
    enter(tmp_path, monkeypatch)
    documents = {"d1": "red car", "d2": "a red red car with wheels", "d3": "blue sky"}
    return write(
        tmp_path / "own", documents, {"q1": "red car", "q2": "sky"}, [("q1", "d1", 1), ("q1", "d2", 1), ("q2", "d3", 1)]
    )


def test_tokens_are_counted_once_and_stamped(own, capsys):
    """Words of this text are tokens: 2, 6 and 2. Run, score and run files agree; the result names the tokenizer's digest."""
    pytest.importorskip("tokenizers")
    measures = ["-m", "R@2tok", "-m", "R@8tok", "-m", "nDCG@8tok"]
    first = answer(capsys, "run", "dataset", "own", "-r", "bm25", *measures, "--json")["results"][0]
    assert first["per_query"]["R@8tok"] == [1.0, 1.0]
    assert first["per_query"]["R@2tok"] in ([0.5, 1.0], [0.0, 1.0])  # whichever document of q1 comes first
    (counts,) = (own.parent / "store" / "tokens").iterdir()
    assert sorted(np.load(counts / "counts.npy").tolist()) == [2, 2, 6]
    assert list(first["tokenizers"]) == [NAME]
    before = counts.stat().st_mtime_ns
    again = answer(capsys, "score", "bm25", "-d", "own", *measures, "--json")
    assert (again["means"], again["tokenizers"]) == (first["means"], first["tokenizers"])
    ended(capsys, 0, "export", "trec", "out", "-r", "bm25")
    (file,) = (own.parent / "out").iterdir()
    assert answer(capsys, "run", "own", "-r", file, *measures, "--json")["results"][0]["means"] == first["means"]
    assert counts.stat().st_mtime_ns == before
    message = "a budget of tokens takes the documents; name the dataset that has them with -d"
    assert message in ended(capsys, 2, "score", file, "--qrels", "own/qrels/test.tsv", *measures).err


def test_another_tokenizer_is_another_result(own, capsys):
    """A folder with tokenizer.json is read; without one, the line says what there is."""
    pytest.importorskip("tokenizers")
    folder = own.parent / "mine"
    folder.mkdir()
    text = (own.parent / catalog_file).parent.joinpath("lexmae_nano", "tokenizer.json").read_text(encoding="utf-8")
    (folder / "tokenizer.json").write_text(text + " ", encoding="utf-8")
    measure = f"R(tokenizer={str(folder)!r})@8tok"
    results = [answer(capsys, "run", "own", "-r", "bm25", "-m", one, "--json")["results"][0] for one in ("R@8tok", measure)]
    digests = [next(iter(result["tokenizers"].values())) for result in results]
    assert digests[0] != digests[1]
    assert len(list((own.parent / "store" / "tokens").iterdir())) == 2
    assert "no tokenizer 'nothere'" in ended(capsys, 1, "run", "own", "-r", "bm25", "-m", "R(tokenizer='nothere')@8tok").err


def test_continuous_grades_have_default_measures(tmp_path, monkeypatch, capsys):
    """Nobody has to choose: those that need no threshold are measured, with a note on the others. What is typed is refused."""
    enter(tmp_path, monkeypatch)
    write(tmp_path / "own", {"d1": "red car", "d2": "blue"}, {"q1": "red car"}, [("q1", "d1", 0.7), ("q1", "d2", 0.1)])
    (result,) = lexbench.run("own")
    assert list(result.means) == ["nDCG@10", "Judged@10"]
    note = "the grades are continuous, from 0.1 to 0.7; other measures take one, e.g. -m 'RR(rel=0.5)@10'"
    assert note in texts_of(result.notes)
    scored = answer(capsys, "score", "bm25", "-d", "own", "--json")
    assert list(scored["means"]) == ["nDCG@10", "Judged@10"]
    assert "from which grade is a document relevant" in ended(capsys, 1, "run", "own", "-m", "RR@10").err
