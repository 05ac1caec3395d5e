"""Reading lines, blocks and TOML, and the digests of files."""

import gzip
import hashlib
import os

import pytest

from lexbench.errors import InvalidFile
from lexbench.storage import reading
from lexbench.storage.reading import blocks, cached_file_digest, file_digest, lines

TEXT = b"one\r\n\ntwo \xc2\x85 three\nlast"


@pytest.fixture(params=["x.txt", "x.txt.gz"])
def path(request, tmp_path):
    """Write lines of every kind, plain and compressed; the last one has no newline."""
    path = tmp_path / request.param
    path.write_bytes(gzip.compress(TEXT) if path.suffix == ".gz" else TEXT)
    return path


def test_lines(path):
    """Only a newline ends a line; empty lines count."""
    assert list(lines(path)) == [(1, b"one\r"), (2, b""), (3, b"two \xc2\x85 three"), (4, b"last")]


@pytest.mark.parametrize("size", [1, 6, 1000])
def test_blocks_are_whole_lines(path, size, monkeypatch):
    """Blocks of any size hold the whole file in order, with the number of their first line."""
    monkeypatch.setattr(reading, "_BLOCK", size)
    read = list(blocks(path))

    assert b"".join(block.text for block in read) == TEXT
    assert [block.first for block in read] == [1 + sum(b.text.count(b"\n") for b in read[:n]) for n, block in enumerate(read)]
    assert all(block.text.endswith(b"\n") for block in read[:-1])


def test_the_error_for_a_cut_archive_names_the_last_line(tmp_path, monkeypatch):
    """The error for a damaged archive names the file and the last line of the blocks before the damage."""
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"".join(os.urandom(50).hex().encode() + b"\n" for _ in range(1000)))[:30_000])
    with pytest.raises(InvalidFile, match=r"x\.gz: Compressed file ended"):
        list(lines(path))
    monkeypatch.setattr(reading, "_BLOCK", 1000)
    with pytest.raises(InvalidFile, match=r"x\.gz: after line \d+: Compressed file ended"):
        list(lines(path))
    with pytest.raises(InvalidFile, match="No such file"):
        list(lines(tmp_path / "none"))


def test_a_digest_follows_the_file(tmp_path):
    """A file is hashed again when its size or time has changed, and has one digest by any path."""
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    (tmp_path / "link").symlink_to(path)
    assert cached_file_digest(path) == file_digest(path) == hashlib.sha256(b"abc").hexdigest()
    assert cached_file_digest(tmp_path / "link") == cached_file_digest(path)
    assert cached_file_digest(path, "md5") == hashlib.md5(b"abc").hexdigest()

    path.write_bytes(b"abd")
    os.utime(path, ns=(1, 1))
    assert cached_file_digest(path) == hashlib.sha256(b"abd").hexdigest()
    path.write_bytes(b"abcd")
    os.utime(path, ns=(1, 1))
    assert cached_file_digest(path) == hashlib.sha256(b"abcd").hexdigest()
    path.write_bytes(b"abce")  # of the same size and, as it says, of the same time
    os.utime(path, ns=(1, 1))
    assert cached_file_digest(path) == hashlib.sha256(b"abce").hexdigest()
