"""lexbench: benchmark first-stage retrievers and get numbers you can trust.

    import lexbench

    results = lexbench.run("pydoc", ["bm25", my_encoder])
    print(results)
    results.to_pandas()
    lexbench.compare(results, "bm25")

Each command of the command line is one function with the same name. Importing this package loads nothing heavy: each public
name is loaded when it is first used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lexbench.analysis.audit import Audit
    from lexbench.analysis.compare.tables import Comparison
    from lexbench.analysis.encoder_speed import EncoderSpeed
    from lexbench.analysis.explain import Explanation
    from lexbench.analysis.gate.gates import Accepted, GateReport
    from lexbench.analysis.judgements import Judgements, PoolTest
    from lexbench.analysis.list_similarity import ListComparison
    from lexbench.analysis.ranks import Ranks
    from lexbench.analysis.seen_in_training import SeenInTraining
    from lexbench.analysis.verify.rescoring import Rescoring
    from lexbench.analysis.verify.verdicts import Verification
    from lexbench.api import *
    from lexbench.collecting.collect import Collected
    from lexbench.display.answer import Answer
    from lexbench.display.progress import Progress
    from lexbench.errors import LexbenchError
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
    from lexbench.probing.answer import Probe
    from lexbench.report.change import Report
    from lexbench.report.figures import Picture
    from lexbench.report.leaderboard import Leaderboard
    from lexbench.results import Failure, Note, Result, Results
    from lexbench.timing.protocol import TimingSettings
    from lexbench.types import Corpus, Document, Hits, Kind, MultiVectors, Query

__all__ = [
    "Accepted", "Answer", "Audit", "Collected", "Comparison", "Corpus", "Document", "Encoder", "EncoderSpeed", "Engine",
    "Executor", "Explanation", "Failure", "GateReport", "Hits", "Index", "Judge", "Judgements", "Kind", "Leaderboard",
    "LexbenchError", "ListComparison", "Measure", "MultiVectors", "Note", "Picture", "PoolTest", "Probe", "Progress",
    "Query", "Ranks", "Report", "Reranker", "Rescoring", "Result", "Results", "Retriever", "Searcher", "SeenInTraining",
    "Source", "TimingSettings", "Transform", "Verification", "audit", "audit_suite", "collect", "compare", "compare_lists",
    "dataset", "datasets", "default_measures", "doctor", "encode", "explain", "export", "export_formats", "exposure",
    "gate", "gate_init", "gate_update", "import_", "import_formats", "installed", "judge", "judge_page", "judge_pool",
    "keep_traceback", "kind_of", "leaderboard", "listed_kinds", "lists", "machine", "means", "measures", "model", "models",
    "per_query", "plan", "plot", "plugin", "probe", "ranks", "report", "result", "results", "run", "score", "speed",
    "store_check", "store_list", "store_pull", "store_push", "store_remove", "store_root", "suite", "suites", "summary",
    "systems", "train", "training_plan", "verify", "watch", "what_is",
]  # fmt: skip

_MODULES = (  # that have the public names, the lightest first
    "errors", "display.progress", "display.answer", "api", "types", "plugins", "results", "analysis.ranks",
    "analysis.compare.tables",
    "analysis.list_similarity", "analysis.judgements", "analysis.seen_in_training", "analysis.explain",
    "analysis.verify.verdicts", "analysis.verify.rescoring", "analysis.audit", "analysis.gate.gates", "report.change",
    "report.figures", "report.leaderboard", "collecting.collect", "probing.answer", "analysis.encoder_speed",
    "timing.protocol",
)  # fmt: skip


class _Package(ModuleType):
    """The module `lexbench`, in which a public function wins over a submodule of the same name, e.g. `datasets`."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, unless Python's import would replace a public function by a submodule."""
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """Load one of the public names from its module."""
    for module in _MODULES if name in __all__ else ():
        home = import_module(f"lexbench.{module}")
        if name in vars(home):
            return globals().setdefault(name, vars(home)[name])
    raise AttributeError(f"module 'lexbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
