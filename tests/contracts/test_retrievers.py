"""The contract tests of `lexbench.testing.retrievers` on each retriever; fusions have two different members."""

from dataclasses import dataclass, fields

import numpy as np
import pytest
from workbench import available

from lexbench import registry
from lexbench.notation import parse
from lexbench.plugins import Reranker
from lexbench.runner import systems
from lexbench.testing import RetrieverContract

NO_INDEX = ("command", "mcp", "run_file", "url")
NAMES = [name for name in systems.retrievers().values() if name not in (*NO_INDEX, "with_means")]  # the last finds all


@dataclass(frozen=True)
class Occurrences(Reranker):
    """A reranker that counts the occurrences of the query's words in a document."""

    def score(self, queries, documents):
        """Count them."""
        pairs = [(query.lower().split(), document.text.lower()) for query, document in zip(queries, documents, strict=True)]
        return np.array([sum(text.count(word) for word in words) for words, text in pairs], np.float32)


class TestRetrievers(RetrieverContract):
    """Each retriever with its default settings."""

    @pytest.fixture(params=NAMES)
    def retriever(self, request):
        """Make one retriever."""
        typed = next(typed for typed, name in systems.retrievers().items() if name == request.param)
        settings = {item.name for item in fields(available(lambda: registry.load("retrievers", request.param)))}
        if "reranker" in settings:
            return registry.load("retrievers", request.param)((systems.resolve(parse("bm25")),), Occurrences())
        if request.param == "passages":  # of one retriever, and with a length that cuts the longest of the documents
            return systems.resolve(parse("passages(bm25, words=4, stride=2)"))
        return systems.resolve(parse(f"{typed}(bm25, bm25(k1=2.0))" if "members" in settings else typed))
