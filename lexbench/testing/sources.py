"""The contract of sources of datasets, on the small data of a `SourceCase`."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from lexbench.contracts import Contract
from lexbench.errors import MissingData
from lexbench.plugins import Source
from lexbench.storage.artifact_folder import digest
from lexbench.types import Document, Judgement, Query


class SourceCase(NamedTuple):
    """A class of sources, and the datasets to test it with."""

    locator: type[Source]
    contract: Contract  # of a dataset that is available
    folders: Sequence[Path]  # the user's folders, in which it may look
    others: Sequence[Callable[[], Source]] = ()  # sources with other documents than that dataset
    absent: Contract | None = None  # of a dataset that is missing; None if every dataset is always available
    absent_from: Sequence[Path] = ()  # the user's folders that do not have it

    def locate(self) -> Source:
        """Return the source of the available dataset."""
        source = self.locator.locate(self.contract, self.folders)
        assert source is not None
        return source


class SourceContract:
    """The tests of a source. A subclass overrides the fixture `case`."""

    @pytest.fixture
    def case(self) -> SourceCase:
        """Return the source to check."""
        raise NotImplementedError

    def test_read_twice(self, case: SourceCase) -> None:
        """Documents, queries and judgements can be read again from the start and are the same."""
        source = case.locate()
        for read in (source.documents, source.queries, source.judgements):
            first = next(iter(read()))
            assert list(read()) == list(read())
            assert next(iter(read())) == first
        assert list(case.locate().documents()) == list(source.documents())

    def test_documents(self, case: SourceCase) -> None:
        """Documents have unique ids that a run file can hold, and bodies that begin inside the text."""
        documents = list(case.locate().documents())
        assert len({document.doc_id for document in documents}) == len(documents) > 0
        for document in documents:
            assert isinstance(document, Document)
            assert isinstance(document.text, str)
            assert document.doc_id.split() == [document.doc_id]
            assert not document.doc_id.startswith("#")
            assert 0 <= document.body_at <= len(document.text)

    def test_topics(self, case: SourceCase) -> None:
        """Queries have unique ids; judgements are of known queries, one per document, whole grades as integers."""
        source = case.locate()
        queries, judgements = list(source.queries()), list(source.judgements())
        assert all(isinstance(query, Query) and isinstance(query.text, str) for query in queries)
        assert all(query.query_id.split() == [query.query_id] for query in queries)
        assert len({query.query_id for query in queries}) == len(queries) > 0
        assert all(isinstance(judgement, Judgement) for judgement in judgements)
        assert all(isinstance(row.grade, int) or not row.grade.is_integer() for row in judgements), "write whole grades as int"
        assert len({(judgement.query_id, judgement.doc_id) for judgement in judgements}) == len(judgements) > 0
        assert {judgement.query_id for judgement in judgements} <= {query.query_id for query in queries}

    def test_identity(self, case: SourceCase) -> None:
        """The identity is JSON, the same each time, and does not contain the place of the data."""
        identity = case.locate().identity()
        assert json.loads(json.dumps(identity)) == identity
        assert digest(case.locate().identity()) == digest(identity)
        assert not [folder for folder in case.folders if str(folder) in json.dumps(identity)]

    def test_identity_follows_documents(self, case: SourceCase) -> None:
        """Other documents have another identity."""
        if not case.others:
            pytest.skip("there is only one copy of the data")
        documents, identity = list(case.locate().documents()), case.locate().identity()
        for other in case.others:
            assert list(other().documents()) != documents
            assert other().identity() != identity

    def test_notes(self, case: SourceCase) -> None:
        """Remarks are a list of single lines."""
        notes = case.locate().notes()
        assert isinstance(notes, list)
        assert all(line.strip() and "\n" not in line for line in notes)

    def test_status(self, case: SourceCase) -> None:
        """The status says in one line where the dataset is."""
        status = case.locator.status(case.contract, case.folders)
        assert status.strip()
        assert "\n" not in status

    def test_ways(self, case: SourceCase) -> None:
        """`ways` says in one line how to provide a dataset; "" if it is always available."""
        ways = case.locator.ways(case.absent or case.contract)
        assert "\n" not in ways
        assert bool(ways) == (case.absent is not None)

    def test_absent(self, case: SourceCase) -> None:
        """A missing dataset has an empty status, and either no source or an error in one line that names it."""
        if case.absent is None:
            pytest.skip("it is always available")
        assert case.locator.status(case.absent, case.absent_from) == ""
        try:
            source = case.locator.locate(case.absent, case.absent_from)
        except MissingData as error:
            source, message = None, str(error)
            assert case.absent.id in message
            assert "\n" not in message
        assert source is None
