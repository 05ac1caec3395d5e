"""The executor `here`: this process encodes and holds objects."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lexbench.encodings.encoding import ShardEncoder, encode_shards
from lexbench.executors._workers import HeldModel, Holder, holding, holding_rerankers
from lexbench.plugins import Encoder, Executor, Held, Holdable, Reranker
from lexbench.progress import Progress
from lexbench.types import Corpus


@dataclass(frozen=True)
class Here(Executor):
    """The encoder runs in this process, on the first of its devices."""

    holds: ClassVar[bool] = True

    def encode(self, encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress) -> None:
        """Encode the *shards* in order."""
        encode_shards(ShardEncoder(encoder.workers()[0]), corpus, path, shards, progress.advance)

    @contextmanager
    def hold(self, things: Sequence[Holdable], note: Callable[[str], None]) -> Iterator[Sequence[Held]]:
        """Hold the objects in this process; each counts as a worker, so that calls of different objects do not wait."""
        with holding(things, len(things), _Direct, note) as held:
            yield held

    @contextmanager
    def hold_rerankers(self, rerankers: Sequence[Reranker], note: Callable[[str], None]) -> Iterator[Sequence[Sequence[Held]]]:
        """Hold the rerankers in this process, as one worker."""
        with holding_rerankers(list(map(HeldModel, rerankers)), 1, _Direct, note) as held:
            yield held


class _Direct:
    """The connection to a holder in this process."""

    def __init__(self) -> None:
        self._holder = Holder()

    def ask(self, method: str, *arguments: Any) -> Any:
        return getattr(self._holder, method)(*arguments)

    def end(self) -> None:
        pass
