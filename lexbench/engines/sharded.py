"""Any engine, its index in several parts: built one after the other, searched each, their lists merged exactly."""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np

from lexbench.encodings.shards import read_shard, write_shard
from lexbench.engines.kernels.checks import no_hits, ordered
from lexbench.errors import CommandError
from lexbench.plugins import Engine, EngineFacts, Facts
from lexbench.registry import runtime
from lexbench.types import Hits, Kind

_FACTS = "parts.json"


@dataclass(frozen=True)
class Sharded:
    """The lists are those of *engine* alone, where that is exact: scores are the same, and ties go to the lower position.

    Each of the *parts* has documents that follow one another, as many as the others but for a shard. Building takes the memory
    of one part, and a copy of the vectors on the disk meanwhile. *threads* search different parts at the same time. An engine
    that is not exact finds more in parts than in one index, since each is asked for k.
    """

    engine: Engine[Any]
    parts: int = 2
    threads: int = runtime(1)

    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse what is no engine, and fewer parts than one."""
        if not hasattr(self.engine, "build") or not hasattr(self.engine, "kind"):
            raise CommandError(f"sharded({self.engine!r}): name an engine, as in sharded(impact, parts=16)")
        if self.parts < 1 or self.threads < 1:
            raise CommandError(f"sharded(parts={self.parts}, threads={self.threads}): each is 1 or more")

    @property
    def kind(self) -> Kind:
        """What the engine takes."""
        return Kind(self.engine.kind)

    @property
    def exact(self) -> bool:
        """Whether the engine finds what comparing every vector would."""
        return bool(self.engine.exact)

    @property
    def impacts(self) -> bool:
        """Whether the engine takes whole numbers only."""
        return EngineFacts.of(self.engine).impacts

    @property
    def compressed(self) -> bool:
        """Whether the engine's scores are those of compressed vectors."""
        return EngineFacts.of(self.engine).compressed

    @property
    def deterministic(self) -> bool:
        """Whether the engine writes the same bytes twice."""
        return Facts.of(self.engine).deterministic

    def build(self, shards: Iterable[Any], path: Path) -> None:
        """Write an index of the engine for each part into a folder of *path*; a part without documents has none."""
        with TemporaryDirectory(dir=path) as folder:
            counts = []
            for number, shard in enumerate(shards):
                write_shard(Path(folder, str(number)), shard)
                counts.append(int(shard.shape[0]))
            ends = np.cumsum(counts)
            total = int(ends[-1]) if counts else 0
            # A shard belongs to the part in which its middle lies.
            belongs = (ends - np.array(counts) / 2) * self.parts // max(total, 1)
            starts = []
            for part in range(self.parts):
                numbers = np.flatnonzero(belongs == part).tolist()
                if sum(counts[number] for number in numbers):
                    starts.append(int(ends[numbers[0]] - counts[numbers[0]]))
                    (path / f"part-{len(starts) - 1}").mkdir()
                    self.engine.build(_read(Path(folder), numbers), path / f"part-{len(starts) - 1}")
        (path / _FACTS).write_text(json.dumps({"documents": total, "starts": starts}), encoding="utf-8")

    def open(self, path: Path) -> "ShardedIndex":
        """Open the index of every part."""
        return ShardedIndex(self, path)


def _read(folder: Path, numbers: list[int]) -> Iterator[Any]:
    for number in numbers:
        yield read_shard(folder / str(number))
        (folder / str(number)).unlink()


class ShardedIndex:
    """An opened index."""

    def __init__(self, settings: Sharded, path: Path) -> None:
        facts = json.loads((path / _FACTS).read_bytes())
        self._documents, self._threads = int(facts["documents"]), settings.threads
        self._parts = [(start, settings.engine.open(path / f"part-{at}")) for at, start in enumerate(facts["starts"])]

    def search(self, queries: Any, k: int) -> Hits:
        """Return the best *k* documents of each of *queries*, whose kind is the engine's."""
        if not self._parts or not queries.shape[0]:
            return no_hits(int(queries.shape[0]), min(k, self._documents))
        with ThreadPoolExecutor(self._threads) as pool:
            found = list(pool.map(lambda part: part[1].search(queries, k), self._parts))
        last = np.iinfo(np.int32).max  # behind every document of the same score, which is that of nothing
        docs = [np.where(hits.docs >= 0, hits.docs + start, last) for hits, (start, _) in zip(found, self._parts, strict=True)]
        scores = [np.where(hits.docs >= 0, hits.scores, np.float32(-np.inf)) for hits in found]
        merged = ordered(np.concatenate(docs, axis=1).astype(np.int32), np.concatenate(scores, axis=1))
        width = min(k, self._documents)
        best, score = merged.docs[:, :width], merged.scores[:, :width]
        return Hits(np.where(best == last, np.int32(-1), best), np.ascontiguousarray(score))
