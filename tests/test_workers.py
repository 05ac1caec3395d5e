"""Executors: their names, the search for a culprit, and cluster tests beyond those in tests/contracts."""

import importlib.util
import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import tiny
from staged import Letters, RecordedProgress, contents, encode
from workbench import needs_ray

from lexbench.encodings import shards as format_
from lexbench.encodings.encoding import culprit
from lexbench.errors import CannotStart, LexbenchError, MissingExtra
from lexbench.executors import executor, suited
from lexbench.executors._workers import MOST_SHARDS
from lexbench.executors.here import Here
from lexbench.executors.processes import Processes
from lexbench.testing._letters import Sum

TEXTS = ["a b", "", "a", "b b", "d", "c a", "e e e e", "a e", "b", "c c"]  # the "d" is at position 5, its id is "4"


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    """Make shards of three documents."""
    monkeypatch.setattr(format_, "SHARD", 3)


@pytest.fixture
def corpus(tmp_path):
    """Write a corpus of ten documents."""
    return tiny.corpus(tmp_path / "corpus", {str(i): text for i, text in enumerate(TEXTS)})


def folder(tmp_path, name):
    """Make and return an empty folder."""
    (tmp_path / name).mkdir()
    return tmp_path / name


@pytest.mark.parametrize("guilty", [0, 7, 10])
def test_the_culprit_is_found_by_halves(guilty):
    """One guilty position of eleven is found in at most nine tries; if none or all fail there is no culprit."""
    tried = []

    def fails(positions):
        tried.append(positions)
        return guilty + 100 in positions

    assert culprit(range(100, 111), fails) == guilty + 100
    assert len(tried) <= 9
    assert culprit(range(100, 111), lambda _: False) is None
    assert culprit(range(100, 111), lambda _: True) is None


@needs_ray
@pytest.mark.slow
def test_a_request_that_no_cluster_meets_is_answered(two_raylets, corpus, tmp_path):
    """After *patience* seconds one line names the resources that were asked for and those of the cluster."""
    asking = executor(f'ray("{two_raylets.address}", workers=1, cpus=64, patience=1.5)')
    with pytest.raises(CannotStart, match=r"no worker in 1.5 s: each asks for 64 CPUs .* the cluster has 2 CPUs"):
        encode(Letters(), corpus, folder(tmp_path, "there"), asking)


@needs_ray
@pytest.mark.slow
def test_a_lost_machine_costs_only_its_unfinished_shards(two_raylets, corpus, tmp_path):
    """If one of two machines is removed while it encodes, the other encodes its unfinished shards. No byte changes."""
    encode(Letters(), corpus, folder(tmp_path, "here"))

    class Removing(RecordedProgress):
        def advance(self, count=1):
            super().advance(count)
            if len(self.done) == 1:
                two_raylets.remove_node(two_raylets.second, allow_graceful=False)

    heard = Removing()
    shards = format_.missing(len(corpus), folder(tmp_path, "there"))
    two = executor(f'ray("{two_raylets.address}", workers=2)')
    two.encode(Letters(log=str(tmp_path / "log")), corpus, tmp_path / "there", shards, heard)
    two_raylets.second = two_raylets.add_node(num_cpus=1, object_store_memory=80 << 20)

    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    assert len((tmp_path / "log").read_text().splitlines()) <= len(shards) + MOST_SHARDS


@needs_ray
@pytest.mark.slow
def test_ray_prints_nothing(two_raylets, corpus, tmp_path):
    """Ray's events are not printed, because stdout is for the answers of commands."""
    program = (
        "import sys; from pathlib import Path; from staged import Letters, encode; from lexbench.executors import executor; "
        "from lexbench.datasets.corpus import StoredCorpus; "
        "encode(Letters(), StoredCorpus(Path(sys.argv[1])), Path(sys.argv[2]), executor(sys.argv[3]))"
    )
    arguments = [str(corpus.path), str(folder(tmp_path, "there")), f'ray("{two_raylets.address}", workers=2, gpus=0)']
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=300)
    assert (done.stdout, done.stderr) == ("", "")


def test_executors_are_named_on_the_command_line(monkeypatch):
    """Like other plug-ins; a colon is short for the first setting; LEXBENCH_ON is the default, or else the devices decide."""
    monkeypatch.delenv("LEXBENCH_ON", raising=False)
    assert executor() is None
    assert (suited(Letters()), suited(Letters(devices=2))) == (Here(), Processes())
    assert executor("here") == Here()
    assert executor("processes(3)") == executor("processes:3") == Processes(3)
    monkeypatch.setenv("LEXBENCH_ON", "processes(2)")
    assert executor() == Processes(2)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="ray is installed")
def test_ray_is_an_extra():
    """Without it the error message says what to type."""
    with pytest.raises(MissingExtra, match=r"executor 'ray' needs the package 'ray'.*lexbench\[ray\]"):
        executor("ray")


def test_ctrl_c_does_not_mix_up_answers():
    """After Ctrl-C during a call the next call gets its own answer, from a fresh copy of the object."""
    with Processes(1).index_workers(Sum(3), 1, print) as (worker,):
        assert worker.call("add", 1) == 4
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Connection, "recv", interrupted)
            with pytest.raises(KeyboardInterrupt):
                worker.call("add", 10)
        assert worker.call("add", 2) == 5


def interrupted(_pipe):
    """Act like Ctrl-C while waiting."""
    raise KeyboardInterrupt


def test_no_process_is_left_behind(corpus, tmp_path):
    """After an error every worker process has ended."""
    with pytest.raises(LexbenchError):
        encode(Letters(fails="d"), corpus, folder(tmp_path, "there"), Processes(3))
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if children.exists():
        alive = [int(one) for one in children.read_text().split() if "spawn_main" in Path(f"/proc/{one}/cmdline").read_text()]
        assert not alive, [os.kill(one, signal.SIGKILL) for one in alive]
