"""What every judge must do, on four documents, an empty and a long one among them."""

from typing import Any

import pytest

from lexbench.plugins import Judge
from lexbench.runner import systems
from lexbench.types import Document

QUERY = "sparse retrieval with a vocabulary"
DOCUMENTS = [
    Document("a", "sparse retrieval weighs terms of a vocabulary"),
    Document("b", "cats sleep"),
    Document("c", ""),
    Document("d", "sparse " * 2000),
]


class JudgeContract:
    """The tests of a judge: a subclass sets `plugin` to one, or overrides the fixture `judge`."""

    plugin: Any

    @pytest.fixture
    def judge(self) -> Any:
        """Return the judge."""
        return self.plugin

    def test_one_verdict_a_document(self, judge: Any) -> None:
        """Each document has a verdict, with a grade of the scale or None; no documents have none."""
        verdicts = judge.judge(QUERY, DOCUMENTS)

        assert isinstance(judge, Judge)
        assert len(verdicts) == len(DOCUMENTS)
        assert {verdict.grade for verdict in verdicts} <= {*judge.grades, None}
        assert all(isinstance(verdict.answer, str) for verdict in verdicts)
        assert list(judge.judge(QUERY, [])) == []

    def test_the_scale_ascends_and_has_what_is_relevant(self, judge: Any) -> None:
        """Grades ascend, and the lowest relevant one is among them, not the first."""
        assert list(judge.grades) == sorted(set(judge.grades))
        assert judge.relevant in judge.grades[1:]

    def test_a_verdict_depends_on_its_document_alone(self, judge: Any) -> None:
        """Alone and in another order a document has the same grade."""
        grades = [verdict.grade for verdict in judge.judge(QUERY, DOCUMENTS)]

        assert [judge.judge(QUERY, [document])[0].grade for document in DOCUMENTS] == grades
        assert [verdict.grade for verdict in judge.judge(QUERY, DOCUMENTS[::-1])] == grades[::-1]

    def test_another_session_knows_it(self, judge: Any) -> None:
        """What decides its answers is told in full, so that its stamp is that of the same judge again."""
        assert systems.reusable(systems.describe(judge))
