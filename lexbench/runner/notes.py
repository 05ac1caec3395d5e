"""Notes of a result: what readers must know besides its scores."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lexbench import measures
from lexbench.foreign import ForeignRetriever
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.artifacts import placed
from lexbench.runner.scoring import without_relevant
from lexbench.runner.search import DatasetRunner
from lexbench.runner.systems import System, encoded_leaves, model_name, trained_members
from lexbench.trec.qrels import judge_notes
from lexbench.trec.runs import Run
from lexbench.types import Kind

_QUERIES = 200  # evenly spaced, searched exactly: the recall is then known to about .01
_DEPTHS = (10, 100)


def model_notes(system: System, dataset: str) -> list[str]:
    """Return the notes of encoders and rerankers, and warnings about encoders that were trained on the tested queries."""
    lines = [line for member in trained_members(system.retriever) for line in member.notes()]
    lines += [
        f"{model_name(leaf.encoder)} was trained on the very queries that are scored, so it may do worse on others"
        for leaf in encoded_leaves(system.retriever)
        if dataset in leaf.encoder.trained_on()
    ]
    return list(dict.fromkeys(lines))


def judgement_notes(runner: DatasetRunner) -> list[str]:
    """Return notes about the judgements: queries without relevant documents or text, and the LLM judge, if there was one."""
    place, textless = runner.dataset.source.place("judgements"), runner.dataset.topics.textless
    path = Path(place) if place else None
    lines = [*runner.dataset.source.judgement_notes(), *without_relevant(runner.dataset.qrels)]
    if textless:
        lines.append(f"{len(textless)} of {len(runner.dataset.queries)} judged queries have no text, e.g. {textless[0]!r}")
    return [*lines, *(judge_notes(path) if path and not {".tsv", ".txt"}.isdisjoint(path.suffixes) else ())]


def candidate_notes(system: System, runner: DatasetRunner, run: Run) -> list[str]:
    """Return the recall of the candidates of a pipeline or a reranked retriever; *run* has exactly the candidates."""
    if not system.retriever.candidates:
        return []
    recall = measures.with_threshold(f"R@{system.retriever.candidates}", runner.dataset.contract)
    mean = measures.score(run, runner.dataset.qrels, [recall]).means[recall]
    return [f"the candidates that its first retriever found have {recall} {mean:.4f}"]


def short_list_notes(system: System, runner: DatasetRunner, run: Run, depth: int) -> list[str]:
    """Return a note if a search system outside lexbench returned fewer documents than it was asked for."""
    wanted = min(depth, len(runner.corpus) - runner.drops_self_matches)
    short = int((np.diff(run.offsets) < wanted).sum()) if isinstance(system.retriever, ForeignRetriever) else 0
    return [f"it returned fewer than {wanted:,} documents for {short:,} of {len(run.query_ids):,} queries"] if short else []


class Approximation(NamedTuple):
    """The recall of exact of an approximate engine."""

    engine: str
    shares: dict[int, float]  # of the best k of exact search, by k
    queries: int  # number of queries that were searched exactly

    def __str__(self) -> str:
        """Return a note."""
        shares = " and ".join(f"{share:.3f} of the best {k}" for k, share in self.shares.items())
        return f"{self.engine} finds {shares} of exact search, on {self.queries} of the queries"


def approximations(system: System, runner: DatasetRunner) -> Iterator[Approximation]:
    """Yield the recall of exact of each member of a system that searches dense or sparse vectors approximately.

    A sample of the queries is encoded and searched again, and multiplied with all stored vectors, a shard in memory at a time.
    """
    from lexbench.engines.kernels.dense import overlap

    seen = set()
    for leaf, artifacts in placed(system.retriever, runner.artifacts):
        if not isinstance(leaf, Encoded) or leaf.engine.exact or leaf.engine.kind is Kind.MULTI:
            continue
        if (searched := (str(leaf), artifacts.name)) in seen:
            continue
        seen.add(searched)
        queries = runner.dataset.queries[:: max(1, len(runner.dataset.queries) // _QUERIES)][:_QUERIES]
        searcher = leaf.open(artifacts.index(leaf))
        vectors = searcher.encode_queries(queries)
        hits = searcher.search(vectors, min(max(_DEPTHS), len(artifacts.corpus)))
        shards = (leaf.as_documents(shard) for shard in artifacts.encodings(leaf.encoder).shards())
        yield Approximation(type(leaf.engine).__name__.lower(), overlap(shards, vectors, hits, _DEPTHS), len(queries))
