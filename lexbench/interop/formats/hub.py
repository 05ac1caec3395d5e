"""Results in model repositories on the Hugging Face hub, in its two formats, written by its own library.

    model-index      YAML front matter of README.md: task, dataset and metrics, each metric with our notation as its name
    .eval_results/   one YAML file per collection: a list of {dataset: {id, task_id, revision}, value, date, notes}

In `.eval_results` the eval.yaml of a collection defines the tasks. Ours have none, so the task is MTEB's name of the measure,
and the notes have our notation with the system. Collections that are not on the hub fit into a model-index only.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from lexbench.errors import InvalidFile, require
from lexbench.interop.formats import MEANS_LOST, SCORES_NOT_KEPT, Export, Import, means_files
from lexbench.interop.formats.mteb import TASKS, is_task, task_needed
from lexbench.interop.scores import ImportedScore, fraction, from_mteb, to_mteb
from lexbench.results import Result
from lexbench.storage import atomic

FOLDER = ".eval_results"
_TASK = "text-retrieval"  # the hub's name
_RULE = "---\n"  # above and below the front matter
_PATHS = {task.path: dataset for dataset, task in TASKS.items()}
_NOTATION = re.compile(r"\w+(\([\w=,.]+\))?@\d+")  # of our measures; "Cosine Ndcg@10" of sentence-transformers is another one
_NOTE = "lexbench: "  # our notes begin with this


def write_model_index(results: Iterable[Result], folder: Path) -> Iterator[Path]:
    """Write the results of one system as front matter of *folder*/README.md, to be merged into a model card."""
    library = _library("model-index")
    results = list(results)
    entries = [_eval_result(library, result, measure) for result in results for measure in result.means]
    index = library.repocard_data.eval_results_to_model_index(results[0].system, entries)
    yield _write(folder / "README.md", _RULE + _yaml({"model-index": index}) + _RULE)


def _eval_result(library: Any, result: Result, measure: str) -> Any:
    task = TASKS.get(result.dataset)
    where = {"dataset_split": task.split, "dataset_revision": task.revision} if task else {}
    return library.EvalResult(
        task_type=_TASK,
        dataset_type=task.path if task else result.dataset,
        dataset_name=result.dataset,
        metric_type=to_mteb(measure) or measure,
        metric_name=measure,
        metric_value=result.means[measure],
        **where,
    )


def read_model_index(path: Path) -> Iterator[ImportedScore]:
    """Yield the scores of a model card (README.md or its folder) for metrics with our or MTEB's names."""
    library = _library("model-index")
    path = path / "README.md" if path.is_dir() else path
    before, opened, rest = _text(path).partition(_RULE)
    front, closed, _ = rest.partition("\n" + _RULE)
    if before or not opened or not closed:
        raise InvalidFile(f"{path}: it has no front matter (YAML between two lines of ---)")
    try:
        name, entries = library.repocard_data.model_index_to_eval_results(_parsed(path, front).get("model-index"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidFile(f"{path}: model-index does not read: {type(error).__name__}: {error}") from None
    for entry in entries:
        metric = str(entry.metric_type)
        measure = from_mteb(metric) or (metric if metric == entry.metric_name and _NOTATION.fullmatch(metric) else "")
        dataset = _PATHS.get(entry.dataset_type, str(entry.dataset_type))
        if measure:
            value = fraction(entry.metric_value, f"{path}: {entry.metric_type} of {entry.dataset_type}")
            yield ImportedScore(str(name), "model card", dataset, path.name, measure, value)


def write_eval_results(results: Iterable[Result], folder: Path) -> Iterator[Path]:
    """Write the results of one system into *folder*/.eval_results, one file per collection of the hub."""
    library = _library("eval-results")
    for result in results:
        task = TASKS[result.dataset]
        entries = [
            library.EvalResultEntry(
                dataset_id=task.path,
                task_id=to_mteb(measure) or measure,
                value=mean,
                dataset_revision=task.revision,
                date=result.measured.started or None,
                notes=f"{_NOTE}{measure} of {result.system}, contract {result.contract}",
            )
            for measure, mean in result.means.items()
        ]
        document = library.eval_result_entries_to_yaml(entries)
        yield _write(folder / FOLDER / f"{result.dataset.replace('/', '-')}.yaml", _yaml(document))


def read_eval_results(path: Path) -> Iterator[ImportedScore]:
    """Yield the scores of a YAML file, a folder of such files, or a model repository, for measures that we know."""
    library = _library("eval-results")
    folder = path / FOLDER if (path / FOLDER).is_dir() else path
    for file in sorted(folder.glob("*.yaml")) if folder.is_dir() else [path]:
        try:
            entries = library.parse_eval_result_entries(_parsed(file, _text(file)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidFile(f"{file}: no list of results: {type(error).__name__}: {error}") from None
        yield from _scores(file, entries)


def _scores(file: Path, entries: Iterable[Any]) -> Iterator[ImportedScore]:
    owner = file.absolute().parent.parent.name
    for entry in entries:
        notes = str(entry.notes or "")
        measure, _, system = notes.removeprefix(_NOTE).partition(" of ") if notes.startswith(_NOTE) else ("", "", "")
        measure = measure or from_mteb(str(entry.task_id)) or ""
        if measure:
            value = fraction(entry.value, f"{file}: {entry.task_id}")
            system = system.rpartition(", contract ")[0] or owner
            dataset = _PATHS.get(entry.dataset_id, str(entry.dataset_id))
            yield ImportedScore(system, "model card", dataset, f"{FOLDER}/{file.name}", measure, value)


def _library(what: str) -> Any:
    require(what, ["huggingface_hub"], "neural")
    import huggingface_hub
    import huggingface_hub.repocard_data

    return huggingface_hub


def _yaml(value: Any) -> str:
    return msgspec.yaml.encode(value).decode()


def _parsed(path: Path, text: str) -> Any:
    try:
        return msgspec.yaml.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidFile(f"{path}: {error}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path}: {error}") from None


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, text)
    return path


_CARD, _FILES = "a model's card on the hub", ".eval_results of a model's repository on the hub"
_LOST = f"collections that are not on the Hugging Face hub; {MEANS_LOST}"
_FOLDERS = f"{_FILES}: a folder per system, a file per collection"
_NEEDED = is_task, task_needed("eval-results")
EXPORTS = (
    Export(
        "model-index", f"front matter for {_CARD}, in a folder per system", MEANS_LOST, means_files(write_model_index), "system"
    ),
    Export("eval-results", _FOLDERS, _LOST, means_files(write_eval_results), "system", *_NEEDED),
)
_UNNAMED = f"{SCORES_NOT_KEPT}; metrics that lexbench has no name for"
_OTHERS = f"{SCORES_NOT_KEPT}; entries that do not name a measure of lexbench"
IMPORTS = (
    Import("model-index", f"scores: {_CARD}", _UNNAMED, read_model_index),
    Import("eval-results", f"scores: {_FILES}", _OTHERS, read_eval_results),
)
