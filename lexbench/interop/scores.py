"""Published scores from other tools' files: the names of measures there, and how scores are written here.

They are not results, because they have no run, no values by query and no digests of the data. So they are kept apart, each with
its source, in the form of `suites/expected/*.toml`: one table per system and source, one line per dataset.
"""

import json
import math
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from lexbench.errors import InvalidFile
from lexbench.storage import atomic

# MTEB and model cards write `ndcg_at_10` for `nDCG@10`. Only names with the same meaning are here. MTEB's recall is that of
# trec_eval, and its hit rate is what DPR calls recall. The nDCG of sentence-transformers is binary, so its names are not ours.
# Checked with MTEB 2.20.
_NAMES = {"nDCG": "ndcg", "AP": "map", "R": "recall", "P": "precision", "RR": "mrr", "Success": "hit_rate"}
_OURS = {theirs: ours for ours, theirs in _NAMES.items()}
_PLAIN = re.compile(r"(\w+)@(\d+)")
_THEIRS = re.compile(r"([a-z_]+)_at_(\d+)")


def to_mteb(measure: str) -> str | None:
    """Return MTEB's name of *measure*; None if it has none, e.g. for `RR(rel=2)@10`, which has a threshold."""
    parts = _PLAIN.fullmatch(measure)
    return f"{_NAMES[parts[1]]}_at_{parts[2]}" if parts and parts[1] in _NAMES else None


def from_mteb(name: str) -> str | None:
    """Return our name of MTEB's *name*; None if we have none, e.g. for `nauc_ndcg_at_10_max`."""
    parts = _THEIRS.fullmatch(name)
    return f"{_OURS[parts[1]]}@{parts[2]}" if parts and parts[1] in _OURS else None


class ImportedScore(NamedTuple):
    """One score. Its fields are in the order in which scores are sorted and written."""

    system: str  # as its source calls it
    source: str  # e.g. "MTEB"
    dataset: str  # a contract's id
    where: str  # the file and its version
    measure: str  # in ir-measures' notation
    value: float  # 0 to 1


def write_scores(scores: Iterable[ImportedScore], path: Path) -> None:
    """Write scores as TOML, sorted and atomically."""
    tables = ["schema = 1\n"]
    for (called, source), of_system in groupby(sorted(set(scores)), lambda score: score[:2]):
        lines = []
        for (dataset, where), of_dataset in groupby(of_system, lambda score: score[2:4]):
            values = ", ".join(f"{_quoted(score.measure)} = {score.value!r}" for score in of_dataset)
            lines.append(f"  {{ dataset = {_quoted(dataset)}, values = {{ {values} }}, where = {_quoted(where)} }},\n")
        head = f"[[systems]]\ncalled = {_quoted(called)}\nsource = {_quoted(source)}\n"
        tables.append(f"{head}figures = [\n{''.join(lines)}]\n")
    atomic.write_text(path, "\n".join(tables))


def fraction(value: object, what: str) -> float:
    """Return *value*. Raises InvalidFile about *what* if it is not a score from 0 to 1; percentages are not guessed."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise InvalidFile(f"{what} is {value!r}, not a score from 0 to 1; if it is a percentage, divide it by 100")
    return float(value)


def _quoted(text: str) -> str:
    """Return *text* as a TOML string: JSON with one more escaped character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
