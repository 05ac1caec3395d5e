"""Contracts: the facts that determine the scores on a dataset, one TOML file each. Every result has the stamp of its contract.

The files are in `datasets/` of the suite folders. A wrong key or type is an error with its place, e.g. `$.protocol.self_match`.
"""

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from msgspec import field

from lexbench.errors import CannotStart, InvalidFile, UnknownName
from lexbench.storage.environment import entries
from lexbench.storage.reading import Strict, read_toml

MEASURES = ("nDCG@10", "RR@10", "R@100", "R@1000", "AP@1000")  # the default if no suite names measures
JUDGED = "Judged@10"  # also a default where no contract says how complete the judgements are


class SourceFacts(Strict, frozen=True):
    """Where the dataset comes from. Files of the user come first, with any loader."""

    loader: str = "ir_datasets"  # a plug-in of the group `sources`; for `ir_datasets` the dataset has the id of that library
    split: str = "test"  # names the qrels file in a folder of files, `qrels/<split>.tsv`
    url: str | None = None  # of the archive
    md5: str | None = None  # of the archive, as published
    archive: str | None = None  # its name in ir_datasets' folder of the corpus
    publishable: bool = False  # whether the license allows a published page to show the texts of queries
    columns: dict[str, str] = field(default_factory=dict)  # of tables of the user, see `lexbench.datasets.stated_columns`
    added: str | None = None  # for the loader files: a file beside the documents with more judgements of the same queries
    license: str = ""  # of the data, as stated at `license_source`; "" if unknown
    license_source: str = ""


class TextPolicy(Strict, frozen=True):
    """How the fields of a document become one text (see `lexbench.datasets.records`)."""

    document: Literal["text", "title_text", "title_line_text", "url_title_body", "url_title_headings_body", "code"] = "text"
    note: str = ""


class Protocol(Strict, frozen=True):
    """Which queries count, and which documents are dropped from lists."""

    queries: Literal["judged"] = "judged"  # means are over queries that have at least one judgement
    self_match: Literal["keep", "drop"] = "keep"  # drop: a document with the id of the query is removed before the cut
    drop_grade: int | None = None  # documents with this grade are removed from lists before scoring
    note: str = ""  # why a document is dropped


class Relevance(Strict, frozen=True):
    """The grade from which a document counts as relevant in binary measures, and the gain of graded ones."""

    default: int = 1
    measures: dict[str, int] = field(default_factory=dict)  # exceptions, e.g. {RR = 2}; graded measures (nDCG) have none
    gain: Literal["linear"] = "linear"
    note: str = ""  # why a threshold is not 1, or who says so


class Expected(Strict, frozen=True):
    """Counts and digests of a complete, unchanged copy (digests: see `lexbench.datasets.digests`)."""

    documents: int | None = None
    queries: int | None = None  # judged ones
    judgements: int | None = None
    absent: int | None = None  # judged documents that are not in the corpus
    grades: dict[str, int] = field(default_factory=dict)  # grade -> number of judgements
    corpus_sha256: str | None = None
    query_ids_sha256: str | None = None  # results have the ids of queries, not their texts
    queries_sha256: str | None = None
    qrels_sha256: str | None = None
    note: str = ""  # where these come from, and why one is missing

    def __post_init__(self) -> None:
        """Refuse a grade that is no integer; msgspec adds the place to the error."""
        if wrong := [grade for grade in self.grades if not re.fullmatch(r"-?[0-9]{1,10}", grade)]:
            raise ValueError(f"the grade {wrong[0]!r} is no whole number")


class Judging(Strict, frozen=True):
    """Who judged which documents. This decides how far scores of systems outside the pool can be trusted."""

    by: str  # e.g. "language models"
    pool: tuple[str, ...] = ()  # descriptions of the systems whose results were judged
    contributors: tuple[str, ...] = ()  # the systems of these that lexbench has, by name, e.g. "bm25"
    depth: int | None = None  # documents per list that were judged
    complete: bool = False  # all documents were judged; those not listed are irrelevant
    source: str = ""


class Related(Strict, frozen=True):
    """Collections that share content with this dataset, so that a result can say what a model saw of it in training.

    The names are those of `training` in the catalogue, e.g. "msmarco" or "wikipedia", which are not contracts here.
    """

    queries: tuple[str, ...] = ()  # collections with queries and judgements of the same task and source
    texts: tuple[str, ...] = ()  # collections that contain its documents
    source: str = ""


class Defect(Strict, frozen=True):
    """A known error or surprise in the data."""

    what: str
    source: str


class Contract(Strict, frozen=True):
    """One dataset."""

    schema: Literal[1]  # of this file's format
    id: str
    version: int  # increased whenever a change of this file changes a score
    name: str
    description: str
    corpus: str  # datasets with the same corpus share one index
    source: SourceFacts
    text: TextPolicy = TextPolicy()
    protocol: Protocol = Protocol()
    relevance: Relevance = Relevance()
    expected: Expected = Expected()
    tuning: str | None = None  # the dataset for tuning weights; never this one
    aggregates: tuple[str, ...] = ()  # the named means that include it
    judging: Judging | None = None
    related: Related = Related()
    defects: tuple[Defect, ...] = ()

    def __post_init__(self) -> None:
        """Refuse names that cannot be typed or used as a folder."""
        for name in (self.id, self.corpus):
            if self.version and (not name.isprintable() or name.split() != [name]):
                raise ValueError(f"the name {name!r} is empty, or has white space or control characters")
        for name in (self.id, self.corpus, self.source.split):
            if ".." in name.split("/"):  # these names are looked up below folders of the user
                raise ValueError(f"the name {name!r} leads out of the folder of the data")
        if self.source.added and self.source.loader != "files":
            raise ValueError(f"source.added is for the loader files; this is {self.source.loader}")
        if self.tuning == self.id:
            raise ValueError("it is tuned on its own queries, which it tests")

    @property
    def stamp(self) -> str:
        """The stamp in results, e.g. `beir/scifact@1`."""
        return f"{self.id}@{self.version}"

    @property
    def default_measures(self) -> tuple[str, ...]:
        """The measures if no suite names some. Data of a user, without a published contract, have Judged@10 as well."""
        return MEASURES if self.version else (*MEASURES, JUDGED)

    def threshold(self, measure: str) -> int:
        """Return the lowest relevant grade for a binary measure (`RR`, `R`, `AP`, ...)."""
        return self.relevance.measures.get(measure, self.relevance.default)


_added: list[Path] = []  # folders of suite files that were given by their path


def add_suite_folder(folder: Path) -> None:
    """Let this process also find the contracts in *folder*/datasets, and the data beside them in *folder*.

    Raises InvalidFile if one of them has the id of another contract.
    """
    if folder in _added:
        return
    known, files = all_contracts(), sorted((folder / "datasets").glob("*.toml"))
    for path in files:
        if (added := _contract(path)).id in known and known[added.id] != added:
            raise InvalidFile(f"{path}: {added.id!r} is the id of another dataset; give it an id of its own")
    _added.append(folder)
    if files:
        all_contracts.cache_clear()


def added_folders() -> tuple[Path, ...]:
    """Return the folders that `add_suite_folder` added."""
    return tuple(_added)


@cache
def suite_folders() -> tuple[Path, ...]:
    """Return the folders of suites and contracts: our own, then those of plug-ins (entry points `lexbench.suites`)."""
    package = Path(__file__).parent
    in_wheel = package / "_suites"
    return in_wheel if in_wheel.is_dir() else package.parent / "suites", *plugin_folders("suites")


@cache
def plugin_folders(kind: str) -> tuple[Path, ...]:
    """Return the folders of the modules that entry points `lexbench.KIND` of other packages name, without importing them.

    Raises CannotStart if a module is missing, or if importing its parent package fails.
    """
    folders = []
    for entry in entries(f"lexbench.{kind}"):
        try:
            spec = find_spec(entry.module)
        except Exception as error:  # another package may raise anything
            raise CannotStart(f"{kind} of plug-in {entry.name!r} do not load: {type(error).__name__}: {error}") from error
        if spec is None:
            raise CannotStart(f"{kind} of plug-in {entry.name!r} do not load: there is no module {entry.module}")
        folders.append(Path(spec.origin).parent if spec.origin else Path(*(spec.submodule_search_locations or ())[:1]))
    return tuple(folders)


def toml_files(*parts: str) -> dict[str, Path]:
    """Return the TOML files in the subfolder *parts* of all suite folders by name; the first one of a name counts."""
    return _toml_files((*suite_folders(), *(_added if parts else ())), parts)


@cache
def _toml_files(folders: tuple[Path, ...], parts: tuple[str, ...]) -> dict[str, Path]:
    paths = [path for folder in folders for path in sorted(folder.joinpath(*parts).glob("*.toml"))]
    return {path.stem: path for path in reversed(paths)}


@cache
def all_contracts() -> dict[str, Contract]:
    """Return every contract by dataset id, sorted."""
    contracts = map(_contract, toml_files("datasets").values())
    return {contract.id: contract for contract in sorted(contracts, key=lambda contract: contract.id)}


@cache
def _contract(path: Path) -> Contract:
    return read_toml(path, Contract)


def find_contract(dataset_id: str) -> Contract | None:
    """Return the contract of a dataset, or None."""
    if all_contracts.cache_info().currsize:
        return all_contracts().get(dataset_id)
    # Look in the file with the usual name first, e.g. `beir_nfcorpus_dev.toml`: reading all files takes much longer.
    path = toml_files("datasets").get(dataset_id.replace("/", "_").replace("-", "_"))
    contract = _contract(path) if path else None
    return contract if contract and contract.id == dataset_id else all_contracts().get(dataset_id)


def contract_of(dataset_id: str) -> Contract:
    """Return the contract of a dataset. Raises UnknownName if there is none."""
    contract = find_contract(dataset_id)
    if contract is None:
        raise UnknownName("dataset", dataset_id, all_contracts(), see="lexbench list datasets")
    return contract
