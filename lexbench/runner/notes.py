"""What a result says besides its scores, because readers of these must know it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lexbench import measures
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.corpus_stages import placed
from lexbench.runner.scoring import without_relevant
from lexbench.runner.stages import DatasetRunner
from lexbench.runner.systems import System, learned_parts, leaves, model_name
from lexbench.trec.qrels import judge_remarks
from lexbench.trec.runs import Run
from lexbench.types import Kind

_QUERIES = 200  # evenly spaced, that are searched exactly, too: the share is then known to about .01
_DEPTHS = (10, 100)


def of_models(system: System, dataset: str) -> list[str]:
    """Return what encoders and rerankers say of how they are used, and of what encoders were trained on, each line once."""
    encoders = [leaf.encoder for leaf in leaves(system.retriever) if isinstance(leaf, Encoded)]
    lines = [line for part in learned_parts(system.retriever) for line in part.remarks()]
    lines += [
        f"{model_name(encoder)} was trained on the very queries that are scored, so it may do worse on others"
        for encoder in encoders
        if dataset in encoder.trained_on()
    ]
    return list(dict.fromkeys(lines))


def of_judgements(runner: DatasetRunner) -> list[str]:
    """Return how many judged queries nobody can score on, and whose judgements those in files with a judge's stamp are."""
    source, textless = runner.dataset.source, runner.dataset.topics.textless
    place = source.place("judgements")
    path = Path(place) if place else None
    lines = without_relevant(runner.dataset.qrels)
    if textless:
        lines.append(f"{len(textless)} of {len(runner.dataset.queries)} judged queries have no text, as {textless[0]!r}")
    return [*lines, *(judge_remarks(path) if path and not {".tsv", ".txt"}.isdisjoint(path.suffixes) else ())]


def of_candidates(system: System, runner: DatasetRunner, run: Run) -> list[str]:
    """Return how much of what is relevant the first retriever of a pipeline finds, or a reranked one; *run* has just these."""
    if not system.retriever.candidates:
        return []
    recall = measures.with_threshold(f"R@{system.retriever.candidates}", runner.dataset.contract)
    mean = measures.score(run, runner.dataset.qrels, [recall]).means[recall]
    return [f"the candidates that its first retriever found have {recall} {mean:.4f}"]


class Approximation(NamedTuple):
    """How much of exact search an approximate engine found."""

    engine: str
    shares: dict[int, float]  # of the best k, by k
    queries: int  # that were searched exactly, too

    def __str__(self) -> str:
        """Return it as a line for readers."""
        shares = " and ".join(f"{share:.3f} of the best {k}" for k, share in self.shares.items())
        return f"{self.engine} finds {shares} of exact search, on {self.queries} of the queries"


def of_approximation(system: System, runner: DatasetRunner) -> Iterator[Approximation]:
    """Yield how much of exact search each part of a system finds that searches dense or sparse vectors approximately.

    A sample of the queries is encoded and searched anew, and multiplied with all stored vectors, of which a shard is in memory
    at a time.
    """
    from lexbench.engines.kernels.dense import overlap

    seen = set()
    for part, stages in placed(system.retriever, runner):
        if not isinstance(part, Encoded) or part.engine.exact or part.engine.kind is Kind.MULTI:
            continue
        if (searched := (str(part), stages.corpus_name)) in seen:
            continue
        seen.add(searched)
        queries = runner.dataset.queries[:: max(1, len(runner.dataset.queries) // _QUERIES)][:_QUERIES]
        searcher = part.open(stages.index(part))
        vectors = searcher.encode_queries(queries)
        hits = searcher.search(vectors, min(max(_DEPTHS), len(stages.corpus)))
        shards = (part.as_documents(shard) for shard in stages.encodings(part.encoder).shards())
        yield Approximation(type(part.engine).__name__.lower(), overlap(shards, vectors, hits, _DEPTHS), len(queries))
