"""The leaderboard: its pages, tests, published scores, and the checks of result files."""

from typing import get_args

import msgspec
import numpy as np
import pytest
import samples

from lexbench import catalog, registry, suites
from lexbench.analysis.significance.randomisation import minimum_detectable, resamples_for
from lexbench.cli import code
from lexbench.errors import CannotStart, InvalidFile
from lexbench.report import leaderboard
from lexbench.report.leaderboard.board import family, ranks
from lexbench.report.leaderboard.panels import compare_all
from lexbench.report.leaderboard.sections import published_systems, read_published
from lexbench.report.leaderboard.trade_off import frontier
from lexbench.report.run import tables
from lexbench.results import Counts, Exposure, Tie, file_name, load, save, write_results
from lexbench.storage.atomic import json_bytes
from lexbench.storage.stopwatch import Measurement
from lexbench.suites import Aggregate, Suite
from lexbench.table import escape

pytestmark = pytest.mark.usefixtures("open_contracts")


def result(system, dataset="pydoc/test", ndcg=0.5, counts={}, **more):  # noqa: B006 - only read
    """Make a result with two queries."""
    facts = {"counts": Counts(queries=2, **counts), "exposure": Exposure(status="zero-shot")}
    return samples.result(system, [ndcg, ndcg], dataset, **facts | more)


@pytest.fixture
def folder(tmp_path):
    """Make a folder of results with three systems on pydoc."""
    write_results([result("bm25", ndcg=0.5), result("a", ndcg=0.25), result("b", ndcg=0.75)], "pydoc", tmp_path)
    return tmp_path


def markdown(folder):
    """Return the Markdown page of a folder."""
    return leaderboard.pages(folder)[folder / "README.md"]


def test_the_pages_are_a_function_of_the_files(folder):
    """Equal files give equal bytes, and `stale` finds a page that is out of date."""
    made = leaderboard.pages(folder)
    assert leaderboard.stale(made) == [folder / "README.md", folder / "index.html"]
    leaderboard.write(made)
    assert leaderboard.stale(leaderboard.pages(folder)) == []

    (folder / "index.html").write_text("changed")
    assert leaderboard.stale(made) == [folder / "index.html"]

    leaderboard.write(made)
    write_results([result("c", ndcg=0.1)], "pydoc", folder)
    assert len(leaderboard.stale(leaderboard.pages(folder))) == 2


def test_the_command_writes_both_pages_and_checks_them(folder, capsys):
    """`lexbench leaderboard --results FOLDER` writes both pages; with --check it writes nothing and exits with 1."""
    assert code(["leaderboard", "--results", str(folder), "--check"]) == 1
    said = f"out of date: {folder / 'README.md'}, {folder / 'index.html'}; type: lexbench leaderboard --results"
    assert said in capsys.readouterr().err
    assert not (folder / "index.html").exists()
    assert code(["leaderboard", "--results", str(folder)]) == 0
    assert code(["leaderboard", "--results", str(folder), "--check"]) == 0
    (folder / "index.html").unlink()
    assert code(["leaderboard", "--results", str(folder), "--check"]) == 1


def test_best_is_bold_and_second_underlined(folder):
    """The best score of a column is bold, the second underlined, and rows come best first."""
    rows = [line for line in markdown(folder).splitlines() if line.startswith("| ")]

    assert rows[2].startswith("| b | **0.7500** |")
    assert rows[3].startswith("| bm25 | <ins>0.5000</ins> |")
    assert rows[4].startswith("| a | 0.2500 |")


def test_equal_figures_are_marked_alike():
    """Two systems whose scores print alike share their mark."""
    assert ranks({"a": 0.50001, "b": 0.50002, "c": 0.4, "d": None, "e": 0.3}) == {"a": 1, "b": 1, "c": 2}
    assert ranks({"a": 0.5}) == {}


def test_hostile_names_stay_inert(tmp_path):
    """The name of a system cannot break the table or smuggle HTML into the page."""
    write_results([result("<img src=x onerror=alert(1)>|`*\n```\n<b>")], "pydoc", tmp_path)
    before, start, rest = markdown(tmp_path).partition("\n```sh\n")
    command, end, after = rest.partition("\n```\n")  # in a code block, of one line, nothing is markup

    assert start
    assert end
    assert "\n" not in command
    assert "<img" not in before + after
    assert "<b>" not in before + after
    assert escape("a|b\nc") == "a\\|b c"
    assert len(list((tmp_path / "results" / "pydoc").iterdir())) == 1


def test_two_systems_never_share_a_file():
    """Names that differ only in characters that file names cannot have get different files."""
    assert file_name("run_file(path='a/b')") != file_name("run_file(path='a?b')")
    assert file_name("bm25@lucene") == "bm25@lucene"


def test_an_empty_folder_says_what_to_type(tmp_path):
    """Without result files there is no page, and one line says how to make some."""
    with pytest.raises(CannotStart, match="lexbench run suite pydoc --results"):
        markdown(tmp_path)


def test_a_result_in_the_folder_of_another_suite_is_refused(tmp_path, capsys):
    """A dataset that is not in the suite gives one line and exit code 2."""
    write_results([result("bm25", "beir/arguana")], "pydoc", tmp_path)

    assert code(["leaderboard", "--results", str(tmp_path)]) == 2
    said = "beir/arguana is not a dataset of the suite pydoc; move its results to the folder of its suite"
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_new_result_replaces_the_old_and_keeps_the_rest(tmp_path):
    """Saving a system again replaces the datasets that were run and keeps the others."""
    first = [result("s", "beir/scifact/test", 0.1), result("s", "beir/nfcorpus/test", 0.2)]
    write_results(first, "beir", tmp_path)
    write_results([result("s", "beir/scifact/test", 0.3)], "beir", tmp_path)
    page = markdown(tmp_path)
    assert "| 0.2000 | 0.3000 | 2/12 |" in page
    assert "\nlexbench run suite beir -d beir/nfcorpus/test -d beir/scifact/test -r s\n" in page


def test_systems_without_a_significant_difference_share_a_letter(tmp_path):
    """Two systems share a letter if and only if they have no significant difference."""
    levels = {"high": 0.8, "high too": 0.8, "low": 0.2}
    wobble = {"high": [0.1, -0.1], "high too": [-0.1, 0.1], "low": [0.0, 0.0]}
    made = [
        samples.result(name, [level + wobble[name][n % 2] for n in range(30)], exposure=Exposure(status="zero-shot"))
        for name, level in levels.items()
    ]
    write_results(made, "pydoc", tmp_path)
    rows = [line for line in markdown(tmp_path).splitlines() if line.startswith(("| high", "| low"))]

    assert rows[0].startswith("| high | **0.8000** <sup>a</sup> |")
    assert rows[1].startswith("| high too | **0.8000** <sup>a</sup> |")
    assert rows[2].startswith("| low | <ins>0.2000</ins> <sup>b</sup> |")


def test_the_detectable_difference_is_the_median_over_pairs_that_differ(tmp_path):
    """Among nine twins and one other, the median is over pairs that differ, at .05 / 45."""
    rng = np.random.default_rng(3)
    twin, other = rng.random(50), rng.random(50)
    scores = {f"twin{number}": twin for number in range(9)} | {"other": other}
    write_results([samples.result(name, values) for name, values in scores.items()], "pydoc", tmp_path)
    least = minimum_detectable(twin - other, level=0.05 / 45)

    assert f"The tests have 80 % power for differences of {least:.3f} on pydoc/test (at Holm's" in markdown(tmp_path)
    assert "They draw 10,000 resamples." in markdown(tmp_path)
    assert compare_all({"a": twin, "b": twin}).detectable is None
    assert compare_all({f"s{n:02}": rng.random(9) for n in range(27)}).resamples == resamples_for(351) == 14_040


def test_what_ranks_candidates_is_apart_from_exact_search(tmp_path):
    """A pipeline of 100 candidates is never called exact at k=1000."""
    timing = samples.timing(100)
    ranked = msgspec.structs.replace(timing, candidates=100)
    write_results([result("bm25", timings=[timing]), result("p", timings=[ranked])], "pydoc", tmp_path)
    titles = [line for line in markdown(tmp_path).splitlines() if line.startswith("### ")]

    assert [title.partition(" on ")[0] for title in titles] == [
        "### e2e QPS, single-stream-1t, k=1000",
        "### e2e QPS, single-stream-1t, k=1000, candidates=100",
    ]
    assert "| p | 100 | — | 10 | — | — | candidates=100 |  |" in markdown(tmp_path)


def test_a_system_without_the_headline_is_shown_and_not_tested(tmp_path):
    """A result without the headline measure has its scores, and a note says that it is not tested."""
    other = msgspec.structs.replace(result("z"), means={"RR@10": 0.1}, per_query={"RR@10": [0.1, 0.1]})
    write_results([result("bm25"), other], "pydoc", tmp_path)

    note = "- z is not tested: it has no nDCG@10"
    assert note in markdown(tmp_path)


def test_known_data_issues_come_with_their_source(tmp_path):
    """The notes of a dataset begin with its known data issues; ArguAna lacks five documents."""
    write_results([result("bm25", "beir/arguana")], "beir", tmp_path)

    said = "- data issue: Five judged documents are not in the corpus: their five queries score 0 with every system. (https://"
    assert said in markdown(tmp_path)


def test_speeds_have_a_table_of_their_own_with_their_full_name(tmp_path):
    """Timed systems have one table per machine, scenario and k, fastest first, with the machine above it."""

    def timed(system, qps, fingerprint, flags=()):
        timing = samples.timing(
            qps, flags=list(flags), fingerprint=fingerprint, machine={"processor": "Fast"}, processes=3,
            qps_range={"e2e": (qps * 0.96, qps * 1.04)},
        )  # fmt: skip
        shallow = msgspec.structs.replace(timing, k=10, qps={"e2e": qps * 3}, qps_range={})
        return result(system, timings=[shallow, timing] if system == "a" else [timing])

    write_results([timed("a", 50, "f1"), timed("b", 200, "f1", ["noisy"]), timed("c", 100, "f2")], "pydoc", tmp_path)
    _, shallow, first, second = markdown(tmp_path).split("### ")

    assert first.startswith("e2e QPS, single-stream-1t, k=1000 on pydoc/test: Fast (fingerprint f1)\n")
    assert (
        "| a | 50 | 48 to 52 | 20 | — | — | exact |  |\n| b | 200 | 192 to 208 | 5 | — | — | exact | noisy |\n" in first
    )  # noisy: no rank
    assert shallow.startswith("e2e QPS, single-stream-1t, k=10 on pydoc/test: Fast (fingerprint f1)\n")
    assert "| a | 150 | — | 20 |" in shallow
    assert "| c | 100 |" in second
    assert "| a |" not in second


def test_what_a_model_weighs_and_how_long_building_took_are_columns(tmp_path):
    """Megabytes of weights and seconds of building are columns; a resumed build has no seconds."""
    sizes = {"index": 2_500_000, "model": 8_960_416}
    whole = Measurement(seconds={"encode": 40.25, "build": 1.0, "search": 9.0})
    cut = msgspec.structs.replace(whole, resumed=True)
    made = [result("a", sizes=sizes, measured=whole), result("b", sizes=sizes, measured=cut), result("bm25")]
    write_results(made, "pydoc", tmp_path)
    rows = {line.split(" | ")[0]: line.split(" | ")[-4:] for line in markdown(tmp_path).splitlines() if line.startswith("| ")}

    assert rows["| system"] == ["index MB", "bytes/doc", "model MB", "built s |"]
    assert rows["| a"] == ["2.5", "—", "9.0", "41.2 |"]
    assert rows["| b"][2:] == ["9.0", "— |"]
    assert rows["| bm25"][2:] == ["—", "— |"]


def test_published_scores_are_marked_and_have_one_row_a_system():
    """BM25's scores from three sources are one row, from the source with most; scores under other rules are left out."""
    rows = published_systems(read_published(), suites.suite("beir"), ["beir/arguana", "beir/scifact/test"])
    anserini = [row for row in rows if row.system.label == "bm25_anserini"]

    assert [row.system.source for row in anserini] == ["pyserini 2CR"]
    assert anserini[0].cells["beir/scifact/test"].means == {"nDCG@10": 0.6789}
    papers = [row for row in rows if row.system.source == "LexMAE paper"]
    assert papers
    assert all(set(row.cells) == {"beir/scifact/test"} for row in papers)  # its ArguAna is of other rules


@pytest.mark.parametrize(
    ("points", "lower", "expected"),
    [
        ([(1, 1), (2, 2), (3, 1.5)], True, {0, 1}),
        ([(1, 1), (2, 2), (3, 1.5)], False, {1, 2}),
        ([(1, 1), (1, 1)], True, {0, 1}),
        ([(1, 1), (1, 2)], True, {1}),
        ([], True, set()),
    ],
)
def test_the_frontier(points, lower, expected):
    """No other point dominates a point of the frontier; equal points are both on it."""
    assert frontier(points, lower_is_better=lower) == expected


SUITE = Suite(
    schema=1, id="s", version=1, name="S", description="", datasets=("x", "y"), measures=("nDCG@10",), headline="nDCG@10",
    retrievers=(), aggregates=(Aggregate(id="both@1", measure="nDCG@10", members=("x", "y")),),
)  # fmt: skip


DENSE = {"plugin": "retrievers/encoded", "settings": {"encoder": {"plugin": "encoders/dense"}}}


def test_a_mean_needs_every_member():
    """A mean over datasets needs all members; otherwise their number is shown."""
    half = tables([result("a", "x", 0.2), result("b", "x", 0.4), result("b", "y", 0.6)], SUITE)[0]
    assert half.rows[-1] == ("both@1", "1/2", "0.5000")


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ({"plugin": "retrievers/bm25_lucene"}, "bm25"),
        ({"plugin": "retrievers/encoded", "settings": {"encoder": {"plugin": "encoders/term_weights"}}}, "term weights"),
        ({"plugin": "retrievers/encoded", "settings": {"encoder": {"plugin": "encoders/vectors"}}}, "other"),
        ({"plugin": "nobody:retrievers/bm25"}, "other"),
        ({"plugin": "retrievers/gone"}, "other"),
        ({}, "other"),
        ({"plugin": "retrievers/passages", "settings": {"members": [DENSE]}}, "dense"),  # that of its member
    ],
)
def test_a_family_is_what_the_plug_in_says(recipe, expected):
    """A system has the family of its encoder or else its retriever; it is "other" if the plug-in is not installed."""
    assert family(recipe) == expected


def test_families_are_the_catalogues():
    """Families of plug-ins are also families of the catalogue, so that filters need one word."""
    plugins = [registry.find(f"{group}/{name}") for group in ("encoders", "retrievers") for name in registry.names(group)]
    families = {plugin.family for plugin in plugins}

    assert {"bm25", "sparse", "dense", "hybrid", "reranker"} < families
    assert families <= {"other", "", *get_args(catalog.Family)}  # "": that of its part


def test_measures_that_were_asked_for_are_shown():
    """Several systems on several datasets show the headline of the suite, unless other measures were asked for by name."""
    every = [result(system, dataset, 0.2) for system in "ab" for dataset in "xy"]
    asked = [msgspec.structs.replace(one, means={"R@10": 0.3, "P@5": 0.1}) for one in every]

    assert [table.title for table in tables(every, SUITE)] == ["nDCG@10"]
    assert [table.title for table in tables(asked, SUITE)] == ["R@10", "P@5"]
    assert tables(asked, SUITE)[1].rows[0] == ("x", "0.1000", "0.1000")


def test_notes_of_a_table():
    """Queries without hits, dropped self-matches and wide tie intervals are notes below the table."""
    told = result(
        "a", "x", counts={"missing": 1, "self_matches": 3}, ties={"nDCG@10": Tie(lowest=0.4, highest=0.6, queries=0.5)}
    )
    notes = "\n".join(tables([told], None)[0].notes)

    assert "1 of 2 queries returned nothing" in notes
    assert "3 documents with the query's own id were dropped" in notes
    assert "other orders of ties give nDCG@10 [0.4000, 0.6000]" in notes


def test_results_survive_the_disk(tmp_path):
    """Saving and loading gives an equal result, and equal results give equal bytes."""
    one = result("bm25")
    save(one, tmp_path / "r.json")

    assert load(tmp_path / "r.json") == one
    assert json_bytes(one) == (tmp_path / "r.json").read_bytes()


def test_a_result_that_does_not_read_names_the_place(tmp_path):
    """A damaged result file gives one line with the file and the place in it."""
    (tmp_path / "r.json").write_bytes(json_bytes(result("bm25")).replace(b'"depth": 10', b'"depth": "ten"'))
    with pytest.raises(InvalidFile, match=r"r\.json: .* at `\$\.depth`"):
        load(tmp_path / "r.json")


def _changed(entry, where, **values):
    """Return a stored entry with other values in it or in its result."""
    target = entry if where == "entry" else entry["results"][0]
    return {**entry, **values} if target is entry else {**entry, "results": [{**target, **values}, *entry["results"][1:]]}


@pytest.mark.parametrize(
    ("where", "values", "said"),
    [
        ("result", {"means": {"nDCG@10": 0.9}}, "the mean of nDCG@10 is 0.9, and that of its values 0.5"),
        ("result", {"means": {"nDCG@10": 7.0}, "per_query": {"nDCG@10": [7.0, 7.0]}}, "not from 0 to 1"),
        ("result", {"per_query": {"nDCG@10": [-0.5, 1.5]}}, "not from 0 to 1"),
        ("result", {"means": {"nDCG@10": 1e308}, "per_query": {"nDCG@10": [1e308, 1e308]}}, "nDCG@10"),
        ("result", {"per_query": {}}, "nDCG@10 has a mean but no values by query"),
        ("result", {"per_query": {"nDCG@10": [0.5]}}, "1 values of nDCG@10 for 2 queries"),
        ("result", {"per_query": {"nDCG@10": [0.5, 0.5], "AP@10": [0.1, 0.1]}}, "values of AP@10, and no mean"),
        ("result", {"query_ids": ["a", "a"]}, "has a query twice"),
        ("result", {"query_ids": ["a", "b", "c"]}, "counts 2 queries but has 3"),
        ("result", {"counts": {"queries": 1}}, "counts 1 queries but has 2"),
        ("result", {"schema": 99}, "its schema is 99"),
        ("result", {"system": "b"}, "a result of b among those of bm25"),
        ("result", {"contract": "beir/scifact/test@1"}, "its contract 'beir/scifact/test@1' is not of this dataset"),
        ("result", {"contract": "`<script>`"}, "its contract"),
        (
            "result",
            {"ties": {"nDCG@10": {"lowest": 0.6, "highest": 0.4, "queries": 1.0}}},
            "from 0.6 to 0.4, does not hold its mean 0.5",
        ),
        ("entry", {"schema": 99}, "its schema is 99"),
        ("entry", {"system": "b"}, "whose file is pydoc/b.json"),
        ("entry", {"suite": "beir"}, "whose file is beir/bm25.json"),
    ],
)
def test_results_that_cannot_be_true_are_refused(folder, capsys, where, values, said):
    """A file that contradicts itself, its name or its measure is refused, and no page is made."""
    path = folder / "results" / "pydoc" / "bm25.json"
    path.write_bytes(json_bytes(_changed(msgspec.json.decode(path.read_bytes()), where, **values)))

    assert code(["leaderboard", "--results", str(folder)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"lexbench: {path}: ")
    assert said in err
    assert not (folder / "README.md").exists()


def test_a_dataset_twice_is_refused(folder):
    """Two results of one system on one dataset are refused."""
    path = folder / "results" / "pydoc" / "bm25.json"
    entry = msgspec.json.decode(path.read_bytes())
    path.write_bytes(json_bytes({**entry, "results": entry["results"] * 2}))

    with pytest.raises(InvalidFile, match=r"bm25.json: pydoc/test is there 2 times"):
        leaderboard.pages(folder)
