"""Real sparse vectors for `engines.py --vectors FOLDER`: texts and queries of BEIR folders, encoded by a learned sparse model.

    python tools/training_texts.py build/training-texts ...      # docstrings, package descriptions, manual pages, dictionaries
    make build/splade-tiny
    python benchmarks/real_vectors.py build/vectors build/training-texts/docstrings build/training-texts/descriptions

As many texts of each folder as of the next where it has them, drawn with a fixed seed, and queries of the same folders: titles,
sentences, phrases and key words of texts (see tools/training_texts.py). Judgements are not read. Written are documents.npz and
queries.npz, scipy's matrices of whole weights, and the same in the folder "ordered" with documents that are alike beside each
other (_bisection.py). What is encoded is kept in parts, so that a run that was stopped goes on. One thread.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch are imported

import numpy as np
from _bisection import bisected
from scipy import sparse

from lexbench.retrievers.encoded import Encoded
from lexbench.runner import systems

SYSTEM = 'splade_tiny(model="build/splade-tiny", dtype="bfloat16", document_length=128)|quantize(70, bits=8)@impact'
PART = 2048  # documents that are encoded and then kept
SEED = 2026


def drawn(folders: list[Path], number: int, file: str) -> list[str]:
    """Return *number* texts of *file* in BEIR *folders*, in random order: as many of each as it has and others leave to it."""
    rng = np.random.default_rng(SEED)
    texts: list[str] = []
    lines = sorted((folder.joinpath(file).read_text(encoding="utf-8").splitlines() for folder in folders), key=len)
    for done, own in enumerate(lines):
        count = min(len(own), (number - len(texts)) // (len(lines) - done))
        rows = [json.loads(own[at]) for at in rng.choice(len(own), count, replace=False)]
        texts += [f"{row.get('title', '')} {row['text']}".strip() for row in rows]
    return [texts[at] for at in rng.permutation(len(texts))]


def encoded(texts: list[str], retriever: Encoded, folder: Path) -> sparse.csr_array:
    """Return the whole weights (n, vocabulary) of documents; parts that *folder* has are not encoded again."""
    folder.mkdir(exist_ok=True)
    for start in range(0, len(texts), PART):
        file = folder / f"{start:09}.npz"
        if file.exists():
            continue
        own, before = texts[start : start + PART], time.process_time()
        vectors = retriever.transforms[0].document(retriever.encoder.encode_document(own))
        unfinished = file.with_suffix(".unfinished.npz")
        sparse.save_npz(unfinished, vectors)
        unfinished.rename(file)
        print(f"{start:,}: {len(own) / (time.process_time() - before):.0f} documents/s of processor time", flush=True)
    return sparse.vstack([sparse.load_npz(folder / f"{start:09}.npz") for start in range(0, len(texts), PART)], format="csr")


def main() -> None:
    """Encode documents and queries and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", type=Path, help="where the vectors go; start anew in another one when texts or the system change"
    )
    parser.add_argument("texts", type=Path, nargs="+", help="BEIR folders")
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument(
        "--system", default=SYSTEM, help=f"an encoder and one transform that makes weights whole (default: {SYSTEM})"
    )
    given = parser.parse_args()
    retriever = systems.system(given.system).retriever
    assert isinstance(retriever, Encoded)
    ordered = given.folder / "ordered"
    ordered.mkdir(parents=True, exist_ok=True)
    encoded_queries = retriever.encoder.encode_query(drawn(given.texts, given.queries, "queries.jsonl"))
    queries = retriever.transforms[0].query(encoded_queries)
    documents = encoded(drawn(given.texts, given.documents, "corpus.jsonl"), retriever, given.folder / "parts")
    print(f"{documents.shape[0]:,} documents of {documents.nnz / documents.shape[0]:.0f} terms", flush=True)
    before = time.process_time()
    order = bisected(documents)
    print(f"ordered in {time.process_time() - before:.0f} s of processor")
    for place, rows in ((given.folder, documents), (ordered, documents[order])):
        sparse.save_npz(place / "queries.npz", queries)
        sparse.save_npz(place / "documents.npz", rows)


if __name__ == "__main__":
    main()
