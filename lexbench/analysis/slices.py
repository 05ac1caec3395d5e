"""Slices: groups of queries that somebody named before looking, and how systems do on each.

A file of slices has a line for each query of a slice, `query slice`, set apart by white space; a query may be in several. To
look for the group of queries on which a system does well finds one always. So slices are declared beforehand: commit the file,
and results carry the digest of its bytes. What is said of several slices is corrected for their number.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from lexbench.analysis.significance import bootstrap
from lexbench.analysis.significance.randomisation import LEVEL
from lexbench.errors import InvalidFile
from lexbench.results import Result
from lexbench.trec.columns import read_columns
from lexbench.trec.ids import text_of


@dataclass(frozen=True)
class Slices:
    """The slices of a file."""

    sha256: str  # of its bytes
    queries: Mapping[str, frozenset[str]]  # ids, by the slice's name, in the order of the file

    def of(self, result: Result) -> dict[str, Result]:
        """Return *result* on each slice alone; InvalidFile where a query of a slice is not one of its judged queries."""
        places = {query: at for at, query in enumerate(result.query_ids)}
        for name, queries in self.queries.items():
            if foreign := sorted(queries - places.keys()):
                raise InvalidFile(
                    f"slice {name} has query {foreign[0]}, none of the {len(places):,} judged queries of {result.dataset}"
                )
        return {name: _only(result, [places[query] for query in queries]) for name, queries in self.queries.items()}


def read_slices(path: Path) -> Slices:
    """Read a file of slices; InvalidFile where a line has not two columns, comes twice, or there is none."""
    queries, names = ([text_of(field) for field in column.tolist()] for column in read_columns(path, ("id", "id")))
    by_name: dict[str, set[str]] = {}
    for query, name in zip(queries, names, strict=True):
        if query in by_name.setdefault(name, set()):
            raise InvalidFile(f"{path}: query {query} is in slice {name} twice")
        by_name[name].add(query)
    if not by_name:
        raise InvalidFile(f"{path}: there are no slices in it; a line is a query's id and the name of a slice")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Slices(digest, {name: frozenset(members) for name, members in by_name.items()})


def _only(result: Result, places: list[int]) -> Result:
    """Return *result* on the queries at *places* alone, in their order; what was counted over all of them is left out."""
    kept = sorted(places)
    per_query = {measure: [values[at] for at in kept] for measure, values in result.per_query.items()}
    return msgspec.structs.replace(
        result,
        query_ids=[result.query_ids[at] for at in kept],
        per_query=per_query,
        means={measure: float(np.mean(values)) for measure, values in per_query.items()},
        counts=msgspec.structs.replace(result.counts, queries=len(kept), missing=0),
        ties={},
        incomplete={},
        seeds=None,
    )


class SliceScore(msgspec.Struct, frozen=True, kw_only=True):
    """One slice of one result."""

    slice: str
    queries: int
    means: dict[str, float]  # by measure
    intervals: dict[str, tuple[float, float]]  # bootstrap over queries; all slices' hold together with 95 % confidence


def slice_scores(result: Result, slices: Slices) -> list[SliceScore]:
    """Return the means of *result* on each of *slices*, with intervals that are corrected for their number (Bonferroni)."""
    level = 1 - LEVEL / len(slices.queries)
    return [
        SliceScore(
            slice=name,
            queries=len(one.query_ids),
            means=one.means,
            intervals={
                measure: bootstrap.interval(np.array(values, np.float64), level=level)
                for measure, values in one.per_query.items()
            },
        )
        for name, one in slices.of(result).items()
    ]
