"""The results of a store, and the runs that names on the command line stand for."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any

import msgspec

from lexbench import registry
from lexbench.contracts import Contract, Protocol
from lexbench.datasets.corpus import IDS
from lexbench.datasets.location import find_dataset
from lexbench.datasets.sources.files import folder_of
from lexbench.errors import CannotStart, CommandError, InvalidFile, LexbenchError, MissingData, UnknownName, with_meaning
from lexbench.notation import split_name
from lexbench.results import Entry, Result, Results, ResultSession, with_measures
from lexbench.retrievers.run_file import RunFile
from lexbench.runner.plan import kind_of
from lexbench.runner.scored import completed
from lexbench.runner.scoring import excluded
from lexbench.runner.search import corpus_of_run
from lexbench.runner.search import read_run as read_stored_run
from lexbench.runner.soundness import faults_by_judgements, read_folder, read_stored, refusal, violations
from lexbench.runner.systems import named_systems, system
from lexbench.storage.artifact_folder import DESCRIPTIONS, digest
from lexbench.storage.code import CODE, outdated
from lexbench.storage.node import REFERENCE, Stored, references
from lexbench.storage.stopwatch import read_measurement
from lexbench.storage.store import Store, finished_files
from lexbench.suites import of_datasets
from lexbench.suites import suite as suite_named
from lexbench.synonyms import nearest
from lexbench.timing.stored_timings import timings_of_run
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run, read_run, typed_run, without_self_matches

_MEASURES = ("measures", CODE)  # the key facts of a result that are about its measures


def stored_results(store: Store) -> Results:
    """Return every finished result of the store, sorted by dataset and system, the newest of each first.

    Results of one run that were scored by other measures at another time are one result, with all measures. Damaged and
    impossible results are left out with a warning, and so is the run, index or timing of a result if it is damaged.
    """
    rows: list[tuple[int, str, Entry]] = []  # when its file was written, the digest of what was scored, and the result
    for path in finished_files(store, "results", "result.json"):
        try:
            result = msgspec.structs.replace(read_stored(path), measured=read_measurement(path.parent))
        except InvalidFile as error:
            store.warn(f"{error}; it is left out")
            continue
        facts = Stored(path.parent).facts
        run = _artifact(store, facts.get("run"))
        corpus = run and corpus_of_run(run.folder)
        if corpus and corpus.folder.exists() and not store.is_intact(corpus.folder, IDS):
            run = None  # with damaged ids, its documents could be others
        if run and corpus and corpus.folder.exists():
            read = [_artifact(store, name, DESCRIPTIONS) for name in references(run.facts["system"])]
            if all(read):  # a member of an ensemble may be gone
                result = completed(result, run, filter(None, read), corpus)
                result = msgspec.structs.replace(result, timings=timings_of_run(store, run.name))
        scored = digest({name: fact for name, fact in facts.items() if name not in _MEASURES})
        rows.append((path.stat().st_mtime_ns, scored, Entry(result, run=run.folder if run else None)))
    rows.sort(key=lambda row: (row[2].result.measured.started, row[0]), reverse=True)  # `started` has whole seconds
    rows.sort(key=lambda row: (row[2].result.dataset, row[2].result.system))
    runs: dict[tuple[str, str], Entry] = {}
    for _, scored, entry in rows:
        place = entry.result.system, scored
        known = runs.get(place)
        runs[place] = known._replace(result=with_measures(known.result, entry.result)) if known else entry
    return Results(runs.values(), session=ResultSession(store))


def results_at(store: Store, folder: Path | None) -> Results:
    """Return the results in *folder*, a folder of results, in the order of its files, or else those in the store.

    In a folder, a system that two suites have on one dataset comes once. Results of the store are sorted by dataset and system;
    results that do not match the contracts of this lexbench, or their judgements, are left out with a warning. Another warning
    names those of plug-ins whose code has changed since.
    """
    if folder:
        by_name = {(one.result.dataset, one.result.system): one for one in read_folder(folder).entries}
        return Results(by_name.values(), session=ResultSession(store))
    kept: list[Entry] = []
    judged: dict[str, Qrels | None] = {}
    for entry in stored_results(store).entries:
        if fault := next(chain(violations(entry.result), faults_by_judgements(entry.result, judged)), None):
            store.warn(f"left out: {refusal(entry.result, fault)}")
        else:
            kept.append(entry)
    newest = {(entry.result.system, entry.result.dataset): entry.result for entry in reversed(kept)}
    for (name, dataset), result in newest.items():
        for plugin in dict.fromkeys(outdated(result.recipe, registry.find)):
            store.warn(f"{name} on {dataset}: the code of {plugin} has changed since this run; run it again")
    return Results(kept, session=ResultSession(store))


def results_of_suite(name: str, store: Store, folder: Path | None = None) -> Results:
    """Return the results of the suite, dataset or folder *name* that are in *folder*, a folder of results, or else the store.

    Raises CannotStart if there are none.
    """
    chosen = suite_named(name) if kind_of(name) == "suite" else of_datasets(name, [find_dataset(name)[0].id])
    found = results_at(store, folder).select(where=lambda result: result.dataset in chosen.datasets)
    if not len(found):
        raise CannotStart(
            f"no results of the suite {chosen.id} in {folder or store.root}; make some: lexbench run suite {chosen.id}"
        )
    return found


def lists_behind(results: Results, system: str, dataset: str, store: Store) -> dict[str, dict[str, float]]:
    """Return the ranked lists of a result: the score of each document by query, best first.

    Raises MissingData if its run is neither in memory nor in the store.
    """
    results.one(system, dataset)  # raises
    entry = next(one for one in results.entries if (one.result.system, one.result.dataset) == (system, dataset))
    place = results.session.store or store
    run = run_behind(entry, lambda: stored_results(place))
    if run is None:
        raise MissingData(
            f"the run of {system} on {dataset} is not on this machine; run it again: {expression_of(entry.result)}"
        )
    return {query: dict(zip(run.doc_ids(part), run.scores[part].tolist(), strict=True)) for query, part in run.spans()}


def distinct_datasets(results: Sequence[Result], store: Store) -> list[str]:
    """Return a label for the dataset of each result. If other data have the same name, it has the folder, or else a digest."""
    data: dict[tuple[str, str], set[str]] = {}  # by dataset and part; results of run files have no corpus
    for result in results:
        for part, found in result.digests.items():
            data.setdefault((result.dataset, part), set()).add(found)
    ambiguous = {dataset for (dataset, _), found in data.items() if len(found) > 1}
    places = [store.place(result.digests) if result.dataset in ambiguous else None for result in results]
    return [
        f"{result.dataset} ({folder_of(place.judgements) if place else 'data ' + digest(result.digests)[:8]})"
        if result.dataset in ambiguous
        else result.dataset
        for result, place in zip(results, places, strict=True)
    ]


def newest_means(results: Results, store: Store) -> dict[tuple[str, str, str], float]:
    """Return the newest mean of each system, dataset and measure, by their labels, sorted by dataset and system.

    If systems have the same name, their labels are "NAME = EXPRESSION". Labels of datasets are those of `distinct_datasets`.
    """
    expressions: dict[str, set[str]] = {}
    for result in results:
        expressions.setdefault(result.system, set()).add(expression_of(result))
    labelled = zip(results, distinct_datasets(list(results), store), strict=True)
    means: dict[tuple[str, str, str], float] = {}
    for result, dataset in sorted(labelled, key=lambda pair: pair[0].measured.started):
        ambiguous = len(expressions[result.system]) > 1 and result.expression
        system = f"{result.system} = {result.expression}" if ambiguous else result.system
        means |= {(system, dataset, measure): mean for measure, mean in result.means.items()}
    return dict(sorted(means.items(), key=lambda item: (item[0][1], item[0][0])))


def _artifact(store: Store, name: Any, only: Sequence[str] = ()) -> Stored | None:
    """Return the artifact with that kind and key if it is there and undamaged; *only* names the files to check."""
    if not (isinstance(name, str) and REFERENCE.fullmatch(name)):  # of a run file, or written by another version
        return None
    kind, key = name.split("/")
    folder = next((store.root / kind).glob(f"*-{key}"), None)
    return Stored(folder) if folder and store.is_intact(folder, only) else None


def named_runs(
    names: Sequence[str], store: Store, contract: Contract | None = None, qrels: Qrels | None = None
) -> dict[str, Run]:
    """Return the runs of `find_runs` under the rules of *contract*: without documents that it drops from lists.

    Documents that it drops because of their grade are found in *qrels*.
    """
    protocol = contract.protocol if contract else Protocol()
    runs = find_runs(names, store, contract)
    if protocol.self_match == "drop":
        runs = {name: without_self_matches(run).run for name, run in runs.items()}
    return runs if qrels is None else {name: excluded(run, qrels, protocol).run for name, run in runs.items()}


def find_runs(names: Sequence[str], store: Store, contract: Contract | None = None) -> dict[str, Run]:
    """Return the runs that *names* stand for, in that order: run files, or systems that were run on the dataset of *contract*.

    Of a system that was run again (with changed weights or another version) the newest run counts. Raises MissingData for a
    name that is neither a file nor a system with a stored run.
    """
    asked = contract is not None and not all(_is_run_file(name) for name in names)
    finished = stored_results(store).entries if asked else ()
    stored = Results(entry for entry in finished if contract and entry.result.dataset == contract.id)
    runs: dict[str, Run] = {}
    for name in dict.fromkeys(names):
        found = find_systems(name, stored, store.names()) if stored else {}
        behind = {label: run_behind(results.entries[0], lambda: stored) for label, results in found.items()}
        runs |= {label: run for label, run in behind.items() if run is not None}
        if any(run is not None for run in behind.values()):
            continue
        if _is_run_file(name):
            runs[name] = read_run(Path(name))
        elif contract is None:
            there = "is a folder; give a run file in it" if Path(name).is_dir() else "is not a run file: there is no such file"
            raise MissingData(f"{name!r} {there}; to name a system, give its dataset with -d")
        else:
            known = sorted(stored.systems)
            there = f"; there are: {', '.join(known)}" if known else f"; run it: lexbench run dataset {quote(contract.id)}"
            error = MissingData(f"{name!r} is neither a run file nor a system that was run on {contract.id}{there}")
            files = [str(one) for one in Path(name).parent.glob("*") if one.is_file()]
            near = nearest(name, [*files, *known], 1)
            raise with_meaning(error, name, near[0]) if near else error
    return runs


def _is_run_file(name: str) -> bool:
    file = typed_run(Path(name))[0]
    return file.is_file() or file.is_fifo()  # a pipe is refused when it is read


def run_of(made: Path | Run | None) -> Run:
    """Return a run that is kept in memory, or that of an artifact of the store."""
    assert made is not None
    return made if isinstance(made, Run) else read_stored_run(made).run


def run_behind(entry: Entry, finished: Callable[[], Results]) -> Run | None:
    """Return the run that a result was scored from: its own, that of an equal result in *finished*, or its run file."""
    result = entry.result
    made = entry.run or next(
        (
            one.run
            for one in finished().entries
            if one.run and one.result.dataset == result.dataset
            and (one.result.recipe, one.result.per_query) == (result.recipe, result.per_query)
        ),
        None,
    )  # fmt: skip
    if made:
        return run_of(made)
    with suppress(LexbenchError):  # the name may not be an expression, and the file may be gone
        retriever = system(expression_of(result)).retriever
        return retriever.read(result.dataset) if isinstance(retriever, RunFile) else None
    return None


# ---- systems by what a user types ------------------------------------------------------------------------------------------


def expression_of(result: Result) -> str:
    """Return the expression of the system of a result, or its name if it is an object."""
    return result.expression or result.system


def find_systems(text: str, results: Results, names: Mapping[str, Sequence[str]] = {}) -> dict[str, Results]:
    """Return the results of each system that *text* stands for, by its label; {} if there is none.

    *text* is a name in *results* or in *names* (expressions by name, from `Store.names`), an expression, or the path of a
    model's folder. The results of a system have its name first, and then the newest. "new = TEXT" labels the system that TEXT
    stands for. Raises CommandError if the name belongs to several systems.
    """
    name, expression = split_name(text)
    meant = sorted({expression_of(result) for result in results if result.system == text} | set(names.get(text, ())))
    if not meant and name:
        found = find_systems(expression, results, names)
        return {name: next(iter(found.values()))} if len(found) == 1 else found
    if text in meant:  # a user has given another system the name of this one
        meant = [text]
    if len(meant) > 1:
        raise CommandError(
            f"{text!r} is the name of several systems: {', '.join(meant)}; type the expression of the one you mean"
        )
    by_label = {text: meant[0]} if meant else {}
    if not meant:
        with suppress(LexbenchError):  # a name that nothing has is no expression
            by_label = {one: one for _, one in named_systems(text)}  # one for each value of a list in it
    newest = sorted(results.entries, key=lambda entry: entry.result.measured.started, reverse=True)
    newest.sort(key=lambda entry: entry.result.system != text)
    groups = {
        label: Results((one for one in newest if expression_of(one.result) == wanted), session=results.session)
        for label, wanted in by_label.items()
    }
    return {label: group for label, group in groups.items() if len(group)}


def chosen_systems(texts: Sequence[str], results: Results) -> Results:
    """Return the *results* of the systems *texts*, or all if there are no *texts*. Raises UnknownName if one has no result."""
    chosen: list[Entry] = [] if texts else [*results.entries]
    for text in texts:
        found = find_systems(text, results)
        if not found:
            raise UnknownName("result of", split_name(text)[0] or text, results.systems, see="lexbench list results")
        chosen += (entry for group in found.values() for entry in group.entries if entry not in chosen)
    return Results(chosen, session=results.session)


def definition(text: str, store: Store) -> str:
    """Return *text* with its expression, "NAME = EXPRESSION", if it is a name that the store remembers; else unchanged.

    Raises CommandError if the name belongs to several systems.
    """
    meant = store.names().get(text, [])
    if len(meant) > 1:
        find_systems(text, Results(), {text: meant})  # raises
    return f"{text} = {meant[0]}" if meant and text not in registry.names("retrievers") else text
