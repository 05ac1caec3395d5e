r"""Encoding: documents a second of `sparse_mlm` against sentence-transformers' SparseEncoder, one thread and one process each.

    python benchmarks/encoding.py                      # 64 texts as long as MS MARCO's passages; a few minutes on one core
    python benchmarks/encoding.py --documents 256 --json FILE
    python benchmarks/encoding.py --device cuda --documents 20000
    ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 ATEN_CPU_CAPABILITY=avx2 \
        python benchmarks/encoding.py --only 'lexbench float32' 'lexbench int8'    # as on a processor without AVX-512

The model is a BERT-base with random weights and a vocabulary of 30,522 made-up words, one token each. Random weights make every
term active, so a constant is taken off the output bias that leaves each text about 150 terms: finding and copying them then
costs what it costs with a trained model. Their weights are near zero, which makes bfloat16 look worse than it does with one.
Both are given the same list of texts and both sort it by length. Of 64 texts a batch of 32 still has 47 % padding, of 256 it
has 14 %, of 4,096 it has 1 %, so the ratio to the default falls as texts become more. On a CPU the time that the one thread
computes is counted: neighbours on the machine disturb it less. Needs: the extra `neural`, sentence-transformers.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

LENGTHS = {"msmarco": (79, 0.4), "queries": (9, 0.3), "documents": (240, 0.3)}  # mean tokens, deviation of their logarithm
LONGEST = 256
ACTIVE = 150  # terms a text
DEFAULT = "SparseEncoder float32 32"  # what sentence-transformers does unless told otherwise
BATCHES = {"cpu": (32, 8), "cuda": (32, 256)}
WARM_UP = 16
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")


def vocabulary() -> list[str]:
    """Return 30,522 tokens: the special ones, and made-up words."""
    syllables = [consonant + vowel for consonant in "bcdfglmnprstvz" for vowel in "aeiou"]
    words = [a + b + c for a in syllables for b in syllables for c in syllables]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words[:30_517]]


def texts(count: int, lengths: str) -> list[str]:
    """Return texts of log-normal lengths, of words drawn by Zipf's law."""
    rng = np.random.default_rng(2026)
    mean, deviation = LENGTHS[lengths]
    words = np.array(vocabulary()[5:])
    rng.shuffle(words)
    cumulative = np.cumsum(1 / (np.arange(len(words)) + 2.7))
    tokens = np.clip(rng.lognormal(np.log(mean) - deviation**2 / 2, deviation, count).round(), 3, LONGEST).astype(int) - 2
    return [" ".join(words[np.searchsorted(cumulative, rng.random(one) * cumulative[-1])]) for one in tokens]


def write_model(folder: Path, sample: list[str]) -> None:
    """Write the model and its tokenizer; the bias leaves ACTIVE terms to a text of *sample*."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(2026)
    tokenizer = transformers.BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary())})
    model = transformers.BertForMaskedLM(transformers.BertConfig(tie_word_embeddings=True)).eval()
    with torch.inference_mode():
        rows = tokenizer(sample, truncation=True, max_length=LONGEST)["input_ids"]
        most = torch.stack([model(input_ids=torch.tensor([row])).logits[0].amax(0) for row in rows])
    with torch.no_grad():
        model.cls.predictions.bias -= most.sort(descending=True).values[:, ACTIVE].mean()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def sparse_encoder(folder: Path, dtype: str, batch: int, device: str) -> Callable[[list[str]], Any]:
    """Return what encodes texts with sentence-transformers, cut to LONGEST tokens."""
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules.transformer import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    model_kwargs = {"dtype": getattr(torch, dtype)}
    body = Transformer(str(folder), transformer_task="fill-mask", max_seq_length=LONGEST, model_kwargs=model_kwargs)
    model = SparseEncoder(modules=[body, SpladePooling(pooling_strategy="max")], device=device)

    def encode(given: list[str]) -> sparse.csr_array:
        found = model.encode_document(given, batch_size=batch, save_to_cpu=True, show_progress_bar=False).coalesce()
        return sparse.csr_array((found.values().float().numpy(), found.indices().numpy()), shape=tuple(found.shape))

    return encode


def ours(folder: Path, dtype: str, device: str) -> Callable[[list[str]], Any]:
    """Return what encodes texts with lexbench."""
    from lexbench.encoders.sparse_mlm import SparseMLM

    threads = 1 if device == "cpu" else 0
    return SparseMLM(str(folder), dtype=dtype, device=device, document_length=LONGEST, threads=threads).encode_document


def measure(name: str, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Return the seconds that a contender takes, and its peak memory; its vectors go into *folder*."""
    import torch

    system, dtype, *batch = name.split()
    if system == "lexbench":
        encode = ours(folder / "model", dtype, given.device)
    else:
        encode = sparse_encoder(folder / "model", dtype, int(batch[0]), given.device)
    documents = texts(given.documents, given.lengths)
    encode(documents[:WARM_UP])
    clock = time.process_time if given.device == "cpu" else time.perf_counter
    start = clock()
    vectors = encode(documents)
    seconds = clock() - start
    sparse.save_npz(folder / f"{name}.npz", sparse.csr_array(vectors))
    found = {"seconds": seconds, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    if given.device == "cuda":
        found["gpu_mib"] = torch.cuda.max_memory_allocated() / 2**20
    return found


def in_own_process(name: str, folder: Path, given: argparse.Namespace) -> dict[str, float]:
    """Measure a contender in a new process, on a CPU with one thread."""
    options = {"documents": given.documents, "lengths": given.lengths, "device": given.device}
    command = [sys.executable, __file__, *(word for key, value in options.items() for word in (f"--{key}", str(value)))]
    answer = folder / "answer.json"
    environment = {**os.environ, **(ONE_THREAD if given.device == "cpu" else {}), "HF_HUB_OFFLINE": "1"}
    subprocess.run([*command, "--system", name, "--folder", str(folder)], check=True, env=environment)
    found: dict[str, float] = json.loads(answer.read_text())
    return found


def compared(folder: Path, name: str) -> dict[str, float]:
    """Return how far a contender's vectors are from those of DEFAULT: the largest difference, the mean cosine, terms a text."""
    expected, found = (sparse.load_npz(folder / f"{one}.npz").toarray() for one in (DEFAULT, name))
    cosines = (expected * found).sum(1) / np.linalg.norm(expected, axis=1) / np.linalg.norm(found, axis=1)
    terms = np.count_nonzero(found) / len(found)
    return {"difference": float(np.abs(expected - found).max()), "cosine": float(cosines.mean()), "terms": terms}


def table(results: dict[str, dict[str, float]], documents: int) -> str:
    """Return the figures; in brackets how many times as fast as SparseEncoder by default, and at its best."""
    default = results[DEFAULT]["seconds"]
    best = min(found["seconds"] for name, found in results.items() if name.startswith("SparseEncoder"))
    heads = ("documents/s", "(default)", "(its best)", "MiB", "terms", "difference", "cosine")
    rows = [" " * 26 + "".join(f"{head:>12}" for head in heads)]
    for name, found in results.items():
        cells = [f"{documents / found['seconds']:,.2f}"]
        cells += [f"({seconds / found['seconds']:.2f})" for seconds in (default, best)]
        cells += [f"{found['mib']:,.0f}", f"{found['terms']:.0f}", f"{found['difference']:.1e}", f"{found['cosine']:.5f}"]
        rows.append(f"{name:26}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(rows)


def main() -> None:
    """Measure every contender and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=64)
    parser.add_argument("--lengths", choices=LENGTHS, default="msmarco")
    parser.add_argument("--device", choices=BATCHES, default="cpu")
    parser.add_argument("--repeats", type=int, default=2, help="rounds of all; the best of each counts")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="rows of the table, beside SparseEncoder's default")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--system", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.system:
        (given.folder / "answer.json").write_text(json.dumps(measure(given.system, given.folder, given)))
        return
    contenders = [f"SparseEncoder {dtype} {batch}" for dtype in ("float32", "bfloat16") for batch in BATCHES[given.device]]
    contenders += ["lexbench float32", "lexbench bfloat16"] + (["lexbench int8"] if given.device == "cpu" else [])
    if given.only:
        contenders = [DEFAULT, *(name for name in given.only if name != DEFAULT)]
    documents = texts(given.documents, given.lengths)
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder, "model"), documents[:8])
        rounds = [{name: in_own_process(name, Path(folder), given) for name in contenders} for _ in range(given.repeats)]
        best = {name: min((one[name] for one in rounds), key=lambda found: found["seconds"]) for name in contenders}
        results = {name: found | compared(Path(folder), name) for name, found in best.items()}
    mean = sum(len(text.split()) + 2 for text in documents) / len(documents)
    print(f"{len(documents):,} texts of {mean:.0f} tokens, on {given.device}; difference and cosine: from {DEFAULT}")
    print(table(results, len(documents)))
    if given.json:
        asked = {name: getattr(given, name) for name in ("documents", "lengths", "device", "repeats")}
        given.json.write_text(json.dumps({**asked, "tokens": mean, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
