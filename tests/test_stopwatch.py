"""Times of stages are told apart, and the machine and the software are said beside them."""

import pytest

from lexbench.storage import stopwatch
from lexbench.storage.stopwatch import Stopwatch, read_measurement


@pytest.fixture
def wait(monkeypatch):
    """Return what lets seconds pass on the one clock."""
    now = [100.0]
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def test_time_inside_a_block_is_not_counted_twice(wait):
    """Encoding that happens while an index is built is encoding and not building, however deep and whoever times it."""
    outer, inner = Stopwatch(), Stopwatch()
    with outer.time("build"):
        wait(2)
        with inner.time("encode"):
            wait(10)
            with outer.time("read"):
                wait(5)

    assert inner.seconds == {"encode": 10}
    assert outer.seconds == {"read": 5, "build": 2}


def test_a_block_that_fails_is_counted_and_ends(wait):
    """After an error the next block counts from its own start."""
    watch = Stopwatch()

    def fail():
        with watch.time("a"):
            wait(1)
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    wait(4)
    with watch.time("b"):
        wait(2)

    assert watch.seconds == {"a": 1, "b": 2}


def made(folder, seconds, *parts, resumed=False):
    """Write what a stage took into a new *folder*, and return that."""
    folder.mkdir()
    watch = Stopwatch(seconds, resumed=resumed)
    for part in parts:
        watch.add(part)
    watch.write(folder)
    return folder


def test_parts_bring_their_times_along(tmp_path):
    """What parts took is told with the whole, each once; a part that was cut off and went on makes the whole so."""
    vectors = made(tmp_path / "encoder-1", {"encode": 2.0}, resumed=True)
    sparse = made(tmp_path / "impact-2", {"build": 4.0}, vectors)
    dense = made(tmp_path / "flat-3", {"build": 8.0}, made(tmp_path / "other-4", {"encode": 16.0}))
    lexical = made(tmp_path / "bm25-5", {"build": 32.0})
    whole = made(tmp_path / "both-6", {"build": 64.0}, sparse, dense, lexical, vectors, sparse)

    assert read_measurement(sparse).seconds == {"encode": 2, "build": 4}
    assert read_measurement(whole).seconds == {"encode": 2 + 16, "build": 4 + 8 + 32 + 64}
    assert (read_measurement(sparse).resumed, read_measurement(whole).resumed, read_measurement(dense).resumed) == (
        True,
        True,
        False,
    )
