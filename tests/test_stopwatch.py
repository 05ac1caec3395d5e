"""Times of stages are told apart."""

import time

import pytest

from lexbench.results import Measured
from lexbench.stopwatch import Stopwatch


def test_time_inside_a_block_is_not_counted_twice():
    """Encoding that happens while an index is built is encoding and not building, however deep and whoever times it."""
    outer, inner = Stopwatch(), Stopwatch()
    with outer.time("build"):
        time.sleep(0.02)
        with inner.time("encode"):
            time.sleep(0.1)
            with outer.time("read"):
                time.sleep(0.05)

    assert inner.seconds["encode"] == pytest.approx(0.1, abs=0.03)
    assert outer.seconds["read"] == pytest.approx(0.05, abs=0.03)
    assert outer.seconds["build"] == pytest.approx(0.02, abs=0.015)


def test_a_block_that_fails_is_counted_and_ends():
    """After an error the next block counts from its own start."""
    watch = Stopwatch()
    with pytest.raises(ValueError, match="x"), watch.time("a"):
        raise ValueError("x")
    with watch.time("b"):
        time.sleep(0.02)

    assert set(watch.seconds) == {"a", "b"}
    assert watch.seconds["a"] < 0.015 < watch.seconds["b"]


def test_parts_bring_their_times_along():
    """What a part took is told with the whole; a part that was cut off and went on makes the whole so."""
    watch = Stopwatch({"build": 1.0})
    watch.add(Measured(seconds={"encode": 2.0}, resumed=True))

    assert watch.seconds == {"encode": 2.0, "build": 1.0}
    assert watch.resumed
