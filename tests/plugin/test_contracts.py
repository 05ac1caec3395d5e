"""The contract tests of lexbench on the plug-ins of this package: five lines each."""

import pytest
from lexbench_example.letters import Letters
from lexbench_example.numerals import Numerals
from lexbench_example.one_by_one import OneByOne
from lexbench_example.square import Square

from lexbench.contracts import contract_of
from lexbench.testing import EncoderContract, EngineContract, SourceCase, SourceContract, TransformContract


class TestLetters(EncoderContract):
    """The encoder."""

    plugin = Letters


class TestOneByOne(EngineContract):
    """The engine."""

    plugin = OneByOne()


class TestSquare(TransformContract):
    """The transform."""

    plugin = Square()


class TestNumerals(SourceContract):
    """The source."""

    @pytest.fixture
    def case(self) -> SourceCase:
        """Return the source and its dataset."""
        return SourceCase(Numerals, contract_of("numerals"), [])
