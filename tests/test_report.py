"""One page that answers "should we change?": verdict, costs, and the queries with the documents that moved."""

import csv
import json
import re

import pytest
import samples
from tiny import answer, ended, enter, write

import lexbench
from lexbench.report.leaderboard.sections import board
from lexbench.results import Entry, Results

TEXTS = {"Q1": "photo <b>manager</b>", "Q2": "chess game", "Q3": "pdf viewer", "Q4": "web browser"}
DOCUMENTS = {"digikam": "digiKam, manage photos", "gnuchess": "GNU Chess", "evince": "document viewer"} | {
    f"other{number}": f"other package {number}" for number in range(8)
}
JUDGED = [("Q1", "digikam", 3), ("Q2", "gnuchess", 1), ("Q3", "evince", 1), ("Q4", "other0", 1), ("Q1", "other1", 0)]
OTHERS = [name for name in DOCUMENTS if name.startswith("other")]


def searches(places):
    """Return a search system that ranks documents at these places by query, and unjudged ones around them."""

    def search(queries, k):
        lists = {}
        for query in queries:
            (name, place) = places[query]
            ranked = [one for one in OTHERS if one != name]
            ranked.insert(place - 1, name)
            lists[query] = {one: -float(rank) for rank, one in enumerate(ranked[:k])}
        return lists

    return search


OLD = {TEXTS["Q1"]: ("digikam", 1), TEXTS["Q2"]: ("gnuchess", 2), TEXTS["Q3"]: ("evince", 4), TEXTS["Q4"]: ("other0", 1)}
NEW = {TEXTS["Q1"]: ("digikam", 5), TEXTS["Q2"]: ("gnuchess", 1), TEXTS["Q3"]: ("evince", 1), TEXTS["Q4"]: ("other0", 1)}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Run two systems on a small collection in memory."""
    relevant = {query: {} for query in TEXTS}
    for query, document, grade in JUDGED:
        relevant[query][document] = grade
    data = {"name": "shop", "corpus": DOCUMENTS, "queries": TEXTS, "qrels": relevant}
    systems = {"old": by_text(OLD), "new": by_text(NEW)}
    return lexbench.run(data, systems, measures=["RR@10", "Judged@10"], store=tmp_path_factory.mktemp("report") / "store")


def by_text(places):
    """Return the search system for queries that are given by id or by text."""
    return searches(places | {query: places[text] for query, text in TEXTS.items()})


def test_a_report_has_the_verdict_and_the_documents_that_moved(found):
    """Means, queries that lose and gain, moved documents and judged shares are those of the lists, by hand."""
    report = found.report("old", "new", measure="RR@10")
    (change,) = report.changes

    # RR: old 1, 1/2, 1/4, 1; new 1/5, 1, 1, 1
    assert "RR@10 0.6875 → 0.8000, +0.1125" in change.verdict
    assert change.verdict.startswith("Whether new is better than old on shop cannot be told")
    assert "1 of 4 queries get worse" in change.verdict
    assert [(one.query, one.text, str(one.moved[0])) for one in change.lost] == [("Q1", TEXTS["Q1"], "digikam 1 → 5")]
    assert [(one.query, str(one.moved[0])) for one in change.gained] == [("Q3", "evince 4 → 1"), ("Q2", "gnuchess 2 → 1")]
    assert change.lost[0].moved[0].beginning == DOCUMENTS["digikam"]
    # of 9, 9, 9 and 8 documents 2, 1, 1 and 1 are judged
    assert change.judged == pytest.approx(dict.fromkeys(("old", "new"), (2 / 9 + 1 / 9 + 1 / 9 + 1 / 8) / 4))
    assert "86 % and 86 % of the top 10 documents are unjudged (old, new)" in change.cautions[0]
    assert change.differences == pytest.approx([-0.8, 0, 0.5, 0.75])
    assert dict(change.groups()) == {
        "lost above .3": 1, "lost from .1 to .3": 0, "lost below .1": 0, "same": 1,
        "gained below .1": 0, "gained from .1 to .3": 0, "gained above .3": 2,
    }  # fmt: skip
    assert len(report.to_pandas()) == len(change.measures) if pytest.importorskip("pandas") else True


def test_costs_are_compared_only_if_they_can_be():
    """Latency is a ratio on one machine, roughly if it was noisy, and never between a server and this process."""

    def verdict(*flags):
        timings = {rate: [samples.timing(rate, flags=list(flags))] for rate in (100, 2)}
        a = samples.result("a", dataset="x/test", timings=timings[100], sizes={"index": 10**6})
        b = samples.result("b", dataset="x/test", timings=timings[2], sizes={"index": 3 * 10**6})
        return Results([a, b]).report("a", "b").changes[0].verdict

    assert "50 times the latency; 3 times the index." in verdict()
    assert "50 times the latency (noisy timing)" in verdict("noisy")
    assert "latency" not in verdict("elsewhere")
    assert verdict().startswith("b has the same nDCG@10 as a on every query of x/test")


def test_markdown_and_page_need_nothing_else(found, tmp_path):
    """Both have the texts; texts of the user are text, never markup; the page has no script and no address."""
    report = found.report("old", "new", measure="RR@10")

    assert "**photo &lt;b&gt;manager&lt;/b&gt; (Q1)**<br>digikam 1 → 5: digiKam, manage photos" in report.markdown
    assert "| RR@10 | 0.6875 | 0.8000 | +0.1125 |" in report.markdown
    assert "photo &lt;b&gt;manager&lt;/b&gt;" in report.html
    assert "<code>digikam</code> <b>1 → 5</b>" in report.html
    assert "<script" not in report.html
    assert not re.search(r"(src|href)=", report.html)
    assert report._repr_html_().count('class="bar ') == 3  # a bar for each query that changed


def test_a_folder_of_results_has_the_texts(found, tmp_path, monkeypatch):
    """A saved folder is enough: report and page name texts and documents without the data and without the store."""
    enter(tmp_path, monkeypatch)
    found.save(tmp_path / "board")
    again = lexbench.report("old", "new", results=tmp_path / "board", measure="RR@10")
    page = lexbench.leaderboard(tmp_path / "board").html

    assert again.changes == found.report("old", "new", measure="RR@10").changes
    assert "<code>digikam</code> <b>5 → 1</b>" in page or "<code>digikam</code> <b>1 → 5</b>" in page
    assert "chess game" in json.loads(re.search(r'id="data">(.*?)</script>', page)[1])["suites"][0]["datasets"][0]["texts"]
    texts = json.loads((tmp_path / "board/queries/datasets/shop.json").read_bytes())
    assert texts["documents"].keys() == {"digikam", "gnuchess", "evince", "other0"}  # relevant ones


def test_published_data_keep_their_texts_to_themselves(tmp_path, bread_suite, monkeypatch):
    """Results under a contract have no ranks and no file of texts."""
    enter(tmp_path, monkeypatch)
    found = lexbench.run("bread/test", ["bm25"])
    found.save(tmp_path / "board")

    assert not (tmp_path / "board/queries").exists()
    assert all(not one.ranks for one in found)


def test_the_top_of_a_board_is_corrected_for_all_pairs():
    """The best of many systems is chosen by these scores: its p is that of the page, never that of one comparison."""
    level = [0.1 * (number % 5) for number in range(40)]
    better = [value + 0.1 * (number % 3 == 0) for number, value in enumerate(level)]
    systems = {"bm25": level, "best": better, **{f"s{at}": [value + 0.001 * at for value in level] for at in range(1, 6)}}
    results = [samples.result(name, values, "x/test") for name, values in systems.items()]
    (section,) = board(Results(Entry(one, "x") for one in results)).suites
    alone = Results(results).report("bm25", "best").changes[0]

    assert section.change.system == "best"
    assert section.change.baseline == "bm25"
    assert section.change.measures[0].p > alone.measures[0].p
    assert section.change.measures[0].p == section.datasets[0].p_of(0, [one.label for one in section.systems].index("bm25"))


@pytest.fixture
def tables(store, tmp_path):
    """Write a collection as tables with names of the user's own, and return what has to be typed for them."""
    folder = tmp_path / "shop"
    folder.mkdir()
    for name, heads, rows in (
        ("corpus", ["package", "summary"], DOCUMENTS.items()),
        ("queries", ["number", "question"], TEXTS.items()),
        ("qrels", ["number", "package", "clicks"], JUDGED),
    ):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([heads, *rows])
    return (
        "id=package,text=summary,queries.id=number,queries.text=question,"
        "qrels.query=number,qrels.document=package,qrels.grade=clicks"
    )


@pytest.fixture
def runs(tmp_path):
    """Write two run files and return what has to be typed to run them."""
    for name, places in (("old", OLD), ("new", NEW)):
        lists = by_text(places)(list(TEXTS), 10)
        lines = (f"{query} Q0 {one} 1 {score} {name}\n" for query, of in lists.items() for one, score in of.items())
        (tmp_path / f"{name}.run").write_text("".join(lines))
    return [word for name in ("old", "new") for word in ("-r", f'{name} = run_file("{name}.run")')]


def test_stated_columns_are_remembered_with_the_results(tables, runs, capsys):
    """After a run with --columns, comparisons and reports show texts and documents, and -d FOLDER takes --columns again."""
    ended(capsys, 0, "run", "shop", *runs, "-m", "RR@10", "--columns", tables)
    words = ("compare", "old", "new", "-m", "RR@10", "-d", "shop", "--columns", tables)
    document = answer(capsys, *words, "--json")
    out = ended(capsys, 0, "report", "old", "new", "-m", "RR@10", "--markdown", "r.md", "--html", "r.html").out

    assert document["datasets"][0]["queries"] == len(TEXTS)
    for words in (
        ("score", "old.run", "-d"), ("explain", "chess", "-r", "bm25", "-d"),
        ("compare", "--lists", "old.run", "new.run", "-d"), ("exposure", "-r", "bm25", "-d"), ("show", "dataset"),
        ("gate", "init", "-r", "bm25", "-m", "RR@10", "-d"),
    ):  # fmt: skip
        ended(capsys, 0, *words, "shop", "--columns", tables)
    assert ended(capsys, 0, "gate").out.startswith("pass: 1 of 1 gates pass")
    assert "--columns names columns of the tables of one dataset, and pydoc is a suite" in (
        ended(capsys, 2, "verify", "pydoc", "--columns", tables).err
    )
    assert "type: --columns id=package" in ended(capsys, 2, "compare", "old", "new", "-d", "shop").err
    assert "Q1: photo <b>manager</b>" in out
    assert all((lexbench.store_root().parent / name).is_file() for name in ("r.md", "r.html"))


def test_the_worst_queries_are_shown_alone(store, tmp_path, runs, capsys):
    """With --worst, `compare` shows only queries that lost, the largest loss first."""
    write(tmp_path / "shop", DOCUMENTS, TEXTS, JUDGED)
    ended(capsys, 0, "run", "shop", *runs, "-m", "RR@10", "--results", "board")
    words = ("compare", "old", "new", "--results", "board", "-m", "RR@10", "--worst")
    text = ended(capsys, 0, *words).out

    assert [change["query"] for change in answer(capsys, *words, "--json")["query_changes"]] == ["Q1"]
    assert "the queries that lost most" in text
    assert "↳ digikam 1 → 5" in text
