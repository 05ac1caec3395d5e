"""The first screen of a run: what each system finds, how fast it answers and what its index weighs, in one table."""

from collections import Counter
from collections.abc import Sequence

from lexbench import measures
from lexbench.analysis.incompleteness import judged_gaps
from lexbench.report.run import names, score
from lexbench.report.table import Table, heading, number
from lexbench.results import Result, Timing

_MOST = 9  # systems: with head, notes and title at most 20 lines
_CALLED = {"R": "official recall", "Success": "DPR recall", "RR": "MRR"}  # what papers call it


def brief(results: Sequence[Result]) -> list[Table]:
    """Return one table a dataset: nDCG, MRR, the official recall and DPR's at one cut-off, queries a second, index megabytes.

    Measures that a result has not are left out. Systems beyond the ninth are counted below; all of it is in `--json`.
    """
    return [_of_dataset([one for one in results if one.dataset == name]) for name in dict.fromkeys(r.dataset for r in results)]


def _of_dataset(results: Sequence[Result]) -> Table:
    shown = [result for result in results if not _is_twin(result)]
    named = _measures(shown)
    timings = [_single(result) for result in shown]
    header = ["system", *(f"{heading(measure)}\n{_CALLED.get(_kind(measure), '')}".rstrip() for measure in named)]
    rows = [
        [
            result.system,
            *(score(result, measure) for measure in named),
            number(timing.qps["e2e"] if timing else None, ",.0f"),
            number(result.sizes["index"] / 1e6 if "index" in result.sizes else None, ",.1f"),
        ]
        for result, timing in zip(shown, timings, strict=True)
    ]
    notes = [f"QPS: one query in flight, its encoding included, k={timing.k}" for timing in timings if timing][:1]
    notes += names(shown)
    if len(rows) > _MOST:
        notes.append(f"{len(rows) - _MOST} more systems are in --json")
    if len(shown) < len(results):
        notes.append(f"{len(results) - len(shown)} more are the same, as top_k had no effect on documents of fewer terms")
    if any(judged_gaps(results)):
        notes.append("systems differ in Judged by more than .1: those with less judged may be better than their scores say")
    seen = Counter(result.exposure.status for result in shown if result.exposure)
    if set(seen) - {"zero-shot"}:
        notes.append(f"seen in training: {', '.join(f'{status} {count}' for status, count in seen.items())}")
    table = tuple(tuple(row) for row in rows[:_MOST])
    return Table(results[0].dataset, (*header, "QPS", "index\nMB"), table, tuple(notes))


def _measures(results: Sequence[Result]) -> list[str]:
    """Return the measures to show: the first nDCG and RR, and both recalls at the greatest cut-off that they share."""
    names = list(dict.fromkeys(name for result in results for name in result.means))
    first = [next((name for name in names if _kind(name) == kind), None) for kind in ("nDCG", "RR")]
    cutoffs = {kind: {measures.cutoff(name): name for name in names if _kind(name) == kind} for kind in ("R", "Success")}
    shared = [cutoff for cutoff in cutoffs["R"] if cutoff in cutoffs["Success"] and cutoff is not None]
    recalls = [cutoffs[kind][max(shared)] for kind in ("R", "Success")] if shared else list(cutoffs["R"].values())[:1]
    return [name for name in (*first, *recalls) if name]


def _kind(measure: str) -> str:
    return measure.partition("(")[0].partition("@")[0]


def _single(result: Result) -> Timing | None:
    return next((timing for timing in result.timings if timing.scenario.startswith("single-stream") and timing.qps), None)


def _is_twin(result: Result) -> bool:
    """Whether this is a top_k that took nothing away: the same system as without."""
    return bool("top_k(" in (result.notation or result.system) and result.vectors and not result.vectors.dropped)
