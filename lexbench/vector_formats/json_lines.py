r"""Vectors with one text per line: in the format of Seismic, and in that of Anserini and Pyserini, whose queries are topics.

    {"id": "d1", "content": "", "vector": {"token": 1.25, ...}}    Seismic: documents and queries
    {"id": "d1", "contents": "", "vector": {"token": 3, ...}}      Anserini: a JsonVectorCollection, of documents
    q1<TAB>token token token other other                           its topics: each token as often as its weight

https://github.com/castorini/anserini: weights must be integers. Anserini splits tokens of more than 255 characters (its issue
1843) or with white space, so such tokens are refused. Queries without terms are refused because Anserini stops at them.
https://github.com/TusKANNy/seismic: weights read back to the same float32. An id that is a number is read as the string of its
digits, texts are ignored, and a repeated id is yielded twice.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from lexbench.errors import CommandError, InvalidFile
from lexbench.storage.atomic import writer
from lexbench.storage.reading import lines
from lexbench.vector_formats.blocks import VectorBlock, VectorRow, Vocabulary, blocks_of_rows, json_rows, token_vectors

_LONGEST = 255  # characters of a token, as Java counts them
_SUFFIXES = (".json", ".jsonl", ".gz")


def read_anserini(path: Path, vocabulary: Vocabulary) -> Iterator[VectorBlock]:
    """Yield the document vectors of a file, or of the `.json`, `.jsonl` and `.gz` files in a folder and below, by name.

    *vocabulary* numbers the tokens and may grow. Raises InvalidFile with the file and number of a faulty line.
    """
    files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES) if path.is_dir() else [path]
    if not files:
        raise InvalidFile(f"{path}: no file in this folder ends in {', '.join(_SUFFIXES)}")
    for file in files:
        yield from blocks_of_rows(file, json_rows(file), vocabulary, whole=True)


def write_anserini(blocks: Iterable[VectorBlock], path: Path, vocabulary: Vocabulary) -> None:
    """Write the documents of *blocks*. Raises CommandError for weights that are no integers, or tokens that Anserini splits."""
    checked: set[str] = set()
    with writer(path) as file:
        for text_id, vector in token_vectors(blocks, vocabulary, "Anserini"):
            _refuse_split(vector, checked)
            file.write(msgspec.json.encode({"id": text_id, "contents": "", "vector": vector}) + b"\n")


def read_seismic(path: Path, vocabulary: Vocabulary) -> Iterator[VectorBlock]:
    """Yield the vectors of a file of Seismic, with *vocabulary* and errors as in `read_anserini`."""
    return blocks_of_rows(path, json_rows(path), vocabulary, whole=False)


def write_seismic(blocks: Iterable[VectorBlock], path: Path, vocabulary: Vocabulary) -> None:
    """Write the vectors of *blocks*, one per line. Raises CommandError for weights that are no finite numbers."""
    with writer(path) as file:
        for text_id, vector in token_vectors(blocks, vocabulary):
            file.write(msgspec.json.encode({"id": text_id, "content": "", "vector": vector}) + b"\n")


def read_topics(path: Path, vocabulary: Vocabulary) -> Iterator[VectorBlock]:
    """Yield the query vectors of a file of topics, with *vocabulary* and errors as in `read_anserini`."""
    return blocks_of_rows(path, _topics(path), vocabulary, whole=True)


def _topics(path: Path) -> Iterator[VectorRow]:
    for number, line in lines(path):
        query_id, tab, text = line.partition(b"\t")
        if not line.strip():
            continue
        try:
            if not tab or not query_id.strip():
                other = '; for JSON, type format="seismic"' if line.startswith(b"{") else ""
                raise ValueError(f"a query is an id, a tab and tokens{other}")  # noqa: TRY301 - both get the line number
            yield VectorRow(number, query_id.decode().strip(), Counter(text.decode().split()))
        except ValueError as error:  # includes UnicodeDecodeError
            raise InvalidFile(f"{path}:{number}: {error}") from None


def write_topics(blocks: Iterable[VectorBlock], path: Path, vocabulary: Vocabulary) -> None:
    """Write the query vectors of *blocks* as topics.

    Raises CommandError like `write_anserini`, and for an id with white space or a query without terms.
    """
    checked: set[str] = set()
    with writer(path) as file:
        for query_id, vector in token_vectors(blocks, vocabulary, "Anserini"):
            if query_id.split() != [query_id]:
                raise CommandError(f"query id {query_id!r} cannot be written: it is empty or has white space in it")
            if not vector:
                raise CommandError(
                    f"query {query_id!r} has no terms, and Anserini stops at such a query; leave it out, or give it a term, "
                    "e.g. by quantize(empty=100)"
                )
            _refuse_split(vector, checked)
            text = " ".join(" ".join([token] * weight) for token, weight in vector.items())
            file.write(f"{query_id}\t{text}\n".encode())


def _refuse_split(tokens: Iterable[str], checked: set[str]) -> None:
    """Raise CommandError for the first of *tokens* that Anserini would split; add the others to *checked*."""
    for token in () if checked.issuperset(tokens) else tokens:
        if token.split() != [token] or len(token.encode("utf-16-le")) > 2 * _LONGEST:
            shown = f"{token[:40]!r}{'...' if len(token) > 40 else ''}"  # noqa: PLR2004 - as much as fits into a line
            raise CommandError(
                f"token {shown} cannot be written for Anserini: it is empty, has white space or over {_LONGEST} characters"
            )
        checked.add(token)


class JsonLinesFormat(NamedTuple):
    """A file format."""

    read: Callable[[Path, Vocabulary], Iterator[VectorBlock]]
    write: Callable[[Iterable[VectorBlock], Path, Vocabulary], None]  # whole or not at all
    suffix: str
    queries: str  # the format of queries that goes with documents in this one; "" for a format of queries only


FORMATS: Mapping[str, JsonLinesFormat] = {
    "anserini": JsonLinesFormat(read_anserini, write_anserini, ".jsonl", queries="anserini-topics"),
    "anserini-topics": JsonLinesFormat(read_topics, write_topics, ".tsv", queries=""),
    "seismic": JsonLinesFormat(read_seismic, write_seismic, ".jsonl", queries="seismic"),
}
