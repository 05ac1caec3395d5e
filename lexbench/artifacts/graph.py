"""The graph of artifacts: it finds each node in the store, makes what is missing, and opens it.

The key of an artifact is a digest of its key facts: those of the node, and the keys of its parts.
"""

import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar
from uuid import uuid4

from lexbench import compiling
from lexbench.artifacts.describe import is_lasting
from lexbench.artifacts.removal import close
from lexbench.display.progress import Progress
from lexbench.errors import LexbenchError
from lexbench.executors import executor as named_executor
from lexbench.plugins import Executor
from lexbench.storage.artifact_folder import CHANGED, SESSION, KeyFacts, digest
from lexbench.storage.code import recoded, without_code
from lexbench.storage.drafting import Draft
from lexbench.storage.node import REFERENCE, Node, Parts, Place, Stored, open_at
from lexbench.storage.store import Session, Store

FORMAT = 2  # of all artifacts; raise it when an artifact of an older lexbench would be misread
T = TypeVar("T")
_PROCESS = uuid4().hex


class Step(NamedTuple):
    """What a plan says about one artifact."""

    kind: str
    label: str
    finished: bool
    bytes: int  # that making it takes, by estimate


@dataclass
class _Known:
    """What the graph has found out about a node."""

    node: Node[Any]
    parts: Mapping[str, Node[Any]]
    own: KeyFacts | None = None  # what the node itself adds to its key facts
    facts: KeyFacts | None = None
    lasting: bool | None = None
    place: Place | None = None
    opened: Any = None  # of a node that is named by its content


@dataclass
class Graph:
    """Makes and opens the artifacts of a store. Use it in a `with` block: what only this process can use goes at its end."""

    store: Store
    progress: Progress = field(default_factory=Progress)
    executor: Executor | None = field(default_factory=named_executor)  # encodes corpora; None: the one that suits the encoder
    dry: bool = False  # whether it only plans
    replaced: str = ""  # a note on code of lexbench that this process has replaced: then no other one may use what it makes
    _known: dict[int, _Known] = field(default_factory=dict, repr=False)
    _recoded: set[str] = field(default_factory=set, repr=False)  # plug-ins of which a note has said that their code has changed
    _session: Session | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove every artifact that no other process can know to be the same."""
        if self._session:
            close(self.store, self._session)
            self._session, self._known = None, {}

    # ---- what is known of a node: nothing is made but what is named by its content

    def _of(self, node: Node[Any]) -> _Known:
        """Return what is known of *node*. Its parts are made once, so that each of them is known too."""
        known = self._known.get(id(node))
        if known is None or known.node is not node:
            known = self._known[id(node)] = _Known(node, node.parts())
        return known

    def parts(self, node: Node[Any]) -> Mapping[str, Node[Any]]:
        """Return the parts of *node*, the same objects at each call."""
        return self._of(node).parts

    def own_facts(self, node: Node[Any]) -> KeyFacts:
        """Return what *node* adds to the keys of its parts: the format of artifacts, and its own facts."""
        known = self._of(node)
        if known.own is None:
            known.own = {"format": FORMAT, **({SESSION: _PROCESS} if self.replaced else {}), **node.facts()}
        return known.own

    def key(self, node: Node[Any]) -> str:
        """Return the key of an artifact."""
        return digest(self.key_facts(node))

    def key_facts(self, node: Node[Any]) -> KeyFacts:
        """Return everything that decides the content of an artifact. Parts that are named by their content are made."""
        known = self._of(node)
        if known.facts is None:
            known.facts = {**self.own_facts(node), **self._identities(known.parts)}
        return known.facts

    def _identities(self, parts: Mapping[str, Node[Any]]) -> dict[str, Any]:
        return {name: self.identity(part) for name, part in parts.items()}

    def identity(self, node: Node[Any]) -> Any:
        """Return what stands for *node* in the key facts of others: its content, its kind and key, or those of its parts.

        While its content is unknown in a dry graph, its kind and key stand for it: no artifact has these key facts.
        """
        if node.named_by_content and not (self.dry and not self._is_there(node)):
            return self.open(node).fingerprint
        return f"{node.kind}/{self.key(node)}" if node.kind else self._identities(self.parts(node))

    def is_lasting(self, node: Node[Any]) -> bool:
        """Return whether another process can know that an artifact is the same."""
        known = self._of(node)
        if known.lasting is None:
            known.lasting = all(map(self.is_lasting, known.parts.values())) and is_lasting(self.own_facts(node))
        return known.lasting

    def _store(self, node: Node[Any]) -> Store:
        if self.is_lasting(node):
            return self.store
        self._session = self._session or self.store.session()
        return self._session.store

    # ---- making and opening

    def open(self, node: Node[T]) -> T:
        """Return what others use of *node*. Whatever is missing for it is made first."""
        if not node.named_by_content:
            return open_at(node, self.place(node))
        known = self._of(node)
        if known.opened is None:
            known.opened = open_at(node, self.place(node))
        opened: T = known.opened
        return opened

    def place(self, node: Node[Any]) -> Place:
        """Return where *node* is. Whatever is missing is made: it, and what opening it reads."""
        known = self._of(node)
        if known.place is None:
            stored = self._made(node) if node.kind else None
            known.place = Place(stored, {name: self.place(known.parts[name]) for name in node.reads()})
        return known.place

    def _opened(self, node: Node[T], place: Place) -> T:
        """Open a part that is at *place*; a corpus is opened once."""
        return self.open(node) if node.named_by_content else open_at(node, place)

    def stored(self, node: Node[Any]) -> Stored:
        """Return the artifact of *node*, made if it is missing."""
        stored = self.place(node).stored
        assert stored is not None, f"{type(node).__name__} has no folder"
        return stored

    def _made(self, node: Node[Any], *, anew: bool = False) -> Stored:
        facts, lasting = self.key_facts(node), self.is_lasting(node)
        # The draft of an object is never continued: the object may have changed since.
        options = {"resumable": node.resumable and lasting, "shared": node.by_several, "anew": anew}
        with self._store(node).draft(node.kind, node.label(), facts, **options) as slot:
            if slot.unfinished:
                if lasting:
                    self._note_changed_code(node, facts)
                nodes = self.parts(node)
                places = {name: self.place(part) for name, part in nodes.items()}  # made before any time is measured
                draft = Draft(slot.unfinished, self.progress, executor=self.executor)
                with compiling.announced(self.progress.note):
                    node.make(draft, Parts(nodes, places, self._opened))
                if lasting and without_code({"format": FORMAT, **node.facts()}) != without_code(self.own_facts(node)):
                    shutil.rmtree(slot.unfinished)  # no process may continue it
                    raise LexbenchError(f"{node.label()}: {CHANGED}")
                for stored in {name: one for place in places.values() for name, one in place.artifacts().items()}.values():
                    draft.watch.add(stored.folder)
                draft.watch.write(slot.unfinished)
        return Stored(slot.folder)

    def make_anew(self, node: Node[Any]) -> Stored:
        """Make an artifact again, which replaces the one that is there."""
        self._of(node).place = None
        return self._made(node, anew=True)

    def _note_changed_code(self, node: Node[Any], facts: KeyFacts) -> None:
        """Show a note for each plug-in of whose older code the store has this artifact."""
        made = _without_references(facts)
        for folder in self.store.folders(node.kind, node.label()):
            with suppress(LexbenchError):  # damaged
                before = _without_references(Stored(folder).facts)
                if before != made and without_code(before) == without_code(made):
                    changed = {one.rpartition("/")[2].rpartition(":")[2] for one in recoded(before, made)} - self._recoded
                    self._recoded |= changed
                    for name in sorted(changed):
                        self.progress.note(f"the code of {name} has changed since it was last run: made again")

    # ---- planning

    def plan(self, nodes: Iterable[Node[Any]]) -> dict[str, Step]:
        """Return every artifact that *nodes* need, by what stands for it, and whether it is there; parts first.

        Nothing is made if the graph is *dry*. What only making an artifact needs is left out if it is there.
        """
        steps: dict[str, Step] = {}
        for node in nodes:
            parts, there = self.parts(node), bool(node.kind) and self._is_there(node)
            needed = self.plan(parts[name] for name in (node.reads() if there else parts))
            steps |= {name: step for name, step in needed.items() if name not in steps}
            if node.kind:
                step = Step(node.kind, node.label(), there, 0 if there else int(node.bytes_needed()))
                steps.setdefault(str(self.identity(node)), step)
        return steps

    def _is_there(self, node: Node[Any]) -> bool:
        return self.is_lasting(node) and self.store.finished(node.kind, self.key_facts(node)) is not None


def _without_references(facts: Any) -> Any:
    """Return key facts without the keys of other artifacts, which change with the code that made these."""
    if isinstance(facts, Mapping):
        return {name: _without_references(value) for name, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [_without_references(value) for value in facts]
    return "" if isinstance(facts, str) and REFERENCE.fullmatch(facts) else facts
