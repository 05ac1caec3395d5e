"""The contract tests of lexbench: what plug-ins must do, as pytest classes to derive from.

    from lexbench.testing import EngineContract
    from my_package.one_by_one import OneByOne

    class TestOneByOne(EngineContract):
        plugin = OneByOne()

There is one class per group of plug-ins. A subclass sets `plugin` to a plug-in with its settings; for EncoderContract it is the
class, and SourceContract needs the fixture `case` instead. The plug-ins of lexbench are tested by the same classes. pytest must
be installed; nothing else in lexbench imports this package.
"""

import pytest

_MODULES = ("encoders", "engines", "executors", "judges", "rerankers", "retrievers", "sources", "transforms")
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))  # must come before the imports

from lexbench.testing.encoders import EncoderCase, EncoderContract  # noqa: E402
from lexbench.testing.engines import EngineContract  # noqa: E402
from lexbench.testing.executors import ExecutorContract  # noqa: E402
from lexbench.testing.judges import JudgeContract  # noqa: E402
from lexbench.testing.rerankers import RerankerContract  # noqa: E402
from lexbench.testing.retrievers import RetrieverContract  # noqa: E402
from lexbench.testing.sources import SourceCase, SourceContract  # noqa: E402
from lexbench.testing.transforms import TransformContract  # noqa: E402

__all__ = [
    "EncoderCase", "EncoderContract", "EngineContract", "ExecutorContract", "JudgeContract", "RerankerContract",
    "RetrieverContract", "SourceCase", "SourceContract", "TransformContract",
]  # fmt: skip
