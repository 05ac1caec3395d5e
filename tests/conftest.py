"""Fixtures of several test files."""

import gc
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

settings.register_profile("lexbench", deadline=None, max_examples=50)  # a busy machine is no fault of the code
settings.load_profile("lexbench")

# Tests run side by side, one core each, so libraries use one thread, also in the processes that tests start. This must come
# before numpy, numba or torch is imported.
for _library in ("OMP", "MKL", "OPENBLAS", "RAYON"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

from forking import FORKING, PRELOADED, commands  # noqa: E402 - threads first
from tiny import enter, install, measure_here  # noqa: E402

from lexbench import contracts  # noqa: E402
from lexbench.storage.store import Store  # noqa: E402

multiprocessing.set_forkserver_preload(
    [f"lexbench.{name}" for name in ("testing.engines", "testing._letters", "engines.sharded")]
)
_LONGEST = ("test_docs.py", "test_lexmae_training.py", "test_pgvector.py", "test_milvus.py")
DATA = Path(__file__).parent / "data"
SHARED = Path(os.environ.get("LEXBENCH_SHARED") or Path(__file__).parents[2] / "shared")  # real collections
REAL = SHARED / "data" / "ir_datasets_home"  # SciFact and NFCorpus, as ir_datasets keeps them


def writable_copy(folder, place) -> Path:
    """Copy a folder, which may be read-only, to *place*, and return *place*."""
    shutil.copytree(folder, place)
    for path in (place, *(path for path in place.rglob("*") if path.is_dir())):
        path.chmod(0o755)
    return place


def pytest_configure(config) -> None:
    """Start the commands of `forking`, which the processes of pytest-xdist share."""
    if not hasattr(config, "workerinput"):  # which those processes have
        stack = ExitStack()
        config.add_cleanup(stack.close)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="forking-")))
        for name in PRELOADED:
            stack.enter_context(commands(folder / name))
        os.environ[FORKING] = str(folder)


def pytest_collection_modifyitems(items) -> None:
    """Start with the files that take longest, so that parallel processes end at about the same time."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Let the garbage collector pass over tests and libraries, which stay to the end."""
    gc.disable()
    done = yield
    gc.freeze()
    gc.enable()
    return done


@pytest.fixture(scope="session", autouse=True)
def quick_disk():
    """Let the system write files to the disk when it likes: no test cuts the power, and a third of some files was waiting."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _handle: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def own_store(tmp_path_factory):
    """Give tests that name no store a temporary one, so that they neither read nor change the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEXBENCH_STORE", str(tmp_path_factory.mktemp("store")))
        yield


@pytest.fixture(scope="session", autouse=True)
def may_replace():
    """Let tests replace functions of lexbench, and use what the store kept before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lexbench.runner.jobs.replaced", list)
        yield


@pytest.fixture(scope="session")
def bread() -> Path:
    """Return the BEIR folder of our own collection, for tests that need no published one."""
    return DATA / "bread"


@pytest.fixture
def bread_suite(monkeypatch) -> None:
    """Let lexbench find the suite `bread`, its contracts and their data, like those of another package."""
    monkeypatch.setenv("LEXBENCH_DATA", str(DATA))
    yield from _suites_in(monkeypatch, (*contracts.suite_folders(), DATA / "bread_suite"))


def _suites_in(monkeypatch, folders):
    """Let lexbench find the suites and contracts in *folders* until the end of a test."""
    monkeypatch.setattr(contracts, "suite_folders", lambda: folders)
    contracts.all_contracts.cache_clear()
    yield
    contracts.all_contracts.cache_clear()


@pytest.fixture
def store(tmp_path, monkeypatch) -> Store:
    """Return an empty store in *tmp_path*, which becomes the current folder; the command line uses it and has 100 columns."""
    enter(tmp_path, monkeypatch)
    monkeypatch.setenv("COLUMNS", "100")
    return Store(tmp_path / "store")


@pytest.fixture(scope="session")
def fast() -> Path:
    """Return a folder with the commands `lexbench` and `python`, which start without importing lexbench again."""
    return Path(os.environ[FORKING], "commands")


@pytest.fixture
def timed_here(monkeypatch) -> None:
    """Measure in this process, without the imports of fresh ones; test_timing and test_speed also start real ones."""
    measure_here(monkeypatch.setattr)


@pytest.fixture(scope="session")
def _open_datasets(tmp_path_factory) -> Path:
    """Return a folder of suites with the shipped contracts, without the counts and digests that they expect."""
    folder = tmp_path_factory.mktemp("open")
    (folder / "datasets").mkdir()
    for shipped in contracts.suite_folders()[0].iterdir():
        if shipped.name != "datasets":
            (folder / shipped.name).symlink_to(shipped)
    for name, path in contracts.toml_files("datasets").items():
        text = re.sub(r"(?m)^\[expected\]\n(?:[^\[\n].*\n|\n)*", "", path.read_text(encoding="utf-8"))
        (folder / "datasets" / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def open_contracts(monkeypatch, _open_datasets) -> None:
    """Remove counts and digests from all contracts, so that results with a few made-up queries are accepted."""
    yield from _suites_in(monkeypatch, (_open_datasets, *contracts.suite_folders()))


@pytest.fixture(scope="session")
def bread_environment(tmp_path_factory) -> dict[str, str]:
    """Return the environment of a process that finds the suite `bread`, its contracts and their data."""
    site = tmp_path_factory.mktemp("bread")
    install(site, "bread", {"lexbench.suites": ["bread = bread_suite"]})
    paths = (str(site), str(DATA), os.environ.get("PYTHONPATH"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "LEXBENCH_DATA": str(DATA)}


@pytest.fixture(scope="session")
def bert(tmp_path_factory) -> Path:
    """Write a tiny BERT with a head for words, whose sparse vectors have few terms."""
    import checkpoints

    return checkpoints.sparsified(checkpoints.masked_lm(tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of published collections; tests that need it skip without it."""
    if not (SHARED / "data").is_dir():
        pytest.skip(f"needs published collections, and none is in {SHARED}; set LEXBENCH_SHARED to their folder")
    return SHARED


@pytest.fixture(scope="session")
def ir_datasets_home(tmp_path_factory) -> Path:
    """Return the folder of ir_datasets, with our own collection in the place of FEVER, and the published ones that are here.

    The library builds its stores in it. It uses one folder per process.
    """
    home = tmp_path_factory.mktemp("ir") / "datasets"
    if REAL.is_dir():
        writable_copy(REAL, home)
    archive = home / "beir" / "fever" / "source.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as file:
        for path in ("corpus.jsonl", "queries.jsonl", *(f"qrels/{split}.tsv" for split in ("train", "dev", "test"))):
            file.writestr(zipfile.ZipInfo(f"fever/{path}"), (DATA / "bread" / path).read_bytes())  # without a date: same MD5
    return home


@pytest.fixture(scope="session")
def real_home(shared, ir_datasets_home) -> Path:
    """Return the folder of ir_datasets with the real SciFact and NFCorpus in it."""
    return ir_datasets_home


@pytest.fixture(scope="session")
def plugin_environment(tmp_path_factory) -> dict[str, str]:
    """Install the package in tests/plugin into a new folder; return the environment of a process that finds it."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(site)]
    subprocess.run([*pip, str(Path(__file__).parent / "plugin")], check=True, capture_output=True)
    return {**os.environ, "PYTHONPATH": str(site), "LEXBENCH_STORE": str(site / "store")}


@pytest.fixture(scope="session")
def two_raylets():
    """Start a Ray cluster that looks like two machines with one processor each; its workers can import the tests' modules."""
    pytest.importorskip("ray", reason="needs ray: pip install 'lexbench[ray]'")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80 << 20})
        cluster.second = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
        yield cluster
        cluster.shutdown()


@pytest.fixture
def on(name, request) -> str:
    """Return what a user types for the executor *name*, a parameter of the test; "ray" is the cluster of two machines."""
    return f'ray("{request.getfixturevalue("two_raylets").address}", workers=2)' if name == "ray" else name
