"""Where the data of a dataset are: in files of the user, else at the source that its contract names.

`find_source` takes a contract. Other functions take what a user types for a dataset: an id, a folder, or "hf:ORG/NAME".
"""

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from lexbench.contracts import Contract, SourceFacts, TextPolicy, all_contracts, find_contract
from lexbench.datasets.sources import finders, missing, user_folders
from lexbench.datasets.sources.files import CORPUS, Files
from lexbench.datasets.sources.hf import PREFIX, Hf, HubName, snapshot, splits
from lexbench.errors import InvalidFile, MissingData, UnknownName
from lexbench.plugins import Source
from lexbench.storage.reading import COMPRESSED

_QRELS = tuple(f".tsv{end}" for end in (*COMPRESSED, ""))  # endings of qrels files in a BEIR folder


class Located(NamedTuple):
    """The contract of a dataset, and where its data are."""

    contract: Contract
    source: Source


def find_source(contract: Contract) -> Source:
    """Return the source of a dataset. Data that are not here yet are fetched on first reading.

    Raises MissingData, with where it looked and how to provide the data, or ContractMismatch if an archive is not the published
    one. Either takes seconds at most.
    """
    folders = user_folders(contract)
    for finder in finders(contract):
        source = finder.locate(contract, folders)
        if source is not None:
            return source
    looked = ", ".join(str(folder) for folder in folders) or "LEXBENCH_DATA, which names no folder"
    raise missing(contract, f"looked in {looked}")


def status(contract: Contract) -> str:
    """Return where the dataset is, in a few words for `list datasets`, without using the network."""
    folders = user_folders(contract)
    return next(filter(None, (finder.status(contract, folders) for finder in finders(contract))), "not here")


def is_here(contract: Contract) -> bool:
    """Return whether the dataset can be read on this machine without a network."""
    return status(contract) not in ("not here", "to be fetched")


def find_dataset(name: str) -> tuple[Contract, Source | None]:
    """Return the contract of a dataset typed as its id, a folder, a qrels file, or "hf:ORG/NAME".

    For an id the source is None, because the contract finds it. Otherwise the source comes with the default contract. Raises
    UnknownName if *name* is none of these.
    """
    if name.startswith(PREFIX):
        return find_hub(name)
    if Path(name).exists():
        return find_folder(Path(name))
    contract = find_contract(name)
    if contract is None:
        raise UnknownName("dataset or folder", name, all_contracts(), see="lexbench list datasets")
    return contract, None


def find_rules(name: str) -> tuple[Contract, Source | None]:
    """Return the result of `find_dataset`, but prefer an id to a folder of the same name: its rules decide a score."""
    contract = find_contract(name)
    return (contract, None) if contract else find_dataset(name)


def find_folder(path: Path, split: str | None = None) -> Located:
    """Return the dataset in a BEIR folder, under the default contract: titles joined in, nothing dropped, grades >= 1.

    *path* is one of the qrels files, or a folder with corpus.jsonl, queries.jsonl and qrels/*.tsv, plain or compressed (the
    corpus may be one folder up), or a folder in the layout of the Hugging Face hub. *split* names one of several qrels; the
    default is the only one, or `test`. Raises MissingData or InvalidFile if something is missing or ambiguous.
    """
    path = path.resolve()
    if path.is_dir() and not _has_corpus(path) and splits(path) and any(path.glob("corpus*")):
        return _find_hub_folder(path, split)
    if path.is_file() and path.parent.name == "qrels":
        path, split = path.parent.parent, _stem(path)
    names = sorted(_stem(file) for file in path.glob("qrels/[!.]*") if file.name.endswith(_QRELS))
    if split is None and len(names) > 1 and "test" not in names:
        raise InvalidFile(f"{path} has several qrels; name one: {', '.join(f'{path}/qrels/{name}.tsv' for name in names)}")
    split = split or _default_split(names)
    shared = not _has_corpus(path)  # a corpus with several sets of queries has a folder for each
    own, above = (os.fsencode(folder.name).decode(errors="backslashreplace") for folder in (path, path.parent))
    name = f"{above}/{own}" if shared else own
    contract = _default_contract(name, split, SourceFacts(loader="files", split=split), several=len(names) > 1)
    contract = msgspec.structs.replace(contract, corpus=above if shared else own)
    source = Files.locate(contract, [path, path.parent] if shared else [path])
    if source is None:
        raise MissingData(
            f"{path} is no dataset: neither it nor {path.parent} has corpus.jsonl or collection.tsv, plain, .gz, .bz2 or .xz"
        )
    return Located(contract, source)


def _find_hub_folder(path: Path, split: str | None) -> Located:
    """Return the dataset in a folder with the hub's layout."""
    names = splits(path)
    if split is None and len(names) > 1 and "test" not in names:
        raise InvalidFile(f"{path} has several splits of qrels ({', '.join(names)}); keep only the one that you mean")
    split = split or _default_split(names)
    contract = _default_contract(path.name, split, SourceFacts(loader="hf", split=split), several=len(names) > 1)
    source = Hf.locate(contract, [path])
    if source is None:
        raise MissingData(f"{path} is no dataset: it has no corpus, queries and qrels, each .parquet or .jsonl")
    return Located(contract, source)


def find_hub(name: str) -> Located:
    """Return the dataset on the hub that is typed "hf:ORG/NAME@REVISION#SPLIT", under the default contract."""
    hub = HubName.read(name)
    names = splits(snapshot(hub.repository, hub.revision))
    split = hub.split or _default_split(names)
    typed = f"{PREFIX}{hub.repository}" + (f"@{hub.revision}" if hub.revision else "")
    contract = _default_contract(typed, split, SourceFacts(loader="hf", split=split, url=typed), several=len(names) > 1)
    source = Hf.locate(contract, ())
    if source is None:
        raise MissingData(f"{typed} is not in BEIR's layout: it has no corpus, queries and qrels")
    return Located(contract, source)


def _default_split(names: list[str]) -> str:
    return names[0] if len(names) == 1 else "test"


def _default_contract(name: str, split: str, source: SourceFacts, *, several: bool) -> Contract:
    """Return the default contract for data called *name*: titles joined in, nothing dropped, grades >= 1."""
    return Contract(
        schema=1,
        id=f"{name}/{split}" if several else name,
        version=0,  # there is no published contract
        name=name,
        description="Data given by their place, under the default contract.",
        corpus=name,
        source=source,
        text=TextPolicy(document="title_text"),
    )


def _has_corpus(folder: Path) -> bool:
    return any(any(folder.glob(f"{name}*")) for name in CORPUS)


def _stem(path: Path) -> str:
    return next((path.name.removesuffix(end) for end in _QRELS if path.name.endswith(end)), path.name)
