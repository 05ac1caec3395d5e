"""How the sparse engines slow down as a collection of real vectors grows, and what that says about a larger one.

    python benchmarks/scale.py STORE/encodings/A STORE/encodings/B --queries FILE --encoder 'splade_tiny(dtype="bfloat16")' \
        --folder FOLDER --sizes 125000,250000,500000,1000000

For each size it takes that many random documents of the stored encodings, quantises them to 8 bits and orders them by
recursive graph bisection, which all engines get alike. FILE has a query per line. `engines.py` measures each size; its
indexes and figures stay in FOLDER/SIZE and are not made again. Then it prints milliseconds per query of each engine, and fits
them by a power of the number of documents: ordinary least squares of the logarithms. Brackets are 95 % intervals by Student's
t; at --target they are prediction intervals. They take the power law for granted.
"""

import argparse
import json
import sys
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any

import _child
import numpy as np
from _order import bisected
from numpy.typing import NDArray
from scipy import stats

from lexbench import catalog, registry
from lexbench.arrays.vectors import stacked
from lexbench.encodings.shards import Encodings, write_shard
from lexbench.notation import parse
from lexbench.transforms.quantize import Quantize

ENGINES = "impact,lucene,pisa,seismic,bmp32,bmp8"
PEERS = ("bmp", "pyseismic-lsr", "pyterrier-pisa", "lexbench")
DEPTHS = (10, 1000)
ROWS = 50_000  # documents of a file
WHOLE = Quantize(100, bits=8)


def prepare(given: argparse.Namespace, size: int, folder: Path) -> None:
    """Write *size* ordered documents and the queries into *folder*, unless they are there."""
    if (folder / "queries.safetensors").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    sources = [Encodings(path) for path in given.encodings]
    shards = [WHOLE.document(shard) for source in sources for shard in source.shards()]
    ends = list(accumulate(shard.shape[0] for shard in shards))
    chosen = np.sort(np.random.default_rng(1).permutation(ends[-1])[:size])  # of a smaller size: among those of a larger one
    parts = np.split(chosen, np.searchsorted(chosen, ends)[:-1])
    documents = stacked([shard[rows - end + shard.shape[0]] for shard, rows, end in zip(shards, parts, ends, strict=True)])
    del shards
    if documents.shape[0] < size:
        sys.exit(f"the encodings have {documents.shape[0]:,} documents; give --sizes up to that")
    documents = documents[bisected(documents)]
    for number, first in enumerate(range(0, size, ROWS)):
        write_shard(folder / f"shard-{number:05d}.safetensors", documents[first : first + ROWS])
    texts = given.queries.read_text(encoding="utf-8").splitlines()
    vectors = registry.create("encoders", catalog.expand(parse(given.encoder).head)).encode_query(texts)
    write_shard(folder / "queries.safetensors", WHOLE.query(vectors))


def fit(sizes: NDArray[np.float64], values: NDArray[np.float64], target: float) -> tuple[list[float], list[float]]:
    """Return the exponent and the value at *target* of a power law, each with its 95 % interval: (estimate, low, high)."""
    x, y = np.log(sizes), np.log(values)
    line = stats.linregress(x, y)
    free = len(x) - 2
    spread = np.sqrt(((y - line.intercept - line.slope * x) ** 2).sum() / free)
    at, t = np.log(target), stats.t.ppf(0.975, free)
    error = spread * np.sqrt(1 + 1 / len(x) + (at - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum())
    guess = line.intercept + line.slope * at
    slopes = [line.slope + sign * t * line.stderr for sign in (0, -1, 1)]
    return slopes, [float(np.exp(guess + sign * t * error)) for sign in (0, -1, 1)]


def report(figures: dict[int, dict[str, Any]], target: int) -> str:
    """Return the table of all sizes with the fits, in Markdown; `lead` is time relative to the first engine's at *target*."""
    sizes = np.array(list(figures), float)
    rows = {(row["engine"], row["k"], size): row for size, figure in figures.items() for row in figure["rows"]}
    engines = dict.fromkeys(engine for engine, *_ in rows)
    columns = ["", *(f"{size:,.0f}" for size in sizes), "overlap", "bytes/posting", "N^a", f"{target:,}", "lead there"]
    lines = [f"| {' | '.join(columns)} |", f"| :-- |{' --: |' * (len(columns) - 1)}"]
    for k in DEPTHS:
        times = {engine: np.array([1e3 / rows[engine, k, size]["qps"] for size in figures]) for engine in engines}
        base = next(iter(times.values()))
        for engine, values in times.items():
            last = rows[engine, k, max(figures)]
            slope, there = fit(sizes, values, target)
            lead = fit(sizes, values / base, target)[1]
            cells = [f"{engine}, k = {k}", *(f"{value:.3g}" for value in values)]
            cells += ["exact" if last["exact"] else f"{last['overlap']:.3f}", f"{last['bytes_per_posting']:.2f}"]
            cells += [f"{slope[0]:.2f} [{slope[1]:.2f}, {slope[2]:.2f}]"]
            cells += [f"{value[0]:.3g} [{value[1]:.2g}, {value[2]:.2g}]" for value in (there, lead)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Prepare and measure each size, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encodings", nargs="+", type=Path, help="folders of stored sparse encodings")
    parser.add_argument("--queries", type=Path, required=True, help="file with a query per line")
    parser.add_argument(
        "--encoder", required=True, help="an encoder or published model for the queries, in lexbench's notation"
    )
    parser.add_argument("--folder", type=Path, required=True, help="vectors, indexes and figures stay here")
    parser.add_argument("--sizes", default="125000,250000,500000,1000000")
    parser.add_argument("--target", type=int, default=8_841_823, help="size of the extrapolation (default: MS MARCO's)")
    parser.add_argument("--engines", default=ENGINES)
    parser.add_argument("--options", default="--queries 200 --repeats 2 --warm-up 2", help="other options of engines.py")
    given = parser.parse_args()
    figures = {}
    for size in map(int, given.sizes.split(",")):
        folder = given.folder / str(size)
        prepare(given, size, folder)
        command = [sys.executable, Path(__file__).with_name("engines.py"), "--vectors", folder, "--folder", folder]
        command += ["--engines", given.engines, "--json", folder / "figures.json", *given.options.split()]
        if not (folder / "figures.json").exists():
            _child.run(command, shown=True)
        if (folder / "figures.json").exists():  # not with --rounds 0
            figures[size] = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    print(", ".join(f"{peer} {version(peer)}" for peer in PEERS))
    if len(figures) > 2:
        print(report(figures, given.target))


if __name__ == "__main__":
    main()
