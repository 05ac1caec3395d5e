"""What judgements leave open: unjudged documents, systems that did not contribute to the pool, and judges that are models.

A pool has the best documents of some systems, its contributors. A document that only a new system finds was never judged. So
each contributor in turn loses the judgements of documents that only it found (Zobel, SIGIR 1998): how far it falls shows how
unfair the collection may be to a new system like it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from lexbench.analysis.stored_results import named_runs
from lexbench.contracts import Contract, find_contract
from lexbench.display.answer import Answer
from lexbench.display.table import Table, heading, number
from lexbench.errors import CommandError, LexbenchError
from lexbench.measures import cutoff as cutoff_of
from lexbench.measures import parse as parse_measure
from lexbench.measures import score as score_run
from lexbench.measures import with_threshold
from lexbench.notation import parse
from lexbench.results import Result, by_dataset, measures_of
from lexbench.runner.judging import STAMP, JudgingRecord
from lexbench.runner.scoring import judgements, unstated_thresholds
from lexbench.storage.store import Store
from lexbench.trec.ids import text_of
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run

_DEPTH = 100  # of a pool whose depth the dataset does not state
_JUDGED = 0.8  # share of judged documents; below it, a note says how many are not
_FEW = 3  # systems that a note names
GAP = 0.1  # systems whose shares of judged documents differ by more than this are not comparable

Pairs = set[tuple[str, str]]  # ids of a query and a document


def judged_gaps(results: Sequence[Result]) -> Iterator[str]:
    """Yield notes for each dataset on which the share of judged documents (`Judged`) differs much between systems.

    The notes name the gap, the pool, and what the unjudged documents could change. A dataset with complete judgements gets
    none.
    """
    for dataset, group in by_dataset(results).items():
        contract = find_contract(dataset)
        if contract and contract.judging and contract.judging.complete:
            continue
        for measure in (name for name in measures_of(group) if name.startswith("Judged")):
            shares = {result.system: result.means[measure] for result in group if measure in result.means}
            least, most = min(shares, key=lambda name: shares[name]), max(shares, key=lambda name: shares[name])
            if shares[most] - shares[least] > GAP:
                yield (
                    f"{dataset}: {measure} ranges from {shares[least]:.2f} ({least}) to {shares[most]:.2f} ({most}). Unjudged "
                    "documents count as irrelevant, so systems with few judged documents may be better than their scores"
                )
                yield from _pool_note(contract, [result.system for result in group])
                for result in group:
                    of_measures = (
                        f"{name} {result.means[name]:.4f}, on condensed lists {at.condensed:.4f}, at most {at.highest:.4f}"
                        for name, at in result.incomplete.items()
                    )
                    if shares.get(result.system, 1) < shares[most] - GAP and result.incomplete:
                        yield f"{result.system} on {dataset}: {'; '.join(of_measures)}"


def judged_levels(results: Sequence[Result], headline: str = "") -> Iterator[str]:
    """Yield a note for each dataset on which many of the first ten documents are unjudged, with what they could change.

    The bounds are those of *headline*, or of the first measure that has some: unjudged documents are irrelevant, or of the best
    grade. Only for data of a user, and for pools: where a published collection has one judgement per query, nearly all
    documents are unjudged, which its users know.
    """
    for dataset, group in by_dataset(results).items():
        contract = find_contract(dataset)
        if contract and not (contract.judging and contract.judging.pool):
            continue
        shares = {one.system: 1 - one.counts.judged for one in group if one.counts.judged is not None}
        if not shares or max(shares.values()) <= 1 - _JUDGED:
            continue
        measure = next((name for name in (headline, *measures_of(group)) if all(name in one.incomplete for one in group)), "")
        line = f"{dataset}: {_unjudged(shares)} of the top 10 documents are unjudged ({', '.join(list(shares)[:_FEW])})"
        # nDCG can also fall, because the ideal ranking has the new documents as well.
        ends = [sorted((one.means[measure], one.incomplete[measure].highest)) for one in group if measure]
        if len(ends) == 2:  # noqa: PLR2004 - their difference
            (low, high), (other_low, other_high) = ends
            between = f"{other_low - high:+.2f} to {other_high - low:+.2f}"
            line += f"; with them the difference in {measure} may be anything from {between}"
        elif measure:
            least, most = f"{min(ends)[0]:.2f}", f"{max(high for _, high in ends):.2f}"
            could = f"is {least}, too" if least == most else f"may be anything from {least} to {most}"
            line += f"; with them {measure} {could}"
        yield line


def _unjudged(shares: Mapping[str, float]) -> str:
    """Return the *shares* by system in percent: one, two, or the ends of more."""
    percents = [f"{share:.0%}".replace("%", " %") for share in shares.values()]
    if len(percents) <= 2:  # noqa: PLR2004 - they are listed
        return " and ".join(percents)
    least, most = min(shares.values()), max(shares.values())
    return f"{least:.0%} to {most:.0%}".replace("%", " %")


def _pool_note(contract: Contract | None, systems: Sequence[str]) -> Iterator[str]:
    """Yield a note with the judges of the dataset, and with the *systems* that contributed to its pool."""
    if contract and contract.judging:
        judging = contract.judging
        pool = f"; the pool favours its contributors: {'; '.join(judging.pool)}" if judging.pool else ""
        here = [system for system in systems if is_contributor(system, contract)]
        yield f"{contract.id} was judged by {judging.by}{pool}" + (f"; contributors here: {', '.join(here)}" if here else "")


def is_contributor(system: str, contract: Contract) -> bool:
    """Whether the dataset's contract names *system*, in full or by its first name, as a contributor to the pool.

    A system with transforms (e.g. `|top_k(8)`) has other lists than the one that is named, and does not count.
    """
    names = contract.judging.contributors if contract.judging else ()
    try:
        part = parse(system)
    except LexbenchError:  # the name of an object or of a run file
        return False
    return system in names or (part.head.name in names and not part.transforms)


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """The score of one system with all judgements; for contributors, also without those of documents that only it found."""

    system: str
    contributes: bool
    judged: float  # share of its first documents that are judged, down to the depth of the pool
    unique: int = 0  # judged documents that no other contributor has among its first
    relevant: int = 0  # of these
    mean: float
    rank: int  # 1 is the best of all systems; equal systems share the best rank
    mean_without: float | None = None  # None for systems that do not contribute
    rank_without: int | None = None


class PoolTest(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """The test of a pool: how much each contributor loses without the judgements that only it brought."""

    dataset: str
    measure: str
    depth: int
    systems: list[LeftOut]  # the best first
    notes: list[str] = []

    def tables(self) -> list[Table]:
        """Return one row per system."""
        table = pool_table(self.systems, self.dataset, self.measure, self.depth)
        return [replace(table, notes=(*table.notes, *self.notes))]

    def document(self) -> list[LeftOut]:
        """Return the systems."""
        return self.systems

    def rows(self) -> list[dict[str, object]]:
        """Return a row per system."""
        return [msgspec.structs.asdict(one) for one in self.systems]


class Judgements(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """What a language model has judged, and its agreement with people."""

    judging: JudgingRecord
    path: str  # of the qrels file

    def tables(self) -> list[Table]:
        """Return one row: what the judge has judged, and how its judgements agree with the official ones."""
        made, path, one = self.judging, Path(self.path), self.judging.agreement
        judged = sum(made.grades.values())
        header = ("judge", *(f"grade\n{grade}" for grade in made.grades))
        header += ("no\ngrade", "relevant\nby both", "by the\njudge", "officially", "by\nneither", "kappa")
        counts = (*made.grades.values(), made.unreadable, one.both, one.judge, one.official, one.neither)
        notes = [
            "documents that both have judged: relevant by both, only by the judge, only officially, by neither; kappa: Cohen's",
            f"{path} has {judged:,} judgements by a model, not official ones; {path.name}{STAMP} describes it",
        ]
        if made.unreadable:
            notes.append(f"{made.unreadable:,} answers had no grade of the scale; these documents are not judged")
        cells = (made.stamp, *map(str, counts), number(one.kappa, ".2f"))
        return [Table(f"{made.dataset}: judged by a model, {made.date}", header, (cells,), tuple(notes))]

    def document(self) -> JudgingRecord:
        """Return the facts of the stamp file."""
        return self.judging


def test_pool(
    systems: Sequence[str], dataset: str | None, qrels: Path | None, measure: str, contributors: Sequence[str],
    depth: int | None, store: Store,
) -> PoolTest:  # fmt: skip
    """Return the test of a pool for *systems*, by the judgements of a *dataset* or of a *qrels* file, whichever is given.

    *depth* is how many documents of each list were judged, by default that of the dataset, or else 100.
    """
    if (dataset is None) == (qrels is None):
        raise CommandError("give -d ID, or --qrels FILE")
    judged, contract = judgements(dataset, qrels)[:2]
    measure = with_threshold(measure, contract) if contract else str(parse_measure(measure))
    runs = named_runs(systems, store, contract, judged)
    stated = contract.judging if contract else None
    by_contract = [name for name in runs if contract and is_contributor(name, contract)]
    depth = depth or (stated.depth if stated and stated.depth else _DEPTH)
    relevant = contract.relevance.default if contract else 1
    rows = leave_one_out(runs, judged, measure, contributors or by_contract or list(runs), depth=depth, relevant=relevant)
    notes = [note.text for note in unstated_thresholds(judged, [measure], contract.stamp if contract else "none")]
    return PoolTest(dataset=dataset or str(qrels), measure=measure, depth=depth, systems=rows, notes=notes)


def leave_one_out(
    runs: Mapping[str, Run], qrels: Qrels, measure: str, contributors: Collection[str], *, depth: int, relevant: int = 1
) -> list[LeftOut]:
    """Return every system of *runs*, best first. Each of the *contributors* is also scored without its own judgements.

    *depth* is how many documents of a contributor's list were judged; *relevant* is the lowest relevant grade. Raises
    CommandError for a contributor without a run, and for fewer than two systems.
    """
    if unknown := [name for name in contributors if name not in runs]:
        raise CommandError(f"{unknown[0]!r} has no run here; there are runs of: {', '.join(runs)}")
    if len(runs) < 2 or not contributors:  # noqa: PLR2004 - no rank to lose
        raise CommandError("judge pool needs at least two systems, one of which contributed to the pool")
    first = {name: _first_documents(run, depth) for name, run in runs.items()}
    found = Counter(pair for name in dict.fromkeys(contributors) for pair in first[name])
    grades = {(one.query_id, one.doc_id): one.grade for one in qrels.judgements()}
    queries = set(qrels.query_ids)
    means = _means(runs, qrels, measure)
    rows = []
    for name in runs:
        judged, contributes = first[name] & grades.keys(), name in contributors
        unique = {pair for pair in judged if found[pair] == 1} if contributes else set()
        without = _means(runs, _without(qrels, unique), measure) if unique else means
        row = LeftOut(
            system=name,
            contributes=contributes,
            judged=len(judged) / max(sum(query in queries for query, _ in first[name]), 1),
            unique=len(unique),
            relevant=sum(grades[pair] >= relevant for pair in unique),
            mean=means[name],
            rank=_rank(means, name),
            mean_without=without[name] if contributes else None,
            rank_without=_rank(without, name) if contributes else None,
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (row.rank, row.system))


def _first_documents(run: Run, depth: int) -> Pairs:
    """Return pairs of a query and one of the first *depth* documents of its list."""
    cut = run.cut(depth)
    queries = np.repeat(cut.query_ids, np.diff(cut.offsets)).tolist()
    return {(query, text_of(document)) for query, document in zip(queries, cut.table[cut.docs].tolist(), strict=True)}


def _without(qrels: Qrels, pairs: Pairs) -> Qrels:
    """Return the judgements without *pairs*. Queries that lose all judgements stay, and score 0."""
    keep = np.array([(one.query_id, one.doc_id) not in pairs for one in qrels.judgements()], dtype=bool)
    offsets = np.concatenate(([0], np.cumsum(keep)))[qrels.offsets]
    return Qrels(qrels.query_ids, offsets, qrels.doc_ids[keep], qrels.grades[keep])


def _means(runs: Mapping[str, Run], qrels: Qrels, measure: str) -> dict[str, float]:
    """Return the mean of *measure* over all queries for each of *runs*, by name."""
    depth = cutoff_of(measure)
    cut = {name: run.cut(depth) if depth else run for name, run in runs.items()}
    return {name: score_run(run, qrels, [measure]).means[measure] for name, run in cut.items()}


def _rank(means: Mapping[str, float], name: str) -> int:
    return 1 + sum(mean > means[name] for mean in means.values())


def pool_table(rows: Sequence[LeftOut], dataset: str, measure: str, depth: int) -> Table:
    """Return one row per system, best first. Contributors have a mark and their score without their own judgements."""
    header = ("system", heading(measure), "rank", f"judged\n@{depth}", "unique", "relevant", "without", "rank\nwithout")
    cells = [
        (
            f"{row.system} *" if row.contributes else row.system,
            number(row.mean),
            str(row.rank),
            number(row.judged, ".2f"),
            str(row.unique) if row.contributes else number(None),
            str(row.relevant) if row.contributes else number(None),
            number(row.mean_without),
            number(row.rank_without, "d"),
        )
        for row in rows
    ]
    notes = [
        "*: contributed to the pool",
        f"unique: judged documents that no other contributor has among its first {depth}; relevant: how many of them are",
        "without: mean and rank without the judgements of its unique documents",
    ]
    falls = [(row.mean - row.mean_without, row) for row in rows if row.mean_without is not None]
    if falls:
        most, worst = max(falls, key=lambda fall: fall[0])
        ranks = max(row.rank_without - row.rank for row in rows if row.rank_without is not None)
        mean = sum(fall for fall, _ in falls) / len(falls)
        notes.append(
            f"without its own judgements a contributor loses {mean:.4f} on average, at most {most:.4f} ({worst.system}), and "
            f"falls by up to {ranks} rank{'s' * (ranks != 1)}"
        )
    return Table(f"{dataset}: one contributor left out at a time", header, tuple(cells), tuple(notes))
