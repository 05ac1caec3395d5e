"""Datasets in files of the user: a folder with documents, queries and judgements, in any of these layouts or a mixture.

    BEIR            corpus.jsonl, queries.jsonl, qrels/test.tsv
    tables          corpus.csv, queries.csv, qrels.csv; or .tsv, .parquet, .arrow, .jsonl, .json
    MS MARCO        collection.tsv, queries.dev.tsv, qrels.dev.tsv
    TREC            documents.trec or docs/*, topics.txt, qrels.txt
    text files      docs/*.txt, .md, .rst or .html, a document each, whose id is the name of its file
    Hugging Face    corpus/train-00000-of-00002.parquet, queries/test.parquet, qrels/test.parquet or data/test.parquet;
                    corpus/data-00000-of-00001.arrow and so on, as `save_to_disk` writes them

Files may be compressed. One of several splits of judgements is read. The formats are in `lexbench.datasets.records`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from typing import Any, Literal, Self, TypeAlias, TypeVar

from lexbench.contracts import Contract, suite_folders
from lexbench.datasets import records
from lexbench.datasets.sources import missing
from lexbench.datasets.stated_columns import Columns, advice, stated_columns
from lexbench.datasets.text_files import text_ending, text_files, visible_files
from lexbench.errors import InvalidFile, MissingData, with_meaning
from lexbench.plugins import Source
from lexbench.storage.reading import COMPRESSED, cached_file_digest
from lexbench.storage.rows import COLUMNAR, MissingColumns, ending, text_lines
from lexbench.synonyms import nearest
from lexbench.trec.qrels import read_judgements
from lexbench.types import Document, Judgement, Query

Kind = Literal["documents", "queries", "judgements", "instructions"]
Item = TypeVar("Item")
Tables: TypeAlias = Mapping[str, list[Path]]  # the files of each split, "" for files that belong to no split

_NAMES: Mapping[Kind, Sequence[Sequence[str]]] = {
    "documents": [("corpus", "collection"), ("documents", "docs")],
    "queries": [("queries", "query", "topics", "topic")],
    "instructions": [("instruction", "instructions")],  # of queries, in the layout of MTEB; a field of queries does as well
    "judgements": [("qrels",), ("judgements", "judgments"), ("default", "data", "relevance")],
}  # of folders and files; the first group with a match counts
_SHARD = re.compile(r"-(\d{5}(-of-\d{5})?|\d)(?=\.(parquet|jsonl|arrow)\b)")  # not topics.trec-8.txt
_STAMP = ".stamp.json"  # of files that describe judgements of a program
_SAVED = "data-*.arrow"  # what `save_to_disk` of Hugging Face's datasets writes, in a folder or, by split, in folders below it
_FACTS = ("state.json", "dataset_info.json", "dataset_dict.json")  # facts that it writes beside its data
_READER = 3  # raise it when the same file gives other documents
NOT_TEST = ("dev", "val", "valid", "validation")  # splits for development


def find_tables(folder: Path, kind: Kind) -> Tables:
    """Return the files of documents, queries or judgements in *folder* by split; {} if there are none."""
    if not folder.is_dir():
        return {}
    for names in _NAMES[kind]:
        if kind == "documents" and (texts := [folder / name for name in names if _has_texts(folder / name)]):
            return {"": texts}
        found: dict[str, list[Path]] = {}
        for name in names:
            saved = [
                (_split_saved(path, name), path)
                for below in ("", "*/")
                for path in sorted(folder.glob(f"{name}/{below}{_SAVED}"))
            ]
            inside = saved or [(_stem_inside(path, kind), path) for path in sorted(folder.glob(f"{name}/[!.]*"))]
            beside = [(_split_in_name(path, name), path) for path in sorted(folder.glob(f"{name}*")) if path.is_file()]
            for split, path in [pair for pair in inside if pair[0] is not None] or beside:
                if split is not None and not _is_collected(path):
                    found.setdefault(split, []).append(path)
        if found:
            return found
    return {}


def _stem_inside(path: Path, kind: Kind) -> str | None:
    """Return the `stem` of a file in a folder of one *kind*; files of TREC's documents may have any name, e.g. FT911_1."""
    named = stem(path)
    return path.name if named is None and kind == "documents" and records.has_trec_documents(path) else named


def _has_texts(folder: Path) -> bool:
    """Return whether *folder* has text files, a document each, and no table or file of TREC."""
    if not folder.is_dir():
        return False
    data = [path for path in folder.glob("[!.]*") if stem(path) is not None]
    plain = [path for path in data if ".txt" in path.suffixes]  # a text, a table or a file of TREC: the first one decides
    return data == plain and not any(map(records.is_data, sorted(plain)[:1])) and any(map(text_ending, visible_files(folder)))


def _is_collected(path: Path) -> bool:
    """Return whether a file has the facts of a folder that `lexbench collect` made, and no documents."""
    return path.name == "collection.json" and (path.parent / "corpus.jsonl").is_file()


def folder_of(path: Path) -> Path:
    """Return the folder of the dataset that a file of judgements belongs to."""
    return _around(path, "judgements") or path.parent


def _around(path: Path, kind: Kind) -> Path | None:
    """Return the folder of the dataset, if *path* lies in one of its folders for files of that kind."""
    above = path.parents[: 2 if path.match(_SAVED) else 1]
    return next((place.parent for place in above if place.name in chain(*_NAMES[kind])), None)


def _split_in_name(path: Path, name: str) -> str | None:
    """Return the split after *name* in a file name: "dev" in queries.dev.tsv, "" in queries.tsv; None for other files."""
    whole = stem(path) or ""
    return whole[len(name) + 1 :] if whole == name or whole.startswith(f"{name}.") else None


def _split_saved(path: Path, name: str) -> str | None:
    """Return the split of a file that `save_to_disk` has written in the folder *name*: that of its folder, if it has one."""
    return "" if path.parent.name == name else path.parent.name


def stem(path: Path) -> str | None:
    """Return the name of a file of data without its endings and the number of its shard; None for any other file."""
    if path.name.endswith(_STAMP) or path.name in _FACTS:
        return None
    bare = _SHARD.sub("", path.name)
    for compressed in COMPRESSED:
        bare = bare.removesuffix(compressed)
    end = next((end for end in records.ENDINGS if bare.lower().endswith(end)), None)
    return bare[: -len(end)] if end else None


def _one_table(files: Sequence[Path], contract: Contract) -> tuple[Path, ...]:
    """Return *files* if they are the shards of one table. Raises InvalidFile if they are two tables."""
    if len(files) > 1 and not all(_SHARD.search(path.name) for path in files):
        raise InvalidFile(f"{files[0]} and {files[1]} are two tables of one kind for {contract.id}; keep one")
    return tuple(files)


@dataclass(frozen=True)
class Files(Source):
    """A dataset in files (see `lexbench.datasets.records`)."""

    contract: Contract
    corpus: tuple[Path, ...]
    queries_files: tuple[Path, ...]
    qrels_files: tuple[Path, ...]
    instruction_files: tuple[Path, ...] = ()

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Self | None:
        """Return the dataset if one of *folders* has its documents. Raises MissingData if queries or judgements are missing."""
        corpus = next(filter(None, (documents_of(folder, contract) for folder in folders)), None)
        if corpus is None:
            return None
        tables = [
            next(filter(None, (find_tables(folder, kind) for folder in folders)), {}) for kind in ("queries", "judgements")
        ]
        found = cls.of_split(contract, corpus, *tables)
        return replace(found, instruction_files=instructions_of(folders, contract))

    @classmethod
    def of_split(cls, contract: Contract, corpus: tuple[Path, ...], queries: Tables, judgements: Tables) -> Self:
        """Return the dataset with the files of the contract's split. Raises MissingData if there are none."""
        split = contract.source.split.replace("/", ".")
        chosen: dict[Kind, list[Path] | None] = {
            "queries": queries.get(split) or queries.get(""),
            "judgements": judgements.get(split) or judgements.get(""),
        }
        if not chosen["queries"]:  # one table, or a folder of tables, whose names are not those of the splits
            chosen["queries"] = [path for files in queries.values() for path in files if _around(path, "queries")]
        if not chosen["judgements"] or not chosen["queries"]:
            lacking: Kind = "queries" if chosen["judgements"] else "judgements"
            raise _lacking(contract, corpus[0], lacking, sorted(judgements if lacking == "judgements" else queries))
        queries_files, qrels_files = (_one_table(files or [], contract) for files in chosen.values())
        return cls(contract, corpus, queries_files, (*qrels_files, *_added(contract, corpus)))

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:
        """Return where the documents are, or ""."""
        try:
            corpus = next(filter(None, (documents_of(folder, contract) for folder in folders)), None)
        except InvalidFile as error:
            return str(error)
        if corpus is None:
            return ""
        return "built in" if any(root in corpus[0].parents for root in suite_folders()) else f"here: {corpus[0]}"

    @classmethod
    def ways(cls, contract: Contract) -> str:
        """Return which files to put where."""
        return f"put corpus.jsonl, queries.jsonl and qrels/{contract.source.split}.tsv into $LEXBENCH_DATA/{contract.corpus}"

    @cached_property
    def columns(self) -> Mapping[str, Columns]:
        """What the user states about the columns of each table."""
        return stated_columns(self.contract.source.columns)

    def documents(self) -> Iterator[Document]:
        """Yield the documents in the order of the files."""

        def read(path: Path, split: str, stated: Columns) -> Iterator[Document]:
            try:
                yield from records.documents(records.read_records(path, split, stated), self.contract.text.document)
            except MissingColumns as error:
                raise error if str(path) in str(error) else MissingColumns(f"{path}: {error}") from None

        return self._read("documents", self.corpus, read)

    def queries(self) -> Iterator[Query]:
        """Yield the queries in the order of the files."""
        own = dict(chain.from_iterable(map(records.read_instructions, self.instruction_files)))
        found = not own
        for query in self._read("queries", self.queries_files, records.read_queries):
            found = found or query.query_id in own
            yield query._replace(instruction=own.get(query.query_id, query.instruction))
        if not found:
            raise InvalidFile(f"{self.instruction_files[0]}: it has instructions of {next(iter(own))!r}, and of no query here")

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements in the order of the files."""

        def read(path: Path, split: str, stated: Columns) -> Iterator[Judgement]:
            return read_judgements(path, split, stated.renamed, stated.names())

        return self._read("judgements", self.qrels_files, read)

    def _read(self, table: Kind, files: Sequence[Path], read: Callable[[Path, str, Columns], Iterator[Item]]) -> Iterator[Item]:
        """Yield what *read* finds in each of the *files* of a *table*; an error about columns has what all tables lack."""
        try:
            for path in files:
                yield from read(path, self.contract.source.split, self.columns[table])
        except MissingColumns as error:
            raise self._advised(error, table) from None

    def _advised(self, error: MissingColumns, table: Kind) -> InvalidFile:
        """Return an *error* about the columns of a *table* with what all tables lack, and what to type."""
        first: dict[str, Path] = {kind: of_kind[0] for kind, of_kind in self._files.items()}
        samples = {kind: records.sample(path, kind, self.columns[kind]) for kind, path in first.items()}
        names = {kind: path.name for kind, path in first.items()}
        return InvalidFile(f"{error}{advice(table, names, samples, self.columns)}")

    @property
    def _files(self) -> Mapping[Kind, Sequence[Path]]:
        return {"documents": self.corpus, "queries": self.queries_files, "judgements": self.qrels_files}

    def place(self, kind: Kind, record_id: str | None = None) -> str:
        """Return the file and the lines of a record, e.g. "corpus.jsonl:3 and 9"; the id of a judgement is "QUERY DOCUMENT"."""
        files = self._files[kind]
        if record_id is None or (kind == "judgements" and ending(files[0]) in (*COLUMNAR, ".json")):
            return str(files[0])
        for path in files:
            if kind == "judgements":
                pair = {f'"{name}"' for name in record_id.split()}
                every = ((number, {f'"{word}"' for word in re.split(r'[\s,;":]+', line)}) for number, line in text_lines(path))
                found = (str(number) for number, words in every if pair <= words)
            else:
                every_record = records.numbered_records(path, self.contract.source.split, self.columns[kind])
                found = (str(number) for number, record in every_record if record.record_id == record_id)
            with suppress(InvalidFile):  # topics of TREC are no table
                if numbers := list(islice(found, 2)):
                    return f"{path}:{' and '.join(numbers)}"
        return str(files[0])

    def judgement_notes(self) -> list[str]:
        """Return a warning if a folder without a contract has judgements for development or training only."""
        split, files = self.contract.source.split, self.qrels_files
        if self.contract.version or split not in (*NOT_TEST, "train") or _SHARD.search(files[0].name):
            return []
        tables = find_tables(folder_of(files[0]), "judgements")
        if "test" in tables:
            return []
        return [f"scored on {split}" + ("" if "" in tables else ": there are no judgements called test")]

    def summary(self) -> str:
        """Return which files were found, with the columns of tables, and the split. Raises InvalidFile for unknown columns."""
        parts = []
        for kind, files in self._files.items():
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            try:
                names = "" if kind == "judgements" else records.columns(files[0], self.columns[kind])
            except MissingColumns as error:
                raise self._advised(error, kind) from None
            parts.append(f"{kind} {files[0].name}{more}" + (f" ({names})" if names else ""))
        return f"{', '.join(parts)}; split {self.contract.source.split}"

    def identity(self) -> dict[str, Any]:
        """Return the digests of the files of the corpus; with their endings, which decide the format, or names of texts."""
        files = [[name, cached_file_digest(file)] for path in self.corpus for name, file in _parts(path)]
        stated = dict(self.columns["documents"].stated)
        more = {"columns": stated} if stated else {}
        return {"reader": _READER, "files": files, "text": self.contract.text.document, **more}


@dataclass(frozen=True)
class JudgementsAlone(Source):
    """A file of judgements without documents and queries, by which run files are scored."""

    contract: Contract
    file: Path

    def documents(self) -> Iterator[Document]:
        """Raise MissingData: there is nothing to search."""
        raise MissingData(f"{self.file} has judgements, and no documents are beside it; only run files are scored without them")

    def queries(self) -> Iterator[Query]:
        """Yield the judged queries, without texts."""
        yield from (Query(query, "") for query in dict.fromkeys(row.query_id for row in self.judgements()))

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements in the order of the file."""
        return read_judgements(self.file, self.contract.source.split)

    def place(self, kind: Kind, _record_id: str | None = None) -> str:
        """Return the file of judgements, "" for others."""
        return str(self.file) if kind == "judgements" else ""

    def identity(self) -> dict[str, Any]:
        """Return that there are no documents."""
        return {"documents": None}

    def summary(self) -> str:
        """Return the name of the file."""
        return f"judgements {self.file.name}, no documents"


def _parts(path: Path) -> list[tuple[str, Path]]:
    """Return a file of documents with its endings, or the text files of a folder with their names, which are ids."""
    if path.is_dir():
        return [(str(file.relative_to(path)), file) for file in text_files(path)]
    return [("".join(path.suffixes), path)]


def instructions_of(folders: Sequence[Path], contract: Contract) -> tuple[Path, ...]:
    """Return the files with the instructions of queries in the first of *folders* that has some, of the contract's split."""
    tables = next(filter(None, (find_tables(folder, "instructions") for folder in folders)), {})
    split = contract.source.split.replace("/", ".")
    return _one_table(tables.get(split) or tables.get("") or [path for files in tables.values() for path in files], contract)


def documents_of(folder: Path, contract: Contract) -> tuple[Path, ...] | None:
    """Return the files of documents in *folder*: all files of a folder, or one. Raises InvalidFile if there are two."""
    files = [path for paths in find_tables(folder, "documents").values() for path in paths]
    inside = all(path.parent != folder for path in files)
    return (tuple(files) if inside else _one_table(files, contract)) if files else None


def _folder_of_documents(corpus: Path) -> Path:
    """Return the folder of the dataset that a file of documents belongs to."""
    return _around(corpus, "documents") or corpus.parent


def _added(contract: Contract, corpus: Sequence[Path]) -> list[Path]:
    """Return the file of further judgements that the contract names, if any. Raises MissingData if it is not there."""
    if not contract.source.added:
        return []
    path = _folder_of_documents(corpus[0]) / contract.source.added
    if not path.is_file():
        raise missing(contract, f"there is {corpus[0]}, and no {contract.source.added} beside it")
    return [path]


def _lacking(contract: Contract, corpus: Path, kind: Kind, splits: Sequence[str]) -> MissingData:
    """Return the error for a folder that has the file *corpus*, and no queries or judgements for the contract."""
    folder = _folder_of_documents(corpus)
    if splits:
        why = f"{folder} has no {kind} of the split {contract.source.split!r}; there is: {', '.join(splits)}"
        error = MissingData(f"{why}; choose one: --split {splits[0]}")
        meant = next(iter(nearest(contract.source.split, splits, 1)), splits[0])
        return missing(contract, why) if contract.version else with_meaning(error, contract.source.split, meant)
    if contract.version:
        return missing(contract, f"there is {corpus}, and no {kind} beside it")
    name = "queries.jsonl" if kind == "queries" else f"qrels/{contract.source.split}.tsv"
    make = f"make some: lexbench collect {quote(str(folder))}"
    return MissingData(f"{folder} has {corpus.name} and no {kind}; put {name} into {folder}, or {make}")
