"""The content of an artifact's folder: its manifest, its measurement, and the notes of an index.

An artifact is a finished folder in the store, named by a digest of its key facts. Its manifest is written last and lists the
sizes and digests of its files. `lexbench.storage.store` makes artifacts.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lexbench.errors import LexbenchError
from lexbench.storage import atomic
from lexbench.storage.reading import file_digest

SESSION = "only in this session"  # the name of a key fact that no other process has
CHANGED = "files that it is made from changed meanwhile; give the same command again when nothing writes to them"
KeyFacts = Mapping[str, Any]  # everything that can change the content of an artifact, as JSON values

MANIFEST = "manifest.json"
MEASURED = "measured.json"  # durations and machine, which differ from run to run, so they are in no manifest and no key
ENGINE_DIR = "engine"  # an engine's own files: what counts as the size of an index
_SERVER_BYTES = "bytes_on_server"  # in that folder, if a server has the index
VECTORS_FILE = "vectors.json"  # what the indexed vectors look like, a `lexbench.results.VectorSizes`
_NOTES = "remarks.json"
DESCRIPTIONS = (VECTORS_FILE, _NOTES)  # the files that describe an index; searching needs the engine's own
_SCHEMA = 1  # of manifests
_DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)  # what reading damaged JSON may raise


def digest(facts: Any) -> str:
    """Return 16 hex digits of the SHA-256 of *facts* as canonical JSON."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]


def key_of(folder: Path) -> str:
    """Return the key of an artifact: the end of its folder's name."""
    return folder.name.rpartition("-")[2]


# ---- the manifest ----------------------------------------------------------------------------------------------------------


def seal(draft: Path, kind: str, facts: KeyFacts) -> None:
    """Write the manifest of a draft: the sizes and digests of its files, and its key facts."""
    files = {}
    for path in sorted(draft.rglob("*")):
        atomic.sync(path)
        if path.is_file() and path.name not in (MANIFEST, MEASURED):
            files[path.relative_to(draft).as_posix()] = {"bytes": path.stat().st_size, "sha256": file_digest(path)}
    content = {"schema": _SCHEMA, "kind": kind, "key_facts": facts, "files": files}
    atomic.write_text(draft / MANIFEST, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


class Manifest(dict[str, tuple[int, str]]):
    """A manifest: the bytes and the SHA-256 of each file, by its path in the folder; and the key facts."""

    key_facts: dict[str, Any]

    @classmethod
    def parse(cls, content: bytes | None, kind: str, key: str) -> "Manifest":
        """Read the manifest of the artifact with *key* of *kind*. Raises LexbenchError if it is damaged or another's."""
        try:
            values = json.loads(content or b"")
            manifest = cls({str(name): (int(fact["bytes"]), str(fact["sha256"])) for name, fact in values["files"].items()})
            manifest.key_facts = dict(values["key_facts"])
            own = digest(manifest.key_facts), values["kind"], values["schema"]
        except _DAMAGED as error:
            raise LexbenchError(f"{MANIFEST} cannot be read ({error})") from None
        if own != (key, kind, _SCHEMA):
            raise LexbenchError(f"{MANIFEST} belongs to another folder")
        return manifest

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest of an artifact. Raises LexbenchError if it is damaged or another's."""
        try:
            content = (folder / MANIFEST).read_bytes()
        except OSError as error:
            raise LexbenchError(f"{MANIFEST} cannot be read ({error})") from None
        return cls.parse(content, folder.parent.name, key_of(folder))

    def state(self, folder: Path) -> str:
        """Return a digest of the sizes and times of the files, and of their facts here; "" if a file is missing.

        It changes when a file is written to, even if its time is set back, and when the manifest is another one.
        """
        try:
            status = [(name, (folder / name).stat()) for name in sorted(self)]
        except (OSError, ValueError):  # a name may have a NUL
            return ""
        return digest([[name, one.st_size, one.st_mtime_ns, one.st_ctime_ns, *self[name]] for name, one in status])

    def damage(self, folder: Path, only: Sequence[str] = ()) -> Iterator[str]:
        """Yield a line for each file, or each of the files *only*, that is missing, cut or changed.

        Sizes are compared before any file is read.
        """
        same_size = []
        for name, (size, sha256) in self.items():
            path = folder / name
            if only and name not in only:
                continue
            if not path.is_file():
                yield f"{name} is missing"
            elif path.stat().st_size != size:
                yield f"{name} has {path.stat().st_size} bytes, not {size}"
            else:
                same_size.append((name, sha256))
        for name, sha256 in same_size:
            if file_digest(folder / name) != sha256:
                yield f"{name} has changed since it was written"


def measured_text(folder: Path) -> bytes | None:
    """Return the content of an artifact's `measured.json`; None if it is missing, cut or changed.

    It has a digest of its own because it is in no manifest.
    """
    try:
        content = (folder / MEASURED).read_bytes()
        values = json.loads(content)
        expected = values.pop("sha256")
        return content if isinstance(values["seconds"], dict) and expected == digest(values) else None
    except _DAMAGED:
        return None


def write_server_bytes(index: Path, count: int) -> None:
    """Write into the folder of an engine how many bytes its server keeps, 0 if that is unknown."""
    (index / _SERVER_BYTES).write_text(f"{count}\n", encoding="utf-8")


def server_bytes(index: Path) -> int | None:
    """Return how many bytes the server of an index keeps; None if the index is in its folder."""
    stated = index / ENGINE_DIR / _SERVER_BYTES
    return int(stated.read_text(encoding="utf-8")) if stated.exists() else None


# ---- notes on what was indexed ---------------------------------------------------------------------------------------------


def write_notes(index: Path, lines: Sequence[str]) -> None:
    """Write notes on the documents of an index, for readers of its scores; no file if there are none."""
    if lines:
        atomic.write_text(index / _NOTES, json.dumps(list(lines), ensure_ascii=False) + "\n")


def notes_in(index: Path) -> list[str]:
    """Return the notes of an artifact."""
    file = index / _NOTES
    return [str(line) for line in json.loads(file.read_bytes())] if file.exists() else []
