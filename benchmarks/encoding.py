r"""Encoding: documents per second of lexbench and other tools, sparse or dense, one thread and one process each, by turns.

    python benchmarks/encoding.py sparse --documents 256
    python benchmarks/encoding.py dense --model build/minilm --texts scifact/corpus.jsonl --documents 384
    python benchmarks/encoding.py sparse --architecture modernbert --documents 48 --with openvino --repeats 5
    python benchmarks/encoding.py sparse --model build/splade-tiny --texts scifact/corpus.jsonl --documents 128
    ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 ATEN_CPU_CAPABILITY=avx2 NUMBA_CPU_NAME=haswell \
        python benchmarks/encoding.py sparse    # as on a processor without AVX-512

Without --model the model has random weights: a BERT-base with a masked-language-model head (sparse), whose bias leaves each
text about 150 terms, or the shape of MiniLM with mean pooling (dense). With --architecture modernbert both have the shape of
ModernBERT-base and a vocabulary of its size, of which the texts use the first 30,522 tokens. Without --texts the texts are
made-up words, as long as MS MARCO's passages. Both tools get the same list of texts and sort it by length. With few texts a
batch of 32 has much padding (47 % of 64 texts, 1 % of 4,096), so the ratio to the default falls with the number of texts. On a
CPU processor time is measured. The ratio is of the best rounds, with the lowest and the highest ratio of a round. OpenVINO and
ONNX Runtime replace the layers of lexbench, as in `lexbench speed --with`. Needs: the extra `neural`, sentence-transformers.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _child
import numpy as np
from scipy import sparse

LENGTHS = {"passages": (79, 0.4), "queries": (9, 0.3)}  # mean number of tokens, standard deviation of its logarithm
LONGEST = 256  # tokens
ACTIVE = 150  # terms per text
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
SPECIAL = {
    f"{role}_token_id": number for role, number in zip(("pad", "cls", "bos", "sep", "eos"), (0, 2, 2, 3, 3), strict=True)
}
BATCHES = {"cpu": (32, 8), "cuda": (32, 256)}
DEFAULT = "sentence-transformers float32 32"  # its default
RUNTIMES = {"openvino": ("float32", "bfloat16"), "onnx": ("float32", "int8")}
WARM_UP = 16
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")


def vocabulary() -> list[str]:
    """Return 30,522 tokens: the special ones, and made-up words."""
    syllables = [consonant + vowel for consonant in "bcdfglmnprstvz" for vowel in "aeiou"]
    words = [a + b + c for a in syllables for b in syllables for c in syllables]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words[:30_517]]


def texts(count: int, lengths: str = "passages") -> list[str]:
    """Return texts of log-normal lengths, of words drawn by Zipf's law."""
    rng = np.random.default_rng(2026)
    mean, deviation = LENGTHS[lengths]
    words = np.array(vocabulary()[5:])
    rng.shuffle(words)
    cumulative = np.cumsum(1 / (np.arange(len(words)) + 2.7))
    tokens = np.clip(rng.lognormal(np.log(mean) - deviation**2 / 2, deviation, count).round(), 3, LONGEST).astype(int) - 2
    return [" ".join(words[np.searchsorted(cumulative, rng.random(one) * cumulative[-1])]) for one in tokens]


def read(given: argparse.Namespace) -> list[str]:
    """Return the texts of a corpus.jsonl of BEIR, evenly spaced, or made-up ones."""
    if not given.texts:
        return texts(given.documents)
    rows = [json.loads(line) for line in Path(given.texts).read_text(encoding="utf-8").splitlines()]
    chosen = rows[:: max(1, len(rows) // given.documents)][: given.documents]
    return [f"{row.get('title', '')} {row['text']}".strip() for row in chosen]


def no_progress_bars() -> None:
    """Let transformers draw no progress bars."""
    from transformers.utils import logging

    untyped: Any = logging
    untyped.disable_progress_bar()


def configuration(architecture: str, sizes: dict[str, Any]) -> Any:
    """Return the configuration of a BERT of these *sizes*, or of ModernBERT-base."""
    import transformers

    special: dict[str, Any] = SPECIAL
    return transformers.ModernBertConfig(**special) if architecture == "modernbert" else transformers.BertConfig(**sizes)


def write_model(kind: str, folder: Path, architecture: str = "bert", sizes: dict[str, int] | None = None) -> None:
    """Write a model with random weights and its tokenizer into *folder*; *sizes* are of a sparse one, by default BERT-base."""
    import torch
    import transformers

    auto: Any = transformers  # its factories have no types
    no_progress_bars()
    torch.manual_seed(2026)
    tokenizer = transformers.BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary())})
    if kind == "dense":
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

        config = configuration(architecture, MINILM)
        auto.AutoModel.from_config(config).save_pretrained(folder / "body")
        tokenizer.save_pretrained(folder / "body")
        body = Transformer(str(folder / "body"), max_seq_length=LONGEST)
        modules = [body, Pooling(config.hidden_size), Normalize()]
        SentenceTransformer(modules=modules, device="cpu").save(str(folder))
        return
    config = configuration(architecture, sizes or {})
    config.tie_word_embeddings = True
    model = auto.AutoModelForMaskedLM.from_config(config).eval()
    with torch.no_grad():  # random weights make every term active; the bias leaves ACTIVE of them
        rows = tokenizer(texts(8), truncation=True, max_length=LONGEST)["input_ids"]
        most = torch.stack([model(input_ids=torch.tensor([row])).logits[0].amax(0) for row in rows])
        model.get_output_embeddings().bias -= most.sort(descending=True).values[:, ACTIVE].mean()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def peer(kind: str, folder: str, dtype: str, batch: int, device: str) -> Callable[[list[str]], Any]:
    """Return the function that encodes texts with sentence-transformers."""
    import torch

    no_progress_bars()
    model_kwargs = {"dtype": getattr(torch, dtype)}
    if kind == "dense":
        from sentence_transformers import SentenceTransformer

        dense = SentenceTransformer(folder, device=device, model_kwargs=model_kwargs)
        return lambda given: dense.encode_document(given, batch_size=batch, show_progress_bar=False)
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules.transformer import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    body = Transformer(folder, transformer_task="fill-mask", max_seq_length=LONGEST, model_kwargs=model_kwargs)
    model = SparseEncoder(modules=[body, SpladePooling(pooling_strategy="max")], device=device)

    def encode(given: list[str]) -> sparse.csr_array:
        found = model.encode_document(given, batch_size=batch, save_to_cpu=True, show_progress_bar=False).coalesce()
        shape = found.shape[0], found.shape[1]
        return sparse.csr_array((found.values().float().numpy(), found.indices().numpy()), shape=shape)

    return encode


def measure(name: str, given: argparse.Namespace) -> dict[str, float]:
    """Return the seconds and the peak memory of a contender; its vectors go into the folder."""
    tool, dtype, *batch = name.split()
    documents = read(given)
    if tool != "sentence-transformers":
        from lexbench.runner.systems import system
        from lexbench.timing.other_runtimes import use

        options = f'model="{given.model}", dtype="{dtype}", device="{given.device}", threads={int(given.device == "cpu")}'
        sparse_options = f"sparse_mlm({options}, document_length={LONGEST})@impact"
        retriever: Any = system(f"dense({options})" if given.kind == "dense" else sparse_options).retriever
        encoder = retriever.encoder if tool == "lexbench" else use(retriever.encoder, tool, documents)
        encode = encoder.encode_document
    else:
        encode = peer(given.kind, given.model, dtype, int(batch[0]), given.device)
    encode(documents[:WARM_UP])
    clock = time.process_time if given.device == "cpu" else time.perf_counter
    start = clock()
    vectors = encode(documents)
    seconds = clock() - start
    sparse.save_npz(given.folder / f"{name}.npz", sparse.csr_array(vectors))
    return {"seconds": seconds, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def in_own_process(name: str, given: argparse.Namespace) -> dict[str, float]:
    """Measure a contender in a new process, with one thread on a CPU."""
    options = {"documents": given.documents, "device": given.device, "model": given.model, "folder": given.folder}
    options |= {"texts": given.texts} if given.texts else {}
    command = [sys.executable, __file__, given.kind]
    command += [word for key, value in options.items() for word in (f"--{key}", str(value))]
    environment = {**os.environ, **(ONE_THREAD if given.device == "cpu" else {}), "HF_HUB_OFFLINE": "1"}
    _child.run([*command, "--system", name], env=environment, shown=True)
    found: dict[str, float] = json.loads((given.folder / "answer.json").read_text())
    return found


def compared(name: str, folder: Path) -> tuple[float, float]:
    """Return the largest difference and the mean cosine between a contender's vectors and those of DEFAULT."""
    expected, found = (sparse.load_npz(folder / f"{one}.npz").toarray() for one in (DEFAULT, name))
    cosines = (expected * found).sum(1) / np.linalg.norm(expected, axis=1) / np.linalg.norm(found, axis=1)
    return float(np.abs(expected - found).max()), float(cosines.mean())


def main() -> None:
    """Measure every contender and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("sparse", "dense"))
    parser.add_argument("--model", help="a folder of transformers (sparse) or sentence-transformers (dense)")
    parser.add_argument("--architecture", choices=("bert", "modernbert"), default="bert", help="of random weights")
    parser.add_argument("--texts", help="a corpus.jsonl of BEIR")
    parser.add_argument("--documents", type=int, default=64)
    parser.add_argument("--device", choices=BATCHES, default="cpu")
    parser.add_argument("--repeats", type=int, default=2, help="rounds of all contenders; the best of each counts")
    parser.add_argument("--with", dest="runtimes", default="", help="openvino, onnx or both, with a comma")
    parser.add_argument("--without", default="", help="parts of the names of contenders to leave out, with commas")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--system", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.system:
        (given.folder / "answer.json").write_text(json.dumps(measure(given.system, given)))
        return
    contenders = [
        f"sentence-transformers {dtype} {batch}" for dtype in ("float32", "bfloat16") for batch in BATCHES[given.device]
    ]
    contenders += ["lexbench float32", "lexbench bfloat16", *(["lexbench int8"] if given.device == "cpu" else [])]
    contenders += [f"{tool} {dtype}" for tool in filter(None, given.runtimes.split(",")) for dtype in RUNTIMES[tool]]
    left_out = list(filter(None, given.without.split(",")))
    contenders = [one for one in contenders if one == DEFAULT or not any(part in one for part in left_out)]
    with tempfile.TemporaryDirectory() as folder:
        given.folder = Path(folder)
        if not given.model:
            given.model = str(given.folder / "model")
            write_model(given.kind, given.folder / "model", given.architecture)
        rounds = [{name: in_own_process(name, given) for name in contenders} for _ in range(given.repeats)]
        results = {name: min((one[name] for one in rounds), key=lambda found: found["seconds"]) for name in contenders}
        distances = {name: compared(name, given.folder) for name in contenders}
    print(f"{given.documents:,} texts, on {given.device}; ratio, difference and cosine: to {DEFAULT}")
    print(f"{'':34}{'documents/s':>12}{'ratio':>8}{'of rounds':>14}{'MiB':>8}{'difference':>12}{'cosine':>10}")
    for name, found in results.items():
        rate, ratio = given.documents / found["seconds"], results[DEFAULT]["seconds"] / found["seconds"]
        difference, cosine = distances[name]
        each = sorted(one[DEFAULT]["seconds"] / one[name]["seconds"] for one in rounds)
        span = f"{each[0]:.2f} to {each[-1]:.2f}"
        print(f"{name:34}{rate:12,.2f}{ratio:8.2f}{span:>14}{found['mib']:8,.0f}{difference:12.1e}{cosine:10.6f}")
    if given.json:
        asked = {name: getattr(given, name) for name in ("kind", "architecture", "documents", "device", "repeats", "texts")}
        given.json.write_text(json.dumps({**asked, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
