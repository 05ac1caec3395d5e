"""Queries like those that are timed, which a system has not seen: to warm it up, and to see whether it remembers answers."""

from collections.abc import Sequence

from lexbench.types import Query

_SETS, _MOST = 3, 32  # sets of queries, and queries in each


class OtherQueries:
    """Makes queries of the words of *queries*, so that they touch the same parts of an index. No text is made twice."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._queries = queries
        self._words = [query.text.split() for query in queries]
        self._seen = {query.text for query in queries}

    def unseen(self) -> list[tuple[int, Query]]:
        """Return some queries, each with the number of one of the given ones, that no earlier call has returned."""
        return [one for shift in range(2, 2 + _SETS) for one in self.numbered(shift)[:_MOST]]

    def numbered(self, shift: int) -> list[tuple[int, Query]]:
        """Return a query for each number of the given ones: half of its words, and half of those of the one *shift* later.

        If that text was there before, its words are rotated. A query for which there is no new text is left out.
        """
        made = []
        for number, words in enumerate(self._words):
            later = self._words[(number + shift) % len(self._words)]
            mixed = [*words[: (len(words) + 1) // 2], *later[len(later) // 2 :]]
            texts = (" ".join([*mixed[turn:], *mixed[:turn]]) for turn in range(len(mixed)))
            if text := next((text for text in texts if text not in self._seen), ""):
                self._seen.add(text)
                query = self._queries[number]
                made.append((number, query._replace(query_id=f"{query.query_id}~{shift}", text=text)))
        return made
