"""The contract tests of lexbench, for the plug-ins of other packages: what they must do, as pytest classes to derive from.

    from lexbench.testing import EngineContract
    from my_package.one_by_one import OneByOne

    class TestOneByOne(EngineContract):
        plugin = OneByOne()

There is one for each group: EncoderContract (`plugin` is the class), EngineContract, ExecutorContract, JudgeContract,
RerankerContract, RetrieverContract, SourceContract (which overrides the fixture `case`) and TransformContract. Ours are tested
by the same classes. pytest must be installed; nothing else of lexbench imports this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lexbench.testing.encoders import EncoderCase, EncoderContract
    from lexbench.testing.engines import EngineContract
    from lexbench.testing.executors import ExecutorContract
    from lexbench.testing.judges import JudgeContract
    from lexbench.testing.rerankers import RerankerContract
    from lexbench.testing.retrievers import RetrieverContract
    from lexbench.testing.sources import SourceCase, SourceContract
    from lexbench.testing.transforms import TransformContract

_HOMES = {
    "EncoderCase": "encoders",
    "EncoderContract": "encoders",
    "EngineContract": "engines",
    "ExecutorContract": "executors",
    "JudgeContract": "judges",
    "RerankerContract": "rerankers",
    "RetrieverContract": "retrievers",
    "SourceCase": "sources",
    "SourceContract": "sources",
    "TransformContract": "transforms",
}
pytest.register_assert_rewrite(*(f"{__name__}.{home}" for home in _HOMES.values()))  # before any of them is imported


def __getattr__(name: str) -> Any:
    """Load one of the classes."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


__all__ = [
    "EncoderCase",
    "EncoderContract",
    "EngineContract",
    "ExecutorContract",
    "JudgeContract",
    "RerankerContract",
    "RetrieverContract",
    "SourceCase",
    "SourceContract",
    "TransformContract",
]
