"""Vectors as Seismic reads them: one JSON object a line, documents and queries alike.

    {"id": "d1", "content": "", "vector": {"token": 1.25, ...}}

https://github.com/TusKANNy/seismic. Weights are written so that they read back to the same float32; the text of a document,
which lexbench does not have at this point, is written empty and passed over in reading. An id that was a number comes back as
the string of its digits. Ids are not compared: a file that has one twice gives it twice.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from lexbench.storage.atomic import writer
from lexbench.vector_formats.blocks import Block, Vocabulary, blocks_of_rows, json_rows, token_vectors


def read(path: Path, vocabulary: Vocabulary | None = None) -> Iterator[Block]:
    """Yield the vectors of a file, in its order; *vocabulary* numbers the tokens, and may be one that grows.

    InvalidFile names the line that does not read.
    """
    known = Vocabulary() if vocabulary is None else vocabulary
    return blocks_of_rows(path, json_rows(path), known, whole=False)


def write(blocks: Iterable[Block], path: Path, vocabulary: Vocabulary) -> None:
    """Write the vectors of *blocks*, one a line; CommandError for weights that are no numbers."""
    encode = msgspec.json.Encoder().encode
    with writer(path) as file:
        for text_id, tokens, weights in token_vectors(blocks, vocabulary):
            vector = dict(zip(tokens, weights, strict=True))
            file.write(encode({"id": text_id, "content": "", "vector": vector}) + b"\n")
