"""Choose the results to compare: systems by name from results at hand, or all systems of result files."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from shlex import quote

from msgspec import structs

from lexbench.analysis.seeds import as_one
from lexbench.analysis.stored_results import expression_of, find_systems
from lexbench.contracts import find_contract
from lexbench.datasets.dataset import Dataset
from lexbench.errors import CannotStart, LexbenchError, UnknownName
from lexbench.results import Entry, Result, Results, files_of, texts_reader
from lexbench.runner import systems
from lexbench.runner.soundness import read_results
from lexbench.trec.qrels import Qrels


def select(
    names: Sequence[str],
    at_hand: Callable[[], Results],
    known: Mapping[str, Sequence[str]] = {},
    seeds: Mapping[str, Sequence[str]] = {},
    where: str = "the store",
    runs: Mapping[str, Results] = {},
) -> Results:
    """Return the systems that *names* stand for, in order and without repetitions: names, result files, or folders of these.

    "new = NAME" renames a system. A name among *seeds* stands for several systems as one; seeds that are not among *names* come
    last. Other names are looked up in the given files first, and then in the results *at_hand*, which messages call *where*
    and which are read only if a name needs them. *known* has expressions by remembered name, *runs* the results of run files.

    Raises InvalidFile, UnknownName, CommandError or CannotStart.
    """
    at_hand = cache(at_hand)
    paths = [text for text in names if text not in seeds and Path(text).exists() and not systems.is_model_folder(Path(text))]
    # A path without a separator may also be a system, e.g. a folder called bm25: names come first.
    paths = [text for text in paths if text in runs or set(text) & set("/\\") or not find_systems(text, at_hand(), known)]
    in_files = _with_distinct_labels({text: read_path(Path(text)) for text in paths if text not in runs}) | dict(runs)
    of_files = Results(entry for group in in_files.values() for entry in group.entries)

    def find(text: str) -> Results:
        if text in of_files.systems:
            return of_files[text]
        found = find_systems(text, of_files) or find_systems(text, at_hand(), known)
        if not found:
            try:
                systems.system(text)
            except LexbenchError:
                see = "lexbench list results"
                raise UnknownName(f"file, and no result in {where} of", text, at_hand().systems, see=see) from None
            raise CannotStart(f"{text} has no result in {where}; make one: lexbench run DATASET -r {quote(text)}")
        return Results(entry for label, group in found.items() for entry in _labelled(label, group.entries))

    selected: dict[str, Results] = {}
    for text in (*names, *(name for name in seeds if name not in names)):
        if text in seeds:
            members = Results(entry for member in seeds[text] for entry in find(member).entries)
            group = Results(as_one(text, [*members.column(name).values()]) for name in common_datasets(members, ()))
        else:
            group = in_files[text] if text in in_files else find(text)
        for label in group.systems:
            selected.setdefault(label, group[label])
    return Results(entry for group in selected.values() for entry in group.entries)


def _labelled(label: str, entries: Iterable[Entry]) -> Iterable[Entry]:
    """Yield the *entries* of one system with its label as the name of their system."""
    for entry in entries:
        expression = expression_of(entry.result)
        other = "" if entry.result.seeds or expression == label else expression
        yield entry._replace(result=structs.replace(entry.result, system=label, expression=other))


def _with_distinct_labels(by_path: dict[str, Results]) -> dict[str, Results]:
    """Return the results by path. A system in several paths is one if its results agree; else its labels name the path."""
    labelled: dict[str, list[Entry]] = {path: [] for path in by_path}
    for system in dict.fromkeys(name for group in by_path.values() for name in group.systems):
        copies = {path: group[system] for path, group in by_path.items() if system in group.systems}
        everything = [entry for group in copies.values() for entry in group.entries]
        agree = all(_agree(one, other) for one, other in combinations(copies.values(), 2))
        for path, group in copies.items():
            labelled[path] += everything if agree else _labelled(f"{path}: {system}", group.entries)
    return {path: Results(entries) for path, entries in labelled.items()}


def _agree(ours: Results, theirs: Results) -> bool:
    """Whether two copies of one system have equal results on all datasets that both have."""
    facts = [
        {name: [_scored(result) for result in results if result.dataset == name] for name in results.datasets}
        for results in (ours, theirs)
    ]
    return all(facts[0][name] == facts[1][name] for name in facts[0].keys() & facts[1].keys())


def _scored(result: Result) -> tuple[object, ...]:
    """Return the facts that are equal for two runs of one system, at any time and on any machine."""
    return result.contract, result.digests, result.recipe, result.per_query


def read_path(path: Path) -> Results:
    """Return the results of a result file, or of a folder that `run --results` or `export json` wrote, the newest first."""
    files = [path] if path.is_file() else files_of(path) or sorted(path.glob("*.json"))
    if not files:
        raise CannotStart(f"no result files in {path}; write some: lexbench run suite pydoc --results {quote(str(path))}")
    judged: dict[str, Qrels | None] = {}
    loaded = [
        Entry(result, texts=texts_reader(path, file.parent.name, result))
        for file in files
        for result in read_results(file, judged)
    ]
    loaded.sort(key=lambda entry: entry.result.measured.started, reverse=True)
    loaded.sort(key=lambda entry: entry.result.system)
    return Results(entry for one in loaded for entry in _labelled(one.result.system, [one]))


def common_datasets(results: Results, wanted: Sequence[str]) -> list[str]:
    """Return the datasets that all systems have, only the *wanted* ones if given. Raises CannotStart if there is none."""
    rows = {system: results.row(system) for system in results.systems}
    common = [name for name in sorted(results.datasets) if all(name in row for row in rows.values())]
    for name in wanted:
        lacking = next((system for system, row in rows.items() if name not in row), None)
        if lacking:
            known = sorted(rows[lacking])
            if not (find_contract(name) or Path(name).exists()):
                raise UnknownName(f"result of {lacking} on", name, known)
            make = f"lexbench run {quote(name)} -r {quote(expression_of(next(iter(rows[lacking].values()))))}"
            raise CannotStart(f"{lacking} has no result on {name}; it has: {', '.join(known)}; make it: {make}")
    if not common:
        datasets = "; ".join(f"{system} on {', '.join(sorted(row))}" for system, row in rows.items())
        raise CannotStart(f"no dataset has results of all systems: {datasets}; make them: lexbench run suite")
    return [name for name in common if not wanted or name in wanted]


def newest(results: Results, measures: Mapping[str, Sequence[str]]) -> Results:
    """Return the first result of each system on each dataset of *measures* that has its measures, dataset by dataset.

    Raises CannotStart if there is none.
    """
    chosen = []
    for dataset, wanted in measures.items():
        for system in results.systems:
            of_system = [entry for entry in results.entries if (entry.result.system, entry.result.dataset) == (system, dataset)]
            found = next((entry for entry in of_system if entry.result.per_query.keys() >= {*wanted}), None)
            if found is None:
                known = of_system[0].result.per_query
                lacking = ", ".join(measure for measure in wanted if measure not in known)
                what = f"{system} on {dataset} has no {lacking}; it has: {', '.join(known)}"
                raise CannotStart(f"{what}; choose one with -m, or run it again")
            chosen.append(found)
    return Results(chosen, session=results.session)


def on_data(results: Results, typed: str, data: Dataset) -> Results:
    """Return *results* without those on other *data* of the same name. The dataset was *typed* as a folder.

    Raises CannotStart if a system has no result left on it.
    """
    name = data.contract.id

    def fits(entry: Entry) -> bool:
        return entry.result.dataset != name or data.digests.items() <= entry.result.digests.items()

    kept = Results((entry for entry in results.entries if fits(entry)), session=results.session)
    if lost := [system for system in results.column(name) if system not in kept.column(name)]:
        raise CannotStart(
            f"{lost[0]} has results on other data called {name}, none on {typed}; make it: lexbench run dataset {quote(typed)}"
        )
    return kept
