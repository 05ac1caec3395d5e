"""Datasets of the ir_datasets library, which downloads missing data and checks its downloads.

This module adds what the library lacks: it prints nothing, gives up within seconds without a network, raises one kind of error,
and checks archives that the user put into the library's folder (IR_DATASETS_HOME, by default ~/.ir_datasets).
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from io import StringIO
from os.path import expanduser
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

from lexbench.contracts import Contract
from lexbench.datasets.records import document
from lexbench.datasets.sources import missing, offline
from lexbench.errors import CommandError, ContractMismatch, InvalidFile, MissingData, UnknownName
from lexbench.plugins import Source
from lexbench.storage.reading import cached_file_digest
from lexbench.trec.columns import parse_grade
from lexbench.types import Document, Judgement, Query

_TIMEOUT = 5.0  # seconds until a server that does not answer is given up
_GRACE = 1.0  # more seconds for the time-out to be reported


@dataclass(frozen=True)
class IrDatasets(Source):
    """A dataset of ir_datasets, under the id of that library."""

    contract: Contract

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Self | None:
        """Return the dataset if it is here or can be downloaded. Otherwise raises MissingData, within seconds."""
        source = cls(contract)
        if source.present():
            expected, actual = contract.source.md5, source._md5()
            if expected and actual and expected != actual:  # the library uses an archive without checking it
                archive = source._archive()
                raise ContractMismatch(f"{contract.id}: MD5 of {archive}: {expected} expected, {actual} found; remove it")
            return source
        looked = ", ".join(str(folder) for folder in (*folders, home_folder() / contract.corpus))
        if offline():
            raise missing(contract, f"looked in {looked}; LEXBENCH_OFFLINE forbids to fetch it")
        if contract.source.url and (reason := unreachable(urljoin(contract.source.url, "/"))):
            raise missing(contract, f"looked in {looked}; {reason}")
        return source

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:  # noqa: ARG003
        """Return where it is, or that it would be downloaded."""
        if cls(contract).present():
            return f"here: {home_folder() / contract.corpus}"
        return "" if offline() else "to be fetched"

    @classmethod
    def ways(cls, contract: Contract) -> str:
        """Return which archive to put where."""
        archive, url = contract.source.archive, contract.source.url or ""
        place = os.path.normpath(f"{contract.corpus}/{archive}")
        return f"put {url.rpartition('/')[2]} at $IR_DATASETS_HOME/{place}" if archive else ""

    def present(self) -> bool:
        """Return whether the corpus is in the library's folder, as a download or as the library's own store."""
        home, facts = home_folder(), self.contract.source
        folder = home / self.contract.corpus
        if (facts.md5 and (home / "downloads" / facts.md5).is_file()) or (facts.archive and self._archive().is_file()):
            return True
        # A failed download leaves `irds_version.txt`, `*.tmp*` and a store without `bin.pos` behind.
        whole = (path for path in folder.glob("*") if path.name != "irds_version.txt" and ".tmp" not in path.name)
        return any(path.is_file() for path in whole) or any(folder.glob("*.pklz4/bin.pos"))

    def _md5(self) -> str | None:
        """Return the MD5 of the archive in the library's folder, None if there is none."""
        archive = self._archive()
        return cached_file_digest(archive, "md5") if archive.is_file() else None

    def _archive(self) -> Path:
        """Return where the library keeps the archive. It may be outside the folder of the corpus."""
        return Path(os.path.normpath(home_folder() / self.contract.corpus / (self.contract.source.archive or "")))

    def documents(self) -> Iterator[Document]:
        """Yield the documents. The first time, the library downloads them and builds its own store."""
        for record in self._read("docs"):
            yield document(record.doc_id, record._asdict(), self.contract.text.document)

    def queries(self) -> Iterator[Query]:
        """Yield the queries of this dataset, without those of other splits."""
        for query in self._read("queries"):
            yield Query(query.query_id, query.text)

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements."""
        for row in self._read("qrels"):
            yield Judgement(row.query_id, row.doc_id, parse_grade(row.relevance))

    def identity(self) -> dict[str, Any]:
        """Return the archive, the text policy, and the version of the library, because it repairs some documents."""
        return {
            "loader": "ir_datasets",
            "corpus": self.contract.corpus,
            "md5": self._md5() or self.contract.source.md5,
            "version": version("ir_datasets"),
            "text": self.contract.text.document,
        }

    def _read(self, what: str) -> Iterator[Any]:
        """Yield the library's records. Raises MissingData, with how to provide the dataset, if the library fails."""
        try:
            yield from records(load(self.contract.id), what)
        except MissingData as error:
            raise missing(self.contract, str(error)) from error


def load(name: str) -> Any:
    """Return the library's dataset of that id. Raises UnknownName if there is none."""
    library = _library(str(home_folder()))
    try:
        return library.load(name)
    except KeyError:
        raise UnknownName("dataset of ir_datasets", name, library.registry, see="https://ir-datasets.com") from None


def records(dataset: Any, what: str) -> Iterator[Any]:
    """Yield the "docs", "queries" or "qrels" of a dataset of the library. All its exceptions become MissingData."""
    try:
        yield from getattr(dataset, f"{what}_iter")()
    except (CommandError, InvalidFile):
        raise
    except Exception as error:
        first_line = (str(error).splitlines() or [""])[0][:120]
        raise MissingData(f"ir_datasets failed at its {what} ({type(error).__name__}: {first_line})") from error


def home_folder() -> Path:
    """Return the folder of ir_datasets, which need not exist."""
    # For a user without a home folder this is the path ~/.ir_datasets itself, which is not there; Path.home would fail.
    return Path(os.environ.get("IR_DATASETS_HOME") or expanduser("~/.ir_datasets"))  # noqa: PTH111


@cache
def unreachable(server: str) -> str:
    """Return why a server, e.g. "https://example.org/", cannot be reached, or ""."""
    # In a thread, because looking up a name and proxies ignore time-outs.
    reasons = [f"{server} did not answer in {_TIMEOUT:.0f} s"]
    thread = Thread(target=lambda: reasons.append(_ask(server)), daemon=True)
    thread.start()
    thread.join(_TIMEOUT + _GRACE)
    return reasons[-1]


def _ask(server: str) -> str:
    import http.client
    import urllib.error
    import urllib.request

    request = urllib.request.Request(server, method="HEAD")  # noqa: S310 - the address is a contract's
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT):  # noqa: S310
            return ""
    except (urllib.error.HTTPError, http.client.HTTPException):
        return ""  # the server answers, although it refuses this request
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"{urlsplit(server).hostname}: {getattr(reason, 'strerror', None) or reason}"


@cache
def _library(home: str) -> Any:
    """Import ir_datasets with the folder *home*, without its log and progress bars.

    Raises CommandError if another package, e.g. ranx, has imported it with another folder.
    """
    os.environ.setdefault("IR_DATASETS_DL_DISABLE_PBAR", "true")
    import ir_datasets

    # The folder that the library uses since its import is known only from the place of a qrels file. Its public method for
    # that would download the file.
    judgements = ir_datasets.load("beir/fiqa/test").qrels_handler()._qrels_dlc  # noqa: SLF001
    taken = Path(judgements.path(force=False)).parents[2]
    if taken != Path(home):
        raise CommandError(f"ir_datasets was imported with the folder {taken}, now it is {home}; set IR_DATASETS_HOME before")
    ir_datasets.log.easy().logger().setLevel("CRITICAL")  # `easy` creates the logger and would reset its level
    bar = ir_datasets.lazy_libs.tqdm().tqdm

    def quiet(*args: Any, **options: Any) -> Any:
        # Not `disable=True`: a disabled bar does not count bytes, and the library resumes a download at that count.
        return bar(*args, **options | {"file": StringIO()})

    ir_datasets.lazy_libs.tqdm = lambda: SimpleNamespace(tqdm=quiet)
    return ir_datasets
