"""A finished run, from any system that writes TREC run files."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lexbench.errors import MissingData
from lexbench.storage.reading import file_digest
from lexbench.trec.runs import Run, read_run


@dataclass(frozen=True)
class RunFile:
    """Ranks nothing itself, so it needs neither corpus nor index. `{dataset}` in *path* stands for the dataset's id, / as -."""

    path: str
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True

    def _place(self, dataset: str) -> Path:
        place = Path(self.path.replace("{dataset}", dataset.replace("/", "-"))).expanduser()
        if not place.is_file():
            raise MissingData(f'no run file {place} for {dataset}; give one, as run_file(path="runs/{{dataset}}.trec")')
        return place

    def file_identity(self, dataset: str) -> str:
        """Return the digest of the file for *dataset*: what decides the answer in place of an index."""
        return file_digest(self._place(dataset))

    def read(self, dataset: str) -> Run:
        """Return the run in canonical order."""
        return read_run(self._place(dataset))
