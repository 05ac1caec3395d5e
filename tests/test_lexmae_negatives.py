"""Hard negatives: what a retriever finds that is not relevant, mined once and stored as lists."""

import json
import signal
import subprocess

import msgspec
import numpy as np
import pytest
import tiny_recipes
from fruit import JUDGED, ids, write
from tiny import KILL_AT_FLUSH, sealed

from lexbench.artifacts.graph import Graph
from lexbench.display.progress import Progress
from lexbench.lexmae.data import negatives
from lexbench.lexmae.data.training_sets import open_training_set
from lexbench.notation import parse
from lexbench.runner.systems import system
from lexbench.storage import atomic
from lexbench.storage.store import Store
from lexbench.testing.executors import RecordedProgress
from lexbench.trec.runs import Run, write_run

pytestmark = pytest.mark.usefixtures("store")


def recipe(tmp_path, queries, **settings):
    """Return a recipe with a first stage only."""
    stage = tiny_recipes.stage(epochs=1, queries=tuple(map(str, queries)), **settings)
    return tiny_recipes.recipe(output=str(tmp_path / "out"), stage1=stage)


def mined(asked, progress=None):
    """Mine the first stage's training set; return the folder and its documents by query."""
    (folder,) = negatives.mine(asked, 1, Graph(Store(), progress or Progress()))
    one, lists = open_training_set(asked.stage1.queries[0], Graph(Store())), negatives.read(folder)
    found = zip((query.query_id for query in one.queries), (ids(one.corpus, docs) for docs in lists), strict=True)
    return folder, {query: docs for query, docs in found if docs}


def test_relevant_documents_are_removed_and_nothing_else(tmp_path):
    """The lists have BM25's documents in order without relevant ones; unjudged ones and grade 0 stay.

    The facts beside them are the retriever, the depth, the dataset and the counts.
    """
    folder, found = mined(recipe(tmp_path, [write(tmp_path / "fruit")]))
    facts = json.loads((folder / "facts.json").read_text())

    assert found == {"qa": ["a4", "a2", "a1"], "qf": ["a1", "a3"]}
    assert folder == tmp_path / "out" / "negatives" / "stage1" / str(tmp_path / "fruit").strip("/").replace("/", "-")
    assert facts["retriever"] == "bm25"
    assert (facts["made_from"]["depth"], facts["made_from"]["dataset"]) == (3, "fruit@0")
    assert facts["counts"] == {"queries": 2, "negatives": 5}
    assert isinstance(negatives.read(folder).docs, np.memmap)


@pytest.mark.parametrize(("depth", "expected"), [(1, ["a4"]), (2, ["a4", "a1"]), (9, ["a4", "a1"])])
def test_depth_counts_what_is_left(depth, expected, tmp_path):
    """The depth counts documents that are not relevant."""
    judged = [("qa", "a3", 1), ("qa", "a2", 1)]
    _, found = mined(recipe(tmp_path, [write(tmp_path / "fruit", judged)], depth=depth))

    assert found == {"qa": expected}


def test_another_setting_mines_again(tmp_path):
    """Another depth, retriever or judgements are mined again with a note."""
    folder = write(tmp_path / "fruit")
    asked, heard = recipe(tmp_path, [folder]), RecordedProgress()
    path, _ = mined(asked, heard)
    assert mined(recipe(tmp_path, [folder], depth=1), heard)[1] == {"qa": ["a4"], "qf": ["a1"]}
    assert mined(recipe(tmp_path, [folder], depth=1, negatives="bm25(k1=1.2, b=0)"), heard)[1] == {"qa": ["a4"], "qf": ["a1"]}
    assert "k1=1.2" in json.loads((path / "facts.json").read_text())["retriever"]

    write(folder, [*JUDGED, ("qa", "a4", 1)])
    _, whole = mined(asked, heard)
    assert whole == {"qa": ["a2", "a1"], "qf": ["a1", "a3"]}
    assert mined(asked, heard)[1] == whole
    assert len(heard.notes) == 3
    assert all(str(path) in note for note in heard.notes)


def test_negatives_from_elsewhere(tmp_path):
    """A run file works like a retriever; relevant documents, unknown queries and unknown documents are left out."""
    folder = write(tmp_path / "fruit")
    entries = [("qf", "p1", 9.0), ("qx", "a1", 1.0), ("qa", "a1", 1.0), ("qf", "a4", 5.0), ("qa", "zz", 2.0), ("qa", "a3", 3.0)]
    write_run(Run.from_entries(*zip(*entries, strict=True)), tmp_path / "fruit.trec")
    asked = recipe(tmp_path, [folder], negatives=f'run_file(path="{tmp_path}/{{dataset}}.trec")')
    assert mined(asked)[1] == {"qf": ["p1"], "qa": ["a1"]}
    write_run(Run.from_entries(["qa"], ["p2"], [1.0]), tmp_path / "fruit.trec")
    assert mined(asked)[1] == {"qa": ["p2"]}


def test_any_folder_name_can_be_filled_in(tmp_path):
    """Folders with quotes, braces and backslashes survive, at any depth of an expression."""
    asked = msgspec.structs.replace(recipe(tmp_path, ["x"]), output=str(tmp_path / 'a "b" \\n {stage2} é'))
    for name in ("start", "stage1", "stage2"):
        asked.folder(name).mkdir(parents=True)
    given = """ensemble(bm25, [lexmae(model='{stage2}')|top_k(64)@impact], path="{start}/x", k=3)@flat(model="{stage1}")"""
    text = negatives.fill_placeholders(given, asked)
    again = parse(text)

    assert dict(again.head.kwargs) == {"k": 3, "path": f"{asked.folder('start')}/x"}
    assert again.head.args[1][0].head.kwargs == (("model", str(asked.folder("stage2"))),)
    assert again.engine.kwargs == (("model", str(asked.folder("stage1"))),)
    assert str(again) == text


MINE = f"""{KILL_AT_FLUSH}
import msgspec
from lexbench.lexmae.data import negatives
from lexbench.lexmae.recipe.settings import Recipe
from lexbench.artifacts.graph import Graph
from lexbench.storage.store import Store
negatives._QUERIES = 1
negatives.mine(msgspec.json.decode(sys.argv[1], type=Recipe), 1, Graph(Store()))
"""


def test_killed_mining_resumes(fast, tmp_path, monkeypatch):
    """A kill -9 costs no finished search; queries searched one at a time give the bytes of all at once."""
    folder, flushes, sync = write(tmp_path / "fruit"), [], atomic.sync

    def asked(name):
        monkeypatch.setenv("LEXBENCH_STORE", str(tmp_path / f"{name}.store"))
        return msgspec.structs.replace(recipe(tmp_path, [folder]), output=str(tmp_path / name))

    mined(asked("whole"))
    monkeypatch.setattr(negatives, "_QUERIES", 1)
    monkeypatch.setattr(atomic, "sync", lambda path: (flushes.append(path), sync(path)))
    mined(asked("calm"))
    text, known = msgspec.json.encode(asked("hurried")).decode(), {}
    for left in (len(flushes) // 2, len(flushes) // 2 - 5):
        done = subprocess.run([fast / "python", "-c", MINE, str(left), text], stderr=subprocess.PIPE, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert known.items() < sealed(tmp_path / "hurried.store").items()
        known = sealed(tmp_path / "hurried.store")
    mined(asked("hurried"))
    assert known.items() <= sealed(tmp_path / "hurried.store").items()

    def files(name):
        return {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}

    assert files("hurried") == files("whole")


def test_mining_uses_the_whole_machine(bert, monkeypatch):
    """A system is searched with the given threads and encoded on all GPUs, unless its expression says otherwise."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    model = f'model="{bert}", query_length=16, document_length=16'
    typed = f'ensemble(bm25, sparse_mlm({model})@impact, sparse_mlm({model}, device="cpu", threads=2)@impact)'
    found = negatives.on_whole_machine(system(typed), threads=4)
    _, plain, named = found.retriever.members

    assert (plain.encoder.device, plain.engine.threads) == ("cuda:0,cuda:1,cuda:2", 4)
    assert (named.encoder.device, named.encoder.threads) == ("cpu", 2)
    assert found.recipe == system(typed).recipe
