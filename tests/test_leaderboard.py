"""The leaderboard page."""

import msgspec
import pytest

from lexbench import suites
from lexbench.errors import CannotStart, InvalidFile
from lexbench.report import leaderboard
from lexbench.report.markdown import escape
from lexbench.report.table import tables
from lexbench.results import Counts, Result, Tie, load, save, to_bytes
from lexbench.suites import Aggregate, Suite


def result(system, dataset="pydoc/test", ndcg=0.5, **more):
    """Make a result of two queries."""
    means = {"nDCG@10": ndcg}
    per_query = {"nDCG@10": [ndcg, ndcg]}
    counts = Counts(queries=2, **more.pop("counts", {}))
    return Result(
        system=system, dataset=dataset, contract=f"{dataset}@1", depth=10, means=means, query_ids=["a", "b"],
        per_query=per_query, counts=counts, **more,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Make a leaderboard folder with three systems on pydoc."""
    leaderboard.write_results([result("bm25", ndcg=0.5), result("a", ndcg=0.25), result("b", ndcg=0.75)], "pydoc", tmp_path)
    return tmp_path


def test_the_page_is_a_function_of_the_files(folder):
    """The same files give the same bytes, and the check knows a stale page from a fresh one."""
    assert leaderboard.stale(folder)
    path = leaderboard.write(folder)
    text = path.read_bytes()
    assert not leaderboard.stale(folder)

    leaderboard.write(folder)
    assert path.read_bytes() == text

    leaderboard.write_results([result("c", ndcg=0.1)], "pydoc", folder)
    assert leaderboard.stale(folder)


def test_best_is_bold_and_second_underlined(folder):
    """The best figure of a column is bold, the second underlined, and rows come best first."""
    rows = [line for line in leaderboard.page(folder).splitlines() if line.startswith("| ")]

    assert rows[2].startswith("| b | **0.7500** |")
    assert rows[3].startswith("| bm25 | <ins>0.5000</ins> |")
    assert rows[4].startswith("| a | 0.2500 |")


def test_equal_figures_are_marked_alike():
    """Two systems that print the same figure share their mark."""
    assert leaderboard.marked({"a": 0.50001, "b": 0.50002, "c": 0.4, "d": None}) == {
        "a": "**0.5000**",
        "b": "**0.5000**",
        "c": "<ins>0.4000</ins>",
        "d": "—",
    }


def test_hostile_names_stay_inert(tmp_path):
    """A system's name cannot break the table or smuggle HTML into the page."""
    leaderboard.write_results([result("<img src=x onerror=alert(1)>|`*\n```\n<b>")], "pydoc", tmp_path)
    before, start, rest = leaderboard.page(tmp_path).partition("\n```sh\n")
    command, end, after = rest.partition("\n```\n")  # in a code block, of one line, nothing is markup

    assert start
    assert end
    assert "\n" not in command
    assert "<img" not in before + after
    assert "<b>" not in before + after
    assert escape("a|b\nc") == "a\\|b c"
    assert len(list((tmp_path / "results" / "pydoc").iterdir())) == 1


def test_two_systems_never_share_a_file():
    """Labels that differ only in characters that no file name can hold get different files."""
    assert leaderboard.file_name("run_file(path='a/b')") != leaderboard.file_name("run_file(path='a?b')")
    assert leaderboard.file_name("bm25@lucene") == "bm25@lucene"


def test_an_empty_folder_says_what_to_type(tmp_path):
    """Without result files there is no page, and one line says how to make some."""
    with pytest.raises(CannotStart, match="lexbench run suite pydoc --save"):
        leaderboard.page(tmp_path)


def test_a_new_result_replaces_the_old_and_keeps_the_rest(tmp_path):
    """Saving a system again replaces the datasets that were run and keeps the others."""
    first = [result("s", "beir/scifact/test", 0.1), result("s", "beir/nfcorpus/test", 0.2)]
    leaderboard.write_results(first, "beir", tmp_path)
    leaderboard.write_results([result("s", "beir/scifact/test", 0.3)], "beir", tmp_path)
    page = leaderboard.page(tmp_path)

    assert "| 0.2000 | 0.3000 | 2/12 |" in page


SUITE = Suite(
    schema=1, id="s", version=1, name="S", description="", datasets=("x", "y"), measures=("nDCG@10",), headline="nDCG@10",
    retrievers=(), aggregates=(Aggregate(id="both@1", measure="nDCG@10", members=("x", "y")),),
)  # fmt: skip


def test_a_mean_needs_every_member():
    """The mean over datasets is there when all are; else the count is, and no mean."""
    half = tables([result("a", "x", 0.2), result("b", "x", 0.4), result("b", "y", 0.6)], SUITE)[0]
    assert half.rows[-1] == ("both@1", "1/2", "0.5000")


def test_measures_that_were_asked_for_are_shown():
    """Several systems on several datasets show the suite's headline; other measures, asked for by name, are shown instead."""
    every = [result(system, dataset, 0.2) for system in "ab" for dataset in "xy"]
    asked = [msgspec.structs.replace(one, means={"R@10": 0.3, "P@5": 0.1}) for one in every]

    assert [table.title for table in tables(every, SUITE)] == ["nDCG@10"]
    assert [table.title for table in tables(asked, SUITE)] == ["R@10", "P@5"]
    assert tables(asked, SUITE)[1].rows[0] == ("x", "0.1000", "0.1000")


def test_what_a_reader_must_know_is_said():
    """Queries without hits, dropped self-matches and wide tie intervals are notes under the table."""
    told = result(
        "a", "x", counts={"missing": 1, "self_matches": 3}, ties={"nDCG@10": Tie(lowest=0.4, highest=0.6, queries=0.5)}
    )
    notes = "\n".join(tables([told], None)[0].notes)

    assert "1 of 2 queries returned nothing" in notes
    assert "3 documents with the query's own id were dropped" in notes
    assert "tied scores leave open nDCG@10 [0.4000, 0.6000]" in notes


def test_results_survive_the_disk(tmp_path):
    """Saving and loading gives an equal result, and the same result gives the same bytes."""
    one = result("bm25")
    save(one, tmp_path / "r.json")

    assert load(tmp_path / "r.json") == one
    assert to_bytes(one) == (tmp_path / "r.json").read_bytes()


def test_a_result_that_does_not_read_names_the_place(tmp_path):
    """A damaged result file costs one line that names the file and the place in it."""
    (tmp_path / "r.json").write_bytes(to_bytes(result("bm25")).replace(b'"depth": 10', b'"depth": "ten"'))
    with pytest.raises(InvalidFile, match=r"r\.json: .* at `\$\.depth`"):
        load(tmp_path / "r.json")


HISTORY = sorted((suites.folders()[0].parent / "tests" / "history").glob("*.json"))


@pytest.mark.parametrize("path", HISTORY, ids=lambda path: path.stem)
def test_old_result_files_load_for_ever(path):
    """A result file of any released format still loads, with its scores."""
    assert load(path).means
