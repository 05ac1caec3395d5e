"""MTEB's result files, one JSON file per task, `<model>/<revision>/<Task>.json`; and front matter for model cards.

    {"dataset_revision", "task_name", "mteb_version", "scores": {split: [{"main_score", "hf_subset", "languages",
     "ndcg_at_10", "map_at_10", "recall_at_10", "precision_at_10", "mrr_at_10", "hit_rate_at_10", ...}]},
     "evaluation_time", "kg_co2_emissions", "date"}

`mteb_version` is null in our files, because mteb did not make them. One difference is in no file: mteb drops documents with the
query's own id also on FEVER and FiQA, the contracts (like BEIR) only on ArguAna.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lexbench.errors import InvalidFile, require
from lexbench.interop.formats import MEANS_LOST, Format, Target
from lexbench.results import Result
from lexbench.storage import atomic

if TYPE_CHECKING:
    from lexbench.results import Entry

MAIN = "nDCG@10"  # of every retrieval task
_DIGITS = 6  # like mteb
_SPLIT = "test"  # of every task below
_NO_REVISION = "no_revision_available"  # mteb's name for a missing revision


class MtebTask(NamedTuple):
    """A task of MTEB with the same corpus, queries and judgements as one of our datasets."""

    name: str
    path: str  # of the data on the Hugging Face hub
    revision: str  # of these data, as mteb loads them


# From mteb's task definitions (embeddings-benchmark/mteb, mteb/tasks/retrieval/eng). ClimateFEVER is left out because mteb's
# data differ: it says itself that corpus and judgements were mismatched. Touche2020 is BEIR's second version.
TASKS = {
    "beir/arguana": MtebTask("ArguAna", "mteb/arguana", "c22ab2a51041ffd869aaddef7af8d8215647e41a"),
    "beir/dbpedia-entity/test": MtebTask("DBPedia", "mteb/dbpedia", "c0f706b76e590d620bd6618b3ca8efdd34e2d659"),
    "beir/fever/test": MtebTask("FEVER", "mteb/fever", "bea83ef9e8fb933d90a2f1d5515737465d613e12"),
    "beir/fiqa/test": MtebTask("FiQA2018", "mteb/fiqa", "27a168819829fe9bcd655c2df245fb19452e8e06"),
    "beir/hotpotqa/test": MtebTask("HotpotQA", "mteb/hotpotqa", "ab518f4d6fcca38d87c25209f94beba119d02014"),
    "beir/nfcorpus/test": MtebTask("NFCorpus", "mteb/nfcorpus", "ec0fa4fe99da2ff19ca1214b7966684033a58814"),
    "beir/nq": MtebTask("NQ", "mteb/nq", "b774495ed302d8c44a3a7ea25c90dbce03968f31"),
    "beir/scidocs": MtebTask("SCIDOCS", "mteb/scidocs", "f8c2fcf00f625baaa80f62ec5bd9e1fff3b8ae88"),
    "beir/scifact/test": MtebTask("SciFact", "mteb/scifact", "d56462d0e63a25450459c4f213e49ffdb866f7f9"),
    "beir/trec-covid": MtebTask("TRECCOVID", "mteb/trec-covid", "bb9466bac8153a0349341eb1b22e06409e78ef4e"),
    "beir/webis-touche2020/v2": MtebTask("Touche2020", "mteb/touche2020", "a34f9a33db75fa0cbb21bb5cfc3dae8dc8bec93f"),
}


class TaskFile(msgspec.Struct):
    """The fields of a result file that are read; mteb writes more, and old versions write less."""

    task_name: str
    dataset_revision: str
    scores: dict[str, list[dict[str, Any]]]


# MTEB and model cards write `ndcg_at_10` for `nDCG@10`. Only names with the same meaning are here. MTEB's recall is that of
# trec_eval, and its hit rate is what DPR calls recall. Checked with MTEB 2.20.
_NAMES = {"nDCG": "ndcg", "AP": "map", "R": "recall", "P": "precision", "RR": "mrr", "Success": "hit_rate"}
_OURS = {theirs: ours for ours, theirs in _NAMES.items()}


def to_mteb(measure: str) -> str | None:
    """Return MTEB's name for *measure*; None if it has none, e.g. for `RR(rel=2)@10`, which has a threshold."""
    name, _, cutoff = measure.partition("@")
    return f"{_NAMES[name]}_at_{cutoff}" if name in _NAMES and cutoff else None


def from_mteb(name: str) -> str | None:
    """Return our name for the MTEB measure *name*; None if we have none, e.g. for `nauc_ndcg_at_10_max`."""
    theirs, _, cutoff = name.partition("_at_")
    return f"{_OURS[theirs]}@{cutoff}" if theirs in _OURS and cutoff.isdigit() else None


def write(entries: "Sequence[Entry]", target: Target) -> Iterator[Path]:
    """Write the results of one system into the folder no_revision_available, one file per task. Note results without a task."""
    for result in (entry.result for entry in entries):
        if result.dataset not in TASKS or MAIN not in result.means:
            target.on_note(f"left out {result.system} on {result.dataset}: MTEB has no such task, or there is no {MAIN}")
            continue
        path = target.path / _NO_REVISION / f"{TASKS[result.dataset].name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(path, msgspec.json.format(msgspec.json.encode(_document(result)), indent=2) + b"\n")
        yield path


def _document(result: Result) -> dict[str, Any]:
    task = TASKS[result.dataset]
    named = {name: round(mean, _DIGITS) for measure, mean in result.means.items() if (name := to_mteb(measure))}
    started = result.measured.started
    scores = {**named, "main_score": named["ndcg_at_10"], "hf_subset": "default", "languages": ["eng-Latn"]}
    return {
        "dataset_revision": task.revision,
        "task_name": task.name,
        "mteb_version": None,
        "scores": {_SPLIT: [scores]},
        "evaluation_time": sum(result.measured.seconds.values()),
        "kg_co2_emissions": None,
        "date": datetime.fromisoformat(started).timestamp() if started else None,
    }


def read_task(path: Path) -> TaskFile:
    """Read a result file. Raises InvalidFile if it is malformed."""
    try:
        return msgspec.convert(json.loads(path.read_bytes()), TaskFile)  # Python's parser, because mteb writes NaN
    except (OSError, ValueError, msgspec.ValidationError) as error:  # which is no ValueError in older versions of msgspec
        raise InvalidFile(f"{path}: {error}; it is not a result file of MTEB 1.11 or later") from None


# ---- a model-index for model cards on the Hugging Face hub ------------------------------------------------------------------


def write_model_index(entries: "Sequence[Entry]", target: Target) -> Iterator[Path]:
    """Write a model-index, i.e. YAML front matter of README.md, to be merged into a model card; metrics have our names too."""
    require("model-index", ["huggingface_hub"], "neural")
    from huggingface_hub import EvalResult
    from huggingface_hub.repocard_data import eval_results_to_model_index

    metrics = []
    for result in (entry.result for entry in entries):
        task = TASKS.get(result.dataset)
        for measure, mean in result.means.items():
            metrics.append(
                EvalResult(
                    task_type="text-retrieval",  # the hub's name
                    dataset_type=task.path if task else result.dataset,
                    dataset_name=result.dataset,
                    dataset_split=_SPLIT if task else None,
                    dataset_revision=task.revision if task else None,
                    metric_type=to_mteb(measure) or measure,
                    metric_name=measure,
                    metric_value=mean,
                )
            )
    index = msgspec.yaml.encode({"model-index": eval_results_to_model_index(entries[0].result.system, metrics)}).decode()
    path = target.path / "README.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, f"---\n{index}---\n")
    yield path


EXPORTS = (
    Format(
        "mteb",
        "the results JSON of MTEB: a folder per system, a file per task",
        f"measures that MTEB has no name for, thresholds of relevance, digits after the sixth; {MEANS_LOST}",
        write,
        "system",
    ),
    Format("model-index", "front matter for a model's card, in a folder per system", MEANS_LOST, write_model_index, "system"),
)
