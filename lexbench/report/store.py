"""The store as tables: its artifacts and what uses them, what to remove, and whether it is intact."""

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from filelock import Timeout

from lexbench.artifacts.corpora import StoredTexts
from lexbench.artifacts.graph import FORMAT, Graph
from lexbench.artifacts.removal import remove
from lexbench.artifacts.vectors import CorpusVectors
from lexbench.datasets.location import find_again
from lexbench.display.answer import Answer
from lexbench.display.progress import Progress
from lexbench.display.table import Table
from lexbench.encodings.shards import read_rows
from lexbench.errors import CannotStart, CommandError, LexbenchError, UnknownName
from lexbench.results import Result
from lexbench.runner import jobs
from lexbench.runner.plan import Plan, job_of
from lexbench.runner.scoring import first_documents
from lexbench.runner.search import read_run
from lexbench.runner.soundness import faults_by_judgements, stored_faults
from lexbench.runner.systems import system
from lexbench.storage import locks
from lexbench.storage.node import Node, Stored, references
from lexbench.storage.store import Store, finished_folders, readable, readable_bytes
from lexbench.trec.qrels import Qrels
from lexbench.types import MultiVectors

_KEPT = ("corpora", "encodings", "results")  # kinds that a later command may use although no result uses them
_SHOWN = 3  # users of an artifact
_VECTORS = 8  # documents per encoding that are encoded again
_ROUNDING = 0.2  # of the length of a vector, which other processors and batches may change by rounding


class StoredItem(msgspec.Struct, frozen=True, kw_only=True):
    """One artifact of the store."""

    name: str  # its kind and key
    label: str  # for people
    bytes: int
    age: float  # seconds
    used_by: list[str]  # kinds and labels
    unfinished: bool = False  # a killed or failed command has left it, or one is making it


@dataclass
class StoreContents:
    """What is in a store, by kind and key, and which artifact uses which."""

    store: Store
    folders: dict[str, Path] = field(default_factory=dict)
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    uses: dict[str, set[str]] = field(default_factory=dict)
    drafts: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        corpora: dict[str, set[str]] = {}  # by content
        for folder in finished_folders(self.store):
            stored = Stored(folder)
            self.folders[stored.name] = folder
            with suppress(LexbenchError, OSError, ValueError, KeyError):  # damaged
                self.facts[stored.name] = stored.facts
                if stored.kind == "corpora":
                    content = json.loads((folder / "corpus.json").read_bytes())["fingerprint"]
                    corpora.setdefault(content, set()).add(stored.name)
        for name in self.folders:
            facts = self.facts.get(name, {})
            used = set(references(facts)).union(*(corpora.get(text, ()) for text in _texts(facts)))
            self.uses[name] = used & self.folders.keys()
        for folder in self.store.root.glob("*/*.draft"):
            self.drafts[f"{folder.parent.name}/{folder.stem}"] = folder

    def users(self, name: str) -> set[str]:
        """Return the artifacts that use one."""
        return {one for one, used in self.uses.items() if name in used}

    def label(self, name: str) -> str:
        """Return what people call an artifact."""
        folder = self.folders.get(name)
        return folder.name.rpartition("-")[0] if folder else "unfinished"

    def tree(self, names: Iterable[str]) -> list[Any]:
        """Return for each artifact "kind/key label", or {"kind/key label": the tree of what it was made from}."""
        parts = {f"{one} {self.label(one)}": self.tree(self.uses[one]) for one in sorted(names)}
        return [{part: inner} if inner else part for part, inner in parts.items()]

    def items(self, names: Iterable[str]) -> list[StoredItem]:
        """Return what is known of artifacts, by kind and label."""
        found = []
        for name in names:
            folder = self.folders.get(name) or self.drafts[name]
            files = [path.stat() for path in folder.rglob("*") if path.is_file()]
            users = sorted(f"{one.partition('/')[0]} {self.label(one)}" for one in self.users(name))
            age = time.time() - max((one.st_mtime for one in files), default=folder.stat().st_mtime)
            size = sum(one.st_size for one in files)
            item = StoredItem(
                name=name, label=self.label(name), bytes=size, age=age, used_by=users, unfinished=name in self.drafts
            )
            found.append(item)
        return sorted(found, key=lambda item: (item.label.partition("-")[0], item.label, item.name))

    def called(self, name: str) -> set[str]:
        """Return the artifacts that *name* stands for: a dataset, a corpus, a system, or the kind and key of one."""
        if name in self.folders or name in self.drafts:
            return {name}
        text = readable(name)
        found = set()
        for one in self.folders:
            kind, label = one.partition("/")[0], self.label(one)
            of_dataset = label == text or label.startswith(f"{text}-")
            if of_dataset or (kind not in ("corpora", "encodings") and label.endswith(f"-{text}")):
                found.add(one)
        return found

    def with_users(self, names: set[str]) -> set[str]:
        """Return artifacts, everything that uses them, and the indexes, runs and vectors that only they use."""
        gone = set(names)
        while more := {one for name in gone for one in self.users(name)} - gone:
            gone |= more
        while more := {one for name in gone for one in self.uses.get(name, ()) if self._only(one, gone)} - gone:
            gone |= more
        return gone

    def _only(self, name: str, users: set[str]) -> bool:
        """Return whether only *users* use an artifact. A corpus counts as used: every system on it needs it."""
        return not name.startswith("corpora/") and self.users(name) <= users

    def unreachable(self) -> set[str]:
        """Return the artifacts that no later command can use, or that no result uses although they are made for one."""
        needed = {name for name in self.folders if name.startswith("results/")}
        needed |= {name for name in self.folders if name.startswith("timings/") and self.uses[name]}
        while more := {one for name in needed for one in self.uses[name]} - needed:
            needed |= more
        loose = {name for name in self.folders if name not in needed and not name.startswith(_KEPT)}
        old = {name for name, facts in self.facts.items() if "format" in facts and facts["format"] != FORMAT}
        left = {name for name in self.drafts if not name.startswith("encodings/") and self._is_free(name)}
        return loose | old | left

    def _is_free(self, name: str) -> bool:
        """Return whether no process is making an artifact."""
        path = self.store.root / "locks" / f"{name.replace('/', '-')}.lock"
        try:
            with locks.taken(path):
                return True
        except (Timeout, CannotStart):
            return False


def _texts(facts: Any) -> Iterator[str]:
    """Yield every text in key facts."""
    if isinstance(facts, str):
        yield facts
    elif isinstance(facts, Mapping | list):
        for value in facts.values() if isinstance(facts, Mapping) else facts:
            yield from _texts(value)


class StoreList(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """Artifacts of a store, by dataset and system."""

    artifacts: list[StoredItem]
    what: str  # of them, e.g. "removed"
    left: list[str] = []  # what could not be removed from a server

    @classmethod
    def of_store(cls, store: Store) -> "StoreList":
        """Return everything in a store."""
        found = StoreContents(store)
        advice = "to remove some, type: lexbench store remove NAME --dry-run"
        return cls(artifacts=found.items([*found.folders, *found.drafts]), what=f"in the store; {advice}")

    def tables(self) -> list[Table]:
        """Return one row per artifact."""
        rows = []
        for one in self.artifacts:
            others = f" and {len(one.used_by) - _SHOWN} more" if len(one.used_by) > _SHOWN else ""
            users = "being made, or left by a killed command" if one.unfinished else ", ".join(one.used_by[:_SHOWN]) + others
            unused = "" if one.name.startswith(("results/", "timings/")) else "nothing"
            rows.append((one.label, one.name, readable_bytes(one.bytes), _age(one.age), users or unused))
        return [Table("", ("what", "artifact", "size", "age", "used by"), tuple(rows), is_text=True)] if rows else []

    def lines(self) -> list[str]:
        """Return how many there are, and how large they are."""
        size = readable_bytes(sum(one.bytes for one in self.artifacts))
        return [f"{len(self.artifacts)} artifacts, {size}, {self.what}", *self.left]


def _age(seconds: float) -> str:
    """Return an age in its largest unit."""
    units = (("d", 86400), ("h", 3600), ("min", 60))
    return next((f"{seconds / size:.0f} {unit}" for unit, size in units if seconds >= size), f"{seconds:.0f} s")


def remove_artifacts(store: Store, names: Sequence[str], *, unreachable: bool, dry_run: bool) -> StoreList:
    """Remove what *names* stand for, see `lexbench.store_remove`.

    Raises CommandError without names, UnknownName for one, and CannotStart if something cannot be removed: then nothing is.
    """
    if not names and not unreachable:
        raise CommandError("name a dataset, a system or an artifact of lexbench store list, or type --unreachable")
    found, gone = StoreContents(store), set[str]()
    for name in names:
        if not (called := found.called(name)):
            known = sorted({found.label(one) for one in found.folders})
            raise UnknownName("dataset, system or artifact", name, known, see="lexbench store list")
        gone |= found.with_users(called)
    if unreachable:
        gone |= found.unreachable()
    items = found.items(gone)
    order = sorted(gone, key=lambda name: len(found.uses.get(name, ())), reverse=True)  # users before what they use
    folders = [] if dry_run else [found.folders.get(name) or found.drafts[name] for name in order]
    if kept := [one for one in folders if not all(os.access(place, os.W_OK) for place in (one.parent, one))]:
        raise CannotStart(f"cannot remove {kept[0]} (no permission); nothing was removed")
    left = list(filter(None, [remove(store, folder) for folder in folders]))
    return StoreList(artifacts=items, what="would be removed; nothing was" if dry_run else "removed", left=left)


# ---- checking --------------------------------------------------------------------------------------------------------------


class CheckedItem(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found about one artifact."""

    name: str
    fault: str  # in one line; "" if there is none


class StoreCheck(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """Whether a store is intact."""

    damaged: list[CheckedItem]
    intact: int
    recomputed: list[CheckedItem] = []  # results that were made again

    @property
    def healthy(self) -> bool:
        """Whether nothing is damaged, and every result that was made again is the same."""
        return not self.damaged and not any(one.fault for one in self.recomputed)

    def tables(self) -> list[Table]:
        """Return a row per damaged artifact, and per result that was made again."""
        rows = [(one.name, one.fault, "remove it; it is made again when needed") for one in self.damaged]
        rows += [(one.name, one.fault or "the same when made again", "") for one in self.recomputed]
        return [Table("", ("artifact", "state", ""), tuple(rows), is_text=True)] if rows else []

    def lines(self) -> list[str]:
        """Return how many artifacts are intact."""
        return [f"{self.intact:,} of {self.intact + len(self.damaged):,} artifacts are intact"]


def check_store(store: Store, recompute: int, progress: Progress) -> StoreCheck:
    """Read every byte of a store, check its results, and make *recompute* of them again.

    Raises CommandError for a number below 0.
    """
    if recompute < 0:
        raise CommandError(f"--recompute {recompute}: a whole number from 0")
    damaged, intact = [], 0
    folders, judged = list(finished_folders(store)), dict[str, Qrels | None]()
    progress.start(str(store.root), "check", len(folders), "artifacts")
    for folder in folders:
        if fault := next(chain(store.damage(folder, thoroughly=True), _faults_of_result(store, folder, judged)), None):
            damaged.append(CheckedItem(name=f"{folder.parent.name}/{folder.name}", fault=fault))
        intact += not fault
        progress.advance()
    progress.end()
    return StoreCheck(damaged=damaged, intact=intact, recomputed=list(_recomputed(store, recompute, progress)))


def _faults_of_result(store: Store, folder: Path, judged: dict[str, Qrels | None]) -> Iterator[str]:
    """Yield how a stored result contradicts itself, its key, its judgements, or the run that it was scored from."""
    result = _result(folder) if folder.parent.name == "results" else None
    if result is None:
        return
    yield from stored_faults(result, folder)
    yield from faults_by_judgements(result, judged)
    kind, _, key = str(Stored(folder).facts.get("run")).partition("/")
    run = next((store.root / kind).glob(f"*-{key}"), None) if key else None
    if run and result.top and not result.counts.excluded:  # else judgements decide which documents it keeps
        with suppress(LexbenchError, OSError, ValueError):  # the run or its corpus is damaged or gone
            if first_documents(read_run(run).run, result.query_ids) != result.top:
                yield "the documents that it keeps are not those of its run"


def _recomputed(store: Store, count: int, progress: Progress) -> Iterator[CheckedItem]:
    """Make *count* results again, evenly spaced over those of systems that a command can name, and compare them."""
    folders = [path.parent for path in sorted(store.root.glob("results/*/result.json"))]
    stored = [(folder, _result(folder)) for folder in folders]
    known = [(folder, one) for folder, one in stored if one and Stored(folder).facts.get("run")]
    for folder, result in [known[at * len(known) // count] for at in range(min(count, len(known)))] if known else []:
        try:
            fault = _difference(store, folder, result, progress)
        except LexbenchError as error:
            fault = f"cannot be made again: {error}"
        yield CheckedItem(name=f"{folder.parent.name}/{folder.name}", fault=fault)


def _result(folder: Path) -> Result | None:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((folder / "result.json").read_bytes(), type=Result)
    return None


def _difference(store: Store, folder: Path, result: Result, progress: Progress) -> str:
    """Make a result again from the stored corpora and vectors, and some of the vectors; return what differs, or ""."""
    contract, source = find_again(result.dataset, store.place(result.digests))
    expression = result.expression or result.system
    with TemporaryDirectory(dir=store.root) as place:
        for kind in ("corpora", "encodings"):
            (store.root / kind).mkdir(exist_ok=True)
            Path(place, kind).symlink_to(store.root / kind, target_is_directory=True)
        plan = Plan((job_of(contract, system(expression), tuple(result.means), result.depth, None, source),))
        (outcome,) = jobs.run(plan, Store(Path(place)), progress)
        if outcome.result is None:
            return f"cannot be made again: {outcome.error}"
        kind, key = Stored(folder).facts["run"].split("/")
        before = next((store.root / kind).glob(f"*-{key}"), None)
        after = outcome.kept if isinstance(outcome.kept, Path) else None
        same_run = before is None or after is None or _same_run(before, after)
        with Graph(Store(Path(place)), progress) as graph:
            if outcome.run and (line := next(_exchanged(outcome.run, graph), "")):
                return line
    different = [name for name, values in result.per_query.items() if outcome.result.per_query.get(name) != values]
    if different:
        return f"its values of {', '.join(different)} differ when it is made again"
    return "" if same_run else "its lists differ when they are made again, and its values do not"


def _exchanged(run: Node[Any], graph: Graph) -> Iterator[str]:
    """Yield a line for each corpus that a run is made from with other texts than were written, and for other vectors."""
    parts = {graph.key(node): node for node in _nodes_of(run) if isinstance(node, StoredTexts | CorpusVectors)}
    for node in parts.values():
        if isinstance(node, CorpusVectors):
            if not _same_vectors(node, graph):
                yield f"the vectors of {node.label()} differ when some are made again; remove its encoding"
        elif (corpus := graph.open(node)).digest() != corpus.fingerprint:
            yield f"the texts of {node.label()} are not those of its fingerprint; remove its corpus"


def _nodes_of(node: Node[Any]) -> Iterator[Node[Any]]:
    """Yield *node*, and everything that it is made from."""
    yield node
    for part in node.parts().values():
        yield from _nodes_of(part)


def _same_vectors(node: CorpusVectors, graph: Graph) -> bool:
    """Encode a few documents again, and return whether their stored vectors are these, but for rounding."""
    corpus, encoder = graph.open(node.corpus), node.encoder
    positions = np.unique(np.linspace(0, len(corpus) - 1, _VECTORS).astype(np.int32))
    documents = [document for at in positions.tolist() for document in corpus.documents(at, at + 1)]
    made = encoder.encode_tokens(encoder.tokenise_documents(documents), lambda _count: None)
    kept = read_rows(graph.stored(node).folder, positions)
    first, second = (one.values if isinstance(one, MultiVectors) else one for one in (made, kept))
    return first.shape == second.shape and bool(_length(first - second) <= _ROUNDING * _length(second))


def _length(vectors: Any) -> float:
    """Return the square root of the sum of squares of dense or sparse *vectors*."""
    return float(np.linalg.norm(vectors if isinstance(vectors, np.ndarray) else vectors.data))


def _same_run(one: Path, other: Path) -> bool:
    first, second = read_run(one).run, read_run(other).run
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in ("offsets", "docs", "scores"))
