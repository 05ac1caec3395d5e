"""The contract tests of `lexbench.testing.rerankers` on each reranker."""

from dataclasses import fields

import checkpoints
import pytest

from lexbench import registry
from lexbench.errors import MissingExtra
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
        try:
            settings = {item.name for item in fields(registry.load("rerankers", request.param))}
        except MissingExtra as missing:
            pytest.skip(str(missing))
        model = (("model", str(folder)),) if "model" in settings else ()
        if "url" in settings:
            from model_server import ModelServer

            model = (("url", ModelServer().url),)
        return registry.create("rerankers", Call(request.param, kwargs=model))
