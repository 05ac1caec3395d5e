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
    found = (one for path in sorted(folder.glob("results/*/*.json")) for one in load_system(path).results)
    for one in found:
        if name in one.system:
            command = f"lexbench run suite {one.dataset.partition('/')[0]} -r '{one.system}'"
            span = interval(np.array(one.per_query[MEASURE]))
            measure = f"{MEASURE} of {one.system}"
            yield Score(dataset=one.dataset, measure=measure, value=one.means[MEASURE], command=command, interval=span)


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scores", type=Path, help="a folder of results")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    tensors = safetensors.torch.load((given.trained / "model.safetensors").read_bytes())
    half = {name: tensor.to(torch.float16) for name, tensor in tensors.items()}
    atomic.write_bytes(given.folder / "model.safetensors", safetensors.torch.save(half, {"format": "pt"}))
    for name in COPIED:
        shutil.copyfile(given.trained / name, given.folder / name)
    trained = card.read(given.trained)
    facts = msgspec.structs.replace(
        trained.facts,
        language="en",
        base_model="sentence-transformers/all-MiniLM-L6-v2",
        limits=LIMITS,
        scores=tuple(scores(given.scores, trained.recipe.name)) if given.scores else (),
    )
    card.finish(given.folder, trained.recipe, trained.what, facts)
    print(f"{given.folder}: {(given.folder / 'model.safetensors').stat().st_size / 1e6:.1f} MB of weights")


if __name__ == "__main__":
    main()
