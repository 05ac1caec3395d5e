"""A finished run, from any system that writes TREC run files."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

from lexbench.errors import CommandError, MissingData
from lexbench.plugins import Retriever
from lexbench.storage.reading import file_digest
from lexbench.trec.runs import PRECISIONS, Precision, Run, read_run, typed_run


@dataclass(frozen=True)
class RunFile(Retriever):
    """A finished run, which needs neither corpus nor index. `{dataset}` in *path* stands for the dataset's id, with - for /.

    The file may be in any format of runs: see `lexbench.trec.runs`. "FILE#TAG" is one of several runs in a file.

    *scores* is the precision in which scores are compared: "double", like trec_eval since 2023, or "float32", like trec_eval
    before, pytrec_eval, BEIR and MTEB.
    """

    path: str
    scores: str = "double"
    version: ClassVar[int] = 4  # 4: notes on contradictions in the file; scores that count down are refused
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for an unknown precision."""
        if self.scores not in PRECISIONS:
            raise CommandError(f"run_file(scores={self.scores!r}) is unknown; scores are one of {', '.join(PRECISIONS)}")

    def _place(self, dataset: str) -> Path:
        """Return the file for *dataset*. Raises MissingData if there is none."""
        place = Path(self.path.replace("{dataset}", dataset.replace("/", "-"))).expanduser()
        if not typed_run(place)[0].is_file():
            raise MissingData(f'no run file {place} for {dataset}; give one, e.g. run_file(path="runs/{{dataset}}.trec")')
        return place

    def file_identity(self, dataset: str) -> str:
        """Return the digest of the file for *dataset*, and how it is read."""
        file, tag = typed_run(self._place(dataset))
        return " ".join([file_digest(file), self.scores, *([tag] if tag is not None else [])])

    def read(self, dataset: str) -> Run:
        """Return the run in canonical order. Raises InvalidFile if a score is not finite in the precision asked for."""
        return read_run(self._place(dataset), precision=cast(Precision, self.scores))
