"""What `ensemble` and `pipeline` share: their settings, where the files of their parts are, and the queries of all parts."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Real
from pathlib import Path
from sys import maxsize
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CommandError, MissingData
from lexbench.fusion.normalise import SCORES, Columns, Rule, comparable, weighted
from lexbench.registry import at_search
from lexbench.retrievers._query_vectors import QueryVectors
from lexbench.types import Combined, Corpus, Identifying, Query, Scoring, Workshop

_PARTS = "parts.json"  # the folders that an index refers to, as ["indexes/<key>", "encodings/<key>"]
_FEWEST = 2
CHOSEN = ("tuned", "oracle")  # weights that the harness chooses, see `lexbench.runner.tuning`


@dataclass(frozen=True)
class Combination(ABC):
    """Several retrievers, whose scores are added with *weights* (default: 1 each), made comparable as *scores* says.

    Weights "tuned" are chosen on the queries that the dataset's contract names for tuning, "oracle" on the tested ones
    themselves: an upper bound, and no result. See `_fusion` for the values of *scores*; *rrf_k* is the constant of "rrf".
    """

    parts: tuple[Any, ...] = ()
    weights: tuple[float, ...] | str = at_search(())
    scores: str = at_search("minmax")
    rrf_k: int = at_search(60)

    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for settings that cannot be; fill in the weights, so that they are in every key."""
        name = self._name
        if len(self.parts) < _FEWEST:
            raise CommandError(
                f"{name} takes two retrievers or more, as in {name}(bm25, bm25(k1=2.0)); {len(self.parts)} given"
            )
        for part in self.parts:
            if not hasattr(part, "open"):
                raise CommandError(f"{name}: {type(part).__name__} has no index to search, so it cannot be a part")
        if not (isinstance(self.weights, str) and self.weights in CHOSEN):
            object.__setattr__(self, "weights", self._weights())
        if self.scores not in SCORES:
            raise CommandError(f"{name}(scores={self.scores!r}) is unknown; scores are one of {', '.join(SCORES)}")
        if self.rrf_k < 0:
            raise CommandError(f"{name}(rrf_k={self.rrf_k}): a whole number from 0, as in rrf_k=60")

    def _weights(self) -> tuple[float, ...]:
        given: Any = self.weights
        listed = given if isinstance(given, tuple | list) else (given,)
        numbers = [one for one in listed if isinstance(one, Real) and not isinstance(one, bool) and 0 <= float(one) < inf]
        if len(numbers) < len(listed) or (listed and not any(numbers)):
            raise CommandError(
                f"{self._name}(weights={given!r}): weights are numbers from 0, not all 0, as in weights=[1, 0.3], "
                'or "tuned", or "oracle"'
            )
        if listed and len(listed) != len(self.parts):
            raise CommandError(f"{self._name} of {len(self.parts)} retrievers takes as many weights; {len(listed)} given")
        return tuple(map(float, numbers)) or (1.0,) * len(self.parts)

    @property
    def _name(self) -> str:
        return type(self).__name__.lower()

    def _rule(self, missing: str = "min") -> Rule:
        if isinstance(self.weights, str):
            raise CommandError(f'{self._name}(weights="{self.weights}"): they are chosen in a run; here type weights=[…]')
        return Rule(self.weights, self.scores, missing, self.rrf_k)

    @abstractmethod
    def folders(self, workshop: Workshop) -> list[Path]:
        """Return the folders that searching reads, in order: each made, or found."""

    @abstractmethod
    def check_depth(self, depth: int) -> None:
        """Raise CommandError where *depth* documents a query are not to be had."""

    @abstractmethod
    def open(self, path: Path) -> Any:
        """Open what *assemble* wrote: a searcher that also has `columns(encoded, k)`, what its weights are for."""

    def assemble(self, corpus: Corpus, path: Path, workshop: Workshop) -> None:  # noqa: ARG002 - the parts read the corpus
        """Write down in *path* which folders searching reads: their stages and keys, which are the same in every store."""
        refer(self.folders(workshop), path)

    def stored(self, workshop: Workshop) -> list[Path]:
        """Return the folders that scoring given documents reads."""
        return [folder for part in self.parts for folder in part.stored(workshop)]

    def scorer(self, folders: Iterator[Path]) -> "CombinedScorer":
        """Open them."""
        return CombinedScorer(tuple(part.scorer(folders) for part in self.parts), self._rule())


def must_score(name: str, parts: Sequence[Any]) -> None:
    """Raise CommandError, for the retriever *name*, where one of *parts* cannot score documents that it is given."""
    for part in parts:
        if not isinstance(part, Scoring):
            raise CommandError(f"{name}: {type(part).__name__} cannot score documents that others found; bm25 and encoders can")
        if isinstance(part, Combined):
            must_score(name, part.parts)


def check_candidates(name: str, k: int, depth: int) -> None:
    """Raise CommandError, for the retriever *name*, where a run of *depth* has not all of its *k* candidates."""
    if depth < k:
        raise CommandError(f"{name}(k={k}) ranks {k} candidates and {depth} are kept; raise --depth, or lower k")


def refer(folders: Sequence[Path], path: Path) -> None:
    """Write into *path* which folders searching reads: their stages and keys, which are the same in every store."""
    kept = [f"{folder.parent.name}/{folder.name.rpartition('-')[2]}" for folder in folders]
    (path / _PARTS).write_text(json.dumps(kept) + "\n", encoding="utf-8")


def referred(path: Path) -> list[Path]:
    """Return the folders that the index in *path* refers to, in order: none, unless it is that of a combination.

    MissingData where one is no longer in the store.
    """
    found = []
    for reference in json.loads((path / _PARTS).read_bytes()) if (path / _PARTS).exists() else ():
        stage, key = reference.split("/")
        folder = next((path.parent.parent / stage).glob(f"*-{key}"), None)
        if folder is None:
            raise MissingData(f"{path} needs {stage}/*-{key}, which is gone; the command that made it makes it again")
        found.append(folder)
    return found


def encode_queries(searcher: Any, queries: Sequence[Query]) -> Any:
    """Let a searcher or scorer encode *queries*, with their ids where it has to know them."""
    if isinstance(searcher, Identifying):
        return searcher.encode_queries(queries)
    return searcher.encode([query.text for query in queries])


@dataclass(frozen=True)
class Opened:
    """The opened parts; encoded queries are a list with what each part made of them."""

    parts: tuple[Any, ...]  # Searcher or Scorer

    @property
    def queries_at_a_time(self) -> int:
        """The fewest that a part wants."""
        return min((part.queries_at_a_time for part in self.parts if hasattr(part, "queries_at_a_time")), default=maxsize)

    def encode(self, queries: Sequence[str]) -> Any:
        """Let each part encode query texts."""
        return [part.encode(queries) for part in self.parts]

    def encode_queries(self, queries: Sequence[Query], made: dict[Any, Any] | None = None) -> Any:
        """Do the same for queries with their ids. An encoder of several parts runs once: *made* is what encoders have made."""
        made = {} if made is None else made
        return [_encoded(part, queries, made) for part in self.parts]


@dataclass(frozen=True)
class Encoding(Opened):
    """The opened parts, whose scores are added."""

    rule: Rule


def _encoded(part: Any, queries: Sequence[Query], made: dict[Any, Any]) -> Any:
    """Let *part* encode *queries*, of which an equal encoder may have *made* vectors before."""
    if isinstance(part, Opened):
        return part.encode_queries(queries, made)
    if not isinstance(part, QueryVectors):
        return encode_queries(part, queries)
    if (key := key_of(part.retriever.encoder)) not in made:
        made[key] = part.retriever.query_vectors(queries)
    return part.retriever.as_queries(made[key])


def key_of(plugin: Any) -> Any:
    """Return what plug-ins with the same settings have in common; one that has no hash is equal to itself alone."""
    try:
        hash(plugin)
    except TypeError:
        return id(plugin)
    return plugin


@dataclass(frozen=True)
class CombinedScorer(Encoding):
    """Scores given documents by all parts; each part's scores are normalised over these documents."""

    def score(self, encoded: Sequence[Any], docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the weighted sums (queries, n) for *docs*."""
        return weighted(self.columns(encoded, docs), self.rule.weights)

    def columns(self, encoded: Sequence[Any], docs: NDArray[np.int32]) -> Columns:
        """Return what is added."""
        found = [part.score(one, docs) for part, one in zip(self.parts, encoded, strict=True)]
        return comparable(docs, found, self.rule)
