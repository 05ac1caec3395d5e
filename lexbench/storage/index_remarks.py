"""What an index says of what it was made from: lines that readers of its scores must know."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from lexbench.storage import atomic

_FILE = "remarks.json"


def write(index: Path, lines: Sequence[str]) -> None:
    """Keep *lines*, if there are any, in the folder of an index."""
    if lines:
        atomic.write_text(index / _FILE, json.dumps(list(lines), ensure_ascii=False) + "\n")


def read(indexes: Iterable[Path]) -> list[str]:
    """Return what the indexes in these folders say, each line once."""
    said = (index / _FILE for index in indexes)
    return list(dict.fromkeys(line for file in said if file.exists() for line in json.loads(file.read_bytes())))
