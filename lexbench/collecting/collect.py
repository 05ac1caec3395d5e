"""Make a test collection step by step: `lexbench collect` and the function `lexbench.collect`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote

import msgspec

from lexbench.analysis.judgements import LeftOut, pool_table
from lexbench.artifacts.graph import Graph
from lexbench.collecting.collection import MEASURE, Collection, CollectionFacts, CollectionJudgements, leak_line
from lexbench.collecting.made_queries import Writer
from lexbench.display.answer import Answer
from lexbench.display.progress import Progress
from lexbench.display.table import Table
from lexbench.errors import CommandError, MissingExtra
from lexbench.plugins import Judge
from lexbench.runner.systems import system
from lexbench.storage.store import Store

SYSTEMS = ("bm25", "lexmae_nano", "ensemble(bm25, lexmae_nano)")


class Collected(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """A collection so far: its pool, its judgements, and what to do next."""

    folder: str
    facts: CollectionFacts
    pool: int  # documents
    judged: CollectionJudgements | None
    losses: list[LeftOut] = []  # of each system without its own judgements

    def head(self) -> list[str]:
        """Return the size of the pool."""
        if not self.facts.systems:
            return []
        return [f"pool: {self.pool:,} documents, the first {self.facts.depth} of {', '.join(self.facts.systems)}"]

    def tables(self) -> list[Table]:
        """Return how much systems lose without their own judgements, if that can be said."""
        return [pool_table(self.losses, Path(self.folder).name, MEASURE, self.facts.depth)] if self.losses else []

    def lines(self) -> list[str]:
        """Return how many documents are judged, the agreement of judges, and what to type next."""
        judged, lines, place = self.judged, [], quote(self.folder)
        if judged:
            grades = ", ".join(f"{grade}: {count}" for grade, count in judged.grades.items())
            lines.append(f"{judged.judged:,} of {judged.pool:,} documents are judged, by {judged.by}; grades {grades}")
            lines += [f"{judged.by} and {name}: {one.line()}" for name, one in judged.agreement.items()]
        if judged is None or judged.judged < judged.pool:
            lines.append(f"to judge in the browser, type: lexbench judge page {place}")
        if judged:
            lines.append(f"to use the collection, type: lexbench run dataset {place} -r bm25 -m nDCG@10 -m Judged@10")
        return lines

    def document(self) -> dict[str, object]:
        """Return the facts, the pool and the judgements."""
        return {"facts": self.facts, "pool": self.pool, "judged": self.judged}


def published(made: Collection, by: str = "") -> Collected:
    """Write the judgements so far as the qrels of a collection, and return its state."""
    judged = made.publish(by)
    losses = made.losses(judged.by) if judged else []
    pool = sum(map(len, made.pool.values()))
    return Collected(folder=str(made.path), facts=made.known, pool=pool, judged=judged, losses=list(losses or ()))


def collect(  # noqa: PLR0913 - what decides a collection
    documents: Path,
    folder: Path,
    *,
    columns: Mapping[str, str],
    queries: Path | None,
    count: int | None,
    writer: Writer | None,
    systems: Sequence[str],
    depth: int,
    judge: Judge | None,
    by: str,
    store: Store,
    progress: Progress,
) -> Collected:
    """Make or continue the collection in *folder*. Raises CommandError for queries from a file and from a model at once."""
    if queries and writer:
        raise CommandError("give --queries FILE or --writer URL, not both")
    made = Collection.begin(folder, documents, columns)
    progress.note(f"{made.known.documents:,} documents of {made.known.source}")
    made.add_queries(queries, count, writer)
    left_out = f"; {made.known.left_out} left out, because they copy their documents" if made.known.left_out else ""
    progress.note(f"{made.known.queries:,} queries, {made.known.queries_from}{left_out}")
    if made.known.shared is not None:
        progress.note(leak_line(made.known))
    with Graph(store, progress) as graph:
        made.add_to_pool(systems or tuple(made.known.asked) or _default_systems(progress.note), depth, graph)
        if judge:
            made.ask_judge(judge, graph)
    return published(made, by)


def _default_systems(on_note: Callable[[str], None]) -> tuple[str, ...]:
    """Return the default systems; only bm25 if the packages of models are not installed."""
    try:
        system(SYSTEMS[-1])
    except MissingExtra as error:
        on_note(f"the pool has only bm25: {error}")
        return SYSTEMS[:1]
    return SYSTEMS
