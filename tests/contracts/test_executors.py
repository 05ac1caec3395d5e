"""The contract tests of `lexbench.testing.executors` on each executor."""

import importlib.util

import pytest

from lexbench import registry
from lexbench.executors import executor as named_executor
from lexbench.testing import ExecutorContract

SETTINGS = {"processes": "processes(2)"}


def _parameter(name):
    """Return the pytest parameter of one executor; `make test-cluster` tests Ray."""
    if name != "ray":
        return name
    missing = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray: pip install 'lexbench[ray]'")
    return pytest.param(name, marks=[missing, pytest.mark.slow])


@pytest.mark.parametrize("name", [_parameter(name) for name in registry.names("executors")])
class TestExecutors(ExecutorContract):
    """Each executor, with two workers if it has any."""

    @pytest.fixture
    def executor(self, name, request):
        """Make one executor."""
        if name != "ray":
            return named_executor(SETTINGS.get(name, name))
        return named_executor(f'ray("{request.getfixturevalue("two_raylets").address}", workers=2)')

    @pytest.fixture(autouse=True)
    def _of_this_process(self, name):
        self.in_this_process = name == "here"
