"""Finished folders in an object store, here in memory and in a folder: they come back with the same bytes, or not at all."""

import json
import uuid
from pathlib import Path

import pytest
from test_resume import tree

from lexbench.cli import code
from lexbench.errors import CannotStart, InvalidFile, LexbenchError
from lexbench.interop.sharing import pull_artifacts as pull
from lexbench.interop.sharing import push_artifacts as push
from lexbench.progress import Silent
from lexbench.storage.artifacts import MANIFEST
from lexbench.storage.store import Store

fsspec = pytest.importorskip("fsspec", reason="needs fsspec: pip install 'lexbench[remote]'")


def fill(path):
    """Write two files, one in a folder."""
    (path / "engine").mkdir(exist_ok=True)
    (path / "engine" / "ids.npy").write_bytes(bytes(range(256)) * 50)
    (path / "facts.json").write_text("{}")


@pytest.fixture
def store(tmp_path):
    """Make a store of an index and an encoding, and a draft that is not finished."""
    store = Store(tmp_path / "store")
    for stage, size in (("indexes", 1), ("encodings", 2)):
        store.produce(stage, f"pydoc {stage}", {"a": size}, fill)
    (tmp_path / "store" / "indexes" / "0123456789abcdef.draft").mkdir()
    return store


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path):
    """Name a place that is empty."""
    return f"memory://{uuid.uuid4().hex}/store" if request.param == "memory" else f"file://{tmp_path / 'bucket' / 'store'}"


def files(root):
    """Return the digests of a store's finished files."""
    return {name: digest for name, digest in tree(root).items() if ".draft" not in name}


def test_what_is_pushed_comes_back(store, url, tmp_path):
    """Every finished folder and nothing else travels, once; the copy is sound, with the same bytes."""
    first = list(push(store, url, (), Silent()))
    again = list(push(store, url, (), Silent()))
    other = Store(tmp_path / "other")
    pulled = list(pull(other, url, (), Silent()))

    assert [one.bytes for one in first] == [one.bytes for one in pulled] == [12_802, 12_802]
    assert [one.bytes for one in again] == [one.bytes for one in pull(other, url, (), Silent())] == [0, 0]
    assert files(other.root) == files(store.root)
    assert other.produce("indexes", "any", {"a": 1}, lambda _: pytest.fail("it is there")).is_dir()


def test_patterns_choose(store, url, tmp_path):
    """Only what matches travels."""
    assert [one.folder.split("/")[0] for one in push(store, url, ["encodings/*"], Silent())] == ["encodings"]
    assert len(list(pull(Store(tmp_path / "other"), url, ["runs/*"], Silent()))) == 0


def test_a_push_that_was_cut_off_goes_on(store, url, tmp_path):
    """Without its manifest a folder does not count as there; the second push sends what is missing."""
    list(push(store, url, (), Silent()))
    place, root = fsspec.core.url_to_fs(url)
    gone = [path for path in place.find(root) if path.endswith((MANIFEST, "facts.json"))]
    place.rm(gone)
    assert list(pull(Store(tmp_path / "other"), url, (), Silent())) == []
    assert [one.bytes for one in push(store, url, (), Silent())] == [2, 2]
    assert len(list(pull(Store(tmp_path / "other"), url, (), Silent()))) == 2


@pytest.mark.parametrize("harm", ["changed", "cut"])
def test_a_changed_copy_is_not_taken(store, url, harm, tmp_path):
    """A byte that is not what the manifest says: one line names the file, and no folder gets its final name."""
    list(push(store, url, ["indexes/*"], Silent()))
    place, root = fsspec.core.url_to_fs(url)
    file = next(path for path in place.find(root) if path.endswith("ids.npy"))
    content = place.cat_file(file)
    place.pipe_file(file, content[:-1] if harm == "cut" else content[:-1] + b"x")
    other = Store(tmp_path / "other")
    with pytest.raises(InvalidFile, match=r"ids.npy is not what its manifest says"):
        list(pull(other, url, (), Silent()))
    assert not list(other.root.glob("indexes/pydoc*"))

    place.pipe_file(file, content)
    list(pull(other, url, (), Silent()))
    assert next(other.damage(next(other.root.glob("indexes/pydoc*")), thoroughly=True), None) is None


def test_a_manifest_cannot_write_elsewhere(store, url, tmp_path):
    """A file whose name leads out of the folder is refused before anything is written."""
    list(push(store, url, ["indexes/*"], Silent()))
    place, root = fsspec.core.url_to_fs(url)
    file = next(path for path in place.find(root) if path.endswith(MANIFEST))
    manifest = json.loads(place.cat_file(file))
    manifest["files"]["../../evil"] = {"bytes": 1, "sha256": "0"}
    place.pipe_file(file, json.dumps(manifest).encode())
    with pytest.raises(InvalidFile, match="would lie outside the folder"):
        list(pull(Store(tmp_path / "other"), url, (), Silent()))
    assert not list(tmp_path.rglob("evil"))


def test_a_damaged_folder_is_not_pushed(store, url):
    """What has changed here since it was written is said, and there it is not complete."""
    file = next(store.root.glob("indexes/*/engine/ids.npy"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(LexbenchError, match=r"ids\.npy has changed since it was written"):
        list(push(store, url, (), Silent()))


def test_places_that_there_are_not(store):
    """One line each."""
    with pytest.raises(CannotStart, match="nowhere://x: ValueError"):
        list(push(store, "nowhere://x", (), Silent()))


def test_the_command_line(store, tmp_path, monkeypatch, capsys):
    """Push and pull say what they did; the doctor reads every byte, and finds what no time stamp shows."""
    monkeypatch.setenv("LEXBENCH_STORE", str(store.root))
    url = (tmp_path / "there").as_uri()
    assert code(["store", "push", url]) == 0
    assert "0.0 MB" in capsys.readouterr().out
    assert code(["store", "pull", url, "runs/*"]) == 3
    assert "no finished folder matches runs/*" in capsys.readouterr().err
    assert code(["doctor", "--verify"]) == 0
    assert "2 of 2 are as they were written" in capsys.readouterr().out

    file = next(store.root.glob("indexes/*/engine/ids.npy"))
    status = file.stat()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    import os

    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert Store(Path(store.root)).finished("indexes", {"a": 1})
    assert code(["doctor", "--verify", "--json"]) == 1
    assert "ids.npy has changed since it was written" in capsys.readouterr().out
