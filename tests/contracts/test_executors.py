"""What every executor must do, checked on each by name: the tests are `lexbench.testing.executors`."""

import importlib.util

import pytest

from lexbench import registry
from lexbench.executors import executor as named_executor
from lexbench.testing import ExecutorContract

SETTINGS = {"processes": "processes(2)"}


def _parameter(name):
    """Return the parameter of one executor; Ray is one of `make test-cluster`."""
    if name != "ray":
        return name
    missing = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray: pip install 'lexbench[ray]'")
    return pytest.param(name, marks=[missing, pytest.mark.slow])


@pytest.mark.parametrize("name", [_parameter(name) for name in registry.names("executors")])
class TestExecutors(ExecutorContract):
    """Each executor with two workers, where it has any."""

    @pytest.fixture
    def executor(self, name, request):
        """Make one executor."""
        if name != "ray":
            return named_executor(SETTINGS.get(name, name))
        return named_executor(f'ray("{request.getfixturevalue("two_raylets").address}", workers=2)')

    @pytest.fixture(autouse=True)
    def _of_this_process(self, name):
        self.in_this_process = name == "here"
