"""A corpus on disk gives back what was written, in the order of positions."""

import hashlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexbench.datasets import corpus as module
from lexbench.datasets import digests
from lexbench.datasets.corpus import StoredCorpus, write_corpus
from lexbench.errors import InvalidFile
from lexbench.types import Document, Judgement, Query

TEXTS = {"a": "x", "é": "", "b": "two words", "😀": "ü", "10": "t", "9": "n"}
MIXED = [Document(*pair) for pair in TEXTS.items()]


def test_positions_are_by_descending_bytes_of_the_id(tmp_path):
    """Position 0 has the largest id in UTF-8 bytes: 😀 (F0…) é (C3…) b a 9 10."""
    corpus = write_corpus(MIXED, tmp_path)
    assert [one.decode() for one in corpus.doc_ids.tolist()] == ["😀", "é", "b", "a", "9", "10"]
    assert [one.text for one in corpus.documents()] == ["ü", "", "two words", "x", "n", "t"]
    assert len(corpus) == 6
    # Documents come from any start to any stop; a stop beyond the end is the end.
    assert [one.doc_id for one in corpus.documents(1, 3)] == ["é", "b"]
    assert [one.doc_id for one in corpus.documents(4, 99)] == ["9", "10"]
    assert list(corpus.documents(3, 3)) == []
    assert list(corpus.documents(6)) == []


def test_fingerprint_is_the_sha256_of_netstrings(tmp_path):
    """The fingerprint is the SHA-256 of the ids and texts as netstrings, in position order: written here by hand.

    The same documents in another order are the same corpus, to the last byte on disk.
    """
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, documents in ((one, MIXED), (two, MIXED[::-1])):
        folder.mkdir()
        written = write_corpus(documents, folder)
    stream = "4:😀,2:ü,2:é,0:,1:b,9:two words,1:a,1:x,1:9,1:n,2:10,1:t,"
    assert written.fingerprint == hashlib.sha256(stream.encode()).hexdigest()
    assert {path.name: path.read_bytes() for path in one.iterdir()} == {path.name: path.read_bytes() for path in two.iterdir()}


def test_opening_gives_what_writing_gave(tmp_path):
    """A corpus opened by its path, or pickled, equals the written one; its folder has five files and nothing else."""
    written = write_corpus([Document("z", "T body", 2), *MIXED], tmp_path)
    for opened in (StoredCorpus(tmp_path), pickle.loads(pickle.dumps(written))):
        assert (opened.fingerprint, opened.empty, opened.text_bytes) == (written.fingerprint, 1, 20)
        assert list(opened.documents()) == list(written.documents())
        assert isinstance(opened.doc_ids, np.memmap)
    assert [(one.title, one.body) for one in written.documents() if one.doc_id in "az"] == [("T", "body"), ("", "x")]
    (tmp_path / "offsets.npy").rename(tmp_path / "moved")
    assert StoredCorpus(tmp_path).doc_ids.tolist() == written.doc_ids.tolist()  # a stored run needs these alone
    (tmp_path / "moved").rename(tmp_path / "offsets.npy")
    files = ["bodies.npy", "corpus.json", "ids.npy", "offsets.npy", "texts.bin"]
    assert sorted(path.name for path in tmp_path.iterdir()) == files


@given(
    st.dictionaries(st.from_regex(r"[a-zé0-9\U0001f600]{1,9}", fullmatch=True), st.text(max_size=40), min_size=1, max_size=60)
)
@settings(max_examples=30, deadline=None)
def test_the_sizes_of_blocks_change_nothing(tmp_path_factory, documents):
    """A corpus that is sorted, merged and read in small blocks has each document with its text, in order."""
    folder = tmp_path_factory.mktemp("corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_RUN", 600)  # bytes: three documents are sorted at a time
        patch.setattr(module, "_BLOCK", 400)  # bytes: two documents of each run are merged at a time
        patch.setattr(module, "_READ_AT_ONCE", 2)
        corpus = write_corpus((Document(*pair) for pair in documents.items()), folder)
        expected = sorted(documents.items(), key=lambda pair: pair[0].encode(), reverse=True)
        assert [(one.doc_id, one.text) for one in corpus.documents()] == expected
        for name in ("ids", "offsets", "bodies"):  # written piece by piece, as one array would be
            np.save(folder / "whole.npy", np.load(folder / f"{name}.npy"))
            assert (folder / f"{name}.npy").read_bytes() == (folder / "whole.npy").read_bytes()


@pytest.mark.parametrize("wrong", ["", " a", "a ", "a\tb", "a\n", "a\0"])
def test_an_id_that_no_run_file_can_hold_is_refused(wrong, tmp_path):
    """An id that is empty, has a tab, line end, NUL or blanks around it is refused by name, and no draft is left."""
    with pytest.raises(InvalidFile, match="document id"):
        write_corpus([Document("ok", ""), Document(wrong, "")], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_repeated_id_is_refused(tmp_path, monkeypatch):
    """Two documents with one id are an error that names it, also if they are far apart."""
    monkeypatch.setattr(module, "_RUN", 600)  # bytes: three documents are sorted at a time
    documents = [Document(str(number), "") for number in range(1000)] + [Document("777", "again")]
    with pytest.raises(InvalidFile, match="two documents have the id '777'"):
        write_corpus(documents, tmp_path)


def test_digest_of_queries_and_qrels():
    """Queries and judgements are hashed by ascending ids; the digests are written here by hand."""
    queries = [Query("b", "two"), Query("a", "one")]
    assert digests.query_ids_sha256(["b", "a"]) == hashlib.sha256(b"1:a,1:b,").hexdigest()
    assert digests.queries_sha256(queries) == hashlib.sha256(b"1:a,3:one,1:b,3:two,").hexdigest()
    rows = [Judgement("q", "d2", 10), Judgement("q", "d1", -1)]
    assert digests.qrels_sha256(rows) == hashlib.sha256(b"1:q,2:d1,2:-1,1:q,2:d2,2:10,").hexdigest()


def test_ids_on_a_full_disk_are_an_error(tmp_path):
    """On a full disk, writing ids is an error, and not a SIGBUS of a memory-mapped file."""
    written = "import sys; from pathlib import Path; from lexbench.datasets.corpus import Document, write_corpus; "
    written += "write_corpus((Document(f'{number:0100}', 'x') for number in range(30_000)), Path(sys.argv[1]))"
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = f'mount -t tmpfs -o size=1M none {disk} && exec {sys.executable} -c "{written}" {disk}'
    probe = subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(disk)], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("a small disk needs `unshare -rm`, which this machine does not allow")
    done = subprocess.run(["unshare", "-rm", "sh", "-c", mounted], capture_output=True, text=True, check=False)

    assert done.returncode == 1, done.returncode  # -7 was SIGBUS
    assert "No space left on device" in done.stderr
