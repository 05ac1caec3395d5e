"""The card of a trained model: how to encode with it, and how it came to be, for people and for programs.

config.json has the first; README.md, a model card as the Hugging Face hub reads them, and training.json have the second.
Nothing stands there that was not given, and the same facts give the same bytes.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lexbench.errors import InvalidFile
from lexbench.lexmae.cards.facts import Facts, Training, What
from lexbench.lexmae.recipe import Recipe
from lexbench.models.checkpoint import read_json
from lexbench.models.stated_settings import EXACT_TERMS, K1, B
from lexbench.storage import atomic
from lexbench.table import Table, escape, markdown, number

_WHAT: Mapping[What, str] = {
    "pretrained": "pretrained and not fine-tuned",
    "vectors": "after learning the vectors of a teacher, term by term",
    "stage1": "after the first stage of fine-tuning",
    "stage2": "after the second stage of fine-tuning",
    "stage3": "after the third stage of fine-tuning",
}
_POOLED = {"text": "neither the first token nor separators", "all": "all but padding"}
_DOCUMENT = {  # how each way with titles reads a document: in words, and in Python
    "pair": ('as the pair of its title ("-" for none) and its body', '["-"], ["A text"]'),
    "string": ('as one text: its title ("-" for none), a separator, its body', '[f"-{tokenizer.sep_token}A text"]'),
    "off": ("as one text", '["A text"]'),
}
_ABOUT = """\
A LexMAE that lexbench trained, {what}. It is a re-training, not the authors' model: nobody has released a trained LexMAE. The
method is of T. Shen et al., LexMAE: Lexicon-Bottlenecked Pretraining for Large-Scale Retrieval, ICLR 2023, arXiv 2208.14754. It
turns a text into a sparse vector: a weight for each of some word pieces."""
_USE = """\
## Use

FOLDER is the folder of this file. In lexbench, which reads in config.json how to encode:

```sh
lexbench run suite pydoc -r 'sparse_mlm(model="FOLDER")@impact'
```

In transformers, the same vectors. A document is read {document}; a word piece's largest logit is taken over the positions of a
text, {positions}:

```python
import torch
{imports}from transformers import AutoModelForMaskedLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForMaskedLM.from_pretrained("FOLDER", dtype=torch.float32).eval()
{exact_terms}{silent}

@torch.inference_mode()
def encode(*texts, length):
    cut = {{"truncation": True, "max_length": length, "padding": True, "return_token_type_ids": False}}
    tokens = tokenizer(*texts, **cut, return_tensors="pt")
    pooled = {pooled}
    {weights}


queries = encode(["what is a query"], length={query_length})
documents = encode({call}, length={document_length})
{largest}scores = queries @ documents.T
```"""
_PREDICTED = "model(**tokens).logits.masked_fill(~pooled[..., None], 0).amax(1).relu().log1p()"
_WITH_EXACT_TERMS = f"""\
predicted = {_PREDICTED}
    counts = torch.zeros_like(predicted).scatter_add_(1, tokens["input_ids"], pooled.float())
    norm = {1 - B:g} + {B:g} * counts.sum(1, keepdim=True) / terms["mean_length"]
    saturated = counts * {1 + K1:g} / (counts + {K1:g} * norm)
    return predicted * terms["predicted"].float() + saturated * terms["exact"].float().clamp(min=0)"""
_EXACT_TERMS = """

Unlike the paper's it has *exact terms*: a text's own word pieces have weights of their own, counted as BM25 counts them, beside
those that the masked-language model predicts; exact_terms.safetensors has a number for each word piece. Programs that read the
masked-language model alone, as sentence-transformers does, lose them."""
_LARGEST = """\
least = documents.topk({number}).values[:, -1:]
documents = documents * (documents >= least)  # the {number} largest weights of each, more where some are equal
"""
_SEEN = {
    "pretraining": "Pretraining saw the texts of its collections, without queries and judgements: no score on them is one on "
    "unseen texts.",
    "vectors": "The teacher's vectors were learned of the texts of its collections, and of queries where they are counted, "
    "without judgements: no score on them is one on unseen texts.",
    "training": "Training saw queries and judgements of its collections: no score on them is zero-shot.",
    "selection": "Selection chose among models by its queries: a score on them is too good.",
}
_HUB = re.compile(r"[\w.-]+(/[\w.-]+)?")
_SPECIAL = re.compile(r"[\[\]!#$~]")


def finish(folder: Path, recipe: Recipe, what: What, facts: Facts) -> None:
    """Write into *folder*, which has a model and its tokenizer, how to encode with it, its card, and training.json.

    Earlier ones are replaced: a model that has been scored gets its scores by another call. InvalidFile where config.json does
    not read.
    """
    config = read_json(folder / "config.json")
    encoding: dict[str, Any] = msgspec.to_builtins(recipe.encoding)
    if recipe.exact_terms:
        encoding[EXACT_TERMS] = True
    atomic.write_text(folder / "config.json", _json(config | {"lexbench": encoding}))
    training = Training(schema=1, what=what, recipe=recipe, facts=facts)
    atomic.write_text(folder / "training.json", _json(msgspec.to_builtins(training)))
    atomic.write_text(folder / "README.md", text(recipe, what, facts))


def read(folder: Path) -> Training:
    """Return what *finish* wrote into training.json; InvalidFile where it is not there or does not read."""
    path = folder / "training.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Training)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidFile(
            f"{path}: {error}; it tells how the model was trained: train it again, or copy the file there"
        ) from None


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def text(recipe: Recipe, what: What, facts: Facts) -> str:
    """Return README.md: front matter for the hub, and the card in Markdown."""
    about = (_front(recipe, what, facts), _about(recipe, what), _use(recipe), _data(recipe, facts))
    return "\n\n".join([*about, _recipe(recipe), _training(recipe, facts), *_scores(facts), _limits(recipe, facts)]) + "\n"


def toml(recipe: Recipe) -> str:
    """Return *recipe* as TOML with every value, defaults too, but without sections that it does not have."""
    table: dict[str, Any] = msgspec.to_builtins(recipe)
    return "\n".join(_toml(table))


def _toml(table: Mapping[str, Any], name: str = "") -> Iterator[str]:
    if name:
        yield from ("", f"[{name}]")
    yield from (f"{key} = {_value(value)}" for key, value in table.items() if value is not None and not isinstance(value, dict))
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _toml(value, key)


def _value(value: Any) -> str:
    """Write a value as TOML and YAML both read it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if not isinstance(value, str):
        return json.dumps(value)
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in quoted)


def _shown(text: str) -> str:
    """Return *text* escaped, so that Markdown shows it as it is."""
    return _SPECIAL.sub(r"\\\g<0>", escape(text.replace("&", "&amp;")))


def _table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return markdown(Table("", header, tuple(rows)), escaped=True).rstrip()


def _front(recipe: Recipe, what: What, facts: Facts) -> str:
    start = recipe.start.model
    base = start if _HUB.fullmatch(start) and not Path(start).exists() else ""  # a folder's name tells others nothing
    fields = {
        "language": facts.language,
        "license": recipe.license.lower(),  # as the hub writes them
        "library_name": "transformers",
        "pipeline_tag": "fill-mask" if what == "pretrained" else "feature-extraction",
        "base_model": facts.base_model or base,
        "tags": ["lexmae", "learned-sparse-retrieval", "information-retrieval", "lexbench"],
    }
    return "\n".join(["---", *(f"{key}: {_value(value)}" for key, value in fields.items() if value), "---"])


def _about(recipe: Recipe, what: What) -> str:
    described = f"“{_shown(recipe.description.strip())}”\n\n" if recipe.description.strip() else ""
    exact_terms = _EXACT_TERMS if recipe.exact_terms else ""
    return f"# {_shown(recipe.name)}\n\n{described}" + _ABOUT.format(what=_WHAT[what]) + exact_terms


def _use(recipe: Recipe) -> str:
    encoding = recipe.encoding
    document, call = _DOCUMENT[encoding.titles]
    silent, pooled = "", 'tokens["attention_mask"].bool()'
    if encoding.positions == "text":
        silent = "silent = torch.tensor([tokenizer.cls_token_id, tokenizer.sep_token_id])\n"
        pooled += ' & ~torch.isin(tokens["input_ids"], silent)'
    exact_terms = 'terms = load_file("FOLDER/exact_terms.safetensors")\n' if recipe.exact_terms else ""
    return _USE.format(
        imports="from safetensors.torch import load_file\n" if recipe.exact_terms else "",
        exact_terms=exact_terms,
        weights=_WITH_EXACT_TERMS if recipe.exact_terms else f"return {_PREDICTED}",
        document=document,
        positions=_POOLED[encoding.positions],
        silent=silent,
        pooled=pooled,
        query_length=encoding.query_length,
        document_length=encoding.document_length,
        largest=_LARGEST.format(number=encoding.document_terms) if encoding.document_terms else "",
        call=call,
    )


def _data(recipe: Recipe, facts: Facts) -> str:
    rows = (
        (_shown(data.dataset), data.use, ", ".join(f"{n:,} {_shown(of)}" for of, n in data.counts.items()), _shown(data.note))
        for data in facts.data
    )
    uses = {data.use for data in facts.data}
    remarks = [f"Documents were read {_DOCUMENT[recipe.encoding.titles][0]}."]
    remarks += [line for use, line in _SEEN.items() if use in uses]
    inherited = [recipe.start.model] if recipe.start.weights == "keep" else []
    taught = (recipe.vectors, recipe.stage1, recipe.stage2, recipe.stage3)
    inherited += [section.teacher for section in taught if section and section.teacher]
    if inherited:
        remarks.append(f"It inherits what {_shown(' and '.join(dict.fromkeys(inherited)))} had been trained on.")
    return f"## Data\n\n{_table(('dataset', 'for', 'counts', 'note'), rows)}\n\n{' '.join(remarks)}"


def _recipe(recipe: Recipe) -> str:
    return f"## Recipe\n\n```toml\n{toml(recipe)}\n```"


def _training(recipe: Recipe, facts: Facts) -> str:
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
        return "\n\n".join([*parts, "Nothing was selected: these are the weights of the last step."])
    rows_of_choice = ((_shown(row.dataset), _shown(row.measure), number(row.value), f"{row.step:,}") for row in facts.selection)
    choice = _table(("selected on", "measure", "value", "step"), rows_of_choice)
    return "\n\n".join([*parts, "Of the models compared in training, the best was kept:", choice])


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def _scores(facts: Facts) -> Iterator[str]:
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


def _limits(recipe: Recipe, facts: Facts) -> str:
    limits = [
        f"One training with one seed ({recipe.seed}): how much another seed would change is not known.",
        f"Queries are cut to {recipe.encoding.query_length} tokens and documents to {recipe.encoding.document_length}.",
        "The figures of the LexMAE paper are of other weights, and say nothing of these.",
    ]
    return "## Limits\n\n" + "\n".join(f"- {line}" for line in (*limits, *map(_shown, facts.limits)))
