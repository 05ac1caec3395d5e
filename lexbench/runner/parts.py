"""Encoding alone, or a part of it: what the jobs of a plan need of vectors, before any of them is run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lexbench.datasets.dataset import open_dataset
from lexbench.errors import CommandError
from lexbench.executors import executor as named_executor
from lexbench.plugins import Executor
from lexbench.progress import Progress
from lexbench.retrievers.encoded import Encoded as EncodedRetriever
from lexbench.runner.corpus_stages import CorpusStages, Part, placed
from lexbench.runner.plan import Plan
from lexbench.runner.stages import DatasetRunner
from lexbench.runner.systems import describe, leaves
from lexbench.storage.store import Store


class Encoded(NamedTuple):
    """What came of encoding one corpus with one encoder."""

    corpus: str
    encoder: str  # its class
    left: int  # shards that other parts have yet to make
    folder: Path | None  # where the vectors are, when none is left


def encode(
    plan: Plan, store: Store, part: tuple[int, int], progress: Progress, executor: Executor | None = None
) -> Iterator[Encoded]:
    """Encode a *part*, (number from 0, of how many), of each corpus of *plan* with each encoder of its systems.

    Several may do so at once, in one store, on any machines; the one that makes the last shard finishes the folder.
    CommandError for a system without an encoder.
    """
    store.prepare()
    done: set[tuple[str, str]] = set()
    runner: DatasetRunner | None = None
    for job in plan.jobs:
        if not any(isinstance(leaf, EncodedRetriever) for leaf in leaves(job.system.retriever)):
            raise CommandError(f"{job.system.label} has no encoder; name one that has, as lexmae_nano@impact")
        if runner is None or runner.dataset.contract.id != job.contract.id:
            runner = DatasetRunner(open_dataset(job.contract, job.source), store, progress, executor or named_executor())
        for leaf, stages in placed(job.system.retriever, runner):
            if not isinstance(leaf, EncodedRetriever):
                continue
            key = stages.corpus.fingerprint, str(describe(leaf.encoder, index=True))
            if key not in done:
                done.add(key)
                yield _encoded(stages, leaf.encoder, Part(*part))


def _encoded(stages: CorpusStages, encoder: Any, part: Part) -> Encoded:
    left = stages.encode_part(encoder, part)
    folder = None if left else stages.encodings(encoder).path
    return Encoded(stages.corpus_name, type(encoder).__name__, left, folder)
