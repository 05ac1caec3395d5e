"""Encoding: documents a second of `dense` against sentence-transformers' SentenceTransformer, one thread and one process each.

    python benchmarks/dense_encoding.py                                        # MiniLM's shape, random weights, made-up texts
    python benchmarks/dense_encoding.py --model build/minilm --texts FILE.jsonl # a folder of sentence-transformers, real texts
    python benchmarks/dense_encoding.py --device cuda --documents 20000 --json FILE

Both are given the same list of texts and both sort it by length: sentence-transformers by characters, lexbench by tokens. On a
CPU the time that the one thread computes is counted: neighbours on the machine disturb it less. Rounds are interleaved, the
median counts. Needs: the extra `neural`, sentence-transformers; `make build/minilm` fetches that model.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from encoding import ONE_THREAD, WARM_UP, texts, vocabulary

DEFAULT = "SentenceTransformer float32 32"  # what sentence-transformers does unless told otherwise
SHAPE = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
LENGTH = 256


def write_model(folder: Path) -> None:
    """Write a folder of sentence-transformers: random weights, the mean of all states, length 1."""
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer, models

    torch.manual_seed(2026)
    tokenizer = transformers.BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary())})
    transformers.BertModel(transformers.BertConfig(**SHAPE)).save_pretrained(folder / "body")
    tokenizer.save_pretrained(folder / "body")
    body = models.Transformer(str(folder / "body"), max_seq_length=LENGTH)
    modules = [body, models.Pooling(SHAPE["hidden_size"]), models.Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder / "model"))


def contender(name: str, folder: str, device: str) -> Callable[[list[str]], Any]:
    """Return what encodes texts."""
    import torch

    system, dtype, *batch = name.split()
    if system == "lexbench":
        from lexbench.runner.systems import system as named

        threads = 1 if device == "cpu" else 0
        text = f'dense(model="{folder}", dtype="{dtype}", device="{device}", threads={threads})'
        encode: Callable[[list[str]], Any] = named(text).retriever.encoder.encode_document
        return encode
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device=device, model_kwargs={"dtype": getattr(torch, dtype)})
    return lambda given: model.encode_document(given, batch_size=int(batch[0]), show_progress_bar=False)


def measure(name: str, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Return the seconds that a contender takes; its vectors go into *folder*."""
    encode = contender(name, given.model, given.device)
    documents = read(given)
    encode(documents[:WARM_UP])
    clock = time.process_time if given.device == "cpu" else time.perf_counter
    start = clock()
    vectors = encode(documents)
    seconds = clock() - start
    np.save(folder / f"{name}.npy", vectors)
    return {"seconds": seconds}


def read(given: argparse.Namespace) -> list[str]:
    """Return the texts: those of a file of JSON lines with title and text, evenly spaced, or made-up ones."""
    if not given.texts:
        return texts(given.documents, "msmarco")
    rows = [json.loads(line) for line in Path(given.texts).read_text(encoding="utf-8").splitlines()]
    chosen = rows[:: max(1, len(rows) // given.documents)][: given.documents]
    return [f"{row.get('title', '')} {row['text']}".strip() for row in chosen]


def in_own_process(name: str, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Measure a contender in a new process, on a CPU with one thread."""
    options = {"documents": given.documents, "device": given.device, "model": given.model} | (
        {"texts": given.texts} if given.texts else {}
    )
    command = [sys.executable, __file__, *(word for key, value in options.items() for word in (f"--{key}", str(value)))]
    environment = {**os.environ, **(ONE_THREAD if given.device == "cpu" else {}), "HF_HUB_OFFLINE": "1"}
    quiet = {"stderr": subprocess.DEVNULL}  # progress bars of loading
    subprocess.run([*command, "--system", name, "--folder", str(folder)], check=True, env=environment, **quiet)
    found: dict[str, float] = json.loads((folder / "answer.json").read_text())
    return found


def main() -> None:
    """Measure every contender and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder of sentence-transformers; default: MiniLM's shape with random weights")
    parser.add_argument("--texts", help="JSON lines with title and text")
    parser.add_argument("--documents", type=int, default=512)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--system", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.system:
        (given.folder / "answer.json").write_text(json.dumps(measure(given.system, given.folder, given)))
        return
    contenders = [DEFAULT, "SentenceTransformer float32 8", "SentenceTransformer bfloat16 32"]
    contenders += ["lexbench float32", "lexbench bfloat16"]
    with tempfile.TemporaryDirectory() as folder:
        if not given.model:
            write_model(Path(folder))
            given.model = str(Path(folder, "model"))
        rounds = [{name: in_own_process(name, Path(folder), given) for name in contenders} for _ in range(given.repeats)]
        seconds = {name: median(one[name]["seconds"] for one in rounds) for name in contenders}
        expected = np.load(Path(folder, f"{DEFAULT}.npy"))
        print(f"{given.documents:,} texts, on {given.device}; difference and cosine: from {DEFAULT}")
        print(f"{'':32}{'documents/s':>12}{'ratio':>8}{'difference':>12}{'cosine':>10}")
        for name, spent in seconds.items():
            found = np.load(Path(folder, f"{name}.npy"))
            cosine = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
            difference, ratio = np.abs(found - expected).max(), seconds[DEFAULT] / spent
            print(f"{name:32}{given.documents / spent:12.2f}{ratio:8.2f}{difference:12.1e}{cosine.mean():10.6f}")
    if given.json:
        asked = {name: getattr(given, name) for name in ("documents", "device", "repeats", "texts")}
        given.json.write_text(json.dumps({**asked, "seconds": seconds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
