"""Random kills of workers, machines and commands on Ray: the bytes are those of a serial run, and little is done twice.

make test-cluster KILLS=50 SEED=1
"""

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from staged import Letters, contents, encode

from lexbench.datasets.corpus import write_corpus
from lexbench.encodings.shards import SHARD
from lexbench.executors._workers import MOST_SHARDS
from lexbench.types import Document

KILLS, SEED = int(os.environ.get("LEXBENCH_KILLS") or 6), int(os.environ.get("LEXBENCH_SEED") or 1)
SHARDS, WORKERS = 10, 2
SECONDS = 0.4  # per shard, at least
IN_FLIGHT = {
    "worker": MOST_SHARDS,
    "machine": MOST_SHARDS,
    "command": WORKERS * MOST_SHARDS,
}  # the most shards at a time, by what is killed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray: pip install 'lexbench[ray]'"),
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Write a corpus whose texts begin with their position."""
    count = SHARDS * SHARD
    documents = (Document(f"{count - 1 - at:06d}", f"{at} {'abcde'[at % 5]}") for at in range(count))
    return write_corpus(documents, tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def serial(corpus, tmp_path_factory):
    """Return the files of a serial run."""
    folder = tmp_path_factory.mktemp("serial")
    encode(Letters(), corpus, folder)
    return contents(folder)


class Command:
    """The encoding command, in its own process, and the shards that its workers have begun."""

    def __init__(self, cluster, corpus, folder):
        self.log = folder.with_suffix(".log")
        self.log.touch()
        self._arguments = [cluster.address, corpus.path, folder, self.log, SECONDS / SHARD]
        self.process = self.start()

    def start(self):
        """Start it, for the first time or again."""
        program = [sys.executable, Path(__file__).with_name("ray_command.py"), *self._arguments]
        self.process = subprocess.Popen(
            [str(part) for part in program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return self.process

    def end(self):
        """Wait for its end, with exit status 0; return its output and that of Ray."""
        said, _ = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, said
        return said

    def begun(self):
        """Return (process, first position) of each shard that a worker began, in order."""
        lines = [line.split(" ") for line in self.log.read_text().splitlines()]
        return [(int(process), int(first)) for process, _texts, first, *_ in lines]

    def wait_for(self, shards):
        """Wait until so many shards have been begun; return whether the command still runs."""
        while len(self.begun()) < shards and self.process.poll() is None:
            time.sleep(0.02)
        return self.process.poll() is None


def kill(target, command, cluster, chance):
    """Kill a worker, the command, or one of the two machines with all that runs on it."""
    if target == "command":
        command.process.kill()
        command.process.communicate()
        command.start()
    elif target == "machine":
        gone, cluster.second = cluster.second, None
        cluster.remove_node(gone, allow_graceful=False)
        cluster.second = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    else:
        workers = {process for process, _ in command.begun()}
        alive = sorted(process for process in workers if Path(f"/proc/{process}").exists())
        os.kill(chance.choice(alive), signal.SIGKILL)


@pytest.mark.parametrize("trial", range(KILLS))
def test_a_kill_changes_no_byte(trial, two_raylets, corpus, serial, tmp_path, capsys):
    """A worker or the command, and each tenth time a machine, is killed at a random moment; only its shards are redone."""
    chance = random.Random(SEED * 1000 + trial)
    target = "machine" if trial % 10 == 4 else ("worker", "command")[trial % 2]
    if two_raylets.second is None:  # on a busy machine a new one may need more than the 30 seconds that Ray waits
        two_raylets.second = two_raylets.add_node(num_cpus=1, object_store_memory=80 << 20)
    (tmp_path / "vectors").mkdir()
    command = Command(two_raylets, corpus, tmp_path / "vectors")
    assert command.wait_for(chance.randint(1, SHARDS - 1)), command.end()
    time.sleep(chance.random() * SECONDS)
    kill(target, command, two_raylets, chance)
    said = command.end()
    times = Counter(first for _, first in command.begun())
    again = sum(times.values()) - SHARDS
    with capsys.disabled():
        print(f"seed {SEED}, kill {trial} of a {target}: {again} of {SHARDS} shards begun again")  # noqa: T201 - for the campaign

    assert said == "", "stdout is for the answers of commands"
    assert contents(tmp_path / "vectors") == serial
    assert len(times) == SHARDS
    assert again <= IN_FLIGHT[target]
