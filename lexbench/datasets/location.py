"""Where the data of a dataset are: in files of the user, else at the source that its contract names.

`find_source` takes a contract. Other functions take what a user types for a dataset: an id, a folder, or "hf:ORG/NAME".
Behind a folder or a name of the hub may stand the split of the judgements: "FOLDER#dev".
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeGuard

import msgspec

from lexbench.contracts import Contract, SourceFacts, TextPolicy, all_contracts, contract_of, find_contract
from lexbench.datasets.memory import Memory, parts_of
from lexbench.datasets.sources import finders, ir_datasets, missing, packaged_folders, user_folders
from lexbench.datasets.sources.files import NOT_TEST, Files, JudgementsAlone, find_tables, folder_of, stem
from lexbench.datasets.sources.hf import PREFIX, Hf, HubName, snapshot
from lexbench.datasets.stated_columns import stated_columns
from lexbench.errors import CommandError, InvalidFile, MissingData, UnknownName, listed, with_meaning
from lexbench.plugins import Source
from lexbench.storage.reading import COMPRESSED, check_data, open_file, read_toml
from lexbench.storage.store import RememberedPlace
from lexbench.synonyms import nearest
from lexbench.trec.qrels import has_splits

_NO_DATA = ("qrels", "__pycache__")  # folders that are never offered as data
_PACKED = (".zip", ".zst", ".tar", ".tgz", *COMPRESSED)  # may have documents in them
_NAMED = 5  # files in a message
_CORPUS = ("corpus", "collection", "documents", "docs")  # names of files of documents
LIBRARY = "ir_datasets:"  # stands before the ids of that library
CONTRACT = "contract.toml"  # in a folder with its own contract


class Located(NamedTuple):
    """The contract of a dataset, and where its data are."""

    contract: Contract
    source: Source


class Typed(str):
    """A dataset as a user types it, with the columns that are stated beside it."""

    __slots__ = ("columns",)
    columns: Mapping[str, str]

    def __new__(cls, name: str, columns: Mapping[str, str]) -> Self:
        """Take the name or path; `find_dataset` reads the rest."""
        made = super().__new__(cls, name)
        made.columns = columns
        return made


def find_source(contract: Contract) -> Source:
    """Return the source of a dataset, within seconds. Data that are not here yet are fetched when they are first read.

    Raises MissingData, which names the places searched and how to provide the data, or ContractMismatch if an archive is not
    the published one.
    """
    folders = user_folders(contract)
    for finder in finders(contract):
        source = finder.locate(contract, [*folders, *packaged_folders(contract)])
        if source is not None:
            return source
    looked = ", ".join(str(folder) for folder in folders) or "LEXBENCH_DATA, which names no folder"
    raise missing(contract, f"looked in {looked}")


def status(contract: Contract) -> str:
    """Return where the dataset is, in a few words for `list datasets`, without using the network."""
    folders = [*user_folders(contract), *packaged_folders(contract)]
    return next(filter(None, (finder.status(contract, folders) for finder in finders(contract))), "not here")


def is_here(contract: Contract) -> bool:
    """Return whether the dataset can be read on this machine without a network."""
    return status(contract) not in ("not here", "to be fetched")


def find_dataset(
    data: Any, split: str | None = None, columns: Mapping[str, str] = MappingProxyType({})
) -> tuple[Contract, Source | None]:
    """Return the contract of a dataset and, unless *data* is an id, its source.

    *data* is an id, a folder, a file of judgements, "hf:ORG/NAME", "ir_datasets:ID", or a dataset in memory. `find_source`
    finds the source of an id; a folder with the name of an id is typed ./ID. Data without an id get the default contract.
    *split* chooses the judgements of a folder or of data in memory. *columns* names columns of its tables (see
    `lexbench.datasets.stated_columns`). `Typed` names have them. Raises UnknownName or CommandError if *data* is none of these.
    """
    columns = data.columns if isinstance(data, Typed) else columns
    stated_columns(columns)
    if not isinstance(data, str | Path):
        return data if _is_located(data) else _in_memory(data, split, columns)
    name = str(data)
    if name.startswith(PREFIX):
        return _find_hub(f"{name}#{split}" if split else name)
    contract = find_contract(name.removeprefix(LIBRARY))
    if contract is None and (place := typed_place(name)):
        if split and place.split and split != place.split:
            raise CommandError(f"{name} names the split {place.split}, and --split names {split}; choose one")
        return find_folder(place.path, split or place.split, columns)
    if contract is None and "#" in name:
        name, _, split = name.rpartition("#")
        contract = find_contract(name)
    if columns:
        raise CommandError(f"columns are those of tables in a folder, and {name} is none")
    if split:
        raise CommandError(f"--split chooses the judgements of a folder, and {name} is none; see: lexbench list datasets")
    if contract is None and name.startswith(LIBRARY):
        return _in_memory({"name": name.removeprefix(LIBRARY), "dataset": ir_datasets.load(name.removeprefix(LIBRARY))})
    if contract is None:
        known = alternatives(name, all_contracts())
        raise UnknownName("dataset or folder", name, known, see="lexbench list datasets", meant=only_dataset(name, known))
    return contract, None


def _is_located(data: Any) -> TypeGuard[tuple[Contract, Source | None]]:
    """Whether *data* is what `find_dataset` has returned."""
    return isinstance(data, tuple) and bool(data) and isinstance(data[0], Contract)


class TypedPath(NamedTuple):
    """A folder or file that a user typed, and the split behind it."""

    path: Path
    split: str | None


def typed_place(name: str) -> TypedPath | None:
    """Return the folder or file that *name* is, "FOLDER#dev", or "FOLDER/dev" as results have it; None for anything else."""
    with suppress(OSError, ValueError):  # no folder can have such a name
        if name and Path(name).exists():
            return TypedPath(Path(name), None)
        for mark in "#/":
            folder, _, split = name.rpartition(mark)
            if folder and split and Path(folder).exists() and (mark == "#" or split in find_tables(Path(folder), "judgements")):
                return TypedPath(Path(folder), split)
    return None


def typed_id(name: str) -> str:
    """Return the id that results have for a dataset that a user typed. An unknown id stays: results may have it."""
    return find_dataset(name)[0].id if typed_place(name) else name


def alternatives(name: str, ids: Iterable[str]) -> list[str]:
    """Return what could be meant by *name*, which does not exist: folders around it, and *ids* unless it is a path."""
    above, slash, _ = name.rstrip("/").rpartition("/")
    folders: list[str] = []
    with suppress(OSError, ValueError):  # no folder can have such a name
        if above and not Path(above).exists():
            return alternatives(above, ids)
        beside = (one.name for one in Path(above + slash).glob("[!.]*") if one.is_dir() and one.name not in _NO_DATA)
        folders = [f"{above}{slash}{one}" for one in beside]
        folders += [above] if above.strip(".~/") else []  # results name a split of a folder FOLDER/SPLIT
    return folders if name.startswith((".", "/", "~")) else [*ids, *folders]


def only_dataset(name: str, known: Sequence[str]) -> str:
    """Return the only folder with documents among *known*, if *name* is a path and like none of them; else ""."""
    if nearest(name, known, 1) or not name.startswith((".", "/", "~")):
        return ""
    found = [one for one in known if Path(one).is_dir() and find_tables(Path(one), "documents")]
    return found[0] if len(found) == 1 else ""


def _in_memory(data: Any, split: str | None = None, columns: Mapping[str, str] = MappingProxyType({})) -> Located:
    """Return data in memory as a dataset, under the default contract. Raises CommandError if it is none."""
    parts = parts_of(data)
    if parts is not None:
        parts |= ({"split": split} if split else {}) | ({"columns": columns} if columns else {})
    else:
        what = "give the name of a suite, dataset or folder, or {'corpus': …, 'queries': …, 'qrels': …}"
        raise CommandError(f"{type(data).__name__} is no dataset; {what}")
    bare = Memory(_default_contract("memory", "test", SourceFacts(loader="memory"), several=False), parts)
    contract = _default_contract(bare.name, "test", bare.contract.source, several=False)
    return Located(contract, Memory(contract, parts))


def find_again(dataset: str, place: RememberedPlace | None) -> tuple[Contract, Source | None]:
    """Return the dataset of a result: from *place*, where the store remembers it, or else by its id."""
    return find_folder(place.judgements, place.split, place.columns) if place else (contract_of(dataset), None)


def find_folder(path: Path, split: str | None = None, columns: Mapping[str, str] = MappingProxyType({})) -> Located:
    """Return the dataset in a folder, under the rules in its contract.toml, or else under the default contract.

    *path* is a folder in one of the layouts of `lexbench.datasets.sources.files`, or a file of its judgements. The documents
    may be one folder up. *split* names one of several sets of judgements; the default is the only one, or `test`. *columns*
    names columns of the tables, in place of those in contract.toml. Raises MissingData or InvalidFile if something is missing
    or ambiguous.
    """
    if path.is_file() or path.is_fifo():
        check_data(path)
    path = path.resolve()
    if path.is_file():
        file, path = path, folder_of(path)
        if file in [one for kind in ("documents", "queries") for files in find_tables(path, kind).values() for one in files]:
            error = CommandError(f"{file} has documents or queries, no judgements; give its folder: {path}")
            raise with_meaning(error, file.name, "")
        if not any(find_tables(folder, "documents") for folder in (path, path.parent)):
            one = split or "test"
            _check_splits(file, [file], one)
            alone = _default_contract(file.name, one, SourceFacts(loader="files", split=one), several=one != "test")
            return Located(alone, JudgementsAlone(alone, file))
        split = next((name for name, files in find_tables(path, "judgements").items() if file in files), file.name) or split
    rules = _rules_of(path)
    if rules and columns:
        rules = msgspec.structs.replace(rules, source=msgspec.structs.replace(rules.source, columns=dict(columns)))
    if rules and rules.source.split == (split or rules.source.split) and (own_source := Files.locate(rules, [path])):
        return Located(rules, own_source)
    judgements = find_tables(path, "judgements")
    names = sorted(name for name in judgements if name)
    if split is None and len(names) > 1 and "test" not in names:
        raise InvalidFile(f"{path} has judgements of several splits: {', '.join(names)}; choose one: --split {names[0]}")
    split = split or (names[0] if len(names) == 1 else "test")
    _check_splits(path, judgements.get("", []) if not names and split not in find_tables(path, "queries") else [], split)
    several = len(names) > 1 or split in NOT_TEST
    shared = not find_tables(path, "documents")  # one corpus with several sets of queries, each in its own folder
    own, above = (os.fsencode(folder.name).decode(errors="backslashreplace") for folder in (path, path.parent))
    taken = find_contract(f"{own}/{split}" if several else own)  # the name of a published dataset, which has other rules
    name = f"{above}/{own}" if shared or taken else own
    contract = _default_contract(name, split, SourceFacts(loader="files", split=split, columns=dict(columns)), several=several)
    contract = msgspec.structs.replace(contract, corpus=above if shared else own)
    source = Files.locate(contract, [path, path.parent] if shared else [path])
    if source is None:
        raise _no_documents(path)
    return Located(contract, source)


def _check_splits(path: Path, files: Sequence[Path], split: str) -> None:
    """Raise MissingData if the first of *files*, the only judgements of *path*, has no splits, of which the user chose one."""
    if files and split != "test" and not has_splits(files[0]):
        raise MissingData(f"{path} has one set of judgements, {files[0].name}, and no split {split!r}; leave out the split")


def _no_documents(path: Path) -> MissingData:
    """Return the error for a folder without documents. Raises InvalidFile if they may be in a file that is not read."""
    files = sorted(file for file in path.iterdir() if file.is_file())
    for file in files:
        if file.suffix in _PACKED or file.name.partition(".")[0] in _CORPUS:
            open_file(file).close()  # raises an error that says how to unpack it
    tables = [file.name for file in files if stem(file) is not None]
    named = f"it has {listed(tables, _NAMED)}: call the documents corpus, the queries queries, and the judgements qrels; "
    if other := next((file for file in files if file.name.partition(".")[0] in _CORPUS and file.name not in tables), None):
        named = f"{other.name} has a format that is not read: save it as {other.name.partition('.')[0]}.csv; "
    inside = next((file for name in _CORPUS for file in sorted(path.glob(f"{name}/[!.]*"))), None)
    if inside:
        named = f"{inside.parent.name} has files that are not read, e.g. {inside.name}; "
    return MissingData(
        f"{path} is no dataset: no documents in it; {named if tables or other or inside else ''}"
        "put corpus.jsonl (or .csv, .tsv, .parquet, .trec) into it, or make a "
        f"test collection of texts: lexbench collect {quote(str(path))}"
    )


def _rules_of(path: Path) -> Contract | None:
    """Return the contract in a folder, if it has one. Raises InvalidFile if it has the id of another contract."""
    if not (path / CONTRACT).is_file():
        return None
    rules = read_toml(path / CONTRACT, Contract)
    known = find_contract(rules.id)
    if known and msgspec.structs.replace(rules, source=known.source) != known:
        raise InvalidFile(f"{path / CONTRACT}: {rules.id!r} is the id of another dataset; give it an id of its own")
    return rules


def _find_hub(name: str) -> Located:
    """Return the dataset on the hub that is typed "hf:ORG/NAME@REVISION#SPLIT", under the default contract."""
    hub = HubName.read(name)
    names = list(find_tables(snapshot(hub.repository, hub.revision), "judgements"))
    split = hub.split or (names[0] if len(names) == 1 else "test")
    typed = f"{PREFIX}{hub.repository}" + (f"@{hub.revision}" if hub.revision else "")
    contract = _default_contract(typed, split, SourceFacts(loader="hf", split=split, url=typed), several=len(names) > 1)
    source = Hf.locate(contract, ())
    assert source is not None  # its address begins with hf:
    return Located(contract, source)


def _default_contract(name: str, split: str, source: SourceFacts, *, several: bool) -> Contract:
    """Return the default contract for data called *name*: titles before texts, no document dropped, relevant from grade 1."""
    return Contract(
        schema=1,
        id=f"{name}/{split}" if several else name,
        version=0,  # there is no published contract
        name=name,
        description="Data of a user, under the default contract.",
        corpus=name,
        source=source,
        text=TextPolicy(document="title_text"),
    )
