"""Put a trained model into the package: its weights in half precision, and its scores on its card.

    python tools/package_nano.py build/lexmae_nano/stage3 lexbench/catalog/lexmae_nano
    lexbench run suite pydoc -r bm25 -r 'lexmae_nano@impact' -r 'ensemble(bm25, lexmae_nano@impact)' --results build/demo
    python tools/package_nano.py build/lexmae_nano/stage3 lexbench/catalog/lexmae_nano --scores build/demo

The second call writes the scores of the packaged weights, with bootstrap intervals over queries, on their card.
"""

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import safetensors.torch
import torch

from lexbench.analysis.significance.bootstrap import interval
from lexbench.lexmae.cards import card
from lexbench.lexmae.cards.facts import Score
from lexbench.results import load_system
from lexbench.storage import atomic

COPIED = ("config.json", "tokenizer.json", "tokenizer_config.json")
MEASURE = "nDCG@10"
LIMITS = (
    "It is small: two layers, 6,000 word pieces. It is for seeing LexMAE at work on any machine, and not for use elsewhere.",
    "It knows English docstrings. On other texts it was not tried.",
    "It reads the first 128 word pieces of a document.",
)


def scores(folder: Path, name: str) -> Iterator[Score]:
    """Yield the scores of all systems in *folder* that the model *name* is a part of."""
    results = (result for path in sorted(folder.glob("results/*/*.json")) for result in load_system(path).results)
    for result in results:
        if name in result.system:
            command = f"lexbench run suite {result.dataset.partition('/')[0]} -r '{result.system}'"
            span = interval(np.array(result.per_query[MEASURE]))
            measure, value = f"{MEASURE} of {result.system}", result.means[MEASURE]
            yield Score(dataset=result.dataset, measure=measure, value=value, command=command, interval=span)


def main() -> None:
    """Write the folder of the package."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scores", type=Path, help="a folder of results")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    tensors = safetensors.torch.load((options.trained / "model.safetensors").read_bytes())
    half = {name: tensor.to(torch.float16) for name, tensor in tensors.items()}
    atomic.write_bytes(options.folder / "model.safetensors", safetensors.torch.save(half, {"format": "pt"}))
    for name in COPIED:
        shutil.copyfile(options.trained / name, options.folder / name)
    trained = card.read(options.trained)
    facts = msgspec.structs.replace(
        trained.facts,
        language="en",
        base_model="sentence-transformers/all-MiniLM-L6-v2",
        limits=LIMITS,
        scores=tuple(scores(options.scores, trained.recipe.name)) if options.scores else (),
    )
    card.finish(options.folder, trained.recipe, trained.what, facts)
    print(f"{options.folder}: {(options.folder / 'model.safetensors').stat().st_size / 1e6:.1f} MB of weights")


if __name__ == "__main__":
    main()
