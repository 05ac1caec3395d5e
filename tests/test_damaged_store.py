"""Commands name the damaged artifacts of a store, and leave them out or make them again."""

import hashlib
import json
import os
import shutil

import pytest
import tiny
from tiny import answer, ended

from lexbench.cli import code
from lexbench.storage.artifact_folder import MANIFEST, MEASURED, digest
from lexbench.storage.stopwatch import read_measurement

RUN = ["run", "dataset", "tiny", "-r", "bm25", "-r", "bm25(k1=2.0)", "-m", "RR@10"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Run two systems on a folder of three documents; return the folder that has both, and the store."""
    place = tmp_path_factory.mktemp("made")
    documents = {f"d{n}": "red car " * n + "x" for n in range(1, 4)}
    tiny.write(place / "tiny", documents, {"q1": "red car"}, [("q1", "d2", 2)])
    with pytest.MonkeyPatch.context() as patch:
        tiny.enter(place, patch)
        assert code(RUN) == 0
    return place


@pytest.fixture
def store(made, tmp_path, monkeypatch):
    """Return a copy of the store, beside a copy of the collection, in the current folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    tiny.enter(tmp_path, monkeypatch)
    return tmp_path / "store"


def one(store, kind, name):
    """Return the file *name* of the artifact of bm25 with default settings."""
    return next(path for path in store.glob(f"{kind}/*/{name}") if "k1" not in path.parent.name)


def rewrite(path, result):
    """Write another result into an artifact, and its digest into the manifest."""
    content = json.dumps(result).encode()
    path.write_bytes(content)
    manifest = json.loads((path.parent / MANIFEST).read_bytes())
    manifest["files"]["result.json"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (path.parent / MANIFEST).write_text(json.dumps(manifest))


READING = [
    ["export", "csv", "out"],
    ["list", "results", "--json"],
    ["compare", "bm25", "bm25(k1=2.0)", "-m", "RR@10"],
    ["export", "trec", "out"],
]


@pytest.mark.parametrize("words", READING)
def test_a_changed_result_is_named_and_not_shown(store, capsys, words):
    """A changed mean is not exported, listed or compared: its file is named, and the command fails."""
    path = one(store, "results", "result.json")
    result = json.loads(path.read_bytes())
    path.write_text(path.read_text().replace(f'"RR@10": {result["means"]["RR@10"]}', '"RR@10": 0.96'))
    shown = ended(capsys, 3 if words[0] == "compare" else 1, *words)

    assert f"{path.parent}: result.json has " in shown.err
    assert "0.96" not in shown.out
    assert not [file for file in store.parent.glob("out/*") if "k1" not in file.name]


def test_an_impossible_result_does_not_hide_the_others(store, capsys):
    """A result with a false mean and a manifest to match is named; other results are listed; the exit code is 1."""
    path = one(store, "results", "result.json")
    result = json.loads(path.read_bytes())
    result["means"]["RR@10"] = 0.96
    rewrite(path, result)

    shown = ended(capsys, 1, "list", "results")
    assert "0.96" not in shown.out
    assert "bm25(k1=2.0)" in shown.out
    assert f"{path}: bm25 on tiny: the mean of RR@10 is 0.96, and that of its values " in shown.err


def test_a_result_that_the_judgements_contradict_is_not_used_again(store, capsys):
    """Values that agree with each other, and with the manifest, are compared with the documents that the result keeps."""
    path = one(store, "results", "result.json")
    result = json.loads(path.read_bytes())
    false = 1 / 7
    result["per_query"]["RR@10"], result["means"]["RR@10"] = [false], false
    result["ties"], result["incomplete"] = {}, {}
    rewrite(path, result)

    shown = ended(capsys, 1, *RUN)
    assert f"{path}: bm25 on tiny: RR@10 of query q1 is 0.142857, and the documents that it keeps have " in shown.err
    assert "0.1429" not in shown.out
    name = f"results/{path.parent.name.rpartition('-')[2]}"
    assert f"remove it, and run it again: lexbench store remove {name}" in shown.err
    ended(capsys, 0, "store", "remove", name)
    ended(capsys, 0, *RUN)


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("recipe", {"plugin": "retrievers/bm25", "version": 2, "settings": {}}, "its recipe is not that of its run"),
        ("contract", "tiny@1", "its contract is not that of its key"),
        ("digests", {}, "its qrels is not that of its key"),
    ],
)
def test_a_result_that_its_key_contradicts_is_named(store, capsys, field, value, fault):
    """Its recipe, contract and judgements follow from the key facts of the artifact and of its run."""
    path = one(store, "results", "result.json")
    rewrite(path, json.loads(path.read_bytes()) | {field: value})
    for words in (["list", "results"], RUN):
        assert fault in ended(capsys, 1, *words).err
    (item,) = json.loads(ended(capsys, 1, "store", "check", "--json").out)["damaged"]
    assert item["fault"] == fault


def test_results_that_were_exchanged_are_found(store, capsys):
    """`store check` compares the documents that a result keeps with those of its run."""
    paths = [one(store, "results", "result.json"), next(store.glob("results/*k1*/result.json"))]
    results = [json.loads(path.read_bytes()) for path in paths]
    for path, result, other in zip(paths, results, reversed(results), strict=True):
        own = {name: result[name] for name in ("system", "notation", "recipe")}
        rewrite(path, other | own | {"top": [" ".join(reversed(one.split())) for one in other["top"]]})
    damaged = json.loads(ended(capsys, 1, "store", "check", "--json").out)["damaged"]
    assert {item["fault"] for item in damaged} == {"the documents that it keeps are not those of its run"}
    assert len(damaged) == 2


def test_a_wrong_clock_makes_no_result_the_newest(store, capsys):
    """A date in the future says nothing: the result has no date, and can be published."""
    path = one(store, "results", MEASURED)
    measured = json.loads(path.read_bytes())
    del measured["sha256"]
    measured["started"] = "2099-01-01T00:00:00+00:00"
    path.write_text(json.dumps(measured | {"sha256": digest(measured)}))
    assert read_measurement(path.parent).started == ""
    ended(capsys, 0, *RUN, "--results", "mine")
    ended(capsys, 0, "leaderboard", "--results", "mine")


def test_an_index_of_another_version_is_said(store, capsys):
    """A result names packages of another version, and another machine, that made what it was searched in."""
    path = one(store, "indexes", MEASURED)
    measured = json.loads(path.read_bytes())
    del measured["sha256"]
    assert "were made earlier" not in ended(capsys, 0, *RUN).out
    measured["versions"]["lexbench"], measured["machine"]["processor"] = "0.0.1", "Another CPU"
    path.write_text(json.dumps(measured | {"sha256": digest(measured)}))
    said = " ".join(ended(capsys, 0, *RUN).out.split())
    assert said.count("bm25 on tiny: its indexes were made earlier or elsewhere: lexbench 0.0.1, Another CPU") == 1


def test_a_manifest_with_a_nul_in_a_name_is_damage(store, capsys):
    """A manifest that names a file with a NUL is one line and no traceback, and the same run again succeeds."""
    path = one(store, "results", MANIFEST)
    manifest = json.loads(path.read_bytes())
    manifest["files"]["a\0b"] = {"bytes": 1, "sha256": "0" * 64}
    path.write_text(json.dumps(manifest))

    shown = ended(capsys, 1, "list", "results")
    assert "bug in lexbench" not in shown.err
    assert "is missing" in shown.err
    assert code(RUN) == 0


def test_an_export_without_its_index_says_so(store, capsys, tmp_path):
    """If an index has been renamed or removed, sizes and build times are missing, and a line says so."""
    index = one(store, "indexes", MANIFEST).parent
    index.rename(index.with_name("renamed"))
    line = "out/tiny.bm25.json: without sizes, build times and timings, because the index is"

    assert line in ended(capsys, 0, "export", "json", "out", "-r", "bm25").err
    assert json.loads((tmp_path / "out" / "tiny.bm25.json").read_bytes())["sizes"] == {}


@pytest.mark.parametrize(
    ("kind", "words"), [*(("results", words) for words in READING), *(("indexes", words) for words in READING[:2]),
    ("runs", READING[3]), ("corpora", READING[3])],
)  # fmt: skip
def test_cut_measurements_stop_nothing(store, capsys, kind, words):
    """A cut `measured.json` of any artifact stops no command, and the same run again succeeds."""
    path = one(store, kind, MEASURED)
    path.write_bytes(path.read_bytes()[:20])
    err = ended(capsys, 1 if kind in ("results", "runs") else 0, *words).err

    assert "bug in lexbench" not in err
    assert kind != "results" or str(path) in err
    assert code(RUN) == 0


@pytest.mark.parametrize(
    ("kind", "name"), [("runs", "run.safetensors"), ("runs", "run.json"), ("corpora", "ids.npy"), ("runs", MANIFEST)]
)
def test_a_changed_run_is_not_exported(store, capsys, kind, name):
    """A run is exported only if its own files, and the ids of its corpus, are as they were written."""
    path = one(store, kind, name)
    content = path.read_bytes()
    path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])

    assert name in ended(capsys, 1, "export", "trec", "out", "-r", "bm25").err
    assert not list(store.parent.glob("out/*"))


def test_a_draft_of_a_result_is_no_result(store, capsys):
    """A draft that a kill left behind is not listed."""
    folder = one(store, "results", "result.json").parent
    (folder / MANIFEST).unlink()
    folder.rename(folder.with_name("0123456789abcdef.draft"))

    assert [row["system"] for row in answer(capsys, "list", "results", "--json")] == ["bm25(k1=2.0)"]


@pytest.mark.parametrize("content", [b"", b"\x80\xff", b"{}"], ids=["empty", "no ASCII", "other"])
def test_a_damaged_note_of_a_check_is_ignored(store, capsys, content):
    """If a file in `checked` is damaged, its artifact is read again, without a warning."""
    for note in (store / "checked").iterdir():
        note.write_bytes(content)

    assert ended(capsys, 0, *RUN).err.startswith("tiny: documents corpus.jsonl")


def test_a_change_with_the_old_time_is_found(store, capsys):
    """A file that was checked, changed, and given its old time is checked again: the time of the change cannot be set."""
    assert code(["list", "results"]) == 0
    path = one(store, "results", "result.json")
    times, text = path.stat(), path.read_text()
    path.write_text(text.replace('"queries": 1', '"queries": 7'))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert path.stat().st_size == times.st_size
    assert f"{path.parent}: result.json has changed since it was written" in ended(capsys, 1, "list", "results").err


def test_a_digest_that_has_changed_is_found(store, capsys):
    """A changed digest in the manifest of an artifact that was checked before is reported, and the artifact is made again."""
    manifest = one(store, "indexes", MANIFEST)
    content = manifest.read_bytes()
    digests = json.loads(content)["files"]
    digit = content.index(next(iter(digests.values()))["sha256"].encode())
    manifest.write_bytes(content[:digit] + (b"1" if content[digit : digit + 1] == b"0" else b"0") + content[digit + 1 :])
    for kind in ("runs", "results"):  # otherwise nothing would read the index
        shutil.rmtree(store / kind)

    assert "has changed since it was written" in ended(capsys, 0, *RUN).err
    assert manifest.read_bytes() == content
