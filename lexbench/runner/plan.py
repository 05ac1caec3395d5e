"""What will be run: datasets x systems, checked before any work starts. Nothing is read but TOML files."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any

import msgspec

from lexbench.artifacts.corpora import DatasetCorpus, ExpectedCorpus
from lexbench.artifacts.graph import Graph, Step
from lexbench.artifacts.searches import Search
from lexbench.contracts import Contract, all_contracts, contract_of, find_contract
from lexbench.datasets.dataset import Dataset, Topics, open_dataset
from lexbench.datasets.location import (
    LIBRARY,
    alternatives,
    find_dataset,
    find_folder,
    is_here,
    only_dataset,
    status,
    typed_id,
    typed_place,
)
from lexbench.datasets.sources.hf import PREFIX
from lexbench.display.answer import Answer
from lexbench.display.table import Table
from lexbench.errors import CommandError, UnknownName
from lexbench.measures import MARK, with_threshold
from lexbench.measures import cutoff as cutoff_of
from lexbench.notation import PYTHON_OBJECT, checked_name, split_name
from lexbench.plugins import Source, has
from lexbench.retrievers.run_file import RunFile
from lexbench.runner import tuning
from lexbench.runner.origin_checks import names_another
from lexbench.runner.search import Data, SystemRun, data_of
from lexbench.runner.systems import System, imported, named_systems
from lexbench.runner.systems import system as system_of
from lexbench.storage.store import Store, readable_bytes
from lexbench.suites import HEADLINE, Suite, suite_names
from lexbench.suites import suite as suite_named


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
    defaults: bool = False  # whether nobody chose the measures: continuous grades leave out those that take a threshold

    @property
    def lines(self) -> list[str]:
        """What was found for each dataset that has no contract, and warnings about it."""
        sources = {job.contract.id: job.source for job in self.jobs if job.source}
        summaries = [f"{name}: {summary}" for name, source in sources.items() if (summary := source.summary())]
        return summaries + [f"{name}: {line}" for name, source in sources.items() for line in source.judgement_notes()]

    def steps(self, store: Store, opened: dict[str, Data]) -> list[Step]:
        """Return every artifact that the jobs need, each once, and whether it is in *store*. Nothing is made.

        Datasets that are here are added to *opened* by id. Those that cannot be fetched, or opened, are left out: their jobs
        will fail.
        """
        graph, steps = Graph(store, dry=True), dict[str, Step]()
        for job in self.jobs:
            if has(job.system.retriever, "open") and (job.source or status(job.contract) != "not here"):
                with suppress(Exception):  # also of plug-ins: the job will say it
                    data = opened.get(job.contract.id) or _data(job)
                    if isinstance(data.corpus, DatasetCorpus):
                        opened[job.contract.id] = data
                    nodes = Search(data.corpus, job.system.retriever), SystemRun(data, job.system, job.depth)
                    steps |= graph.plan(nodes)
        return list(steps.values())


def _data(job: Job) -> Data:
    """Return the dataset of a job, or one without queries if it has to be fetched first."""
    if job.source or is_here(job.contract):
        return data_of(open_dataset(job.contract, job.source))
    unread = Dataset(job.contract, Source(), Topics((), (), 0))
    return Data(unread, ExpectedCorpus(unread))


class PlannedJob(msgspec.Struct, frozen=True):
    """One job of a plan."""

    dataset: str
    system: str
    documents: str  # "?" if the number is unknown
    depth: int


class PlannedArtifact(msgspec.Struct, frozen=True):
    """One artifact that a plan needs."""

    kind: str
    name: str
    there: bool
    bytes: int  # that making it takes, by estimate; 0 if it is there


class RunPlan(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a run, which were checked and not done."""

    jobs: list[PlannedJob]
    artifacts: list[PlannedArtifact]

    @classmethod
    def of_plan(cls, plan: Plan, store: Store) -> "RunPlan":
        """Return what *plan* will do. Raises MissingData if a run file is missing."""
        for job in plan.jobs:
            if isinstance(job.system.retriever, RunFile):
                job.system.retriever.file_identity(job.contract.id)
        jobs = [
            PlannedJob(job.contract.id, job.system.name, f"{job.contract.expected.documents or '?'}", job.depth)
            for job in plan.jobs
        ]
        return cls(jobs=jobs, artifacts=[PlannedArtifact(*step) for step in plan.steps(store, {})])

    @property
    def bytes(self) -> int:
        """The bytes of disk that the run will take, at most about."""
        return sum(one.bytes for one in self.artifacts)

    def tables(self) -> list[Table]:
        """Return one row per job, and one per artifact."""
        jobs = tuple((one.dataset, one.system, one.documents, str(one.depth)) for one in self.jobs)
        states = ("there" if one.there else f"to make, {readable_bytes(one.bytes)}" for one in self.artifacts)
        artifacts = tuple((one.kind, one.name, state) for one, state in zip(self.artifacts, states, strict=True))
        return [
            Table("", ("dataset", "system", "documents", "depth"), jobs, is_text=True),
            *([Table("", ("artifacts", "", ""), artifacts, is_text=True)] if artifacts else []),
        ]

    def lines(self) -> list[str]:
        """Return the number of jobs and the disk that they need."""
        count = f"{len(self.jobs)} job{'s' * (len(self.jobs) != 1)}"
        return [f"{count}; at most about {readable_bytes(self.bytes)} of disk; nothing was run."]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per job."""
        return [msgspec.structs.asdict(one) for one in self.jobs]


def kind_of(name: str) -> str:
    """Return "suite", "dataset" or "folder", the first of these that *name* is. Raises UnknownName if it is none."""
    if name.endswith(".toml") or name in suite_names():
        return "suite"
    if name.startswith((PREFIX, LIBRARY)) or find_contract(name):
        return "dataset"
    if typed_place(name):
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

    With *both_recalls*, `Success@k` is measured beside official recall.
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
    return plan_dataset(data, systems or ("bm25",), measure_names, depth or 1000, split, columns, both_recalls=both_recalls)


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
    datasets = list(map(typed_id, datasets))
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
        job_of(contract, system, measure_names, depth, f"{command} {contract.id}", source)
        for contract, source in located
        for system in chosen
    ]
    return Plan(tuple(replace(job, headline=suite.headline) for job in jobs), suite)


def _options(measure_names: Sequence[str], depth: int | None) -> str:
    """Return the command-line options for these measures and this depth."""
    return "".join(f" -m {quote(str(measure))}" for measure in measure_names) + (f" --depth {depth}" if depth else "")


def plan_dataset(
    data: Any,
    systems: Sequence[Any] | Mapping[str, Any],
    measure_names: Sequence[str],
    depth: int,
    split: str | None = None,
    columns: Mapping[str, str] = MappingProxyType({}),
    *,
    both_recalls: bool = False,
) -> Plan:
    """Plan *systems* on a dataset, which is typed or in memory (see `find_dataset`); *both_recalls* as in `plan_of`."""
    contract, source = find_dataset(data, split, columns)
    defaults = not measure_names
    measure_names = measure_names or contract.default_measures
    measure_names = with_both_recalls(measure_names) if both_recalls else measure_names
    command = None
    if isinstance(data, str | Path):
        command = f"lexbench run dataset {quote(str(data))}{_options(() if defaults else measure_names, depth)}" + (
            f" --split {split}" if split else ""
        )
        command += f" --columns {quote(','.join(f'{role}={name}' for role, name in columns.items()))}" if columns else ""
    jobs = tuple(job_of(contract, system, measure_names, depth, command, source) for system in systems_of(systems))
    return Plan(jobs, defaults=defaults)


def with_both_recalls(names: Sequence[str]) -> tuple[str, ...]:
    """Return the measures *names*, with `Success@k`, which papers call recall too, beside the first official recall `R@k`.

    If another pair of them has a common cutoff, nothing is added, so that all tables show the same recall.
    """
    official, other = (
        [cutoff_of(name) for name in names if name.startswith((f"{kind}@", f"{kind}(")) and cutoff_of(name)]
        for kind in ("R", "Success")
    )
    added = [] if {*official} & {*other} else [f"Success@{cutoff}" for cutoff in official[:1]]
    return (*names, *added)


def systems_of(given: Any) -> list[System]:
    """Return the systems of a list of expressions and objects, of a mapping from names to them, or of a single one.

    A system that is given twice is there once. Raises CommandError if two different systems have the same name, or if a name is
    that of another system.
    """
    if isinstance(given, str | PathLike) or not isinstance(given, Sequence | Mapping):
        given = [given]
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
    by_name: dict[str, System] = {}
    for system in listed:
        first = by_name.setdefault(system.name, system)
        if first is not system and (first.expression is None or first.expression != system.expression):
            both = f"{system.name!r}: {first.expression or 'an object'} and {system.expression or 'an object'}"
            raise CommandError(f"two systems are called {both}; name one: -r 'other = …', or {{'other': …}} in Python")
        if names_another(system.name, system.alias_of or system.expression or ""):
            name, what = system.name, system.alias_of or "an object"
            ways = f"-r 'my {name} = …', or {{'my {name}': …}} in Python"
            raise CommandError(f"{name!r} is the name of another system, and this is {what}; give it another name: {ways}")
    return list(by_name.values())


def job_of(
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
    tuning.check(system.retriever, contract, source)
    with_thresholds = tuple(dict.fromkeys(with_threshold(measure, contract) for measure in measure_names))
    for measure in with_thresholds:
        cutoff = cutoff_of(measure)
        if cutoff is not None and cutoff > depth:
            raise CommandError(
                f"{measure} looks at {cutoff} documents per query and only {depth} are kept; raise --depth, or see -m"
            )
    repeatable = command and system.definition and not any(MARK in measure for measure in with_thresholds)
    repeat = f"{command} -r {quote(system.definition)}" if repeatable else None
    return Job(contract, system.for_dataset(contract.id), with_thresholds, depth, repeat, source)
