"""Encoding with trained sparse models: documents a second of processor time, one thread, all systems by turns in one process.

    make build/splade-tiny
    python benchmarks/sparse_encoding.py nfcorpus/corpus.jsonl 'splade_tiny(model="build/splade-tiny")' --peer build/splade-tiny
    python benchmarks/sparse_encoding.py nfcorpus/corpus.jsonl lexmae_nano 'lexmae_nano(dtype="int8")' --peer FOLDER

Arguments: a corpus.jsonl of BEIR, of which documents are drawn, and encoders in lexbench's notation; all cut documents to 256
tokens. --peer FOLDER is the model in FOLDER by sentence-transformers' SparseEncoder, in float32 and batches of 32, its default;
a LexMAE's own word pieces it leaves out, and has less to do. Needs: the extra `neural`, for a peer sentence-transformers.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch are imported

import numpy as np
from encoding import LONGEST, sparse_encoder

from lexbench.encoders._transformer import SparseTransformer
from lexbench.retrievers.encoded import Encoded
from lexbench.runner import systems


def drawn(corpus: Path, number: int) -> list[str]:
    """Return the texts of *number* documents of a BEIR corpus, titles before bodies, drawn with a fixed seed."""
    documents = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    chosen = np.random.default_rng(0).permutation(len(documents))[:number]
    return [f"{documents[index].get('title', '')} {documents[index]['text']}".strip() for index in chosen]


def encoder(notation: str) -> Callable[[list[str]], Any]:
    """Return what encodes texts with the encoder that *notation* names, on one thread."""
    retriever = systems.system(f"{notation}@impact").retriever
    assert isinstance(retriever, Encoded)
    assert isinstance(retriever.encoder, SparseTransformer)
    return replace(retriever.encoder, document_length=LONGEST).encode_document


def seconds(encode: Callable[[list[str]], Any], texts: list[str]) -> float:
    """Return the processor time of encoding *texts*, the model being loaded."""
    encode(texts[:4])
    before = time.process_time()
    encode(texts)
    return time.process_time() - before


def main() -> None:
    """Print one line for each system: the best of some rounds, and how many times as fast as the first peer that is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("encoders", nargs="+")
    parser.add_argument("--peer", type=Path, action="append", default=[], help="a model's folder, for SparseEncoder")
    parser.add_argument("--documents", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    texts = drawn(options.corpus, options.documents)
    made = {f"SparseEncoder {peer}": sparse_encoder(peer, "float32", 32, "cpu") for peer in options.peer}
    made |= {notation: encoder(notation) for notation in options.encoders}
    best = dict.fromkeys(made, float("inf"))
    for _ in range(options.rounds):
        for name, encode in made.items():
            best[name] = min(best[name], seconds(encode, texts))
    first = next(iter(best.values()))
    for name, time_taken in best.items():
        times = f"\t{first / time_taken:.2f} times" if options.peer else ""
        print(f"{name}\t{len(texts) / time_taken:.1f} documents/s of processor time{times}")


if __name__ == "__main__":
    main()
