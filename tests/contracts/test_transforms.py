"""The contract tests of `lexbench.testing.transforms` on each transform."""

import pytest
from workbench import available

from lexbench import registry
from lexbench.errors import CommandError
from lexbench.notation import Call
from lexbench.testing import TransformContract

SETTINGS = {"top_k": Call("top_k", (3,)), "prune_query": Call("prune_query", (2,)), "truncate": Call("truncate", (5,))}


class TestTransforms(TransformContract):
    """Each transform, with the settings above or its default ones."""

    @pytest.fixture(params=registry.names("transforms"))
    def transform(self, request):
        """Make one."""
        try:
            return available(lambda: registry.create("transforms", SETTINGS.get(request.param, Call(request.param))))
        except CommandError as error:
            pytest.skip(f"no settings for it here: {error}")
