"""Where the data that a recipe names are, and how much of them there is, as contracts or a folder's files say it.

A dataset is named by its id, by the path of a BEIR folder, or by that of a qrels file in one.
"""

from pathlib import Path
from typing import NamedTuple

from lexbench.contracts import Contract, all_contracts
from lexbench.datasets import find
from lexbench.errors import InvalidFile, MissingData, UnknownName
from lexbench.storage.reading import open_file

_SPLIT = "train"  # of a folder that has several qrels
_CORPUS = ("corpus.jsonl", "corpus.jsonl.gz")
_PIECE = 1 << 24  # bytes read at a time


class Size(NamedTuple):
    """The number of each, None where nobody knows."""

    documents: int | None
    queries: int | None
    relevant: int | None  # pairs of a query and a document that is relevant to it


def of_dataset(name: str) -> Size:
    """Return the size of a dataset; data with a contract need not be here. Errors are those of `find_dataset`."""
    if not Path(name).exists():
        contract = _contract(name)
        facts, least = contract.expected, contract.relevance.default
        graded = sum(count for grade, count in facts.grades.items() if int(grade) >= least)
        return Size(facts.documents, facts.queries, graded if facts.grades else facts.judgements)
    contract, source = find_dataset(name)
    relevant = [judgement for judgement in source.judgements() if judgement.grade >= contract.relevance.default]
    return Size(of_corpus(name).documents, len({judgement.query_id for judgement in relevant}), len(relevant))


def of_corpus(name: str) -> Size:
    """Return the size of the corpus of a dataset, or of a BEIR folder, which need not have queries; errors likewise."""
    if not Path(name).exists():
        return of_dataset(name)._replace(queries=None, relevant=None)
    return Size(_lines(corpus_file(Path(name))), None, None)


def check_corpus(name: str) -> None:
    """Raise what opening the corpus of that dataset, or of that BEIR folder, would."""
    if Path(name).exists():
        corpus_file(Path(name))
    else:
        find_dataset(name)


def find_dataset(name: str) -> find.Located:
    """Return contract and source of a dataset: of a folder the queries for training, which is never opened at `test` unasked.

    UnknownName, MissingData, InvalidFile or ContractMismatch.
    """
    path = Path(name)
    if not path.exists():
        contract = _contract(name)
        return find.Located(contract, find.find(contract))
    splits = {file.name.removesuffix(".gz").removesuffix(".tsv") for file in path.glob("qrels/*.tsv*")}
    if _SPLIT not in splits and (len(splits) > 1 or "test" in splits):
        files = ", ".join(f"{path}/qrels/{split}.tsv" for split in sorted(splits))
        raise InvalidFile(f"{path} has no qrels/{_SPLIT}.tsv to train on; make one, or name one of: {files}")
    return find.find_folder(path, _SPLIT if _SPLIT in splits else None)


def corpus_file(path: Path) -> Path:
    """Return the corpus of the BEIR folder, or of the qrels file, at *path*; it may be one folder up. MissingData if not."""
    folder = corpus_folder(path)
    for parent in (folder, folder.parent):
        for name in _CORPUS:
            if (parent / name).is_file():
                return parent / name
    raise MissingData(f"{path} has no corpus: neither it nor {folder.parent} has corpus.jsonl or corpus.jsonl.gz")


def corpus_folder(path: Path) -> Path:
    """Return the BEIR folder at *path*, or that of the qrels file there, as an absolute path."""
    path = path.resolve()
    return path.parent.parent if path.is_file() and path.parent.name == "qrels" else path


def _contract(name: str) -> Contract:
    if name not in all_contracts():
        raise UnknownName("dataset or folder", name, all_contracts(), see="lexbench list datasets")
    return all_contracts()[name]


def _lines(path: Path) -> int:
    with open_file(path) as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_PIECE), b""))
