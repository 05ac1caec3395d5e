"""The result of a job, and the files that hold results.

A result says what was scored, under which rules, how it was made, and where it was measured. Later versions only add fields
with a default, or raise `schema`. A folder of results (`--results`) has one file per system and suite:

    FOLDER/results/<suite>/<system>.json
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from shlex import quote
from statistics import stdev
from typing import Any, TypeVar

import msgspec

from lexbench.errors import CommandError, InvalidFile
from lexbench.storage import atomic
from lexbench.storage.stopwatch import Measurement

BOUND = "ORACLE: "  # begins the note on a result that is an upper bound, because it was chosen on the tested queries
SHORT_LISTS = "would look at more"  # ends the note on measures that look deeper than the lists of a run file


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


EXPOSURES = ("zero-shot", "unknown", "corpus seen", "in-domain")  # ascending; the highest of a system's models counts


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """What a system may have seen of a dataset in training: see `lexbench.runner.exposure`."""

    status: str  # one of EXPOSURES
    because: list[str] = []  # the evidence


class Vectors(msgspec.Struct, frozen=True, kw_only=True):
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


class Work(msgspec.Struct, frozen=True, kw_only=True):
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


UNRANKED = {  # flags that keep a timing out of rankings
    "noisy": "noisy timing",
    "workers": "timing with workers",
    "cached": "timing of remembered answers",
    "in process": "timing in the user's process",
    "elsewhere": "timing of a program or server",
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
    counts: Counts
    ties: dict[str, Tie] = {}
    incomplete: dict[str, Incomplete] = {}  # by measure, for measures that look at 20 documents at most
    precision: str = ""  # of compared scores: "float32", or "double" for run files; "": float32
    other_precision: dict[str, float] = {}  # means of a run file that differ in the other precision
    sizes: dict[str, int] = {}  # bytes: index, corpus, and model (its files of weights)
    found: dict[str, float] = {}  # recall of exact of an approximate engine, by k
    vectors: Vectors | None = None  # of encoders' vectors
    work: Work | None = None  # of sparse systems
    digests: dict[str, str] = {}  # corpus, queries, qrels
    exposure: Exposure | None = None  # None if it was not looked up, e.g. for a lone run file
    notes: list[str] = []
    recipe: dict[str, Any] = {}
    measured: Measurement = Measurement()
    timings: list[Timing] = []  # written by --time
    seeds: Seeds | None = None  # of a result over several trainings: see `lexbench.analysis.seeds`

    @property
    def is_bound(self) -> bool:
        """Whether this is an upper bound, e.g. with weights chosen on the test queries, and no result."""
        return any(note.startswith(BOUND) for note in self.notes)

    def __post_init__(self) -> None:
        """Refuse means that JSON cannot hold: NaN and infinity."""
        for measure, mean in self.means.items():
            if not math.isfinite(mean):
                raise ValueError(f"{measure} of {self.system} on {self.dataset} is {mean}")


class SystemResults(msgspec.Struct, frozen=True, kw_only=True):
    """The file of one system and suite in a folder of results."""

    schema: int = 1
    suite: str
    system: str
    results: list[Result]


def by_dataset(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return *results* by dataset, in their order."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.dataset, []).append(result)
    return groups


def measures_of(results: Iterable[Result]) -> list[str]:
    """Return the measures of all *results*, each once."""
    return list(dict.fromkeys(measure for result in results for measure in result.means))


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
    try:
        found = msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidFile(f"{path}: {error}") from None
    for one in (found, *getattr(found, "results", ())):
        if (schema := getattr(one, "schema", _SCHEMA)) != _SCHEMA:
            raise InvalidFile(f"{path}: its schema is {schema}, and this lexbench reads {_SCHEMA}: it is of another version")
    return found


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder of results, sorted by suite and name."""
    return sorted((folder / "results").glob("*/*.json"))


def write_results(
    results: Iterable[Result], suite: str, folder: Path, on_note: Callable[[str], None] = lambda _line: None
) -> list[Path]:
    """Write one file per system into a folder of results and return their paths.

    Datasets that are in a file but not in *results* are kept. *on_note* gets a note if results on other data are replaced.
    """
    by_system: dict[str, dict[str, Result]] = {}
    for result in results:
        by_system.setdefault(result.system, {})[result.dataset] = result
    written = []
    for system, fresh in by_system.items():
        path = folder / "results" / suite / f"{file_name(system)}.json"
        stored = {result.dataset: result for result in load(path, SystemResults).results} if path.is_file() else {}
        meant = {result.expression or result.system for result in (*stored.values(), *fresh.values())}
        if len(meant) > 1:
            raise CommandError(f"{path}: {system!r} is the name of {' and of '.join(sorted(meant))}; rename one of them")
        for dataset in stored.keys() & fresh.keys():
            if stored[dataset].digests != fresh[dataset].digests:
                on_note(f"{path} had results on other data called {dataset}: they are replaced; run its other systems again")
        merged = {**stored, **fresh}
        save(SystemResults(suite=suite, system=system, results=[merged[name] for name in sorted(merged)]), path)
        written.append(path)
    return written


def file_name(system: str) -> str:
    """Return a file name for a system: its name, with a digest if characters had to be replaced."""
    safe = re.sub(r"[^A-Za-z0-9@._=,()-]", "_", system)[:80]
    return safe if safe == system else f"{safe}-{hashlib.sha256(system.encode()).hexdigest()[:8]}"
