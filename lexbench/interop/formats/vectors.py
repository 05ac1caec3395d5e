"""Vectors of a sparse system, as its engine gets them: documents from the store, and queries, which are encoded now."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lexbench.errors import CannotStart, LexbenchError
from lexbench.interop.formats import Format, Target

if TYPE_CHECKING:
    from lexbench.datasets.corpus import StoredCorpus
    from lexbench.encodings.shards import Encodings
    from lexbench.results import Entry
    from lexbench.retrievers.encoded import Encoded
    from lexbench.vector_formats.blocks import VectorBlock


def _write(layout: str, results: "Sequence[Entry]", target: Target) -> Iterator[Path]:
    """Write the documents and the queries of a result's system into one file each.

    Raises CannotStart if the system has no sparse vectors, CommandError if the format cannot hold them.
    """
    from lexbench.artifacts.graph import Graph
    from lexbench.artifacts.vectors import CorpusVectors
    from lexbench.datasets.dataset import open_dataset
    from lexbench.datasets.location import find_again
    from lexbench.retrievers.encoded import Encoded
    from lexbench.runner.search import data_of
    from lexbench.runner.systems import system
    from lexbench.types import Kind
    from lexbench.vector_formats.blocks import VectorBlock, Vocabulary
    from lexbench.vector_formats.json_lines import FORMATS

    result = results[0].result
    retriever = system(result.system).for_dataset(result.dataset).retriever
    if not isinstance(retriever, Encoded) or retriever.engine.kind is not Kind.SPARSE:
        raise CannotStart(f"{result.system} has no sparse vectors to write as {layout}; select other systems with -r")
    data = data_of(open_dataset(*find_again(result.dataset, target.store.place(result.digests))))
    graph = Graph(target.store)  # of a result that the store has kept, so nothing goes with this process
    corpus, stored = graph.open(data.corpus), graph.open(CorpusVectors(data.corpus, retriever.encoder))
    queries = list(data.dataset.queries)
    vectors = retriever.with_stored_collection(stored.path).encode_queries(queries)
    if not retriever.encoder.names_terms:
        raise LexbenchError(f"{type(retriever.encoder).__name__} does not name its terms; it needs names_terms and token(term)")
    vocabulary = Vocabulary([retriever.encoder.token(term) for term in range(vectors.shape[1])])
    files = (
        ("documents", layout, _documents(retriever, stored, corpus)),
        ("queries", FORMATS[layout].queries, iter([VectorBlock([query.query_id for query in queries], vectors)])),
    )
    for what, form, blocks in files:
        path = target.path.with_name(f"{target.path.name}.{what}{FORMATS[form].suffix}")
        FORMATS[form].write(blocks, path, vocabulary)
        yield path


def _documents(retriever: "Encoded", stored: "Encodings", corpus: "StoredCorpus") -> "Iterator[VectorBlock]":
    from lexbench.vector_formats.blocks import VectorBlock

    start = 0
    for shard in map(retriever.as_documents, stored.shards()):
        stop = start + shard.shape[0]
        yield VectorBlock([doc_id.decode() for doc_id in corpus.doc_ids[start:stop]], shard)
        start = stop


_LOST = "everything but the vectors"
EXPORTS = tuple(
    Format(name, f"vectors of a sparse system: {content}", _LOST, partial(_write, name))
    for name, content in (("anserini", "a JsonVectorCollection, its topics as TSV"), ("seismic", "JSON lines"))
)
