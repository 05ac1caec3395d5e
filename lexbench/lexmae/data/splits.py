"""Which queries models may be trained on and chosen by: none that a table reports, nor any that is nearly one of those.

Whole datasets are refused by name, and by what they share with a tested one (`check_selection`). Single queries are left out
where a tested one has the same words but for a few (`SimilarQueries`): of NFCorpus's and SciFact's training queries some do.
"""

from functools import cache
from pathlib import Path

from lexbench import suites
from lexbench.contracts import all_contracts
from lexbench.datasets.find import find, is_here
from lexbench.datasets.overlap import SimilarQueries
from lexbench.errors import CannotStart, LexbenchError
from lexbench.lexmae.recipe import Recipe

_TEST_FILES = ("test.tsv", "test.tsv.gz")  # qrels of a BEIR folder


def check_selection(recipe: Recipe) -> None:
    """Raise CannotStart where a recipe trains a stage, or chooses its model, on queries that are for testing.

    Those are the datasets of all suites, datasets that name another one for tuning, those that share their queries with one of
    these, and files `qrels/test.tsv`. Nor may a model be chosen by queries that it is trained on.
    """
    trained: list[str] = [*recipe.vectors.queries] if recipe.vectors else []
    for name in trained:
        _refuse(name, "vectors.queries", _instead(name) or "another dataset, of training queries")
    for number in (1, 2, 3):
        if stage := recipe.stage(number):
            trained += stage.queries
            for name in stage.queries:
                _refuse(name, f"stage{number}.queries", _instead(name) or "another dataset, of training queries")
    for name in recipe.selection.datasets:
        other = _instead(name)
        _refuse(name, "selection.datasets", f"{f'{other}, or ' if other else ''}held_out = 0.1 in [selection]")
        if name in trained:
            raise CannotStart(f"selection.datasets: {name} is trained on; type held_out = 0.1 to keep some of it")


def _refuse(name: str, setting: str, instead: str) -> None:
    if name in _tested() or Path(name).name in _TEST_FILES:
        raise CannotStart(f"{setting}: {name} is for testing, and its scores would say nothing any more; type {instead}")


def _instead(name: str) -> str | None:
    """Return the dataset for tuning that a tested one names, unless that is tested itself."""
    contract = all_contracts().get(name)
    return contract.tuning if contract and contract.tuning not in _tested() else None


@cache
def _tested() -> frozenset[str]:
    """Return the ids of datasets for testing, and of those with the queries of one: MS MARCO's dev, with titles or without."""
    known = all_contracts()
    names = {name for suite in suites.suite_names() for name in suites.suite(suite).datasets}
    names |= {contract.id for contract in known.values() if contract.tuning}
    queries = {known[name].expected.queries_sha256 for name in names} - {None}
    return frozenset(names | {contract.id for contract in known.values() if contract.expected.queries_sha256 in queries})


@cache
def tested_queries() -> SimilarQueries:
    """Return the queries of all tested datasets that are on this machine."""
    texts: list[str] = []
    for contract in all_contracts().values():
        if contract.id in _tested() and is_here(contract):
            try:
                source = find(contract)
                judged = {judgement.query_id for judgement in source.judgements()}
                texts += [query.text for query in source.queries() if query.query_id in judged]
            except LexbenchError:  # data that do not read are told of where they are used
                continue
    return SimilarQueries(texts)
