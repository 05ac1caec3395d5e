"""The contract tests of `lexbench.testing.judges` on each judge."""

import pytest
from model_server import ModelServer

from lexbench import registry
from lexbench.notation import Call
from lexbench.testing import JudgeContract


class TestJudges(JudgeContract):
    """Each judge with its default settings."""

    @pytest.fixture(params=registry.names("judges"))
    def judge(self, request):
        """Make one judge, of a server on this machine."""
        server = ModelServer()
        yield registry.create("judges", Call(request.param, kwargs=(("url", server.url), ("model", "m"))))
        server.close()
