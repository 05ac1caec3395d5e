"""Finding names that a user may mean: without regard to case and punctuation, and by the words of other tools."""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches

# What other tools call ours. Words are compared as `squeezed` leaves them.
_WORDS: dict[str, tuple[str, ...]] = {
    # measures
    "hit": ("Success",), "hits": ("Success",), "hitrate": ("Success",), "hr": ("Success",), "success": ("Success",),
    "meanreciprocalrank": ("RR",), "mrr": ("RR",), "reciprank": ("RR",), "map": ("AP",), "meanaverageprecision": ("AP",),
    "recall": ("R",), "precision": ("P",), "prec": ("P",), "gain": ("nDCG",), "dcg": ("nDCG",), "judgedshare": ("Judged",),
    # systems and their settings
    "okapi": ("bm25",), "bm25s": ("bm25",), "rankbm25": ("bm25",), "lucene": ("bm25@lucene", "lucene"), "anserini": ("bm25",),
    "hybrid": ("ensemble",), "fusion": ("ensemble",), "fuse": ("ensemble",), "combine": ("ensemble",), "cascade": ("pipeline",),
    "rerankers": ("rerank",), "reranker": ("rerank",), "splade": ("splade_v3",), "colbert": ("colbert_v2",),
    "sbert": ("minilm",), "dpr": ("dpr_multiset",), "lexmaesmall": ("lexmae_nano",), "numterms": ("top_k",),
    "prune": ("top_k",), "brute": ("flat",), "bruteforce": ("flat",), "exact": ("flat", "csr"), "inverted": ("impact",),
    "method": ("scores",), "norm": ("scores",), "normalization": ("scores",), "alpha": ("weights",), "reciprocalrank": ("rrf",),
    "zscore": ("z",), "linear": ("minmax",),
    # what can be listed, shown and exported
    "metrics": ("measures",), "metric": ("measures",), "index": ("engines",), "indexes": ("engines",), "runs": ("results",),
    "run": ("results", "trec"), "benchmarks": ("suites",), "tasks": ("datasets",), "collections": ("datasets",),
    "corpora": ("datasets",), "checkpoints": ("models",), "plugins": ("retrievers",), "tsv": ("msmarco",), "excel": ("csv",),
    "tex": ("latex",), "plots": ("figures",), "pdf": ("figures",), "svg": ("figures",), "trecrun": ("trec",),
    # commands
    "evaluate": ("run",), "eval": ("run",), "benchmark": ("run",), "bench": ("run",), "search": ("run",), "retrieve": ("run",),
    "measure": ("score",), "trec": ("score",), "treceval": ("score",), "test": ("gate",), "diff": ("compare",),
    "cmp": ("compare",), "vs": ("compare",), "significance": ("compare",), "ttest": ("compare",), "ls": ("list",),
    "board": ("leaderboard",), "site": ("leaderboard",), "html": ("leaderboard",), "page": ("leaderboard",),
    "cache": ("store",), "rm": ("remove",), "delete": ("remove",), "finetune": ("train",), "fit": ("train",),
    "embed": ("encode",),
    "build": ("encode",), "inspect": ("show",), "describe": ("show",), "info": ("doctor",), "check": ("doctor",),
    "status": ("doctor",), "profile": ("speed",), "latency": ("speed",), "annotate": ("judge",), "label": ("judge",),
    "why": ("explain",), "leakage": ("exposure",), "contamination": ("exposure",), "upload": ("push",), "download": ("pull",),
    "decide": ("report",),
}  # fmt: skip
_LETTERS = 2  # a similar name that is at most so much longer or shorter was mistyped; otherwise a part of a name is meant
_CUTOFF = 0.61  # of difflib: names that are less alike are not offered


def squeezed(text: str) -> str:
    """Return *text* without case and punctuation."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def means(name: str, known: str) -> bool:
    """Whether *name* is the name *known*, without regard to case and punctuation, or another tool's word for it."""
    return squeezed(name) == squeezed(known) or known in _WORDS.get(squeezed(name), ())


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return the names in *known* that *name* may mean, the likeliest first, at most *count*.

    First are those that differ in case and punctuation alone, then what another tool's word means, then names that contain it,
    those of tests first, or that it contains, then similar ones.
    """
    names = sorted(known)
    short = squeezed(name)
    equal = [one for one in names if squeezed(one) == short]
    meant = [one for one in _WORDS.get(short, ()) if one in names]
    singular = [one for one in names if squeezed(one) in (f"{short}s", short.removesuffix("s"))]
    if found := list(dict.fromkeys([*equal, *meant, *singular])):
        return found[:count]
    parts = [one for one in names if len(short) > _LETTERS and short in squeezed(one)]  # shorter ones are in most
    parts.sort(key=lambda one: (not one.endswith("test"), len(one), one))
    close = get_close_matches(short, {squeezed(one) for one in names}, n=count, cutoff=_CUTOFF) if short else []
    parts = parts or sorted((one for one in names if len(squeezed(one)) > _LETTERS and squeezed(one) in short), key=len)[::-1]
    alike = [one for letters in close for one in _by_case(name, [one for one in names if squeezed(one) == letters])]
    mistyped = bool(close) and abs(len(close[0]) - len(short)) <= _LETTERS
    return list(dict.fromkeys([*alike, *parts] if mistyped else [*parts, *alike]))[:count]


def _by_case(name: str, names: Sequence[str]) -> list[str]:
    """Return *names*, which differ in case and punctuation alone, the most similar to *name* first."""
    return sorted(names, key=lambda one: -SequenceMatcher(None, name, one).ratio())
