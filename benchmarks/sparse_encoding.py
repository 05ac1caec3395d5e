"""Encoding with trained sparse models: documents a second of processor time, one thread, all systems by turns in one process.

    make build/splade-tiny
    python benchmarks/sparse_encoding.py nfcorpus/corpus.jsonl lexmae_nano lexmae_mini 'splade_tiny(model="build/splade-tiny")'

Arguments: a corpus.jsonl of BEIR, of which documents are drawn, and encoders in lexbench's notation. Needs: the extra `neural`.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch are imported

import numpy as np

from lexbench.plugins import Encoder
from lexbench.retrievers.encoded import Encoded
from lexbench.runner import systems


def drawn(corpus: Path, number: int) -> list[str]:
    """Return the texts of *number* documents of a BEIR corpus, titles before bodies, drawn with a fixed seed."""
    documents = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    chosen = np.random.default_rng(0).permutation(len(documents))[:number]
    return [f"{documents[index].get('title', '')} {documents[index]['text']}".strip() for index in chosen]


def encoder(notation: str) -> Encoder[Any]:
    """Return the encoder that *notation* names, on one thread."""
    retriever = systems.system(f"{notation}@impact").retriever
    assert isinstance(retriever, Encoded)
    return retriever.encoder


def seconds(made: Encoder[Any], texts: Sequence[str]) -> float:
    """Return the processor time of encoding *texts*, the model being loaded."""
    made.encode_document(texts[:4])
    before = time.process_time()
    made.encode_document(texts)
    return time.process_time() - before


def main() -> None:
    """Print one line for each system: the best of some rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("encoders", nargs="+")
    parser.add_argument("--documents", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    texts = drawn(options.corpus, options.documents)
    made = {notation: encoder(notation) for notation in options.encoders}
    best = dict.fromkeys(made, float("inf"))
    for _ in range(options.rounds):
        for notation, one in made.items():
            best[notation] = min(best[notation], seconds(one, texts))
    for notation, time_taken in best.items():
        print(f"{notation}\t{len(texts) / time_taken:.1f} documents/s of processor time")


if __name__ == "__main__":
    main()
