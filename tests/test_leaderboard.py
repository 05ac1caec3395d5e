"""The leaderboard: its pages, tests, published scores, and the checks of result files."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np
import pytest
import samples
from tiny import ended

import lexbench
from lexbench import catalog, registry
from lexbench.analysis.significance.randomisation import minimum_detectable, queries_needed
from lexbench.cli import code
from lexbench.display.table import escape
from lexbench.errors import CannotStart
from lexbench.report.grid import Column, Grid, Row, Value
from lexbench.report.leaderboard import copies
from lexbench.report.leaderboard.board import family, shareable, systems_of
from lexbench.report.leaderboard.markdown import markdown as as_markdown
from lexbench.report.leaderboard.page import html
from lexbench.report.leaderboard.panels import frontier, power_notes
from lexbench.report.leaderboard.sections import board, published_systems, read_published
from lexbench.report.run import brief_tables, tables
from lexbench.results import (
    Counts,
    Entry,
    Exposure,
    Note,
    Results,
    SystemResults,
    Tie,
    VectorSizes,
    file_name,
    load,
    merged,
    write_results,
)
from lexbench.suites import suite as suite_named

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
    return lexbench.leaderboard(folder).pages()[folder / "README.md"]


def test_the_command_writes_the_pages_and_checks_them(folder, capsys):
    """`lexbench leaderboard --results FOLDER` writes the files; with --check it names stale ones, and exits with 1."""
    command = ["leaderboard", "--results", str(folder)]
    names = [str(folder / name) for name in ("README.md", "index.html", "reproduce.sh")]
    assert f"out of date: {', '.join(names)}; type: lexbench leaderboard" in ended(capsys, 1, *command, "--check").err
    assert not (folder / "index.html").exists()
    assert code(command) == code([*command, "--check"]) == 0
    (folder / "index.html").write_bytes(b"\xff changed")
    assert f"out of date: {names[1]}; " in ended(capsys, 1, *command, "--check").err
    assert code(command) == 0
    write_results([result("c", ndcg=0.1)], "pydoc", folder)
    assert lexbench.leaderboard(folder).stale() == list(map(Path, names))


def table_rows(folder, made=(), suite="pydoc"):
    """Write results that were *made*; return the cells of the rows of the suite's main table, without published rows."""
    write_results(made, "pydoc" if suite == "pydoc" else "beir", folder)
    lines = markdown(folder).partition(f"\n## {suite}")[2].partition(":\n\n|")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    return {one[1]: [one[0], *one[2:]] for one in cells}


def test_equal_figures_are_marked_alike():
    """Scores that print alike share their mark; upper bounds and a single system have none."""

    def marks(*scores, bound=None):
        rows = [Row(str(at), (Value(f"{one:.4f}", one),), ranked=at != bound) for at, one in enumerate(scores)]
        return [row[0] for row in Grid("", (Column("x", ranked=True),), tuple(rows)).marks()]

    assert marks(0.50001, 0.50002, 0.4, 0.3) == [1, 1, 2, 0]
    assert marks(0.9, 0.4, 0.3, bound=0) == [0, 1, 2]
    assert marks(0.5) == [0]


def test_terminal_markdown_page_and_latex_agree_to_the_last_digit(tmp_path):
    """A mean of .13474957 is .1347 everywhere; .03125 (halfway between two printed numbers) is rounded alike.

    A noisy timing has ~, one of other documents has ≠.
    """
    flags = {"half": [], "long": ["noisy"], "third": ["noisy", "differs"]}
    made = [samples.result(name, [value], documents=10, sizes={"index": 123_456},
                           timings=[samples.timing(99.96, flags=flag, queries=1)])
            for (name, flag), value in zip(flags.items(), (0.03125, 0.13474957, 1 / 3), strict=True)]  # fmt: skip
    write_results(made, "pydoc", tmp_path)
    read = lexbench.leaderboard(tmp_path).board
    terminal = {row[0]: row[1:] for row in brief_tables(made)[0].rows}
    page = {row.name: [one.text for one in row.values] for row in read.suites[0].summary.rows}
    latex = copies.latex(copies.view(read))

    for name, (score, rate, size) in terminal.items():
        cells = {cell.strip("*").removeprefix("<ins>").removesuffix("</ins>") for cell in table_rows(tmp_path)[name]}
        assert {score, rate, size} <= set(page[name]) & cells
        marked = rate.replace("~", r"$\sim$").replace("≠", r"$\neq$")
        assert re.search(rf"{name} & .*{re.escape(score)}.* & {re.escape(marked)} & {size} &", latex)
    assert [cells[:2] for cells in terminal.values()] == [("0.0312", "100.0"), ("0.1347", "100.0 ~"), ("0.3333", "100.0 ~ ≠")]


def test_speeds_of_another_machine_are_not_beside_the_others(tmp_path):
    """The column has the machine and k that most systems were timed with."""
    timings = {"a": ("f1", 1000), "b": ("f1", 1000), "c": ("f2", 1000), "d": ("f1", 10)}
    made = [
        result(name, timings=[samples.timing(50, machine={"name": machine}, k=k)]) for name, (machine, k) in timings.items()
    ]

    rows = table_rows(tmp_path, made)
    assert {name: cells[2] for name, cells in rows.items()} == {"a": "50.0", "b": "50.0", "c": "—", "d": "—"}


def test_hostile_names_stay_inert(tmp_path):
    """A name cannot break the table, smuggle HTML into the page, end a line of the script, or take the file of another."""
    write_results([result("<img src=x onerror=alert(1)>|`*\n```\n<b>'; rm x")], "pydoc", tmp_path)
    pages = lexbench.leaderboard(tmp_path).pages()

    assert "<img" not in pages[tmp_path / "README.md"]
    assert "<b>" not in pages[tmp_path / "README.md"]
    assert not [line for line in pages[tmp_path / "reproduce.sh"].splitlines() if line.startswith(("```", "<b>"))]
    assert escape("a|b\nc") == "a\\|b c"
    assert len(list((tmp_path / "results" / "pydoc").iterdir())) == 1
    assert file_name("run_file(path='a/b')") != file_name("run_file(path='a?b')")
    assert file_name("bm25@lucene") == "bm25@lucene"


def test_a_new_result_replaces_the_old_and_keeps_the_rest(tmp_path):
    """Saving a system again replaces the datasets that were run and keeps the others, which are equal when read again."""
    first = [result(name, f"beir/{one}/test", at) for name in "st" for one, at in (("scifact", 0.1), ("nfcorpus", 0.2))]
    write_results(first, "beir", tmp_path)
    rows = table_rows(tmp_path, [result("s", "beir/scifact/test", 0.3)], "BEIR")
    assert [cell.strip("*") for cell in rows["s"][1:4]] == ["0.2000", "0.3000", "0.2500"]
    assert load(tmp_path / "results" / "beir" / "s.json", SystemResults).results[0] == first[1]


def spread(name, level, dataset="pydoc/test", shift=0.1, **more):
    """Make a result of thirty queries around *level*."""
    values = [level + (shift, -shift)[at % 2] for at in range(30)]
    return samples.result(name, values, dataset, exposure=Exposure(status="zero-shot"), **more)


def test_ranks_are_those_that_tests_leave_possible(tmp_path):
    """Two systems without a significant difference have the ranks 1-2, the clearly worse one 3."""
    made = [spread("high", 0.8), spread("high too", 0.8, shift=-0.1), spread("low", 0.2, shift=0)]
    rows = table_rows(tmp_path, made)
    assert {name: cells[0] for name, cells in rows.items()} == {"high": "1-2", "high too": "1-2", "low": "3"}


def test_ranks_over_datasets_are_of_the_mean(tmp_path):
    """Each system is better on one dataset; over both, the larger gain decides. A system of one dataset has no rank."""
    one, other, third = "beir/scifact/test", "beir/nfcorpus/test", "beir/scidocs"
    made = [spread("a", 0.9, one), spread("a", 0.4, other), spread("c", 0.1, one)]
    made += [spread("b", 0.5, one, 0.09), spread("b", 0.5, other, 0.09)]
    assert {name: (cells[0], cells[3]) for name, cells in table_rows(tmp_path, made, "BEIR").items()} == {
        "a": ("1", "**0.6500**"), "b": ("2", "<ins>0.5000</ins>"), "c": ("—", "1/2"),
    }  # fmt: skip

    made = [spread("a", 0.3, third), spread("b", 0.3, third)]
    assert [cells[4] for cells in table_rows(tmp_path, made, "BEIR").values()] == ["2", "2", "0"]  # won; the third is a tie


def test_variants_have_a_separate_table_and_twins_share_a_row(tmp_path):
    """Variants with fewer terms are columns of one row; a variant without effect is left out. Equal systems share a row."""
    variants = (("m", 0, 0.5), ("m top 8", 8, 0.25), ("m top 64", 64, 0.5))
    size = {"sizes": {"index": 1000}, "vectors": VectorSizes(dimensions=1, vectors=1.0, bytes_per_document=4.0)}
    count = {"documents": 100}
    made = [result(name, ndcg=ndcg, counts=count, recipe=samples.encoded(k), **size) for name, k, ndcg in variants]
    made += [result("bm25", sizes={"index": 5}), result("other bm25", sizes={"index": 5}), result("lucene", sizes={"index": 4})]

    assert set(table_rows(tmp_path, made)) == {"m", "bm25 = other bm25", "lucene"}
    assert "each document; top 64: as all terms:\n\n|system|8|all|\n|:--|--:|--:|\n|m|0.2500|0.5000|" in markdown(tmp_path)


def test_the_detectable_difference_is_the_median_over_pairs_that_differ():
    """Among nine twins and one other, the median is over pairs that differ, at .05 / 45; twins alone give no note."""
    rng = np.random.default_rng(3)
    twin, other = rng.random(50), rng.random(50)
    least, needed = minimum_detectable(twin - other, level=0.05 / 45), queries_needed(twin - other, 0.01, level=0.05 / 45)

    (note,) = power_notes("x", np.array([twin] * 9 + [other]))
    assert note.text.startswith(f"The tests on x find differences of {least:.3f} with 80 % power (50 queries)")
    assert note.text.endswith(f"a difference of 0.01 takes about {needed:,} queries")
    assert list(power_notes("x", np.array([twin, twin]))) == []


def test_p_is_never_below_the_smallest_p_of_the_resamples(tmp_path):
    """Twelve clearly different systems: every p of the page is at least 66 / 10,001, and that is the floor it names."""
    write_results([spread(f"s{at}", 0.05 + at / 15, shift=0) for at in range(12)], "pydoc", tmp_path)
    (panel,) = lexbench.leaderboard(tmp_path).board.suites[0].datasets

    assert {p for row in panel.p for p in row} == {0.0066}
    assert panel.floor == 0.0066


def test_notes_are_grouped_by_kind_with_the_worst_case(tmp_path):
    """Thirty systems with ties and missing queries have one line for each kind, and at most six lines in all."""
    facts = {"ties": {"nDCG@10": Tie(lowest=0.4, highest=0.6, queries=0.5)}, "exposure": Exposure(status="zero-shot")}
    made = [samples.result(f"s{at:02}", [1.0, 0.0], counts=Counts(queries=2, missing=at % 2), **facts) for at in range(30)]
    write_results(made, "pydoc", tmp_path)
    lines = [line for line in markdown(tmp_path).splitlines() if line.startswith("- ")]

    assert lines[:2] == [
        "- Queries without results score 0 in 15 of 30 results, at most 50.0% of the queries (s01 on pydoc/test)",
        "- Ties leave nDCG@10 open in 30 of 30 results, by at most .2000 (s00 on pydoc/test)",
    ]
    assert len(lines) <= 6


OWN = Path(__file__).parent / "data" / "bread"


@pytest.mark.parametrize("what", [["suite", "bread", "-d", "bread/test"], ["dataset", "./own"]], ids=["suite", "own data"])
@pytest.mark.usefixtures("bread_suite")
def test_reproduce_repeats_the_board_and_changes_nothing(fast, tmp_path, monkeypatch, bread_environment, what):
    """The script runs the same systems, data, measures and depth: no file changes but for when things were measured."""
    for name, value in {**bread_environment, "LEXBENCH_STORE": str(tmp_path / "store")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(OWN, tmp_path / "own")
    options = ["-r", "bm25", "-r", "flat = bm25(b=0.0)", "-m", "nDCG@10", "-m", "R@20", "--depth", "50", "--results", "board"]
    assert code(["run", *what, *options]) == code(["leaderboard", "--results", "board"]) == 0
    folder = tmp_path / "board"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    path = f"{fast}:{os.environ['PATH']}"
    subprocess.run(["sh", "board/reproduce.sh"], env={**os.environ, "PATH": path}, check=True, capture_output=True)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def steady(name, content):
        return re.sub(rb'"measured": \{.*?\n {6}\}', b"", content, flags=re.DOTALL) if name.suffix == ".json" else content

    assert before.keys() == after.keys()
    assert [path for path in before if steady(path, before[path]) != steady(path, after[path])] == []
    assert str(tmp_path) not in (folder / "reproduce.sh").read_text()


def test_reproduce_has_exactly_the_options_of_the_results():
    """Systems with other datasets, measures or timings have a command of their own; paths of this machine are cut."""
    timed = samples.timing(50, asked_seconds=2.0)
    made = [result("bm25", timings=[timed]), result("x", expression='splade(model="/home/me/x")@impact')]
    (section,) = board(Results(Entry(one, "pydoc") for one in made)).suites

    run = 'lexbench run suite pydoc -d pydoc/test --results "$here"'
    assert section.command.replace(" \\\n ", "").splitlines() == [
        f"{run} -r bm25 -m nDCG@10 --time --time-seconds 2 --time-processes 1 --time-single",
        f"""{run} -r 'x = splade(model="x")@impact' -m nDCG@10""",
    ]
    assert shareable('a(m="C:\\\\x\\\\y", n="b/c")') == 'a(m="y", n="b/c")'


def test_known_data_issues_come_with_their_source(tmp_path):
    """The page has the known data issues with their source, and Markdown their number; ArguAna lacks five documents."""
    write_results([result("bm25", "beir/arguana")], "beir", tmp_path)
    (panel,) = lexbench.leaderboard(tmp_path).board.suites[0].datasets

    said = "data issue: Five judged documents are not in the corpus: their five queries score 0 with every system. (https://"
    assert any(note.kind == "data issue" and note.text.startswith(said) for note in panel.notes)
    assert "- Known issues of the data: " in markdown(tmp_path)


def test_published_scores_have_one_row_a_system():
    """BM25's scores from three sources are one row, from the source with most; scores under other rules are left out."""
    rows = published_systems(read_published(), suite_named("beir"), ["beir/arguana", "beir/scifact/test"])
    (anserini,) = [row for row in rows if row.label == "bm25_anserini"]

    assert (anserini.source, anserini.scores["beir/scifact/test"]) == ("pyserini 2CR", 0.6789)
    papers = [row for row in rows if row.source == "LexMAE paper"]
    assert papers
    assert all("beir/arguana" not in row.scores for row in papers)  # its ArguAna is of other rules


@pytest.mark.parametrize(("how", "least", "most"), [("none", 0, 0), ("few", 4, 10), ("all", 20, 200)])
def test_published_scores_are_none_few_or_all(tmp_path, how, least, most):
    """Few are at most ten: the best of each family, with its source."""
    write_results([result("bm25", "beir/scifact/test")], "beir", tmp_path)
    grid = lexbench.leaderboard(tmp_path, published=how).board.suites[0].published
    rows = grid.rows if grid else ()

    assert least <= len(rows) <= most
    assert all(re.fullmatch(r".+ \(.+\)", row.name) for row in rows)
    assert how != "few" or len({row.values[-2].text for row in rows}) == len(rows)


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


DENSE = {"plugin": "retrievers/encoded", "settings": {"encoder": {"plugin": "encoders/dense"}}}


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
def test_the_plug_in_states_the_family(recipe, expected):
    """A system has the family of its encoder or else its retriever; it is "other" if the plug-in is not installed."""
    assert family(recipe) == expected


def test_families_are_the_catalogues():
    """Families of plug-ins are also families of the catalogue, so that filters need one word."""
    plugins = [registry.find(f"{group}/{name}") for group in ("encoders", "retrievers") for name in registry.names(group)]
    families = {plugin.family for plugin in plugins}

    assert {"bm25", "sparse", "dense", "hybrid", "reranker"} < families
    assert families <= {"other", "", *get_args(catalog.Family)}  # "": that of its part


def test_chosen_measures_are_shown():
    """Several systems on several datasets show the headline of the suite, unless the user chose other measures."""
    suite = suite_named("beir")
    every = [result(system, dataset, means=dict.fromkeys(suite.measures, 0.2)) for system in "ab" for dataset in "xy"]
    asked = [msgspec.structs.replace(one, means={"R@10": 0.3, "P@5": 0.1}) for one in every]

    assert [table.title for table in tables(every, suite)] == [suite.headline]
    assert [table.title for table in tables(asked, suite)] == ["R@10", "P@5"]
    assert tables(asked, suite)[1].rows[0] == ("x", "0.1000", "0.1000")


def test_notes_of_a_table():
    """Queries without hits, dropped self-matches and wide tie intervals are notes below the table."""
    ties = {"nDCG@10": Tie(lowest=0.4, highest=0.6, queries=0.5)}
    told = result("a", "x", counts={"missing": 1, "self_matches": 3, "unjudged": 2}, ties=ties)
    notes = "\n".join(tables([told], None)[0].notes)

    assert "1 of 2 queries returned nothing" in notes
    assert "2 queries of the run have no judgements and do not count" in notes
    assert "3 documents with the query's own id were dropped" in notes
    assert "other orders of ties give nDCG@10 [0.4000, 0.6000]" in notes


@pytest.mark.parametrize(
    ("facts", "shared"),
    [
        ({}, True),
        ({"timings": [samples.timing(110)]}, True),
        ({"timings": [samples.timing(100_000)]}, False),
        ({"timings": [samples.timing(100, flags=["cached"])]}, False),
        ({"exposure": Exposure(status="unknown")}, False),
        ({"sizes": {"index": 5, "model": 9}}, False),
        ({"sizes": {"index": 6}}, False),
    ],
)
def test_equal_systems_share_a_row_only_if_nothing_shown_differs(facts, shared):
    """Equal scores are not enough: speed, exposure, and the bytes of index and model are in the same row."""
    given = {"sizes": {"index": 5}, "timings": [samples.timing(100)]}
    made = [samples.result("a", **given), samples.result("b", **(given | facts))]
    assert [system.base for system in systems_of(Results(made))] == [None, 0 if shared else None]


def test_the_board_tells_codes_apart():
    """Code that is no release has its digest on the board. A system with results of two codes is named: it is two systems."""
    edited = [LEXICAL | {"code": code} for code in ("aaaa", "bbbb")]
    made = [samples.result("mine", dataset="pydoc/test", recipe=edited[0]), samples.result("bm25", recipe=LEXICAL)]
    (section,) = board(Results(Entry(one, "pydoc") for one in made)).suites
    assert "Code of the user, by its digest: mine (aaaa)" in section.notes

    datasets = zip(("beir/nfcorpus/test", "beir/scifact/test"), edited, strict=True)
    both = [samples.result("mine", [0.5, 0.5], dataset, recipe=recipe) for dataset, recipe in datasets]
    (section,) = board(Results(Entry(one, "beir") for one in both)).suites
    assert "Results of several versions of one code, which are several systems: mine; run them again" in section.notes


def test_no_page_has_control_characters_of_names():
    """Signs that turn text around or control a terminal are shown by their codes, in Markdown and in the page."""
    hostile = "a\u202eb\x1b[31m\x07\x9b"
    named = samples.result(hostile, notes=[Note("model", hostile)], expression=f'bm25(k1="{hostile}")')
    shown = board(Results([Entry(named, "pydoc"), Entry(samples.result("bm25"), "pydoc")]))

    for text in (html(shown), as_markdown(shown)):
        assert not set(text) & {"\u202e", "\x1b", "\x07", "\x9b"}
        assert "u202eb" in text


# ---- two people's results of one recipe --------------------------------------------------------------------------------------

LEXICAL = {"plugin": "retrievers/bm25", "version": 2, "settings": {"k1": 0.9}}
NEURAL = {"plugin": "retrievers/encoded", "version": 2, "settings": {"encoder": {"plugin": "encoders/dense", "settings": {}}}}


def of_two(made, values, others, **facts):
    """Merge the results of Ann and Bo, of one system on the same data, with these values of queries."""
    digests = {"queries": "q", "qrels": "j", "corpus": "c"}
    ann = samples.result("one", values, recipe=made, digests=digests)
    bo = samples.result("one", others, **({"recipe": made, "digests": digests} | facts))
    return merged({"Ann": Results([ann]), "Bo": Results([bo])})


def test_two_results_of_one_recipe_on_the_same_data_are_refused():
    """The message names both people, the system and the first query that differs. Other last digits are no difference."""
    with pytest.raises(CannotStart) as refused:
        of_two(LEXICAL, [0.5, 0.5, 0.25], [0.5, 1.0, 0.25])
    assert "Ann and Bo have different results of one on pydoc/test" in str(refused.value)
    assert "nDCG@10 of query q01 is 0.5000 and 1.0000" in str(refused.value)

    assert of_two(LEXICAL, [0.5, 0.5], [0.5, 0.5 + 1e-12]).systems == ["one"]


def test_another_recipe_or_code_is_another_system():
    """Two people's results of different settings, versions or code of a plug-in have a row each."""
    for other in (LEXICAL | {"version": 1}, LEXICAL | {"code": "0123"}, LEXICAL | {"settings": {"k1": 2.0}}):
        assert of_two(LEXICAL, [0.5, 0.5], [0.5, 1.0], recipe=other).systems == ["one (Ann)", "one (Bo)"]


def test_a_model_may_round_differently_on_another_processor():
    """A few queries may differ by a swap of documents; many, or a mean that is off by .01, cannot be of one model."""
    values = [0.5] * 100
    assert of_two(NEURAL, values, [0.49, *values[1:]]).systems == ["one (Ann)", "one (Bo)"]
    for others in ([0.51] * 50 + [0.5] * 50, [1.0] * 3 + values[3:]):
        with pytest.raises(CannotStart, match="Ann and Bo have different results of one"):
            of_two(NEURAL, values, others)
