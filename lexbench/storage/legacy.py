"""Identities of plug-ins as lexbench 0.1 wrote them, in recipes of stores and results: `lexbench.engines.impact:Impact`.

Since 0.2 a plug-in is `group/name`, as `engines/impact`, so that a class can move without orphaning what was made with it.
"""

from collections.abc import Mapping
from typing import Any

_CLASSES = {
    "encoders": ("Dense", "LateInteraction", "SparseMLM", "TermWeights", "Vectors"),
    "engines": ("Csr", "Faiss", "Flat", "Impact", "Lucene", "MaxSim", "Pisa", "Plaid", "Seismic"),
    "rerankers": ("CrossEncoder",),
    "retrievers": ("BM25", "BM25Lucene", "Encoded", "Ensemble", "Pipeline", "Rerank", "RunFile"),
    "transforms": ("PruneQuery", "Quantize", "TopK"),
}  # of 0.1; plug-ins that came later have no old name
_FILES = {
    "BM25Lucene": "bm25_lucene",
    "CrossEncoder": "cross_encoder",
    "LateInteraction": "late_interaction",
    "PruneQuery": "prune_query",
    "RunFile": "run_file",
    "SparseMLM": "sparse_mlm",
    "TermWeights": "term_weights",
    "TopK": "top_k",
}  # names of files that are not just the lower-case class
_OLD = {
    f"{group}/{(name := _FILES.get(cls, cls.lower()))}": f"lexbench.{group}.{name}:{cls}"
    for group, classes in _CLASSES.items()
    for cls in classes
} | {"lexbench.runner.beir_model:BeirEncoder": "lexbench.interop._beir_encoder:BeirEncoder"}
_NEW = {old: new for new, old in _OLD.items()}


def modern(recipe: Any) -> Any:
    """Return *recipe*, JSON values, with the identities of 0.1 replaced by today's."""
    return _renamed(recipe, _NEW)


def of_0_1(recipe: Any) -> Any:
    """Return *recipe*, JSON values, as 0.1 wrote it: what a store of that time has its key of."""
    return _renamed(recipe, _OLD)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: names.get(item, item) if key == "plugin" and isinstance(item, str) else _renamed(item, names)
            for key, item in value.items()
        }
    return [_renamed(item, names) for item in value] if isinstance(value, list | tuple) else value
