"""Expressions that users type by the habits of other tools and languages, e.g. `BM25(k1=1,2)`, and what they mean."""

import re
from collections.abc import Collection, Iterator

from lexbench import catalog, registry
from lexbench.errors import LexbenchError
from lexbench.notation import Expression, parse, split_list
from lexbench.synonyms import squeezed

_NAME = re.compile(r"(\"[^\"]*\"|'[^']*')|[A-Za-z]\w*(?:-[A-Za-z]\w*)*(?:-\d+)?")  # outside of quotes


def repaired(text: str, heads: Collection[str]) -> str:
    """Return the valid expression that *text* probably means, "" if none is likely. *heads* are the names of systems."""
    for candidate in _candidates(text.strip(), heads):
        try:
            expression = parse(candidate)
        except LexbenchError:
            continue
        if candidate != text and all(name in heads for name in _heads(expression)):
            return candidate
    return ""


def _heads(expression: Expression) -> Iterator[str]:
    """Yield the names of the system and of its members."""
    yield expression.head.name
    for value in (*expression.head.args, *dict(expression.head.kwargs).values()):
        if isinstance(value, Expression):
            yield from _heads(value)


def _candidates(text: str, heads: Collection[str]) -> Iterator[str]:
    """Yield what *text* may mean, the smallest change first."""
    named = _with_known_names(text, heads)
    yield named
    marked = _with_our_marks(named)
    yield marked
    yield from (_joined(one, heads) for one in (named, marked))
    yield _fused(named)


def _with_known_names(text: str, heads: Collection[str]) -> str:
    """Return *text* with known names for those that differ in case and punctuation alone, e.g. lexmae-nano."""
    groups = ("engines", "transforms", "rerankers")
    known = {squeezed(name): name for group in groups for name in registry.names(group)}
    known |= {squeezed(name): name for name in heads}
    settings = {"k1": "k1", "b": "b"}

    def name_of(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        short = squeezed(found[0])
        is_setting = bool(re.match(r"\s*[=:]", text[found.end() :]))
        return (settings if is_setting else known).get(short, found[0])

    return _NAME.sub(name_of, text)


def _with_our_marks(text: str) -> str:
    """Return *text* with our brackets, commas and signs: `bm25[k1: 1,2; b=.4` becomes `bm25(k1=1.2, b=.4)`."""
    text = re.sub(r"(?<=\w)[\[{]", "(", text)
    text = re.sub(r"[\]}](?=$|[@|,)])", ")", text) if text.count("(") > text.count(")") else text
    text = re.sub(r"\s-{1,2}(\w+)[\s=]+(?=[\d.])", r" \1=", text)  # bm25 -k1 1.2, as options
    text = re.sub(r"^(\w+)\s+(\w+\s*[=:].*)$", r"\1(\2)", text)
    text = re.sub(r"(?<=[\d)])\s+(?=\w+\s*=)", ", ", text)
    text = re.sub(r"(?<=[(,;])(\s*\w+)\s*:\s*", r"\1=", text).replace(";", ",")
    text = re.sub(r"(=\s*\d+),(\d+)(?=\s*[,)]|$)", r"\1.\2", text)
    text = re.sub(r"=\s*\"(\d+(?:\.\d+)?)\"", r"=\1", text)
    return text + ")" * max(0, text.count("(") - text.count(")"))


def _joined(text: str, heads: Collection[str]) -> str:
    """Return an ensemble for `a + b`, and a pipeline for `a > b` and PyTerrier's `a % 10 >> b`."""
    for sign, name in ((r"\+", "ensemble"), (">+", "pipeline")):
        parts = _split(text, sign)
        if len(parts) > 1:
            members = [re.sub(r"\s*%\s*\d+$", "", part) for part in parts]
            kept = [re.search(r"%\s*(\d+)$", part) for part in parts[:1]]
            k = f", k={kept[0][1]}" if name == "pipeline" and kept[0] else ""
            return f"{name}({', '.join(_with_known_names(one.strip(), heads) for one in members)}{k})"
    return text


def _split(text: str, sign: str) -> list[str]:
    """Return the parts of *text* around *sign* outside of brackets."""
    marked = re.sub(sign, ",", text) if "," not in re.sub(r"\([^()]*\)", "", text) else text
    return split_list(marked) if marked != text else [text]


def _fused(text: str) -> str:
    """Return the ensemble by reciprocal ranks for `rrf(a, b)`."""
    found = re.fullmatch(r"rrf\((.*)\)", text, re.IGNORECASE)
    return f'ensemble({found[1]}, scores="rrf")' if found else text


def of_hub(text: str) -> str:
    """Return the expression for a model of the Hugging Face hub, whose name ORG/MODEL was typed; "" for another text."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", text):
        return ""
    for model in catalog.listing().values():
        if isinstance(model, catalog.CatalogModel) and str(model.settings.get("model", "")).partition("@")[0] == text:
            return model.run
    words = text.lower()
    if "splade" in words or "sparse" in words:
        return f'sparse_mlm(model="{text}")@impact'
    return f'{"late_interaction" if "colbert" in words else "dense"}(model="{text}")'
