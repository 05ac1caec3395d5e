"""The model card of a trained folder as Markdown, with the front matter that the Hugging Face hub reads."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from lexbench.lexmae.facts import Facts, What
from lexbench.lexmae.recipe import Encoding, Recipe
from lexbench.report.table import Table, escape, markdown, number

_WHAT: Mapping[What, str] = {
    "pretrained": "pretrained and not fine-tuned",
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
from transformers import AutoModelForMaskedLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForMaskedLM.from_pretrained("FOLDER", dtype=torch.float32).eval()
{silent}

@torch.inference_mode()
def encode(*texts, length):
    cut = {{"truncation": True, "max_length": length, "padding": True, "return_token_type_ids": False}}
    tokens = tokenizer(*texts, **cut, return_tensors="pt")
    pooled = {pooled}
    return model(**tokens).logits.masked_fill(~pooled[..., None], 0).amax(1).relu().log1p()


queries = encode(["what is a query"], length={query_length})
documents = encode({call}, length={document_length})
scores = queries @ documents.T
```"""
_SEEN = {
    "pretraining": "Pretraining saw the texts of its collections, without queries and judgements: no score on them is one on "
    "unseen texts.",
    "training": "Training saw queries and judgements of its collections: no score on them is zero-shot.",
    "selection": "Selection chose among models by its queries: a score on them is too good.",
}
_HUB = re.compile(r"[\w.-]+(/[\w.-]+)?")
_SPECIAL = re.compile(r"[\[\]!#$~]")


def text(recipe: Recipe, what: What, facts: Facts) -> str:
    """Return the whole card."""
    parts = (_front(recipe, what, facts), _about(recipe, what), _use(recipe.encoding), _data(recipe.encoding, facts))
    return "\n\n".join([*parts, _recipe(recipe), _training(recipe, facts), *_scores(facts), _limits(recipe, facts)]) + "\n"


def toml(recipe: Recipe) -> str:
    """Return *recipe* as TOML with every value, defaults too, and without tables that it does not have."""
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
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)


def _shown(given: str) -> str:
    """Return *given* so that Markdown shows it as it is, and as nothing else."""
    return _SPECIAL.sub(r"\\\g<0>", escape(given.replace("&", "&amp;")))


def _table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return markdown(Table("", header, tuple(rows)), escaped=True).rstrip()


def _front(recipe: Recipe, what: What, facts: Facts) -> str:
    start = recipe.start.model
    named = start if _HUB.fullmatch(start) and not Path(start).exists() else ""  # a folder's name tells others nothing
    said = {
        "language": facts.language,
        "license": recipe.license.lower(),  # as the hub writes them
        "library_name": "transformers",
        "pipeline_tag": "fill-mask" if what == "pretrained" else "feature-extraction",
        "base_model": facts.base_model or named,
        "tags": ["lexmae", "learned-sparse-retrieval", "information-retrieval", "lexbench"],
    }
    return "\n".join(["---", *(f"{key}: {_value(value)}" for key, value in said.items() if value), "---"])


def _about(recipe: Recipe, what: What) -> str:
    described = f"“{_shown(recipe.description.strip())}”\n\n" if recipe.description.strip() else ""
    return f"# {_shown(recipe.name)}\n\n{described}" + _ABOUT.format(what=_WHAT[what])


def _use(encoding: Encoding) -> str:
    document, call = _DOCUMENT[encoding.titles]
    silent, pooled = "", 'tokens["attention_mask"].bool()'
    if encoding.positions == "text":
        silent = "silent = torch.tensor([tokenizer.cls_token_id, tokenizer.sep_token_id])\n"
        pooled += ' & ~torch.isin(tokens["input_ids"], silent)'
    return _USE.format(
        document=document,
        positions=_POOLED[encoding.positions],
        silent=silent,
        pooled=pooled,
        query_length=encoding.query_length,
        document_length=encoding.document_length,
        call=call,
    )


def _data(encoding: Encoding, facts: Facts) -> str:
    rows = (
        (_shown(one.dataset), one.use, ", ".join(f"{n:,} {_shown(of)}" for of, n in one.counts.items()), _shown(one.note))
        for one in facts.data
    )
    uses = {one.use for one in facts.data}
    said = [f"Documents were read {_DOCUMENT[encoding.titles][0]}.", *(line for use, line in _SEEN.items() if use in uses)]
    return f"## Data\n\n{_table(('dataset', 'for', 'counts', 'note'), rows)}\n\n{' '.join(said)}"


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
        losses = ((_shown(one.name), number(one.first), number(one.last)) for one in facts.losses)
        parts.append(_table(("loss", "first", "last"), losses))
    if not facts.selection:
        return "\n\n".join([*parts, "Nothing was selected: these are the weights of the last step."])
    chosen = ((_shown(one.dataset), _shown(one.measure), number(one.value), f"{one.step:,}") for one in facts.selection)
    kept = "Of the models compared in training, the best was kept:"
    return "\n\n".join([*parts, kept, _table(("selected on", "measure", "value", "step"), chosen)])


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def _scores(facts: Facts) -> Iterator[str]:
    if facts.scores:
        rows = (
            (
                _shown(one.dataset),
                _shown(one.measure),
                number(one.value),
                f"{number(one.interval[0])} to {number(one.interval[1])}" if one.interval else number(None),
                _shown(one.command),
            )
            for one in facts.scores
        )
        yield f"## Scores\n\n{_table(('dataset', 'measure', 'value', '95 % interval', 'command'), rows)}"


def _limits(recipe: Recipe, facts: Facts) -> str:
    own = [
        f"One training with one seed ({recipe.seed}): how much another seed would change is not known.",
        f"Queries are cut to {recipe.encoding.query_length} tokens and documents to {recipe.encoding.document_length}.",
        "The figures of the LexMAE paper are of other weights, and say nothing of these.",
    ]
    return "## Limits\n\n" + "\n".join(f"- {line}" for line in (*own, *map(_shown, facts.limits)))
