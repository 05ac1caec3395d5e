"""lexbench: benchmark first-stage retrievers, with numbers that can be trusted.

    import lexbench

    results = lexbench.run("pydoc", ["bm25", my_encoder])
    print(results)
    results.to_pandas()

Importing this package imports nothing heavy; each name below is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lexbench.api import (
        Results,
        run,
    )
    from lexbench.plugins import (
        Encoder,
        Engine,
        Executor,
        Index,
        Judge,
        Measure,
        Reranker,
        Retriever,
        Searcher,
        Source,
        Transform,
    )
    from lexbench.types import (
        Corpus,
        Document,
        Hits,
        Kind,
        MultiVectors,
        Query,
    )

_HOMES = {
    "Corpus": "lexbench.types",
    "Document": "lexbench.types",
    "Encoder": "lexbench.plugins",
    "Engine": "lexbench.plugins",
    "Executor": "lexbench.plugins",
    "Hits": "lexbench.types",
    "Index": "lexbench.plugins",
    "Judge": "lexbench.plugins",
    "Kind": "lexbench.types",
    "Measure": "lexbench.plugins",
    "MultiVectors": "lexbench.types",
    "Query": "lexbench.types",
    "Reranker": "lexbench.plugins",
    "Results": "lexbench.api",
    "Retriever": "lexbench.plugins",
    "Searcher": "lexbench.plugins",
    "Source": "lexbench.plugins",
    "Transform": "lexbench.plugins",
    "run": "lexbench.api",
}

__all__ = [
    "Corpus",
    "Document",
    "Encoder",
    "Engine",
    "Executor",
    "Hits",
    "Index",
    "Judge",
    "Kind",
    "Measure",
    "MultiVectors",
    "Query",
    "Reranker",
    "Results",
    "Retriever",
    "Searcher",
    "Source",
    "Transform",
    "run",
]


def __getattr__(name: str) -> Any:
    """Load one of the public names."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lexbench' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
