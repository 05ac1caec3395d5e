"""What judgements owe to the systems whose lists were judged: leave one contributor out (Zobel, SIGIR 1998).

A pool is the best documents of some systems, its contributors. What only one of them found was judged because of it; a new
system has nobody who did that for it. So each contributor in turn loses the judgements of what it alone found, and all systems
are scored again: how far it falls is how far the collection may be unfair to a system like it that comes later.
"""

from collections import Counter
from collections.abc import Collection, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench import measures
from lexbench.contracts import Contract
from lexbench.errors import CommandError, LexbenchError
from lexbench.notation import parse
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run

Pairs = set[tuple[str, bytes]]  # queries with documents, by their ids


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """One system, scored with all judgements; a contributor also without those of what it alone found."""

    system: str
    contributes: bool
    judged: float  # share of its first documents, as many as were judged of a contributor's list
    unique: int = 0  # judged documents that no other contributor has among its first
    relevant: int = 0  # of these
    mean: float
    rank: int  # 1 is the best of all systems; of equals all have the best rank
    mean_without: float | None = None  # None for systems that do not contribute
    rank_without: int | None = None


def is_contributor(system: str, contract: Contract) -> bool:
    """Whether the judgements of a dataset are of lists of that system, as its contract states, whole or by its first name.

    What keeps fewer terms than the system that is named, as `|top_k(8)`, has other lists.
    """
    names = contract.judging.contributors if contract.judging else ()
    try:
        part = parse(system)
    except LexbenchError:  # the label of an object, or of a run file
        return False
    return system in names or (part.head.name in names and not part.transforms)


def leave_one_out(
    runs: Mapping[str, Run], qrels: Qrels, measure: str, contributors: Collection[str], *, depth: int, relevant: int = 1
) -> list[LeftOut]:
    """Return every system of *runs*, best first, and what each of the *contributors* owes to its own judgements.

    *depth* is how much of a contributor's list was judged; *relevant* the lowest grade of what counts as relevant. CommandError
    for a contributor that has no run, and where there are not two systems.
    """
    if unknown := [name for name in contributors if name not in runs]:
        raise CommandError(f"{unknown[0]!r} has no run here; there is: {', '.join(runs)}")
    if len(runs) < 2 or not contributors:  # noqa: PLR2004 - nothing to fall behind
        raise CommandError("leaving a contributor out takes two systems, one of which contributed to the pool")
    first = {name: _first(run, depth) for name, run in runs.items()}
    found = Counter(pair for name in dict.fromkeys(contributors) for pair in first[name])
    grades = _grades(qrels)
    means = _means(runs, qrels, measure)
    rows = []
    for name in runs:
        judged = first[name] & grades.keys()
        row = LeftOut(
            system=name,
            contributes=name in contributors,
            judged=len(judged) / max(len(first[name] & _of_queries(first[name], qrels)), 1),
            mean=means[name],
            rank=_rank(means, name),
        )
        if row.contributes:
            unique = {pair for pair in judged if found[pair] == 1}
            without = _means(runs, _without(qrels, unique), measure) if unique else means
            row = msgspec.structs.replace(
                row,
                unique=len(unique),
                relevant=sum(grades[pair] >= relevant for pair in unique),
                mean_without=without[name],
                rank_without=_rank(without, name),
            )
        rows.append(row)
    return sorted(rows, key=lambda row: (row.rank, row.system))


def _first(run: Run, depth: int) -> Pairs:
    """Return the first *depth* documents of every list."""
    cut = run.cut(depth)
    queries = np.repeat(np.arange(len(cut.query_ids)), np.diff(cut.offsets)).tolist()
    return {(cut.query_ids[query], document) for query, document in zip(queries, cut.table[cut.docs].tolist(), strict=True)}


def _of_queries(pairs: Pairs, qrels: Qrels) -> Pairs:
    judged = set(qrels.query_ids)
    return {pair for pair in pairs if pair[0] in judged}


def _grades(qrels: Qrels) -> dict[tuple[str, bytes], int]:
    queries = np.repeat(np.arange(len(qrels.query_ids)), np.diff(qrels.offsets)).tolist()
    entries = zip(queries, qrels.doc_ids.tolist(), qrels.grades.tolist(), strict=True)
    return {(qrels.query_ids[query], document): grade for query, document, grade in entries}


def _without(qrels: Qrels, pairs: Pairs) -> Qrels:
    """Return the judgements without those of *pairs*; queries that have none left keep their place and count 0."""
    keep: NDArray[np.bool_] = np.array([pair not in pairs for pair in _grades(qrels)], dtype=bool)
    offsets = np.concatenate(([0], np.cumsum(keep)))[qrels.offsets]
    return Qrels(qrels.query_ids, offsets, qrels.doc_ids[keep], qrels.grades[keep])


def _means(runs: Mapping[str, Run], qrels: Qrels, measure: str) -> dict[str, float]:
    depth = measures.cutoff(measure)
    cut = {name: run.cut(depth) if depth else run for name, run in runs.items()}
    return {name: measures.score(run, qrels, [measure]).means[measure] for name, run in cut.items()}


def _rank(means: Mapping[str, float], name: str) -> int:
    return 1 + sum(mean > means[name] for mean in means.values())
