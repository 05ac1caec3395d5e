"""The contract tests of `lexbench.testing.rerankers` on each reranker."""

from dataclasses import fields

import checkpoints
import pytest
from workbench import available

from lexbench import registry
from lexbench.notation import Call
from lexbench.testing import RerankerContract


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a tiny model, for rerankers that take one."""
    return checkpoints.cross_encoder(tmp_path_factory.mktemp("model"))


class TestRerankers(RerankerContract):
    """Each reranker with its default settings."""

    @pytest.fixture(params=registry.names("rerankers"))
    def reranker(self, request, folder):
        """Make one reranker; skip it where its extra is not installed."""
        settings = {item.name for item in fields(available(lambda: registry.load("rerankers", request.param)))}
        model = (("model", str(folder)),) if "model" in settings else ()
        if "url" in settings:
            from model_server import ModelServer

            model = (("url", ModelServer(info=True).url),)
        return registry.create("rerankers", Call(request.param, kwargs=model))
