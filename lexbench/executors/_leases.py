"""Who has which shard: shards are leased to workers, and go to others where a worker dies.

A shard that was in hand when its worker died may be the reason. It is leased again with nothing beside it, so that the third
death says which shard it is; then `culprit` finds the document.
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence

from lexbench.encodings.encode import AHEAD, culprit, document_name
from lexbench.errors import LexbenchError
from lexbench.progress import Progress
from lexbench.types import Corpus

HELD = AHEAD + 1  # shards that a worker has at most: one that it encodes, the others tokenised meanwhile
_DEATHS = 3  # of workers that had a shard


class Leases:
    """The shards that are left, and those that workers have; *progress* hears of each document once."""

    def __init__(self, shards: Sequence[range], progress: Progress) -> None:
        self._left = deque(shards)
        self._progress = progress
        self._told: Counter[Hashable] = Counter()  # documents of each worker that progress has heard of
        self._kept: Counter[Hashable] = Counter()  # those of shards that are kept
        self._held: dict[Hashable, list[range]] = {}
        self._deaths: Counter[range] = Counter()

    @property
    def finished(self) -> bool:
        """Whether every shard is done."""
        return not self._left and not any(self._held.values())

    @property
    def left(self) -> int:
        """How many shards no worker has: no more workers are worth starting."""
        return len(self._left)

    def take(self, worker: Hashable) -> range | None:
        """Lease *worker* another shard; None where none is left, or where it has enough in hand."""
        held = self._held.setdefault(worker, [])
        alone = bool(held) and any(self._deaths[shard] for shard in (*held, *list(self._left)[:1]))
        if not self._left or len(held) >= HELD or alone:
            return None
        shard = self._left.popleft()
        held.append(shard)
        return shard

    def encoded(self, worker: Hashable, documents: int) -> None:
        """Note that *worker* has encoded so many *documents* since it began, those of shards that are not kept yet too."""
        if (new := documents - self._told[worker]) > 0:
            self._told[worker] = documents
            self._progress.advance(new)

    def done(self, worker: Hashable, shard: range) -> None:
        """Note that the bytes of *shard* are kept."""
        self._held[worker].remove(shard)
        self._kept[worker] += len(shard)
        self.encoded(worker, self._kept[worker])

    def died(self, worker: Hashable) -> range | None:
        """Take back what *worker* had; return the shard that too many had when they died, None where there is none."""
        if lost := self._told.pop(worker, 0) - self._kept.pop(worker, 0):
            self._progress.advance(-lost)
        held = self._held.pop(worker, [])
        self._left.extendleft(reversed(held))
        self._deaths.update(held)
        return next((shard for shard in held if self._deaths[shard] >= _DEATHS), None)


def poison(corpus: Corpus, shard: range, kills: Callable[[range], bool]) -> LexbenchError:
    """Return the error for a *shard* whose workers die: it names the document that *kills* a worker by itself."""
    position = culprit(shard, kills)
    if position is not None:
        name = document_name(corpus, position)
        return LexbenchError(
            f"{name} kills its worker, each time: too little memory for its text, or a mistake in the encoder; "
            "what is encoded is kept; mend the encoder or the document, then the same command goes on"
        )
    first, last = (document_name(corpus, at) for at in (shard.start, shard.stop - 1))
    return LexbenchError(
        f"{_DEATHS} workers died while they encoded the shard from {first} to {last}, and no single document of it is why: "
        "too little memory, or a worker that cannot start; with fewer workers, as --on 'processes(1)', the same command goes on"
    )
