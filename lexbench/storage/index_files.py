"""What the folder of an index has besides an engine's files: references to other folders, and remarks for readers of scores."""

import json
from collections.abc import Sequence
from pathlib import Path

from lexbench.errors import MissingData
from lexbench.storage import atomic

_REMARKS = "remarks.json"
ENGINE_DIR = "engine"  # the folder of the engine's own files: what counts as the size of the index
VECTORS_FILE = "vectors.json"  # what the indexed vectors look like, as `lexbench.results.Vectors`
_REFERENCES = "parts.json"  # as ["indexes/<key>", "encodings/<key>"]
DESCRIPTIONS = (VECTORS_FILE, _REFERENCES, _REMARKS)  # the files that say what an index is; the engine's own search it


def write_references(index: Path, folders: Sequence[Path]) -> None:
    """Write into the folder of an index which folders of its store it needs: their stages and keys, the same in every store."""
    references = [f"{folder.parent.name}/{folder.name.rpartition('-')[2]}" for folder in folders]
    (index / _REFERENCES).write_text(json.dumps(references) + "\n", encoding="utf-8")


def read_references(index: Path) -> list[Path]:
    """Return the folders that an index refers to, in order; none for an index that stands alone.

    MissingData where one is no longer in the store.
    """
    file = index / _REFERENCES
    folders = []
    for reference in json.loads(file.read_bytes()) if file.exists() else ():
        stage, key = reference.split("/")
        folder = next((index.parent.parent / stage).glob(f"*-{key}"), None)
        if folder is None:
            raise MissingData(f"{index} needs {stage}/*-{key}, which is gone; the command that made it makes it again")
        folders.append(folder)
    return folders


def own_folders(index: Path) -> set[Path]:
    """Return the folders that an index consists of: itself, or each of those that it refers to, once; corpora left out."""
    referred = [folder for folder in read_references(index) if folder.parent.name != "corpora"]
    return set().union(*map(own_folders, referred)) if referred else {index}


def write_remarks(index: Path, lines: Sequence[str]) -> None:
    """Write into the folder of an index what readers of its scores must know of what it was made from, if anything."""
    if lines:
        atomic.write_text(index / _REMARKS, json.dumps(list(lines), ensure_ascii=False) + "\n")


def read_remarks(index: Path) -> list[str]:
    """Return what an index, and those that it refers to, say of what they were made from, each line once."""
    files = (folder / _REMARKS for folder in sorted(_indexes(index)))
    return list(dict.fromkeys(line for file in files if file.exists() for line in json.loads(file.read_bytes())))


def _indexes(index: Path) -> set[Path]:
    """Return the folder of an index, and those of the indexes that it refers to."""
    referred = [folder for folder in read_references(index) if folder.parent.name == index.parent.name]
    return {index}.union(*map(_indexes, referred))
