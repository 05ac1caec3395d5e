"""Results for model cards on the Hugging Face hub: a model-index, i.e. YAML front matter of README.md, by the hub's library.

It has task, dataset and metrics; the name of each metric is our notation.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lexbench.errors import require
from lexbench.interop.formats import MEANS_LOST, Export, Target
from lexbench.interop.formats.mteb import TASKS, to_mteb
from lexbench.storage import atomic

if TYPE_CHECKING:
    from lexbench.analysis.stored_results import StoredResult


def write(entries: "Sequence[StoredResult]", target: Target) -> Iterator[Path]:
    """Write the results of one system as front matter of README.md, to be merged into a model card."""
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
                    dataset_split=task.split if task else None,
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


_WHAT = "front matter for a model's card on the hub, in a folder per system"
EXPORTS = (Export("model-index", _WHAT, MEANS_LOST, write, "system"),)
