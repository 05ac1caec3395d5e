"""Workers of the executor `processes` that start fast: they fork from one process that has imported what they need."""

import multiprocessing

import pytest

from lexbench.executors import processes


@pytest.fixture
def quick_workers(monkeypatch):
    """Fork workers from a process that has only imported modules. They are killed and replaced like those that start anew."""
    multiprocessing.set_forkserver_preload(["lexbench.testing._letters", "lexbench.engines.sharded", "lexbench.executors"])
    monkeypatch.setattr(processes, "_CONTEXT", multiprocessing.get_context("forkserver"))
