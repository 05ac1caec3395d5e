"""Before the first line of an answer: what commands cost that have nothing left to compute, each in a process of its own.

    python benchmarks/startup.py
    python benchmarks/startup.py --repeats 3 --store FOLDER    # a store to keep, so that only the first run indexes

Suite pydoc and two settings of `bm25`, which are run first. For each command the least of some repeats: seconds of the
processor, the start of Python among them, and by the clock. `leaderboard --check` reads the results that the repository has.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SYSTEMS = ["bm25", "bm25(k1=1.2, b=0.75)"]
RUN = ["run", "suite", "pydoc", *(word for system in SYSTEMS for word in ("-r", system))]
COMMANDS = [
    ["--help"],
    RUN,
    ["compare", *SYSTEMS, "-d", "pydoc/test"],
    ["leaderboard", "--check"],
    ["list", "datasets"],
    ["list", "results"],
    ["show", "dataset", "pydoc/test"],
]


def seconds(arguments: list[str], store: str) -> tuple[float, float]:
    """Run lexbench with *arguments*; return the seconds of the processor, and by the clock."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "lexbench", *arguments]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "LEXBENCH_STORE": store})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.perf_counter() - start


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--store", type=Path, help="default: a new one, which is removed again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = str(given.store or folder)
        seconds(RUN, store)
        for command in COMMANDS:
            spent, clock = map(min, zip(*(seconds(command, store) for _ in range(given.repeats)), strict=True))
            print(f"{spent:6.2f} s of the processor, {clock:6.2f} s by the clock: lexbench {' '.join(command)}", flush=True)


if __name__ == "__main__":
    main()
