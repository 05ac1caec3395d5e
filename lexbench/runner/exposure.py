"""What a system may have learned of a dataset before it is tested on it: the exposure of a result.

    zero-shot      it learned from nothing that is known to hold this dataset's queries or documents
    corpus seen    it has read these documents, or learned from other queries over them, or was chosen by judgements of another
                   split among models of the same training
    in-domain      it learned from queries and judgements of this dataset, of another split or of this very one
    unknown        somebody trained it, and nobody says on what

Collections are matched by their corpus, and by what a contract says is the same under another name (`related`), so training on
`beir/scifact/train` counts on `beir/scifact/test`. What a model has learned from is told by its folder (training.json, or the
list in its card) and by the catalogue. Of a system of several parts, the part that has seen most decides. The general text that
language models are made from is not counted.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lexbench import catalog, plugins
from lexbench.catalog import Model
from lexbench.contracts import Contract, find_contract
from lexbench.errors import LexbenchError, MissingData
from lexbench.notation import Expression, Value, parse
from lexbench.plugins import Retriever
from lexbench.results import EXPOSURES, Exposure
from lexbench.runner.systems import System, system, trained_members
from lexbench.types import TrainingData

ZERO_SHOT, UNKNOWN, SEEN, IN_DOMAIN = EXPOSURES
_LANGUAGE_MODELS = {  # made from general text alone
    "bert-base-uncased", "bert-large-uncased", "distilbert-base-uncased", "roberta-base", "modernbert-base",
    "minilm-l6-h384-uncased", "minilm-l12-h384-uncased", "bert_uncased_l-2_h-128_a-2",
    "llama-2-7b-hf", "llama-2-13b-hf", "meta-llama-3-8b", "meta-llama-3.1-8b", "llama-3.1-8b",
    "mistral-7b-v0.1", "mistral-7b-v0.3",
}  # fmt: skip


def exposure_of(system: System, contract: Contract) -> Exposure:
    """Return what *system* may have learned of the dataset of *contract*."""
    named = dict(_named(parse(system.expression))) if system.expression else {}
    found = [_of_part(part, contract, named) for part in trained_members(system.retriever)]
    worst = max((part.status for part in found), key=EXPOSURES.index)
    return Exposure(status=worst, because=list(dict.fromkeys(line for part in found for line in part.because)))


def exposure_to(data: TrainingData, contract: Contract, what: str) -> Exposure:
    """Return the exposure to *contract* of the model that errors call *what*, which has learned from *data* alone."""
    same, over = {contract.corpus, *contract.related.queries}, set(contract.related.texts)
    trained = [name for name in data.queries if same & _names(name)]
    seen = [name for name in (*data.queries, *data.texts) if (same | over) & _names(name)]
    if trained:
        return Exposure(status=IN_DOMAIN, because=[f"{what} was trained on {', '.join(trained)} ({data.source})"])
    chosen = [name for name in data.chosen if same & _names(name)]
    because = [f"{what} has read {', '.join(dict.fromkeys(seen))} ({data.source})"] if seen else []
    because += [f"{what} was chosen by judgements of {', '.join(chosen)} ({data.source})"] if chosen else []
    if because:
        return Exposure(status=SEEN, because=because)
    return Exposure(status=ZERO_SHOT)


def exposure_of_entry(entry: Model, contract: Contract) -> Exposure:
    """Return the exposure of a model of the catalogue, by what its entry says; BM25's is none."""
    data = _of_entry(entry)
    if data is None:
        return Exposure(status=ZERO_SHOT if entry.weights == "unneeded" else UNKNOWN)
    return exposure_to(data, contract, entry.name)


def exposures_of(text: str, contracts: Sequence[Contract]) -> tuple[str, list[Exposure]]:
    """Return the label of the system that is typed *text*, and its exposure to each of *contracts*.

    Of a model that is called by its name in the catalogue, and whose weights are not here, what its entry says is enough.
    """
    try:
        known = system(text)
    except MissingData:
        entry = catalog.listing().get(text)
        if not isinstance(entry, Model):
            raise
        return entry.name, [exposure_of_entry(entry, contract) for contract in contracts]
    return known.name, [exposure_of(known, contract) for contract in contracts]


def _names(collection: str) -> set[str]:
    """Return what the collection of training that is called so, a dataset's id or another name, is known by."""
    contract = find_contract(collection)
    return {contract.corpus, *contract.related.queries} if contract else {collection}


def _of_part(part: Any, contract: Contract, named: dict[str, Model]) -> Exposure:
    if part.models():
        return _of_models(part, contract, named)
    if learned := list(part.trained_on()):
        return exposure_to(TrainingData(tuple(learned), (), (), "it says so"), contract, type(part).__name__)
    if part.family == "bm25" and not part.identity():
        return Exposure(status=ZERO_SHOT)
    what = "a run file" if isinstance(part, Retriever) and part.finished else type(part).__name__
    return Exposure(status=UNKNOWN, because=[f"{what} does not say what it was made from"])


def _of_models(part: plugins.Model, contract: Contract, named: dict[str, Model]) -> Exposure:
    """Return the exposure of an encoder or reranker by what its models, and those that these were made from, have seen."""
    found, waiting, done = [], list(part.models()), set[str]()
    stated = dict(zip(waiting, part.training_data(), strict=True))
    while waiting:
        model = waiting.pop()
        if model in done or model.rpartition("/")[2].lower() in _LANGUAGE_MODELS:
            continue
        done.add(model)
        entry = named.get(model) or _known(model)
        data = [one for one in (stated.get(model), _of_entry(entry)) if one]
        waiting += [other for one in data for other in one.models]
        called = Path(model).name if Path(model).is_absolute() else model
        found += [exposure_to(one, contract, called) for one in data]
        if not data:
            found.append(Exposure(status=UNKNOWN, because=[f"nothing says what {called} was trained on"]))
    worst = max((one.status for one in found), key=EXPOSURES.index, default=ZERO_SHOT)
    return Exposure(status=worst, because=[line for one in found for line in one.because])


def _of_entry(entry: Model | None) -> TrainingData | None:
    if entry is None or entry.training is None:
        return None
    return TrainingData(entry.training.queries, entry.training.texts, (), entry.training.where.partition(":")[0])


def _known(model: str) -> Model | None:
    """Return the entry of the catalogue that is called *model*, or whose weights are, a name on the hub."""
    entries = {name: entry for name, entry in catalog.listing().items() if isinstance(entry, Model) and entry.training}
    return entries.get(model) or next((entry for entry in entries.values() if entry.settings.get("model") == model), None)


def _named(expression: Expression) -> Iterator[tuple[str, Model]]:
    """Yield the weights, a folder or a name, of each model that is called by its name in the catalogue, with its entry."""
    values: list[Value] = [*expression.head.args, *(value for _, value in expression.head.kwargs)]
    for value in values:
        if isinstance(value, Expression):
            yield from _named(value)
    try:
        call, entry = catalog.expand(expression.head), catalog.model(expression.head.name)
    except LexbenchError:
        return
    settings = dict(call.kwargs)
    for weights in (settings.get("model"), settings.get("query_model")):
        if isinstance(weights, str):
            yield weights, entry
