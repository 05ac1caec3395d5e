"""A trial before a long encoding: which dtype would be faster here, and how far its vectors differ, on a few documents."""

from collections.abc import Sequence
from datetime import timedelta
from time import perf_counter
from typing import Any

import numpy as np

from lexbench.arrays.vectors import unit_length
from lexbench.datasets.corpus import StoredCorpus
from lexbench.encodings.encoding import documents_at
from lexbench.plugins import Encoder
from lexbench.types import Document, MultiVectors

_SAMPLE = 32  # documents
_LEAST = 1000  # documents, below which no trial is worth its time
_LONG = 120.0  # seconds, above which an encoding is long
_FASTER = 0.8  # of the time: less gain is not worth another index


def faster_dtypes(encoder: Encoder, corpus: StoredCorpus, shards: Sequence[range]) -> str:
    """Return a note on the dtypes in which *encoder* would be faster on *shards*, with their times and differences here.

    It encodes a sample of the documents in each. "" if the encoding is short, or no other dtype is faster.
    """
    count = sum(map(len, shards))
    others = encoder.other_dtypes() if count >= _LEAST else {}
    if not others:
        return ""
    positions = [at for shard in shards for at in shard]
    documents = [documents_at(corpus, range(at, at + 1))[0] for at in positions[:: count // _SAMPLE]]
    seconds, vectors = _encoded(encoder, documents)
    whole = seconds / len(documents) * count
    found = []
    for dtype, other in others.items() if whole > _LONG else ():
        taken, changed = _encoded(other, documents)
        if taken < _FASTER * seconds:
            found.append(f'dtype="{dtype}" takes {taken / seconds:.2f} of the time, {_agreement(vectors, changed)}')
    tried = f"tried on {len(documents)} documents, this encoding takes about {timedelta(seconds=round(whole))}"
    return f"{tried}; {'; '.join(found)}" if found else ""


def _encoded(encoder: Encoder, documents: Sequence[Document]) -> tuple[float, Any]:
    """Return the seconds of the faster of two rounds, without loading the model, and the vectors of *documents*."""
    encoder.encode_tokens(encoder.tokenise_documents(documents[:1]), lambda _count: None)
    seconds = []
    for _ in range(2):
        begin = perf_counter()
        vectors = encoder.encode_tokens(encoder.tokenise_documents(documents), lambda _count: None)
        seconds.append(perf_counter() - begin)
    return min(seconds), vectors


def _agreement(vectors: Any, changed: Any) -> str:
    """Return how far the vectors of the same documents agree: their cosine, and which document is nearest to each."""
    one, other = (unit_length(each.values if isinstance(each, MultiVectors) else each) for each in (vectors, changed))
    cosines = np.asarray((one * other).sum(axis=1)).ravel()
    line = f"with a cosine of {cosines.mean():.4f} to these vectors (at least {cosines.min():.4f})"
    if isinstance(vectors, MultiVectors):
        return line
    first, second = (_nearest(each) for each in (one, other))
    return f"{line}, and the same nearest neighbour for {(first == second).sum()} of {len(first)} documents"


def _nearest(vectors: Any) -> Any:
    products = vectors @ vectors.T
    dense = np.array(products.todense() if hasattr(products, "todense") else products)
    np.fill_diagonal(dense, -np.inf)
    return dense.argmax(axis=1)
