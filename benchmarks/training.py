"""Training: sequences a second of LexMAE's steps against a plain masked-language-model step of transformers, same model.

    python benchmarks/training.py                                   # MiniLM's shape, one thread; a few minutes
    python benchmarks/training.py --shape bert --precision bf16
    python benchmarks/training.py --device cuda --shape bert --batch 256 --precision bf16

Contenders, each in a process of its own, on the same texts, optimiser (AdamW) and precision, without dropout:

    plain        BertForMaskedLM(input_ids, labels).loss, 30 % masked: what transformers does, all logits made
    lexmae       the masked autoencoder: bottleneck, decoder of two layers, both losses
    none         the same without its bottleneck: what pooling costs is the difference
    stage        fine-tuning: 1 relevant document and 3 others a query, in-batch negatives; sequences are documents and queries

`must` is how many times the products of `plain` a method needs by itself: three times a forward pass for what is trained, the
head at masked positions only, and for pooling one projection of all positions (its gradient is one row a word). `cost` is how
many times the time of `plain` it took. The aim is cost <= 1.5 x must. Needs: the extra `train`.
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

SHAPES = {  # layers, width, heads, inner width, words
    "tiny": (2, 64, 2, 128, 2000),
    "minilm": (6, 384, 12, 1536, 30_522),
    "bert": (12, 768, 12, 3072, 30_522),
}
CONTENDERS = ("plain", "lexmae", "none", "stage")
MASKED, MASKED_BY_DECODER, DECODER_LAYERS, DOCUMENTS = 0.3, 0.5, 2, 4


def must(name: str, shape: str) -> float:
    """Return the products of a contender over those of `plain`."""
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
    sizes = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "intermediate_size": inner}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=words, **sizes, **dropout)).train()


def plain(given: argparse.Namespace) -> tuple[Any, Callable[[Any], Any]]:
    """Return transformers' own step."""
    built = model(given.shape)

    def loss(batch: dict[str, Any]) -> Any:
        taken = {"input_ids": batch["encoder_ids"], "labels": batch["encoder_labels"], "attention_mask": batch["real"].long()}
        return built(**taken).loss

    return built, loss


def autoencoder(given: argparse.Namespace, bottleneck: str) -> tuple[Any, Callable[[Any], Any]]:
    """Return the step of pretraining."""
    from lexbench.lexmae.model.autoencoder import MaskedAutoencoder
    from lexbench.lexmae.recipe import Pretrain

    asked = {"corpora": ("none",), "batch_size": given.batch, "learning_rate": 1e-4, "steps": 1}
    built = MaskedAutoencoder(model(given.shape), Pretrain(**asked, bottleneck=bottleneck)).train()
    return built, lambda batch: built(**batch)["loss"]


def stage(given: argparse.Namespace) -> tuple[Any, Callable[[Any], Any]]:
    """Return the step of a stage of fine-tuning."""
    from lexbench.lexmae.recipe import Stage
    from lexbench.lexmae.training.stages.ranking import FineTuner

    asked = {"queries": ("none",), "negatives": "bm25", "depth": 1, "batch_size": 1, "learning_rate": 1e-4, "steps": 1}
    built = FineTuner(model(given.shape), Stage(**asked, lambda_d=0.002, lambda_q=0.0015), 1).train()

    def loss(batch: dict[str, Any]) -> Any:
        texts = {"ids": batch["encoder_ids"], "real": batch["real"], "pools": batch["pools"]}
        queries = {name: tensor[:: DOCUMENTS + 1][: given.batch // (DOCUMENTS + 1)] for name, tensor in texts.items()}
        documents = {name: tensor[: len(queries["ids"]) * DOCUMENTS] for name, tensor in texts.items()}
        return built(queries, documents, 0)["loss"]

    return built, loss


def batches(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return batches of texts of one length, masked."""
    import numpy as np

    from lexbench.lexmae.data.masking import Masking, collate

    words, rng = SHAPES[given.shape][-1], np.random.default_rng(2026)
    masking = Masking(mask_id=4, vocabulary=words, encoder_share=MASKED, decoder_share=MASKED_BY_DECODER)
    made = []
    for _ in range(given.steps + 1):
        texts = rng.integers(5, words, (given.batch, given.length))
        inner = np.ones(given.length, bool)
        inner[[0, -1]] = False
        made.append(collate(0)([(masking(text, inner, rng), inner) for text in texts]))
    return made


def measure(name: str, given: argparse.Namespace) -> dict[str, float]:
    """Return the seconds of a step, the median of several after one that warms up, and the peak memory."""
    import torch

    torch.set_num_threads(given.threads)
    makers = {"plain": plain, "stage": stage, "lexmae": lambda one: autoencoder(one, "softmax")}
    built, loss = makers.get(name, lambda one: autoencoder(one, "none"))(given)
    built.to(given.device)
    optimiser = torch.optim.AdamW(built.parameters(), lr=1e-4, fused=True)
    taken = []
    for batch in batches(given):
        placed = {key: tensor.to(given.device) for key, tensor in batch.items()}
        start = _now(given.device)
        with torch.autocast(given.device, torch.bfloat16, enabled=given.precision == "bf16"):
            value = loss(placed)
        value.backward()
        optimiser.step()
        optimiser.zero_grad()
        taken.append(_now(given.device) - start)
    found = {"seconds": sorted(taken[1:])[len(taken[1:]) // 2]}
    found["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if given.device == "cuda":
        found["gpu_mib"] = torch.cuda.max_memory_allocated() / 2**20
    return found


def _now(device: str) -> float:
    """Return the time: on a processor that which this process computed, which neighbours disturb less."""
    import torch

    if device == "cpu":
        return time.process_time() / torch.get_num_threads() if torch.get_num_threads() > 1 else time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def in_own_process(name: str, given: argparse.Namespace) -> dict[str, float]:
    """Measure a contender in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, __file__, *sys.argv[1:], "--contender", name, "--answer", str(answer)]
        subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": str(given.threads)})
        found: dict[str, float] = json.loads(answer.read_text())
    return found


def main() -> None:
    """Measure all contenders and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="minilm")
    parser.add_argument("--batch", type=int, default=20, help="texts of a step")
    parser.add_argument("--length", type=int, default=128, help="tokens of a text")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1, help="rounds over all contenders; the best of each is kept")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.contender:
        given.answer.write_text(json.dumps(measure(given.contender, given)))
        return
    rounds = [{name: in_own_process(name, given) for name in CONTENDERS} for _ in range(given.repeats)]
    figures = {name: min((one[name] for one in rounds), key=lambda found: found["seconds"]) for name in CONTENDERS}
    print(f"{'':8} {'seq/s':>8} {'cost':>6} {'must':>6} {'cost/must':>9} {'peak MiB':>9}")
    for name, found in figures.items():
        found["cost"], found["must"] = found["seconds"] / figures["plain"]["seconds"], must(name, given.shape)
        found["per_second"] = given.batch / found["seconds"]
        cells = (f"{found['per_second']:8.2f}", f"{found['cost']:6.2f}", f"{found['must']:6.2f}")
        print(f"{name:8}", *cells, f"{found['cost'] / found['must']:9.2f} {found['mib']:9,.0f}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
