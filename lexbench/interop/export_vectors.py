"""The stored vectors of a sparse system, as its engine gets them, in other tools' formats; queries are encoded for it."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lexbench.datasets.contracts import contract_of
from lexbench.datasets.dataset import open_dataset
from lexbench.errors import CannotStart, LexbenchError
from lexbench.progress import Progress, Silent
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.jobs import Kept
from lexbench.runner.stages import Workbench
from lexbench.runner.systems import system
from lexbench.storage.store import Store
from lexbench.types import Kind
from lexbench.vector_formats import FORMATS
from lexbench.vector_formats.blocks import Block, Vocabulary

_ENDS = {"anserini": ".jsonl", "anserini-topics": ".tsv", "bigann": ".csr", "ciff": ".ciff", "seismic": ".jsonl"}
VECTORS = ("anserini", "bigann", "ciff", "seismic")
_QUERIES = {"anserini": "anserini-topics", "ciff": "anserini-topics"}  # where those of queries are another format


def write_vectors(layout: str, kept: Kept, store: Store, path: Path, progress: Progress | None = None) -> Iterator[Path]:
    """Write the documents and the queries of a result's system into files whose names begin with *path*, yielding each.

    CannotStart where it has no sparse vectors; CommandError where the format cannot hold them.
    """
    retriever = system(kept.result.system).retriever
    if not isinstance(retriever, Encoded) or retriever.engine.kind is not Kind.SPARSE:
        raise CannotStart(f"{kept.result.system} has no sparse vectors to write as {layout}; name systems that have, by -r")
    bench = Workbench(open_dataset(contract_of(kept.result.dataset)), store, progress or Silent())
    queries = list(bench.dataset.queries)
    vectors = retriever.encode_queries(queries)
    vocabulary = Vocabulary(_tokens(retriever, vectors.shape[1]))
    parts = (
        (layout, "documents", _documents(retriever, bench)),
        (_QUERIES.get(layout, layout), "queries", iter([Block([query.query_id for query in queries], vectors)])),
    )
    for form, what, blocks in parts:
        target = path.with_name(f"{path.name}.{what}{_ENDS[form]}")
        FORMATS[form].write(blocks, target, vocabulary)
        yield target


def _tokens(retriever: Encoded, width: int) -> list[str]:
    if not hasattr(retriever.encoder, "token"):
        raise LexbenchError(f"{type(retriever.encoder).__name__} does not say what its terms are; it needs token(term)")
    return [retriever.encoder.token(term) for term in range(width)]


def _documents(retriever: Encoded, bench: Workbench) -> Iterator[Block]:
    at = 0
    for shard in retriever.documents(bench.encodings(retriever.encoder), Counter()):
        yield Block([one.decode() for one in bench.corpus.doc_ids[at : at + shard.shape[0]]], shard)
        at += shard.shape[0]
