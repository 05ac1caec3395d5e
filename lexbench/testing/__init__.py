"""The contract tests of lexbench: what plug-ins must do, as pytest classes to derive from.

    from lexbench.testing import EngineContract
    from my_package.one_by_one import OneByOne

    class TestOneByOne(EngineContract):
        plugin = OneByOne()

There is one class per group of plug-ins. A subclass sets `plugin` to a plug-in with its settings; for EncoderContract it is the
class, and SourceContract needs the fixture `case` instead. The plug-ins of lexbench are tested by the same classes. pytest must
be installed; nothing else in lexbench imports this package.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lexbench.testing.encoders import EncoderCase, EncoderContract
    from lexbench.testing.engines import EngineContract
    from lexbench.testing.executors import ExecutorContract
    from lexbench.testing.judges import JudgeContract
    from lexbench.testing.rerankers import RerankerContract
    from lexbench.testing.retrievers import RetrieverContract
    from lexbench.testing.sources import SourceCase, SourceContract
    from lexbench.testing.transforms import TransformContract

__all__ = [
    "EncoderCase", "EncoderContract", "EngineContract", "ExecutorContract", "JudgeContract", "RerankerContract",
    "RetrieverContract", "SourceCase", "SourceContract", "TransformContract",
]  # fmt: skip

_MODULES = ("encoders", "engines", "executors", "judges", "rerankers", "retrievers", "sources", "transforms")

if pytest := sys.modules.get("pytest"):  # the workers of an executor that is tested have none, and need none
    pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))  # must come before the imports


def __getattr__(name: str) -> Any:
    """Load one of the public names from its module."""
    for module in _MODULES if name in __all__ else ():
        if name.lower().startswith(module[:-1]):
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
