"""What other tools call the measures: MTEB, and model cards after it, write `ndcg_at_10` for `nDCG@10`.

Only names that mean the same are here. MTEB's recall is trec_eval's, and its hit rate is what DPR calls recall; sentence-
transformers' nDCG is of binary relevance, so its names are not ours. Checked with MTEB 2.20.
"""

import re

_NAMES = {"nDCG": "ndcg", "AP": "map", "R": "recall", "P": "precision", "RR": "mrr", "Success": "hit_rate"}
_OURS = {theirs: ours for ours, theirs in _NAMES.items()}
_PLAIN = re.compile(r"(\w+)@(\d+)")
_THEIRS = re.compile(r"([a-z_]+)_at_(\d+)")


def to_mteb(measure: str) -> str | None:
    """Return MTEB's name of *measure*; None where it has none, as for those with a threshold: `RR(rel=2)@10`."""
    found = _PLAIN.fullmatch(measure)
    return f"{_NAMES[found[1]]}_at_{found[2]}" if found and found[1] in _NAMES else None


def from_mteb(name: str) -> str | None:
    """Return our name of MTEB's *name*; None for one that we have not, as `nauc_ndcg_at_10_max`."""
    found = _THEIRS.fullmatch(name)
    return f"{_OURS[found[1]]}@{found[2]}" if found and found[1] in _OURS else None
