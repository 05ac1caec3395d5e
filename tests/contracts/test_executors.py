"""The contract tests of `lexbench.testing.executors` on each executor."""

import pytest
from quick_workers import quick_workers
from workbench import RAY

from lexbench import registry
from lexbench.executors import executor as named_executor
from lexbench.testing import ExecutorContract

__all__ = ["quick_workers"]  # a fixture

NAMES = {"processes": "processes(2)", "ray": RAY}


@pytest.mark.parametrize("name", [NAMES.get(name, name) for name in registry.names("executors")])
class TestExecutors(ExecutorContract):
    """Each executor, with two workers if it has any."""

    @pytest.fixture
    def executor(self, on, request):
        """Make one executor. Workers start anew in one test; in the others they start fast."""
        if request.function.__name__ != "test_bytes_are_those_of_here":
            request.getfixturevalue("quick_workers")
        return named_executor(on)

    @pytest.fixture(autouse=True)
    def _of_this_process(self, name):
        self.in_this_process = name == "here"
