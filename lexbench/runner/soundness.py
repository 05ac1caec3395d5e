"""Whether results can be believed: the one check of every command that reads results of files or of the store.

A result must agree with itself (`contradictions`), with the contract of its dataset (`violations`), with its own system
(`runner.origin_checks`), and with the judgements of its dataset, where they are on this machine (`runner.value_checks`). Of the
user's own data, the relevant documents that a folder of results has are enough.
Results that are shown together must have the same queries, judgements, corpus and rules (`results.check_comparable`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from math import inf
from pathlib import Path
from shlex import quote
from statistics import fmean

import msgspec
from msgspec.structs import astuple

from lexbench.contracts import JUDGED, Contract, find_contract
from lexbench.datasets.dataset import check as check_contract
from lexbench.datasets.dataset import judgement_facts
from lexbench.datasets.digests import query_ids_sha256
from lexbench.datasets.location import find_source, is_here
from lexbench.errors import CannotStart, InvalidFile, LexbenchError, with_meaning
from lexbench.notation import Call, Expression, Value
from lexbench.results import (
    UNRANKED,
    Entry,
    QueryTexts,
    Result,
    Results,
    Seeds,
    SystemResults,
    file_name,
    files_of,
    json_files,
    load,
    load_any,
    no_texts,
    texts_reader,
)  # fmt: skip
from lexbench.runner.origin_checks import contradictory_origin, impossible_origin, stated_expression
from lexbench.runner.query_texts import relevant_documents
from lexbench.runner.recipe_checks import candidates_of, known_names, stated_flags
from lexbench.runner.timing_checks import impossible_timing, numbers_in
from lexbench.runner.value_checks import impossible_values, native_measure, unattainable_values
from lexbench.storage.artifact_folder import key_of
from lexbench.storage.node import Stored
from lexbench.suites import suite, suite_names
from lexbench.synonyms import nearest
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import PRECISIONS

_ROUNDING = 1e-6  # allowed between a mean and the mean of the written values
_SHOWN_DIGITS = 16  # of a digest, in a message
_FEWEST_SEEDS = 2
_UNORDERED = ("Success", "AllRelevant", "R", "RCap", "P", "Judged")  # changed only by ties across the cutoff
_OF_ONE_SYSTEM = ("top", "timings", "found", "vectors", "work", "ranks", "expression")  # facts that no mean over seeds has
_DIGESTED = {"queries": "queries", "qrels": "judgements", "corpus": "corpus"}

# ---- reading ---------------------------------------------------------------------------------------------------------------


def read_folder(folder: Path) -> Results:
    """Return the results of a folder, by suite and name. The results of a suite are comparable.

    Raises CannotStart if there are none or they are not comparable, and InvalidFile for a faulty file.
    """
    judged: dict[str, Qrels | None] = {}
    paths = files_of(folder)
    if stray := next((path for path in json_files(folder) if path not in paths), None):
        raise InvalidFile(f"{stray}: result files are {folder / 'results'}/SUITE/SYSTEM.json; move it there, or away")
    files = [read_file(path, judged) for path in paths]
    if not files:
        again = f"lexbench run suite pydoc --results {quote(str(folder))}"
        error = CannotStart(f"no result files in {folder / 'results'}; write some: {again}")
        beside = [str(one.parent) for one in folder.parent.glob("*/results")]
        near = nearest(str(folder), beside, 1)
        raise with_meaning(error, str(folder), near[0]) if near else error
    found = Results(
        Entry(result, file.suite, texts=texts_reader(folder, file.suite, result)) for file in files for result in file.results
    )
    for name in found.suites:
        found.select(suite=name).check_comparable()
    return found


def read_file(path: Path, judged: dict[str, Qrels | None] | None = None) -> SystemResults:
    """Return a file of a folder of results. Raises InvalidFile if it contradicts itself, its path or a contract.

    *judged* keeps the judgements of datasets that were read for other files.
    """
    entry = load(path, SystemResults)
    name = file_name(entry.system)
    if (path.parent.name, path.stem) != (entry.suite, name):
        raise InvalidFile(f"{path}: it is of {entry.system} on {entry.suite}, whose file is {entry.suite}/{name}.json")
    of_suite = suite(entry.suite).datasets if entry.suite in suite_names() else None
    for dataset, count in Counter(result.dataset for result in entry.results).items():
        if count > 1:
            raise InvalidFile(f"{path}: {dataset} is there {count} times")
        if of_suite is not None and dataset not in of_suite:
            raise InvalidFile(f"{path}: {dataset} is not in the suite {entry.suite}; see: lexbench show suite {entry.suite}")
    for result in entry.results:
        if result.system != entry.system:
            raise InvalidFile(f"{path}: it has a result of {result.system} among those of {entry.system}")
        check(result, path, suite=entry.suite, judged=judged)
    return entry


def read_stored(path: Path, qrels: Qrels | None = None) -> Result:
    """Return a result of a store, which may be older than its contract.

    Raises InvalidFile if it contradicts itself, or the judgements *qrels* that it was scored with.
    """
    result = load(path, Result)
    for fault in chain(stored_faults(result, path.parent), unattainable_values(result, qrels) if qrels else ()):
        remove = f"lexbench store remove {path.parent.parent.name}/{key_of(path.parent)}"
        raise InvalidFile(f"{path}: {result.system} on {result.dataset}: {fault}; remove it, and run it again: {remove}")
    return result


def stored_faults(result: Result, folder: Path) -> Iterator[str]:
    """Yield how a result in the *folder* of an artifact contradicts itself, its key facts, or those of its run in the store."""
    facts = Stored(folder).facts
    known = {"contract": result.contract, "qrels": result.digests.get("qrels")}
    yield from (f"its {name} is not that of its key" for name, own in known.items() if facts.get(name, own) != own)
    kind, _, key = str(facts.get("run")).partition("/")
    for run in (folder.parents[1] / kind).glob(f"*-{key}") if key else ():
        with suppress(LexbenchError):  # it is damaged
            if Stored(run).facts.get("retriever") != result.recipe:
                yield "its recipe is not that of its run"
    yield from contradictions(result)


def read_results(path: Path, judged: dict[str, Qrels | None] | None = None) -> list[Result]:
    """Return the results of a file, of one system or one result. Raises InvalidFile for a faulty file or result.

    *judged* as in `read_file`.
    """
    found = load_any(path)
    judged = {} if judged is None else judged
    for result in found:
        check(result, path, judged=judged)
    return found


def check(result: Result, path: Path | None = None, suite: str = "", judged: dict[str, Qrels | None] | None = None) -> None:
    """Raise InvalidFile if a result of the file *path*, or CannotStart if one of the store, cannot be believed.

    A result of a *suite* must have the digests of its data, and no folder with the name of a dataset can take its place.
    """
    texts = texts_reader(path.parents[2], suite, result) if path and suite else no_texts
    for fault in _faults(result, {} if judged is None else judged, texts, published=bool(suite)):
        line = refusal(result, fault, suite)
        raise InvalidFile(f"{path}: {line}") if path else CannotStart(line)


def _faults(
    result: Result, judged: dict[str, Qrels | None], texts: Callable[[], QueryTexts | None], *, published: bool
) -> Iterator[str]:
    """Yield everything that is wrong with a result of a file, what is quickly seen first."""
    yield from contradictions(result)
    yield from violations(result, published=published)
    for timing in result.timings:
        yield from impossible_timing(result, timing)
        for flag in stated_flags(result.recipe):
            if flag not in timing.flags:
                yield f"its timing {timing.scenario}: it is a {UNRANKED[flag]}, which its flags do not say"
    contract = find_contract(result.dataset)
    if published:  # else it may be compared because an older version of lexbench made it
        try:
            yield from impossible_origin(result, contract)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # e.g. settings that are a number
            yield "its recipe has a form that lexbench does not write"
    yield from faults_by_judgements(result, judged)
    with suppress(LexbenchError):  # of the file of texts
        if contract is None and (own := texts()):
            qrels = relevant_documents(own, result.query_ids)
            yield from unattainable_values(result, qrels, only_relevant=True)


def faults_by_judgements(result: Result, judged: dict[str, Qrels | None]) -> Iterator[str]:
    """Yield how a result contradicts the judgements of its contract, if they are on this machine; *judged* keeps them."""
    contract = find_contract(result.dataset)
    if contract and result.contract == contract.stamp:
        if contract.id not in judged:
            judged[contract.id] = _judgements_here(contract)
        if qrels := judged[contract.id]:
            yield from unattainable_values(result, qrels)
            noted = any(note.kind == "candidates" for note in result.notes)
            if candidates_of(result.recipe) and not (noted or qrels.continuous or result.seeds):
                yield "it has no note on the candidates of its first retriever"


def _judgements_here(contract: Contract) -> Qrels | None:
    """Return the judgements of a dataset if they are on this machine and those of its contract, else None."""
    try:
        return judgements_of(contract) if is_here(contract) else None
    except LexbenchError:
        return None


def judgements_of(contract: Contract) -> Qrels:
    """Return the judgements of a dataset, without its queries. Raises MissingData or ContractMismatch."""
    judged = tuple(dict.fromkeys(find_source(contract).judgements()))
    check_contract(contract, judgement_facts(judged))
    return Qrels.from_judgements(judged)


def refusal(result: Result, fault: str, suite: str = "") -> str:
    """Return the error message for a result with a *fault*, with the command that runs it again."""
    place = f"suite {quote(suite)} -d" if suite else "dataset"
    again = f"lexbench run {place} {quote(result.dataset)} -r {quote(result.expression or result.system)}"
    return f"{result.system} on {result.dataset}: {fault}; run it again: {again}"


# ---- one result ------------------------------------------------------------------------------------------------------------


def contradictions(result: Result) -> Iterator[str]:
    """Yield the contradictions within a result, which are errors for any dataset."""
    queries, counts, bound, timings = len(result.query_ids), result.counts, _has_oracle(result), result.timings
    facts = (counts, result.sizes, result.lists, result.vectors, result.work, result.measured.seconds)
    amounts = list(numbers_in(msgspec.to_builtins(facts)))
    impossible = {
        "it has no queries": not queries,
        "its name begins or ends with a space": result.system != result.system.strip(),
        "it has a query twice": len(set(result.query_ids)) < queries,
        f"its contract {result.contract!r} is not of this dataset": (
            result.contract != "none" and not re.fullmatch(rf"{re.escape(result.dataset)}@[0-9]+", result.contract)
        ),
        f"it counts {counts.queries} queries but has {queries}": counts.queries != queries,
        "it counts another share of judged documents than Judged@10 has": (
            counts.judged is not None and abs(counts.judged - result.means.get(JUDGED, counts.judged)) > _ROUNDING
        ),
        "it has two timings of one kind": len({(one.scenario, one.k, one.fingerprint) for one in timings}) < len(timings),
        "it has a count, a size or a time below 0, or an infinite one": not all(0 <= number < inf for number in amounts),
        f"its scores have the precision {result.precision!r}": result.precision not in ("", *PRECISIONS),
        "its recall of exact is not from 0 to 1": not all(0 <= share <= 1 for share in result.found.values()),
        f"it is {'' if result.bound else 'not '}marked as an upper bound, and its system {'has' if bound else 'has no'} "
        'weights="oracle"': bound not in (None, result.bound),
    }
    yield from (fault for fault, holds in impossible.items() if holds)
    for measure in result.per_query.keys() | result.ties.keys() | result.incomplete.keys() | result.other_precision.keys():
        if measure not in result.means:
            yield f"it has values of {measure}, and no mean"
    for measure, mean in result.means.items():
        values = result.per_query.get(measure)
        if values is None:
            yield f"{measure} has a mean but no values by query"
        elif len(values) != queries:
            yield f"it has {len(values)} values of {measure} for {queries} queries"
        elif queries:
            yield from _faults_of_measure(result, measure, mean, values)
    if result.seeds:
        yield from _faults_of_seeds(result, result.seeds)
    yield from impossible_values(result)
    yield from contradictory_origin(result)


def _has_oracle(result: Result) -> bool | None:
    """Return whether a system chooses weights on the tested queries; None for an object, of which only a name is known."""
    named = result.seeds.systems if result.seeds else {result.system: result.expression}
    expressions = [stated_expression(*one) for one in named.items()]
    return any(_states_oracle(one) for one in expressions if one) if all(expressions) else None


def _states_oracle(value: "Value | Call") -> bool:
    """Return whether `weights="oracle"` is stated anywhere in a system."""
    if isinstance(value, Expression):
        return any(map(_states_oracle, (value.head, *value.transforms)))
    if isinstance(value, Call):
        return ("weights", "oracle") in value.kwargs or any(map(_states_oracle, (*value.args, *dict(value.kwargs).values())))
    return isinstance(value, tuple) and any(map(_states_oracle, value))


def _faults_of_measure(result: Result, measure: str, mean: float, values: list[float]) -> Iterator[str]:
    native, tie, total = native_measure(measure), result.ties.get(measure), sum(values)
    means = [total / len(values)] if native else [total / len(values), total]  # ir-measures sums counts, e.g. of documents
    cutoff = native.cutoff if native and native.cutoff else 0
    marked = any(note.kind == "short lists" for note in result.notes)
    impossible = {
        f"the mean of {measure} is {mean}, and that of its values {means[0]}": (
            not any(abs(mean - expected) <= _ROUNDING for expected in means)
        ),
        f"{measure} looks at {cutoff} documents per query, and only {result.depth} were kept": (
            cutoff > result.depth and not marked
        ),
    }
    if tie:
        span = f"the tie interval of {measure}, from {tie.lowest} to {tie.highest},"
        impossible[f"{span} does not hold its mean {mean}"] = not (tie.lowest - _ROUNDING <= mean <= tie.highest + _ROUNDING)
        crossing, wide = tie.queries * len(values), tie.highest - tie.lowest > tie.queries + _ROUNDING
        impossible[f"ties across the cutoff of {measure} in {crossing:.6g} of {len(values)} queries"] = (
            result.seeds is None and abs(crossing - round(crossing)) > _ROUNDING * len(values)
        )
        impossible[f"{span} is wider than ties in {crossing:.0f} of {len(values)} queries make it"] = (
            wide and type(native).__name__ in _UNORDERED
        )
    if native and type(native).__module__.startswith("lexbench.measures."):  # values of a plug-in may be no shares
        structs = [facts[measure] for facts in (result.ties, result.incomplete) if measure in facts]
        shares = [mean, *values, result.other_precision.get(measure, 0), *(one for facts in structs for one in astuple(facts))]
        impossible[f"{measure} has a mean or a value that is not from 0 to 1"] = not all(
            -_ROUNDING <= share <= 1 + _ROUNDING for share in shares
        )
        scored, missing = sum(value > 0 for value in values), result.counts.missing
        impossible[f"{missing} of {len(values)} queries returned nothing, but {scored} have {measure} above 0"] = (
            result.seeds is None and scored > len(values) - missing  # a query may be missing in one seed only
        )
    yield from (fault for fault, holds in impossible.items() if holds)


def _faults_of_seeds(result: Result, seeds: Seeds) -> Iterator[str]:
    """Yield a line for each measure whose mean is not the mean of its seeds, and what no mean over seeds has."""
    for measure in dict.fromkeys((*seeds.means, *result.means)):
        means = seeds.means.get(measure, [])
        known = len(means) == len(seeds.systems) >= _FEWEST_SEEDS and measure in result.means
        if not known or abs(fmean(means) - result.means[measure]) > _ROUNDING:
            yield f"the mean of {measure} is not that of its seeds, or it has fewer than {_FEWEST_SEEDS} seeds"
    if own := next((name for name in _OF_ONE_SYSTEM if getattr(result, name)), ""):
        yield f"it is a mean over seeds, and has {own!r}, which belongs to one system"
    if (named := stated_expression(result.system, "")) and named.head.name in known_names():
        yield f"its name is that of a system, and it is a mean over {', '.join(seeds.systems)}"


def violations(result: Result, *, published: bool = False) -> Iterator[str]:
    """Yield how a result differs from the contract of its dataset. There is none for data of the user's own.

    A *published* result must have the digests of its queries and judgements, and the shipped contract if there is one.
    """
    contract = find_contract(result.dataset)
    needed = ["qrels"] if published else []
    if published and result.contract != "none":  # of judgements alone
        needed += ["queries"] if result.recipe.get("plugin") == "retrievers/run_file" else ["queries", "corpus"]
    if missing := [name for name in needed if not result.digests.get(name)]:
        yield f"it has no SHA-256 of the {_DIGESTED[missing[0]]}, so nobody can tell on which data it was made"
        return
    if contract is None or (not published and result.contract in ("none", f"{result.dataset}@0")):
        return
    if result.contract != contract.stamp:
        yield f"it was scored under the contract {result.contract}, and this lexbench has {contract.stamp}"
        return
    expected, counts, digests = contract.expected, result.counts, result.digests
    facts: dict[str, tuple[object, object]] = {
        "number of queries": (expected.queries, counts.queries),
        "SHA-256 of the query ids": (expected.query_ids_sha256, query_ids_sha256(result.query_ids)),
        "SHA-256 of the queries": (expected.queries_sha256, digests.get("queries")),
        "SHA-256 of the judgements": (expected.qrels_sha256, digests.get("qrels")),
        "SHA-256 of the corpus": (expected.corpus_sha256, digests.get("corpus")),
        "number of documents": (expected.documents, counts.documents),
        "number of judged documents that the corpus lacks": (expected.absent, counts.judged_absent),
    }
    if contract.protocol.self_match == "keep" and counts.self_matches:
        yield f"it left out {counts.self_matches} queries' own documents, which the contract {contract.stamp} keeps"
    if contract.protocol.drop_grade is None and counts.excluded:
        yield f"it left out {counts.excluded} documents for their grade, which the contract {contract.stamp} keeps"
    for name, (known, own) in facts.items():
        if None not in (known, own) and known != own:
            yield f"its {name} is {_short(own)}, and the contract {contract.stamp} says {_short(known)}"


def _short(value: object) -> str:
    """Return a count, or the first digits of a digest."""
    return str(value)[:_SHOWN_DIGITS]
