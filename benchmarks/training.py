"""Training: sequences per second of LexMAE's steps, next to a plain masked-language-model step of transformers.

    python benchmarks/training.py                                   # MiniLM's shape, one thread; a few minutes
    python benchmarks/training.py --shape bert --precision bf16
    python benchmarks/training.py --device cuda --shape bert --batch 256 --precision bf16

Candidates, each in its own process, on the same texts, with the same optimiser (AdamW) and precision, without dropout:

    plain        BertForMaskedLM(input_ids, labels).loss, 30 % masked, with all logits
    lexmae       the masked autoencoder: bottleneck, decoder of two layers, both losses
    none         the same without the bottleneck, to see the cost of pooling
    stage        fine-tuning: 1 relevant document and 3 others per query, in-batch negatives; documents and queries are counted

`needed` are the matrix products of a method relative to `plain`: three forward passes of all trained parts, the head at masked
positions only, and for pooling one projection of all positions. `cost` is the time relative to `plain`. Needs: the extra
`train`.
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

SHAPES = {  # layers, width, heads, inner width, words
    "tiny": (2, 64, 2, 128, 2000),
    "minilm": (6, 384, 12, 1536, 30_522),
    "bert": (12, 768, 12, 3072, 30_522),
}
CANDIDATES = ("plain", "lexmae", "none", "stage")
MASKED, MASKED_BY_DECODER, DECODER_LAYERS, DOCUMENTS = 0.3, 0.5, 2, 4


def needed(name: str, shape: str) -> float:
    """Return the matrix products of a candidate relative to `plain`."""
    layers, width, _, inner, words = SHAPES[shape]
    layer, head = 4 * width**2 + 2 * width * inner, width * words
    needs = {
        "plain": 3 * (layers * layer + head),
        "none": 3 * ((layers + DECODER_LAYERS) * layer + (MASKED + MASKED_BY_DECODER) * head),
        "lexmae": 3 * ((layers + DECODER_LAYERS) * layer + (MASKED + MASKED_BY_DECODER) * head) + head,
        "stage": 3 * layers * layer + head,
    }
    return needs[name] / needs["plain"]


def model(shape: str) -> Any:
    """Return a BertForMaskedLM with random weights and no dropout."""
    import torch
    import transformers

    torch.manual_seed(2026)
    layers, width, heads, inner, words = SHAPES[shape]
    sizes: dict[str, Any] = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
    sizes |= {"intermediate_size": inner, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=words, **sizes)).train()


def plain(options: argparse.Namespace) -> tuple[Any, Callable[[Any], Any]]:
    """Return transformers' own step."""
    built = model(options.shape)

    def loss(batch: dict[str, Any]) -> Any:
        taken = {"input_ids": batch["encoder_ids"], "labels": batch["encoder_labels"], "attention_mask": batch["real"].long()}
        return built(**taken).loss

    return built, loss


def pretraining(**settings: Any) -> Any:
    """Return the settings of pretraining."""
    from lexbench.lexmae.recipe.settings import Pretrain

    return Pretrain(corpora=("none",), batch_size=1, learning_rate=1e-4, steps=1, **settings)


def autoencoder(options: argparse.Namespace, bottleneck: str) -> tuple[Any, Callable[[Any], Any]]:
    """Return the step of pretraining."""
    from lexbench.lexmae.model.autoencoder import MaskedAutoencoder

    built = MaskedAutoencoder(model(options.shape), pretraining(bottleneck=bottleneck)).train()
    return built, lambda batch: built(**batch)["loss"]


def stage(options: argparse.Namespace) -> tuple[Any, Callable[[Any], Any]]:
    """Return the step of a stage of fine-tuning."""
    import torch

    from lexbench.lexmae.model.encoder import LexiconEncoder
    from lexbench.lexmae.recipe.settings import Stage
    from lexbench.lexmae.training.finetune import FineTuner

    rates = {"learning_rate": 1e-4, "lambda_d": 0.002, "lambda_q": 0.0015}
    settings = Stage(queries=("none",), negatives="bm25", depth=1, batch_size=1, steps=1, **rates)  # type: ignore[arg-type] # rates
    built = FineTuner(LexiconEncoder(model(options.shape)), settings, 1).train()

    def loss(batch: dict[str, Any]) -> Any:
        texts = {"ids": batch["encoder_ids"], "real": batch["real"], "pools": batch["pools"]}
        queries = {name: tensor[:: DOCUMENTS + 1][: options.batch // (DOCUMENTS + 1)] for name, tensor in texts.items()}
        documents = {name: tensor[: len(queries["ids"]) * DOCUMENTS] for name, tensor in texts.items()}
        numbered = (("queries", queries), ("documents", documents))
        keys = {name: torch.arange(len(texts["ids"]), device=options.device) for name, texts in numbered}
        return built(queries, documents, 0, keys)["loss"]

    return built, loss


def batches(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return batches of texts of one length, masked."""
    import numpy as np

    from lexbench.lexmae.data.masking import Masking, collate

    words, rng = SHAPES[options.shape][-1], np.random.default_rng(2026)
    masking = Masking(pretraining(encoder_share=MASKED, decoder_share=MASKED_BY_DECODER), 4, words)
    masked = []
    for _ in range(options.steps + 1):
        texts = rng.integers(5, words, (options.batch, options.length))
        inner = np.ones(options.length, bool)
        inner[[0, -1]] = False
        masked.append(collate(0)([(masking(text, inner, rng), inner) for text in texts]))
    return masked


def measure(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Return the median seconds of a step, after a first one that does not count, and the peak memory."""
    import torch

    torch.set_num_threads(options.threads)
    if name in ("plain", "stage"):
        built, loss = (plain if name == "plain" else stage)(options)
    else:
        built, loss = autoencoder(options, "softmax" if name == "lexmae" else "none")
    built.to(options.device)
    optimiser: Any = torch.optim.AdamW(built.parameters(), lr=1e-4, fused=True)
    taken = []
    for batch in batches(options):
        placed = {key: tensor.to(options.device) for key, tensor in batch.items()}
        start = _now(options.device)
        with torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bf16"):
            value = loss(placed)
        value.backward()
        optimiser.step()
        optimiser.zero_grad()
        taken.append(_now(options.device) - start)
    costs = {"seconds": sorted(taken[1:])[len(taken[1:]) // 2]}
    costs["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if options.device == "cuda":
        costs["gpu_mib"] = torch.cuda.max_memory_allocated() / 2**20
    return costs


def _now(device: str) -> float:
    """Return the time; on a CPU the processor time of this process, which other work disturbs less."""
    import torch

    if device == "cpu":
        return time.process_time() / torch.get_num_threads() if torch.get_num_threads() > 1 else time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def in_own_process(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Measure a candidate in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, __file__, *sys.argv[1:], "--candidate", name, "--answer", str(answer)]
        _child.run(command, env=os.environ | {"OMP_NUM_THREADS": str(options.threads)}, shown=True)
        costs: dict[str, float] = json.loads(answer.read_text())
    return costs


def main() -> None:
    """Measure all candidates and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="minilm")
    parser.add_argument("--batch", type=int, default=20, help="texts of a step")
    parser.add_argument("--length", type=int, default=128, help="tokens of a text")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1, help="rounds over all candidates; the best of each is kept")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--candidate", choices=CANDIDATES, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.candidate:
        options.answer.write_text(json.dumps(measure(options.candidate, options)))
        return
    rounds = [{name: in_own_process(name, options) for name in CANDIDATES} for _ in range(options.repeats)]
    figures = {name: min((costs[name] for costs in rounds), key=lambda costs: costs["seconds"]) for name in CANDIDATES}
    print(f"{'':8} {'seq/s':>8} {'cost':>6} {'needed':>6} {'cost/needed':>9} {'peak MiB':>9}")
    for name, costs in figures.items():
        costs["cost"], costs["needed"] = costs["seconds"] / figures["plain"]["seconds"], needed(name, options.shape)
        costs["per_second"] = options.batch / costs["seconds"]
        cells = (f"{costs['per_second']:8.2f}", f"{costs['cost']:6.2f}", f"{costs['needed']:6.2f}")
        print(f"{name:8}", *cells, f"{costs['cost'] / costs['needed']:9.2f} {costs['mib']:9,.0f}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
