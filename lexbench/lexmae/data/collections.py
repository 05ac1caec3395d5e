"""The collections that a recipe names: where they are, and which of their queries are for testing.

A collection is named by the id of a dataset, the path of a BEIR folder, or the path of a qrels file in one. No model is trained
on or selected by test queries: whole datasets are refused by name or by shared queries (`check_selection`), and single queries
are left out if a test query has nearly the same words (`tested_queries`). Nothing is trained on documents that are judged in
the datasets of `leave_out` (`judged_documents`).
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from lexbench.analysis.seen_in_training import SimilarQueries
from lexbench.contracts import Contract, SourceFacts, TextPolicy, all_contracts
from lexbench.datasets import location
from lexbench.datasets.sources.files import Files, documents_of, folder_of
from lexbench.errors import CannotStart, InvalidFile, LexbenchError, MissingData, UnknownName
from lexbench.lexmae.recipe.settings import STAGES, Recipe
from lexbench.plugins import Source
from lexbench.suites import suite as suite_named
from lexbench.suites import suite_names

_SPLIT = "train"  # the default of a folder with several qrels
_TEST_FILES = ("test.tsv", "test.tsv.gz")  # qrels of a BEIR folder


def find_corpus(name: str) -> location.Located:
    """Return contract and source of a dataset, or of a folder of documents, which need not have queries.

    The documents of a folder may be one folder up. Raises what `find_dataset` raises.
    """
    if not (path := Path(name).resolve()).exists():
        return find_dataset(name)
    folder = folder_of(path) if path.is_file() else path
    facts, text = SourceFacts(loader="files"), TextPolicy(document="title_text")
    contract = Contract(1, folder.name, 0, folder.name, "", folder.name, facts, text)
    files = next(filter(None, (documents_of(place, contract) for place in (folder, folder.parent))), None)
    if files is None:
        raise MissingData(f"{name} has no documents: there is no corpus.jsonl in {folder} or {folder.parent}")
    return location.Located(contract, Files(contract, files, (), ()))


def find_dataset(name: str) -> location.Located:
    """Return contract and source of a dataset. A folder is opened at `train`, never at `test` unless that file is named.

    Raises UnknownName, MissingData, InvalidFile or ContractMismatch.
    """
    path = Path(name)
    if not path.exists():
        if name not in all_contracts():
            known = location.alternatives(name, all_contracts())
            raise UnknownName("dataset or folder", name, known, see="lexbench list datasets")
        contract = all_contracts()[name]
        return location.Located(contract, location.find_source(contract))
    splits = {file.name.removesuffix(".gz").removesuffix(".tsv") for file in path.glob("qrels/*.tsv*")}
    if _SPLIT not in splits and (len(splits) > 1 or "test" in splits):
        files = ", ".join(f"{path}/qrels/{split}.tsv" for split in sorted(splits))
        raise InvalidFile(f"{path} has no qrels/{_SPLIT}.tsv to train on; make one, or name one of: {files}")
    return location.find_folder(path, _SPLIT if _SPLIT in splits else None)


def check_selection(recipe: Recipe) -> None:
    """Raise CannotStart if a recipe trains a stage, or selects its model, on test queries.

    Test queries are those of the datasets of all suites, of datasets that name another one for tuning, of datasets that share
    their queries with one of these, and of files `qrels/test.tsv`. A model cannot be selected by queries that it is trained on
    either.
    """
    trained: list[str] = []
    for number in STAGES:
        if stage := recipe.stage(number):
            trained += stage.queries
            for name in stage.queries:
                _refuse_tested(name, f"stage{number}.queries", _tuning(name) or "a dataset of training queries")
    for name in recipe.selection.datasets:
        other = _tuning(name)
        _refuse_tested(name, "selection.datasets", f"{f'{other}, or ' if other else ''}held_out = 0.1 in [selection]")
        if name in trained:
            raise CannotStart(f"selection.datasets: {name} is trained on; type held_out = 0.1 to keep some of it")


def tested_queries() -> SimilarQueries:
    """Return the judged queries of all test datasets that are on this machine now."""
    contracts = all_contracts()
    return _tested_queries(*(name for name in sorted(_tested()) if name in contracts and location.is_here(contracts[name])))


@cache
def _tested_queries(*names: str) -> SimilarQueries:
    texts: list[str] = []
    for name in names:
        try:
            source = location.find_source(all_contracts()[name])
            judged = {judgement.query_id for judgement in source.judgements()}
            texts += [query.text for query in source.queries() if query.query_id in judged]
        except LexbenchError:  # unreadable data are reported where they are used
            continue
    return SimilarQueries(texts)


def judged_documents(contract: Contract, datasets: Sequence[str]) -> set[str]:
    """Return the ids of the documents that are judged in those of *datasets* that search the corpus of *contract*.

    Raises what `check_left_out` raises.
    """
    sources = [_judgements(dataset) for dataset in _of_corpus(contract, datasets)]
    return {judgement.doc_id for source in sources for judgement in source.judgements()}


def check_left_out(contract: Contract, datasets: Sequence[str]) -> None:
    """Raise UnknownName for an unknown dataset, MissingData if judgements of the corpus of *contract* are not here."""
    for dataset in _of_corpus(contract, datasets):
        _judgements(dataset)


def _of_corpus(contract: Contract, datasets: Sequence[str]) -> list[Contract]:
    known = all_contracts()
    for name in datasets:
        if name not in known:
            raise UnknownName("dataset in leave_out", name, known, see="lexbench list datasets")
    return [known[name] for name in datasets if known[name].corpus == contract.corpus]


def _judgements(dataset: Contract) -> Source:
    """Return a source with the judgements of *dataset*: its own, or one of a dataset with the same judgements."""
    digest, missing = dataset.expected.qrels_sha256, ""
    same = [other for other in all_contracts().values() if digest and other.expected.qrels_sha256 == digest]
    for other in dict.fromkeys([dataset.id, *(other.id for other in same)]):
        try:
            return location.find_source(all_contracts()[other])
        except MissingData as error:
            missing = missing or str(error)
    raise MissingData(f"leave_out: {missing}; or type --set 'leave_out=[]' to train on these documents")


def _refuse_tested(name: str, setting: str, instead: str) -> None:
    if name in _tested() or Path(name).name in _TEST_FILES:
        raise CannotStart(f"{setting}: {name} is for testing; its scores would mean nothing afterwards; type {instead}")


def _tuning(name: str) -> str | None:
    """Return the dataset for tuning that a test dataset names, unless that is a test dataset itself."""
    contract = all_contracts().get(name)
    return contract.tuning if contract and contract.tuning not in _tested() else None


@cache
def _tested() -> frozenset[str]:
    """Return the ids of test datasets, and of datasets with the same queries, e.g. MS MARCO's dev with titles."""
    known = all_contracts()
    names = {name for suite in suite_names() for name in suite_named(suite).datasets}
    names |= {contract.id for contract in known.values() if contract.tuning}
    queries = {known[name].expected.queries_sha256 for name in names} - {None}
    return frozenset(names | {contract.id for contract in known.values() if contract.expected.queries_sha256 in queries})
