"""Vectors as an inverted index in the Common Index File Format, which PISA, BMP, Lucene, Terrier and JASS import.

The file has protobuf messages, each after its length: a Header; a PostingsList per term, in the order of the terms' bytes, with
gaps between document numbers and the weights as `tf`; a DocRecord per document, with the sum of its weights as length.

https://github.com/osirrc/ciff (Lin et al., "Supporting Interoperability Between Open-Source Search Engines with the Common
Index File Format", SIGIR 2020). Weights must be integers. Tokens that no document has are lost. Needs the extra `ciff`.
"""

import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.errors import CommandError, InvalidFile, MissingExtra
from lexbench.storage.atomic import writer
from lexbench.storage.reading import open_file
from lexbench.vector_formats.blocks import ROWS, Block, Vocabulary, block_of, checked

_VERSION = 1
_DESCRIPTION = "impacts of sparse vectors, written by lexbench"
_LENGTH_LIMIT = 2**31
_INT32, _INT64, _DOUBLE, _STRING, _POSTINGS = 5, 3, 1, 9, 11  # FieldDescriptorProto.Type
_MESSAGES = {  # message: its fields in the order of their numbers, from 1
    "Posting": {"docid": _INT32, "tf": _INT32},
    "PostingsList": {"term": _STRING, "df": _INT64, "cf": _INT64, "postings": _POSTINGS},
    "DocRecord": {"docid": _INT32, "collection_docid": _STRING, "doclength": _INT32},
    "Header": {
        "version": _INT32, "num_postings_lists": _INT32, "num_docs": _INT32, "total_postings_lists": _INT32,
        "total_docs": _INT32, "total_terms_in_collection": _INT64, "average_doclength": _DOUBLE, "description": _STRING,
    },
}  # fmt: skip


class _Ciff(NamedTuple):
    """The classes of the messages."""

    posting: Any
    postings_list: Any
    doc_record: Any
    header: Any


@cache
def _classes() -> _Ciff:
    """Return the message classes of CIFF's .proto file. Raises MissingExtra if protobuf is not installed."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise MissingExtra("the format ciff", "protobuf", "ciff") from None
    file = descriptor_pb2.FileDescriptorProto(name="ciff.proto", package="ciff", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            repeated = {"label": 3, "type_name": ".ciff.Posting"} if kind == _POSTINGS else {"label": 1}
            message.field.add(name=field, number=number, type=kind, **repeated)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return _Ciff(*(message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ciff.{name}")) for name in _MESSAGES))


class _Reader:
    """Reads the messages of a file in order. *opened* is its uncompressed content."""

    def __init__(self, path: Path, opened: BinaryIO) -> None:
        self.path, self.opened = path, opened

    def wrong(self, what: str) -> InvalidFile:
        """Return the error *what* with the name of the file."""
        return InvalidFile(f"{self.path}: {what}")

    def next(self, kind: Any, what: str) -> Any:
        """Return the next message of the class *kind*. Raises InvalidFile, naming *what*, if it is cut off or malformed."""
        from google.protobuf import message, proto

        try:
            read = proto.parse_length_prefixed(kind, self.opened)
        except (message.DecodeError, OSError, EOFError, ValueError, zlib.error) as error:
            raise self.wrong(f"{what} cannot be read: {error}") from None
        if read is None:
            raise self.wrong(f"{what} is missing: the file is cut off")
        return read


def read(path: Path, vocabulary: Vocabulary | None = None) -> Iterator[Block]:
    """Yield the documents of a file, in the order of its DocRecords. All postings are in memory, 16 bytes each.

    *vocabulary* numbers the tokens and may grow. Raises InvalidFile if the file is malformed or contradicts itself.
    """
    known = Vocabulary() if vocabulary is None else vocabulary
    kinds = _classes()
    try:
        opened = open_file(path)
    except OSError as error:
        raise InvalidFile(f"{path}: {error.strerror}") from None
    with opened:
        file = _Reader(path, opened)
        header = file.next(kinds.header, "the header")
        if header.version != _VERSION:
            raise file.wrong(f"no CIFF header of version {_VERSION}")
        lists = [_postings(file, kinds, f"list {number:,}") for number in range(1, header.num_postings_lists + 1)]
        records = [file.next(kinds.doc_record, f"document {number:,}") for number in range(1, header.num_docs + 1)]
        if opened.read(1):
            raise file.wrong("there are bytes after the last document")
    terms = _term_ids(file, [token for token, _, _ in lists], known)
    numbers = np.array([record.docid for record in records], np.int64)
    order = np.argsort(numbers, kind="stable")
    if len(np.unique(numbers)) < len(numbers):
        raise file.wrong("two documents have one number")
    docs = np.concatenate([np.zeros(0, np.int64), *(docs for _, docs, _ in lists)])
    if not np.isin(docs, numbers).all():
        raise file.wrong(f"document {docs[np.argmin(np.isin(docs, numbers))]} is in a list and has no DocRecord")
    rows = order[np.searchsorted(numbers[order], docs)]
    columns = np.repeat(terms, [len(docs) for _, docs, _ in lists])
    weights = np.concatenate([np.zeros(0, np.float32), *(weights for _, _, weights in lists)])
    matrix = scipy.sparse.csr_array((weights, (rows, columns)), shape=(len(records), len(known)))
    matrix.sort_indices()
    for first in range(0, len(records), ROWS):
        part = matrix[first : first + ROWS]
        ids = [record.collection_docid for record in records[first : first + ROWS]]
        yield block_of(ids, part.data, part.indices, part.indptr, len(known))


def _postings(file: _Reader, kinds: _Ciff, what: str) -> tuple[str, NDArray[np.int64], NDArray[np.float32]]:
    """Return the term of the next list, and its document numbers and weights. Raises InvalidFile if they contradict it."""
    read = file.next(kinds.postings_list, what)
    gaps, weights = (np.array([getattr(item, name) for item in read.postings], np.int64) for name in ("docid", "tf"))
    if (gaps[:1] < 0).any() or (gaps[1:] < 1).any() or (weights < 1).any():
        raise file.wrong(f"the list of {read.term!r}: document numbers must ascend, and weights must be at least 1")
    if (read.df, read.cf) != (len(gaps), weights.sum()):
        found = f"df {read.df:,} and cf {read.cf:,}, not {len(gaps):,} and {weights.sum():,}"
        raise file.wrong(f"the list of {read.term!r} says {found}")
    narrow = weights.astype(np.float32)
    if not np.array_equal(narrow, weights):
        raise file.wrong(f"the list of {read.term!r} has a weight that float32 cannot hold")
    return read.term, np.cumsum(gaps), narrow


def _term_ids(file: _Reader, tokens: list[str], vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Return the term id of each list (lists,)."""
    if len(set(tokens)) < len(tokens):
        raise file.wrong("two lists have one term")
    try:
        return np.array(vocabulary.numbers(tokens), np.int64)
    except CommandError as error:
        raise file.wrong(str(error)) from None


def write(blocks: Iterable[Block], path: Path, vocabulary: Vocabulary) -> None:
    """Write the documents of *blocks*, compressed if *path* ends in `.gz`. All postings are in memory meanwhile.

    Raises CommandError for weights that are no integers, or for a document whose weights add up to 2^31 or more.
    """
    kinds = _classes()
    ids: list[str] = []
    parts = [scipy.sparse.csr_array((0, len(vocabulary)), dtype=np.int64)]
    for block in checked(blocks, vocabulary, "CIFF"):
        ids += block.ids
        arrays = (block.vectors.data.astype(np.int64), block.vectors.indices, block.vectors.indptr)
        parts.append(scipy.sparse.csr_array(arrays, shape=(len(block.ids), len(vocabulary))))
    matrix = scipy.sparse.vstack(parts, format="csc")
    lengths: NDArray[np.int64] = matrix.sum(axis=1)
    if (lengths >= _LENGTH_LIMIT).any():
        longest = f"{ids[int(np.argmax(lengths))]!r} add up to {lengths.max():,}"
        raise CommandError(f"the weights of {longest}; CIFF holds up to 2^31 - 1")
    tokens = vocabulary.tokens
    used = sorted((tokens[term].encode(), term) for term in np.flatnonzero(np.diff(matrix.indptr)).tolist())
    with writer(path) as file:
        _append(file, _header(kinds, len(used), lengths))
        for token, term in used:
            _append(file, _postings_list(kinds, token.decode(), matrix[:, [term]]))
        for number, (text_id, length) in enumerate(zip(ids, lengths.tolist(), strict=True)):
            _append(file, kinds.doc_record(docid=number, collection_docid=text_id, doclength=length))


def _header(kinds: _Ciff, lists: int, lengths: NDArray[np.int64]) -> Any:
    documents, total = len(lengths), int(lengths.sum())
    return kinds.header(
        version=_VERSION, num_postings_lists=lists, num_docs=documents, total_postings_lists=lists, total_docs=documents,
        total_terms_in_collection=total, average_doclength=total / documents if documents else 0, description=_DESCRIPTION,
    )  # fmt: skip


def _postings_list(kinds: _Ciff, term: str, column: "scipy.sparse.csc_array") -> Any:
    """Return the list of one term from its *column* (documents, 1) of the matrix."""
    gaps = np.diff(column.indices, prepend=0).tolist()
    message = kinds.postings_list(term=term, df=column.nnz, cf=int(column.data.sum()))
    message.postings.extend(kinds.posting(docid=gap, tf=weight) for gap, weight in zip(gaps, column.data.tolist(), strict=True))
    return message


def _append(file: BinaryIO, message: Any) -> None:
    from google.protobuf import proto

    proto.serialize_length_prefixed(message, file)
