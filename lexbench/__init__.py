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
    from lexbench.plugins import Encoder, Engine, Retriever, Searcher
    from lexbench.types import Corpus, Document, Hits, Kind, MultiVectors

_HOMES = {
    "run": "lexbench.api",
    "Results": "lexbench.api",
    "Corpus": "lexbench.types",
    "Document": "lexbench.types",
    "Encoder": "lexbench.plugins",
    "Engine": "lexbench.plugins",
    "Hits": "lexbench.types",
    "Kind": "lexbench.types",
    "MultiVectors": "lexbench.types",
    "Retriever": "lexbench.plugins",
    "Searcher": "lexbench.plugins",
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
