"""The contract of judges, on four documents, one of them empty and one long."""

from typing import Any

import pytest

from lexbench.artifacts.describe import describe, is_lasting
from lexbench.plugins import Judge
from lexbench.types import Document

QUERY = "sparse retrieval with a vocabulary"
DOCUMENTS = [
    Document("a", "sparse retrieval weighs terms of a vocabulary"),
    Document("b", "cats sleep"),
    Document("c", ""),
    Document("d", "sparse " * 2000),
]


class JudgeContract:
    """The tests of a judge. A subclass sets `plugin` to one, or overrides the fixture `judge`."""

    plugin: Any

    @pytest.fixture
    def judge(self) -> Any:
        """Return the judge to check."""
        return self.plugin

    def test_one_verdict_per_document(self, judge: Any) -> None:
        """Each document has a verdict, with a grade of the scale or None."""
        verdicts = judge.judge(QUERY, DOCUMENTS)

        assert isinstance(judge, Judge)
        assert len(verdicts) == len(DOCUMENTS)
        assert {verdict.grade for verdict in verdicts} <= {*judge.grades, None}
        assert all(isinstance(verdict.answer, str) for verdict in verdicts)
        assert list(judge.judge(QUERY, [])) == []

    def test_the_scale_ascends(self, judge: Any) -> None:
        """Grades ascend, and the lowest relevant grade is one of them but not the first."""
        assert list(judge.grades) == sorted(set(judge.grades))
        assert judge.relevant in judge.grades[1:]

    def test_a_verdict_depends_on_its_document_alone(self, judge: Any) -> None:
        """A document has the same grade alone and in another order."""
        grades = [verdict.grade for verdict in judge.judge(QUERY, DOCUMENTS)]

        assert [judge.judge(QUERY, [document])[0].grade for document in DOCUMENTS] == grades
        assert [verdict.grade for verdict in judge.judge(QUERY, DOCUMENTS[::-1])] == grades[::-1]

    def test_its_key_is_reusable(self, judge: Any) -> None:
        """Its key identifies the same judge in other sessions."""
        assert is_lasting(describe(judge))
