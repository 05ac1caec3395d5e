"""Reranking: pairs per second of `cross_encoder` next to sentence-transformers' CrossEncoder, one thread and process each.

    python benchmarks/reranking.py                     # 200 pairs with passages as long as MS MARCO's; a minute on one core
    python benchmarks/reranking.py --pairs 1500 --json FILE
    python benchmarks/reranking.py --device cuda --pairs 20000

The model is a BERT of 6 layers and width 384 with random weights, the shape of the public MiniLM cross-encoders. Both tools get
the same pairs, 20 passages per query. On a CPU processor time is measured. Needs: the extra `neural`, sentence-transformers.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _child
import numpy as np
from encoding import ONE_THREAD, no_progress_bars, texts, vocabulary
from numpy.typing import NDArray

EACH = 20  # passages per query
LENGTH = 512
WARM_UP = 8
DEFAULT = "CrossEncoder float32 32"  # its default
BATCHES = {"cpu": (8, 32), "cuda": (32, 256)}
TYPES = {"cpu": ("float32",), "cuda": ("float32", "bfloat16")}  # few processors are fast with bfloat16

Pairs = list[tuple[str, str]]


def pairs(count: int) -> Pairs:
    """Return pairs of query and passage, each query with EACH passages."""
    queries = texts(count // EACH + 1, "queries")
    return [(queries[place // EACH], passage) for place, passage in enumerate(texts(count))]


def write_model(folder: Path) -> None:
    """Write the model and its tokenizer."""
    import torch
    import transformers

    no_progress_bars()
    torch.manual_seed(2026)
    sizes = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}
    config = transformers.BertConfig(**{"num_labels": 1, "initializer_range": 0.1, **sizes})
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    transformers.BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary())}).save_pretrained(folder)


def theirs(folder: Path, dtype: str, batch: int, device: str) -> Callable[[Pairs], Any]:
    """Return the function that scores pairs with sentence-transformers."""
    import torch
    from sentence_transformers import CrossEncoder

    no_progress_bars()
    model = CrossEncoder(str(folder), device=device, max_length=LENGTH, model_kwargs={"dtype": getattr(torch, dtype)})
    still = torch.nn.Identity()
    return lambda given: model.predict(given, batch_size=batch, activation_fn=still, show_progress_bar=False)


def ours(folder: Path, dtype: str, device: str) -> Callable[[Pairs], NDArray[np.float32]]:
    """Return the function that scores pairs with lexbench."""
    from lexbench.rerankers.cross_encoder import CrossEncoder
    from lexbench.types import Document

    model = CrossEncoder(str(folder), length=LENGTH, dtype=dtype, device=device, threads=1 if device == "cpu" else 0)
    return lambda given: model.score([query for query, _ in given], [Document("", text) for _, text in given])


def measure(name: str, folder: Path, given: argparse.Namespace) -> float:
    """Return the seconds of a contender, and write its scores into *folder*."""
    system, dtype, *batch = name.split()
    place = folder / "model"
    score = ours(place, dtype, given.device) if system == "lexbench" else theirs(place, dtype, int(batch[0]), given.device)
    asked = pairs(given.pairs)
    score(asked[:WARM_UP])
    clock = time.process_time if given.device == "cpu" else time.perf_counter
    start = clock()
    scores = score(asked)
    seconds = clock() - start
    np.save(folder / f"{name}.npy", np.asarray(scores, np.float32))
    return seconds


def in_own_process(name: str, folder: Path, given: argparse.Namespace) -> float:
    """Measure a contender in a new process, on a CPU with one thread."""
    command = [sys.executable, __file__, "--pairs", str(given.pairs), "--device", given.device]
    environment = {**os.environ, **(ONE_THREAD if given.device == "cpu" else {}), "HF_HUB_OFFLINE": "1"}
    _child.run([*command, "--system", name, "--folder", str(folder)], env=environment, shown=True)
    return float((folder / "answer.json").read_text())


def main() -> None:
    """Measure every contender, and print pairs per second, the ratio to the default, and the largest difference of scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--device", choices=BATCHES, default="cpu")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of all; the best of each counts")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--system", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.system:
        (given.folder / "answer.json").write_text(str(measure(given.system, given.folder, given)))
        return
    contenders = [f"CrossEncoder {dtype} {batch}" for dtype in TYPES[given.device] for batch in BATCHES[given.device]]
    contenders += [f"lexbench {dtype}" for dtype in (*TYPES[given.device], *(["int8"] if given.device == "cpu" else []))]
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder, "model"))
        rounds = [{name: in_own_process(name, Path(folder), given) for name in contenders} for _ in range(given.repeats)]
        scores = {name: np.load(Path(folder, f"{name}.npy")) for name in contenders}
    rates = {name: given.pairs / min(one[name] for one in rounds) for name in contenders}
    print(
        f"{given.pairs:,} pairs on {given.device}; differences from {DEFAULT}, whose scores deviate {scores[DEFAULT].std():.2f}"
    )
    print(f"{'':24}{'pairs/s':>10}{'times':>8}{'difference':>12}")
    for name, rate in rates.items():
        difference = np.abs(scores[name] - scores[DEFAULT]).max()
        print(f"{name:24}{rate:>10,.1f}{rate / rates[DEFAULT]:>8.2f}{difference:>12.1e}")
    if given.json:
        given.json.write_text(
            json.dumps({"pairs": given.pairs, "device": given.device, "pairs_a_second": rates}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
