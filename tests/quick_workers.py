"""Workers of the executor `processes` that start fast: they fork from one process that has imported what they need."""

import multiprocessing

import pytest

from lexbench.executors import processes


@pytest.fixture
def quick_workers(monkeypatch):
    """Fork new workers from a process that has imported modules. They can be killed and replaced like other workers."""
    monkeypatch.setattr(processes, "_CONTEXT", multiprocessing.get_context("forkserver"))
