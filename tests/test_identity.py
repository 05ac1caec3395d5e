"""What systems and plug-ins are called in keys, results and stores, for years: a change of key is a decision."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import DATA

from lexbench import registry, results
from lexbench.notation import Call
from lexbench.runner.systems import describe, system
from lexbench.storage import legacy
from lexbench.storage.manifest import digest

VECTORS = 'vectors(documents="documents.jsonl", queries="queries.tsv", format="anserini")'
KEYS = {
    "bm25": "a31bae18c6399c84",
    "bm25(k1=1.2, b=0.75)": "a5d86a3193c1b2b3",
    'bm25(ties="trec_eval")': "ec365c14b063a5bb",
    "ensemble(bm25, bm25(k1=2.0))": "19580086189ec208",
    'ensemble(bm25, bm25(k1=2.0), scores="rrf", depth=100)': "484cc10765dea198",
    "ensemble(bm25, ensemble(bm25(k1=1.0), bm25(k1=2.0), weights=[1, 0.5]))": "9106bcc6d36dae74",
    "pipeline(bm25, bm25(k1=2.0), k=10)": "65621d06d7206884",
    f"{VECTORS}@csr": "08a97c82db56d03e",
    f"{VECTORS}@impact": "5cf1eb488559840c",
    f"{VECTORS}|top_k(4)@impact": "3aa8d671523e1b3c",
    f"{VECTORS}|prune_query(8)|quantize(100)@impact": "3e83298aa8a3af87",
    f"pipeline(bm25, {VECTORS}@csr, k=20)": "f5bbf344c68641f8",
}
PARTS = {
    ("engines", "flat"): "1fb85d4412b44612",
    ("engines", "maxsim"): "049bdc51097cf684",
    ("transforms", "quantize"): "41ce791e666aa73e",
    ("engines", "csr"): "635b657d34dbc956",
}


@pytest.fixture
def old(tmp_path, monkeypatch, bread):
    """Unpack a store that lexbench 0.1 made on our collection about bread, with the vectors that it searched, and go there."""
    with zipfile.ZipFile(DATA / "store_0_1.zip") as archive:
        archive.extractall(tmp_path)
    shutil.copytree(bread, tmp_path / "bread")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", KEYS)
def test_keys_of_systems_stay(old, text):
    """A system of these settings and files has this key; another one orphans what users have: raise a version, and say why."""
    assert digest(describe(system(text).retriever)) == KEYS[text]


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_keys_of_parts_stay(part):
    """An engine or a transform with its default settings has this key."""
    group, name = part

    assert digest(describe(registry.create(group, Call(name)))) == PARTS[part]


def test_identities_are_group_and_name():
    """A plug-in of ours is called by its group and name, wherever its class lives; what is no plug-in by its module."""
    assert registry.identity(registry.load("engines", "impact")) == "engines/impact"
    assert registry.identity(type(system("bm25").retriever)) == "retrievers/bm25"
    assert registry.identity(dict) == "builtins:dict"


def test_old_identities_are_read_and_written():
    """Every plug-in of 0.1 has its old name and its new one, each made from the other, at any depth."""
    new = {
        "plugin": "retrievers/encoded",
        "settings": {"parts": [{"plugin": "engines/impact"}, {"plugin": "encoders/sparse_mlm"}]},
    }
    old = legacy.of_0_1(new)

    assert old["plugin"] == "lexbench.retrievers.encoded:Encoded"
    assert [part["plugin"] for part in old["settings"]["parts"]] == [
        "lexbench.engines.impact:Impact",
        "lexbench.encoders.sparse_mlm:SparseMLM",
    ]
    assert legacy.modern(old) == new
    assert legacy.of_0_1({"plugin": "other:engines/impact"}) == {"plugin": "other:engines/impact"}


def test_a_store_of_0_1_goes_on(old):
    """The same command on a store of 0.1 makes no stage again and gives the same results.

    But for BM25, whose version 2 breaks ties in another order, and the index of impact, which has another layout, and what is
    found in it: their folders stay, and new ones stand beside them.
    """
    before = sorted(
        path
        for stage in ("corpora", "encodings", "indexes", "runs", "results", "weights")
        for path in (old / "store" / stage).iterdir()
    )
    text = f"{VECTORS}|top_k(4)@impact"
    options = ["-r", text]
    command = [
        sys.executable,
        "-m",
        "lexbench",
        "run",
        "dataset",
        "bread",
        *options,
        "-m",
        "nDCG@10",
        "-m",
        "R@20",
        "--depth",
        "50",
        "--json",
    ]
    environment = {**os.environ, "LEXBENCH_STORE": str(old / "store")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    after = sorted(
        path
        for stage in ("corpora", "encodings", "indexes", "runs", "results", "weights")
        for path in (old / "store" / stage).iterdir()
    )
    stored = [results.load(path) for path in (old / "store").glob("results/*/result.json")]

    assert set(before) < set(after)
    assert sorted(path.parent.name for path in set(after) - set(before)) == ["indexes", "results", "runs"]
    (again,) = json.loads(done.stdout)["results"]
    assert again["means"] in [result.means for result in stored if result.system == again["system"]]


def test_a_result_of_0_1_reads_with_todays_names(old):
    """A result file that 0.1 wrote says `retrievers/bm25`, as one of today does."""
    recipes = [results.load(path).recipe for path in (old / "store").glob("results/*/result.json")]

    assert {recipe["plugin"] for recipe in recipes} == {
        "retrievers/bm25",
        "retrievers/encoded",
        "retrievers/ensemble",
        "retrievers/pipeline",
    }
    assert "lexbench." not in json.dumps(recipes)
