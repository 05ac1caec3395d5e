"""Draw the losses of pretrainings, as a figure of the LexMAE paper does: the encoder's and the decoder's, one line a model.

    python tools/loss_curves.py docs/pretraining-losses.svg softmax=build/lexmae-minilm/pretrained none=build/none/pretrained

Each line is the mean over the last *window* logged steps. Needs matplotlib. The file is the same for the same losses.
"""

import argparse
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

LOSSES = ("encoder_loss", "decoder_loss")


def curves(folder: Path, name: str, window: int) -> tuple[list[float], list[float]]:
    """Return steps and smoothed losses of the log in a model's folder."""
    lines = [json.loads(line) for line in (folder / "losses.jsonl").read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if name in line]
    values = [float(np.mean([line[name] for line in lines[max(0, at - window + 1) : at + 1]])) for at in range(len(lines))]
    return [line["step"] for line in lines], values


def drawn(models: dict[str, Path], window: int) -> Figure:
    """Return the figure."""
    figure, axes = plt.subplots(1, len(LOSSES), figsize=(9, 3.6), layout="constrained")
    for axis, loss in zip(axes, LOSSES, strict=True):
        for label, folder in models.items():
            axis.plot(*curves(folder, loss, window), label=label)
        axis.set(title=loss.replace("_", " "), xlabel="step", ylabel="cross-entropy, nats")
        axis.grid(alpha=0.3)
    axes[0].legend(title="bottleneck")
    return figure


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("models", nargs="+", metavar="LABEL=FOLDER")
    parser.add_argument("--window", type=int, default=5)
    options = parser.parse_args()
    mpl.use("svg" if options.picture.suffix == ".svg" else "agg")
    mpl.rcParams["svg.hashsalt"] = "lexbench"
    models = {label: Path(folder) for label, _, folder in (pair.partition("=") for pair in options.models)}
    metadata = {"Date": None} if options.picture.suffix == ".svg" else None
    drawn(models, options.window).savefig(options.picture, metadata=metadata)


if __name__ == "__main__":
    main()
