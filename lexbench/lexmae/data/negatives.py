"""Hard negatives: documents that a system finds for the training queries and that are not relevant.

The lists of a training set are a folder of arrays, as `DocumentLists` has them, and facts.json with what they were made from: a
folder with other settings is mined again. Searches are runs in the store, so an interrupted command resumes. For negatives from
elsewhere use the system `run_file(path="...")`.
"""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lexbench.arrays.vectors import offsets_of
from lexbench.artifacts.graph import Graph
from lexbench.devices import torch_threads
from lexbench.errors import NotationError, UnknownName
from lexbench.lexmae import provenance
from lexbench.lexmae.data.training_sets import DocumentLists, TrainingSet, open_training_set, search
from lexbench.lexmae.recipe.settings import MODELS, Recipe
from lexbench.notation import parse, write_value
from lexbench.registry import has_threads, replace_plugins
from lexbench.retrievers.run_file import RunFile
from lexbench.runner import systems
from lexbench.runner.systems import System
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import digest
from lexbench.storage.environment import cores
from lexbench.trec.ids import encode, lookup
from lexbench.trec.runs import Run

_FORMAT = 1  # increase it when the same settings would give other negatives
_FACTS = "facts.json"
_QUERIES = 40_000  # searched as one run (released code): bounds memory, to about 2 GB at a depth of 1000
_NAME = re.compile(r"[\w.-]+")


class Mining(NamedTuple):
    """Which lists are mined: the system, the depth, and whether relevant documents stay."""

    system: System
    depth: int
    keeps_relevant: bool = False  # for a teacher's scores


def mine(recipe: Recipe, stage: int, graph: Graph) -> list[Path]:
    """Return the folders of a stage's negatives, one per training set in their order. Missing ones are mined.

    Each has the `depth` best documents of each query that are not relevant to it. If a system teaches the stage, the folders of
    its lists follow, with relevant documents. Raises CommandError if its `negatives` are not a system.
    """
    settings = recipe.stage(stage)
    assert settings is not None  # `plan.single_task` refuses it
    minings = [Mining(systems.system(fill_placeholders(settings.negatives, recipe), settings.negatives), settings.depth)]
    if teacher := teaching_system(settings.teacher):
        minings.append(Mining(teacher, settings.depth, keeps_relevant=True))
    graph.store.prepare()
    folders = []
    threads = recipe.hardware.threads or len(cores())  # torchrun gives each process one
    with torch_threads(threads):
        for mining in minings:
            for name in settings.queries:
                folders.append(recipe.negatives(stage, name, taught=mining.keeps_relevant))
                _mine(folders[-1], open_training_set(name, graph, recipe.leave_out), mining, threads, graph)
    return folders


def on_whole_machine(system: System, threads: int) -> System:
    """Return *system* with every GPU of this machine and with *threads*, unless its expression says otherwise.

    One process mines while the others wait, and torchrun gives each process a single thread.
    """
    import torch  # late, because the command line imports this module

    gpus = torch.cuda.device_count()

    def widened(plugin: Any) -> Any:
        # 1 is the default of engines, of which inexact ones may build another index with more; encoders have 0, torch's own.
        if has_threads(plugin) and plugin.threads == 1 and getattr(plugin, "exact", True):
            plugin = replace(plugin, threads=threads)
        if gpus > 1 and getattr(plugin, "device", None) == "auto":
            plugin = replace(plugin, device=",".join(f"cuda:{number}" for number in range(gpus)))
        return plugin

    return replace(system, retriever=replace_plugins(system.retriever, widened))


def teaching_system(teacher: str | None) -> System | None:
    """Return the system that *teacher* names, or None if it is the folder or hub name of a reranker, or None."""
    if teacher is None or "/" in teacher.partition("(")[0] or Path(teacher).exists():
        return None
    try:
        return systems.system(teacher)
    except (NotationError, UnknownName):
        if _NAME.fullmatch(teacher):  # the hub has models without an owner in their name
            return None
        raise


def _mine(folder: Path, training_set: TrainingSet, mining: Mining, threads: int, graph: Graph) -> None:
    """Write the lists of one training set, unless they exist and were made from the same settings and data."""
    system, contract = on_whole_machine(mining.system, threads), training_set.contract
    made_from = {
        "format": _FORMAT,
        "system": digest(system.recipe),
        "depth": mining.depth,
        "dataset": contract.stamp,
        "corpus": training_set.corpus.fingerprint,
        **training_set.dataset.digests,
        "part": training_set.part,
    }
    if len(training_set.left_out):
        made_from["left_out"] = digest(training_set.left_out.tolist())
    if isinstance(system.retriever, RunFile):
        made_from["file"] = system.retriever.file_identity(contract.id)
    if folder.exists():
        if json.loads((folder / _FACTS).read_bytes())["made_from"] == made_from:
            return
        graph.progress.note(f"{folder} has other settings than the recipe; its negatives are mined again")
        shutil.rmtree(folder)
    lists = _lists(training_set, mining._replace(system=system), graph)
    with provenance.drafted(folder) as draft:
        for name in ("offsets", "docs", "scores"):
            np.save(draft / f"{name}.npy", getattr(lists, name))
        counts = {"queries": int(np.count_nonzero(lists.lengths)), "negatives": len(lists.docs)}
        facts = {"made_from": made_from, "retriever": system.name, "counts": counts}
        atomic.write_json(draft / _FACTS, facts)


def _runs(training_set: TrainingSet, system: System, depth: int, graph: Graph) -> Iterator[Run]:
    """Yield runs of some queries at a time, deep enough to leave *depth* documents without the relevant ones."""
    if isinstance(system.retriever, RunFile):
        yield system.retriever.read(training_set.contract.id)
        return
    deeper = depth + int(training_set.positives.lengths.max())
    for start in range(0, len(training_set.queries), _QUERIES):
        queries = training_set.queries[start : start + _QUERIES]
        yield search(training_set, queries, system, deeper, graph)


def _lists(training_set: TrainingSet, mining: Mining, graph: Graph) -> DocumentLists:
    """Return the mined lists, best first. Queries and documents that the training set does not have are skipped."""
    corpus, positives = training_set.corpus, training_set.positives
    known_ids = encode(query.query_id for query in training_set.queries)[::-1]  # `lookup` needs descending order
    relevant = np.sort(np.repeat(np.arange(len(positives)), positives.lengths) * len(corpus) + positives.docs)
    queries, docs, scores = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], [np.zeros(0, np.float32)]
    for run in _runs(training_set, mining.system, mining.depth, graph):
        codes = lookup(known_ids, encode(run.query_ids))
        query = np.repeat(np.where(codes >= 0, len(known_ids) - 1 - codes, -1), np.diff(run.offsets))
        doc = lookup(corpus.doc_ids, run.table)[run.docs]
        keep = (query >= 0) & (doc >= 0) & ~np.isin(doc, training_set.left_out)
        if not mining.keeps_relevant:
            entries = query * len(corpus) + doc  # each pair (query, document) as one number
            keep &= np.append(relevant, -1)[np.searchsorted(relevant, entries)] != entries
            before = np.concatenate(([0], np.cumsum(keep)))  # entries kept before each
            keep &= before[:-1] - np.repeat(before[run.offsets[:-1]], np.diff(run.offsets)) < mining.depth
        queries.append(query[keep].astype(np.int32))
        docs.append(doc[keep].astype(np.int32))
        scores.append(run.scores[keep].astype(np.float32))
    query = np.concatenate(queries)
    by_query = np.argsort(query, kind="stable")
    offsets = offsets_of(np.bincount(query, minlength=len(training_set.queries)))
    return DocumentLists(offsets, np.concatenate(docs)[by_query], np.concatenate(scores)[by_query])


def read(folder: Path) -> DocumentLists:
    """Return the lists that `mine` wrote, mapped from disk, by query of the training set."""
    docs, scores = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("docs", "scores"))
    return DocumentLists(np.load(folder / "offsets.npy"), docs, scores)


def fill_placeholders(system: str, recipe: Recipe) -> str:
    """Return an expression with {start}, {pretrained}, {stage1} and so on replaced by the folders of those models."""
    # In one pass, because a folder's own name may contain braces. The strings of a written expression are from `write_value`.
    models = "|".join(MODELS)
    return re.sub(rf"{{({models})}}", lambda found: write_value(str(recipe.folder(found[1])))[1:-1], str(parse(system)))
