"""Runs as systems of a comparison: files, also several runs in one, or runs in memory. They take judgements and no corpus."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import msgspec

from lexbench.contracts import Contract, SourceFacts
from lexbench.datasets.dataset import Dataset, Topics, judgement_facts, open_dataset
from lexbench.datasets.records import read_queries
from lexbench.errors import CommandError, InvalidFile
from lexbench.measures import parse as parse_measure
from lexbench.measures import with_threshold
from lexbench.notation import split_name
from lexbench.plugins import Source
from lexbench.results import Entry, Results
from lexbench.runner.given import given_run
from lexbench.runner.scoring import JudgementRules, judgements, score_lists
from lexbench.runner.systems import is_model_folder
from lexbench.storage.reading import COMPRESSED, decode_json
from lexbench.storage.rows import TABLES, ending
from lexbench.suites import HEADLINE
from lexbench.trec.runs import Run, read_runs, typed_run
from lexbench.types import Query

_ENDINGS = (*COMPRESSED, *TABLES, ".run", ".trec", ".txt", ".res", ".out", ".tsv")  # left out of a system's name


class GivenRuns(NamedTuple):
    """Scored runs by what the user typed, with their data."""

    results: Mapping[str, Results]
    judged: JudgementRules
    data: Dataset  # has the queries only if their texts are known
    topics: int = 0  # all queries, also those without judgements; 0 if they are unknown
    files: Mapping[str, Path] = {}  # by the name of the system

    def measure(self, typed: str) -> str:
        """Return a measure with the threshold of the contract."""
        return with_threshold(typed, self.judged.contract) if self.judged.contract else str(parse_measure(typed))


def is_run(text: str) -> bool:
    """Return whether a user typed a run file: "FILE", "FILE#TAG" or "NAME = FILE"; result files of lexbench are none."""
    file, _ = typed_run(Path(split_name(text)[1]))
    if file.is_fifo():
        return True  # it is refused when it is read
    if not file.is_file() or is_model_folder(file.parent / file.name) or file.suffix == ".toml":
        return False
    if ending(file) != ".json" or file.suffix != ".json":
        return True
    try:
        values = decode_json(file, dict[str, msgspec.Raw]).values()
    except InvalidFile:
        return True
    return len(values) > 0 and all(
        bytes(value).lstrip().startswith((b"{", b"[")) for value in values
    )  # a result file also has texts and numbers


def given_systems(systems: Sequence[Any]) -> dict[str, Any]:
    """Return systems, names or run files, by what was typed; in Python also a list of them, or runs by name."""
    found: dict[str, Any] = {}
    for one in systems:
        if isinstance(one, Mapping):
            found |= {str(name): run for name, run in one.items()}
        elif isinstance(one, list | tuple):
            found |= given_systems(one)
        elif isinstance(one, str | Path):
            found[str(one)] = str(one)
        else:
            raise CommandError(
                f"{type(one).__name__} is no system; give names, run files, or runs by name: {{'A': run, 'B': run}}"
            )
    return found


def given_runs(
    given: Mapping[str, Any],
    datasets: Sequence[str],
    qrels: Any,
    measures: Sequence[str],
    texts: "Path | Mapping[str, str] | None",
    *,
    claims: bool = False,
) -> GivenRuns | None:
    """Return the runs among *given*, scored by *qrels* or by the one of *datasets*; None without runs and *claims*.

    Raises CommandError for runs or claims without judgements, and for *qrels* or *texts* without runs.
    """
    runs = {typed: one for typed, one in given.items() if not isinstance(one, str) or is_run(one)}
    if not runs:
        if qrels is not None or texts is not None:
            what = "qrels" if qrels is not None else "queries"
            folder = next((typed for typed in given if isinstance(typed, str) and Path(typed).is_dir()), None)
            inside = f"; if {folder} has run files, give them: {quote(folder)}/*" if folder else ""
            raise CommandError(f"--{what} FILE goes with run files, and none of these is one: {', '.join(given)}{inside}")
        if not claims:
            return None
    if qrels is None and len(datasets) != 1:
        what = f"{next(iter(runs))} is a run" if runs else "claims are about one dataset"
        raise CommandError(f"{what}; name its judgements with --qrels FILE, or its dataset with -d")
    judged = judgements(datasets[0] if datasets else None, qrels)
    known = _texts(texts)
    data = open_dataset(judged.contract, judged.source) if judged.contract and qrels is None else _dataset(judged, known)
    if known and not data.queries:
        ours, theirs = next(iter(known)), judged.qrels.query_ids[0]
        what = f"no judged query is in {texts}; its ids look like {ours!r}, those of the judgements like {theirs!r}"
        raise CommandError(what)
    topics = len(known) or len(data.queries) + data.topics.unjudged
    others = [typed for typed in given if typed not in runs]
    return score_runs(runs, judged, measures or [HEADLINE], data, others)._replace(topics=topics)


def score_runs(
    given: Mapping[str, Any], judged: JudgementRules, measures: Sequence[str], data: Dataset, taken: Sequence[str] = ()
) -> GivenRuns:
    """Score each run of *given*, by what was typed: a run file, or a run in memory.

    The name of a run file is that of the file without its endings; that of one of several runs in a file is its tag. A name
    that is *taken*, or that two runs would have, is what was typed.
    """
    by_typed = {typed: _runs(typed, one) for typed, one in given.items()}
    names = Counter([*taken, *(name for runs in by_typed.values() for name, _, _ in runs)])
    facts = judgement_facts(data.topics.judgements)
    digests = data.digests if data.queries and judged.source else {"qrels": facts.qrels_sha256 or ""}
    results: dict[str, Results] = {}
    files: dict[str, Path] = {}
    for typed, runs in by_typed.items():
        entries = []
        for name, run, file in runs:
            label = name if names[name] == 1 else f"{typed}#{name}" if len(runs) > 1 else typed
            result = score_lists(run, label, measures, judged)
            expression = f"run_file({msgspec.json.encode(str(file)).decode()})" if file else ""
            entries.append(Entry(msgspec.structs.replace(result, expression=expression, digests=digests), run=run))
            files |= {label: file} if file else {}
        results[typed] = Results(entries)
    return GivenRuns(results, judged, data, files=files)


def _runs(typed: str, given: Any) -> list[tuple[str, Run, Path | None]]:
    """Return the name of each run of what was typed, the run, and its file, None for a run in memory."""
    if not isinstance(given, str | Path):
        return [(typed, given_run(given), None)]
    name, path = split_name(str(given))
    file, _ = typed_run(Path(path))
    runs = read_runs(Path(path))
    if name and len(runs) > 1:
        raise CommandError(
            f"{name!r} would be the name of {len(runs)} runs; give each its own: '{name} = {path}#{next(iter(runs))}'"
        )
    found: list[tuple[str, Run, Path | None]] = []
    for tag, run in runs.items():
        place = path if not tag or path.endswith(f"#{tag}") else f"{path}#{tag}"
        found.append((name or tag or bare_name(file.name), run, Path(place)))
    return found


def bare_name(name: str) -> str:
    """Return a file name without the endings of run files."""
    while (bare := next((name.removesuffix(one) for one in _ENDINGS if name.endswith(one)), name)) != name and bare:
        name = bare
    return name


def _texts(texts: "Path | Mapping[str, str] | None") -> dict[str, str]:
    """Return texts of queries by id, which may be in a file."""
    if texts is None or isinstance(texts, Mapping):
        return dict(texts or {})
    found = {one.query_id: one.text for one in read_queries(texts)}
    if not found:
        raise InvalidFile(f"{texts}: there are no queries in it")
    return found


def _dataset(judged: JudgementRules, texts: Mapping[str, str]) -> Dataset:
    """Return the judgements as a dataset, with the *texts* of its queries that are known."""
    queries = tuple(Query(query, texts[query]) for query in judged.qrels.query_ids if query in texts)
    facts: Any = {"name": judged.dataset, "description": "", "corpus": judged.dataset, "source": SourceFacts(loader="files")}
    contract = judged.contract or Contract(schema=1, id=judged.dataset, version=0, **facts)
    return Dataset(contract, Source(), Topics(queries, tuple(judged.qrels.judgements()), 0))
