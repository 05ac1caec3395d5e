"""The result of one job: what was scored, under which rules, made how, and measured where; and the files that hold results.

A result file is read for ever: fields are added with a default, never renamed, and `schema` goes up if that is not enough.
A folder of results, which `--results` names on the command line, holds one file a system and suite:

    FOLDER/results/<suite>/<system>.json
"""

import hashlib
import math
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeVar

import msgspec

from lexbench.errors import CommandError, InvalidFile
from lexbench.storage import atomic
from lexbench.storage.stopwatch import Measurement

BOUND = "ORACLE: "  # how a note begins that says of a result that it is an upper bound, chosen on the queries it is of


class Tie(msgspec.Struct, frozen=True, kw_only=True):
    """What ties of score could do to one measure."""

    lowest: float  # mean if every tied group were in its worst order
    highest: float  # mean in its best order
    queries: float  # share of queries with a tie across the cut-off


class Incomplete(msgspec.Struct, frozen=True, kw_only=True):
    """What one measure's mean would be if documents that nobody judged were not taken for irrelevant ones."""

    condensed: float  # with these taken out of the lists
    highest: float  # if they were of the best grade


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What went into the means."""

    queries: int  # of the contract; the denominator of every mean
    missing: int = 0  # of those, without a single document in the run: they score 0
    unjudged: int = 0  # queries of the run that the contract does not count
    self_matches: int = 0  # documents dropped because their id is the query's
    excluded: int = 0  # documents dropped because their grade says that they are no answers, as Cranfield's source papers
    documents: int | None = None  # in the corpus; None where a run was scored without it
    judged_absent: int | None = None  # judged documents that the corpus does not have


EXPOSURES = ("zero-shot", "unknown", "corpus seen", "in-domain")  # in this order the greatest of a system's parts counts


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """What a system may have learned of a dataset before it was tested on it: see `lexbench.runner.exposure`."""

    status: str  # one of EXPOSURES
    because: list[str] = []  # the evidence


class Vectors(msgspec.Struct, frozen=True, kw_only=True):
    """What the indexed document vectors of a system look like: of sparse ones their terms, of others their dimensions."""

    terms: dict[str, float] = {}  # active terms a document: mean, p50, p95, max
    dimensions: int = 0  # of a dense vector
    vectors: float = 0.0  # dense ones a document: 1, or as many as it has tokens
    # Three a term: two for its number, one for its weight (the paper's ReprByte). Four a dimension.
    bytes_per_document: float
    empty: int = 0  # documents without any term
    truncated: int = 0  # texts that were cut to the encoder's length
    clipped: int = 0  # weights that the quantiser's bits could not hold
    dropped: int = 0  # weights that transforms took away
    examples: dict[str, str] = {}  # document id -> its largest weights


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What searching has to look at: exact, and the same on every machine."""

    query_terms: dict[str, float] = {}  # active terms a query: mean, p50, p95, max
    postings: dict[str, float] = {}  # of a query's terms, summed: what exhaustive search adds up
    flops: float | None = None  # products a query and document, sum over terms of p_query x p_document (SPLADE's FLOPS)


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that one stage takes a query: over the queries, of each query's median over the passes."""

    p50: float
    p95: float | None = None  # None below 200 queries
    p99: float | None = None  # None below 1,000
    mean: float


UNRANKED = {"noisy": "noisy timing", "workers": "timing with workers"}  # flags that keep a timing out of rankings


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How fast one system was in one scenario on one machine, with the proof of the conditions."""

    scenario: str  # single-stream-1t, or offline-2t for two threads
    k: int  # documents asked for
    threads: int
    exact: bool  # whether the system returns what an exhaustive search would
    candidates: int = 0  # of a pipeline or a reranker: the documents that are ranked, however many were asked for; 0 for others
    queries: int
    passes: int  # timed ones, of all processes
    processes: int = 1  # fresh ones that were timed, those of the systems of a run by turns
    qps_range: dict[str, tuple[float, float]] = {}  # by stage: the rates of the slowest and the fastest process
    first_pass: dict[str, Latency] = {}  # by stage: of queries that were not seen before; `stages` are steady
    warm_up: int  # passes before them
    stages: dict[str, Latency]  # encode_query, search, e2e; empty for offline, where no query has a latency of its own
    qps: dict[str, float]  # queries a second by the same names: of the median pass
    overhead: float | None = None  # share of e2e's p50 that the harness itself takes; None for offline
    cpu_per_wall: float  # processor time over wall time of the timed passes: at most 1.05 proves one thread
    flags: list[str] = []  # "noisy", "workers" (both in no ranking), "threads≈1.3", "differs", "overhead"; `notes` say why
    checked: bool  # the timed passes returned the documents of the untimed run
    memory: dict[str, int] = {}  # bytes: pss_anonymous, pss_file (both less the baseline), baseline, peak_…, model
    disk: dict[str, int] = {}  # bytes of the index by file
    fingerprint: str  # of the machine; speeds are ranked within one only
    machine: dict[str, Any] = {}
    taken: str = ""  # UTC, ISO 8601
    seconds: dict[str, float] = {}  # open, then first_query, all being imported; that files were not in memory is not verified
    notes: list[str] = []
    folder: str = ""  # of the store, with every duration, as timings/<name>

    @property
    def unranked(self) -> str:
        """What keeps it out of rankings ("noisy timing"); "" where it takes part."""
        return next((meaning for flag, meaning in UNRANKED.items() if flag in self.flags), "")


class Seeds(msgspec.Struct, frozen=True, kw_only=True):
    """The trainings or checkpoints that a result takes together as one system: its values are their means, query by query."""

    systems: dict[str, str]  # what each is called, and the notation that it is a name for; "" where it is notation itself
    means: dict[str, list[float]]  # by measure: of each of them, in that order

    def deviation(self, measure: str) -> float:
        """Return the standard deviation (n - 1) of the means of *measure* over the seeds."""
        return stdev(self.means[measure])


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known of one system on one dataset."""

    schema: int = 1
    system: str  # label
    notation: str = (
        ""  # what the label is a name for, in the notation of parts; "" where it is notation itself, or of an object
    )
    dataset: str
    contract: str  # with its version, as `beir/scifact@1`
    depth: int
    means: dict[str, float]  # by measure, in ir-measures' notation
    query_ids: list[str]
    per_query: dict[str, list[float]]  # in the order of query_ids
    counts: Counts
    ties: dict[str, Tie] = {}
    incomplete: dict[str, Incomplete] = {}  # by measure, of those that look at no more than 20 documents
    precision: str = ""  # as what scores were compared: "float32", or "double" of run files; "" is float32, of older versions
    other_precision: dict[str, float] = {}  # means that differ where the scores of a run file are compared as the other
    sizes: dict[str, int] = {}  # bytes: index, corpus, and model, of its files of weights
    found: dict[str, float] = {}  # of approximate search, by k: the share of exact search's best k that it finds
    vectors: Vectors | None = None  # of sparse systems
    work: Work | None = None  # likewise
    digests: dict[str, str] = {}  # corpus, queries, qrels
    exposure: Exposure | None = None  # None where nobody looked, as in results of older versions and of lone run files
    notes: list[str] = []
    recipe: dict[str, Any] = {}
    measured: Measurement = Measurement()
    timings: list[Timing] = []  # written by --time
    seeds: Seeds | None = None  # of several trainings that count as one system: see `lexbench.analysis.seeds`

    @property
    def is_bound(self) -> bool:
        """Whether this is an upper bound, as weights chosen on the test queries give, and no result."""
        return any(note.startswith(BOUND) for note in self.notes)

    def __post_init__(self) -> None:
        """Refuse values that JSON cannot hold and a table would hide."""
        for measure, mean in self.means.items():
            if not math.isfinite(mean):
                raise ValueError(f"{measure} of {self.system} on {self.dataset} is {mean}")


class SystemResults(msgspec.Struct, frozen=True, kw_only=True):
    """One system on one suite, as its file in a folder of results holds it."""

    schema: int = 1
    suite: str
    system: str
    results: list[Result]


R = TypeVar("R")

_SCHEMA = 1  # of files of results, of both kinds
_ROUNDING = 1e-6  # between a mean and that of the values as they were written


def save(result: Any, path: Path) -> None:
    """Write results to *path*, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_json(path, result)


def load(path: Path) -> Result:
    """Read a file of one result, of any version of lexbench; InvalidFile where it does not read, or contradicts itself."""
    return _checked(_decoded(path, Result), path)


def load_system(path: Path) -> SystemResults:
    """Read a file of a folder of results; InvalidFile where it does not read, or contradicts itself."""
    entry = _decoded(path, SystemResults)
    _refuse_newer(entry.schema, path)
    return msgspec.structs.replace(entry, results=[_checked(result, path) for result in entry.results])


def load_any(path: Path) -> list[Result]:
    """Read the results of a file of either kind, one system's or a single one; InvalidFile where it does not read."""
    try:
        is_single = "results" not in _decoded(path, dict[str, msgspec.Raw])
    except InvalidFile as error:
        raise InvalidFile(f"{error}; a run file is no result, but a system: run -r 'run_file(\"{path}\")'") from None
    return [load(path)] if is_single else load_system(path).results


def _decoded(path: Path, kind: type[R]) -> R:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidFile(f"{path}: {error}") from None


def _checked(result: Result, path: Path) -> Result:
    """Return a result that was just read, if it makes sense.

    Raises InvalidFile if a newer lexbench wrote it, or if its means are not those of its values per query.
    """
    _refuse_newer(result.schema, path)
    what = f"{path}: {result.system} on {result.dataset}"
    if len(set(result.query_ids)) < len(result.query_ids):
        raise InvalidFile(f"{what} has a query twice")
    for measure, values in result.per_query.items():
        if len(values) != len(result.query_ids):
            raise InvalidFile(f"{what} has {len(values)} values of {measure} for {len(result.query_ids)} queries")
        if measure not in result.means:
            raise InvalidFile(f"{what} has values of {measure} by query, and no mean")
        total, mean = sum(values), result.means[measure]
        if values and not min(abs(mean - total / len(values)), abs(mean - total)) <= _ROUNDING:  # of counts the mean is the sum
            raise InvalidFile(f"{what}: the mean of {measure} is {mean}, and that of its values {total / len(values)}")
    for measure, means in result.seeds.means.items() if result.seeds else ():
        if len(means) < 2 or abs(fmean(means) - result.means.get(measure, math.inf)) > _ROUNDING:  # noqa: PLR2004 - seeds
            raise InvalidFile(f"{what}: the mean of {measure} is not that of its seeds, or there are not two of them")
    return result


def _refuse_newer(schema: int, path: Path) -> None:
    if schema != _SCHEMA:
        raise InvalidFile(f"{path}: its schema is {schema}, and this lexbench reads {_SCHEMA}: it is of another version")


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder of results, sorted by suite and name."""
    return sorted((folder / "results").glob("*/*.json"))


def write_results(results: Iterable[Result], suite: str, folder: Path) -> list[Path]:
    """Write one file a system into a folder of results and return their paths.

    Datasets that a file has already and *results* have not are kept.
    """
    by_system: dict[str, dict[str, Result]] = {}
    for result in results:
        by_system.setdefault(result.system, {})[result.dataset] = result
    written = []
    for system, fresh in by_system.items():
        path = folder / "results" / suite / f"{file_name(system)}.json"
        stored = {result.dataset: result for result in load_system(path).results} if path.is_file() else {}
        meant = {result.notation or result.system for result in (*stored.values(), *fresh.values())}
        if len(meant) > 1:
            raise CommandError(f"{path}: {system!r} is the name of {' and of '.join(sorted(meant))}; give one another name")
        merged = {**stored, **fresh}
        save(SystemResults(suite=suite, system=system, results=[merged[name] for name in sorted(merged)]), path)
        written.append(path)
    return written


def file_name(system: str) -> str:
    """Return a file name for a system: its label, with a digest where characters had to go."""
    safe = re.sub(r"[^A-Za-z0-9@._=,()-]", "_", system)[:80]
    return safe if safe == system else f"{safe}-{hashlib.sha256(system.encode()).hexdigest()[:8]}"
