"""Vectors in Seismic's format: one JSON object per line, for documents and queries.

    {"id": "d1", "content": "", "vector": {"token": 1.25, ...}}

https://github.com/TusKANNy/seismic. Weights read back to the same float32. The text is written empty and ignored in reading. An
id that is a number is read as the string of its digits. A repeated id is yielded twice.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from lexbench.storage.atomic import writer
from lexbench.vector_formats.blocks import Block, Vocabulary, blocks_of_rows, json_rows, token_vectors


def read(path: Path, vocabulary: Vocabulary | None = None) -> Iterator[Block]:
    """Yield the vectors of a file, in its order; *vocabulary* numbers the tokens and may grow.

    Raises InvalidFile with the number of a faulty line.
    """
    known = Vocabulary() if vocabulary is None else vocabulary
    return blocks_of_rows(path, json_rows(path), known, whole=False)


def write(blocks: Iterable[Block], path: Path, vocabulary: Vocabulary) -> None:
    """Write the vectors of *blocks*, one per line. Raises CommandError for weights that are no finite numbers."""
    encode = msgspec.json.Encoder().encode
    with writer(path) as file:
        for text_id, tokens, weights in token_vectors(blocks, vocabulary):
            vector = dict(zip(tokens, weights, strict=True))
            file.write(encode({"id": text_id, "content": "", "vector": vector}) + b"\n")
