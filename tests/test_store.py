"""The store: artifacts are made once, completely or not at all, and made again if they are damaged."""

import json
import multiprocessing
import os
import pwd
import subprocess
import sys
import time
from contextlib import suppress
from errno import EACCES
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load
from tiny import ended, produced

from lexbench.compiling import loops
from lexbench.datasets.sources.ir_datasets import home_folder
from lexbench.errors import CannotStart, NotEnoughDisk
from lexbench.runner.jobs import failure
from lexbench.storage import atomic
from lexbench.storage.array_files import array_bytes
from lexbench.storage.artifact_folder import MANIFEST, MEASURED, digest
from lexbench.storage.node import Stored
from lexbench.storage.stopwatch import Measurement, Stopwatch, read_measurement
from lexbench.storage.store import Store, default_root


def write(text):
    """Return work that writes one file and counts its calls."""

    def work(draft):
        work.calls += 1
        (draft / "data.txt").write_text(text)

    work.calls = 0
    return work


def test_work_is_done_once(tmp_path):
    """The same key facts, in any order and under any label, find the artifact, and no work is done."""
    store, work = Store(tmp_path), write("x")
    facts = {"a": 1, "b": 2}
    first = produced(store, "indexes", "n", facts, work)
    again = produced(Store(tmp_path), "indexes", "other", {"b": 2, "a": 1}, work)

    assert first == again
    assert work.calls == 1
    assert Stored(first).facts == facts
    assert Stored(first).bytes == 1
    assert len({digest({"a": value}) for value in (1, 2, "1")}) == 3


def test_unfinished_work_is_not_there(tmp_path):
    """Work that fails leaves nothing behind, and the next attempt starts in an empty folder."""
    store, facts = Store(tmp_path), {"a": 1}
    with suppress(KeyboardInterrupt), store.draft("indexes", "n", facts) as draft:
        (draft.unfinished / "half").write_text("half")
        raise KeyboardInterrupt
    assert store.finished("indexes", facts) is None
    assert list((tmp_path / "indexes").iterdir()) == []

    folder = produced(store, "indexes", "n", facts, write("whole"))
    assert sorted(path.name for path in folder.iterdir()) == ["data.txt", MANIFEST]


def test_resumable_work_finds_what_was_finished(tmp_path):
    """A resumable draft keeps its finished files and loses those that were being written."""
    store, facts = Store(tmp_path), {"a": 1}
    with suppress(KeyboardInterrupt), store.draft("encodings", "n", facts, resumable=True) as draft:
        atomic.write_text(draft.unfinished / "shard-0", "done")
        (draft.unfinished / f"shard-1{atomic.UNFINISHED}").write_text("half")
        raise KeyboardInterrupt
    with store.draft("encodings", "n", facts, resumable=True) as draft:
        assert [path.name for path in draft.unfinished.iterdir()] == ["shard-0"]
        atomic.write_text(draft.unfinished / "shard-1", "done too")

    assert sorted(json.loads((draft.folder / MANIFEST).read_bytes())["files"]) == ["shard-0", "shard-1"]


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "manifest"])
def test_damage_is_found_named_and_mended(tmp_path, harm):
    """One line names a file that was changed, cut or removed, and only its artifact is made again."""
    facts = {"a": 1}
    folder = produced(Store(tmp_path), "indexes", "n", facts, write("content"))
    target = folder / (MANIFEST if harm == "manifest" else "data.txt")
    if harm == "remove":
        target.unlink()
    else:
        content = target.read_bytes()
        target.write_bytes(content[:-3] if harm != "flip" else bytes([content[0] ^ 1]) + content[1:])

    lines, work = [], write("content")
    produced(Store(tmp_path, on_damage=lines.append), "indexes", "n", facts, work)

    assert work.calls == 1
    assert len(lines) == 1
    assert target.name in lines[0]
    assert Store(tmp_path).finished("indexes", facts)


def test_folders_that_changed_places_are_damaged(tmp_path):
    """An intact artifact under the name of another one is damage."""
    store = Store(tmp_path)
    first, second = (produced(store, "indexes", "n", {"a": a}, write(str(a))) for a in (1, 2))
    first.rename(tmp_path / "aside")
    second.rename(first)
    (tmp_path / "aside").rename(second)
    lines = []
    again = Store(tmp_path, on_damage=lines.append)

    assert (produced(again, "indexes", "n", {"a": 1}, write("1")) / "data.txt").read_text() == "1"
    assert "manifest.json belongs to another folder" in lines[0]
    assert not Store(tmp_path).is_intact(second)


@pytest.mark.parametrize("manifest", ["[]", "{}", '{"files": []}', '{"files": {"a": 1}}', "[" * 100_000, '{"files": {}}'])
def test_a_manifest_of_another_form_is_damage(tmp_path, manifest):
    """An artifact with any other content in its manifest is made again."""
    folder = produced(Store(tmp_path), "indexes", "n", {}, write("x"))
    (folder / MANIFEST).write_text(manifest)

    assert list(Store(tmp_path).damage(folder))
    assert (produced(Store(tmp_path), "indexes", "n", {}, write("x")) / "data.txt").read_text() == "x"


@pytest.mark.parametrize("harm", ["", "{", '{"seconds": 3}', "[]"])
def test_damaged_times_cost_the_times_alone(tmp_path, harm):
    """A damaged `measured.json` costs one warning and the measurement, and nothing else."""
    folder = produced(Store(tmp_path), "indexes", "n", {}, Stopwatch({"build": 1.0}).write)
    assert set(read_measurement(folder).seconds) == {"build"}
    whole = (folder / MEASURED).read_text()
    (folder / MEASURED).write_text(harm or whole.replace('"build": ', '"build": 9'))
    lines = []
    assert produced(Store(tmp_path, on_damage=lines.append), "indexes", "n", {}, write("y")) == folder

    assert read_measurement(folder) == Measurement()
    assert len(lines) == 1
    assert MEASURED in lines[0]
    outer = Stopwatch()
    outer.add(folder)
    assert outer.parts == {folder.name: {}}


def test_a_read_only_store_can_be_read(tmp_path, monkeypatch):
    """A read-only store gives its artifacts; only making new ones is refused."""
    folder = produced(Store(tmp_path), "results", "n", {}, write("x"))
    monkeypatch.setattr(os, "access", lambda *_: False)  # root can write anywhere
    store = Store(tmp_path)
    store.prepare()

    assert produced(store, "results", "n", {}, write("y")) == folder
    with pytest.raises(CannotStart, match="cannot write to the store"):
        produced(store, "results", "n", {"a": 1}, write("y"))
    with pytest.raises(CannotStart, match="cannot write to the store"):
        Store(tmp_path / "none").prepare()


def _slow(root, started):
    def work(draft):
        started.set()
        (draft / "data.txt").write_text("slow")
        time.sleep(0.5)

    produced(Store(root), "indexes", "n", {}, work)


@pytest.mark.parametrize("words", [("list", "results"), ("store", "check"), ("run", "suite", "pydoc")])
def test_a_store_that_is_a_file_is_refused(tmp_path, monkeypatch, capsys, words):
    """Reading commands would show an empty store, as if nothing had ever been run."""
    (tmp_path / "store").write_text("")
    monkeypatch.setenv("LEXBENCH_STORE", str(tmp_path / "store"))
    said = ended(capsys, 3, *words).err
    assert said == f"lexbench: the store {tmp_path / 'store'} is a file, and must be a folder; set LEXBENCH_STORE to another\n"


def test_two_processes_make_one_thing_once(tmp_path):
    """A second process waits for the first, says so, and takes its artifact."""
    context = multiprocessing.get_context("forkserver")
    started = context.Event()
    other = context.Process(target=_slow, args=(tmp_path, started))
    other.start()
    assert started.wait(30)
    lines, work = [], write("mine")
    folder = produced(Store(tmp_path, on_wait=lines.append), "indexes", "n", {}, work)
    other.join()

    assert (folder / "data.txt").read_text() == "slow"
    assert work.calls == 0
    assert len(lines) == 1


def test_a_user_without_a_home_names_a_store(monkeypatch):
    """In a container, a user may be a number alone. Only the place of the store must then be given."""
    for name in ("HOME", "XDG_CACHE_HOME", "LEXBENCH_STORE", "NUMBA_CACHE_DIR", "IR_DATASETS_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda number: {}[number])  # as for an unknown user
    with pytest.raises(CannotStart, match="this user has no home folder; set LEXBENCH_STORE"):
        default_root()
    assert loops.cache_folder.__wrapped__() is None
    assert not home_folder().exists()


def test_a_folder_of_another_user_in_the_store_is_one_line(tmp_path):
    """A job that cannot write a part of the store says which, and is no bug of its system."""
    job = SimpleNamespace(name="bm25 on x", command="again")
    denied = PermissionError(EACCES, "Permission denied", str(tmp_path / "indexes" / "a.draft"))
    line = failure(denied, job, Store(tmp_path)).error
    assert line == f"the store cannot be used: {denied.filename}: Permission denied; set LEXBENCH_STORE to another folder"


def test_a_lock_that_cannot_be_taken_is_one_line(tmp_path):
    """A file system without locks, or a lock file of another user, is an error of the user's, with the file and the reason."""
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / f"indexes-{digest({})}.lock").mkdir()  # stands for both: root may open any file
    with pytest.raises(CannotStart, match=r"cannot lock .*locks/indexes-.*\.lock \(Is a directory\); choose a folder that"):
        produced(Store(tmp_path), "indexes", "n", {}, write("x"))


def test_too_little_disk_is_refused(tmp_path):
    """If the estimate is above the free space, the error message has both."""
    with pytest.raises(NotEnoughDisk, match=r"about 1,000,000,000.0 GB .* are free"):
        Store(tmp_path / "not" / "there").check_disk(10**18)


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    """After an exception while a file is written, the old content is there and no temporary file."""
    target = tmp_path / "file"
    atomic.write_text(target, "old")
    unfinished = atomic.atomic_path(target)
    unfinished.__enter__().write_text("ne")
    unfinished.__exit__(RuntimeError, RuntimeError(), None)

    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_has_its_content_is_not_written_again(tmp_path):
    """So a command whose answers are there succeeds on a full disk."""
    target = tmp_path / "file"
    atomic.write_text(target, "same")
    before = target.stat().st_ino
    atomic.write_text(target, "same")
    assert target.stat().st_ino == before
    atomic.write_text(target, "else")
    assert target.read_text() == "else"


ROWS = """
import resource, sys
from pathlib import Path
from lexbench.storage import atomic
target = Path(sys.argv[1])
atomic.append_rows(target, [{"a": 1}])
resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
try:
    atomic.append_rows(target, [{"b": "x" * 100}])
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("view", [lambda one: one[:, :2], lambda one: one[:, 1], lambda one: one.T, lambda one: one[::-1]])
def test_views_of_arrays_are_stored_as_they_look(view):
    """A searcher may return `docs[:, :k]`; its file holds these numbers, not their neighbours in memory."""
    array = view(np.arange(12, dtype=np.int32).reshape(4, 3))
    np.testing.assert_array_equal(load(array_bytes({"docs": array}))["docs"], array)


def test_rows_that_do_not_fit_are_not_there(tmp_path):
    """If the disk is full in the middle of a row, the file has its old rows, and the next row can be read."""
    said = subprocess.run([sys.executable, "-c", ROWS, tmp_path / "rows"], capture_output=True, text=True, check=True).stdout
    assert "File too large" in said
    assert (tmp_path / "rows").read_bytes() == b'\n{"a": 1}'
