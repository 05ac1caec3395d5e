"""Progress on stderr."""

import io
import re
import sys

import pytest
from rich.console import Console
from tiny import corpus

from lexbench.artifacts.vectors import _share
from lexbench.cli import _progress
from lexbench.display import progress as progress_module


@pytest.fixture
def clock(monkeypatch):
    """Let the test set the time."""
    now = [100.0]
    monkeypatch.setattr(progress_module, "clock", lambda: now[0])
    return now


def test_a_log_gets_a_line_now_and_then(clock, capsys):
    """Without a terminal a long stage prints a line every half minute, and its duration at the end; a short one none.

    Lines name the current workers; items that died with a worker are subtracted.
    """
    progress = _progress.Plain()
    progress.start("splade on nq", "encode", 1000, "documents")
    for _ in range(4):
        clock[0] += 10
        progress.advance(100)
    progress.workers("workers on Ray: 2, 812 MB")
    clock[0] += 20
    progress.advance(300)
    progress.workers("workers on Ray: 1, 400 MB")
    progress.advance(-200)
    clock[0] += 30
    progress.advance(500)
    progress.end()
    for seconds in (1, 0.1):
        progress.start("bm25 on nq", "search", None, "queries")
        clock[0] += seconds
        progress.end()

    assert capsys.readouterr().err.splitlines() == [
        "splade on nq: encode: 300/1,000 documents, 10/s, 0:01:10 left",
        "splade on nq: encode: 700/1,000 documents, 12/s, 0:00:26 left, workers on Ray: 2, 812 MB",
        "splade on nq: encode: 1,000/1,000 documents, 11/s, 0:00:00 left, workers on Ray: 1, 400 MB",
        "splade on nq: encode: 1,000 documents in 90.0 s, workers on Ray: 1, 400 MB",
        "bm25 on nq: search: 0 queries in 1.0 s",
    ]


def test_the_time_left_is_that_of_the_work_left(clock, tmp_path, capsys):
    """Work is counted in bytes of text, shard by shard, cut to what the encoder reads; the time left follows from it."""
    texts = corpus(tmp_path / "corpus", {f"d{at:03}": "a" * (300 if at < 100 else 1) for at in range(400)})  # d000 is last
    shards = [range(100), range(100, 400)]  # 100 and 30,200 bytes
    share = _share(texts, shards, None)
    assert [share(count) for count in (0, 100, 250, 400)] == pytest.approx([0, 100 / 30_300, 15_200 / 30_300, 1])
    assert _share(texts, shards, 64)(100) == pytest.approx(100 / 25_900)  # 64 tokens are about 256 bytes

    progress = _progress.Plain()
    progress.start("splade on nq", "encode", 400, "documents", lambda count: 0.75 if count else 0.0)
    clock[0] += 30
    progress.advance(10)
    assert capsys.readouterr().err.endswith("10/400 documents, 0/s, 0:00:10 left\n")


def test_a_terminal_gets_a_bar_and_keeps_a_line():
    """A stage has a bar with its rate and workers and leaves one line; notes are above the bar, and nothing is markup."""
    live, shown = drawn(140)
    with live.bar:
        live.start("[b]x[/b] on nq", "search", 3, "queries")
        live.note("waiting for [another]")
        live.workers("worker processes: 2")
        live.advance(3)
        live.bar.refresh()
        live.end()

    assert "[b]x[/b] on nq: search, worker processes: 2" in shown.getvalue()
    assert re.search(r": search: 3 queries in \d+\.\d s, worker processes: 2", shown.getvalue())
    assert "waiting for [another]" in shown.getvalue()
    assert "0/3" in shown.getvalue()


def drawn(width, *jobs):
    """Return progress for a terminal of that width, and what it draws there."""
    live, shown = _progress.Live(), io.StringIO()
    live.bar.live.console = Console(file=shown, force_terminal=True, width=width, no_color=True)
    live.jobs(*jobs or ("", 0))
    return live, shown


@pytest.mark.parametrize("width", [50, 80, 100, 160])
def test_bars_fit_the_terminal(monkeypatch, width):
    """Below the bar of a stage is that of all jobs. No line is longer than the terminal: names are cut, counts are not."""
    monkeypatch.setenv("COLUMNS", str(width))
    live, shown = drawn(width, "beir", 24)
    with live.bar:
        live.job_done()
        live.start("pipeline(bm25, lexmae_nano|top_k(16)@impact, k=100) on beir/scifact/test", "encode", 5_000, "documents")
        live.advance(1_234)
        live.bar.refresh()
    lines = re.sub(r"\x1b\[[?\d]*[A-Za-z]", "", shown.getvalue()).splitlines()
    stage, whole = [line for line in lines if "1234/5000" in line or " 1/24 " in line][-2:]

    assert max(map(len, lines)) <= width
    assert re.match(r"p.* 1234/5000 [\d,]+ d", stage)
    assert re.match(r"b.* 1/24 ", whole)


@pytest.mark.parametrize(("term", "kind"), [("dumb", _progress.Plain), ("xterm-256color", _progress.Live)])
def test_a_dumb_terminal_gets_lines_and_others_bars(term, kind, monkeypatch):
    """A terminal that cannot move its cursor gets lines, and so does a log; others get bars."""
    monkeypatch.setenv("TERM", term)
    for is_terminal, expected in ((False, _progress.Plain), (True, kind)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
        with _progress.shown() as progress:
            assert type(progress) is expected
