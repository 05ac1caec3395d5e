"""Contracts: the facts that decide a dataset's numbers, one TOML file a dataset, stamped into every result.

They are data, in `datasets/` of the folders of suites: a wrong key or type is an error that names its place
(`$.protocol.self_match`).
"""

import re
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

from msgspec import field

from lexbench.errors import CannotStart, UnknownName
from lexbench.storage.environment import entries
from lexbench.storage.reading import Strict, read_toml


class SourceFacts(Strict, frozen=True):
    """Where the dataset comes from. Files that the user provides come first, whatever the loader is."""

    loader: str = "ir_datasets"  # a plug-in of the group `sources`; to `ir_datasets` the dataset's id is that library's own
    split: str = "test"  # names the qrels file in a folder of files, `qrels/<split>.tsv`
    url: str | None = None  # of the archive
    md5: str | None = None  # of the archive, as published
    archive: str | None = None  # what ir_datasets calls it, in its folder of the corpus
    publishable: bool = False  # whether its license lets a page that is published show the texts of the queries
    added: str | None = None  # a file of further judgements of the same queries, beside those that the loader pydoc has
    varies: bool = False  # a copy may differ from the expected corpus; the source then says how, and every result repeats it
    license: str = ""  # of the data, as `license_source` states it; "" where nobody looked, or where nobody states one
    license_source: str = ""


class TextPolicy(Strict, frozen=True):
    """How the fields of a document become one text (see `lexbench.datasets.records`)."""

    document: Literal["text", "title_text", "title_line_text", "url_title_body", "url_title_headings_body", "code"] = "text"
    note: str = ""


class Protocol(Strict, frozen=True):
    """Which queries count and what happens to a query's own document."""

    queries: Literal["judged"] = "judged"  # means are over queries that have at least one judgement
    self_match: Literal["keep", "drop"] = "keep"  # drop: the document whose id is the query's is taken out before the cut
    drop_grade: int | None = None  # documents judged with it are no answers, and no failures: taken out of lists before scoring


class Relevance(Strict, frozen=True):
    """The grade from which a document counts as relevant in binary measures, and the gain of graded ones."""

    default: int = 1
    measures: dict[str, int] = field(default_factory=dict)  # exceptions, by name, as {RR = 2}; those of grades (nDCG) have none
    gain: Literal["linear"] = "linear"


class Expected(Strict, frozen=True):
    """What a complete, unchanged copy has. Digests are lexbench's own (see `lexbench.datasets.digests`)."""

    documents: int | None = None
    queries: int | None = None  # judged ones
    judgements: int | None = None
    absent: int | None = None  # judged documents that the corpus does not have
    grades: dict[str, int] = field(default_factory=dict)  # grade -> number of judgements
    corpus_sha256: str | None = None
    queries_sha256: str | None = None
    qrels_sha256: str | None = None
    note: str = ""  # where these come from, and why one is not here

    def __post_init__(self) -> None:
        """Refuse a grade that is no whole number: msgspec makes it an error with its place."""
        if wrong := [grade for grade in self.grades if not re.fullmatch(r"-?[0-9]{1,10}", grade)]:
            raise ValueError(f"the grade {wrong[0]!r} is no whole number")


class Judging(Strict, frozen=True):
    """Who judged which documents: what decides how far scores of systems outside the pool can be trusted."""

    by: str  # as "language models"
    pool: tuple[str, ...] = ()  # the systems whose results were judged, in words
    contributors: tuple[str, ...] = ()  # those of them that lexbench has, by the name in the notation, as "bm25"
    depth: int | None = None  # of each one's list that was judged
    complete: bool = False  # all documents were looked at, so what is not listed is irrelevant, and not unjudged
    source: str = ""


class Related(Strict, frozen=True):
    """What else this dataset's content is known by, so that a result can say what a model saw of it in training.

    Names are those that the catalogue's `training` uses, of collections that are no contract here: "msmarco", "wikipedia".
    """

    queries: tuple[str, ...] = ()  # collections whose queries and judgements are of the same task and source
    texts: tuple[str, ...] = ()  # collections that hold its documents
    source: str = ""


class Defect(Strict, frozen=True):
    """Something known to be wrong or surprising in the data itself."""

    what: str
    source: str


class Contract(Strict, frozen=True):
    """One dataset."""

    schema: Literal[1]  # of this file's format
    id: str
    version: int  # goes up whenever a change here changes a score
    name: str
    description: str
    corpus: str  # datasets that name the same corpus share one index
    source: SourceFacts
    text: TextPolicy = TextPolicy()
    protocol: Protocol = Protocol()
    relevance: Relevance = Relevance()
    expected: Expected = Expected()
    tuning: str | None = None  # the dataset whose queries weights may be tuned on; never this one
    aggregates: tuple[str, ...] = ()  # the named means it is a member of
    judging: Judging | None = None
    related: Related = Related()
    defects: tuple[Defect, ...] = ()

    def __post_init__(self) -> None:
        """Refuse names that could be no folder, nor be typed."""
        for name in (self.id, self.corpus):
            if self.version and (not name.isprintable() or name.split() != [name]):
                raise ValueError(f"the name {name!r} is empty, or has white space or control characters")
        for name in (self.id, self.corpus, self.source.split):
            if ".." in name.split("/"):  # data are looked for below folders of the user, by these names
                raise ValueError(f"the name {name!r} leads out of the folder of the data")
        if self.tuning == self.id:
            raise ValueError("it is tuned on its own queries, which it tests")

    @property
    def stamp(self) -> str:
        """What a result says it was scored under, as `beir/scifact@1`."""
        return f"{self.id}@{self.version}"

    def threshold(self, measure: str) -> int:
        """Return the lowest relevant grade for the binary *measure* named so (`RR`, `R`, `AP`, ...)."""
        return self.relevance.measures.get(measure, self.relevance.default)


@cache
def suite_folders() -> tuple[Path, ...]:
    """Return the folders that hold suites and contracts: our own, then those of plug-ins (entry points `lexbench.suites`)."""
    package = Path(__file__).parent
    in_wheel = package / "_suites"
    return in_wheel if in_wheel.is_dir() else package.parent / "suites", *map(_folder, entries("lexbench.suites"))


def _folder(entry: EntryPoint) -> Path:
    try:
        return Path(str(entry.load().__file__)).parent
    except Exception as error:  # another package's mistake is no reason for a traceback of ours
        raise CannotStart(f"suites of plug-in {entry.name!r} do not load: {type(error).__name__}: {error}") from error


def toml_files(*parts: str) -> dict[str, Path]:
    """Return the TOML files in the folder *parts* of the folders of suites, by name; of two of a name the first counts."""
    return _toml_files(suite_folders(), parts)


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
    """Return the contract of a dataset, None where there is none.

    It is looked for in the file that is named as ours are, `beir_nfcorpus_dev.toml`: reading them all takes much longer.
    """
    path = toml_files("datasets").get(dataset_id.replace("/", "_").replace("-", "_"))
    contract = _contract(path) if path else None
    return contract if contract and contract.id == dataset_id else all_contracts().get(dataset_id)


def contract_of(dataset_id: str) -> Contract:
    """Return the contract of a dataset, or UnknownName."""
    contract = find_contract(dataset_id)
    if contract is None:
        raise UnknownName("dataset", dataset_id, all_contracts(), see="lexbench list datasets")
    return contract
