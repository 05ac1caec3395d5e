"""lexbench: benchmark first-stage retrievers and get numbers you can trust.

    import lexbench

    results = lexbench.run("pydoc", ["bm25", my_encoder])
    print(results)
    results.to_pandas()

Importing this package loads nothing heavy. Each public name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lexbench.api import Results, run
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
    from lexbench.types import Corpus, Document, Hits, Kind, MultiVectors, Query

__all__ = [
    "Corpus", "Document", "Encoder", "Engine", "Executor", "Hits", "Index", "Judge", "Kind", "Measure", "MultiVectors", "Query",
    "Reranker", "Results", "Retriever", "Searcher", "Source", "Transform", "run",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load one of the public names, from the lightest module that has it."""
    for module in ("types", "plugins", "api") if name in __all__ else ():
        if hasattr(home := import_module(f"lexbench.{module}"), name):
            return getattr(home, name)
    raise AttributeError(f"module 'lexbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
