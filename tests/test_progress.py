"""Progress on stderr."""

import io

import pytest
from rich.console import Console

from lexbench.cli import _progress


@pytest.fixture
def clock(monkeypatch):
    """Let the test say what time it is."""
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_now_and_then(clock, capsys):
    """Without a terminal a long stage says every half minute how far it is, and at its end how long it took."""
    progress = _progress.Plain()
    progress.start("bm25 on nq", "build index", 1000, "documents")
    for _ in range(9):
        clock[0] += 10
        progress.advance(100)
    progress.end()

    assert capsys.readouterr().err.splitlines() == [
        "bm25 on nq: build index: 300/1,000 documents, 10/s, 70 s left",
        "bm25 on nq: build index: 600/1,000 documents, 10/s, 40 s left",
        "bm25 on nq: build index: 900/1,000 documents, 10/s, 10 s left",
        "bm25 on nq: build index: 900 documents in 90.0 s",
    ]


def test_a_short_stage_says_nothing(clock, capsys):
    """A stage of a moment leaves no line in a log."""
    progress = _progress.Plain()
    progress.start("bm25 on nq", "search", None, "queries")
    clock[0] += 0.1
    progress.advance()
    progress.end()

    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_and_keeps_a_line(monkeypatch):
    """In a terminal a stage has a bar with its rate, and leaves one line; notes stand above the bar, and nothing is markup."""
    live = _progress.Live()
    screen = io.StringIO()
    monkeypatch.setattr(live.bar.live, "console", Console(file=screen, force_terminal=True, width=100, no_color=True))
    with live.bar:
        live.start("[b]x[/b] on nq", "search", 3, "queries")
        live.note("waiting for [another]")
        live.advance(3)
        live.end()
    shown = screen.getvalue()

    assert "[b]x[/b] on nq: search: 3 queries in 0.0 s" in shown
    assert "waiting for [another]" in shown
    assert "0/3" in shown
