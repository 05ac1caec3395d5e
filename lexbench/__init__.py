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
    from lexbench.api import Results, run
    from lexbench.types import Corpus, Document, Encoder, Engine, Hits, Kind, MultiVectors, Retriever, Searcher

_HOMES = {
    "run": "lexbench.api",
    "Results": "lexbench.api",
    "Corpus": "lexbench.types",
    "Document": "lexbench.types",
    "Encoder": "lexbench.types",
    "Engine": "lexbench.types",
    "Hits": "lexbench.types",
    "Kind": "lexbench.types",
    "MultiVectors": "lexbench.types",
    "Retriever": "lexbench.types",
    "Searcher": "lexbench.types",
}

__all__ = ["Corpus", "Document", "Encoder", "Engine", "Hits", "Kind", "MultiVectors", "Results", "Retriever", "Searcher", "run"]


def __getattr__(name: str) -> Any:
    """Load one of the public names."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lexbench' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
