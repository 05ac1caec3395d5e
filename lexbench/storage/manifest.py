"""What a finished folder says of itself: its manifest, written last, with the sizes and digests of its files and its recipe."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lexbench.errors import LexbenchError
from lexbench.storage import atomic
from lexbench.storage.reading import file_digest

MANIFEST = "manifest.json"
MEASURED = "measured.json"  # durations and machine: differs from run to run, so it has no digest and is in no key


def digest(recipe: Any) -> str:
    """Return 16 hex digits of the SHA-256 of *recipe* as canonical JSON."""
    text = json.dumps(recipe, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]


def key_of(folder: Path) -> str:
    """Return the key of a finished folder: what its name ends in."""
    return folder.name.rpartition("-")[2]


def seal(draft: Path, stage: str, recipe: Mapping[str, Any]) -> None:
    """Write the manifest of a draft, last: sizes and digests of its files, and the recipe they came from."""
    files = {}
    for path in sorted(draft.rglob("*")):
        if path.is_dir():
            atomic.sync(path)
        elif path.name not in (MANIFEST, MEASURED):
            atomic.sync(path)
            files[path.relative_to(draft).as_posix()] = {"bytes": path.stat().st_size, "sha256": file_digest(path)}
    content = {"schema": 1, "stage": stage, "recipe": recipe, "files": files}
    atomic.write_text(draft / MANIFEST, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


class Listed(dict[str, tuple[int, str]]):
    """What a manifest lists: the bytes and the SHA-256 of each file, by its name below the folder; and the recipe."""

    recipe: Mapping[str, Any]

    @classmethod
    def read(cls, content: bytes | None, stage: str, key: str) -> "Listed":
        """Read a manifest, which must be that of the folder with *key* of *stage*; LexbenchError says what is wrong with it."""
        try:
            manifest = json.loads(content or b"")
            listed = cls({str(name): (int(fact["bytes"]), str(fact["sha256"])) for name, fact in manifest["files"].items()})
            listed.recipe = manifest["recipe"]
            own = digest(listed.recipe), manifest.get("stage")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise LexbenchError(f"{MANIFEST} does not read ({error})") from None
        if own != (key, stage):
            raise LexbenchError(f"{MANIFEST} is that of another folder")
        return listed

    @classmethod
    def of(cls, folder: Path) -> "Listed":
        """Read the manifest of a finished folder; LexbenchError says what is wrong with it."""
        try:
            content = (folder / MANIFEST).read_bytes()
        except OSError as error:
            raise LexbenchError(f"{MANIFEST} does not read ({error})") from None
        return cls.read(content, folder.parent.name, key_of(folder))

    def state(self, folder: Path) -> str:
        """Return a digest of the sizes and times of the files, and of what is listed of them; "" if one is missing.

        It changes when a file is written to, and when the manifest is no longer the one that the files were compared with.
        """
        try:
            status = [(name, (folder / name).stat()) for name in sorted(self)]
        except OSError:
            return ""
        return digest([[name, one.st_size, one.st_mtime_ns, *self[name]] for name, one in status])

    def damage(self, folder: Path, only: Sequence[str] = ()) -> Iterator[str]:
        """Yield what is wrong with the files, or with those *only*: one missing, cut, or changed. Sizes come first."""
        chosen = {name: fact for name, fact in self.items() if not only or name in only}
        cut = set()
        for name, (size, _) in chosen.items():
            path = folder / name
            if not path.is_file():
                yield f"{name} is missing"
            elif path.stat().st_size != size:
                yield f"{name} has {path.stat().st_size} bytes, not {size}"
            else:
                continue
            cut.add(name)
        for name, (_, sha256) in chosen.items():
            if name not in cut and file_digest(folder / name) != sha256:
                yield f"{name} has changed since it was written"


def measured_text(folder: Path) -> bytes | None:
    """Return what `measured.json` of a finished folder holds, None where it is not there, cut, or changed.

    It is in no manifest, for it differs from run to run, and so it has a digest of its own.
    """
    try:
        content = (folder / MEASURED).read_bytes()
        values = json.loads(content)
        expected = values.pop("sha256")
        return content if isinstance(values["seconds"], dict) and expected == digest(values) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def recipe_of(folder: Path) -> dict[str, Any]:
    """Return the recipe that a finished folder was made from."""
    recipe = json.loads((folder / MANIFEST).read_bytes())["recipe"]
    if not isinstance(recipe, dict):
        raise LexbenchError(f"{folder / MANIFEST}: the recipe is no table")
    return recipe


def size(folder: Path, part: str = "") -> int:
    """Return the bytes of the files of a finished folder, or of those in its folder *part* alone, where it has one.

    The manifest and what was measured do not count.
    """
    return sum(sizes(folder, part).values())


def sizes(folder: Path, part: str = "") -> dict[str, int]:
    """Return the bytes of each of the files that `size` counts, by its name below *folder*."""
    files = json.loads((folder / MANIFEST).read_bytes())["files"]
    inside = f"{part}/" if part and (folder / part).is_dir() else ""
    return {name: int(fact["bytes"]) for name, fact in files.items() if name.startswith(inside)}
