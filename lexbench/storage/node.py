"""Artifacts as values: a `Node` names the parts that it is made from, how it is made, and how it is opened.

    Corpus -> vectors, passages, index -> search -> run -> result

No folder is in a node. `lexbench.artifacts.graph` makes nodes, finds them in the store, and opens them.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from lexbench.storage.artifact_folder import ENGINE_DIR, KeyFacts, Manifest, key_of, notes_in, server_bytes
from lexbench.storage.drafting import Draft
from lexbench.storage.stopwatch import Measurement, read_measurement

T_co = TypeVar("T_co", covariant=True)
REFERENCE = re.compile(r"[a-z-]+/[0-9a-f]{16}")  # kind and key


@dataclass(frozen=True)
class Stored:
    """A finished artifact in the store."""

    folder: Path

    @property
    def kind(self) -> str:
        """Its kind, e.g. "indexes"."""
        return self.folder.parent.name

    @property
    def name(self) -> str:
        """Its kind and key, which are the same in every store."""
        return f"{self.kind}/{key_of(self.folder)}"

    @property
    def facts(self) -> dict[str, Any]:
        """Its key facts. Raises LexbenchError if its manifest is damaged."""
        return Manifest.read(self.folder).key_facts

    def sizes(self, part: str = "") -> dict[str, int]:
        """Return the bytes of each file by its path, or only of the files in its folder *part*, if it has one.

        The manifest and the measurement do not count.
        """
        inside = f"{part}/" if part and (self.folder / part).is_dir() else ""
        return {name: count for name, (count, _) in Manifest.read(self.folder).items() if name.startswith(inside)}

    @property
    def bytes(self) -> int:
        """The bytes of its files."""
        return sum(self.sizes().values())

    @property
    def index_bytes(self) -> int:
        """The bytes of what is searched: of an engine's own files, or on its server; 0 if that is unknown."""
        stated = server_bytes(self.folder)
        return sum(self.sizes(ENGINE_DIR).values()) if stated is None else stated

    @property
    def measured(self) -> Measurement:
        """How long it took, and where; empty if that is damaged, because no score depends on it."""
        return read_measurement(self.folder)

    @property
    def notes(self) -> list[str]:
        """Its notes for readers of scores."""
        return notes_in(self.folder)


class Parts(Mapping[str, Any]):
    """The opened parts of a node by name. Each is opened when it is first asked for."""

    def __init__(
        self,
        nodes: "Mapping[str, Node[Any]]",
        places: "Mapping[str, Place]",
        open_part: "Callable[[Node[Any], Place], Any]",
    ) -> None:
        """Take the parts and their places, and a function that opens one."""
        self._nodes, self._places, self._open, self._opened = nodes, places, open_part, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._opened:
            self._opened[name] = self._open(self._nodes[name], self._places[name])
        return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def opened_as(self, name: str, node: "Node[T_co]") -> T_co:
        """Return the part *name* opened as another *node* that reads the same, e.g. with engines that workers search."""
        opened: T_co = self._open(node, self._places[name])
        return opened

    def place(self, name: str) -> "Place":
        """Return where the part *name* is."""
        return self._places[name]


class Node(Generic[T_co]):
    """One artifact, or several that are opened together. A subclass is a frozen dataclass; its methods but `make` are pure."""

    kind: ClassVar[str] = ""  # its folder in the store; "": nothing is written, it is only its parts, opened together
    named_by_content: ClassVar[bool] = False  # whether others know it by the `fingerprint` of what `open` returns
    resumable: ClassVar[bool] = False  # whether an interrupted `make` continues
    by_several: ClassVar[bool] = False  # whether several processes may make it together

    def label(self) -> str:
        """Return what people call it; the name of its folder begins so."""
        return type(self).__name__

    def parts(self) -> Mapping[str, "Node[Any]"]:
        """Return by name the artifacts that it is made from, or that opening it reads."""
        return {}

    def reads(self) -> Collection[str]:
        """Return the names of the parts that opening it reads. Default: all if it has no folder of its own, else none."""
        return () if self.kind else self.parts().keys()

    def facts(self) -> KeyFacts:
        """Return everything else that decides its content, as JSON values."""
        return {}

    def bytes_needed(self) -> float:
        """Return an estimate of the bytes that it takes in the store."""
        return 0

    def make(self, draft: Draft, parts: Parts) -> None:
        """Write it into the folder of *draft*."""
        raise NotImplementedError

    def open(self, stored: Stored | None, parts: Parts) -> T_co:
        """Return what others use of it. *stored* is None if it has no folder."""
        raise NotImplementedError


class Place(NamedTuple):
    """Where a node is in the store: its own artifact, if it has one, and the places of the parts that opening it reads."""

    stored: Stored | None
    parts: Mapping[str, "Place"]

    def artifacts(self) -> dict[str, Stored]:
        """Return by name every artifact that opening the node reads, itself first, without corpora."""
        found = {self.stored.name: self.stored} if self.stored and self.stored.kind != "corpora" else {}
        for part in self.parts.values():
            found |= part.artifacts()
        return found

    def written(self) -> list[Any]:
        """Return it as JSON values, for another process."""
        return [str(self.stored.folder) if self.stored else "", {name: part.written() for name, part in self.parts.items()}]

    @classmethod
    def read(cls, values: Any) -> "Place":
        """Return what `written` wrote."""
        folder, parts = values
        return cls(Stored(Path(folder)) if folder else None, {name: cls.read(part) for name, part in parts.items()})


def open_at(node: Node[T_co], place: Place) -> T_co:
    """Open *node* from artifacts that are there."""
    nodes = node.parts()
    read = {name: nodes[name] for name in place.parts}
    return node.open(place.stored, Parts(read, place.parts, open_at))


def references(identities: Any) -> Iterator[str]:
    """Yield the kind and key of each artifact that key facts name."""
    if isinstance(identities, Mapping):
        for value in identities.values():
            yield from references(value)
    elif isinstance(identities, list):
        for value in identities:
            yield from references(value)
    elif isinstance(identities, str) and REFERENCE.fullmatch(identities):
        yield identities
