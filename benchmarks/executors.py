"""Encoding with workers: one process, two, two workers of Ray on this machine, by turns; documents a second, processor time.

    python benchmarks/executors.py --encoder 'lexmae_nano(threads=1)' --documents 2048 --rounds 3

The documents are those of the embedded pydoc, in shards of 64, so that the last of them holds nobody up. A turn is a process of
its own, on one thread a worker. Its rate is of what is encoded after the first documents are reported; until then processes,
Ray and the model start, which is told apart. Processor time is of everything that a turn started, Ray's own processes too,
looked at four times a second; that of 1,000 documents is from the first report on. "two commands" are two processes, half
of the shards each and nothing between them: what this machine gives at most. Needs: the extras `neural` and `ray`, and Linux.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, NamedTuple

from lexbench.contracts import contract_of
from lexbench.datasets.corpus import open_corpus, write_corpus
from lexbench.datasets.dataset import open_dataset
from lexbench.encodings import shards as shards_
from lexbench.executors import executor
from lexbench.progress import Silent
from lexbench.retrievers.encoded import Encoded
from lexbench.runner import systems

ONE, TWO, RAY, COMMANDS = "processes(1)", "processes(2)", "ray(workers=2)", "two commands"
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "RAYON")}
_MARK = "LEXBENCH_BENCHMARK_TURN"  # an environment variable, by which the processes of a turn are known
_LOOKED = 0.25  # seconds between looks at processes
_TICKS = os.sysconf("SC_CLK_TCK")


class Times(Silent):
    """Progress that keeps when documents were reported, on the clock that all processes share."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.heard: list[tuple[float, int]] = []

    def advance(self, count: int = 1) -> None:
        """Keep the time."""
        self.heard.append((time.monotonic(), count))


def turn(options: argparse.Namespace) -> dict[str, Any]:
    """Encode in this process what is asked for; return when it began and what was heard."""
    shards_.SHARD = options.shard
    corpus = open_corpus(options.corpus)
    retriever = systems.system(f"{options.encoder}@impact").retriever
    assert isinstance(retriever, Encoded)
    number, of = map(int, options.part.split("/"))
    began, progress = time.monotonic(), Times()
    with TemporaryDirectory() as folder:
        shards = shards_.missing(len(corpus), Path(folder))[number::of]
        on = executor(options.turn)
        assert on
        on.encode(retriever.encoder, corpus, Path(folder), shards, progress)
        assert not set(shards) & set(shards_.missing(len(corpus), Path(folder)))
    return {"began": began, "heard": progress.heard}


def measured(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Do one turn in processes of its own; return its rate and its times, as the table has them."""
    parts = [("here", "0/2"), ("here", "1/2")] if name == COMMANDS else [(name, "0/1")]
    settings = ["--encoder", options.encoder, "--shard", str(options.shard), "--corpus", str(options.corpus)]
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    environment = os.environ | _ONE_THREAD | {_MARK: mark}
    with processor_time(f"{_MARK}={mark}") as looks:
        started = [
            subprocess.Popen(
                [sys.executable, __file__, *settings, "--turn", on, "--part", part], stdout=subprocess.PIPE, env=environment
            )
            for on, part in parts
        ]
        answers = [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]
    heard = sorted((at, count) for answer in answers for at, count in answer["heard"])
    first, last = heard[0], heard[-1][0]
    documents = sum(count for _, count in heard)
    at_first = max((look for look in looks if look.at <= first[0]), default=looks[0])
    at_last = min((look for look in looks if look.at >= last), default=looks[-1])
    thousands = (documents - first[1]) / 1000
    return {
        "rate": (documents - first[1]) / (last - first[0]),
        "start": first[0] - min(answer["began"] for answer in answers),
        "user": (at_last.user - at_first.user) / thousands,
        "processor": (at_last.user + at_last.system - at_first.user - at_first.system) / thousands,
        "processor in all": looks[-1].user + looks[-1].system,
    }


class Look(NamedTuple):
    """What the processes of a turn had used of the processor at a time, in seconds."""

    at: float  # by time.monotonic()
    user: float
    system: float


@contextmanager
def processor_time(mark: str) -> Iterator[list[Look]]:
    """Yield what becomes the looks at all processes with *mark* in their environment, those that have ended too.

    Their parents cannot be asked: Ray's do not wait for their children.
    """
    looks: list[Look] = []
    used: dict[int, tuple[float, float]] = {}  # by the number of a process
    strangers: set[int] = set()
    ended = Event()

    def look() -> None:
        for process in {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()} - strangers:
            with suppress(OSError):  # it is gone
                if process not in used and mark.encode() not in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                    if time.time() - Path(f"/proc/{process}").stat().st_ctime > 1:  # until it has become what was started
                        strangers.add(process)
                    continue
                fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
                used[process] = int(fields[11]) / _TICKS, int(fields[12]) / _TICKS
        looks.append(Look(time.monotonic(), *(sum(times) for times in zip((0.0, 0.0), *used.values(), strict=True))))

    def watch() -> None:
        while not ended.wait(_LOOKED):
            look()

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield looks
    finally:
        ended.set()
        watcher.join()


def table(rounds: list[dict[str, dict[str, float]]]) -> None:
    """Print medians over the rounds, with ratios of turns of one round."""
    print("| on | documents/s | of one worker's | start s | user s, processor s for 1,000 documents | processor s in all |")
    print("| :-- | --: | --: | --: | --: | --: |")
    for name in rounds[0]:
        turns = [one[name] for one in rounds]
        middle = {key: median(one[key] for one in turns) for key in turns[0]}
        ratio = median(one[name]["rate"] / one[ONE]["rate"] for one in rounds)
        print(
            f"| {name} | {middle['rate']:.1f} | {ratio:.2f} | {middle['start']:.1f} | "
            f"{middle['user']:.1f}, {middle['processor']:.1f} | {middle['processor in all']:.1f} |"
        )
    for label, key in (("wall time", "rate"), ("user time", "user"), ("processor time", "processor")):
        ratios = [one[RAY][key] / one[TWO][key] for one in rounds]
        overheads = [(1 / ratio if key == "rate" else ratio) - 1 for ratio in ratios]
        print(f"Ray takes {100 * median(overheads):+.1f} % beside two processes in {label}; rounds {spread(overheads)}")


def spread(values: list[float]) -> str:
    """Return percentages, lowest first."""
    return ", ".join(f"{100 * value:+.1f}" for value in sorted(values))


def main() -> None:
    """Measure, or do the one turn that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="lexmae_nano(threads=1)")
    parser.add_argument("--documents", type=int, default=2048)
    parser.add_argument("--shard", type=int, default=64, help="documents of a shard")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--turn", help=argparse.SUPPRESS)
    parser.add_argument("--part", default="0/1", help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turn:
        print(json.dumps(turn(options)))
        return
    with TemporaryDirectory() as folder:
        options.corpus = Path(folder)
        documents = open_dataset(contract_of("pydoc/test")).source.documents()
        write_corpus(islice(documents, options.documents), options.corpus)
        rounds: list[dict[str, dict[str, float]]] = []
        for number in range(options.rounds):
            order = (ONE, TWO, RAY, COMMANDS) if number % 2 == 0 else (COMMANDS, RAY, TWO, ONE)
            load = os.getloadavg()[0]
            done = {name: measured(name, options) for name in order}
            rounds.append({name: done[name] for name in (ONE, TWO, RAY, COMMANDS)})
            rates = ", ".join(f"{name} {done[name]['rate']:.1f}" for name in done)
            print(f"round {number + 1}, load {load:.1f}: {rates}", flush=True)
    table(rounds)
    if options.json:
        options.json.write_text(json.dumps(rounds, indent=1) + "\n")


if __name__ == "__main__":
    main()
