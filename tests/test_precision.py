"""The precision for comparing scores of run files: double like trec_eval since 2023, or float32 like before."""

import json

import numpy as np
import pytest
import pytrec_eval

from lexbench.cli import app
from lexbench.retrievers.run_file import RunFile
from lexbench.runner.scoring import judgements, score_lists
from lexbench.trec.runs import read_run

QRELS = "q 0 a 1\nq 0 c 1\n"
CLOSE = "q Q0 a 1 12.34567891 t\nq Q0 b 2 12.34567890 t\nq Q0 c 3 1 t\n"  # a and b are one number as float32


@pytest.fixture
def files(tmp_path):
    """Return a function that writes a run and returns its path and that of the judgements."""

    def write(text):
        (tmp_path / "qrels").write_text(QRELS)
        (tmp_path / "run").write_text(text)
        return tmp_path / "run", tmp_path / "qrels"

    return write


def score_file(path, named, *, qrels, **settings):
    """Return the result of a run file by a qrels file."""
    return score_lists(read_run(path), path.name, named, judgements(None, qrels), **settings)


def test_double_scores_decide_and_leave_nothing_open(files):
    """RR is 1 like in trec_eval 10, its tie interval is [1, 1], and the result names the precision."""
    path, qrels = files(CLOSE)
    result = score_file(path, ["RR", "nDCG@10"], qrels=qrels)

    assert (result.means["RR"], result.ties["RR"].lowest, result.ties["RR"].highest) == (1.0, 1.0, 1.0)
    assert (result.precision, result.other_precision["RR"]) == ("double", 0.5)


def test_float32_repeats_older_figures_and_says_what_double_gives(files):
    """With float32, values equal pytrec_eval's, the tie shows, and the mean as double is given."""
    path, qrels = files(CLOSE)
    result = score_file(path, ["RR"], qrels=qrels, precision="float32")
    ranked = {"q": {"a": 12.34567891, "b": 12.3456789, "c": 1.0}}
    theirs = pytrec_eval.RelevanceEvaluator({"q": {"a": 1, "c": 1}}, {"recip_rank"}).evaluate(ranked)

    assert result.means["RR"] == theirs["q"]["recip_rank"] == 0.5
    assert (result.ties["RR"].lowest, result.ties["RR"].highest) == (0.5, 1.0)
    assert (result.precision, result.other_precision) == ("float32", {"RR": 1.0})


def test_where_both_orders_give_the_same_nothing_is_said(files):
    """If the order differs only among unjudged documents, or not at all, there is no note."""
    path, qrels = files("q Q0 a 1 2 t\nq Q0 x 2 1.00000001 t\nq Q0 y 3 1 t\n")

    assert score_file(path, ["RR", "nDCG@10"], qrels=qrels).other_precision == {}


def test_the_command_line_prints_both(files, capsys):
    """`score` names the other precision, its tools and its mean; --scores float32 swaps them."""
    path, qrels = files(CLOSE)
    words = ["score", str(path), "--qrels", str(qrels), "-m", "RR@10"]

    app.main(words, standalone_mode=False)
    assert "as float32, like trec_eval to v9.0.8 of 2020, pytrec_eval" in " ".join(capsys.readouterr().out.split())
    app.main([*words, "--scores", "float32", "--json"], standalone_mode=False)
    document = json.loads(capsys.readouterr().out)
    assert (document["means"], document["other_precision"]) == ({"RR@10": 0.5}, {"RR@10": 1.0})


def test_measures_deeper_than_a_run_are_named(files):
    """R@1000 of lists with three documents is R@3, and a note says so; RR@2 needs no note."""
    path, qrels = files(CLOSE)

    assert score_file(path, ["R@1000", "RR@2"], qrels=qrels).notes == [
        "the longest list has 3 documents, and R@1000 would look at more"
    ]


def test_a_run_file_in_a_suite_is_read_in_either_precision(files):
    """The setting is part of the file's identity, so the two precisions are never confused."""
    path, _ = files(CLOSE)
    double, single = RunFile(str(path)), RunFile(str(path), scores="float32")

    assert [double.read("x").scores.dtype, single.read("x").scores.dtype] == [np.float64, np.float32]
    assert double.file_identity("x") != single.file_identity("x")
