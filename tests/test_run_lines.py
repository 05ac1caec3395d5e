"""Large run files: the compiled loops that read their plain lines, and what they leave to `columns`."""

import gzip
import itertools
import random
import struct

import numpy as np
import pytest

from lexbench.trec import run_lines, runs
from lexbench.trec.decimals import parse
from lexbench.trec.swar import before_blank, digits, equal, ones

IDS = ["d1", "MED-12345", "12345678", "x" * 40, "é" * 7, "\udcff9", "1", "10", "clueweb12-0000wb-00-00000"]


@pytest.fixture
def small_room(monkeypatch):
    """Have files taken in hand 256 bytes at a time."""
    monkeypatch.setattr(run_lines, "_ROOM", 256)


def lists(columns=6, blank=" ", end="\n", tags=("a",)):
    """Return the lines of three lists, one of which comes in two parts, with ids of every length and scores of every form."""
    chance = random.Random(3)
    scores = [chance.gauss(0, 20), "7", "-0", "1e-5", ".5", "3.", "+2", "12.345678901234567", "0.00012345678901234567"]
    lines = []
    for query in ("q1", "2", "quite a long id".replace(" ", "_"), "q1"):
        for rank, known in enumerate(chance.sample(IDS, 5 if query == "q1" else 9), 1):
            name = f"{query}{len(lines)}{known}" if query == "q1" else known
            fields = [query, "Q0", name, str(rank), str(chance.choice(scores)), tags[len(lines) % len(tags)]]
            lines.append(blank.join(fields[:columns]) + end)
    return "".join(lines).encode(errors="surrogateescape")


@pytest.mark.parametrize(
    "text",
    [
        lists(),
        lists(columns=5),
        lists(blank=" \t "),
        lists(end="\r\n"),
        lists().removesuffix(b"\n"),
        lists(tags=("a", "b", "ab")),
        b"\xef\xbb\xbf" + lists(),
        gzip.compress(lists()),
    ],
    ids=["plain", "no tag", "blanks", "carriage returns", "no newline", "tags", "byte order mark", "gzip"],
)
def test_plain_lines_are_read_as_columns_are(tmp_path, monkeypatch, small_room, text):
    """The same run, remarks included, wherever one reading ends and the next begins, as numpy's functions make of the file."""
    path = tmp_path / "run"
    path.write_bytes(text)
    monkeypatch.setattr("lexbench.trec.columns._LARGE", 0)
    monkeypatch.setattr("lexbench.trec.ids.MANY", 0)
    assert run_lines.read_lines(path, tagged=text != lists(columns=5)) is not None
    fast = runs.read_run(path)
    monkeypatch.undo()
    slow = runs.read_run(path)

    assert fast.query_ids == slow.query_ids == ("q1", "2", "quite_a_long_id")
    assert fast.offsets.tolist() == slow.offsets.tolist()
    assert fast.docs.tolist() == slow.docs.tolist()
    assert fast.scores.tobytes() == slow.scores.tobytes()
    assert (fast.table.tolist(), fast.table.dtype) == (slow.table.tolist(), slow.table.dtype)
    assert fast.remarks == slow.remarks
    assert any("a later rank has a higher score" in remark for remark in fast.remarks)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# a comment",
        "q Q0 d 1 2 t more",
        "q Q0 d 1 2",
        "q Q0 d 1",
        "q Q0 d one 2 t",
        "q Q0 d 123456789 2 t",
        "q Q0 d 1 nan t",
        "q Q0 d 1 1_0 t",
        "q Q0 d 1 0x1p3 t",
        "q Q0 d 1 1e t",
        "q Q0 d 1 . t",
        "q Q0 d 1 123456789012345678901 t",
        "q Q0 d\0 1 2 t",
        "q Q0 d\x01 1 2 t",
        "q Q0 " + "d" * 300 + " 1 2 t",
        "q Q0 d 1 2 " + "t" * 600,
        "q" * 600 + " Q0 d 1 2 t",
        "q Q0 " + "d" * 600 + " 1 2 t",
    ],
)
def test_what_is_not_plain_is_left_alone(tmp_path, monkeypatch, line):
    """Nothing is returned where a line is blank, has other columns, a rank or a score that is none for sure, or is too long."""
    for where, room in itertools.product(range(3), (256, 1 << 12)):
        monkeypatch.setattr(run_lines, "_ROOM", room if len(line) < 256 or len(line) > 512 else 256)
        lines = ["q Q0 a 1 3 t", "q Q0 b 2 2.5 t"]
        lines.insert(where, line)
        (tmp_path / "run").write_text("".join(f"{one}\n" for one in lines))
        assert run_lines.read_lines(tmp_path / "run", tagged=True) is None


def bytes_of(text):
    """Return an array of the bytes of *text* with others behind them, and its address."""
    kept = np.frombuffer(text + b"\n" + b"7" * 16, np.uint8)
    return kept, kept.ctypes.data


def test_numbers_are_rounded_as_pythons():
    """Doubles at random, halves between neighbours, whole numbers, float32 numbers: bit for bit, or said to be unsure."""
    chance = random.Random(5)
    floats = [chance.uniform(-100, 100) for _ in range(500)] + [10 ** chance.uniform(-20, 20) for _ in range(500)]
    texts = [repr(value) for value in floats] + [f"{value:.19g}" for value in floats]
    texts += [f"{chance.getrandbits(63)}e{chance.randint(-70, 70)}" for _ in range(500)]
    texts += [repr(float(np.float32(value))) for value in floats]
    texts += [f"{(1 << 53) + i}.5e{power}" for i in range(50) for power in (0, 3, -2)]
    texts += ["2.5", "-0.0", "+.5", "5.", "0.50000000000000000", "9007199254740993", "1e23", "0e999", "0" * 40 + "1.5"]
    unsure = 0
    for text in texts:
        kept, address = bytes_of(text.encode())
        number, end, sure = parse(address)
        del kept
        if sure and end == address + len(text):
            assert struct.pack("<d", number) == struct.pack("<d", float(text)), text
        else:
            unsure += 1

    assert unsure < len(texts) / 50


@pytest.mark.parametrize("text", ["", ".", "-", "+", "e5", "nan", "inf", "1e", "1e+", "12345678901234567890123", "1e99999"])
def test_what_may_be_no_number_is_not_sure(text):
    """Nor is one of more digits than are looked at."""
    kept, address = bytes_of(text.encode())

    assert not parse(address)[2]
    assert len(kept)


def test_bytes_are_found_in_words():
    """Blanks and digits end where they do byte by byte, whatever stands behind them."""
    for first, length in itertools.product(b"a\x21\x7f\x80\xff1", range(9)):
        for behind in (b" 1234567", b"\t\x80\xff     ", b"\n        "):
            word = np.frombuffer((bytes([first]) * length + behind)[:8], np.uint64)[0]
            assert before_blank(word) == (int.from_bytes((bytes([first]) * length).ljust(8, b"\0"), "big"), length)
    for text in (b"", b"0", b"9", b"42", b"12345678", b"00000001", b"99999999"):
        for behind in (b"/:/:/:/:", b" 1234567", b"\xb0\xb9abcdef"):
            assert digits(np.frombuffer((text + behind)[:8], np.uint64)[0]) == (int(text or b"0"), len(text))
    assert [ones(np.uint64(number)) for number in (0, 1, 255, 1 << 63, (1 << 64) - 1)] == [0, 1, 8, 1, 64]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 17])
def test_bytes_are_compared(size):
    """Those that count, and no others."""
    one, other = (np.frombuffer(bytes(range(size)) + rest * 16, np.uint8).copy() for rest in (b"a", b"b"))

    assert equal(one.ctypes.data, other.ctypes.data, size)
    for place in range(size):
        other[place] ^= 1
        assert not equal(one.ctypes.data, other.ctypes.data, size)
        other[place] ^= 1
