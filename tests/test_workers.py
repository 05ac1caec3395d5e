"""Executors: how they are named, what culprits are, and what a cluster adds to the contract (tests/contracts)."""

import importlib.util
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from click import UsageError
from staged import Heard, Letters, contents, encode

from lexbench.cli.encode import _part
from lexbench.datasets.corpus import write_corpus
from lexbench.encodings import shards as format_
from lexbench.encodings.encoding import culprit
from lexbench.errors import CannotStart, CommandError, LexbenchError, MissingExtra, UnknownName
from lexbench.executors import executor, suited
from lexbench.executors.here import Here
from lexbench.executors.processes import Processes
from lexbench.testing._letters import Sum
from lexbench.types import Document

TEXTS = ["a b", "", "a", "b b", "d", "c a", "e e e e", "a e", "b", "c c"]  # the "d" is at position 5, its id is "4"

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray: pip install 'lexbench[ray]'")


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    """Make shards of three documents."""
    monkeypatch.setattr(format_, "SHARD", 3)


@pytest.fixture
def corpus(tmp_path):
    """Write a corpus of ten documents."""
    (tmp_path / "corpus").mkdir()
    return write_corpus((Document(str(i), text) for i, text in enumerate(TEXTS)), tmp_path / "corpus")


def folder(tmp_path, name):
    """Make and return an empty folder."""
    (tmp_path / name).mkdir()
    return tmp_path / name


def test_an_encoder_that_fails_at_everything_names_no_document(corpus, tmp_path):
    """Where every document fails alike none of them is the reason."""
    with pytest.raises(LexbenchError, match=r"^no such letter$"):
        encode(Letters(fails="x"), write_corpus((Document(str(i), "x") for i in range(5)), folder(tmp_path, "c")), tmp_path)


@pytest.mark.parametrize("guilty", range(11))
def test_the_culprit_is_found_by_halves(guilty):
    """Whichever position of eleven is the one, it is found in about twice four tries; two of them, or none, are nobody."""
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
    """After the patience one line says what was asked for and what there is."""
    asking = executor(f'ray("{two_raylets.address}", workers=1, cpus=64, patience=1.5)')
    with pytest.raises(CannotStart, match=r"no worker in 1.5 s: each asks for 64 CPUs .* the cluster has 2 CPUs"):
        encode(Letters(), corpus, folder(tmp_path, "there"), asking)


@needs_ray
@pytest.mark.slow
def test_a_machine_that_goes_away_costs_what_it_had(two_raylets, corpus, tmp_path):
    """One of two machines is removed while it encodes: its shards go to the other, and the bytes are the same."""
    encode(Letters(), corpus, folder(tmp_path, "here"))

    class Removing(Heard):
        def advance(self, count=1):
            super().advance(count)
            if len(self.done) == 1:
                two_raylets.remove_node(two_raylets.second, allow_graceful=False)

    heard = Removing()
    shards = format_.missing(len(corpus), folder(tmp_path, "there"))
    two = executor(f'ray("{two_raylets.address}", workers=2)')
    two.encode(Letters(), corpus, tmp_path / "there", shards, heard)
    two_raylets.second = two_raylets.add_node(num_cpus=1, object_store_memory=80 << 20)

    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_executors_are_named_on_the_command_line(monkeypatch):
    """As other parts; a colon is short for the first setting; LEXBENCH_ON is asked where nothing is named."""
    monkeypatch.delenv("LEXBENCH_ON", raising=False)
    assert executor() is None
    assert executor("here") == Here()
    assert executor("processes(3)") == executor("processes:3") == Processes(3)
    monkeypatch.setenv("LEXBENCH_ON", "processes(2)")
    assert executor() == Processes(2)
    with pytest.raises(UnknownName, match="did you mean 'processes'"):
        executor("proceses")
    with pytest.raises(CommandError, match="above 0"):
        executor("processes(-1)")


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="says what is typed where ray is not installed")
def test_ray_is_an_extra():
    """Without it the line says what to type."""
    with pytest.raises(MissingExtra, match=r"executor 'ray' needs the package 'ray'.*lexbench\[ray\]"):
        executor("ray")


def test_what_suits_an_encoder():
    """One device is encoded on here; several are a process each."""
    assert suited(Letters()) == Here()
    assert suited(Letters(devices=2)) == Processes()


@pytest.mark.parametrize(
    ("typed", "environment", "part"),
    [
        ("3/16", {}, (3, 16)),
        ("slurm", {"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_MIN": "2"}, (3, 4)),
        ("torchrun", {"RANK": "1", "WORLD_SIZE": "8"}, (1, 8)),
        ("kubernetes/12", {"JOB_COMPLETION_INDEX": "11"}, (11, 12)),
    ],
)
def test_parts_as_they_are_typed(typed, environment, part):
    """Counted from 0; launchers say theirs in the environment."""
    assert _part(typed, environment) == part


@pytest.mark.parametrize("typed", ["16/16", "1", "-1/4", "0/0", "slurm", "kubernetes", "torchrun/3", "a/b"])
def test_parts_that_there_are_not(typed):
    """Each is one line that says what to type."""
    with pytest.raises(UsageError, match=f"--part {typed}"):
        _part(typed, {"JOB_COMPLETION_INDEX": "1"})


def test_an_answer_that_nobody_waited_for_is_not_the_next_ones():
    """After Ctrl-C while an object is at work the next call has its own answer, of an object that was filled anew."""
    with Processes(1).hold([Sum(3)], print) as (held,):
        assert held.call("times", 1) == 3
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Connection, "recv", interrupted)
            with pytest.raises(KeyboardInterrupt):
                held.call("times", 10)
        assert held.call("times", 2) == 6


def interrupted(_pipe):
    """Be what Ctrl-C makes of waiting."""
    raise KeyboardInterrupt


def test_killed_processes_leave_none_behind(corpus, tmp_path):
    """After an error every process that was started has ended."""
    with pytest.raises(LexbenchError):
        encode(Letters(fails="d"), corpus, folder(tmp_path, "there"), Processes(3))
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    if children.exists():
        alive = [int(one) for one in children.read_text().split() if "spawn_main" in Path(f"/proc/{one}/cmdline").read_text()]
        assert not alive, [os.kill(one, signal.SIGKILL) for one in alive]
