"""Contamination: what a system may have seen of a dataset in training. A result calls it its exposure.

    zero-shot      it learned from nothing that is known to contain this dataset's queries or documents
    corpus seen    it has read these documents, or learned from other queries over them, or was chosen among models of the same
                   training by judgements of another split
    in-domain      it learned from queries and judgements of this dataset, from another split or this one
    unknown        it was trained, and nothing says on what

Collections are matched by their corpus, and by other names that a contract lists as `related`. In a system of several models,
the model that has seen most decides. The general text that language models are made from does not count.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import Any

from lexbench import catalog, plugins, registry
from lexbench.catalog import CatalogModel
from lexbench.contracts import Contract, find_contract
from lexbench.errors import LexbenchError, MissingData, MissingExtra
from lexbench.notation import Call, Expression, Value, parse
from lexbench.outside.foreign import ForeignRetriever
from lexbench.results import EXPOSURES, Exposure
from lexbench.retrievers.run_file import RunFile
from lexbench.runner.systems import System, named_systems, system, trained_members
from lexbench.types import TrainingData

ZERO_SHOT, UNKNOWN, SEEN, IN_DOMAIN = EXPOSURES
_LANGUAGE_MODELS = {  # made from general text alone
    "bert-base-uncased", "bert-large-uncased", "distilbert-base-uncased", "roberta-base", "modernbert-base",
    "minilm-l6-h384-uncased", "minilm-l12-h384-uncased", "bert_uncased_l-2_h-128_a-2",
    "llama-2-7b-hf", "llama-2-13b-hf", "meta-llama-3-8b", "meta-llama-3.1-8b", "llama-3.1-8b",
    "mistral-7b-v0.1", "mistral-7b-v0.3",
}  # fmt: skip


def exposure_of(system: System, contract: Contract) -> Exposure:
    """Return the exposure of *system* to the dataset of *contract*."""
    named = dict(_catalogued_models(parse(system.expression))) if system.expression else {}
    return joint_exposure([_exposure_of_member(member, contract, named) for member in trained_members(system.retriever)])


def joint_exposure(parts: Sequence[Exposure]) -> Exposure:
    """Return the exposure of the part that has seen most, with the reasons of all parts."""
    most = max((one.status for one in parts), key=EXPOSURES.index)
    return Exposure(status=most, because=list(dict.fromkeys(line for one in parts for line in one.because)))


def exposure_to(data: TrainingData, contract: Contract, what: str) -> Exposure:
    """Return the exposure to *contract* of a model that was trained on *data* alone; the reasons call it *what*."""
    same, over = {contract.corpus, *contract.related.queries}, set(contract.related.texts)
    trained = [name for name in data.queries if same & _all_names(name)]
    seen = [name for name in (*data.queries, *data.texts) if (same | over) & _all_names(name)]
    if trained:
        return Exposure(status=IN_DOMAIN, because=[f"{what} was trained on {', '.join(trained)} ({data.source})"])
    chosen = [name for name in data.chosen if same & _all_names(name)]
    because = [f"{what} has read {', '.join(dict.fromkeys(seen))} ({data.source})"] if seen else []
    because += [f"{what} was chosen by judgements of {', '.join(chosen)} ({data.source})"] if chosen else []
    if because:
        return Exposure(status=SEEN, because=because)
    return Exposure(status=ZERO_SHOT)


def exposure_of_entry(entry: CatalogModel, contract: Contract) -> Exposure:
    """Return the exposure of a model of the catalogue according to its entry."""
    data = _stated_training(entry)
    if data is None:
        if entry.weights == "unneeded":
            return Exposure(status=ZERO_SHOT)
        return Exposure(status=UNKNOWN, because=[f"the catalogue does not say what {entry.name} was trained on"])
    return exposure_to(data, contract, entry.name)


def exposures_of(text: str, contracts: Sequence[Contract]) -> tuple[str, list[Exposure]]:
    """Return the name of the system of an expression, and its exposure to each of *contracts*.

    For a model of the catalogue that cannot run here, because its weights or an extra are missing, its entry is enough.
    """
    name, typed = named_systems(text)[0]
    try:
        known = system(typed, name)
    except (MissingData, MissingExtra):
        expression = parse(typed)
        entry = catalog.listing().get(expression.head.name)
        if not isinstance(entry, CatalogModel):
            raise
        return name or str(expression), [exposure_of_entry(entry, contract) for contract in contracts]
    return known.name, [exposure_of(known, contract) for contract in contracts]


def least_exposure(expression: Expression, contract: Contract) -> Exposure | None:
    """Return what the catalogue and the included weights say at least about the exposure of a system.

    Nothing is fetched, and no folder of the user is read. None: nothing is known about any of its models.
    """
    parts = [part for part in map(_exposure_of_leaf, leaf_calls(expression), repeat(contract)) if part]
    return joint_exposure(parts) if parts else None


def leaf_calls(expression: Expression) -> Iterator[Call]:
    """Yield the call of each encoder, reranker and retriever in a system that has no members."""
    members = [value for value in expression.head.args if isinstance(value, Expression)]
    for member in members:
        yield from leaf_calls(member)
    if not members:
        yield expression.head


def _exposure_of_leaf(call: Call, contract: Contract) -> Exposure | None:
    if call.name == "bm25":
        learned = {"expansions", "term_weights"} & dict(call.kwargs).keys()
        return None if learned or call.args else Exposure(status=ZERO_SHOT)
    if call.name in registry.names("retrievers"):
        plugin = registry.find(f"retrievers/{call.name}")
        untold = plugin and (issubclass(plugin, ForeignRetriever) or call.name == "run_file")
        return Exposure(status=UNKNOWN, because=[f"{call.name} does not state its training data"]) if untold else None
    entry = catalog.model(call.name) if call.name in catalog.names() else catalogued_model(str(dict(call.kwargs).get("model")))
    if entry is None:
        return None
    if entry.weights == "included" and not call.args and "model" not in dict(call.kwargs):
        with suppress(LexbenchError):  # its weights are not here
            named = dict(_catalogued_models(Expression(call)))
            return _exposure_of_member(registry.create("encoders", catalog.expand(call)), contract, named)
    return exposure_of_entry(entry, contract)


def _all_names(collection: str) -> set[str]:
    """Return all names of a collection that training data call *collection*: a dataset's id or another name."""
    contract = find_contract(collection)
    return {contract.corpus, *contract.related.queries} if contract else {collection}


def _exposure_of_member(part: Any, contract: Contract, named: dict[str, CatalogModel]) -> Exposure:
    """Return the exposure of an encoder, a reranker or another retriever."""
    if part.models():
        return _exposure_of_models(part, contract, named)
    if learned := list(part.trained_on()):
        return exposure_to(TrainingData(tuple(learned), (), (), "it says so"), contract, type(part).__name__)
    if part.family == "bm25" and not part.identity():
        return Exposure(status=ZERO_SHOT)
    own = part.called if isinstance(part, ForeignRetriever) else type(part).__name__
    what = "a run file" if isinstance(part, RunFile) else own
    return Exposure(status=UNKNOWN, because=[f"{what} does not state its training data"])


def _exposure_of_models(part: plugins.Model, contract: Contract, named: dict[str, CatalogModel]) -> Exposure:
    """Return the exposure of an encoder or reranker: the worst status of its models and of the models they were made from."""
    found, waiting, done = [], list(part.models()), set[str]()
    stated = dict(zip(waiting, part.training_data(), strict=True))
    while waiting:
        model = waiting.pop()
        if model in done or model.rpartition("/")[2].lower() in _LANGUAGE_MODELS:
            continue
        done.add(model)
        entry = named.get(model) or catalogued_model(model)
        data = [one for one in (stated.get(model), _stated_training(entry)) if one]
        waiting += [other for one in data for other in one.models]
        called = Path(model).name if Path(model).is_absolute() else model
        found += [exposure_to(one, contract, called) for one in data]
        if not data:
            found.append(Exposure(status=UNKNOWN, because=[f"nothing says what {called} was trained on"]))
    return joint_exposure(found or [Exposure(status=ZERO_SHOT)])


def _stated_training(entry: CatalogModel | None) -> TrainingData | None:
    """Return the training data that an entry of the catalogue states."""
    if entry is None or entry.training is None:
        return None
    return TrainingData(entry.training.queries, entry.training.texts, (), entry.training.where.partition(":")[0])


def catalogued_model(model: str) -> CatalogModel | None:
    """Return the entry of the catalogue with that name, here or on the hub, if it states its training data."""
    entries = {name: entry for name, entry in catalog.listing().items() if isinstance(entry, CatalogModel) and entry.training}
    return entries.get(model) or next((entry for entry in entries.values() if entry.settings.get("model") == model), None)


def _catalogued_models(expression: Expression) -> Iterator[tuple[str, CatalogModel]]:
    """Yield the weights (a folder or a name) and the entry of each model in *expression* that the catalogue knows."""
    values: list[Value] = [*expression.head.args, *(value for _, value in expression.head.kwargs)]
    for value in values:
        if isinstance(value, Expression):
            yield from _catalogued_models(value)
    try:
        if expression.head.name not in catalog.names():  # an error would look for similar names, which takes long
            return
        call, entry = catalog.expand(expression.head), catalog.model(expression.head.name)
    except LexbenchError:
        return
    settings = dict(call.kwargs)
    for weights in (settings.get("model"), settings.get("query_model")):
        if isinstance(weights, str):
            yield weights, entry
