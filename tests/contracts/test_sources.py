"""What every source of datasets must do, checked on each by name; data are our own, and small.

The functions `check_...` know of no plug-in: they take a `Case`, which says where a plug-in finds what.
"""

import importlib.util
import json
import shutil
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from conftest import DATA

from lexbench import registry
from lexbench.datasets.contracts import Contract, SourceFacts, TextPolicy, contract_of
from lexbench.errors import MissingData
from lexbench.plugins import Source, SourceFinder
from lexbench.storage.store import digest
from lexbench.types import Document, Judgement, Query

EXAMPLE = "lexbench-example: numerals"  # of the package in tests/plugin


class Case(NamedTuple):
    """One class of sources and what it is asked for."""

    locator: type[SourceFinder]
    contract: Contract  # of a dataset that is here
    folders: Sequence[Path]  # of the user's, in which it may look
    others: Sequence[Callable[[], Source]] = ()  # sources of other documents than that dataset's
    absent: Contract | None = None  # of a dataset that is not here; None where everything always is
    absent_from: Sequence[Path] = ()  # the folders of the user's that do not have it

    def locate(self) -> Source:
        """Return the source of the dataset that is here."""
        source = self.locator.locate(self.contract, self.folders)
        assert source is not None
        return source


# ---------------------------------------------------------------------------------------- what must be true of any source


def check_read_twice(case: Case) -> None:
    """Check that documents, queries and judgements can be read again, from the start, and are the same."""
    source = case.locate()
    for read in (source.documents, source.queries, source.judgements):
        first = next(iter(read()))
        assert list(read()) == list(read())
        assert next(iter(read())) == first
    assert list(case.locate().documents()) == list(source.documents())


def check_documents(case: Case) -> None:
    """Check that documents have ids of their own, which a run file can hold, and bodies that begin inside the text."""
    documents = list(case.locate().documents())
    assert len({document.doc_id for document in documents}) == len(documents) > 0
    for document in documents:
        assert isinstance(document, Document)
        assert isinstance(document.text, str)
        assert document.doc_id.split() == [document.doc_id]
        assert not document.doc_id.startswith("#")
        assert 0 <= document.body_at <= len(document.text)


def check_topics(case: Case) -> None:
    """Check that queries have ids of their own, that judged ones are among them, once a document, and with whole grades."""
    source = case.locate()
    queries, judgements = list(source.queries()), list(source.judgements())
    assert all(isinstance(query, Query) and isinstance(query.text, str) for query in queries)
    assert all(query.query_id.split() == [query.query_id] for query in queries)
    assert len({query.query_id for query in queries}) == len(queries) > 0
    assert all(isinstance(judgement, Judgement) and type(judgement.grade) is int for judgement in judgements)
    assert len({(judgement.query_id, judgement.doc_id) for judgement in judgements}) == len(judgements) > 0
    assert {judgement.query_id for judgement in judgements} <= {query.query_id for query in queries}


def check_identity(case: Case) -> None:
    """Check that the identity is JSON, the same each time, and says nothing of where the data lie."""
    identity = case.locate().identity()
    assert json.loads(json.dumps(identity)) == identity
    assert digest(case.locate().identity()) == digest(identity)
    assert not [folder for folder in case.folders if str(folder) in json.dumps(identity)]


def check_identity_follows_documents(case: Case) -> None:
    """Check that other documents have another identity."""
    if not case.others:
        pytest.skip("there is one copy of it, and it cannot be changed")
    documents, identity = list(case.locate().documents()), case.locate().identity()
    for other in case.others:
        assert list(other().documents()) != documents
        assert other().identity() != identity


def check_remarks(case: Case) -> None:
    """Check that what a reader of scores must know is a list of lines."""
    remarks = case.locate().remarks()
    assert isinstance(remarks, list)
    assert all(line.strip() and "\n" not in line for line in remarks)


def check_status(case: Case) -> None:
    """Check that it says in one line where the dataset is."""
    status = case.locator.status(case.contract, case.folders)
    assert status.strip()
    assert "\n" not in status


def check_ways(case: Case) -> None:
    """Check that it says in one line how to provide a dataset, unless it is always here."""
    ways = case.locator.ways(case.absent or case.contract)
    assert "\n" not in ways
    assert bool(ways) == (case.absent is not None)


def check_absent(case: Case) -> None:
    """Check that a dataset that is not here has an empty status, and no source or one line that names it."""
    if case.absent is None:
        pytest.skip("it is always here")
    assert case.locator.status(case.absent, case.absent_from) == ""
    try:
        source = case.locator.locate(case.absent, case.absent_from)
    except MissingData as error:
        source, message = None, str(error)
        assert case.absent.id in message
        assert "\n" not in message
    assert source is None


# ----------------------------------------------------------------------------------------------------- the cases, by name


def contract(dataset_id: str, loader: str, **facts: object) -> Contract:
    """Return a contract of the default policies."""
    source = SourceFacts(loader=loader, **facts)
    policy = TextPolicy(document="title_text")
    corpus = dataset_id.rpartition("/")[0]
    return Contract(schema=1, id=dataset_id, version=1, name="", description="", corpus=corpus, source=source, text=policy)


def example_class() -> type[SourceFinder]:
    """Return the source of the package in tests/plugin, which is not installed here."""
    path = Path(__file__).parent.parent / "plugin" / "lexbench_example" / "numerals.py"
    spec = importlib.util.spec_from_file_location("lexbench_example_numerals", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Numerals


def files(tmp_path: Path, _home: Path) -> Case:
    """Return our collection about bread as a folder of the user's."""
    plugin = registry.load("sources", "files")
    named, changed = contract("bread/test", "files"), tmp_path / "changed"
    shutil.copytree(DATA / "bread", changed)
    with (changed / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"_id": "new", "title": "", "text": "new"}\n')
    text_only = msgspec.structs.replace(named, text=TextPolicy(document="text"))
    others = [lambda: plugin.locate(named, [changed]), lambda: plugin.locate(text_only, [DATA / "bread"])]
    return Case(plugin, named, [tmp_path / "none", DATA / "bread"], others, named, [tmp_path / "none"])


def ir_datasets(_tmp_path: Path, home: Path) -> Case:
    """Return the same in the library's folder, in the place of FEVER."""
    plugin = registry.load("sources", "ir_datasets")
    named = contract("beir/fever/test", "ir_datasets", archive="source.zip")
    absent = contract("beir/quora/test", "ir_datasets", archive="source.zip", url="https://example.org/quora.zip")
    assert (home / named.corpus / "source.zip").is_file()
    others = [lambda: plugin.locate(msgspec.structs.replace(named, text=TextPolicy(document="text")), [])]
    return Case(plugin, named, [], others, absent)


def pydoc(_tmp_path: Path, _home: Path) -> Case:
    """Return the docstrings of this Python."""
    return Case(registry.load("sources", "pydoc"), contract_of("pydoc/test"), [])


def numerals(_tmp_path: Path, _home: Path) -> Case:
    """Return another package's numerals."""
    return Case(example_class(), contract("numerals/test", "numerals"), [])


CASES = {"files": files, "ir_datasets": ir_datasets, "pydoc": pydoc, EXAMPLE: numerals}


@pytest.fixture(params=[*registry.names("sources"), EXAMPLE])
def case(request, tmp_path, monkeypatch, ir_datasets_home) -> Case:
    """Make the case of one source; nothing of it may ask the network."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(ir_datasets_home))
    monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
    if request.param not in CASES:
        pytest.skip(f"of another package, {registry.origin('sources', request.param)}, which has tests of its own")

    def refuse(*_arguments: object) -> None:
        raise AssertionError("it asks the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return CASES[request.param](tmp_path, ir_datasets_home)


CHECKS = [
    check_read_twice,
    check_documents,
    check_topics,
    check_identity,
    check_identity_follows_documents,
    check_remarks,
    check_status,
    check_ways,
    check_absent,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_source(case, check):
    """Every source keeps what the check says."""
    check(case)


def test_every_source_of_ours_has_a_case():
    """A source that is added here is checked here."""
    ours = [name for name in registry.names("sources") if registry.origin("sources", name) == "lexbench"]

    assert set(ours) <= CASES.keys()
