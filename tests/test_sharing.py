"""Results are copied to other places and back with the same bytes, or not at all."""

import shutil
import uuid

import pytest
import samples
from tiny import ended

from lexbench.errors import CannotStart, CommandError, InvalidFile
from lexbench.interop.sharing import pull_results, push_results
from lexbench.results import files_of, write_results

pytestmark = pytest.mark.usefixtures("open_contracts")

COMMIT = "c" * 40


@pytest.fixture
def fsspec():
    """Return the package that reads and writes other places; skip the test without it."""
    return pytest.importorskip("fsspec", reason="needs fsspec: pip install 'lexbench[remote]'")


@pytest.fixture(params=["memory", "file"])
def url(request, fsspec, tmp_path):
    """Return the URL of an empty place."""
    return f"memory://{uuid.uuid4().hex}/store" if request.param == "memory" else f"file://{tmp_path / 'bucket' / 'store'}"


# ---- results


def write(folder, *systems, score=0.5):
    """Write results of *systems* on one query into a folder."""
    write_results([samples.result(system, [score], documents=2) for system in systems], "pydoc", folder)
    return folder


def contents(folder):
    """Return the content of the files of results, by name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files_of(folder)}


@pytest.mark.parametrize("is_url", [True, False])
def test_pushed_results_come_back(url, is_url, tmp_path):
    """Results and pages are copied; pulled results have the same bytes, and existing ones are not new."""
    place = url if is_url else str(tmp_path / "shared")
    mine = write(tmp_path / "mine", "bm25", "flat")
    (mine / "README.md").write_text("page")
    names = push_results(mine, place)

    assert names == ["results/pydoc/bm25.json", "results/pydoc/flat.json", "README.md"]
    assert pull_results(place, tmp_path / "theirs") == names[:2]
    assert contents(tmp_path / "theirs") == contents(mine)
    assert pull_results(place, tmp_path / "theirs") == []


def test_own_results_are_never_replaced(fsspec, tmp_path):
    """If the folder has other results of a system, nothing is written, and the error says how to show both."""
    push_results(write(tmp_path / "mine", "a", "bm25"), str(tmp_path / "shared"))
    theirs = write(tmp_path / "theirs", "bm25", score=0.25)
    before = contents(theirs)

    with pytest.raises(CommandError, match=r"bm25\.json is there already, with other results; .* --merge NAME=FOLDER"):
        pull_results(str(tmp_path / "shared"), theirs)
    assert contents(theirs) == before


def test_a_name_that_leads_outside_is_refused(fsspec, tmp_path):
    """An object called results/../a.json would be outside the folder `results`; nothing is written."""
    place = f"{uuid.uuid4().hex}/r"
    content = next(iter(contents(write(tmp_path / "mine", "bm25")).values()))
    fsspec.filesystem("memory").pipe(f"/{place}/results/../bm25.json", content)

    with pytest.raises(InvalidFile, match=r"results/\.\./bm25\.json.* would lie outside the folder of results"):
        pull_results(f"memory://{place}", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_a_place_without_results_says_so(fsspec, tmp_path, capsys):
    """An empty place is an error; results have no splits, and only datasets of the hub can be private."""
    with pytest.raises(CannotStart, match=r"memory://nothing has no results: no file matches results/\*/\*\.json"):
        pull_results("memory://nothing", tmp_path / "theirs")
    with pytest.raises(CommandError, match="results have no splits"):
        push_results(write(tmp_path / "mine", "bm25"), "hf:org/name#test")
    push = ["store", "push", tmp_path / "shared", "--results", tmp_path / "mine"]
    assert "--private is for datasets of the hub" in ended(capsys, 2, *push, "--private").err
    assert ended(capsys, 0, *push).out.startswith("1 files are at ")


# ---- the hub


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Record what is sent to the hub, and put it into the client's cache as the only commit."""
    huggingface_hub = pytest.importorskip("huggingface_hub", reason="it is in the extra neural")
    constants = pytest.importorskip("huggingface_hub.constants")
    top, sent_to_hub = tmp_path / "cache" / "datasets--org--name", []
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(top.parent))

    class Recorder:
        def create_repo(self, name, **settings):
            sent_to_hub.append((name, settings))

        def upload_folder(self, *, folder_path, allow_patterns, **settings):
            sent_to_hub.append((settings["repo_id"], settings))
            for name in allow_patterns:
                copy = top / "snapshots" / COMMIT / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(folder_path / name, copy)
            (top / "refs").mkdir()
            (top / "refs" / "main").write_text(COMMIT)

    monkeypatch.setattr(huggingface_hub, "HfApi", Recorder)
    return sent_to_hub


def test_results_in_a_dataset_of_the_hub(hub, tmp_path, monkeypatch, capsys):
    """The dataset is created and all files are sent in one commit; they come back with the same bytes."""
    mine = write(tmp_path / "mine", "bm25", "flat")
    pushed = ended(capsys, 0, "store", "push", "hf:org/name", "--results", mine, "--private").out
    assert "2 files are at hf:org/name; to fetch them, type: lexbench store pull hf:org/name" in pushed
    (made, created), (sent, commit) = hub
    assert (made, created["repo_type"], created["private"]) == ("org/name", "dataset", True)
    assert (sent, commit["commit_message"]) == ("org/name", "Results of lexbench: 2 files")

    monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
    pulled = ended(capsys, 0, "store", "pull", "hf:org/name", "--results", tmp_path / "theirs").out
    assert pulled.startswith("2 new files in ")
    assert contents(tmp_path / "theirs") == contents(mine)
    with pytest.raises(CannotStart, match="LEXBENCH_OFFLINE forbids to push"):
        push_results(mine, "hf:org/name")
