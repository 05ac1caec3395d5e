"""The result of a job, the container of results, and the files that hold them.

A result says what was scored, under which rules, how it was made, and where it was measured. Later versions only add fields
with a default, or raise `schema`. A folder of results (`--results`) has one file per system and suite:

    FOLDER/results/<suite>/<system>.json
    FOLDER/queries/<suite>/<dataset>.json    of the user's own data: the texts of the queries, for the pages
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from shlex import quote
from statistics import stdev
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote as percent_encoded
from urllib.parse import unquote

import msgspec

import lexbench
from lexbench.display.answer import Answer
from lexbench.display.table import Table
from lexbench.errors import CannotStart, CommandError, InvalidFile, UnknownName
from lexbench.storage import atomic, locks
from lexbench.storage.reading import decode_json
from lexbench.storage.stopwatch import Measurement
from lexbench.storage.store import Store

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from lexbench import Comparison, Explanation, Picture, Ranks, Report
    from lexbench.trec.runs import Run

DATASETS = "datasets"  # the suite of results on datasets that were run without a suite
KEPT = 10  # documents per query whose ids a result keeps

NoteKind = Literal[
    "bound",  # an upper bound: its weights were chosen on the tested queries
    "chosen weights",  # how weights were chosen on other queries
    "short lists",  # measures look deeper than the lists of a run file, or lists are shorter than asked for
    "candidates",  # what a pipeline's first retriever found
    "judge",  # judgements by a program
    "judgements",  # what is odd about the judgements
    "documents",  # what is odd about the documents, or about the ids of a run
    "run",  # what is odd about a run file
    "index",  # what is odd about what was indexed
    "model",  # what a model does with texts
    "too good",  # a sign that it was made from the judgements
    "seen in training",  # a model was trained on the tested queries
    "approximate search",  # which share of the exact result an engine finds
    "data issue",  # a known issue of a collection
    "judged share",  # systems differ in how many of their documents were judged
    "power",  # which difference the tests find
    "test",  # what the tests assume, and these differences do not have
    "result",  # a line of the tables that is computed from the result
]


class Note(msgspec.Struct, frozen=True):
    """A line for readers of a result. Programs ask for its *kind*, never for words of its text."""

    kind: NoteKind
    text: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text


class Tie(msgspec.Struct, frozen=True, kw_only=True):
    """How ties of score could change one measure."""

    lowest: float  # mean with every tied group in its worst order
    highest: float  # mean with every tied group in its best order
    queries: float  # share of queries with a tie across the cut-off


class Incomplete(msgspec.Struct, frozen=True, kw_only=True):
    """What one measure's mean would be if unjudged documents did not count as irrelevant."""

    condensed: float  # with unjudged documents taken out of the lists
    highest: float  # with unjudged documents of the best grade


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of queries and documents behind the means."""

    queries: int  # of the contract; the denominator of every mean
    missing: int = 0  # queries without a document in the run: they score 0
    unjudged: int = 0  # queries of the run that the contract does not count
    self_matches: int = 0  # documents dropped because their id is the query's
    excluded: int = 0  # documents dropped because their grade marks them as no answers, e.g. Cranfield's source papers
    documents: int | None = None  # in the corpus; None if a run was scored without it
    judged_absent: int | None = None  # judged documents that are not in the corpus
    judged: float | None = None  # share of the first ten documents that are judged: the mean of Judged@10


class Lists(msgspec.Struct, frozen=True, kw_only=True):
    """What ranked lists show beside their scores. The numbers are of judged queries; see `Result.unmeasured`."""

    short: int  # with some documents, but fewer than 10, or than are judged
    same: int  # with the most frequent list; its first 10 documents count
    constant: int  # with five documents or more, of which all have one score
    judged: int  # different documents with a judgement, of all queries: the collection has at least so many
    found: int  # of these, in any list
    sha256: str  # of all documents in order: equal if two systems found the same; "" for a mean over seeds


_MOST = 0.5  # share of the queries with a sign, above which nothing was measured
_FEWEST = 10  # queries: fewer may rightly have one list
_EMPTY = 5  # queries: fewer may rightly have none
_FEW = 10  # documents: those of a smaller collection may rightly have one order

EXPOSURES = ("zero-shot", "unknown", "corpus seen", "in-domain")  # ascending; the highest of a system's models counts


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """What a system may have seen of a dataset in training: see `lexbench.runner.exposure`."""

    status: str  # one of EXPOSURES
    because: list[str] = []  # the evidence


class VectorSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the indexed document vectors of a system: terms of sparse ones, dimensions of others."""

    terms: dict[str, float] = {}  # active terms per document: mean, p50, p95, max
    dimensions: int = 0  # of a dense vector
    vectors: float = 0.0  # dense vectors per document: 1, or one per token
    # Three per term: two for its number, one for its weight (the paper's ReprByte). Four per dimension.
    bytes_per_document: float
    empty: int = 0  # documents without any term
    truncated: int = 0  # texts that were cut to the encoder's length
    clipped: int = 0  # weights that the quantiser's bits could not hold
    dropped: int = 0  # weights that transforms removed
    examples: dict[str, str] = {}  # document id -> its largest weights


class SearchWork(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what searching looks at: exact, and the same on every machine."""

    query_terms: dict[str, float] = {}  # active terms per query: mean, p50, p95, max
    postings: dict[str, float] = {}  # sum over a query's terms: what exhaustive search adds up
    flops: float | None = None  # products per query and document: sum over terms of p_query x p_document (SPLADE's FLOPS)


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per query of one step: statistics over the queries, of each query's median over the passes."""

    p50: float
    p95: float | None = None  # None below 200 queries
    p99: float | None = None  # None below 1,000
    mean: float


STAGES = ("encode_query", "search", "e2e")
SINGLE, OFFLINE = "single-stream-1t", "offline"  # scenarios; offline has the number of threads behind it
LEAST_PASSES, MOST_PASSES = 5, 5000  # timed passes of a process
MOST_WARM_UP = 5  # passes
ONE_THREAD = 1.05  # the most CPU time per wall time that one thread can take, with rounding
MOST_OVERHEAD = 0.05  # share of e2e's p50, without a flag
UNRANKED = {  # flags that keep a timing out of rankings
    "noisy": "noisy timing",
    "workers": "timing with workers",
    "cached": "timing of remembered answers",
    "in process": "timing in the user's process",
    "elsewhere": "timing of a program or server",
    "no encoding": "timing without encoding",
}


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """The speed of one system in one scenario on one machine, with the proof of the conditions."""

    scenario: str  # single-stream-1t, or offline-2t for two threads
    k: int  # documents asked for
    threads: int
    exact: bool  # whether the system returns what an exhaustive search would
    candidates: int = 0  # documents that a pipeline or reranker ranks, for any k; 0 for others
    queries: int
    passes: int  # timed passes, of all processes
    processes: int = 1  # fresh processes that were timed; the systems of a run take turns
    asked_seconds: float = 10.0  # of timed passes, over all processes: --time-seconds
    qps_range: dict[str, tuple[float, float]] = {}  # by step: the rates of the slowest and the fastest process
    first_pass: dict[str, Latency] = {}  # by step: of queries that were not seen before; `stages` are steady
    warm_up: int  # passes before them
    stages: dict[str, Latency]  # encode_query, search, e2e; empty for offline, where queries have no latency of their own
    qps: dict[str, float]  # queries per second by the same names, of the median pass
    overhead: float | None = None  # share of e2e's p50 that the harness itself takes; None for offline
    cpu_per_wall: float  # processor time over wall time of the timed passes: at most 1.05 proves one thread
    flags: list[str] = []  # those of UNRANKED, "threads≈1.3", "differs", "overhead"; `notes` say why
    checked: bool  # the timed passes returned the documents of the untimed run
    memory: dict[str, int] = {}  # bytes: pss_anonymous, pss_file (both less the baseline), baseline, peak_…, model
    disk: dict[str, int] = {}  # bytes of the index by file
    fingerprint: str  # of the machine; speeds are ranked within one only
    machine: dict[str, Any] = {}
    taken: str = ""  # UTC, ISO 8601
    seconds: dict[str, float] = {}  # open, then first_query, with all modules imported; whether files were in memory is unknown
    notes: list[str] = []
    folder: str = ""  # in the store, with every duration: timings/<name>

    @property
    def unranked(self) -> str:
        """Why it is in no ranking, e.g. "noisy timing"; "" if it is in rankings."""
        return next((meaning for flag, meaning in UNRANKED.items() if flag in self.flags), "")


class Seeds(msgspec.Struct, frozen=True, kw_only=True):
    """The trainings or checkpoints that one result averages, query by query."""

    systems: dict[str, str]  # by name: the expression; "" if the name is the expression
    means: dict[str, list[float]]  # by measure: one per system, in that order

    def deviation(self, measure: str) -> float:
        """Return the standard deviation (n - 1) of the means of *measure* over the seeds."""
        return stdev(self.means[measure])


class QueryTexts(msgspec.Struct, frozen=True, kw_only=True):
    """What people read instead of ids: the queries of a user's dataset, and the beginnings of their relevant documents.

    A folder of results has it in `queries/<suite>/<dataset>.json`, so its pages need neither the data nor the store.
    """

    schema: int = 1
    dataset: str
    digests: dict[str, str]  # of the queries and judgements
    texts: dict[str, str]  # by query
    relevant: dict[str, dict[str, float]]  # by query: the grades of relevant documents
    documents: dict[str, str] = {}  # by id

    def belongs_to(self, result: "Result") -> bool:
        """Whether a result was scored with these queries and judgements."""
        return self.dataset == result.dataset and self.digests.items() <= result.digests.items()


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one system on one dataset."""

    schema: int = 1
    system: str  # its name in tables
    expression: str = msgspec.field(default="", name="notation")  # behind the name; "" if they are the same, or for an object
    dataset: str
    contract: str  # with its version, e.g. `beir/scifact@1`
    depth: int
    means: dict[str, float]  # by measure, in ir-measures' notation
    query_ids: list[str]
    per_query: dict[str, list[float]]  # in the order of query_ids
    top: list[str] = []  # the ids of the first KEPT documents, as `kept_text` writes them, in that order; [] if not kept
    counts: Counts
    lists: Lists | None = None  # None in older results
    ties: dict[str, Tie] = {}
    incomplete: dict[str, Incomplete] = {}  # by measure, for measures that look at 20 documents at most
    precision: str = ""  # of compared scores: "float32", or "double" for run files; "": float32
    other_precision: dict[str, float] = {}  # means of a run file that differ in the other precision
    sizes: dict[str, int] = {}  # bytes: index, corpus, and model (its files of weights)
    found: dict[str, float] = {}  # recall of exact of an approximate engine, by k
    vectors: VectorSizes | None = None  # of encoders' vectors
    work: SearchWork | None = None  # of sparse systems
    digests: dict[str, str] = {}  # corpus, queries, qrels
    tokenizers: dict[str, str] = {}  # SHA-256 of those that count for measures with a budget of tokens, by name
    exposure: Exposure | None = None  # None if it was not looked up, e.g. for a lone run file
    bound: bool = False  # an upper bound, e.g. with weights chosen on the test queries: shown, but no result
    notes: list[Note] = []
    recipe: dict[str, Any] = {}
    measured: Measurement = Measurement()
    timings: list[Timing] = []  # written by --time
    seeds: Seeds | None = None  # of a result over several trainings: see `lexbench.analysis.seeds`
    # On data of the user: by query, the ranks of relevant documents among the first 100.
    ranks: dict[str, dict[str, int]] = {}

    def __post_init__(self) -> None:
        """Refuse means that JSON cannot hold: NaN and infinity."""
        for measure, mean in self.means.items():
            if not math.isfinite(mean):
                raise ValueError(f"{measure} of {self.system} on {self.dataset} is {mean}")

    @property
    def aside(self) -> str:
        """Why it is in no ranking: "upper bound" or "not measured"; "" if it is in rankings."""
        return "upper bound" if self.bound else "not measured" if self.unmeasured else ""

    @property
    def unmeasured(self) -> str:
        """Why the scores say nothing about the system, e.g. "115 of 115 queries got no document"; "" if they do.

        Such a system is not worse than another one: it did not work, or was not asked.
        """
        queries, missing, lists = self.counts.queries, self.counts.missing, self.lists
        if (missing == queries and queries >= _EMPTY) or (missing > _MOST * queries and queries >= _FEWEST):
            return f"{missing:,} of {queries:,} queries got no document"
        if lists is None or queries < _FEWEST:
            return ""
        if lists.judged and not lists.found:
            return f"none of the {lists.judged:,} judged documents is in its lists"
        if lists.same > _MOST * queries and max(lists.judged, self.counts.documents or 0) >= _FEW:
            return f"{lists.same:,} of {queries:,} queries got one and the same list"
        if lists.constant > _MOST * queries and any(tie.lowest < tie.highest for tie in self.ties.values()):
            return f"in the lists of {lists.constant:,} of {queries:,} queries all scores are equal"
        return ""


_UNSAFE = re.compile(r"[\s%\ud800-\udfff]")  # white space, the sign of an escape, and bytes that are no UTF-8


def kept_text(ids: Iterable[str]) -> str:
    """Return ids in one text, separated by spaces, with white space in them as in addresses: `a%20b`."""
    return " ".join(_UNSAFE.sub(lambda found: percent_encoded(found[0], errors="surrogateescape"), one) for one in ids)


def kept_ids(text: str) -> list[str]:
    """Return the ids in a text that `kept_text` wrote."""
    return [unquote(one, errors="surrogateescape") for one in text.split(" ")] if text else []


class SystemResults(msgspec.Struct, frozen=True, kw_only=True):
    """The file of one system and suite in a folder of results."""

    schema: int = 1
    suite: str
    system: str
    results: list[Result]


def no_texts() -> None:
    """Return None: there are no texts of queries."""


class TextsOnce:
    """Texts of queries that are read when they are first asked for. They can be pickled, as a closure cannot."""

    def __init__(self, read: Callable[[], QueryTexts | None]) -> None:
        """Read by *read*, once."""
        self._read = read

    @cached_property
    def _texts(self) -> QueryTexts | None:
        return self._read()

    def __call__(self) -> QueryTexts | None:
        """Return the texts; None if there are none."""
        return self._texts


class Entry(NamedTuple):
    """One result, and what is known beside it."""

    result: Result
    suite: str = ""  # that it was run in, or that its folder of results has it in
    run: "Path | Run | None" = None  # the artifact of its run in the store, or the run itself
    person: str = ""  # who ran it, in merged results
    texts: Callable[[], QueryTexts | None] = no_texts  # of its dataset, read when it is called


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job has no result, or no timing."""

    system: str
    dataset: str
    error: str
    again: str | None = None  # the command that repeats only this job; None if it would fail in the same way
    scored: bool = False  # whether only the timing failed

    def __str__(self) -> str:
        """Return the system, the dataset and the error in one line."""
        job = f"{self.system} on {self.dataset}"
        return self.error if self.error.startswith(job) else f"{job}: {self.error}"


class ResultSession(NamedTuple):
    """What the session that made results knows about them."""

    store: Store | None = None  # where their runs are
    suite: Any = None  # the suite, if it is the user's own
    data: Mapping[str, Any] = {}  # contract and source of each dataset without an id, e.g. data in memory


class Results(Answer):
    """Results of systems on datasets: the only container of results, in this order.

    Of several results of a system on a dataset, the first counts; those of a store come newest first. In a notebook, results
    show the tables that the terminal shows.
    """

    def __init__(
        self,
        entries: "Iterable[Entry | Result]" = (),
        *,
        failures: Iterable[Failure] = (),
        session: ResultSession = ResultSession(),  # noqa: B008 - it is immutable
    ) -> None:
        """Take results, failures of jobs, and what the session knows that made them."""
        self.entries = tuple(Entry(one) if isinstance(one, Result) else one for one in entries)
        self.failures = list(failures)
        self.session = session

    # ---- what is there

    def __iter__(self) -> Iterator[Result]:
        """Iterate over the results."""
        return (entry.result for entry in self.entries)

    def __len__(self) -> int:
        """Return the number of results."""
        return len(self.entries)

    def __repr__(self) -> str:
        """Return how many systems and datasets there are, in short."""
        return (
            f"{type(self).__name__}({len(self.systems)} systems, {len(self.datasets)} datasets, {len(self.failures)} failures)"
        )

    def __getitem__(self, system: str) -> "Results":
        """Return the results of one system. Raises UnknownName if there is none."""
        return self.select(systems=[system])

    @property
    def systems(self) -> list[str]:
        """The names of the systems, in order."""
        return list(dict.fromkeys(result.system for result in self))

    @property
    def datasets(self) -> list[str]:
        """The ids of the datasets, in order."""
        return list(dict.fromkeys(result.dataset for result in self))

    @property
    def suites(self) -> list[str]:
        """The ids of the suites, in order."""
        return list(dict.fromkeys(entry.suite for entry in self.entries))

    @property
    def measures(self) -> list[str]:
        """The measures of any result, in order."""
        return measures_of(self)

    def row(self, system: str) -> dict[str, Result]:
        """Return the results of a system by dataset."""
        return _firsts((result.dataset, result) for result in self if result.system == system)

    def column(self, dataset: str) -> dict[str, Result]:
        """Return the results on a dataset by system."""
        return _firsts((result.system, result) for result in self if result.dataset == dataset)

    def one(self, system: str, dataset: str) -> Result:
        """Return the result of *system* on *dataset*. Raises UnknownName if there is none."""
        found = self.select(systems=[system]).column(dataset)
        if not found:
            raise UnknownName(f"dataset with a result of {system}:", dataset, self.row(system))
        return found[system]

    def select(
        self,
        *,
        systems: Iterable[str] | None = None,
        datasets: Iterable[str] | None = None,
        suite: str | None = None,
        where: Callable[[Result], bool] | None = None,
    ) -> "Results":
        """Return the results of these *systems* (in that order), on these *datasets*, of this *suite*, for which *where* holds.

        What is None selects nothing out. Raises UnknownName for a system or dataset without a result.
        """
        entries = [entry for entry in self.entries if suite is None or entry.suite == suite]
        for what, names in (("dataset", datasets), ("system", systems)):
            if names is not None:
                groups: dict[str, list[Entry]] = {}
                for entry in entries:
                    groups.setdefault(getattr(entry.result, what), []).append(entry)
                wanted = [names] if isinstance(names, str) else list(names)
                if unknown := [name for name in wanted if not isinstance(name, str) or name not in groups]:
                    raise UnknownName(f"{what} in these results:", str(unknown[0]), groups)
                entries = [entry for name in dict.fromkeys(wanted) for entry in groups[name]]
        return self._with(entry for entry in entries if where is None or where(entry.result))

    def _with(self, entries: Iterable[Entry]) -> "Results":
        return Results(entries, session=self.session)

    # ---- numbers

    def values(self, dataset: str, measure: str) -> "NDArray[np.float64]":
        """Return the values per query (systems, queries) of the systems that have *dataset*, in the order of `column`.

        Raises UnknownName if a system lacks the measure, and CannotStart if systems have different queries.
        """
        import numpy as np

        column = self.column(dataset)
        check_comparable(column.items())
        for system, result in column.items():
            if measure not in result.per_query:
                raise UnknownName(f"measure of {system} on {dataset}:", measure, result.per_query)
        return np.array([result.per_query[measure] for result in column.values()], np.float64)

    def means(self, measure: str) -> "NDArray[np.float64]":
        """Return the means (systems, datasets) of *measure*, NaN where a system has none."""
        import numpy as np

        rows = [self.row(system) for system in self.systems]
        found = [[row[name].means.get(measure, np.nan) if name in row else np.nan for name in self.datasets] for row in rows]
        return np.array(found, np.float64).reshape(len(rows), len(self.datasets))

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per system, dataset, query and measure, for a data frame."""
        return [
            {"system": result.system, "dataset": result.dataset, "query": query, "measure": measure, "value": value}
            for result in self
            for measure, values in result.per_query.items()
            for query, value in zip(result.query_ids, values, strict=True)
        ]

    # ---- several containers, and files

    def check_comparable(self) -> None:
        """Raise CannotStart if results on one dataset have different queries, judgements, corpora or rules."""
        for dataset in self.datasets:
            check_comparable((result.system, result) for result in self if result.dataset == dataset)

    def __add__(self, other: "Results") -> "Results":
        """Return the results of both; one that both have is there once.

        Raises CannotStart if results are not comparable, or if one system has two different results on a dataset.
        """
        if not isinstance(other, Results):
            return NotImplemented
        session = self.session._replace(data={**other.session.data, **self.session.data})
        failures = (*self.failures, *other.failures)
        ours = [entry.result for entry in self.entries]
        others = (entry for entry in other.entries if entry.result not in ours)
        both = Results((*self.entries, *others), failures=failures, session=session)
        both.check_comparable()
        for mine in self:
            for theirs in (one for one in other if (one.system, one.dataset) == (mine.system, mine.dataset)):
                if differing := first_difference(mine, theirs):
                    what = f"{mine.system} has two different results on {mine.dataset}, e.g. {differing}"
                    raise CannotStart(f"{what}; rename one of the systems")
        return both

    def save(self, folder: str | Path, on_note: Callable[[str], None] = lambda _line: None) -> list[Path]:
        """Write the results into a folder of results, like `--results`, and return the files, one per system and suite.

        *on_note* gets a note if results on other data are replaced.
        """
        written = []
        for suite in self.suites:
            of_suite = self.select(suite=suite)
            written += write_results(of_suite, suite or DATASETS, Path(folder), on_note)
            for dataset in of_suite.datasets:
                entry = next(one for one in of_suite.entries if one.result.dataset == dataset)
                if (texts := entry.texts()) and texts.belongs_to(entry.result):
                    save(texts, texts_file(Path(folder), suite or DATASETS, dataset))
        return written

    # ---- what the public functions of lexbench say about them

    def tables(self) -> Sequence[Table]:
        """Return the tables that `lexbench run` prints."""
        return lexbench.summary(self).tables()

    @property
    def unmeasured(self) -> list[str]:
        """A line for each result whose scores say nothing about its system: see `Result.unmeasured`."""
        return [f"{one.system} on {one.dataset}: not measured: {one.unmeasured}" for one in self if one.unmeasured]

    def lines(self) -> Sequence[str]:
        """Return a line for each job that failed or was not timed."""
        return [str(failure) for failure in self.failures]

    def document(self) -> Any:
        """Return the results, failures and means over datasets."""
        return lexbench.summary(self).document()

    def run(self, system: str, dataset: str) -> dict[str, dict[str, float]]:
        """Return the ranked lists behind a result: the score of each document by query, best first. See `lexbench.lists`."""
        return lexbench.lists(self, system, dataset)

    @property
    def runs(self) -> "dict[tuple[str, str], dict[str, dict[str, float]]]":
        """The ranked lists behind all results, by system and dataset: the score of each document by query, best first."""
        return {(one.system, one.dataset): self.run(one.system, one.dataset) for one in self}

    def per_query(self, measure: str | None = None, dataset: str | None = None) -> "pd.DataFrame":
        """Return a data frame with a row per query, its id and text, and a column per system. See `lexbench.per_query`."""
        return lexbench.per_query(self, measure, dataset).to_pandas()

    def explain(self, query: str, system: str, dataset: str | None = None, **settings: Any) -> "Explanation":
        """Show which terms of a query make a system's scores on *dataset*, by default the first. See `lexbench.explain`."""
        name = dataset or next(iter(self.datasets), "")
        result = self.one(system, name)
        return lexbench.explain(query, result.expression or system, self.session.data.get(name, name), **settings)

    def plot(self, cost: Literal["index", "speed"] = "index", dataset: str | None = None) -> "Picture":
        """Return a figure of effectiveness over index size or speed. See `lexbench.plot`."""
        return lexbench.plot(self, cost, dataset)

    def to_markdown(self, dataset: str = "", published: Literal["none", "few", "all"] = "none") -> str:
        """Return a table in GitHub's Markdown, like `lexbench leaderboard --copy markdown`. See `to_latex`."""
        return lexbench.leaderboard(self, published=published).copy("markdown", dataset=dataset)

    def compare(self, *systems: str, **settings: Any) -> "Comparison":
        """Compare *systems* with the first of them; after one name, or none, all others follow. See `lexbench.compare`."""
        return lexbench.compare(self, *systems, **settings)

    def report(self, *systems: str, **settings: Any) -> "Report":
        """Answer whether to change from the first of *systems* to another. See `lexbench.report`."""
        return lexbench.report(self, *systems, **settings)

    def ranks(self, measure: str | None = None, **settings: Any) -> "Ranks":
        """Return the ranks that paired tests leave possible. See `lexbench.ranks`."""
        return lexbench.ranks(self, measure, **settings)

    def leaderboard(self, folder: str | Path) -> Path:
        """Write the results and the pages of a leaderboard into *folder*, where other results stay; return index.html."""
        self.save(folder)
        lexbench.leaderboard(folder).save()
        return Path(folder) / "index.html"

    def to_latex(self, dataset: str = "", baseline: str = "", published: Literal["none", "few", "all"] = "none") -> str:
        """Return a table in LaTeX, like `lexbench leaderboard --copy latex`: the means, or all measures on one *dataset*.

        Each figure that differs significantly from that of *baseline* is marked. *published* scores are none, few or all.
        """
        return lexbench.leaderboard(self, published=published).copy("latex", dataset=dataset, baseline=baseline)


def _firsts(items: Iterable[tuple[str, Result]]) -> dict[str, Result]:
    """Return the first result of each name."""
    found: dict[str, Result] = {}
    for name, result in items:
        found.setdefault(name, result)
    return found


def by_dataset(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return *results* by dataset, in their order."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.dataset, []).append(result)
    return groups


def measures_of(results: Iterable[Result]) -> list[str]:
    """Return the measures of all *results*, each once."""
    return list(dict.fromkeys(measure for result in results for measure in result.means))


# ---- results that are shown together ---------------------------------------------------------------------------------------

_SHOWN_DIGITS = 16  # of a digest, in a message


def check_comparable(labelled: Iterable[tuple[str, Result]]) -> None:
    """Raise CannotStart if results on one dataset, each with a label, have different queries, judgements, corpora or rules."""
    seen: dict[str, tuple[str, object]] = {}  # by fact: the first label that has it, and its value
    for label, result in labelled:
        facts: dict[str, object] = {"contract": result.contract, **result.digests, "query ids": result.query_ids}
        if (documents := result.counts.documents) is not None:  # a run file is scored without them
            facts["number of documents"] = documents
        for what, value in facts.items():
            first, known = seen.setdefault(what, (label, value))
            if known != value:
                different = "" if isinstance(value, list) else f" {str(known)[:_SHOWN_DIGITS]} and {str(value)[:_SHOWN_DIGITS]}"
                raise CannotStart(
                    f"{first} and {label} are not comparable on {result.dataset}: they have different {what}{different}; "
                    "run both again, or choose others"
                )


_SAME = 1e-9  # sums of doubles may differ in the last digits between processors


def first_difference(one: Result, other: Result) -> str:
    """Return the first fact or query in which two results of one system differ, in words; "" if they agree."""
    facts = (("contract", one.contract, other.contract), ("data", one.digests, other.digests))
    for what, ours, theirs in (*facts, ("queries", one.query_ids, other.query_ids)):
        if ours != theirs:
            return f"they have different {what}"
    for measure in [name for name in one.per_query if name in other.per_query]:
        for query, value, second in zip(one.query_ids, one.per_query[measure], other.per_query[measure], strict=True):
            if abs(value - second) > _SAME:
                return f"{measure} of query {query} is {value:.4f} and {second:.4f}"
    return ""


def with_measures(newest: Result, older: Result) -> Result:
    """Return *newest* with the measures and timings that only *older* has, if both are of one system and the same run.

    Return *newest* alone if they differ in a fact that decides scores, or in the value of a query.
    """
    facts = [(one.expression, one.recipe, one.depth, one.precision, one.bound) for one in (newest, older)]
    trainings = [one.seeds.systems if one.seeds else {} for one in (newest, older)]
    if facts[0] != facts[1] or trainings[0] != trainings[1] or first_difference(newest, older):
        return newest
    by_measure = ("means", "per_query", "ties", "incomplete", "other_precision")
    both: dict[str, Any] = {name: getattr(older, name) | getattr(newest, name) for name in by_measure}
    if newest.seeds and older.seeds:
        both["seeds"] = msgspec.structs.replace(newest.seeds, means=older.seeds.means | newest.seeds.means)
    notes = dict.fromkeys((*newest.notes, *(note for note in older.notes if note.kind == "too good")))
    return msgspec.structs.replace(newest, timings=newest.timings or older.timings, notes=[*notes], **both)


def merged(by_person: Mapping[str, Results]) -> Results:
    """Return the results of several people, by their names, with who ran each.

    A system whose results differ between people, e.g. in settings, has a row per person, named "SYSTEM (PERSON)". Raises
    CannotStart if results on one dataset are not comparable, or if one recipe has two different results on the same data.
    """
    firsts: dict[tuple[str, str, str], tuple[str, Result]] = {}  # by suite, system and dataset: the first person's
    differing: set[tuple[str, str]] = set()  # suites and systems
    for who, entry in ((who, entry) for who, results in by_person.items() for entry in results.entries):
        place = entry.suite, entry.result.system
        whose, first = firsts.setdefault((*place, entry.result.dataset), (who, entry.result))
        if difference := first_difference(first, entry.result):
            if _contradict(first, entry.result):
                raise CannotStart(
                    f"{whose} and {who} have different results of {first.system} on {first.dataset}, from one recipe and the "
                    f"same data: {difference}; run it again on both machines"
                )
            differing.add(place)
    entries = []
    for who, results in by_person.items():
        for entry in results.entries:
            own = f"{entry.result.system} ({who})"
            name = own if (entry.suite, entry.result.system) in differing else entry.result.system
            entries.append(entry._replace(result=msgspec.structs.replace(entry.result, system=name), person=who))
    everyone = Results(entries)
    for suite in everyone.suites:
        everyone.select(suite=suite).check_comparable()
    return everyone


_MOST_CHANGED, _MOST_MOVED = 0.25, 0.01  # share of the queries, and of a mean, that rounding may change with a model


def _contradict(one: Result, other: Result) -> bool:
    """Return whether two different results cannot both be of the recipe that both state, on the data that both state.

    Models round differently on other processors, which can swap documents of nearly equal scores in some queries.
    """
    stated = (one.recipe, one.depth, one.digests, one.query_ids)
    if not one.recipe or stated != (other.recipe, other.depth, other.digests, other.query_ids):
        return False
    if not _has_model(one.recipe):
        return True
    both = one.per_query.keys() & other.per_query.keys()
    return any(beyond_rounding(one.recipe, one.per_query[measure], other.per_query[measure]) for measure in both)


def beyond_rounding(recipe: Any, ours: Sequence[float], theirs: Sequence[float], rounding: float = _SAME) -> bool:
    """Return whether values per query (queries,) of a system with this *recipe* differ by more than its models may round.

    Differences up to *rounding* are none.
    """
    changed = sum(abs(value - other) > rounding for value, other in zip(ours, theirs, strict=True))
    if not _has_model(recipe):
        return changed > 0
    return changed > _MOST_CHANGED * len(ours) or abs(sum(ours) - sum(theirs)) > _MOST_MOVED * len(ours)


def _has_model(recipe: Any) -> bool:
    """Return whether a recipe has an encoder, a reranker, or another plug-in with files of its own."""
    if isinstance(recipe, Mapping):
        plugin = str(recipe.get("plugin", "")).rpartition(":")[2]
        return plugin.startswith(("encoders/", "rerankers/")) or "identity" in recipe or any(map(_has_model, recipe.values()))
    return isinstance(recipe, list) and any(map(_has_model, recipe))


R = TypeVar("R")

_SCHEMA = 1  # of both kinds of files


def save(result: Any, path: Path) -> None:
    """Write results to *path* atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_json(path, result)


def load_any(path: Path) -> list[Result]:
    """Read the results of a file of either kind. Raises InvalidFile if it is invalid."""
    try:
        is_single = "results" not in load(path, dict[str, msgspec.Raw])
    except InvalidFile as error:
        score = f"lexbench run dataset ID -r {quote(str(path))}"
        raise InvalidFile(f"{error}; if it is a run, score it first: {score}") from None
    return [load(path, Result)] if is_single else load(path, SystemResults).results


def load(path: Path, kind: type[R]) -> R:
    """Read a file of one `Result`, or of `SystemResults`. Raises InvalidFile; `runner.soundness` checks the content."""
    found: R = decode_json(path, kind)
    for one in (found, *getattr(found, "results", ())):
        if (schema := getattr(one, "schema", _SCHEMA)) != _SCHEMA:
            raise InvalidFile(f"{path}: its schema is {schema}, and this lexbench reads {_SCHEMA}: it is of another version")
    return found


def texts_file(folder: Path, suite: str, dataset: str) -> Path:
    """Return the file with the texts of the queries of a dataset, in a folder of results."""
    return folder / "queries" / suite / f"{file_name(dataset)}.json"


def texts_reader(folder: Path, suite: str, result: Result) -> Callable[[], QueryTexts | None]:
    """Return a function that reads the texts of the queries of *result* in a folder of results; None if they are not there."""
    return TextsOnce(partial(_stored_texts, folder, suite, result))


def _stored_texts(folder: Path, suite: str, result: Result) -> QueryTexts | None:
    path = texts_file(folder, suite, result.dataset)
    texts = load(path, QueryTexts) if path.is_file() else None
    return texts if texts and texts.belongs_to(result) else None


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder of results, sorted by suite and name."""
    return [path for path in json_files(folder) if path.suffix == ".json" and path.parents[1] == folder / "results"]


def json_files(folder: Path) -> list[Path]:
    """Return all files of JSON where results are, sorted; hidden ones are other programs', e.g. the Finder's."""
    top = folder / "results"
    files = (path for path in top.rglob("*") if path.suffix.lower() == ".json")
    return sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(top).parts))


def write_results(
    results: Iterable[Result], suite: str, folder: Path, on_note: Callable[[str], None] = lambda _line: None
) -> list[Path]:
    """Write one file per system into a folder of results and return their paths.

    Datasets that are in a file but not in *results* are kept, and so are other measures of the same run. *on_note* gets a note
    if results on other data are replaced. Raises CommandError if a name is that of another system; then nothing is written.
    """
    with locks.alone(folder / "results"):  # another run may add to the same files
        return _written(results, suite, folder, on_note)


def _written(results: Iterable[Result], suite: str, folder: Path, on_note: Callable[[str], None]) -> list[Path]:
    by_system: dict[str, dict[str, Result]] = {}
    for result in results:
        by_system.setdefault(result.system, {})[result.dataset] = result
    expressions = ((result.system, result.expression) for fresh in by_system.values() for result in fresh.values())
    in_files = results_of_names(expressions, suite, folder)
    written = []
    for system, fresh in by_system.items():
        path = _file_of(system, suite, folder)
        stored = {result.dataset: result for result in in_files[system]}
        for dataset in stored.keys() & fresh.keys():
            if stored[dataset].digests != fresh[dataset].digests:
                on_note(f"{path} had results on other data called {dataset}: they are replaced; run its other systems again")
        joined = {name: with_measures(one, stored[name]) if name in stored else one for name, one in fresh.items()}
        every = {**stored, **joined}
        save(SystemResults(suite=suite, system=system, results=[every[name] for name in sorted(every)]), path)
        written.append(path)
    return written


def results_of_names(systems: Iterable[tuple[str, str]], suite: str, folder: Path) -> dict[str, list[Result]]:
    """Return the results of each name in a folder of results; *systems* are pairs of name and expression, which may be "".

    Raises CommandError if a name stands for two expressions, and InvalidFile if a file is damaged.
    """
    found: dict[str, list[Result]] = {}
    meant: dict[str, set[str]] = {}
    for name, expression in systems:
        if name not in found:
            path = _file_of(name, suite, folder)
            found[name] = load(path, SystemResults).results if path.is_file() else []
            meant[name] = {result.expression or result.system for result in found[name]}
        meant[name].add(expression or name)
        if len(meant[name]) > 1:
            both = " and of ".join(sorted(meant[name]))
            raise CommandError(f"{_file_of(name, suite, folder)}: {name!r} is the name of {both}; rename one of them")
    return found


def _file_of(system: str, suite: str, folder: Path) -> Path:
    return folder / "results" / suite / f"{file_name(system)}.json"


def file_name(system: str) -> str:
    """Return a file name for a system: its name, with a digest if characters had to be replaced."""
    safe = re.sub(r"[^A-Za-z0-9@._=,()-]", "_", system)[:80]
    return safe if safe == system else f"{safe}-{hashlib.sha256(system.encode()).hexdigest()[:8]}"
