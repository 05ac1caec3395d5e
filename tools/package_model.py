"""Put a trained model into a package: weights in half precision, and scores on its card.

    python tools/package_model.py build/lexmae_nano/imitated lexbench/catalog/lexmae_nano
    lexbench run suite pydoc -r bm25 -r 'lexmae_nano@impact' -r 'ensemble(bm25, lexmae_nano@impact)' --results build/board
    python tools/package_model.py build/lexmae_nano/imitated lexbench/catalog/lexmae_nano --scores build/board

The second call adds the scores of the packaged weights to the card, with bootstrap intervals over queries. --root names the
folder that absolute paths in the recipe become relative to.
"""

import argparse
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import safetensors.torch
import torch

from lexbench.analysis.significance.bootstrap import interval
from lexbench.lexmae import card
from lexbench.lexmae.card import CardScore, SeenCollection, TrainingRecord
from lexbench.models.checkpoint import IDF, QUERY_EXPANSIONS
from lexbench.models.stated_settings import EXACT_TERMS_FILE, TEXT_HEAD_FILE
from lexbench.results import SystemResults, load
from lexbench.storage import atomic

COPIED = ("config.json", "tokenizer.json", "tokenizer_config.json")
MEASURE = "nDCG@10"
_MINILM = "sentence-transformers/all-MiniLM-L6-v2"
HUB_NAMES = {
    "build/splade-tiny": "rasyosef/splade-tiny",
    "build/minilm": _MINILM,
    "models/lexmae_mini/lexmae_mini/lexmae_mini": _MINILM,
}
TAUGHT = {
    "lexmae_nano": "It learned to rank texts as splade-tiny and all-MiniLM-L6-v2 rank them together, without judges.",
    "lexmae_mini": "It learned splade-tiny's predictions and all-MiniLM-L6-v2's vectors of single texts, and no ranking. "
    "The development collections chose its seed among three.",
    "lexmae_doc": "It is trained from lexmae_mini, which has read half of the passages that are judged for TREC DL 2019 and "
    "2020, so these are no tests on unseen passages. It was trained once, for 1,100 steps.",
}
LIMITS = (
    "Exact terms, collection idf and text heads are additions to the paper's model.",
    "It knows English: scientific abstracts, nutrition, short web passages, and texts about software.",
)
CHOSE = "chose settings of queries, of training and of the added terms"
DEVELOPMENT = tuple(  # the collections of tools/development.py
    SeenCollection(dataset=name, use="selection", counts={"queries": queries}, note=CHOSE)
    for name, queries in {
        "CACM": 52, "CISI": 76, "MED": 30, "cranfield": 225, "msmarco-passage-v2/trec-dl-2021/judged": 53, "TREC QA dev": 81,
        "beir/scifact/train": 809, "beir/nfcorpus/dev": 324, "pydoc/dev": 50,
    }.items()
)  # fmt: skip


def scores(folder: Path, name: str) -> Iterator[CardScore]:
    """Yield the scores of all systems in *folder* that use the model *name* with all its terms."""
    paths = sorted(folder.glob("results/*/*.json"))
    for suite, result in [(path.parent.name, result) for path in paths for result in load(path, SystemResults).results]:
        expression = result.expression or result.system
        if name in expression and "top_k" not in expression:
            command = f"lexbench run suite {suite} -d {result.dataset} -r '{expression}'"
            span = interval(np.array(result.per_query[MEASURE]))
            measure, value = f"{MEASURE} of {expression}", result.means[MEASURE]
            yield CardScore(dataset=result.dataset, measure=measure, value=value, command=command, interval=span)


def relative(training: TrainingRecord, roots: Sequence[str]) -> TrainingRecord:
    """Return the record of a training with paths below *roots* made relative."""
    text = msgspec.json.encode(training).decode()
    for root in roots:
        text = text.replace(root.rstrip("/") + "/", "")
    return msgspec.json.decode(text, type=TrainingRecord)


def main() -> None:
    """Write the package folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trained", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scores", type=Path, help="a folder of results")
    parser.add_argument("--root", default=[], action="append", help="a folder that the recipe's paths become relative to")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    tensors = safetensors.torch.load((options.trained / "model.safetensors").read_bytes())
    half = {name: tensor.to(torch.float16) for name, tensor in tensors.items()}
    atomic.write_bytes(options.folder / "model.safetensors", safetensors.torch.save(half, {"format": "pt"}))
    heads = [name for name in (EXACT_TERMS_FILE, TEXT_HEAD_FILE, IDF, QUERY_EXPANSIONS) if (options.trained / name).is_file()]
    for name in (*COPIED, *heads):
        shutil.copyfile(options.trained / name, options.folder / name)
    trained = relative(card.read(options.trained), options.root)
    recipe = trained.recipe
    named = [section.model for section in (recipe.start, recipe.imitation, recipe.ranking) if section]
    facts = msgspec.structs.replace(
        trained.facts,
        data=(*trained.facts.data, *(row for row in DEVELOPMENT if row not in trained.facts.data)),
        language="en",
        hub_names={model: HUB_NAMES[model] for model in named if model in HUB_NAMES},
        limits=tuple(filter(None, (TAUGHT.get(recipe.name), *LIMITS, *trained.facts.limits))),
        scores=tuple(scores(options.scores, recipe.name)) if options.scores else (),
    )
    card.finish(options.folder, recipe, trained.what, facts)
    print(f"{options.folder}: {(options.folder / 'model.safetensors').stat().st_size / 1e6:.1f} MB of weights")


if __name__ == "__main__":
    main()
