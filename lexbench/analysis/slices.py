"""Slices: named groups of queries, and the scores of systems on each.

A file of slices has one line per query and slice, `query slice`, separated by white space; a query may be in several slices.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from lexbench.analysis.significance import bootstrap
from lexbench.analysis.significance.randomisation import LEVEL
from lexbench.display.table import Table, heading, interval_cell, number
from lexbench.errors import InvalidFile
from lexbench.results import Result, Results
from lexbench.trec.columns import read_columns
from lexbench.trec.ids import text_of

_FEW = 25  # a slice with fewer queries says little
_DIGITS = 12  # of a digest


class Slices(NamedTuple):
    """The slices of a file."""

    sha256: str  # of the file
    queries: Mapping[str, frozenset[str]]  # query ids by slice, in the order of the file

    def restrict(self, results: Results) -> dict[str, Results]:
        """Return *results*, which have the same queries, on each slice. Raises InvalidFile if a slice has another query."""
        result = next(iter(results))
        places = {query: at for at, query in enumerate(result.query_ids)}
        for name, queries in self.queries.items():
            if foreign := sorted(queries - places.keys()):
                raise InvalidFile(
                    f"slice {name} has query {foreign[0]}, which is not among the {len(places):,} judged queries of "
                    f"{result.dataset}"
                )
        return {
            name: Results(_restricted(result, [places[query] for query in queries]) for result in results)
            for name, queries in self.queries.items()
        }


def read_slices(path: Path) -> Slices:
    """Read a file of slices. Raises InvalidFile if it is empty, or a line is repeated or does not have two columns."""
    queries, names = ([text_of(field) for field in column.tolist()] for column in read_columns(path, ("id", "id")))
    by_name: dict[str, set[str]] = {}
    for query, name in zip(queries, names, strict=True):
        if query in by_name.setdefault(name, set()):
            raise InvalidFile(f"{path}: query {query} is in slice {name} twice")
        by_name[name].add(query)
    if not by_name:
        raise InvalidFile(f"{path}: no slices; a line has the id of a query and the name of a slice")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Slices(digest, {name: frozenset(members) for name, members in by_name.items()})


def _restricted(result: Result, places: list[int]) -> Result:
    """Return *result* on the queries at *places*, in their order, without figures that only hold for all queries."""
    kept = sorted(places)
    per_query = {measure: [values[at] for at in kept] for measure, values in result.per_query.items()}
    return msgspec.structs.replace(
        result,
        query_ids=[result.query_ids[at] for at in kept],
        per_query=per_query,
        means={measure: float(np.mean(values)) for measure, values in per_query.items()},
        counts=msgspec.structs.replace(result.counts, queries=len(kept), missing=0),
        lists=None,
        ties={},
        incomplete={},
        seeds=None,
    )


class SliceScore(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one result on one slice."""

    slice: str
    queries: int
    means: dict[str, float]  # by measure
    intervals: dict[str, tuple[float, float]]  # bootstrap over queries, with 95 % confidence for all slices together


def slice_scores(result: Result, slices: Slices) -> list[SliceScore]:
    """Return the means of *result* on each of *slices*, with intervals corrected for the number of slices (Bonferroni)."""
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
        for name, (one,) in slices.restrict(Results([result])).items()
    ]


def slice_table(scores: Sequence[SliceScore], result: Result, sha256: str) -> Table:
    """Return one row per slice: its queries, and the mean of each measure with its interval."""
    measures = list(result.means)
    rows = [("all", str(len(result.query_ids)), *(number(result.means[measure]) for measure in measures))]
    for one in scores:
        cells = (f"{number(one.means[name])}\n{interval_cell(one.intervals[name])}" for name in measures)
        rows.append((one.slice, str(one.queries), *cells))
    note = f"[ ]: bootstrap over queries; those of all {len(scores)} slices hold together with 95 % confidence (Bonferroni)"
    header = ("slice", "queries", *map(heading, measures))
    notes = (note, *slice_notes([one.queries for one in scores], sha256))
    return Table(f"{result.dataset}: slices", header, tuple(rows), notes)


def slice_notes(queries: Sequence[int], sha256: str) -> list[str]:
    """Return notes about slices with these numbers of *queries*: the file that declares them, and how many are small."""
    few = sum(count < _FEW for count in queries)
    declared = f"the slices are declared in the file with SHA-256 {sha256[:_DIGITS]}…; commit it before you look"
    return [declared, *([f"{few} of the slices have fewer than {_FEW} queries and say little"] if few else [])]
