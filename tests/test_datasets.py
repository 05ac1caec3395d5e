"""Datasets are found where the user has them and are checked; a missing one gives one line."""

import hashlib
import shutil
import subprocess
import sys
import time
import zipfile

import msgspec
import numpy as np
import pytest
from conftest import DATA
from tiny import contract, write_files
from tiny import write as write_folder

from lexbench.contracts import Contract, Expected, SourceFacts, contract_of
from lexbench.datasets.corpus import write_corpus
from lexbench.datasets.dataset import Topics, absent_documents, check, read_topics
from lexbench.datasets.location import alternatives, find_folder, find_source, status
from lexbench.datasets.records import document
from lexbench.datasets.sources import ir_datasets as ir_datasets_source
from lexbench.datasets.sources.files import Files
from lexbench.datasets.sources.ir_datasets import IrDatasets
from lexbench.errors import ContractMismatch, MissingData
from lexbench.storage.reading import read_toml
from lexbench.types import Document, Judgement, Query


@pytest.fixture(autouse=True)
def _nothing_of_the_user(monkeypatch, ir_datasets_home):
    """Hide the user's own data, so that only those of a test are found."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(ir_datasets_home))
    monkeypatch.delenv("LEXBENCH_DATA", raising=False)
    monkeypatch.setenv("LEXBENCH_OFFLINE", "1")


def tiny(dataset_id="tiny/test", split="test", document="title_text"):
    """Return a contract of files only."""
    return contract(dataset_id, "files", document, corpus="tiny", split=split)


def bread_of_the_library(home, split="test"):
    """Return the contract of the collection about bread, which ir_datasets has in FEVER's place."""
    contract = read_toml(DATA / "bread_suite" / "datasets" / f"bread_{split}.toml", Contract)
    md5 = hashlib.md5((home / "beir" / "fever" / "source.zip").read_bytes()).hexdigest()
    source = SourceFacts(split=split, md5=md5, archive="source.zip", url="https://example.org/fever.zip")
    return msgspec.structs.replace(contract, id=f"beir/fever/{split}", corpus="beir/fever", source=source)


def test_ms_marco_files(tmp_path, monkeypatch):
    """MS MARCO's files are read under their own names: the corpus with the corpus, queries and qrels with either.

    Three columns are id, title and passage, the title on its own line; a dash is no title.
    """
    documents = {"collection.tsv.gz": "0\tzero\n1\tone\n"}
    topics = {"queries.dev.small.tsv": "7\twhat is one\n", "dev/small/qrels.tsv": "7\t0\t1\t1\n"}
    write_files(tmp_path / "tiny", documents | topics)
    monkeypatch.setenv("LEXBENCH_DATA", f"/nowhere:{tmp_path}")
    small = tiny("tiny/dev/small", "dev/small", "text")
    source = find_source(small)
    assert status(small) == f"here: {tmp_path}/tiny/collection.tsv.gz"
    assert list(source.documents()) == [Document("0", "zero"), Document("1", "one")]
    assert list(source.queries()) == [Query("7", "what is one")]
    assert list(source.judgements()) == [Judgement("7", "1", 1)]
    write_files(tmp_path / "tiny", {"collection.tsv.gz": "0\tZero\tnothing\n1\t-\tone\n"})
    titled = find_source(tiny("tiny/dev/small", "dev/small", "title_line_text"))
    assert [one.text for one in titled.documents()] == ["Zero\nnothing", "one"]


@pytest.mark.parametrize(
    ("policy", "fields", "expected"),
    [
        ("title_text", {"title": "T", "text": "b\nc "}, ("T b\nc", "T", "b\nc")),
        ("title_text", {"title": " T", "text": "b"}, ("T b", "T", "b")),
        ("title_text", {"title": "T", "text": ""}, ("T", "T", "")),
        ("title_text", {"title": "", "text": "b"}, ("b", "", "b")),
        ("title_line_text", {"title": "T t", "text": " b"}, ("T t\n b", "T t", " b")),
        ("url_title_body", {"url": "u", "title": "T", "body": "b"}, ("u\nT\nb", "u\nT", "b")),
        ("text", {"title": "T", "text": "b"}, ("b", "", "b")),
    ],
)
def test_text_policies(policy, fields, expected):
    """Fields are joined as the policy's name says. A document knows where its body starts; without a title it is all body."""
    found = document("d", fields, policy)

    assert (found.text, found.title, found.body) == expected


def test_topics_are_the_judged_queries(tmp_path):
    """Queries without a judgement are counted and left out; a judged document that the corpus lacks is found."""
    judged = [("q1", "d1", 2), ("q1", "d2", 0), ("q1", "d9", 1)]
    folder = write_folder(tmp_path / "one", {"d1": "one\u2028line", "d2": "two"}, {"q1": "first", "q2": "second"}, judged)
    source = Files.locate(tiny(), [folder])
    topics = read_topics(source)
    assert [one.text for one in source.documents()] == ["one\u2028line", "two"]  # U+2028 ends no line
    assert topics.queries == (Query("q1", "first"),)
    assert topics.unjudged == 1
    assert (topics.facts.queries, topics.facts.judgements, topics.facts.grades) == (1, 3, {"0": 1, "1": 1, "2": 1})
    assert absent_documents(topics.judgements, np.array([b"d2", b"d1"])) == ("d9",)
    assert Topics((Query("q", " "),), (), 0).textless == ("q",)


def test_query_sets_of_one_corpus(bread, tmp_path):
    """A folder of queries has its corpus one folder up; of several qrels one is named."""
    place = tmp_path / "bread" / "asked"
    shutil.copytree(bread / "qrels", place / "qrels", ignore=shutil.ignore_patterns("test.tsv"))
    shutil.copy(bread / "queries.jsonl", place)
    shutil.copy(bread / "corpus.jsonl", place.parent)
    contract, source = find_folder(place / "qrels" / "train.tsv")
    assert (contract.id, contract.corpus) == ("bread/asked/train", "bread")
    assert read_topics(source).facts.queries == 12


REAL = ["beir/scifact/test", "beir/nfcorpus/test"]
OTHERS = ["beir/scifact/train", "beir/nfcorpus/dev", "beir/nfcorpus/train"]  # queries of the same corpora


@pytest.mark.parametrize("dataset_id", [
    "bread/test", "bread/dev", *REAL, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)
])  # fmt: skip
def test_data_is_what_the_contract_says(dataset_id, request, tmp_path):
    """Bread, SciFact and NFCorpus, read by ir_datasets, have all counts and digests of their contracts."""
    if dataset_id.startswith("bread"):
        contract = bread_of_the_library(request.getfixturevalue("ir_datasets_home"), dataset_id.partition("/")[2])
    else:
        request.getfixturevalue("real_home")
        contract = contract_of(dataset_id)
    source = find_source(contract)
    topics, corpus = read_topics(source), write_corpus(source.documents(), tmp_path)
    lacking = len(absent_documents(topics.judgements, corpus.doc_ids))
    found = msgspec.structs.replace(topics.facts, documents=len(corpus), corpus_sha256=corpus.fingerprint, absent=lacking)
    assert msgspec.structs.replace(found, note=contract.expected.note) == contract.expected
    check(contract, found)
    assert status(contract).startswith("here: ")


def test_folder_and_library_give_one_corpus(ir_datasets_home, tmp_path, monkeypatch):
    """The unpacked archive and ir_datasets give the same documents, so the same fingerprint; the folder comes first."""
    contract = bread_of_the_library(ir_datasets_home)
    with zipfile.ZipFile(ir_datasets_home / "beir" / "fever" / "source.zip") as archive:
        archive.extractall(tmp_path / "beir")
    monkeypatch.setenv("LEXBENCH_DATA", str(tmp_path))
    source = find_source(contract)
    assert isinstance(source, Files)
    corpus = write_corpus(source.documents(), tmp_path)
    assert corpus.fingerprint == contract.expected.corpus_sha256
    check(contract, read_topics(source).facts)

    path = tmp_path / "beir" / "fever" / "corpus.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("the", "The", 1), encoding="utf-8")
    doctored = write_corpus(find_source(contract).documents(), tmp_path)
    with pytest.raises(ContractMismatch, match=rf"{corpus.fingerprint[:16]} expected, {doctored.fingerprint[:16]} found"):
        check(contract, Expected(corpus_sha256=doctored.fingerprint))


def test_archive_that_is_not_the_published_one(ir_datasets_home, tmp_path, monkeypatch):
    """The MD5 of an archive in the folder of ir_datasets is checked, and the error names the expected and the found one."""
    place = tmp_path / "beir" / "scifact" / "source.zip"
    place.parent.mkdir(parents=True)
    place.write_bytes((ir_datasets_home / "beir" / "fever" / "source.zip").read_bytes())
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path))
    with pytest.raises(ContractMismatch, match=r"5f7d1de60b170fc8027bb7898e2efca1 expected, [0-9a-f]{32} found"):
        find_source(contract_of("beir/scifact/test"))


@pytest.mark.parametrize("dataset_id", ["beir/nq", "msmarco-passage-titled/dev/small", "cranfield", "nano-beir/msmarco"])
def test_missing_dataset_costs_one_line(dataset_id, tmp_path, monkeypatch):
    """The error for a missing dataset has its name, the places searched and how to provide it, in one line."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path))
    contract = contract_of(dataset_id)
    with pytest.raises(MissingData) as error:
        find_source(contract)
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith(f"{dataset_id} is not here: looked in ")
    assert "LEXBENCH_DATA" in message
    assert ("IR_DATASETS_HOME" in message) == (contract.source.loader == "ir_datasets")
    assert status(contract) == "not here"


def test_server_that_refuses(monkeypatch):
    """Without LEXBENCH_OFFLINE, a server that cannot be reached is the reason."""
    monkeypatch.delenv("LEXBENCH_OFFLINE")
    contract = contract_of("beir/fiqa/test")
    source = msgspec.structs.replace(contract.source, url="http://127.0.0.1:9/fiqa.zip")
    with pytest.raises(MissingData, match=r"127.0.0.1: Connection refused"):
        find_source(msgspec.structs.replace(contract, source=source))
    assert status(contract) == "to be fetched"


def test_a_silent_server_is_given_up(monkeypatch):
    """If the name of a server never resolves, the download ends after our timeout and not after the system's."""
    monkeypatch.setattr(ir_datasets_source, "_TIMEOUT", 0.1)
    monkeypatch.setattr(ir_datasets_source, "_ask", lambda _server: time.sleep(30))
    monkeypatch.setattr(ir_datasets_source, "_GRACE", 0.1)
    assert "did not answer" in ir_datasets_source.unreachable("http://nowhere.invalid/x")


def printed(program, *arguments):
    """Run a Python program; return its lines on stdout. It must print nothing on stderr."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.splitlines()


FAILING = """
import sys
from lexbench.contracts import contract_of
from lexbench.datasets.sources.ir_datasets import IrDatasets
from lexbench.errors import MissingData
for name in sys.argv[1:]:
    try:
        next(IrDatasets(contract_of(name)).documents())
    except MissingData as error:
        print(error)
"""


def test_library_fails_in_one_way_and_says_nothing(tmp_path, monkeypatch):
    """If ir_datasets cannot download, it prints no log, bar or traceback, and its leftovers do not count as data."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path))
    for proxy in ("https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")  # no server, on any machine
    monkeypatch.delenv("no_proxy", raising=False)
    datasets = ["beir/fiqa/test", "msmarco-passage/dev/small", "msmarco-document/dev"]
    assert [line.split(" ")[0] for line in printed(FAILING, *datasets)] == datasets
    assert not any(IrDatasets(contract_of(name)).present() for name in datasets)


MOVED = """
import os
import ir_datasets  # as ranx does
os.environ["IR_DATASETS_HOME"] = "/later"
from lexbench.contracts import contract_of
from lexbench.datasets.sources.ir_datasets import IrDatasets
from lexbench.errors import CommandError
try:
    next(IrDatasets(contract_of("beir/fiqa/test")).judgements())
except CommandError as error:
    print(error)
"""


def test_folder_that_came_after_the_library(tmp_path, monkeypatch):
    """If ir_datasets was imported before IR_DATASETS_HOME was set, the error says so: it would search both folders."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path))
    line = f"ir_datasets was imported with the folder {tmp_path}, now it is /later; set IR_DATASETS_HOME before"
    assert printed(MOVED) == [line]


def test_folders_without_data_are_not_offered(tmp_path, monkeypatch):
    """Beside a mistyped folder, judgements and Python's bytecode are not offered; a name may begin with an underscore."""
    monkeypatch.chdir(tmp_path)
    for name in ("qrels", "__pycache__", ".hidden", "_data"):
        (tmp_path / name).mkdir()

    assert alternatives("./dta", []) == ["./_data"]
