"""The draft of an artifact: the folder that its maker fills, and what the maker uses meanwhile.

Work that takes long is cut into blocks, whose files an interrupted draft keeps, so that at most one is done again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from lexbench.display.progress import Progress
from lexbench.storage import atomic
from lexbench.storage.array_files import array_bytes
from lexbench.storage.artifact_folder import write_notes
from lexbench.storage.stopwatch import Stopwatch


class DraftBlock(NamedTuple):
    """Items that are done at once."""

    items: Sequence[Any]
    file: Path  # of what they give; not there yet


@dataclass
class Draft:
    """What `Node.make` fills."""

    folder: Path
    progress: Progress = field(default_factory=Progress)
    watch: Stopwatch = field(default_factory=Stopwatch)
    executor: Any = None  # a `lexbench.plugins.Executor`, if the user named one

    def note(self, lines: Sequence[str]) -> None:
        """Keep notes for readers of scores."""
        write_notes(self.folder, lines)

    def blocks(self, items: Sequence[Any], size: int, what: str, stage: str, unit: str) -> Iterator[DraftBlock]:
        """Yield each block of *size* items that is not done yet, and report progress; `keep` keeps what a block gives."""
        files = enumerate(_files(self.folder, len(items), size))
        left = [DraftBlock(items[at * size : (at + 1) * size], file) for at, file in files if not file.exists()]
        count = sum(len(block.items) for block in left)
        self.watch.resumed = count < len(items)
        self.progress.start(what, stage, count, unit)
        for block in left:
            yield block
            self.progress.advance(len(block.items))
        self.progress.end()

    def keep(self, block: DraftBlock, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep the arrays of a block, whole or not at all."""
        atomic.write_bytes(block.file, array_bytes(arrays))  # `save_file` would leave a temporary file behind if it is killed

    def joined(self, count: int, size: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of all blocks of *count* items, joined."""
        return joined([*map(load_file, _files(self.folder, count, size))])

    def forget_blocks(self) -> None:
        """Remove the files of all blocks."""
        for file in self.folder.glob("part-*"):
            file.unlink()


def _files(folder: Path, count: int, size: int) -> list[Path]:
    """Return the files of the blocks of *count* items, *size* each, in order."""
    return [folder / f"part-{start:07d}-{min(start + size, count):07d}.safetensors" for start in range(0, count, size)]


def joined(blocks: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Join the arrays of blocks by name, each (items,) or (items, k).

    A searcher may return fewer columns for some blocks, so these are padded to the largest k: `docs` with -1, others with 0.
    """
    whole = {}
    for name in blocks[0]:
        arrays, fill = [block[name] for block in blocks], -1 if name == "docs" else 0
        if arrays[0].ndim > 1:
            width = max(array.shape[1] for array in arrays)
            arrays = [np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=fill) for array in arrays]
        whole[name] = np.concatenate(arrays)
    return whole
