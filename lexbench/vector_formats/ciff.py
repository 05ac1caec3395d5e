"""Vectors as an inverted index in the Common Index File Format, which PISA, BMP, Lucene, Terrier and JASS import.

The file has protobuf messages, each after its length: a Header; a PostingsList per term, in the order of the terms' bytes, with
gaps between document numbers and the weights as `tf`; a DocRecord per document, with the sum of its weights as length.

https://github.com/osirrc/ciff (Lin et al., "Supporting Interoperability Between Open-Source Search Engines with the Common
Index File Format", SIGIR 2020). Weights must be integers. Tokens that no document has are lost. The format is only written:
lexbench reads documents in the formats of Anserini and Seismic. Needs the extra `ciff`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.errors import CommandError, MissingExtra
from lexbench.storage.atomic import writer
from lexbench.vector_formats.blocks import Block, Vocabulary, checked

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


def classes() -> list[Any]:
    """Return the classes of the messages, in the order above. Raises MissingExtra if protobuf is not installed."""
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
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ciff.{name}")) for name in _MESSAGES]


def write(blocks: Iterable[Block], path: Path, vocabulary: Vocabulary) -> None:
    """Write the documents of *blocks*, compressed if *path* ends in `.gz`. All postings are in memory meanwhile.

    Raises CommandError for weights that are no integers, or for a document whose weights add up to 2^31 or more.
    """
    posting, postings_list, doc_record, header = classes()
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
    documents, total = len(lengths), int(lengths.sum())
    with writer(path) as file:
        first = header(
            version=_VERSION, num_postings_lists=len(used), num_docs=documents, total_postings_lists=len(used),
            total_docs=documents, total_terms_in_collection=total, average_doclength=total / documents if documents else 0,
            description=_DESCRIPTION,
        )  # fmt: skip
        _append(file, first)
        for token, term in used:
            column = matrix[:, [term]]
            gaps, weights = np.diff(column.indices, prepend=0).tolist(), column.data.tolist()
            postings = [posting(docid=gap, tf=weight) for gap, weight in zip(gaps, weights, strict=True)]
            _append(file, postings_list(term=token.decode(), df=column.nnz, cf=sum(weights), postings=postings))
        for number, (text_id, length) in enumerate(zip(ids, lengths.tolist(), strict=True)):
            _append(file, doc_record(docid=number, collection_docid=text_id, doclength=length))


def _append(file: BinaryIO, message: Any) -> None:
    from google.protobuf import proto

    proto.serialize_length_prefixed(message, file)
