"""Suites: they load, name only what exists, and are as strict as contracts."""

import json
import tomllib
from importlib.util import find_spec
from pathlib import Path

import ir_measures
import pytest

from lexbench.contracts import contract_of
from lexbench.errors import InvalidFile
from lexbench.suites import suite as suite_named

SUITES = [
    "beir", "beir_all", "bright", "code", "dl_v2", "lotte", "miracl", "mr_tydi", "msmarco_doc", "msmarco_passage", "nano_beir",
    "pydoc", "trec_dl",
]  # fmt: skip

MINIMAL = """
schema = 1
id = "mine"
version = 1
name = "mine"
description = ""
datasets = ["beir/scifact/test", "beir/nq"]
measures = ["nDCG@10"]
headline = "nDCG@10"
retrievers = ["bm25"]
"""
MEAN = '"bm25"]\n[[aggregates]]\nid = "a@1"\n'


@pytest.mark.parametrize("name", SUITES)
def test_suite_is_whole(name):
    """A suite has the name of its file, a headline among its measures, no name twice, depth 1000, and ir-measures' notation.

    MS MARCO with and without titles are never in one table.
    """
    suite = suite_named(name)
    assert suite.id == name
    assert suite.headline in suite.measures
    assert len(set(suite.measures)) == len(suite.measures)
    assert len(set(suite.datasets)) == len(suite.datasets)
    assert suite.depth == 1000
    assert not {"msmarco-passage", "msmarco-passage-titled"} <= {contract_of(dataset).corpus for dataset in suite.datasets}
    for measure in suite.measures:
        assert measure.startswith("RCap@") or str(ir_measures.parse_measure(measure)) == measure


def test_means_are_over_the_sets_of_the_papers():
    """`beir-12@1` is over twelve sets, Touché in version 2, without Quora and CQADupStack; NanoBEIR's mean is over 13.

    There is no mean if a set is missing.
    """
    suite = suite_named("beir")
    aggregate = suite.aggregates[0]
    assert (aggregate.id, aggregate.measure, aggregate.mean) == ("beir-12@1", "nDCG@10", "macro")
    assert set(aggregate.members) == set(suite.datasets)
    names = "arguana climate-fever dbpedia-entity fever fiqa hotpotqa nfcorpus nq scidocs scifact trec-covid webis-touche2020"
    assert sorted(member.split("/")[1] for member in aggregate.members) == names.split()
    assert "beir/webis-touche2020/v2" in aggregate.members
    scores = dict.fromkeys(aggregate.members, 0.6) | {"beir/scidocs": 0.0}
    assert aggregate.over(scores).value == pytest.approx(0.55)  # arithmetic: one 0 does not make it 0
    del scores["beir/scidocs"]
    assert (aggregate.over(scores).value, str(aggregate.over(scores))) == (None, "11/12")
    nano = suite_named("nano_beir")
    assert nano.aggregates[0].members == nano.datasets
    assert len(set(nano.datasets)) == 13


def counted(metadata, dataset, what):
    """Return ir_datasets' metadata about the documents, queries or judgements of a dataset."""
    part = metadata[dataset][what]
    return counted(metadata, part["_ref"], what) if "_ref" in part else part


CITING = [  # the contracts whose counts are from there
    contract
    for path in sorted((Path(__file__).parents[1] / "suites" / "datasets").glob("*.toml"))
    if "etc/metadata.json" in (contract := tomllib.loads(path.read_text(encoding="utf-8")))["expected"].get("note", "")
]


def test_counts_of_a_contract_are_those_of_ir_datasets():
    """A contract that cites ir_datasets' metadata has its counts of documents, judgements and grades."""
    folder = Path(find_spec("ir_datasets").origin).parent  # importing it would fix its data folder for other tests
    metadata = json.loads((folder / "etc" / "metadata.json").read_text(encoding="utf-8"))
    for contract in CITING:
        name, expected = contract["id"], contract["expected"]
        dataset = name.replace("msmarco-passage-titled", "msmarco-passage")
        qrels = counted(metadata, dataset, "qrels")

        assert expected["documents"] == counted(metadata, dataset, "docs")["count"], name
        assert expected["judgements"] == qrels["count"], name
        assert expected.get("grades", {}) in ({}, qrels["fields"]["relevance"]["counts_by_value"]), name


def test_forums_are_averaged_first_where_they_count_as_one():
    """In BEIR's mean over 15 sets, CQADupStack's twelve forums together weigh as much as one other set."""
    fifteen = {one.id: one for one in suite_named("beir_all").aggregates}["beir-15@1"]
    forums = {name: 0.25 for name in fifteen.members if "cqadupstack" in name}
    others = {name: 0.5 for name in fifteen.members if "cqadupstack" not in name}
    assert (len(forums), len(others)) == (12, 14)
    assert fifteen.over(forums | others).value == pytest.approx((14 * 0.5 + 0.25) / 15)
    assert sum(fifteen.weights) == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (("version = 1", "version = '1'"), "$.version"),
        (("schema = 1", "schema = 2"), "$.schema"),
        (('"beir/nq"]', '{ id = "beir/nq", exclude_self = true }]'), "$.datasets[1]"),
        (('"beir/nq"]', '"beir/nqq"]'), "$.datasets[1]"),
        (('"bm25"]', f'{MEAN}measure = "nDCG@10"\nmembers = ["beir/fiqa/test"]'), "$.aggregates[0]"),
        (('"bm25"]', f'{MEAN}mesure = "nDCG@10"\nmembers = []'), "$.aggregates[0]"),
        (('"bm25"]', f'{MEAN}measure = "nDCG@10"\nmembers = ["beir/nq"]\ngroups = [["x"]]'), "$.aggregates[0]"),
        (('"bm25"]', '"bm25"]\ndatasets = []'), "line"),
    ],
)
def test_faulty_suite_is_an_error_that_names_the_place(change, place, tmp_path):
    """A wrong type, an unknown key, dataset or member: the error names the file and the place."""
    path = tmp_path / "mine.toml"
    path.write_text(MINIMAL.replace(*change))
    with pytest.raises(InvalidFile) as error:
        suite_named(str(path))
    assert str(path) in str(error.value)
    assert place in str(error.value)
