"""A finished run, from any system that writes TREC run files."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

from lexbench.errors import CommandError, MissingData
from lexbench.plugins import Retriever
from lexbench.storage.reading import file_digest
from lexbench.trec.runs import PRECISIONS, Precision, Run, read_run


@dataclass(frozen=True)
class RunFile(Retriever):
    """Ranks nothing itself, so it needs neither corpus nor index. `{dataset}` in *path* stands for the dataset's id, / as -.

    *scores* says as what scores are compared: "double", as trec_eval since 2023, or "float32", as before, and as pytrec_eval,
    BEIR and MTEB.
    """

    path: str
    scores: str = "double"
    finished: ClassVar[bool] = True
    version: ClassVar[int] = 4  # 4: what a file contradicts itself in is told, and scores that count down are refused
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for an unknown precision."""
        if self.scores not in PRECISIONS:
            raise CommandError(f"run_file(scores={self.scores!r}) is unknown; scores are one of {', '.join(PRECISIONS)}")

    def _place(self, dataset: str) -> Path:
        place = Path(self.path.replace("{dataset}", dataset.replace("/", "-"))).expanduser()
        if not place.is_file():
            raise MissingData(f'no run file {place} for {dataset}; give one, as run_file(path="runs/{{dataset}}.trec")')
        return place

    def file_identity(self, dataset: str) -> str:
        """Return the digest of the file for *dataset* and how it is read: what decides the answer in place of an index."""
        return f"{file_digest(self._place(dataset))} {self.scores}"

    def read(self, dataset: str) -> Run:
        """Return the run in canonical order; InvalidFile where a score is not finite in the precision that was asked for."""
        return read_run(self._place(dataset), precision=cast(Precision, self.scores))
