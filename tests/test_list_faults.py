"""Ranked lists of systems that did not work."""

import pytest

from lexbench.runner.list_faults import list_faults, same_lists
from lexbench.trec.runs import read_run


def run(path, lists):
    """Write a run file of *lists*, (document, score) pairs by query, and read it."""
    lines = [f"{query} Q0 {name} 0 {score} x" for query, pairs in lists.items() for name, score in pairs]
    path.write_text("\n".join(lines) + "\n")
    return read_run(path)


def lists(count, documents=lambda query: [f"d{query}", f"e{query}"], score=lambda rank: 2 - rank):
    """Return a list for each of *count* queries."""
    return {f"q{query}": [(name, score(rank)) for rank, name in enumerate(documents(query))] for query in range(count)}


@pytest.mark.parametrize(
    ("given", "queries", "reason"),
    [
        (lists(10), 10, ""),
        (lists(10), 20, ""),
        (lists(10), 21, "11 of 21 queries got no document"),
        (lists(10, lambda query: ["a", "b"]), 10, "10 of 10 queries got one and the same list"),
        (lists(10, lambda query: ["a", f"d{query}"]), 10, ""),
        (lists(4, lambda query: ["a", "b"]), 4, ""),
        (lists(10, score=lambda rank: 1), 10, "in the lists of 10 of 10 queries all scores are equal"),
        (lists(10, lambda query: [f"d{query}"], lambda rank: 1), 10, ""),
    ],
)
def test_a_dead_system_has_a_reason(tmp_path, given, queries, reason):
    """By hand: more than half of the queries must show a sign; a list of one document has no constant scores."""
    assert list_faults(run(tmp_path / "run", given), queries).reason == reason


def test_the_same_lists_are_recognised(tmp_path):
    """Scores do not matter, order and documents do."""
    first, second, third, fourth = (
        run(tmp_path / str(number), given)
        for number, given in enumerate((
            lists(5), lists(5, score=lambda rank: 9 - rank), lists(5, lambda query: [f"e{query}", f"d{query}"]), lists(6),
        ))
    )  # fmt: skip
    assert same_lists(first, second)
    assert not same_lists(first, third)
    assert not same_lists(first, fourth)
