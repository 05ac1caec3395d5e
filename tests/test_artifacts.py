"""Artifacts as nodes: their keys, what a plan says of them, the disk they need, and what no other process can use."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tiny
from safetensors.numpy import load_file, save_file
from tiny import answer, ended, produced

import lexbench
from lexbench import registry
from lexbench.artifacts.describe import describe, is_lasting
from lexbench.artifacts.graph import Graph
from lexbench.artifacts.searches import Search
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.errors import CannotStart, NotEnoughDisk
from lexbench.plugins import Engine, Retriever
from lexbench.retrievers.bm25 import BM25
from lexbench.runner import jobs, plan
from lexbench.runner.search import SystemRun, data_of, read_run
from lexbench.runner.systems import system
from lexbench.storage.artifact_folder import seal
from lexbench.storage.drafting import Draft
from lexbench.storage.node import Node, Parts, Stored
from lexbench.storage.store import Store

TEXTS = {f"d{number}": f"fox {'quick ' * number}dog" for number in range(6)}
JUDGED = [("q1", "d1", 1), ("d5", "d4", 1)]
PROGRAM = """
import json, sys
for line in sys.stdin:
    query = json.loads(line)
    print(json.dumps({"qid": query["qid"], "docs": [["d1", 2.0], ["d2", 1.0]][: query["k"]]}), flush=True)
"""


@pytest.fixture
def folder(tmp_path):
    """Write six documents and two queries; the second has the id of a document."""
    return tiny.write(tmp_path / "data", TEXTS, {"q1": "fox", "d5": "quick fox"}, JUDGED)


# ---- keys ------------------------------------------------------------------------------------------------------------------


def every_plugin():
    """Yield every plug-in class that can be loaded, by group and name."""
    for group in registry.PACKAGES:
        for name in registry.names(group):
            try:
                yield group, name, registry.load(group, name)
            except CannotStart:  # its extra is not installed
                continue


def other(value):
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, tuple | list):
        return (*value, BM25(k1=3.0))
    return BM25(k1=2.0)


SETTINGS = [
    pytest.param(cls, id=f"{group}/{name}") for group, name, cls in every_plugin() if hasattr(cls, "__dataclass_fields__")
]


@pytest.mark.parametrize("cls", SETTINGS)
def test_every_setting_is_in_the_key_or_changes_no_answer(cls, monkeypatch):
    """Another value of a field gives other key facts, unless the field is declared as one that cannot change answers.

    The key facts of an index may also be without the fields that only searching uses.
    """
    monkeypatch.setattr("lexbench.artifacts.describe.digests", lambda *_, **__: {})  # of files, which are not here

    def made(**values):
        plugin = object.__new__(cls)
        for item in fields(cls):
            default = item.default_factory() if item.default_factory is not MISSING else item.default
            object.__setattr__(plugin, item.name, "text" if default is MISSING else default)
        for name, value in values.items():
            object.__setattr__(plugin, name, value)
        return plugin

    for index in (False, True):
        free, before = {"runtime", "search"} if index else {"runtime"}, describe(made(), index=index)
        for changed in (item for item in fields(cls) if item.init):
            after = describe(made(**{changed.name: other(getattr(made(), changed.name))}), index=index)
            assert (after == before) == bool(free & set(changed.metadata)), changed


def test_the_key_facts_of_corpora_and_vectors_have_the_recorded_form(folder, tmp_path):
    """Nobody reads or encodes a corpus again because of a change of the graph: the names of their key facts are these."""
    (outcome,) = jobs.run(plan.plan_dataset(str(folder), ["lexmae_nano@impact"], ["nDCG@5"], 5), Store(tmp_path / "store"))
    assert outcome.error is None
    (corpus,), (vectors,) = ((tmp_path / "store" / kind).glob("*-*") for kind in ("corpora", "encodings"))

    assert {"format", "source"} == Stored(corpus).facts.keys() - {"code"}
    assert {"format", "corpus", "encoder"} == Stored(vectors).facts.keys()


def test_objects_of_classes_without_a_module_are_described():
    """A class that `exec` made has no module: its objects are known in this session alone, and run."""
    space = {}
    exec("class Bare:\n    def search(self, queries, k): return {query: {'d1': 1.0} for query in queries}", space)
    space["Bare"].__module__ = None
    made = system(space["Bare"]())

    assert not made.reusable
    assert not is_lasting(made.recipe)


# ---- the graph -------------------------------------------------------------------------------------------------------------


class Word(Node):
    """A text that is written once for all nodes with these settings."""

    kind = "words"

    def __init__(self, text, *parts, fails=False):
        self.text, self.given, self.fails, self.made = text, parts, fails, 0

    def parts(self):
        """Return the others."""
        return {f"part {number}": part for number, part in enumerate(self.given)}

    def facts(self):
        """Return the text."""
        return {"text": self.text}

    def bytes_needed(self):
        """Return a number."""
        return 100

    def make(self, draft, parts):
        """Write the text after those of the parts."""
        self.made += 1
        if self.fails:
            raise ValueError(self.text)
        (draft.folder / "text").write_text("".join(parts.values()) + self.text)

    def open(self, stored, parts):
        """Read it."""
        return (stored.folder / "text").read_text()


def test_parts_are_made_once_and_opened_when_asked_for(tmp_path):
    """A part that two nodes share is made once. Another process opens what is there and makes nothing."""
    shared, graph = Word("a"), Graph(Store(tmp_path))
    both = Word("d", Word("b", shared), Word("c", shared))
    assert graph.open(both) == "abacd"
    assert shared.made == 1

    later = Word("d", Word("b", again := Word("a")), Word("c", again))
    assert Graph(Store(tmp_path)).open(later) == "abacd"
    assert (later.made, again.made) == (0, 0)
    assert Graph(Store(tmp_path)).key(later) == graph.key(both)
    opened = []
    parts = Parts({"a": both, "b": both}, {"a": None, "b": None}, lambda node, _place: opened.append(node) or "x")
    assert (parts["a"], parts["a"], len(opened), list(parts)) == ("x", "x", 1, ["a", "b"])


def test_a_plan_counts_each_missing_artifact_once(tmp_path):
    """What is there costs nothing, and neither does what only making it would need."""
    shared, graph = Word("a"), Graph(Store(tmp_path))
    both = Word("d", Word("b", shared), Word("c", shared))
    assert [(step.finished, step.bytes) for step in Graph(graph.store, dry=True).plan([both, both]).values()] == [
        (False, 100)
    ] * 4
    graph.open(both)

    assert [(step.finished, step.bytes) for step in Graph(Store(tmp_path), dry=True).plan([both]).values()] == [(True, 0)]
    new = Word("e", both)
    assert sum(step.bytes for step in Graph(Store(tmp_path), dry=True).plan([new]).values()) == 100


def test_a_retriever_names_its_parts(folder, tmp_path):
    """A retriever has at most twelve members; members that share an index make it once, whatever else they are made of."""
    members = [name for name in vars(Retriever) if not name.startswith("__")]
    assert len(members) <= 12, members

    nested = "ensemble(bm25, ensemble(bm25(k1=2.0), pipeline(bm25, bm25(b=0.1), k=1000)))"
    with Graph(Store(tmp_path / "store")) as graph:
        data = data_of(open_dataset(*find_dataset(str(folder))))
        graph.open(Search(data.corpus, system(nested).retriever))
    assert len(list((tmp_path / "store" / "indexes").iterdir())) == 1


def test_blocks_are_joined_in_order(tmp_path):
    """The items that are left are done, in any number of turns, and their arrays come in the order of the items."""
    for left in (3, 1):
        blocks = list(Draft(tmp_path).blocks(range(7), 3, "x", "search", "queries"))
        assert len(blocks) == left
        for block in blocks[-2:]:
            Draft(tmp_path).keep(block, {"docs": np.array([[one] * (1 + len(block.items)) for one in block.items])})
    for block in Draft(tmp_path).blocks(range(7), 3, "x", "search", "queries"):
        Draft(tmp_path).keep(block, {"docs": np.array([[one] for one in block.items])})
    docs = Draft(tmp_path).joined(7, 3)["docs"]

    assert docs[:, 0].tolist() == list(range(7))
    assert docs[6].tolist() == [6, 6, -1, -1]
    Draft(tmp_path).forget_blocks()
    assert list(tmp_path.iterdir()) == []


def test_a_corpus_is_checked_whenever_it_is_opened(folder, tmp_path):
    """A corpus that was kept under an older contract is another one now, although its run and result are there."""
    (folder / "contract.toml").write_text(DROPPING)
    planned = plan.plan_dataset(str(folder), ["bm25"], ["nDCG@2"], 2)
    (first,) = jobs.run(planned, Store(tmp_path / "store"))
    (folder / "contract.toml").write_text(DROPPING.replace("documents = 6", "documents = 7"))
    (second,) = jobs.run(plan.plan_dataset(str(folder), ["bm25"], ["nDCG@2"], 2), Store(tmp_path / "store"))

    assert first.error is None
    assert "documents: 7 expected, 6 found" in second.error


# ---- self-matches ----------------------------------------------------------------------------------------------------------

DROPPING = """
schema = 1
id = "selves/test"
version = 1
name = "selves"
description = "-"
corpus = "selves"
[source]
loader = "files"
split = "test"
[text]
document = "title_text"
[protocol]
self_match = "drop"
[expected]
documents = 6
"""


@pytest.mark.parametrize("expression", ["bm25", "ensemble(bm25, bm25(k1=2.0))", "passages(bm25, words=3)"])
def test_lists_are_full_although_self_matches_are_dropped(folder, tmp_path, expression):
    """A search asks for one document more than is kept, so that a list from which the query's own is dropped is full."""
    (folder / "contract.toml").write_text(DROPPING)
    (outcome,) = jobs.run(plan.plan_dataset(str(folder), [expression], ["nDCG@2"], 2), Store(tmp_path / "store"))
    assert outcome.error is None
    run = read_run(outcome.kept).run
    found = {run.table[doc] for doc in run.docs[run.offsets[0] : run.offsets[1]]}  # of the query d5

    assert run.query_ids == ("d5", "q1")
    assert len(found) == 2
    assert b"d5" not in found


# ---- the disk --------------------------------------------------------------------------------------------------------------


class Usage(NamedTuple):
    """What `shutil.disk_usage` returns."""

    total: int
    used: int
    free: int


def test_the_disk_check_counts_what_is_missing(folder, tmp_path, monkeypatch):
    """Whatever else is in the store, what is missing has to fit: all of it, nothing of it, or the run alone."""
    store, planned = Store(tmp_path / "store"), plan.plan_dataset(str(folder), ["bm25"], ["nDCG@5"], 5)
    free = [0]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, free[0]))

    def fits(count):
        free[0] = count
        try:
            return [outcome.error for outcome in jobs.run(planned, store)] == [None]
        except NotEnoughDisk:
            return False

    needed = sum(step.bytes for step in planned.steps(store, {}))
    assert needed > 0
    assert not fits(needed - 1)  # an empty store
    foreign = tmp_path / "store" / "encodings" / "other-0123456789abcdef" / "shard-00000.safetensors"
    foreign.parent.mkdir(parents=True)
    with foreign.open("wb") as file:
        file.truncate(10**9)
    assert not fits(needed - 1)  # a foreign gigabyte
    assert fits(needed + 10**8)
    assert fits(0)  # everything is there
    shutil.rmtree(next((store.root / "runs").iterdir()))
    store, (run,) = Store(store.root), [step for step in planned.steps(Store(store.root), {}) if not step.finished]
    assert 0 < run.bytes < needed
    assert not fits(run.bytes - 1)  # almost everything is there
    assert fits(run.bytes)


def test_a_dry_run_says_what_is_there(folder, store, capsys):
    """The list has every artifact once, and whether it is there."""
    before = answer(capsys, "run", "dataset", folder, "-r", "bm25", "-r", "bm25(k1=2.0)", "--dry-run", "--json")
    assert [(one["kind"], one["there"]) for one in before["artifacts"]] == [
        ("corpora", False), ("indexes", False), ("runs", False), ("runs", False),
    ]  # fmt: skip
    assert not store.root.exists()
    ended(capsys, 0, "run", "dataset", folder, "-r", "bm25")
    after = ended(capsys, 0, "run", "dataset", folder, "-r", "bm25", "--dry-run").out
    assert after.count("there") == 3
    assert "at most about 0.0 MB of disk; nothing was run." in after


# ---- what no other process can use -----------------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path):
    """Return the expression of a program without a revision."""
    (tmp_path / "search.py").write_text(PROGRAM)
    return f'command("{sys.executable} {tmp_path / "search.py"}")'


def left(root):
    """Return the folders of artifacts in a store, finished or not."""
    return sorted(
        path.relative_to(root).as_posix().rpartition("-")[0]
        for path in [*root.glob("*/*"), *root.glob("sessions/*/*/*")]
        if path.is_dir() and path.parent.parent.name != "sessions"
    )


def test_systems_of_one_session_leave_nothing_behind(folder, store, program, capsys):
    """Programs without a revision, also failing ones, leave the corpus alone; their results are shown."""
    assert "d1" not in ended(capsys, 0, "run", "dataset", folder, "-r", program, "-m", "nDCG@10").out
    failing = program.replace("search.py", "nothing.py")
    ended(capsys, 1, "run", "dataset", folder, "-r", failing, "-m", "nDCG@10")

    assert left(store.root) == ["corpora/data"]
    assert list((store.root / "checked").iterdir()) == list((store.root / "checked").glob("corpora-*"))
    assert list((store.root / "sessions").iterdir()) == []
    assert ended(capsys, 0, "store", "remove", "--unreachable").out.startswith("0 artifacts")


def test_what_a_killed_session_left_is_removed_at_the_next_start(folder, store, program, capsys):
    """A process is killed between its blocks; the next command removes its session, and not those of living processes."""
    killed = (
        "import os; from lexbench.runner import search; from lexbench import cli\n"
        "search.write_run = lambda *_: os._exit(9)\n"
        f"cli.main(['run', 'dataset', {str(folder)!r}, '-r', {program!r}])"
    )
    done = subprocess.run([sys.executable, "-c", killed], capture_output=True, check=False)
    assert done.returncode == 9
    assert len(list((store.root / "sessions").iterdir())) == 1
    mine = store.session()

    ended(capsys, 0, "run", "dataset", folder, "-r", "bm25")
    assert [path.name for path in (store.root / "sessions").iterdir()] == [mine.store.root.name]
    mine.close()
    assert list((store.root / "sessions").iterdir()) == []


@dataclass(frozen=True)
class Elsewhere(Engine):
    """An engine that keeps a file in *place*, as others keep a collection on a server."""

    place: str = ""
    kind = lexbench.Kind.SPARSE
    exact = True

    def build(self, shards, path):
        """Write a file elsewhere, and its name here."""
        list(shards)
        (Path(self.place) / path.parent.name).write_text("collection")
        (path / "name").write_text(path.parent.name)

    def drop(self, path):
        """Remove the file, finished or not."""
        name = (path / "name").read_text() if (path / "name").exists() else path.parent.name
        (Path(self.place) / name).unlink()


def test_what_engines_keep_elsewhere_goes_with_the_index(tmp_path, monkeypatch):
    """Removing an index, finished or not, calls the engine's `drop`; if that fails, a line says so, and the folder goes."""
    from lexbench.artifacts.removal import UNFINISHED, remove

    monkeypatch.setattr(registry, "find", lambda _: Elsewhere)
    (tmp_path / "server").mkdir()
    engine, store = Elsewhere(str(tmp_path / "server")), Store(tmp_path / "store")
    facts = {"retriever": {"plugin": "retrievers/encoded", "settings": {"engine": describe(engine)}}}

    def build(path):
        (path / "engine").mkdir()
        engine.build((), path / "engine")

    folder = produced(store, "indexes", "data", facts, build)
    assert len(list((tmp_path / "server").iterdir())) == 1
    assert remove(store, folder) == ""
    assert not folder.exists()
    draft = store.root / "indexes" / "0123456789abcdef.draft"
    (draft / "engine").mkdir(parents=True)
    engine.build((), draft / "engine")
    (draft / UNFINISHED).write_text(json.dumps(describe(engine)))
    assert remove(store, draft) == ""
    assert list((tmp_path / "server").iterdir()) == []
    gone = produced(store, "indexes", "data", facts, build)
    next((tmp_path / "server").iterdir()).unlink()
    assert "what its engine keeps elsewhere is left there" in remove(store, gone)
    assert not gone.exists()


# ---- the store as a list ---------------------------------------------------------------------------------------------------


def test_the_list_shows_what_uses_what(folder, store, monkeypatch, capsys):
    """Each artifact comes once, with its users; removing one removes these too, and never what others use."""
    systems = ["-r", "bm25", "-r", "bm25(k1=2.0)", "-r", "lexmae_nano@impact"]
    ended(capsys, 0, "run", "dataset", folder, *systems)
    listed = answer(capsys, "store", "list", "--json")["artifacts"]
    kinds = [one["name"].partition("/")[0] for one in listed]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "corpora": 1, "encodings": 1, "indexes": 2, "runs": 3, "results": 3,
    }  # fmt: skip
    lexical = next(one for one in listed if one["label"] == "data-bm25")
    assert len(lexical["used_by"]) == 2

    planned = answer(capsys, "store", "remove", "lexmae_nano@impact", "--dry-run", "--json")["artifacts"]
    assert sorted(one["name"].partition("/")[0] for one in planned) == ["encodings", "indexes", "results", "runs"]
    assert len(answer(capsys, "store", "list", "--json")["artifacts"]) == 10
    with monkeypatch.context() as read_only:
        read_only.setattr(os, "access", lambda *_: False)  # root can write anywhere
        said = ended(capsys, 3, "store", "remove", "lexmae_nano@impact").err
        assert said.endswith("(no permission); nothing was removed\n")
    ended(capsys, 0, "store", "remove", "lexmae_nano@impact")
    ended(capsys, 0, "store", "remove", "bm25(k1=2.0)")
    assert len(answer(capsys, "store", "list", "--json")["artifacts"]) == 4
    assert "no dataset, system or artifact 'bm52'" in ended(capsys, 3, "store", "remove", "bm52").err
    ended(capsys, 0, "store", "remove", "data")
    assert answer(capsys, "store", "list", "--json")["artifacts"] == []


def test_unreachable_artifacts_are_those_of_no_result(folder, store, capsys):
    """Runs and indexes whose result is gone, and drafts of killed commands, are unreachable; vectors and corpora are kept."""
    ended(capsys, 0, "run", "dataset", folder, "-r", "lexmae_nano@impact")
    (store.root / "indexes" / "0123456789abcdef.draft").mkdir()
    for path in (store.root / "results").iterdir():
        shutil.rmtree(path)
    gone = answer(capsys, "store", "remove", "--unreachable", "--json")["artifacts"]

    assert sorted(one["name"].partition("/")[0] for one in gone) == ["indexes", "indexes", "runs"]
    assert sorted(one["name"].partition("/")[0] for one in answer(capsys, "store", "list", "--json")["artifacts"]) == [
        "corpora", "encodings",
    ]  # fmt: skip


def test_a_check_reads_everything_and_makes_results_again(folder, store, capsys):
    """A changed byte is named; a result that another system would have is found by making it again."""
    ended(capsys, 0, "run", "dataset", folder, "-r", "bm25")
    assert "the same when made again" in ended(capsys, 0, "store", "check", "--recompute", "3").out
    assert "4 of 4 artifacts are intact" in ended(capsys, 0, "store", "check").out
    assert [path.name for path in store.root.iterdir() if path.name.startswith("tmp")] == []

    file = next(store.root.glob("indexes/*/postings.bin"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    os.utime(file, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    done = ended(capsys, 1, "store", "check", "--json").out
    assert "postings.bin has changed since it was written" in done


def test_a_check_finds_results_that_come_out_differently(folder, store, capsys):
    """A result that was changed together with its manifest is intact, and another one when it is made again."""
    ended(capsys, 0, "run", "dataset", folder, "-r", "bm25", "-m", "nDCG@10")
    (made,) = (store.root / "results").iterdir()
    facts, result = Stored(made).facts, json.loads((made / "result.json").read_bytes())
    result["per_query"]["nDCG@10"], result["means"]["nDCG@10"] = [1.0, 1.0], 1.0
    result |= {"ties": {}, "incomplete": {}}
    (made / "manifest.json").unlink()
    (made / "result.json").write_text(json.dumps(result))
    seal(made, "results", facts)

    assert "4 of 4 artifacts are intact" in ended(capsys, 0, "store", "check").out
    checked = json.loads(ended(capsys, 1, "store", "check", "--recompute", "1", "--json").out)
    assert [one["fault"] for one in checked["recomputed"]] == ["its values of nDCG@10 differ when it is made again"]


def test_a_check_finds_vectors_of_other_documents(folder, store, capsys):
    """Vectors that were changed together with their manifest are intact, and others when documents are encoded again."""
    for name, ids in (("documents", TEXTS), ("queries", ["q1", "d5"])):
        np.savez(folder / f"{name}.npz", ids=list(ids), vectors=np.eye(len(ids), 6, dtype=np.float32))
    looked_up = f"""dense_vectors(documents="{folder / "documents.npz"}", queries="{folder / "queries.npz"}")@flat"""
    ended(capsys, 0, "run", "dataset", folder, "-r", looked_up, "-m", "nDCG@10")
    assert "the same when made again" in ended(capsys, 0, "store", "check", "--recompute", "1").out
    (made,) = (store.root / "encodings").iterdir()
    facts, shard = Stored(made).facts, made / "shard-00000.safetensors"
    arrays = load_file(shard)
    save_file(arrays | {"vectors": arrays["vectors"][::-1].copy()}, shard)
    (made / "manifest.json").unlink()
    seal(made, "encodings", facts)

    checked = json.loads(ended(capsys, 1, "store", "check", "--recompute", "1", "--json").out)
    fault = "the vectors of data DenseVectors differ when some are made again; remove its encoding"
    assert [one["fault"] for one in checked["recomputed"]] == [fault]


def test_a_check_finds_a_corpus_of_other_texts(folder, store, capsys):
    """Texts that were changed together with their manifest are intact, and not those of the fingerprint in results."""
    ended(capsys, 0, "run", "dataset", folder, "-r", "bm25", "-m", "nDCG@10")
    (made,) = (store.root / "corpora").iterdir()
    facts, texts = Stored(made).facts, (made / "texts.bin").read_bytes()
    (made / "texts.bin").write_bytes(texts.replace(b"quick", b"slow!"))
    (made / "manifest.json").unlink()
    seal(made, "corpora", facts)

    checked = json.loads(ended(capsys, 1, "store", "check", "--recompute", "1", "--json").out)
    assert [one["fault"] for one in checked["recomputed"]] == [
        "the texts of data are not those of its fingerprint; remove its corpus"
    ]


def test_results_of_another_version_are_listed(folder, store, capsys):
    """A result whose key facts have another form, e.g. of its run, is shown without what its run adds."""
    ended(capsys, 0, "run", "dataset", folder, "-r", "bm25", "-m", "nDCG@10")
    (made,) = (store.root / "results").iterdir()
    content = (made / "result.json").read_bytes()
    produced(store, "results", "other", {"run": "0123456789abcdef"}, lambda path: (path / "result.json").write_bytes(content))
    assert len(answer(capsys, "list", "results", "--json")) == 1


# ---- jobs that were not timed ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("store")
def test_a_job_that_was_not_timed_fails_the_command(folder, tmp_path, capsys):
    """A run file has scores and no time: the command says so on stderr and ends with 1."""
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 1.0 x\nd5 Q0 d4 1 1.0 x\n")
    done = ended(capsys, 1, "run", "dataset", folder, "-r", tmp_path / "a.run", "-m", "nDCG@10", "--time")

    assert "1.0000" in done.out
    assert "not timed: " in done.err
    assert "is a finished run, so there is no search to time" in done.err


@pytest.mark.usefixtures("store")
def test_a_run_says_that_a_session_keeps_nothing(folder, program, capsys):
    """The user reads once that nothing of a program without a revision is kept, and what to type."""
    assert ended(capsys, 0, "run", "dataset", folder, "-r", program).err.count("name a revision") == 1
    assert SystemRun.kind == "runs"
