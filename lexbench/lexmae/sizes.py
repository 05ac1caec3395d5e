"""Where the data of a recipe are, and how much of it there is, as contracts or a folder's files say it."""

from pathlib import Path
from typing import NamedTuple

from lexbench.datasets import find
from lexbench.datasets.contracts import Contract, all_contracts
from lexbench.errors import MissingData, UnknownName
from lexbench.storage.reading import open_file

_SPLIT = "train"  # of a folder that has several qrels
_PIECE = 1 << 24  # bytes read at a time


class Size(NamedTuple):
    """The number of each, None where nobody knows."""

    documents: int | None
    queries: int | None
    relevant: int | None  # pairs of a query and a document that is relevant to it


def of_dataset(name: str) -> Size:
    """Return the size of the dataset of that name, whose data need not be here if it has a contract; errors as of `dataset`."""
    if not Path(name).exists():
        contract = _contract(name)
        facts, least = contract.expected, contract.relevance.default
        graded = sum(count for grade, count in facts.grades.items() if int(grade) >= least)
        return Size(facts.documents, facts.queries, graded if facts.grades else facts.judgements)
    contract, source = dataset(name)
    relevant = [judgement for judgement in source.judgements() if judgement.grade >= contract.relevance.default]
    return Size(of_corpus(name).documents, len({judgement.query_id for judgement in relevant}), len(relevant))


def of_corpus(name: str) -> Size:
    """Return the size of the corpus of that dataset, or in that BEIR folder, which need not have queries; errors likewise."""
    if not Path(name).exists():
        return of_dataset(name)._replace(queries=None, relevant=None)
    return Size(_lines(_corpus_file(Path(name))), None, None)


def check_corpus(name: str) -> None:
    """Raise what opening the corpus of that dataset, or in that BEIR folder, would."""
    if Path(name).exists():
        _corpus_file(Path(name))
    else:
        dataset(name)


def _corpus_file(place: Path) -> Path:
    root = place.resolve().parent.parent if place.is_file() else place.resolve()
    found = [file for folder in (root, root.parent) for file in sorted(folder.glob("corpus.jsonl*"))]
    if not found:
        raise MissingData(f"{place} has no corpus: neither it nor {root.parent} has corpus.jsonl or corpus.jsonl.gz")
    return found[0]


def dataset(name: str) -> find.Located:
    """Return the dataset of that id, or that in the BEIR folder, or of its qrels file, at that path.

    Errors are those of opening it: UnknownName, MissingData, InvalidFile or ContractMismatch.
    """
    place = Path(name)
    if place.exists():
        return find.find_folder(place, _SPLIT if any(place.glob(f"qrels/{_SPLIT}.tsv*")) else None)
    contract = _contract(name)
    return find.Located(contract, find.find(contract))


def _contract(name: str) -> Contract:
    if name not in all_contracts():
        raise UnknownName("dataset or folder", name, all_contracts(), see="lexbench list datasets")
    return all_contracts()[name]


def _lines(path: Path) -> int:
    with open_file(path) as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_PIECE), b""))
