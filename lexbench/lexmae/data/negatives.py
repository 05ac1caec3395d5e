"""Hard negatives: documents that a system finds for the training queries and that are not relevant, stored as TREC runs.

A .json file beside each run records what it was made from. It is written last, so a run without it, or with other settings, is
mined again. Searches are runs in the store, so an interrupted command resumes. For negatives from elsewhere use the system
`run_file(path="...")`.
"""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CannotStart, CommandError, InvalidFile, NotationError, UnknownName
from lexbench.lexmae.data.training_sets import Lists, TrainingSet, open_training_set, search
from lexbench.lexmae.recipe import MODELS, STAGES, Paths, Recipe
from lexbench.notation import Call, Expression, parse
from lexbench.progress import Progress
from lexbench.runner import systems
from lexbench.runner.systems import System
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import digest
from lexbench.storage.reading import blocks, file_digest
from lexbench.storage.store import Store
from lexbench.trec.ids import encode, factorize, lookup
from lexbench.trec.runs import Run, write_run

_FORMAT = 1  # increase it when the same settings would give other negatives
_LISTS = 2  # increase it when the format of the lists in the store changes
_QUERIES = 40_000  # searched as one run (released code): bounds memory, to about 2 GB at a depth of 1000
_NAME = re.compile(r"[\w.-]+")
_FIELDS = 6  # of a line of a TREC run


class Mining(NamedTuple):
    """Which lists are mined: the system, the depth, and whether relevant documents stay."""

    system: System
    depth: int
    keeps_relevant: bool = False  # for a teacher's scores


def mine(recipe: Recipe, stage: int, progress: Progress) -> list[Path]:
    """Return the runs of negatives of a stage, one per training set in their order. Missing ones are mined.

    Each has the `depth` best documents of each query that are not relevant to it. If a system teaches the stage, its runs
    follow, with relevant documents. Raises CommandError if the recipe has no such stage or its `negatives` are not a system,
    and CannotStart if they use a model that is not trained yet.
    """
    settings = recipe.stage(stage)
    if settings is None:
        known = [str(number) for number in STAGES if recipe.stage(number)]
        raise CommandError(f"recipe {recipe.name} has no stage {stage}; it has: {', '.join(known) or 'none'}")
    if len(set(settings.queries)) < len(settings.queries):
        raise CommandError(f"stage {stage} names a training set twice: {', '.join(settings.queries)}; name each once")
    paths = Paths(recipe)
    minings = [
        Mining(systems.system(str(fill_placeholders(parse(settings.negatives), paths)), settings.negatives), settings.depth)
    ]
    teacher = teaching_system(settings.teacher)
    if settings.teacher_rank and not teacher:
        raise CommandError(f"stage{stage}.teacher_rank needs a system as teacher, e.g. ensemble(bm25, minilm)")
    if teacher:
        minings.append(Mining(teacher, settings.depth, keeps_relevant=True))
    store = Store(on_wait=progress.note, on_damage=progress.note)
    store.prepare()
    runs = []
    for mining, path in zip(minings, (paths.negatives, paths.teacher_scores), strict=False):
        for name in settings.queries:
            runs.append(path(stage, name))
            training_set = open_training_set(name, store, progress).sample(settings.most, recipe.seed)
            _mine(runs[-1], training_set, mining, store, progress)
    return runs


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


def _mine(path: Path, training_set: TrainingSet, mining: Mining, store: Store, progress: Progress) -> None:
    """Write the run of one training set, unless it exists and was made from the same settings and data."""
    system, depth = mining.system, mining.depth
    contract, facts_path = training_set.contract, path.with_name(path.name.removesuffix(".trec.gz") + ".json")
    made_from = {
        "format": _FORMAT,
        "system": digest(system.recipe),
        "depth": depth,
        "dataset": contract.stamp,
        "corpus": training_set.corpus.fingerprint,
        "queries": training_set.dataset.queries_sha256,
        "qrels": training_set.dataset.qrels_sha256,
    }
    if training_set.part:
        made_from["part"] = training_set.part
    if system.retriever.finished:
        made_from["file"] = system.retriever.file_identity(contract.id)
    if path.is_file() and facts_path.is_file():
        facts = json.loads(facts_path.read_bytes())
        if facts["made_from"] == made_from and facts["sha256"] == file_digest(path):
            return
        progress.note(f"{path} has other settings than the recipe, or was changed; its negatives are mined again")
    path.parent.mkdir(parents=True, exist_ok=True)
    for unfinished in path.parent.glob(f"*{path.name}.*{atomic.UNFINISHED}"):
        unfinished.unlink()
    part = path.with_name(f"part-{path.name}")
    lengths: list[int] = []
    with atomic.atomic_path(path) as draft, draft.open("wb") as whole:
        for run in _runs(training_set, system, depth, store, progress):
            mined = run if mining.keeps_relevant else _without_relevant(run, training_set).cut(depth)
            progress.start(contract.id, "write negatives", len(mined.query_ids), "queries")
            write_run(mined, part)
            with part.open("rb") as file:
                shutil.copyfileobj(file, whole)  # concatenated gzip files are a valid gzip file
            lengths += np.diff(mined.offsets).tolist()
            progress.advance(len(mined.query_ids))
            progress.end()
    part.unlink()
    counts = {"queries": sum(length > 0 for length in lengths), "negatives": sum(lengths)}
    facts = {"made_from": made_from, "retriever": system.name, "sha256": file_digest(path), "counts": counts}
    atomic.write_text(facts_path, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


def _runs(training_set: TrainingSet, system: System, depth: int, store: Store, progress: Progress) -> Iterator[Run]:
    """Yield runs of some queries at a time, deep enough to leave *depth* documents without the relevant ones."""
    if system.retriever.finished:
        yield system.retriever.read(training_set.contract.id)
        return
    deeper = depth + int(training_set.positives.lengths.max())
    for start in range(0, len(training_set.queries), _QUERIES):
        queries = training_set.queries[start : start + _QUERIES]
        yield search(training_set, queries, system, deeper, store, progress)


def _without_relevant(run: Run, training_set: TrainingSet) -> Run:
    """Return *run* without relevant documents and without queries that the training set does not have."""
    positives, width = training_set.positives, len(run.table)
    codes = lookup(run.table, training_set.corpus.doc_ids[positives.docs])
    query = np.repeat(np.arange(len(positives)), positives.lengths)
    relevant = np.sort((query * width + codes)[codes >= 0])  # each pair (query, document) as one number
    lists = np.repeat(_QueryNumbers(training_set).lookup(encode(run.query_ids)), np.diff(run.offsets))
    entries = lists * width + run.docs
    keep = (lists >= 0) & (np.append(relevant, -1)[np.searchsorted(relevant, entries)] != entries)
    offsets = np.concatenate(([0], np.cumsum(keep)))[run.offsets]
    return replace(run, offsets=offsets, docs=run.docs[keep], scores=run.scores[keep])


class _QueryNumbers:
    """Finds the queries of a training set by id."""

    def __init__(self, training_set: TrainingSet) -> None:
        # `lookup` needs descending order; the queries of a training set are ascending.
        self._table = encode(query.query_id for query in training_set.queries)[::-1]

    def lookup(self, query_ids: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """Return the index of each of *query_ids* (n,) among the queries, or -1 if it is not in the training set."""
        codes = lookup(self._table, query_ids)
        return np.where(codes >= 0, len(self._table) - 1 - codes, -1)


def read(path: Path, training_set: TrainingSet, store: Store, progress: Progress) -> Lists:
    """Return the lists that `mine` wrote, with scores, best first, by query of the training set. They are kept in the store.

    Queries and documents that the training set does not have are skipped. Raises InvalidFile if a line is not valid.
    """
    recipe = {
        "format": _LISTS,
        "run": file_digest(path),
        "corpus": training_set.corpus.fingerprint,
        "queries": training_set.dataset.queries_sha256,
        "qrels": training_set.dataset.qrels_sha256,
    }
    if training_set.part:
        recipe["part"] = training_set.part

    def work(draft: Path) -> None:
        progress.start(training_set.contract.id, "read negatives", len(training_set.queries), "queries")
        lists = _parsed(path, training_set, progress)
        np.save(draft / "offsets.npy", lists.offsets)
        np.save(draft / "docs.npy", lists.docs)
        np.save(draft / "scores.npy", np.asarray(lists.scores))
        progress.end()

    folder = store.produce("negatives", training_set.contract.id, recipe, work)
    docs, scores = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("docs", "scores"))
    return Lists(np.load(folder / "offsets.npy"), docs, scores)


def _parsed(path: Path, training_set: TrainingSet, progress: Progress) -> Lists:
    """Return the lists in a TREC run, sorted by query at the end, because a query can occur in several blocks."""
    numbers = _QueryNumbers(training_set)
    queries, docs, scores = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], [np.zeros(0, np.float32)]
    for query_ids, doc_ids, values in _columns(path):
        first = np.flatnonzero(np.append(True, query_ids[1:] != query_ids[:-1]))
        progress.advance(len(first))
        query = np.repeat(numbers.lookup(query_ids[first]), np.diff(np.append(first, len(query_ids))))
        table, codes = factorize(doc_ids)  # looking up sorted, distinct ids among millions is several times faster
        doc = lookup(training_set.corpus.doc_ids, table)[codes]
        known = (query >= 0) & (doc >= 0)
        queries.append(query[known].astype(np.int32))
        docs.append(doc[known].astype(np.int32))
        scores.append(values[known])
    query = np.concatenate(queries)
    lengths = np.bincount(query, minlength=len(training_set.queries))
    by_query = np.argsort(query, kind="stable")
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return Lists(offsets, np.concatenate(docs)[by_query], np.concatenate(scores)[by_query])


def _columns(path: Path) -> Iterator[tuple[NDArray[np.bytes_], NDArray[np.bytes_], NDArray[np.float32]]]:
    """Yield query ids, document ids and scores, (lines,) each, of a TREC run, some megabytes at a time."""
    try:
        for block in blocks(path):
            fields, newlines = block.text.split(), block.text.count(b"\n")
            if not block.text.endswith(b"\n"):
                raise InvalidFile(f"{path}: the last line is incomplete")  # noqa: TRY301 - handled like a broken gzip file
            if len(fields) != _FIELDS * newlines:
                raise InvalidFile(f"{path}: not every line has {_FIELDS} columns")  # noqa: TRY301
            yield np.array(fields[::_FIELDS]), np.array(fields[2::_FIELDS]), np.array(fields[4::_FIELDS], np.float32)
    except (InvalidFile, ValueError) as error:
        raise InvalidFile(f"{error}; remove the file, and mine again") from None


def fill_placeholders(value: Any, paths: Paths) -> Any:
    """Return an expression with {start}, {pretrained}, {stage1} and so on replaced by the folders of the recipe's models.

    Raises CannotStart if such a folder does not exist.
    """
    if isinstance(value, Expression):
        engine = None if value.engine is None else fill_placeholders(value.engine, paths)
        return Expression(fill_placeholders(value.head, paths), fill_placeholders(value.transforms, paths), engine)
    if isinstance(value, Call):
        return Call(value.name, fill_placeholders(value.args, paths), fill_placeholders(value.kwargs, paths))
    if isinstance(value, tuple):
        return tuple(fill_placeholders(item, paths) for item in value)
    return _with_folders(value, paths) if isinstance(value, str) else value


def _with_folders(text: str, paths: Paths) -> str:
    def folder(placeholder: re.Match[str]) -> str:
        path = paths.root / placeholder[1]
        if not path.is_dir():
            raise CannotStart(f"negatives need {placeholder[0]}, but {path} does not exist; train that model first")
        return str(path)

    return re.sub(rf"{{({'|'.join(MODELS)})}}", folder, text)  # in one pass: a folder's own name may contain braces
