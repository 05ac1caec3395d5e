"""Figures: their points, the placement of labels, and that equal results give equal bytes."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations

import msgspec
import pytest
import samples
from tiny import ended

from lexbench.report import figures
from lexbench.report.figures import headline
from lexbench.report.leaderboard.board import systems_of
from lexbench.report.leaderboard.panels import plots_of
from lexbench.results import Results, write_results

pytestmark = pytest.mark.usefixtures("open_contracts")

SIZES = {"bm25": 60_000, "m@impact": 130_000, "m|top_k(8)@impact": 40_000, "m|top_k(32)@impact": 90_000}
MEANS = {"bm25": 0.25, "m@impact": 0.375, "m|top_k(8)@impact": 0.125, "m|top_k(32)@impact": 0.375}


def result(system, dataset="x/test", **more):
    """Make a result with four queries over a thousand documents."""
    mean = MEANS.get(system, 0.5)
    return samples.result(
        system, [0.0, mean, mean, 2 * mean], dataset, 1000, means={"nDCG@10": mean, "R@10": 0.75},
        per_query={"nDCG@10": [0.0, mean, mean, 2 * mean], "R@10": [0.0, 1.0, 1.0, 1.0]},
        sizes={"index": SIZES.get(system, 50_000)}, **more,
    )  # fmt: skip


def timing(qps, **more):
    """Make a timing with k = 10."""
    return samples.timing(qps, **{"k": 10, "qps": {"e2e": qps, "search": 9 * qps}, "fingerprint": "f1"} | more)


RESULTS = [result(system) for system in MEANS]


def test_speeds_of_two_kinds_or_machines_are_never_in_one_figure():
    """Each machine and each k has its own plot; unranked timings are aside, offline ones in none; x is e2e QPS."""
    timings = [
        timing(200.0), timing(100.0, k=1000), timing(300.0, fingerprint="f2"), timing(8.0, scenario="offline-2t", threads=2),
    ]  # fmt: skip
    made = [msgspec.structs.replace(RESULTS[0], timings=timings), msgspec.structs.replace(RESULTS[1], timings=timings[::-1])]
    made.append(msgspec.structs.replace(RESULTS[2], timings=[timing(9.0, flags=["noisy"])]))
    plots = plots_of(systems_of(Results(made)), made, "nDCG@10", {}, [])

    assert {plot.name: [(one.x, bool(one.aside)) for one in plot.points] for plot in plots} == {
        "index": [(60.0, False), (130.0, False), (40.0, False)],
        "speed.f1.k=10": [(200.0, False), (200.0, False), (9.0, True)],
        "speed.f1.k=1000": [(100.0, False)] * 2,
        "speed.f2.k=10": [(300.0, False)] * 2,
    }


def test_missing_data_is_reported():
    """Results without timings or without an index give one line each, with the command to type."""
    bare = msgspec.structs.replace(RESULTS[0], sizes={})
    timed = msgspec.structs.replace(RESULTS[1], timings=[timing(5.0)])

    assert figures.missing([bare]) == [
        "no figure of speed: no result has timings; to measure them, type: lexbench run suite NAME --time",
        "no figure of index bytes: no result has an index",
    ]
    assert figures.missing([timed, RESULTS[0]]) == ["not in the figures of speed, because they have no timings: bm25 on x/test"]
    assert figures.missing([timed]) == []
    many = [*[msgspec.structs.replace(bare, dataset=f"d{number}") for number in range(7)], timed]
    first = ", ".join(f"bm25 on d{number}" for number in range(5))
    assert figures.missing(many)[0].endswith(f"because they have no timings: {first} and 2 more")


def test_a_headline_is_the_measure_that_most_results_have():
    """Of several measures that all results have, it is the first."""
    other = msgspec.structs.replace(RESULTS[0], means={"R@10": 1.0})

    assert headline(RESULTS) == "nDCG@10"
    assert headline([other, *RESULTS]) == "R@10"


def test_figures_are_repeatable_and_names_stay_text(tmp_path):
    """Equal results give equal bytes in every format; a name with $, < or a control character is drawn literally."""
    pytest.importorskip("matplotlib", reason="it is in the extra figures")
    hostile = [result("$\\frac{$ <script>&"), result("模型\x07" + "n" * 90)]
    names = {f"index.x-test.{form}" for form in ("svg", "pdf", "png")}
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        made = {path.name for path in figures.write([*RESULTS[:2], *hostile], folder)}
        assert made == {path.name for path in folder.iterdir()} == names

    for name in names:
        content = (tmp_path / "first" / name).read_bytes()
        assert content == (tmp_path / "second" / name).read_bytes(), name
        if name.endswith(".svg"):
            root = ET.fromstring(content)  # raises for what is no XML
            assert not [one for one in root.iter() if one.tag.endswith("script")]
            assert not re.search(rb'(href|src)="(?!#)', content)


def test_names_hide_neither_points_nor_names():
    """Of ten systems in a small space, no label covers another or leaves the axes."""
    pytest.importorskip("matplotlib", reason="it is in the extra figures")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation, Text

    figure = Figure((7, 4.5), dpi=100)
    axes = figure.add_subplot()
    points = [(10.0 + number % 3, 0.5 + 0.01 * number, f"system {number}", "k") for number in range(10)]
    axes.plot([x for x, *_ in points], [y for _, y, *_ in points], "o")
    axes.margins(x=0.3, y=0.2)
    figures.place_labels(figure, axes, points)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    notes = [child for child in axes.get_children() if isinstance(child, Annotation)]
    boxes = [Text.get_window_extent(note, renderer) for note in notes]
    inside = axes.get_window_extent(renderer)

    assert sorted(note.get_text() for note in notes) == sorted(name for _, _, name, _ in points)
    assert not [1 for one, other in combinations(boxes, 2) if one.overlaps(other)]
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1 for box in boxes)


def test_the_command_draws_saved_results(tmp_path, capsys):
    """`lexbench export figures` reads a folder of results, prints the paths, and reports missing data."""
    pytest.importorskip("matplotlib", reason="it is in the extra figures")
    write_results(RESULTS[:2], "own", tmp_path / "board")
    shown = ended(capsys, 0, "export", "figures", tmp_path / "out", "--results", tmp_path / "board")

    assert len(shown.out.splitlines()) == 3
    assert shown.err.splitlines()[0].startswith("no figure of speed: no result has timings")
    assert "not in this format" in shown.err.splitlines()[-1]
