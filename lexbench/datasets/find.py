"""Finding the data of a dataset: files that the user provides, else what the contract's loader has or can fetch."""

import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from lexbench.contracts import Contract, SourceFacts, TextPolicy, all_contracts, find_contract
from lexbench.datasets import hub_layout
from lexbench.datasets.source import locators, missing, user_folders
from lexbench.datasets.sources.files import CORPUS, Files
from lexbench.datasets.sources.hf import PREFIX, Hf, HubName, snapshot
from lexbench.errors import InvalidFile, MissingData, UnknownName
from lexbench.plugins import Source
from lexbench.storage.reading import COMPRESSED

_QRELS = tuple(f".tsv{end}" for end in (*COMPRESSED, ""))  # how the files of judgements in a BEIR folder end


class Located(NamedTuple):
    """A dataset's contract, and where its data are."""

    contract: Contract
    source: Source


def find(contract: Contract) -> Source:
    """Return where the dataset is; one that is not here yet is fetched when it is first read.

    Raises MissingData (one line: what, where looked, how to provide it) or ContractMismatch (an archive that is not the
    published one), within seconds.
    """
    folders = user_folders(contract)
    for locator in locators(contract):
        source = locator.locate(contract, folders)
        if source is not None:
            return source
    looked = ", ".join(str(folder) for folder in folders) or "LEXBENCH_DATA, which names no folder"
    raise missing(contract, f"looked in {looked}")


def status(contract: Contract) -> str:
    """Return in a few words whether and where the dataset is, as `list datasets` shows it; touches no network."""
    folders = user_folders(contract)
    return next(filter(None, (locator.status(contract, folders) for locator in locators(contract))), "not here")


def is_here(contract: Contract) -> bool:
    """Return whether the dataset can be read on this machine without a network."""
    return status(contract) not in ("not here", "to be fetched")


def named(name: str) -> tuple[Contract, Source | None]:
    """Return the contract of what is typed for a dataset: its id, a folder or qrels file, or "hf:ORG/NAME".

    Where the data themselves were named they come with it, under the default contract; None where the contract finds them.
    UnknownName for what is none of these.
    """
    if name.startswith(PREFIX):
        return find_hub(name)
    if Path(name).exists():
        return find_folder(Path(name))
    contract = find_contract(name)
    if contract is None:
        raise UnknownName("dataset or folder", name, all_contracts(), see="lexbench list datasets")
    return contract, None


def scored_by(name: str) -> tuple[Contract, Source | None]:
    """Return what `named` does, but of an id its contract, even where a folder here is called so: rules decide a score."""
    contract = find_contract(name)
    return (contract, None) if contract else named(name)


def find_folder(path: Path, split: str | None = None) -> Located:
    """Return the dataset in a BEIR folder, under the default contract: titles joined in, nothing dropped, grades >= 1.

    *path* is a folder with corpus.jsonl, queries.jsonl and qrels/*.tsv, plain or compressed (the corpus may be one folder up),
    or one of its qrels files; *split* names one. Its only one, or `test`, needs no naming. MissingData and InvalidFile say what
    is not there or not clear.
    """
    path = path.resolve()
    if path.is_dir() and not _has_corpus(path) and hub_layout.splits(path) and any(path.glob("corpus*")):
        return _in_hub_layout(path, split)
    if path.is_file() and path.parent.name == "qrels":
        path, split = path.parent.parent, _stem(path)
    splits = sorted(_stem(file) for file in path.glob("qrels/[!.]*") if file.name.endswith(_QRELS))
    if split is None and len(splits) > 1 and "test" not in splits:
        raise InvalidFile(f"{path} has several qrels; name one: {', '.join(f'{path}/qrels/{name}.tsv' for name in splits)}")
    split = split or (splits[0] if len(splits) == 1 else "test")
    shared = not _has_corpus(path)  # a corpus with several sets of queries has a folder for each
    own, above = (os.fsencode(folder.name).decode(errors="backslashreplace") for folder in (path, path.parent))
    name = f"{above}/{own}" if shared else own
    contract = _without_contract(name, split, SourceFacts(loader="files", split=split), several=len(splits) > 1)
    contract = msgspec.structs.replace(contract, corpus=above if shared else own)
    source = Files.locate(contract, [path, path.parent] if shared else [path])
    if source is None:
        raise MissingData(
            f"{path} is no dataset: neither it nor {path.parent} has corpus.jsonl or collection.tsv, plain, .gz, .bz2 or .xz"
        )
    return Located(contract, source)


def _in_hub_layout(path: Path, split: str | None) -> Located:
    """Return the dataset in a folder as the hub has it; *split*, or `test`, or the only one there is."""
    splits = hub_layout.splits(path)
    if split is None and len(splits) > 1 and "test" not in splits:
        raise InvalidFile(f"{path} has several splits of qrels ({', '.join(splits)}); keep the one that is meant in it")
    split = split or (splits[0] if len(splits) == 1 else "test")
    contract = _without_contract(path.name, split, SourceFacts(loader="hf", split=split), several=len(splits) > 1)
    source = Hf.locate(contract, [path])
    if source is None:
        raise MissingData(f"{path} is no dataset: it has no corpus, queries and qrels, each .parquet or .jsonl")
    return Located(contract, source)


def find_hub(name: str) -> Located:
    """Return the dataset of the hub that is typed "hf:ORG/NAME@REVISION#SPLIT", under the default contract."""
    hub = HubName.read(name)
    folder = snapshot(hub.repository, hub.revision)
    splits = hub_layout.splits(folder)
    split = hub.split or (splits[0] if len(splits) == 1 else "test")
    typed = f"{PREFIX}{hub.repository}" + (f"@{hub.revision}" if hub.revision else "")
    contract = _without_contract(typed, split, SourceFacts(loader="hf", split=split, url=typed), several=len(splits) > 1)
    source = Hf.locate(contract, ())
    if source is None:
        raise MissingData(f"{typed} is not in BEIR's layout: it has no corpus, queries and qrels")
    return Located(contract, source)


def _without_contract(name: str, split: str, source: SourceFacts, *, several: bool) -> Contract:
    """Return the default contract for data called *name*: titles joined in, nothing dropped, grades >= 1."""
    return Contract(
        schema=1,
        id=f"{name}/{split}" if several else name,
        version=0,  # of no contract
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
