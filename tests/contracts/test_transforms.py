"""The contract tests of `lexbench.testing.transforms` on each transform, and on one of dense vectors."""

import sys
from pathlib import Path

import pytest

from lexbench import registry
from lexbench.errors import CommandError, MissingExtra
from lexbench.notation import Call
from lexbench.testing import TransformContract

sys.path.append(str(Path(__file__).parent.parent / "plugin"))
from lexbench_example.square import Square

SETTINGS = {"top_k": Call("top_k", (3,)), "prune_query": Call("prune_query", (2,))}
IDEMPOTENT = [name for name in ("top_k", "prune_query") if name in registry.names("transforms")]


def made(name):
    """Make one transform, with the settings above or its default ones."""
    try:
        return registry.create("transforms", SETTINGS.get(name, Call(name)))
    except MissingExtra as missing:
        pytest.skip(str(missing))
    except CommandError as error:
        pytest.skip(f"no settings for it here: {error}")


class TestTransforms(TransformContract):
    """Each transform."""

    @pytest.fixture(params=[name for name in registry.names("transforms") if name not in IDEMPOTENT])
    def transform(self, request):
        """Make one."""
        return made(request.param)


class TestPruning(TransformContract):
    """Those whose rule prunes no more the second time."""

    @pytest.fixture(params=IDEMPOTENT)
    def transform(self, request):
        """Make one."""
        return made(request.param)


class TestDense(TransformContract):
    """One of dense vectors."""

    plugin = Square()
