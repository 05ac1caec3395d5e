"""Search embeddings of lsr-benchmark without a dataset, for `lexbench retrieve`.

    EMBEDDINGS/doc, EMBEDDINGS/query     read by `lexbench.vector_formats.lsr_benchmark`
    OUTPUT/run.txt.gz                    the TREC run
    OUTPUT/index-metadata.yml            time and machine of building, in the fields of ir_metadata 0.2
    OUTPUT/retrieval-metadata.yml        the same for searching

These are input and output of a retrieval step of lsr-benchmark in TIRA's sandbox (https://github.com/reneuir/lsr-benchmark,
`step-03-retrieval-approaches`). Its `evaluate` reads the three files. All vectors are in memory at once.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from scipy import sparse

from lexbench.errors import CommandError
from lexbench.notation import parse, write_value
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.systems import resolve
from lexbench.storage import atomic
from lexbench.storage.environment import facts, packages_of, versions
from lexbench.trec.ids import encode
from lexbench.trec.runs import Run, write_run
from lexbench.types import CollectionStatistics
from lexbench.vector_formats import FORMATS

LAYOUT = "lsr-benchmark"
RUN, INDEX, RETRIEVAL = "run.txt.gz", "index-metadata.yml", "retrieval-metadata.yml"


def retrieve(embeddings: Path, output: Path, searched_by: str, k: int, named: dict[str, str]) -> Iterator[Path]:
    """Search the queries of *embeddings* among its documents, *k* documents per query; yield the files written to *output*.

    *searched_by* is the part of an expression after the encoder, e.g. "impact" or "top_k(64)|quantize(100)@impact". *named* may
    have "team", "tag", "dataset" and "embedding" for the metadata. Raises CommandError for an engine of other vectors or a *k*
    below 1, and InvalidFile for malformed embeddings.
    """
    if k < 1:
        raise CommandError(f"k is {k}: give the number of documents of a list, from 1")
    system = _system(embeddings, searched_by)
    documents, vectors = _read(embeddings / "doc")
    asked, queries = _read(embeddings / "query")
    order = np.argsort(encode(documents), kind="stable")[::-1]  # position 0 is the largest id, see `lexbench.types`
    width = max(vectors.shape[1], queries.shape[1])
    vectors, queries = _as_wide(vectors[order], width), _as_wide(queries, width)
    output.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        with _spent() as building:
            indexed = system.as_documents(vectors)
            system.engine.build(iter([indexed]), Path(folder))
            asking = system.with_collection(CollectionStatistics.from_vectors([indexed]))
            index = system.engine.open(Path(folder))
        with _spent() as searching:
            hits = index.search(asking.as_queries(queries), min(k, len(documents)))
    run = Run.from_hits(asked, hits, encode(documents)[order])
    write_run(run, output / RUN, named.get("tag", "lexbench"))
    yield output / RUN
    for name, spent in ((INDEX, building), (RETRIEVAL, searching)):
        atomic.write_bytes(output / name, msgspec.yaml.encode(_metadata(system, searched_by, spent, named)))
        yield output / name


def _system(embeddings: Path, searched_by: str) -> Encoded:
    """Return the system that searches the vectors of the embeddings."""
    folders = (f"{what}={write_value(str(embeddings / part))}" for what, part in (("documents", "doc"), ("queries", "query")))
    joint = "|" if "@" in searched_by else "@"
    system: Any = resolve(parse(f'vectors({", ".join(folders)}, format="{LAYOUT}"){joint}{searched_by}'))
    return system  # type: ignore[no-any-return]  # what an encoder begins


def _read(folder: Path) -> tuple[list[str], Any]:
    """Return the ids and the vectors (texts, terms) of a folder, in its order."""
    blocks = list(FORMATS[LAYOUT].read(folder))
    vectors: Any = sparse.vstack([block.vectors for block in blocks], format="csr")
    return [name for block in blocks for name in block.ids], vectors


def _as_wide(vectors: Any, width: int) -> sparse.csr_array:
    """Return *vectors* widened to *width* columns."""
    return sparse.csr_array((vectors.data, vectors.indices, vectors.indptr), shape=(vectors.shape[0], width))


@contextmanager
def _spent() -> Iterator[dict[str, str]]:
    """Yield a dictionary that gets the times of the block, in the form of ir_metadata's field `runtime`."""
    spent: dict[str, str] = {}
    before, began = os.times(), time.perf_counter()
    yield spent
    after = os.times()
    values = {"user": after.user - before.user, "system": after.system - before.system}
    values["wallclock"] = time.perf_counter() - began
    spent |= {name: f"{seconds * 1000:.0f} ms" for name, seconds in values.items()}


def _metadata(system: Encoded, searched_by: str, spent: dict[str, str], named: dict[str, str]) -> dict[str, Any]:
    """Return the metadata of building or searching."""
    machine, packages = facts(), versions(packages_of(system))
    kernel, _, architecture = machine["system"].partition(" ")
    cpu = {"model": machine["processor"], "architecture": architecture, "number of cores": int(machine["cores"])}
    data = {"test collection": {"name": named["dataset"]}} if "dataset" in named else {}
    model = {"embedding model": {"name": named["embedding"]}} if "embedding" in named else {}
    return {
        "schema version": 0.2,  # as TIREx's tracker writes it
        "tag": named.get("tag", "lexbench"),
        **({"actor": {"team": named["team"]}} if "team" in named else {}),
        "platform": {
            "hardware": {"cpu": cpu, "ram": f"{int(machine['memory_gib']) * 1024} MB"},
            "operating system": {"kernel": kernel},
            "software": {"python": machine["python"]},
        },
        "implementation": {"python": {"packages": [f"{name}=={number}" for name, number in packages.items()]}},
        "resources": {"runtime": spent},
        "method": {"automatic": True, "retrieval": [{"name": searched_by, "method": "lexbench"}]},
        "data": data | model,
    }
