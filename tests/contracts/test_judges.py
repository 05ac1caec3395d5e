"""The contract tests of `lexbench.testing.judges` on each judge."""

import pytest
from model_server import ModelServer

from lexbench import registry
from lexbench.errors import CommandError, UnknownName
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


@pytest.mark.parametrize("name", registry.names("judges"))
def test_an_unknown_setting_is_refused(name):
    """An unknown setting is an error in one line."""
    with pytest.raises((UnknownName, CommandError)) as caught:
        registry.create("judges", Call(name, kwargs=(("no_such_setting", 1),)))
    assert "\n" not in str(caught.value)
