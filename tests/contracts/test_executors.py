"""The contract tests of `lexbench.testing.executors` on each executor."""

import pytest
from workbench import RAY

from lexbench import registry
from lexbench.executors import executor as named_executor
from lexbench.testing import ExecutorContract

NAMES = {"processes": "processes(2)", "ray": RAY}


@pytest.mark.parametrize("name", [NAMES.get(name, name) for name in registry.names("executors")])
class TestExecutors(ExecutorContract):
    """Each executor, with two workers if it has any."""

    @pytest.fixture
    def executor(self, on):
        """Make one executor."""
        return named_executor(on)

    @pytest.fixture(autouse=True)
    def _of_this_process(self, name):
        self.in_this_process = name == "here"
