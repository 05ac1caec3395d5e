"""The store of finished work."""

import json
import multiprocessing
import os
import shutil
import signal
import threading
import time

import pytest

from lexbench.errors import CannotStart, NotEnoughDisk
from lexbench.storage import atomic
from lexbench.storage.manifest import MANIFEST, MEASURED, digest, recipe_of, size
from lexbench.storage.stopwatch import Measurement, Stopwatch, read_measurement
from lexbench.storage.store import Store


def write(text):
    """Return work that writes one file and counts its calls."""

    def work(draft):
        work.calls += 1
        (draft / "data.txt").write_text(text)

    work.calls = 0
    return work


def test_the_store_is_measured_while_others_write(tmp_path):
    """Folders that are made, renamed and removed meanwhile disturb no sum over the store."""
    kept, folder, renamed, stop = (
        tmp_path / "kept",
        tmp_path / "indexes" / "a.draft",
        tmp_path / "indexes" / "a",
        threading.Event(),
    )
    kept.write_bytes(b"12345")

    def others() -> None:
        while not stop.is_set():
            (folder / "deep").mkdir(parents=True)
            folder.rename(renamed)
            shutil.rmtree(renamed)

    writer = threading.Thread(target=others)
    writer.start()
    try:
        found = {Store(tmp_path).bytes_used() for _ in range(2000)}
    finally:
        stop.set()
        writer.join()
    assert found == {5}


def test_work_is_done_once(tmp_path):
    """The same recipe again finds the folder and does no work."""
    store, work = Store(tmp_path), write("x")
    recipe = {"a": 1}
    first = store.produce("indexes", "n", recipe, work)
    again = Store(tmp_path).produce("indexes", "n", recipe, work)

    assert first == again
    assert work.calls == 1
    assert recipe_of(first) == recipe
    assert size(first) == 1


def test_a_label_decides_nothing(tmp_path):
    """Another label finds the same folder."""
    store = Store(tmp_path)
    first = store.produce("indexes", "one", {"a": 1}, write("x"))

    assert store.produce("indexes", "other", {"a": 1}, write("y")) == first


def test_a_key_is_the_recipe_and_not_its_order():
    """Equal recipes have one digest whatever order they are written in; another value gives another."""
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert digest({"a": 1}) != digest({"a": "1"})


def test_unfinished_work_is_not_there(tmp_path):
    """Work that fails leaves nothing under the final name, and the next attempt starts in an empty folder."""
    store, recipe = Store(tmp_path), {"a": 1}

    def fail(draft):
        (draft / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.produce("indexes", "n", recipe, fail)
    assert store.finished("indexes", recipe) is None
    assert list((tmp_path / "indexes").iterdir()) == []

    folder = store.produce("indexes", "n", recipe, write("whole"))
    assert sorted(path.name for path in folder.iterdir()) == ["data.txt", MANIFEST]


def test_resumable_work_finds_what_was_finished(tmp_path):
    """A resumable draft keeps the files that were finished, and loses those that were being written."""
    store, recipe = Store(tmp_path), {"a": 1}

    def fail(draft):
        atomic.write_text(draft / "shard-0", "done")
        (draft / f"shard-1{atomic.UNFINISHED}").write_text("half")
        raise KeyboardInterrupt

    def go_on(draft):
        assert [path.name for path in draft.iterdir()] == ["shard-0"]
        atomic.write_text(draft / "shard-1", "done too")

    with pytest.raises(KeyboardInterrupt):
        store.produce("encodings", "n", recipe, fail, resumable=True)
    folder = store.produce("encodings", "n", recipe, go_on, resumable=True)

    assert sorted(json.loads((folder / MANIFEST).read_bytes())["files"]) == ["shard-0", "shard-1"]


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "manifest"])
def test_damage_is_found_named_and_mended(tmp_path, harm):
    """A file that was changed, cut or removed is named in one line, and only its folder is made again."""
    recipe = {"a": 1}
    folder = Store(tmp_path).produce("indexes", "n", recipe, write("content"))
    target = folder / (MANIFEST if harm == "manifest" else "data.txt")
    if harm == "remove":
        target.unlink()
    else:
        content = target.read_bytes()
        target.write_bytes(content[:-3] if harm != "flip" else bytes([content[0] ^ 1]) + content[1:])

    lines, work = [], write("content")
    Store(tmp_path, on_damage=lines.append).produce("indexes", "n", recipe, work)

    assert work.calls == 1
    assert len(lines) == 1
    assert target.name in lines[0]
    assert Store(tmp_path).finished("indexes", recipe)


def test_folders_that_changed_places_are_damaged(tmp_path):
    """A sound folder under the name of another is not taken for that."""
    store = Store(tmp_path)
    first, second = (store.produce("indexes", "n", {"a": a}, write(str(a))) for a in (1, 2))
    first.rename(tmp_path / "aside")
    second.rename(first)
    (tmp_path / "aside").rename(second)
    lines = []
    again = Store(tmp_path, on_damage=lines.append)

    assert (again.produce("indexes", "n", {"a": 1}, write("1")) / "data.txt").read_text() == "1"
    assert "manifest.json is that of another folder" in lines[0]
    assert not Store(tmp_path).sound(second)


@pytest.mark.parametrize("manifest", ["[]", "{}", '{"files": []}', '{"files": {"a": 1}}', "[" * 100_000, '{"files": {}}'])
def test_a_manifest_of_another_form_is_damage(tmp_path, manifest):
    """Whatever a manifest holds that is none of ours, the folder is made again."""
    folder = Store(tmp_path).produce("indexes", "n", {}, write("x"))
    (folder / MANIFEST).write_text(manifest)

    assert list(Store(tmp_path).damage(folder))
    assert (Store(tmp_path).produce("indexes", "n", {}, write("x")) / "data.txt").read_text() == "x"


@pytest.mark.parametrize("harm", ["", "{", '{"seconds": 3}', "[]"])
def test_damaged_times_cost_the_times_alone(tmp_path, harm):
    """A `measured.json` that was cut or changed is said once, and what was measured is not known any more."""

    def work(draft):
        watch = Stopwatch()
        with watch.time("build"):
            (draft / "data.txt").write_text("x")
        watch.write(draft)

    folder = Store(tmp_path).produce("indexes", "n", {}, work)
    assert set(read_measurement(folder).seconds) == {"build"}
    whole = (folder / MEASURED).read_text()
    (folder / MEASURED).write_text(harm or whole.replace('"build": ', '"build": 9'))
    lines = []
    assert Store(tmp_path, on_damage=lines.append).produce("indexes", "n", {}, write("y")) == folder

    assert read_measurement(folder) == Measurement()
    assert len(lines) == 1
    assert MEASURED in lines[0]
    outer = Stopwatch()
    outer.add(folder)
    assert outer.parts == {folder.name: {}}


def test_what_is_finished_is_read_where_nothing_can_be_written(tmp_path, monkeypatch):
    """A store on a read-only disk gives what it has; only what it has not is refused."""
    folder = Store(tmp_path).produce("results", "n", {}, write("x"))
    monkeypatch.setattr(os, "access", lambda *_: False)  # whoever runs the tests may be root, who can write anywhere
    store = Store(tmp_path)
    store.prepare()

    assert store.produce("results", "n", {}, write("y")) == folder
    with pytest.raises(CannotStart, match="cannot write to the store"):
        store.produce("results", "n", {"a": 1}, write("y"))
    with pytest.raises(CannotStart, match="cannot write to the store"):
        Store(tmp_path / "none").prepare()


def _slow(root, started):
    def work(draft):
        started.set()
        (draft / "data.txt").write_text("slow")
        time.sleep(1.0)

    Store(root).produce("indexes", "n", {}, work)


def test_two_processes_make_one_thing_once(tmp_path):
    """A second process waits for the first, says so, and takes what the first has made."""
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    other = context.Process(target=_slow, args=(tmp_path, started))
    other.start()
    assert started.wait(30)
    lines, work = [], write("mine")
    folder = Store(tmp_path, on_wait=lines.append).produce("indexes", "n", {}, work)
    other.join()

    assert (folder / "data.txt").read_text() == "slow"
    assert work.calls == 0
    assert len(lines) == 1


def test_a_killed_process_frees_its_lock(tmp_path):
    """After a kill -9 the next process goes straight on."""
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    other = context.Process(target=_slow, args=(tmp_path, started))
    other.start()
    assert started.wait(30)
    os.kill(other.pid, signal.SIGKILL)
    other.join()
    lines = []
    folder = Store(tmp_path, on_wait=lines.append).produce("indexes", "n", {}, write("mine"))

    assert (folder / "data.txt").read_text() == "mine"
    assert lines == []


def test_too_little_disk_is_said_before_work(tmp_path):
    """An estimate above what is free names both numbers."""
    with pytest.raises(NotEnoughDisk, match=r"about 1,000,000,000.0 GB .* are free"):
        Store(tmp_path / "not" / "there").check_disk(10**18)


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    """An exception while a file is written leaves the old content and no litter."""
    target = tmp_path / "file"
    atomic.write_text(target, "old")
    unfinished = atomic.atomic_path(target)
    unfinished.__enter__().write_text("ne")
    unfinished.__exit__(RuntimeError, RuntimeError(), None)

    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
