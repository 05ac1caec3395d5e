"""Datasets as the ir_datasets library gives them: it fetches what is not here, and checks what it fetched.

What it does not do, and this does: stay quiet, give up within seconds where there is no network, fail in one way, and check
an archive that somebody put into its folder. That folder is IR_DATASETS_HOME, by default ~/.ir_datasets.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, Self
from urllib.parse import urlsplit

from lexbench.contracts import Contract
from lexbench.datasets.records import document
from lexbench.datasets.source import missing, offline
from lexbench.errors import CommandError, ContractMismatch, InvalidFile
from lexbench.plugins import Source
from lexbench.storage.reading import cached_file_digest
from lexbench.types import Document, Judgement, Query

_PATIENCE = 5.0  # seconds until a server that does not answer is given up
_GRACE = 1.0  # seconds more for it to say so itself


@dataclass(frozen=True)
class IrDatasets(Source):
    """A dataset of ir_datasets; its id is the library's own."""

    contract: Contract

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Self | None:
        """Return the dataset if it is here or can be fetched; MissingData says why it cannot, without waiting for long."""
        source = cls(contract)
        if source.present():
            source.check_archive()
            return source
        looked = ", ".join(str(folder) for folder in (*folders, home_folder() / contract.corpus))
        if offline():
            raise missing(contract, f"looked in {looked}; LEXBENCH_OFFLINE forbids to fetch it")
        if contract.source.url and (reason := unreachable(contract.source.url)):
            raise missing(contract, f"looked in {looked}; {reason}")
        return source

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:  # noqa: ARG003
        """Return where it is, or that it would be fetched."""
        if cls(contract).present():
            return f"here: {home_folder() / contract.corpus}"
        return "" if offline() else "to be fetched"

    @classmethod
    def ways(cls, contract: Contract) -> str:
        """Say which archive goes where."""
        archive, url = contract.source.archive, contract.source.url or ""
        place = os.path.normpath(f"{contract.corpus}/{archive}")
        return f"put {url.rpartition('/')[2]} at $IR_DATASETS_HOME/{place}" if archive else ""

    def present(self) -> bool:
        """Whether the corpus is in the library's folder: fetched, or built from what was.

        A failed attempt leaves `irds_version.txt`, `*.tmp*` and a store without `bin.pos` behind.
        """
        home, facts = home_folder(), self.contract.source
        folder = home / self.contract.corpus
        if (facts.md5 and (home / "downloads" / facts.md5).is_file()) or (facts.archive and self._archive().is_file()):
            return True
        whole = (path for path in folder.glob("*") if path.name != "irds_version.txt" and ".tmp" not in path.name)
        return any(path.is_file() for path in whole) or any(folder.glob("*.pklz4/bin.pos"))

    def check_archive(self) -> None:
        """Raise ContractMismatch if the archive is not the published one: the library takes one that lies there as it is."""
        expected, actual = self.contract.source.md5, self._md5()
        if expected and actual and expected != actual:
            raise ContractMismatch(
                f"{self.contract.id}: MD5 of {self._archive()}: {expected} expected, {actual} found; remove it"
            )

    def _md5(self) -> str | None:
        """Return the MD5 of the archive in the library's folder, None if there is none."""
        archive = self._archive()
        return cached_file_digest(archive, "md5") if archive.is_file() else None

    def _archive(self) -> Path:
        """Return where the library keeps the archive; it may be beside the corpus's folder, which need not be there."""
        return Path(os.path.normpath(home_folder() / self.contract.corpus / (self.contract.source.archive or "")))

    def documents(self) -> Iterator[Document]:
        """Yield the documents. The first time, the library fetches them and builds a store of its own."""
        for record in self._read("docs"):
            yield document(record.doc_id, record._asdict(), self.contract.text.document)

    def queries(self) -> Iterator[Query]:
        """Yield the queries of the dataset, without those of its other splits."""
        for query in self._read("queries"):
            yield Query(query.query_id, query.text)

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements."""
        for row in self._read("qrels"):
            yield Judgement(row.query_id, row.doc_id, row.relevance)

    def identity(self) -> dict[str, Any]:
        """Return which documents of which archive these are; the library's version, because it mends some on the way."""
        return {
            "loader": "ir_datasets",
            "corpus": self.contract.corpus,
            "md5": self._md5() or self.contract.source.md5,
            "version": version("ir_datasets"),
            "text": self.contract.text.document,
        }

    def remarks(self) -> list[str]:
        """Return nothing: a copy that is not what the contract says is refused."""
        return []

    def _read(self, what: str) -> Iterator[Any]:
        """Yield what the library gives; all the ways in which it fails to become one."""
        try:
            dataset = _library(str(home_folder())).load(self.contract.id)
            yield from getattr(dataset, f"{what}_iter")()
        except (CommandError, InvalidFile):
            raise
        except Exception as error:
            first_line = (str(error).splitlines() or [""])[0][:120]
            raise missing(self.contract, f"ir_datasets failed at its {what} ({type(error).__name__}: {first_line})") from error


def home_folder() -> Path:
    """Return the folder of ir_datasets, without making it."""
    return Path(os.environ.get("IR_DATASETS_HOME") or Path.home() / ".ir_datasets")


def unreachable(url: str) -> str:
    """Return why the server of *url* cannot be had, '' if it can. Each server is asked once a process."""
    parts = urlsplit(url)
    return _why_unreachable(f"{parts.scheme}://{parts.netloc}/")


@cache
def _why_unreachable(server: str) -> str:
    """Ask in a thread: neither looking up a name nor a proxy keeps to a time-out."""
    reasons = [f"{server} did not answer in {_PATIENCE:.0f} s"]
    thread = Thread(target=lambda: reasons.append(_ask(server)), daemon=True)
    thread.start()
    thread.join(_PATIENCE + _GRACE)
    return reasons[-1]


def _ask(server: str) -> str:
    import http.client
    import urllib.error
    import urllib.request

    request = urllib.request.Request(server, method="HEAD")  # noqa: S310 - the address is a contract's
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE):  # noqa: S310
            return ""
    except (urllib.error.HTTPError, http.client.HTTPException):
        return ""  # it answers, if not to this
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"{urlsplit(server).hostname}: {getattr(reason, 'strerror', None) or reason}"


@cache
def _library(home: str) -> Any:
    """Import ir_datasets and make it quiet: what it logs and draws would run through our own output.

    It takes its folder when it is imported, which another package may have done before, as ranx does: half of it looks there.
    """
    os.environ.setdefault("IR_DATASETS_DL_DISABLE_PBAR", "true")
    import ir_datasets

    taken = _folder_taken(ir_datasets)
    if taken != Path(home):
        raise CommandError(f"ir_datasets was imported with the folder {taken}, now it is {home}; set IR_DATASETS_HOME before")
    ir_datasets.log.easy().logger().setLevel("CRITICAL")  # making the logger sets its level; so it is made first
    bar = ir_datasets.lazy_libs.tqdm().tqdm

    def quiet(*args: Any, **options: Any) -> Any:
        # Not `disable=True`: a disabled bar does not count, and the library resumes a download by that count.
        return bar(*args, **options | {"file": _NOWHERE})

    ir_datasets.lazy_libs.tqdm = lambda: SimpleNamespace(tqdm=quiet)
    return ir_datasets


def _folder_taken(library: Any) -> Path:
    """Return the folder that the library took when it was imported, read off where it keeps the judgements of one dataset."""
    judgements = library.load("beir/fiqa/test").qrels_handler()._qrels_dlc  # noqa: SLF001 - its public way fetches the file
    return Path(judgements.path(force=False)).parents[2]


class _Nowhere:
    """A stream that takes what is written and keeps nothing."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        pass


_NOWHERE = _Nowhere()
