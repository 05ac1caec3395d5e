"""The formats that results are exported to and imported from, each with what it cannot hold.

Our own store has everything; each other format is a copy, and the command says what the copy lacks.
"""

from collections.abc import Mapping

_RUN = "measures, sizes, notes, how the system was made"
_MEANS = "the value of every query, runs, sizes, ties, notes, how the system was made"
_VECTORS = "everything but the vectors"

EXPORTED: Mapping[str, str] = {
    "trec": f"equal scores, which are lowered by the least step so that all tools see one order; {_RUN}",
    "msmarco": f"scores, of which only the ranks stay; {_RUN}",
    "ranx": f"equal scores, as in trec; {_RUN}",
    "ir-metadata": "equal scores, as in trec; the value of every query, sizes, notes",
    "qrels": "the contract's rules: thresholds and self-matches",
    "csv": "all but the value of every query and measure; of the system and dataset only their file's name",
    "parquet": "all but the value of every query and measure, with system, dataset and contract",
    "json": "nothing but the run",
    "mteb": f"measures that MTEB has no name for, thresholds of relevance, digits after the sixth; {_MEANS}",
    "model-index": _MEANS,
    "eval-results": f"collections that are not on the Hugging Face hub; {_MEANS}",
    "figures": "all but what is drawn",
    "anserini": _VECTORS,
    "bigann": _VECTORS,
    "ciff": _VECTORS,
    "seismic": _VECTORS,
}
_READ_RUN = "ranks, the tag, score digits that float32 cannot hold; equal scores are lowered by the least step"
_READ_MEANS = "all but system, dataset, measure, value and source"

IMPORTED: Mapping[str, str] = {
    "trec": _READ_RUN,
    "msmarco": "nothing; the score of a document is its rank with a minus",
    "scored": _READ_RUN,
    "ranx": "score digits that float32 cannot hold; equal scores are lowered by the least step",
    "ir-metadata": f"{_READ_RUN}; the metadata are kept beside the run",
    "qrels": "the second column, which no tool uses",
    "ranx-qrels": "nothing",
    "mteb": f"{_READ_MEANS}; tasks and measures that lexbench has no name for, as nauc_*",
    "model-index": f"{_READ_MEANS}; metrics that lexbench has no name for",
    "eval-results": f"{_READ_MEANS}; entries that do not name a measure of lexbench",
}
