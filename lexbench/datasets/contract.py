"""The facts that decide a dataset's numbers, one TOML file a dataset, stamped into every result.

Contracts are data: a wrong key or type is an error that names its place (`$.protocol.self_match`).
"""

from typing import Literal

import msgspec


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a TOML file in which an unknown key is an error."""


class SourceFacts(Strict, frozen=True):
    """Where the dataset comes from. Files that the user provides come first, whatever the loader is."""

    loader: str = "ir_datasets"  # a plug-in of the group `sources`; to `ir_datasets` the dataset's id is that library's own
    split: str = "test"  # names the qrels file in a folder of files, `qrels/<split>.tsv`
    url: str | None = None  # of the archive
    md5: str | None = None  # of the archive, as published
    archive: str | None = None  # what ir_datasets calls it, in its folder of the corpus
    varies: bool = False  # a copy may differ from the expected corpus; the source then says how, and every result repeats it


class TextPolicy(Strict, frozen=True):
    """How the fields of a document become one text (see `lexbench.datasets.text`)."""

    document: Literal["text", "title_text", "title_line_text", "url_title_body"] = "text"
    note: str = ""


class Protocol(Strict, frozen=True):
    """Which queries count and what happens to a query's own document."""

    queries: Literal["judged"] = "judged"  # means are over queries that have at least one judgement
    self_match: Literal["keep", "drop"] = "keep"  # drop: the document whose id is the query's is taken out before the cut


class Relevance(Strict, frozen=True):
    """The grade from which a document counts as relevant in binary measures, and the gain of graded ones."""

    default: int = 1
    measures: dict[str, int] = {}  # exceptions, by measure name, as {RR = 2}; measures of grades (nDCG) have no threshold
    gain: Literal["linear"] = "linear"


class Expected(Strict, frozen=True):
    """What a complete, unchanged copy has. Digests are lexbench's own (see `lexbench.datasets.digests`)."""

    documents: int | None = None
    queries: int | None = None  # judged ones
    judgements: int | None = None
    absent: int | None = None  # judged documents that the corpus does not have
    grades: dict[str, int] = {}  # grade -> number of judgements
    corpus_sha256: str | None = None
    queries_sha256: str | None = None
    qrels_sha256: str | None = None
    note: str = ""  # where these come from, and why one is not here


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
    defects: tuple[Defect, ...] = ()

    @property
    def stamp(self) -> str:
        """What a result says it was scored under, as `beir/scifact@1`."""
        return f"{self.id}@{self.version}"

    def threshold(self, measure: str) -> int:
        """Return the lowest relevant grade for the binary *measure* named so (`RR`, `R`, `AP`, ...)."""
        return self.relevance.measures.get(measure, self.relevance.default)
