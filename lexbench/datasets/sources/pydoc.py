"""The built-in dataset: docstrings of the running Python, with our own questions and judgements."""

import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from lexbench.contracts import Contract, suite_folders
from lexbench.datasets import docstrings
from lexbench.datasets.records import read_records
from lexbench.plugins import Source
from lexbench.storage.reading import cached_file_digest
from lexbench.trec.qrels import read_judgements
from lexbench.types import Document, Judgement, Query


@dataclass(frozen=True)
class Pydoc(Source):
    """The queries of one split, `dev` or `test`, over one corpus. Its files are in `suites/pydoc`.

    corpus.tsv     id and digest of every document that may be in the corpus
    queries.tsv    id and text of the queries of both splits
    split.tsv      query id and split
    qrels.tsv      judgements, grades 0-3; similar files have more of them, for contracts that name one as `added`
    """

    contract: Contract

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Self:  # noqa: ARG003 - it is built in
        """Return the dataset."""
        return cls(contract)

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:  # noqa: ARG003
        """Return that it is always here."""
        return "built in"

    @property
    def folder(self) -> Path:
        """The folder of these files: in the wheel, or in the checkout."""
        return suite_folders()[0] / "pydoc"

    @cached_property
    def _listed(self) -> dict[str, str]:
        """The digests of the documents that may be in the corpus, by id."""
        return dict(line.split() for line in (self.folder / "corpus.tsv").read_text(encoding="utf-8").splitlines())

    @cached_property
    def _here(self) -> dict[str, str]:
        """The texts of the listed documents in this Python, by id. Some may differ from the listed texts."""
        return {doc_id: text for doc_id, text in docstrings.collect() if doc_id in self._listed}

    def documents(self) -> Iterator[Document]:
        """Yield the listed documents that this Python has with the listed text, by id."""
        found = sorted(self._here.items())
        return (Document(doc_id, text) for doc_id, text in found if docstrings.digest(text) == self._listed[doc_id])

    def queries(self) -> Iterator[Query]:
        """Yield the queries of the split."""
        split = self._split()
        records = read_records(self.folder / "queries.tsv")
        return (Query(query_id, fields["text"]) for query_id, fields in records if query_id in split)

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements of the queries of the split."""
        split, added = self._split(), self.contract.source.added
        files = ("qrels.tsv", added) if added else ("qrels.tsv",)
        return (row for name in files for row in read_judgements(self.folder / name) if row.query_id in split)

    def _split(self) -> frozenset[str]:
        """Return the ids of the queries of the split."""
        records = read_records(self.folder / "split.tsv")
        return frozenset(query_id for query_id, fields in records if fields["text"] == self.contract.source.split)

    def notes(self) -> list[str]:
        """Return how many listed documents this Python lacks or has with another text, if any."""
        missing = len(self._listed) - len(self._here)
        different = len(self._here) - sum(1 for _ in self.documents())
        if not missing and not different:
            return []
        lack = f"{missing} of {len(self._listed)} documents are missing and {different} have another text"
        return [f"{lack} in Python {platform.python_version()}: compare its scores only with others of this Python"]

    def identity(self) -> dict[str, Any]:
        """Return the list and the exact build of Python, which together decide the documents."""
        return {"loader": "pydoc", "list": cached_file_digest(self.folder / "corpus.tsv"), "python": sys.version}
