"""Times of stages are told apart."""

import time

import pytest

from lexbench.storage.stopwatch import Stopwatch, measured


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

    assert measured(sparse).seconds == {"encode": 2, "build": 4}
    assert measured(whole).seconds == {"encode": 2 + 16, "build": 4 + 8 + 32 + 64}
    assert (measured(sparse).resumed, measured(whole).resumed, measured(dense).resumed) == (True, True, False)
