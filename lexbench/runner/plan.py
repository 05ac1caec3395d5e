"""What will be run: datasets x systems, checked before any work starts. Nothing is read but TOML files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any

import msgspec

from lexbench.answer import Answer
from lexbench.contracts import MEASURES, Contract, all_contracts, contract_of, find_contract
from lexbench.datasets.location import LIBRARY, alternatives, find_dataset, find_folder, only_dataset, status
from lexbench.datasets.sources.hf import PREFIX
from lexbench.errors import CommandError, UnknownName
from lexbench.measures import cutoff as cutoff_of
from lexbench.measures import with_threshold
from lexbench.notation import PYTHON_OBJECT, checked_name, split_name
from lexbench.plugins import Retriever, Source
from lexbench.retrievers.encoded import Encoded
from lexbench.runner import tuning
from lexbench.runner.systems import System, describe, imported, named_systems
from lexbench.runner.systems import system as system_of
from lexbench.storage.store import readable_bytes
from lexbench.suites import HEADLINE, Suite, suite_names
from lexbench.suites import suite as suite_named
from lexbench.table import Table
from lexbench.types import Kind

# Estimates in bytes, for corpora whose files are not here. Bytes of a text: of long web documents; in collections of up to a
# million documents (NFCorpus and Touché have the longest); in larger collections, which have short passages.
_WEB, _LONG, _SHORT, _MANY = 7000, 1700, 600, 1_000_000
_COPIES = 2  # of the texts: they are written as they come, and then in order
_PACKED = 4  # bytes of text per byte of a compressed file
_INDEX = 900  # per document in an index and while it is built, and no less than the text
_ENTRY = 16  # per document of a list in a run, which is written in blocks, and then whole
# The vectors of a document: 130 terms; 768 dimensions; 70 tokens of 128 dimensions, which an exact index has once more.
_VECTOR = {Kind.SPARSE: 800, Kind.DENSE: 3100, Kind.MULTI: 72_000}


@dataclass(frozen=True)
class Job:
    """One system on one dataset."""

    contract: Contract
    system: System
    measures: tuple[str, ...]  # with the contract's thresholds
    depth: int
    command: str | None  # repeats only this job; None if no command line can name its system
    source: Source | None = None  # None: the one that finds the contract's dataset
    headline: str = HEADLINE  # the measure by which weights are chosen

    @property
    def name(self) -> str:
        """The job in progress and error messages."""
        return f"{self.system.name} on {self.contract.id}"


@dataclass(frozen=True)
class Plan:
    """Jobs in the order they will run: dataset by dataset, so that a corpus is opened once."""

    jobs: tuple[Job, ...]
    suite: Suite | None = None

    @property
    def lines(self) -> list[str]:
        """What was found for each dataset that has no contract, and warnings about it."""
        sources = {job.contract.id: job.source for job in self.jobs if job.source}
        summaries = [f"{name}: {summary}" for name, source in sources.items() if (summary := source.summary())]
        return summaries + [f"{name}: {line}" for name, source in sources.items() for line in source.judgement_notes()]

    @property
    def bytes_needed(self) -> int:
        """Estimate of the bytes that the store will grow by: each corpus and encoding once, an index per retriever, the runs.

        Datasets that are not here and cannot be fetched are left out: their jobs will fail.
        """
        needed: dict[tuple[object, ...], float] = {}  # by artifact, so that each counts once
        entries = 0
        for job in self.jobs:
            if job.source is None and status(job.contract) == "not here":
                continue
            corpus, texts = job.contract.corpus, _text_bytes(job)
            documents = job.contract.expected.documents or texts // _SHORT
            needed["corpus", corpus] = texts * _COPIES
            entries += (job.contract.expected.queries or 0) * min(job.depth, documents)
            # Each retriever with the growth of the corpus that it searches: passages are more than their documents.
            for retriever, growth in _grown(job.system.retriever, texts / max(documents, 1)):
                if growth != 1:  # a corpus of passages has all texts once more
                    needed["passages", corpus, growth] = texts * _COPIES
                needed["index", corpus, growth, str(describe(retriever))] = max(documents * growth * _INDEX, texts)
                if isinstance(retriever, Encoded):
                    encoder, kind = str(describe(retriever.encoder, index=True)), retriever.engine.kind
                    needed["vectors", corpus, growth, encoder, kind] = documents * growth * _VECTOR[kind]
        return int(sum(needed.values()) + entries * _ENTRY)


class PlannedJob(msgspec.Struct, frozen=True):
    """One job of a plan."""

    dataset: str
    system: str
    documents: str  # "?" if the number is unknown
    depth: int


class RunPlan(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a run, which were checked and not done."""

    jobs: list[PlannedJob]
    bytes: int  # of disk, at most about

    @classmethod
    def of_plan(cls, plan: Plan) -> "RunPlan":
        """Return what *plan* will do. Raises MissingData if a run file is missing."""
        for job in plan.jobs:
            if job.system.retriever.finished:
                job.system.retriever.file_identity(job.contract.id)
        jobs = [
            PlannedJob(job.contract.id, job.system.name, f"{job.contract.expected.documents or '?'}", job.depth)
            for job in plan.jobs
        ]
        return cls(jobs=jobs, bytes=plan.bytes_needed)

    def tables(self) -> list[Table]:
        """Return one row per job."""
        rows = tuple((one.dataset, one.system, one.documents, str(one.depth)) for one in self.jobs)
        return [Table("", ("dataset", "system", "documents", "depth"), rows, is_text=True)]

    def lines(self) -> list[str]:
        """Return the number of jobs and the disk that they need."""
        count = f"{len(self.jobs)} job{'s' * (len(self.jobs) != 1)}"
        return [f"{count}; at most about {readable_bytes(self.bytes)} of disk; nothing was run."]

    def document(self) -> list[dict[str, str]]:
        """Return the jobs."""
        return [{name: str(value) for name, value in msgspec.structs.asdict(one).items()} for one in self.jobs]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per job."""
        return [msgspec.structs.asdict(one) for one in self.jobs]


def _grown(retriever: Retriever, text_bytes: float, growth: float = 1) -> Iterator[tuple[Retriever, float]]:
    """Yield the retrievers that *retriever* is made of in the end, each with its passages per document of *text_bytes*."""
    if not retriever.members:
        yield retriever, growth
    for member in retriever.members:
        yield from _grown(member, text_bytes, growth * retriever.growth(text_bytes))


def _text_bytes(job: Job) -> int:
    """Return an estimate of the bytes of a corpus's texts: from its file, or typical for collections of its size."""
    if job.source and (place := job.source.place("documents")):
        file = Path(place)
        return file.stat().st_size * (_PACKED if file.suffix == ".gz" else 1)
    count = job.contract.expected.documents or 0
    if job.contract.text.document in ("url_title_body", "url_title_headings_body"):
        return count * _WEB
    return count * (_SHORT if count > _MANY else _LONG)


def kind_of(name: str) -> str:
    """Return "suite", "dataset" or "folder", the first of these that *name* is. Raises UnknownName if it is none."""
    if name.endswith(".toml") or name in suite_names():
        return "suite"
    if name.startswith((PREFIX, LIBRARY)) or find_contract(name):
        return "dataset"
    if Path(name).exists():
        return "folder"
    known = alternatives(name, [*suite_names(), *all_contracts()])
    raise UnknownName("suite, dataset or folder", name, known, see="lexbench list datasets", meant=only_dataset(name, known))


def plan_of(  # noqa: PLR0913 - what decides a plan
    data: Any,
    systems: Sequence[Any] | Mapping[str, Any] = (),
    datasets: Sequence[str] = (),
    measure_names: Sequence[str] = (),
    depth: int | None = None,
    split: str | None = None,
    *,
    columns: Mapping[str, str] = MappingProxyType({}),
    both_recalls: bool = False,
) -> Plan:
    """Plan *systems* on *data*: the name of a suite, a dataset or a folder, whichever it is, or data in memory.

    With *both_recalls*, `Success@k` is measured beside the deepest official recall.
    """
    is_path = str(data).startswith((".", "/", "~")) and not str(data).endswith(".toml")
    if isinstance(data, str | Path) and not is_path and kind_of(str(data)) == "suite":
        if columns:
            raise CommandError(f"--columns names columns of one folder, and {data} is a suite; write them into its file")
        if split:
            raise CommandError(f"--split {split} chooses judgements of one dataset, and {data} is a suite")
        suite = suite_named(str(data))
        measure_names = with_both_recalls(measure_names or suite.measures) if both_recalls else measure_names
        return plan_suite(suite, systems, datasets, measure_names, depth, str(data))
    if datasets:
        raise CommandError(f"-d {', '.join(datasets)} chooses datasets of a suite, and this is one dataset")
    measure_names = measure_names or MEASURES
    measure_names = with_both_recalls(measure_names) if both_recalls else measure_names
    return plan_dataset(data, systems or ("bm25",), measure_names, depth or 1000, split, columns)


def plan_suite(
    suite: Suite,
    systems: Sequence[Any] | Mapping[str, Any] = (),
    datasets: Sequence[str] = (),
    measure_names: Sequence[str] = (),
    depth: int | None = None,
    name: str = "",
) -> Plan:
    """Plan *suite* for *systems* (default: the suite's own), on all its datasets or those named.

    *measure_names* and *depth* default to the suite's. *name* is what was typed for the suite.
    """
    datasets = [find_dataset(name)[0].id if Path(name).is_dir() else name for name in datasets]
    for dataset in datasets:
        if dataset not in suite.datasets:
            raise UnknownName(f"dataset of suite {suite.id}:", dataset, suite.datasets)
    chosen = systems_of(systems or suite.retrievers)
    located: list[tuple[Contract, Source | None]] = [
        find_folder(Path(suite.folders[name]), columns=suite.columns.get(name, {}))
        if name in suite.folders
        else (contract_of(name), None)
        for name in suite.datasets
        if name in (datasets or suite.datasets)
    ]
    command = f"lexbench run suite {quote(name or suite.id)}{_options(measure_names, depth)} -d"
    measure_names, depth = measure_names or suite.measures, depth or suite.depth
    jobs = [
        _job(contract, system, measure_names, depth, f"{command} {contract.id}", source)
        for contract, source in located
        for system in chosen
    ]
    return Plan(tuple(replace(job, headline=suite.headline) for job in jobs), suite)


def _options(measure_names: Sequence[str], depth: int | None) -> str:
    """Return the command-line options for these measures and this depth."""
    return "".join(f" -m {quote(measure)}" for measure in measure_names) + (f" --depth {depth}" if depth else "")


def plan_dataset(
    data: Any,
    systems: Sequence[Any] | Mapping[str, Any],
    measure_names: Sequence[str],
    depth: int,
    split: str | None = None,
    columns: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Plan *systems* on a dataset, which is typed or in memory (see `find_dataset`)."""
    contract, source = find_dataset(data, split, columns)
    command = None
    if isinstance(data, str | Path):
        command = f"lexbench run dataset {quote(str(data))}{_options(measure_names, depth)}" + (
            f" --split {split}" if split else ""
        )
        command += f" --columns {quote(','.join(f'{role}={name}' for role, name in columns.items()))}" if columns else ""
    return Plan(tuple(_job(contract, system, measure_names, depth, command, source) for system in systems_of(systems)))


def with_both_recalls(names: Sequence[str]) -> tuple[str, ...]:
    """Return the measures *names*, and for the deepest official recall `R@k` also `Success@k`, which papers call recall too."""
    cutoffs = [cutoff_of(name) or 0 for name in names if name.startswith(("R@", "R("))]
    return tuple(dict.fromkeys([*names, *([f"Success@{max(cutoffs)}"] if cutoffs else [])]))


def systems_of(given: Sequence[Any] | Mapping[str, Any]) -> list[System]:
    """Return the systems of a list of expressions and objects, or of a mapping from names to them.

    Raises CommandError if two systems have the same name.
    """
    if isinstance(given, str) or not isinstance(given, Sequence | Mapping):
        raise CommandError(f"give a list of retrievers, e.g. ['bm25'], not {given!r}")
    items = given.items() if isinstance(given, Mapping) else ((None, item) for item in given)
    listed: list[System] = []
    for name, item in items:
        checked = None if name is None else checked_name(name)
        if not isinstance(item, str | PathLike):
            listed.append(system_of(item, checked))
            continue
        own, expression = split_name(str(item))
        if PYTHON_OBJECT.fullmatch(expression):
            listed.append(system_of(imported(expression), checked or own, expression))
        else:
            listed += [system_of(one, checked or own) for own, one in named_systems(str(item))]
    by_name: dict[str, str] = {}
    for system in listed:
        expression = system.expression or "an object"
        if system.name in by_name:
            both = f"{system.name!r}: {by_name[system.name]} and {expression}"
            raise CommandError(f"two systems are called {both}; name one: -r 'other = …', or {{'other': …}} in Python")
        by_name[system.name] = expression
    return listed


def _job(
    contract: Contract,
    system: System,
    measure_names: Sequence[str],
    depth: int,
    command: str | None,
    source: Source | None = None,
) -> Job:
    """Return the job of *system* on one dataset. Raises CommandError if it cannot be run to *depth* or tuned there."""
    if depth < 1:
        raise CommandError(f"the depth must be at least 1, not {depth}")
    system.retriever.check_depth(depth)
    tuning.check(system.retriever, contract)
    with_thresholds = tuple(dict.fromkeys(with_threshold(measure, contract) for measure in measure_names))
    for measure in with_thresholds:
        cutoff = cutoff_of(measure)
        if cutoff is not None and cutoff > depth:
            raise CommandError(
                f"{measure} looks at {cutoff} documents per query and only {depth} are kept; raise --depth, or see -m"
            )
    repeat = f"{command} -r {quote(system.definition)}" if command and system.definition else None
    return Job(contract, system, with_thresholds, depth, repeat, source)
