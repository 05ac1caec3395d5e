"""The card of a trained model: how to encode with it, and how it was trained.

config.json gets the settings of the encoding, README.md is a model card for the Hugging Face hub, and training.json has the
same facts for programs (`TrainingRecord`). Training writes all three when a model is finished. The card only contains given
facts, and the same facts give the same bytes.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from lexbench.display.table import Table, escape, markdown, number
from lexbench.errors import InvalidFile
from lexbench.lexmae.recipe.settings import Imitation, Recipe, Stage, from_file
from lexbench.models.checkpoint import read_json
from lexbench.models.stated_settings import EXACT_TERMS
from lexbench.storage import atomic
from lexbench.storage.reading import Strict
from lexbench.storage.toml import plain, toml

What = Literal["pretrained", "imitated", "stage1", "stage2", "stage3"]


class SeenCollection(Strict, frozen=True):
    """A collection that the weights have learned from, or were selected by."""

    dataset: str
    use: Literal["pretraining", "imitation", "training", "selection"]
    counts: dict[str, int]  # of what was used, e.g. {documents = 5048} or {queries = 80, pairs = 310}
    note: str = ""  # its licence, or what is special about it


class Loss(Strict, frozen=True):
    """One part of the loss at the first and the last logged step."""

    name: str
    first: float
    last: float


class Selected(Strict, frozen=True):
    """The score of the selected model on one dataset for selection."""

    dataset: str
    measure: str
    value: float
    step: int


class CardScore(Strict, frozen=True):
    """One score of the finished model, with the command that reproduces it."""

    dataset: str
    measure: str
    value: float
    command: str
    interval: tuple[float, float] | None = None  # at 95 %


class TrainingFacts(Strict, frozen=True):
    """How a model was trained, apart from its recipe."""

    data: tuple[SeenCollection, ...]  # of this training and of the earlier ones
    steps: int
    seconds: float  # of the steps after *resumed*
    machine: str
    versions: dict[str, str]  # package -> version
    resumed: int = 0  # step at which training last resumed; 0: it was not interrupted
    losses: tuple[Loss, ...] = ()
    selection: tuple[Selected, ...] = ()  # (): the weights of the last step were kept
    scores: tuple[CardScore, ...] = ()
    limits: tuple[str, ...] = ()  # sentences
    language: str = ""  # as the hub writes it: en
    # The model on the hub that a folder in the recipe is, or was made from.
    hub_names: dict[str, str] = msgspec.field(default_factory=dict)


class TrainingRecord(Strict, frozen=True):
    """The content of training.json."""

    schema: Literal[1]
    what: What
    recipe: Recipe
    facts: TrainingFacts


_WHAT: Mapping[What, str] = {
    "pretrained": "pretrained and not fine-tuned",
    "imitated": "without fine-tuning",
    "stage1": "after the first stage of fine-tuning",
    "stage2": "after the second stage of fine-tuning",
    "stage3": "after the third stage of fine-tuning",
}
_POOLED = {"text": "except the first token and separators", "all": "except padding"}
_DOCUMENT = {  # how a document is read with each setting of `titles`
    "pair": 'as the pair of its title ("-" for none) and its body',
    "string": 'as one text: its title ("-" for none), a separator, its body',
    "off": "as one text",
}
_ABOUT = """\
A LexMAE trained by lexbench, {what}. It is a re-training, not the authors' model: nobody has released a trained LexMAE. Method:
T. Shen et al., LexMAE: Lexicon-Bottlenecked Pretraining for Large-Scale Retrieval, ICLR 2023, arXiv 2208.14754. It turns a text
into a sparse vector: a weight for each of some word pieces."""
_USE = """\
## Use

FOLDER is the folder of this file. In lexbench, which reads in config.json how to encode:

```sh
lexbench run suite pydoc -r '{encoder}(model="FOLDER")@impact'
```

A document is read {document}. The weight of a word piece comes from its largest logit over all positions of a text
{positions}."""
_TEXT_HEAD = """

It has a second head, the *text head*, in text_head.safetensors: a linear map turns the mean of all states of a text into
weights of further terms, which follow the word pieces in its vectors. A document has the {document_terms} largest of them, a
query the {query_terms} largest. The paper's model has a lexicon bottleneck in pretraining, and does not search with it."""
_EXACT_TERMS = """

Unlike the paper's model it has *exact terms*: a text's own word pieces have additional weights, counted as in BM25. They are in
exact_terms.safetensors, one number per word piece. Programs that only read the masked-language model, such as
sentence-transformers, lose them.{stems}"""
_STEMS = "\nThe words of a Porter stem count as one word piece."
_COLLECTION_IDF = """

Search multiplies each query weight by the inverse document frequency of its word piece in the searched collection, to the power
of {power:g} (*collection idf*). The paper's model does not."""
_TABLE = """

It encodes documents. A query has no model: the weight of each of its word pieces, counted once, comes from the table in
idf.json, which was trained with the model.{added}"""
_ADDED = """ Each whole word also adds {count} other words, which the imitated model
predicts for it alone. Their weights are the word's own, times factors that were trained with the model; query_expansions.json
has these factors."""
_IMITATES = """

Its predictions imitate those of {model}, text by text{means}. The paper's model is pretrained and
fine-tuned instead.{ranking}{averaged}"""
_KEPT = ", and training kept its mean states near those of the starting model"
_RANKS = "\nIt also learned to rank texts as {imitated} and {dense} rank them together."
_AVERAGED = "\nIts weights are the mean of those after training and those before, which have a share of {share:g}."
_SEEN = {
    "pretraining": "Pretraining saw the texts of its collections, without queries and judgements: no score on them is one on "
    "unseen texts.",
    "imitation": "Imitation saw the texts of its collections, and no judgement.",
    "training": "Training saw queries and judgements of its collections: no score on them is zero-shot.",
    "selection": "Selection chose the model by its queries: a score on them is too high.",
}
_HUB = re.compile(r"[\w.-]+(/[\w.-]+)?")
_SPECIAL = re.compile(r"[\[\]!#$~]")


def finish(folder: Path, recipe: Recipe, what: What, facts: TrainingFacts) -> None:
    """Write the encoding settings, README.md and training.json into *folder*, which has a model and its tokenizer.

    Earlier ones are replaced, so a second call can add scores. Raises InvalidFile if config.json is not valid.
    """
    config = read_json(folder / "config.json")
    encoding: dict[str, Any] = msgspec.to_builtins(recipe.encoding)
    if recipe.exact_terms:
        encoding[EXACT_TERMS] = True
    if not has_text_head(recipe, what):
        encoding |= {"text_terms": 0, "query_text_terms": 0}
    atomic.write_text(folder / "config.json", _json(config | {"lexbench": encoding}))
    training = TrainingRecord(schema=1, what=what, recipe=recipe, facts=facts)
    atomic.write_text(folder / "training.json", _json(msgspec.to_builtins(training)))
    atomic.write_text(folder / "README.md", text(recipe, what, facts))


def read(folder: Path) -> TrainingRecord:
    """Return the content of *folder*'s training.json. Raises InvalidFile if it is missing or not valid."""
    path = folder / "training.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=TrainingRecord)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidFile(f"{path}: {error}; it records the training: copy the file there, or train the model again") from None


def has_text_head(recipe: Recipe, what: What) -> bool:
    """Return whether the model *what* has a text head: those of the stages do, or the imitated one if there is no stage."""
    return recipe.text_head is not None and (what.startswith("stage") or (what == "imitated" and not recipe.stage(1)))


def _has_table(recipe: Recipe, what: What) -> bool:
    """Return whether a table encodes the queries of the model *what*."""
    return what == "imitated" and recipe.ranking is not None and bool(recipe.ranking.queries)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def text(recipe: Recipe, what: What, facts: TrainingFacts) -> str:
    """Return README.md: front matter for the hub, and the card in Markdown."""
    encoding = recipe.encoding
    sections = [
        _front(recipe, what, facts),
        _about(recipe, what),
        _USE.format(
            encoder="inference_free" if _has_table(recipe, what) else "sparse_mlm",
            document=_DOCUMENT[encoding.titles],
            positions=_POOLED[encoding.positions],
        ),
        _data(recipe, what, facts),
        f"## Recipe\n\n```toml\n{toml(msgspec.to_builtins(recipe))}```",
        _training(recipe, facts),
        *_scores(facts),
        _limits(recipe, facts),
    ]
    return "\n\n".join(sections) + "\n"


def _shown(text: str) -> str:
    """Return *text* escaped for Markdown."""
    return _SPECIAL.sub(r"\\\g<0>", escape(text.replace("&", "&amp;")))


def _table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return markdown(Table("", header, tuple(rows)), escaped=True).rstrip()


def _front(recipe: Recipe, what: What, facts: TrainingFacts) -> str:
    start = recipe.start.model
    base = start if _HUB.fullmatch(start) and not Path(start).exists() else ""  # a folder's name means nothing to others
    fields = {
        "language": facts.language,
        "license": recipe.license.lower(),  # as the hub writes them
        "library_name": "transformers",
        "pipeline_tag": "fill-mask" if what == "pretrained" else "feature-extraction",
        "base_model": facts.hub_names.get(start, base),
        "tags": ["lexmae", "learned-sparse-retrieval", "information-retrieval", "lexbench"],
    }
    return "\n".join(["---", *(f"{key}: {plain(value)}" for key, value in fields.items() if value), "---"])


def _about(recipe: Recipe, what: What) -> str:
    described = f"“{_shown(recipe.description.strip())}”\n\n" if recipe.description.strip() else ""
    exact_terms = _EXACT_TERMS.format(stems=_STEMS if recipe.exact_terms.stems else "") if recipe.exact_terms else ""
    idf = _COLLECTION_IDF.format(power=recipe.encoding.query_idf) if recipe.encoding.query_idf else ""
    imitates = _imitates(recipe, recipe.imitation) if recipe.imitation and "imitated" in _lineage(recipe, what) else ""
    kept = {"document_terms": recipe.encoding.text_terms, "query_terms": recipe.encoding.query_text_terms}
    head = _TEXT_HEAD.format(**kept) if has_text_head(recipe, what) else ""
    count = recipe.ranking.expansions if recipe.ranking else 0
    table = _TABLE.format(added=_ADDED.format(count=count) if count else "") if _has_table(recipe, what) else ""
    about = (_ABOUT.format(what=_WHAT[what]), table, imitates, exact_terms, head, idf)
    return f"# {_shown(recipe.name)}\n\n{described}{''.join(about)}"


def _lineage(recipe: Recipe, model: str) -> list[str]:
    """Return *model* and the models that its weights come from."""
    section = recipe.section(model)
    return [model, *(_lineage(recipe, section.start) if isinstance(section, Stage) else [])]


def _imitates(recipe: Recipe, settings: Imitation) -> str:
    imitated, kept = _shown(settings.model), _KEPT if settings.keep_means else ""
    ranks = _RANKS.format(imitated=imitated, dense=_shown(recipe.ranking.model)) if recipe.ranking else ""
    averaged = _AVERAGED.format(share=settings.start_share) if settings.start_share else ""
    return _IMITATES.format(model=imitated, means=kept, ranking=ranks, averaged=averaged)


def _data(recipe: Recipe, what: What, facts: TrainingFacts) -> str:
    rows = (
        (
            _shown(data.dataset),
            data.use,
            ", ".join(f"{n:,} {_shown(what)}" for what, n in data.counts.items()),
            _shown(data.note),
        )
        for data in facts.data
    )
    uses = {data.use for data in facts.data}
    notes = [f"Documents were read {_DOCUMENT[recipe.encoding.titles]}."]
    notes += [line for use, line in _SEEN.items() if use in uses]
    inherited = [recipe.start.model] if recipe.start.weights == "keep" else []
    lineage = _lineage(recipe, what)
    stages = [stage for model in reversed(lineage) if isinstance(stage := recipe.section(model), Stage)]
    inherited += [part.model for part in (recipe.imitation, recipe.ranking) if part and "imitated" in lineage]
    inherited += [stage.teacher for stage in stages if stage.teacher and not from_file(stage)]
    if inherited:
        notes.append(f"It inherits what {_shown(' and '.join(dict.fromkeys(inherited)))} had been trained on.")
    if any(map(from_file, stages)):
        notes.append("Scores from a file taught it. What gave them, and what that had been trained on, is not recorded here.")
    return f"## Data\n\n{_table(('dataset', 'for', 'counts', 'note'), rows)}\n\n{' '.join(notes)}"


def _training(recipe: Recipe, facts: TrainingFacts) -> str:
    since = f", from step {facts.resumed:,} on" if facts.resumed else ""
    rows = {
        "seed": str(recipe.seed),
        "steps": f"{facts.steps:,}",
        "time": _time(facts.seconds) + since,
        "machine": facts.machine,
    }
    rows |= {f"{package} (version)": version for package, version in facts.versions.items()}
    parts = ["## Training", _table(("what", "value"), ((_shown(name), _shown(value)) for name, value in rows.items()))]
    if facts.losses:
        losses = ((_shown(loss.name), number(loss.first), number(loss.last)) for loss in facts.losses)
        parts.append(_table(("loss", "first", "last"), losses))
    if not facts.selection:
        return "\n\n".join([*parts, "There was no selection: these are the weights of the last step."])
    selected = ((_shown(row.dataset), _shown(row.measure), number(row.value), f"{row.step:,}") for row in facts.selection)
    choice = _table(("selected on", "measure", "value", "step"), selected)
    return "\n\n".join([*parts, "The best of the models compared in training was kept:", choice])


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def _scores(facts: TrainingFacts) -> Iterator[str]:
    if facts.scores:
        rows = (
            (
                _shown(score.dataset),
                _shown(score.measure),
                number(score.value),
                f"{number(score.interval[0])} to {number(score.interval[1])}" if score.interval else number(None),
                _shown(score.command),
            )
            for score in facts.scores
        )
        yield f"## Scores\n\n{_table(('dataset', 'measure', 'value', '95 % interval', 'command'), rows)}"


def _limits(recipe: Recipe, facts: TrainingFacts) -> str:
    limits = [
        f"Another seed than {recipe.seed} gives other weights and other scores.",
        f"Queries are cut to {recipe.encoding.query_length} tokens and documents to {recipe.encoding.document_length}.",
        "The figures of the LexMAE paper belong to other weights and say nothing about these.",
    ]
    return "## Limits\n\n" + "\n".join(f"- {line}" for line in (*limits, *map(_shown, facts.limits)))
