"""A run as a folder of the store: arrays and query ids; the document ids stay with the corpus."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from lexbench.datasets.corpus import StoredCorpus, open_corpus
from lexbench.storage import atomic
from lexbench.trec.runs import Filtered, Run
from lexbench.types import Hits

_WORK = "work."  # before the names of counts, in a block's file


def block_files(path: Path, queries: int, size: int) -> list[Path]:
    """Return the files of the blocks of so many *queries*, *size* each, in order."""
    return [path / f"part-{start:07d}.safetensors" for start in range(0, queries, size)]


def write_hits(hits: Hits, path: Path, work: Mapping[str, NDArray[np.int64]]) -> None:
    """Write the hits of a block of queries, and what finding them took, (queries,) each; whole or not at all."""
    counted = {_WORK + name: counts for name, counts in work.items()}
    _write({"docs": hits.docs, "scores": hits.scores, **counted}, path)


def _write(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    """Write a file of arrays; not by save_file, whose own temporary file would stay behind a kill."""
    atomic.write_bytes(path, save(arrays))


def read_work(paths: Sequence[Path]) -> dict[str, NDArray[np.int64]]:
    """Read the counts (queries,) of all blocks, by name."""
    blocks: list[dict[str, Any]] = [load_file(path) for path in paths]
    names = [name for name in (blocks[0] if blocks else ()) if name.startswith(_WORK)]
    return {name.removeprefix(_WORK): np.concatenate([block[name] for block in blocks]) for name in names}


def read_hits(paths: Sequence[Path]) -> Hits:
    """Read blocks (queries, k) that *write_hits* wrote and join them; a retriever may return fewer columns than k."""
    blocks: list[dict[str, Any]] = [load_file(path) for path in paths]
    width = max((block["docs"].shape[1] for block in blocks), default=0)
    docs = [np.pad(b["docs"], ((0, 0), (0, width - b["docs"].shape[1])), constant_values=-1) for b in blocks]
    scores = [np.pad(b["scores"], ((0, 0), (0, width - b["scores"].shape[1]))) for b in blocks]
    return Hits(np.concatenate(docs).astype(np.int32), np.concatenate(scores).astype(np.float32))


def write_run(ranked: Filtered, folder: Path, corpus: StoredCorpus) -> None:
    """Write a run: its arrays, its query ids, and the name of the corpus, which has the document ids."""
    run = ranked.run
    _write({"offsets": run.offsets, "docs": run.docs, "scores": run.scores}, folder / "run.safetensors")
    facts = {"corpus": corpus.path.name, "self_matches": ranked.dropped, "queries": run.query_ids}
    atomic.write_text(folder / "run.json", json.dumps(facts, ensure_ascii=False) + "\n")


def read_run(folder: Path) -> Filtered:
    """Read what *write_run* wrote into a folder of the store, beside its corpus."""
    arrays = load_file(folder / "run.safetensors")
    facts = json.loads((folder / "run.json").read_bytes())
    table = open_corpus(folder.parent.parent / "corpora" / facts["corpus"]).doc_ids
    run = Run(tuple(facts["queries"]), arrays["offsets"], arrays["docs"], arrays["scores"], table)
    return Filtered(run, facts["self_matches"])
