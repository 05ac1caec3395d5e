"""What pretraining is worth: one model, pretrained in several ways for as much processor time each, then fine-tuned alike.

    make build/minilm build/training-texts
    python benchmarks/pretraining.py --minutes 6 --seeds 1 2 3        # some hours on one core; goes on where it was stopped
    python benchmarks/pretraining.py --only longer mlm decoder masks --minutes 3

Ways, all from the initial model of recipes/pretraining.toml:

    none         no pretraining
    longer       no pretraining, and fine-tuning for as much longer as the others pretrain
    mlm          masked-language modelling of the encoder alone
    decoder      LexMAE's encoder and decoder without a bottleneck
    softmax      LexMAE, the paper's bottleneck
    saturated    LexMAE, the bottleneck of the paper's section 4.3
    masks        LexMAE, the bag of words at every mask of the decoder too, which is not the paper's

How many steps the minutes are is measured first, of each way, on this machine, in processor time, which other work beside it
does not change much. Printed are the mean nDCG@10 over the seeds, its standard deviation, and by how much the decoder's loss
grew with another text's bag of words at the end (`usage`). Of all collections but Cranfield the queries are ones that no table
reports. Needs: the extra `train`.
"""

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RECIPE = "pretraining"
COLLECTIONS = ("beir/nfcorpus/dev", "pydoc/dev", "cranfield")
WAYS: dict[str, tuple[str, ...] | None] = {  # settings of pretraining; None: there is none
    "none": None,
    "longer": None,
    "mlm": ("pretrain.decoder_layers=0",),
    "decoder": ("pretrain.bottleneck=none",),
    "softmax": ("pretrain.bottleneck=softmax",),
    "saturated": ("pretrain.bottleneck=saturated",),
    "masks": ("pretrain.bottleneck=softmax", "pretrain.bottleneck_at=masks"),
}
STEPS = 100  # of fine-tuning, as the recipe has them
TRIALS = (2, 10)  # steps of two trainings whose difference is a step's time; one before them fills the store


def lexbench(*arguments: str) -> str:
    """Run lexbench, its progress shown; return what it prints."""
    command = [sys.executable, "-m", "lexbench", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def train(kind: str, output: Path, settings: Sequence[str]) -> Path:
    """Do one task of the recipe with *settings*, unless it is done; return the folder of the model that it is about."""
    command = ["train", kind, RECIPE, *([] if kind == "pretrain" else ["--stage", "1"]), "--output", str(output)]
    lexbench(*command, *(f"--set={setting}" for setting in settings))
    return output / ("pretrained" if kind == "pretrain" else "stage1")


def facts(folder: Path) -> dict[str, Any]:
    """Return the facts of a training."""
    table: dict[str, Any] = json.loads((folder / "training.json").read_bytes())["facts"]
    return table


def seconds_a_step(kind: str, folder: Path, settings: Sequence[str]) -> float:
    """Return the processor time that a step takes; it is measured once, and kept in *folder*."""
    kept = folder / f"{kind}.json"
    if not kept.is_file():
        section = "pretrain" if kind == "pretrain" else "stage1"
        train(kind, folder / "first", [*settings, f"{section}.steps=1"])
        spent = []
        for steps in TRIALS:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            train(kind, folder / str(steps), [*settings, f"{section}.steps={steps}"])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        kept.write_text(json.dumps((spent[1] - spent[0]) / (TRIALS[1] - TRIALS[0])))
    return float(json.loads(kept.read_text()))


def mine(output: Path, settings: Sequence[str], seed: int, root: Path) -> None:
    """Mine negatives and the teacher's scores; they are the same for all ways of one seed, so those of the first are copied."""
    mined = root / f"negatives-{seed}"
    if mined.is_dir() and not (output / "negatives").is_dir():
        shutil.copytree(mined, output / "negatives")
    train("mine", output, settings)  # looks only, where they are there
    if not mined.is_dir():
        shutil.copytree(output / "negatives", mined)


def train_model(way: str, seed: int, seconds: float, root: Path) -> Path:
    """Train the model of one *way* and *seed*, unless that is done; return the folder of all that belongs to it."""
    output, settings = root / f"{way}-{seed}", [f"seed={seed}", *(WAYS[way] or ("stage1.start=start",))]
    if (output / "stage1" / "training.json").is_file():  # the commands below would look through all queries first
        return output
    if WAYS[way] is not None:
        steps = round(seconds / seconds_a_step("pretrain", root / f"trial-{way}", settings))
        settings.append(f"pretrain.steps={steps}")
        train("pretrain", output, settings)
    elif way == "longer":
        trial = root / "trial-longer"
        if not (trial / "finetune.json").is_file():  # else it was measured with another seed, and its folders are that one's
            for name in ("first", *map(str, TRIALS)):
                mine(trial / name, settings, seed, root)
        more = round(seconds / seconds_a_step("finetune", trial, settings))
        settings.append(f"stage1.steps={STEPS + more}")
    mine(output, settings, seed, root)
    train("finetune", output, settings)
    return output


def usage(output: Path) -> float | None:
    """Return the usage of the bottleneck at the end of pretraining; None where there was none to use."""
    pretrained = output / "pretrained"
    losses = facts(pretrained)["losses"] if pretrained.is_dir() else []
    return next((loss["last"] for loss in losses if loss["name"] == "usage"), None)


def scores(folder: Path) -> dict[str, float]:
    """Return nDCG@10 on each collection of the model that belongs to *folder*."""
    system = f'sparse_mlm(model="{folder / "stage1"}", dtype="bfloat16")@impact'
    values = {}
    for collection in COLLECTIONS:
        (result,) = json.loads(lexbench("run", "dataset", collection, "-r", system, "-m", "nDCG@10", "--json"))["results"]
        values[collection] = float(result["means"]["nDCG@10"])
    return values


def main() -> None:
    """Train, evaluate, and print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=6.0, help="of pretraining, of each way")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--root", type=Path, default=Path("build/pretraining"))
    options = parser.parse_args()
    folders = {
        (way, seed): train_model(way, seed, 60 * options.minutes, options.root)
        for seed in options.seeds
        for way in options.only
    }
    values = {key: scores(folder) for key, folder in folders.items()}
    print(f"{'':10s}" + "".join(f"{name:>20s}" for name in (*COLLECTIONS, "usage")))
    for way in options.only:
        cells = []
        for collection in COLLECTIONS:
            each = [values[way, seed][collection] for seed in options.seeds]
            deviation = f" ± {statistics.stdev(each):.4f}" if len(each) > 1 else ""
            cells.append(f"{statistics.mean(each):.4f}{deviation}")
        used = [value for seed in options.seeds if (value := usage(folders[way, seed])) is not None]
        cells.append(f"{statistics.mean(used):.4f}" if used else "")
        print(f"{way:10s}" + "".join(f"{cell:>20s}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
