"""A run on made-up documents, so that numba compiles what systems need: `python -m lexbench.runner.warm_up SYSTEM ...`.

Vectors are made up, too: no model is loaded. `lexbench.runner.precompilation` starts it.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from scipy import sparse

from lexbench.errors import LexbenchError
from lexbench.plugins import AnyRetriever, EncodesVectors, Facts, ReadsRuns
from lexbench.runner import jobs, systems
from lexbench.runner.plan import plan_dataset
from lexbench.storage.children import end_with_parent
from lexbench.storage.environment import packages_of
from lexbench.storage.store import Store
from lexbench.types import Kind, MultiVectors

_DOCUMENTS, _WORDS, _LENGTH = 400, 300, 12
_DEPTH = 10


@dataclass(frozen=True)
class MadeUp:
    """An encoder of vectors that mean nothing."""

    kind: Kind

    def encode_document(self, texts: Sequence[str]) -> Any:
        """Return a vector a text, the same for the same number of texts."""
        generator = np.random.default_rng(len(texts))
        dense = generator.random((len(texts), 1 << 6), np.float32)
        if self.kind is Kind.SPARSE:
            return sparse.csr_array(np.where(dense < 1 / 2, 0, dense))
        return dense if self.kind is Kind.DENSE else MultiVectors(dense, np.arange(len(texts) + 1))

    encode_query = encode_document


def warm_up(texts: Sequence[str]) -> None:
    """Index and search made-up documents with the parts of the systems *texts* that have loops of ours."""
    with TemporaryDirectory() as folder:
        collection, store = Path(folder) / "made-up", Store(Path(folder) / "store")
        _write(collection)
        parts = list(made_up_parts(texts))
        for part in sorted(parts, key=lambda part: isinstance(part, EncodesVectors), reverse=True):  # encoders call loops, too
            list(jobs.run(plan_dataset(str(collection), {"part": part}, ["nDCG@10"], _DEPTH), store))


def made_up_parts(texts: Sequence[str]) -> Iterator[AnyRetriever]:
    """Yield the retrievers that systems are made of, with vectors that are made up; one of each kind."""
    seen = set()
    for leaf in chain.from_iterable(map(_leaves, texts)):
        part, plugins = leaf, (leaf,)
        if isinstance(leaf, EncodesVectors):
            part = replace(leaf, encoder=MadeUp(leaf.engine.kind))  # type: ignore[type-var] # a dataclass
            plugins = (leaf.engine, *leaf.transforms)
        kinds = tuple(map(type, plugins))
        if kinds not in seen and not isinstance(leaf, ReadsRuns) and not packages_of(plugins) and not _is_remote(plugins):
            seen.add(kinds)
            yield part


def _is_remote(plugin: Any) -> bool:
    """Whether a plug-in, or a part of it, may send what it is given to a server (`plugins.Facts.remote`)."""
    if isinstance(plugin, tuple | list):
        return any(map(_is_remote, plugin))
    parts = [getattr(plugin, item.name) for item in fields(plugin)] if is_dataclass(plugin) else []
    return Facts.of(plugin).remote or any(map(_is_remote, parts))


def _leaves(text: str) -> list[AnyRetriever]:
    """Return the retrievers that a system is made of; none of one that cannot be run, which the run itself will say."""
    try:
        return list(systems.leaves(systems.system(text).retriever))
    except LexbenchError:
        return []


def _write(path: Path) -> None:
    """Write a collection in BEIR's layout."""
    generator = np.random.default_rng(0)
    (path / "qrels").mkdir(parents=True)
    drawn = generator.integers(0, _WORDS, (_DOCUMENTS, _LENGTH)).tolist()
    documents = [{"_id": f"d{number}", "text": " ".join(f"word{word}" for word in words)} for number, words in enumerate(drawn)]
    (path / "corpus.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in documents))
    (path / "queries.jsonl").write_bytes(b'{"_id": "q", "text": "word1 word2"}\n')
    (path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td1\t1\n", encoding="utf-8")


if __name__ == "__main__":
    end_with_parent()
    warm_up(sys.argv[1:])
