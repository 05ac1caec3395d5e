"""The keys of systems and plug-ins, which must not change by accident, because stored work is found by them."""

from importlib import import_module

import pytest
import tiny

from lexbench import registry
from lexbench.engines.impact import Impact
from lexbench.errors import CommandError, LexbenchError, MissingExtra, UnknownName
from lexbench.notation import Call
from lexbench.retrievers.bm25 import BM25
from lexbench.runner.systems import describe, system
from lexbench.storage.artifact_folder import digest

VECTORS = 'vectors(documents="documents.jsonl", queries="queries.tsv", format="anserini")'
KEYS = {
    "bm25": "a31bae18c6399c84",
    "bm25(k1=1.2, b=0.75)": "a5d86a3193c1b2b3",
    'bm25(ties="trec_eval")': "ec365c14b063a5bb",
    "ensemble(bm25, bm25(k1=2.0))": "f315ad2e3cfd0581",
    'ensemble(bm25, bm25(k1=2.0), scores="rrf", depth=100)': "74ee9083fa87327e",
    "ensemble(bm25, ensemble(bm25(k1=1.0), bm25(k1=2.0), weights=[1, 0.5]))": "614038f033a1986e",
    "pipeline(bm25, bm25(k1=2.0), k=10)": "5acd72118f2a0fa0",
    f"{VECTORS}@csr": "a4546ee736ec7e59",
    f"{VECTORS}@impact": "ea0a4f5d3ccb10d6",
    f"{VECTORS}|top_k(4)@impact": "dff68f863a86f274",
    f"{VECTORS}|prune_query(8)|quantize(100)@impact": "4844521bcbbe87cc",
    f"pipeline(bm25, {VECTORS}@csr, k=20)": "bbb07efe0849299a",
}
GROUPS = ("encoders", "engines", "judges", "rerankers", "retrievers", "transforms")
PARTS = {
    ("engines", "flat"): "1fb85d4412b44612",
    ("engines", "maxsim"): "049bdc51097cf684",
    ("transforms", "quantize"): "41ce791e666aa73e",
    ("engines", "csr"): "635b657d34dbc956",
}


@pytest.fixture
def vectors(tmp_path, monkeypatch):
    """Go to a folder with the vectors that the systems above name."""
    (tmp_path / "documents.jsonl").write_text('{"id": "d1", "contents": "", "vector": {"flour": 6, "wheat": 7}}\n')
    (tmp_path / "queries.tsv").write_text("q1\tflour\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("text", KEYS)
@pytest.mark.usefixtures("vectors")
def test_keys_of_systems_stay(text):
    """A system with these settings and files has this key."""
    assert digest(describe(system(text).retriever)) == KEYS[text]


@pytest.mark.parametrize(("group", "name"), PARTS)
def test_keys_of_parts_stay(group, name):
    """An engine or a transform with default settings has this key."""
    assert digest(describe(registry.create(group, Call(name)))) == PARTS[group, name]


def test_identities_are_group_and_name():
    """A plug-in of lexbench is identified by group and name, wherever its class lives; any other class by its module."""
    assert registry.identity(registry.load("engines", "impact")) == "engines/impact"
    assert registry.identity(type(system("bm25").retriever)) == "retrievers/bm25"
    assert registry.identity(dict) == "builtins:dict"


@pytest.mark.parametrize("plugin", [BM25(), Impact()], ids=["bm25", "impact"])
def test_an_index_of_another_layout_is_refused(plugin, tmp_path):
    """An index of an older lexbench is refused in one line; the layout is in the key of the index and not of the system."""
    (tmp_path / "facts.json").write_text("{}")  # the first layout had no number
    with pytest.raises(LexbenchError, match=r"is an index of another version of lexbench, .*; build it again"):
        plugin.open(tmp_path)

    assert describe(plugin, index=True)["identity"] == {"layout": 2}
    assert "identity" not in describe(plugin)


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in GROUPS for name in registry.names(group)])
def test_an_unknown_setting_is_refused(group, name):
    """Every plug-in refuses an unknown setting in one line."""
    with pytest.raises((UnknownName, CommandError, MissingExtra)) as caught:
        registry.create(group, Call(name, kwargs=(("no_such_setting", 1),)))
    assert "\n" not in str(caught.value)


def test_two_packages_may_have_a_plug_in_of_one_name_and_version(tmp_path, monkeypatch):
    """A plug-in of another package has the name of the package in its identity, so that stored work is not confused."""
    found = []
    for package in ("one", "two"):
        module = f"{package}_twin"
        entry = {"lexbench.engines": [f"twin = {module}:Twin"]}
        tiny.install(tmp_path / package, package, entry, **{module: "class Twin:\n    pass\n"})
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / package)
            registry._entries.cache_clear()
            found.append(registry.identity(import_module(module).Twin))
    registry._entries.cache_clear()

    assert found == ["one:engines/twin", "two:engines/twin"]
