"""Edited code never gets the answers of the code before: plug-ins of other packages, objects, and lexbench itself."""

import base64
import hashlib
import inspect
import json
import os
import py_compile
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tiny

import lexbench
from lexbench import Hits, Retriever, Searcher
from lexbench.artifacts.describe import describe, is_lasting
from lexbench.artifacts.graph import Graph
from lexbench.retrievers.bm25 import BM25Searcher
from lexbench.runner import jobs
from lexbench.runner.plan import plan_dataset
from lexbench.storage import code
from lexbench.storage.reading import cached_file_digest
from lexbench.storage.store import Store

ROOT = Path(lexbench.__file__).parents[1]
SEARCH = """
import json
from dataclasses import dataclass

import numpy as np

from lexbench import Hits, Retriever, Searcher
from {words} import words


@dataclass(frozen=True)
class Opened(Searcher):
    texts: list

    def encode(self, queries):
        return [words(query) for query in queries]

    def search(self, encoded, k):
        shared = np.array([[len(set(query) & set(text)) for text in self.texts] for query in encoded], np.float32)
        docs = np.argsort(-shared, axis=1, kind="stable")[:, :k].astype(np.int32)
        return Hits(docs, np.take_along_axis(shared, docs, axis=1))


@dataclass(frozen=True)
class Cheat(Retriever):
    def build(self, corpus, path):
        (path / "texts.json").write_text(json.dumps([words(document.text) for document in corpus.documents()]))

    def open(self, path):
        return Opened(json.loads((path / "texts.json").read_text()))
"""
WORDS = "def words(text):\n    return text.lower().split()\n"
BROKEN = "def words(text):\n    return text.lower().split()[-3:]\n"
MEASURE = """
from dataclasses import dataclass

import numpy as np

from lexbench import Measure


@dataclass(frozen=True)
class Half(Measure):
    cutoff: int | None = None

    def per_query(self, judged):
        return np.full(len(judged.retrieved), 0.5)
"""


@pytest.fixture
def site(tmp_path):
    """Install a package with the retriever `cheat` and the measure `half`; return the folder of its files."""
    entries = {"lexbench.retrievers": ["cheat = cheat.search:Cheat"], "lexbench.measures": ["half = cheat.half:Half"]}
    tiny.install(tmp_path / "site", "cheat", entries)
    files = {"__init__.py": "", "search.py": SEARCH.format(words="cheat.words"), "words.py": WORDS, "half.py": MEASURE}
    for name, text in files.items():
        path = tmp_path / "site" / "cheat" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path / "site" / "cheat"


def environment(*places, store):
    """Return the environment of a process that imports from *places* and uses *store*."""
    path = os.pathsep.join(map(str, [*places, ROOT]))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "LEXBENCH_STORE": str(store),
        "LEXBENCH_OFFLINE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@pytest.fixture
def lexbench_in(fast):
    """Return `ran` with the command that starts fast."""
    return partial(ran, fast / "lexbench")


def ran(lexbench, folder, environment, *words):
    """Run *lexbench* in *folder*; return its exit code, what it printed, and its warnings and notes."""
    command = [lexbench, *map(str, words)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def measured(lexbench_in, folder, environment, bread, system="cheat", measures=("nDCG@10",)):
    """Return the result of *system* on our own collection, and what was said meanwhile."""
    chosen = [word for measure in measures for word in ("-m", measure)]
    ended, out, err = lexbench_in(folder, environment, "run", "dataset", bread, "-r", system, *chosen, "--json")
    assert ended == 0, err
    (result,) = json.loads(out)["results"]
    return result, err


def test_an_edited_plugin_gets_its_own_number(lexbench_in, site, tmp_path, bread):
    """After an edit of a helper module, `run` gives the number of an empty store and says why; the results differ in `code`.

    Until then, a line says that the result is that of other code.
    """
    old, new = (environment(site.parent, store=tmp_path / name) for name in ("store", "empty"))
    before, said = measured(lexbench_in, tmp_path, old, bread)
    assert "has changed" not in said
    (site / "words.py").write_text(BROKEN)
    said = lexbench_in(tmp_path, old, "list", "results")[2]
    assert "the code of cheat:retrievers/cheat has changed since this run; run it again" in said
    after, said = measured(lexbench_in, tmp_path, old, bread)
    fresh, _ = measured(lexbench_in, tmp_path, new, bread)

    assert after["means"] == fresh["means"] != before["means"]
    assert said.count("the code of cheat has changed since it was last run: made again") == 1
    assert after["recipe"]["code"] == fresh["recipe"]["code"] != before["recipe"]["code"]
    assert {**after["recipe"], "code": ""} == {**before["recipe"], "code": ""}


def test_a_recipe_with_the_present_code_is_not_outdated():
    """Only a plug-in whose digest is another one is named, and none that is not installed or has no digest."""
    now = code.code_digest(Sized)
    others = [{"plugin": name, "code": "0"} for name in ("old", "gone")]
    members = [{"plugin": "now", "code": now}, {"plugin": "now"}, *others]
    found = {"now": Sized, "old": Sized}
    assert list(code.outdated({"plugin": "old", "settings": {"members": members}}, found.get)) == ["old"]


@dataclass(frozen=True)
class Sized:
    """A plug-in of this module."""

    size: int = 1


@pytest.mark.slow
def test_a_gate_with_a_restored_store_sees_the_edit(lexbench_in, site, tmp_path, bread):
    """A CI that restores the store of the last build from its cache, for a checkout with an edited plug-in, does not pass."""
    first = environment(site.parent, store=tmp_path / "store")
    assert lexbench_in(tmp_path, first, "gate", "init", "-d", bread, "-r", "cheat")[0] == 0
    assert lexbench_in(tmp_path, first, "gate")[0] == 0
    shutil.copytree(tmp_path / "store", tmp_path / "restored")
    shutil.copytree(site.parent, tmp_path / "checkout")
    second = environment(tmp_path / "checkout", store=tmp_path / "restored")
    made = sorted(path.name for path in (tmp_path / "restored" / "runs").iterdir())
    assert lexbench_in(tmp_path, second, "gate")[0] == 0  # the same code in another folder, with other times
    assert sorted(path.name for path in (tmp_path / "restored" / "runs").iterdir()) == made

    (tmp_path / "checkout" / "cheat" / "words.py").write_text(BROKEN)
    ended, out, _ = lexbench_in(tmp_path, second, "gate")
    assert ended in (1, 2), out
    assert "nDCG@10 fell by" in out


def test_an_edited_measure_gives_new_values(lexbench_in, site, tmp_path, bread):
    """A measure of another package is computed again after an edit, from the same run."""
    place = environment(site.parent, store=tmp_path / "store")
    assert measured(lexbench_in, tmp_path, place, bread, "bm25", ["Half"])[0]["means"] == {"Half": 0.5}
    (site / "half.py").write_text(MEASURE.replace("0.5", "0.25"))
    assert measured(lexbench_in, tmp_path, place, bread, "bm25", ["Half"])[0]["means"] == {"Half": 0.25}
    assert len(list((tmp_path / "store" / "runs").iterdir())) == 1


def digest_of(fast, folder, words):
    """Return the digest of a retriever in one module that imports another, both in *folder*, in a process of its own."""
    folder.mkdir(exist_ok=True)
    (folder / "plugin.py").write_text(SEARCH.format(words="helper"))
    (folder / "helper.py").write_text(words)
    program = "import plugin; from lexbench.storage.code import code_digest; print(code_digest(plugin.Cheat))"
    command = [fast / "python", "-c", program]
    done = subprocess.run(command, env=environment(folder, store=folder), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_module_counts_with_the_modules_it_imports(fast, tmp_path):
    """The digest of a plug-in in one file changes with a module that it imports from beside it, and not with its folder."""
    found = partial(digest_of, fast)
    assert found(tmp_path / "a", WORDS) == found(tmp_path / "b", WORDS) != found(tmp_path / "a", BROKEN)


READS = """
import importlib
import os
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = os.path.dirname(__file__)


@dataclass(frozen=True)
class Reader:
    size: int = 1
    file: str = "unknown.txt"

    def answer(self):
        import lazy_helper
        named = importlib.import_module("named_helper")
        texts = [Path(__file__).with_name("beside.txt"), HERE / "data" / "inside.txt", f"{FOLDER}/ending.txt", "working.txt"]
        return lazy_helper, named, texts, HERE.glob("pattern_*.json")
"""
READ = (
    "beside.txt",
    "data/inside.txt",
    "ending.txt",
    "pattern_1.json",
    "lazy_helper.py",
    "named_helper.py",
    "work/working.txt",
)


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """Return a class whose source names files of data and modules, all of which are there, and the folder of its module."""
    tiny.write_files(tmp_path, {"reader.py": READS, "other.txt": "", **dict.fromkeys(READ, "1")})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path / "work")
    yield import_module("reader").Reader, tmp_path
    del sys.modules["reader"]


@pytest.mark.parametrize("name", READ)
def test_what_the_source_names_counts(reader, name):
    """A file of data, and a module that is imported later, change the digest of a plug-in if they are named in its source."""
    cls, folder = reader
    before = code.code_digest(cls)
    (folder / "other.txt").write_text("2")
    assert code.code_digest(cls) == before
    (folder / name).write_text("2")
    assert code.code_digest(cls) != before


@pytest.mark.parametrize(("before", "stale"), [("size: int = 2", True), ("size: int = 1", False)])
def test_code_that_python_compiled_before_an_edit_counts(reader, before, stale):
    """An edit that keeps the size and the second of a source is not run; what runs has another digest than the source."""
    cls, folder = reader
    source, of_source = folder / "reader.py", code.code_digest(cls)
    second = int(source.stat().st_mtime)
    source.write_text(READS.replace("size: int = 1", before))
    os.utime(source, (second, second))
    py_compile.compile(str(source), doraise=True)
    source.write_text(READS)
    os.utime(source, (second, second))
    assert (code.code_digest(cls) != of_source) is stale
    os.utime(source, (second + 1, second + 1))
    assert code.code_digest(cls) == of_source


@pytest.mark.parametrize("name", ["beside.txt", "data"])
def test_a_file_or_folder_that_a_setting_names_counts(reader, name):
    """A plug-in of another package need not have `identity` to be known by the content of what its settings name."""
    cls, folder = reader
    (folder / "settings").mkdir()
    place = shutil.copytree(folder / "data", folder / "settings" / "data").parent / name
    place.exists() or place.write_text("1")
    before = describe(cls(file=str(place)))
    assert describe(cls(file=str(place))) == before
    (place / "inside.txt" if place.is_dir() else place).write_text("2")
    assert describe(cls(file=str(place))) != before
    assert "files" not in describe(cls(file=str(Path.cwd())))


@pytest.mark.parametrize("name", ["nowhere", "notebook"])
def test_a_class_without_a_file_is_another_one_in_each_session(monkeypatch, name):
    """A plug-in that was typed at a prompt or in a notebook may use what is redefined later, so nothing of it is reused."""
    space = vars(ModuleType(name))
    exec("from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Typed:\n    size: int = 1\n", space)
    if name == "notebook":  # where Python finds the source of a cell
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setattr(inspect, "getsource", lambda _cls: "class Typed: ...")

    assert not is_lasting(describe(space["Typed"]()))


def made(number):
    """Return a plug-in of a class that is made anew and knows *number*, which is no setting."""

    @dataclass(frozen=True)
    class Made:
        size: int = 1

        def answer(self):
            return number

    return Made()


def test_a_class_that_a_function_makes_is_another_one_in_each_session():
    """Two classes of one function may have other variables, although their source and settings are the same."""
    one, other = made(1), made(2)

    assert describe(one) == describe(one) != describe(other)
    assert not is_lasting(describe(one))


# ---- lexbench itself -------------------------------------------------------------------------------------------------------


def own_copy(place):
    """Copy the code of lexbench, also compiled, without weights, into the folder *place*; return it."""
    shutil.copytree(ROOT / "lexbench", place / "lexbench", ignore=shutil.ignore_patterns("*.safetensors", "*pytest*.pyc"))
    return place


def recipes(place, **variables):
    """Return the key facts of bm25 and of the code that scores, by the lexbench in *place*, in a process of its own."""
    program = (
        "import json; from lexbench.runner.systems import system; from lexbench.storage.code import code_facts\n"
        "print(json.dumps([system('bm25').recipe, code_facts('lexbench.runner.scoring')]))"
    )
    variables = {**os.environ, "PYTHONPATH": str(place), **variables}
    done = subprocess.run([sys.executable, "-c", program], cwd=place, env=variables, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def edit(path):
    """Append a line to a source file."""
    path.write_text(path.read_text() + "\n# edited\n")


def git(folder, *words):
    """Run git in *folder*; return what it prints. Without git, the test skips."""
    if not shutil.which("git"):
        pytest.skip("needs git, to make a clone")
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_a_clone_without_changes_has_the_keys_of_the_release(tmp_path):
    """In a clone, code counts only if it differs from git's index and the plug-in imports it. No `git` is needed to see it."""
    clone = own_copy(tmp_path / "clone")
    git(clone, "init", "-q")
    git(clone, "add", "lexbench", ":!*.pyc")
    released = {"plugin": "retrievers/bm25", "version": 2, "settings": {"k1": 0.9, "b": 0.4, "ties": "anserini"}}
    for name in ("cli/run", "encoders/dense", "measures/_scores"):
        edit(clone / f"lexbench/{name}.py")
    bm25, scoring = recipes(clone, PATH="")
    assert (bm25, scoring.keys()) == (released, {"code"})

    git(clone, "add", "lexbench/measures")  # a change that is staged counts as released
    edit(clone / "lexbench/retrievers/_bm25_terms.py")
    bm25, scoring = recipes(clone, PATH="")
    assert {**bm25, "code": ""} == {**released, "code": ""}
    assert (len(bm25["code"]), scoring) == (16, {})


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_index_of_git_is_read(tmp_path, version):
    """Each version of the index gives what git itself lists; the third has more flags, the fourth shortens paths."""
    tiny.write_files(tmp_path, {f"lexbench/{name}.py": name for name in ("a", "ab", "b/long_name", "b/long_other", "ü")})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "lexbench")
    if version == 3:
        (tmp_path / "later.py").write_text("")
        git(tmp_path, "add", "--intent-to-add", "later.py")
    git(tmp_path, "update-index", "--index-version", str(version))
    content = (tmp_path / ".git" / "index").read_bytes()
    rows = [row.split(maxsplit=3) for row in git(tmp_path, "ls-files", "--stage", "-z").split("\0")[:-1]]

    assert content[7] == version
    assert list(code.read_git_index(content)) == [(path, blob) for _, blob, _, path in rows]


@pytest.mark.slow
def test_durations_depend_on_released_code_too(tmp_path):
    """The digest for keys of timings changes with every file that a plug-in imports, released or not, and with no other."""
    place = own_copy(tmp_path)
    program = "from lexbench.storage.code import source_digest; print(source_digest(['lexbench.retrievers.bm25']))"

    def found():
        variables = environment(store=place) | {"PYTHONPATH": str(place)}
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd=place, env=variables, capture_output=True, text=True, check=True)
        return done.stdout

    first = found()
    edit(place / "lexbench/cli/run.py")
    edit(place / "lexbench/encoders/dense.py")
    assert found() == first
    edit(place / "lexbench/retrievers/_bm25_search.py")
    assert found() != first


def test_an_edited_installation_is_no_release(tmp_path):
    """A file of a wheel that was edited after its installation counts; without a record of the wheel, every file does."""
    place = own_copy(tmp_path / "site")
    assert recipes(place)[0]["code"]
    rows = []
    for path in sorted((place / "lexbench").rglob("*.py")):
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
        rows.append(f"{path.relative_to(place)},sha256={digest},{path.stat().st_size}")
    info = place / "lexbench-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lexbench\nVersion: 9\n")
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    bm25, scoring = recipes(place)
    assert "code" not in bm25
    assert scoring == {}
    edit(place / "lexbench/retrievers/bm25.py")
    assert recipes(place)[0]["code"]


def test_what_is_no_index_of_git_is_refused():
    """Other bytes raise ValueError, so that the files count as changed."""
    with pytest.raises(ValueError, match="no index of git"):
        list(code.read_git_index(b"DIRX" + bytes(8)))


# ---- files that change while they are used ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Changing(Retriever):
    """A plug-in of a file, which becomes another one in a step."""

    file: str
    at: str

    def identity(self):
        """Return the digest of the file."""
        return {"file": cached_file_digest(Path(self.file))}

    def build(self, corpus, path):
        """Write the number of documents."""
        (path / "count.json").write_text(json.dumps(len(corpus)))
        self.change("build")

    def open(self, path):
        """Return a searcher that always finds the first documents."""
        return Finding(self, json.loads((path / "count.json").read_text()))

    def change(self, step):
        """Write another content into the file."""
        if step == self.at:
            Path(self.file).write_text("2")


@dataclass(frozen=True)
class Finding(Searcher):
    """Finds the first documents for every query."""

    plugin: Changing
    documents: int

    def encode(self, queries):
        """Return the queries."""
        self.plugin.change("search")
        return list(queries)

    def search(self, encoded, k):
        """Return the first documents."""
        docs = np.arange(min(k, self.documents), dtype=np.int32)
        return Hits(np.tile(docs, (len(encoded), 1)), np.ones((len(encoded), len(docs)), np.float32))


@pytest.mark.parametrize("step", ["build", "search", "never"])
def test_files_that_change_while_they_are_used_give_no_artifact(tmp_path, bread, step):
    """A model folder that a training overwrites meanwhile fails in one line, and nothing of it is kept."""
    (tmp_path / "model.txt").write_text("1")
    store = Store(tmp_path / "store")
    plan = plan_dataset(str(bread), {"changing": Changing(str(tmp_path / "model.txt"), step)}, ["nDCG@10"], 10)
    (outcome,) = jobs.run(plan, store)
    kept = {path.parent.parent.name for path in store.root.glob("*/*/manifest.json")}
    assert (
        kept - {"corpora", "queries"} == {"build": set(), "search": {"indexes"}, "never": {"indexes", "runs", "results"}}[step]
    )
    assert not list(store.root.glob("*/*/part-*"))
    assert step == "never" or "files that it is made from changed meanwhile; give the same command again" in outcome.error


# ---- functions that are replaced at run time -------------------------------------------------------------------------------


def test_a_function_that_a_process_replaces_is_named_and_nothing_is_kept(tmp_path, bread, monkeypatch):
    """A notebook or a sitecustomize.py may change what lexbench does without a change of any file."""
    store, plan = Store(tmp_path / "store"), plan_dataset(str(bread), ["bm25"], ["nDCG@10"], 10)
    assert code.replaced() == []
    (honest,) = jobs.run(plan, store)
    kept = sorted(store.root.glob("*/*/manifest.json"))
    search = BM25Searcher.search
    monkeypatch.setattr(jobs, "replaced", code.replaced)
    monkeypatch.setattr(BM25Searcher, "search", wraps(search)(lambda self, encoded, k: worse(search(self, encoded, k))))
    (other,) = jobs.run(plan, store)
    name = f"{search.__module__}.{search.__qualname__}"
    assert code.replaced() == [name]
    assert other.result.means != honest.result.means
    assert f"this process has replaced {name}, which no digest of code shows" in [note.text for note in other.result.notes]
    assert sorted(store.root.glob("*/*/manifest.json")) == kept
    assert not list(store.root.glob("sessions/*/*/*/manifest.json"))


def worse(hits):
    """Return for each query what was found for another one."""
    return Hits(hits.docs[::-1], hits.scores[::-1])


def test_a_plug_in_with_a_function_of_others_is_another_one_in_each_session(reader, monkeypatch):
    """Nobody can know a plug-in again whose functions another module has replaced, whatever its own files say."""
    cls, _ = reader
    assert is_lasting(describe(cls()))
    monkeypatch.setattr(cls, "answer", lambda _self: "something else")
    assert not is_lasting(describe(cls()))


@pytest.mark.parametrize("change", [property(lambda _self: 1), classmethod(lambda _cls: 1), type("Other", (), {})])
def test_a_property_a_method_or_a_class_that_is_replaced_is_named(monkeypatch, change):
    """Not only plain functions decide what lexbench does."""
    monkeypatch.setattr(Graph, "replacement", change, raising=False)
    assert code.replaced() == [f"{Graph.__module__}.Graph.replacement"]
