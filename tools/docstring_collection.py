"""Make a collection to train on of what every machine has: docstrings of the standard library and of installed packages.

    python tools/docstring_collection.py FOLDER [--packages numpy scipy ...] [--most N]

writes a BEIR folder: corpus.jsonl, queries.jsonl, qrels/train.tsv, with README.md and sources.json, which say what is in it. It
depends on nothing but the versions of Python and of the packages. Packages are read as source files and never imported.

A document is a qualified name (its title) and a docstring on one line, as in `pydoc`, whose questions and judgements are not
read. In the names of packages the parts that begin with an underscore are left out: `scipy.linalg._basic.solve` is had as
`scipy.linalg.solve`. Of equal docstrings one is kept, that with the shortest name. A query is the first sentence of a docstring
as one would type it. Half of the documents that have one, drawn by a digest of their names, are left without that sentence.
"""

import argparse
import ast
import hashlib
import inspect
import json
import platform
import re
import tokenize
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from lexbench.datasets.docstrings import FEWEST_WORDS, collect
from lexbench.storage.atomic import write_text

# fmt: off
PACKAGES = (  # of constraints.txt, as they are imported: those with more than 200 docstrings
    "anyio", "authlib", "beartype", "bs4", "cyclopts", "Cython", "datasets", "distlib", "dns", "fastmcp", "flask",
    "fontTools", "fsspec", "httpx2", "huggingface_hub", "hypothesis", "jinja2", "key_value", "llvmlite", "matplotlib",
    "mcp", "mcp_types", "mpmath", "mypy", "mypyc", "narwhals", "networkx", "numba", "numpy", "onnxruntime", "openai",
    "pandas", "PIL", "platformdirs", "pydantic", "pygments", "pyparsing", "pyterrier", "rich", "scipy",
    "sentence_transformers", "sklearn", "statsmodels", "sympy", "torch", "transformers", "virtualenv", "websockets",
    "werkzeug",
)
_VERBS = frozenset({  # that docstrings begin with; a noun of the same form (`test`, `list`) is rarely what is meant there
    "accept", "add", "adjust", "aggregate", "allocate", "allow", "analyze", "append", "apply", "assert", "assign", "attach",
    "bind", "build", "calculate", "call", "cancel", "cast", "change", "check", "choose", "clear", "clip", "close",
    "collect", "combine", "compare", "compile", "compute", "concatenate", "configure", "construct", "convert", "copy",
    "count", "create", "decode", "decompose", "define", "delete", "detect", "determine", "disable", "display", "divide",
    "download", "draw", "drop", "emit", "enable", "encode", "ensure", "estimate", "evaluate", "execute", "expand", "export",
    "extract", "fetch", "fill", "filter", "find", "fit", "flatten", "format", "generate", "get", "give", "group", "handle",
    "import", "initialize", "insert", "install", "interpolate", "invert", "iterate", "join", "launch", "list", "load",
    "locate", "look", "make", "map", "measure", "merge", "modify", "move", "multiply", "normalize", "obtain", "open",
    "parse", "perform", "plot", "predict", "prepare", "print", "process", "produce", "provide", "push", "put", "raise",
    "read", "receive", "record", "reduce", "register", "release", "remove", "rename", "render", "replace", "resample",
    "reset", "reshape", "resolve", "restore", "retrieve", "return", "reverse", "rotate", "round", "run", "sample", "save",
    "scale", "search", "select", "send", "serialize", "set", "show", "shuffle", "simplify", "solve", "sort", "specify",
    "split", "start", "stop", "store", "subtract", "sum", "test", "train", "transform", "translate", "truncate", "unpack",
    "update", "upload", "validate", "verify", "wait", "wrap", "write", "yield",
})
_SKIPPED = {  # parts of module names: tests, and copies of other packages
    "benchmarks", "conftest", "dummy_pt_objects", "examples", "extern", "externals", "_external", "_internal", "test", "tests",
    "_testing", "third_party", "_third_party", "vendor", "vendored", "_vendor", "_vendored", "_extern",
}
# fmt: on
_ORIGIN = "Python"  # what the standard library is called in sources.json
_SHORTEST, _LONGEST = 4, 20  # words of a query
_LEFT = 8  # words that a document without its first sentence must have
_SHARED = 5  # documents: a sentence that more of them begin with asks for nothing
_RULE = re.compile(r"[-=~^]{3,}")  # a line under a heading
_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!etc)(?<!vs)\.(?=\s|$)")
_SIGNATURE = re.compile(r"[\w.]+\([^()]*\)(?: -> [\w.\[\], ]+?)?(?: --?|:) ")
_ROLE = re.compile(r":[\w:]+:`[~!]?([^`<]+?)(?: <[^>]*>)?`")


class Entry(NamedTuple):
    """A docstring and whose it is."""

    name: str
    origin: str  # a package
    doc: str


class Pair(NamedTuple):
    """A query, and whether its document goes without the sentence that the query is made of."""

    query: str
    rest: str | None  # the docstring without its first sentence; None: it stays whole


def entries(package: str) -> Iterator[Entry]:
    """Yield the docstrings of an installed package, in the order of its files."""
    spec = find_spec(package)  # which imports nothing, for the name has no dot
    if spec is None or spec.origin is None:
        return
    root = Path(spec.origin).parent
    inside = bool(spec.submodule_search_locations)
    for path in sorted(root.rglob("*.py")) if inside else [Path(spec.origin)]:
        parts = [*((package, *path.relative_to(root).parent.parts) if inside else ()), path.stem]
        if any(_is_skipped(part) for part in parts[1:]):
            continue
        yield from (Entry(name, package, doc) for name, doc in _of_file(path, parts))


def _is_skipped(part: str) -> bool:
    part = part.lower()
    return part in _SKIPPED or part.startswith("test_") or part.endswith(("_test", "_tests"))


def _of_file(path: Path, parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield qualified names and docstrings of a file; nothing where it is no Python."""
    try:
        with tokenize.open(path) as file, warnings.catch_warnings(action="ignore"):
            tree = ast.parse(file.read())
    except (SyntaxError, UnicodeDecodeError, ValueError):  # templates, and tests of parsers
        return
    public = ".".join(part for part in parts if not part.startswith("_"))
    if not parts[-1].startswith("_") or parts[-1] == "__init__":
        yield public, ast.get_docstring(tree) or ""
    yield from _of_nodes(tree.body, public)


def _of_nodes(nodes: Iterable[ast.stmt], owner: str) -> Iterator[tuple[str, str]]:
    """Yield the public classes and functions among *nodes*, and what is in the classes."""
    for node in nodes:
        if isinstance(node, ast.If | ast.Try | ast.With):
            handlers = (one for handler in getattr(node, "handlers", ()) for one in handler.body)
            yield from _of_nodes([*node.body, *getattr(node, "orelse", ()), *handlers], owner)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            name = f"{owner}.{node.name}"
            yield name, ast.get_docstring(node) or ""
            if isinstance(node, ast.ClassDef):
                yield from _of_nodes(node.body, name)


def documents(found: Iterable[Entry]) -> list[Entry]:
    """Return those with enough words, once a name and once a docstring, by name; standard library before packages."""
    names: dict[str, Entry] = {}
    bodies: dict[str, Entry] = {}
    for entry in sorted(found, key=lambda entry: (entry.origin != _ORIGIN, len(entry.name), entry.name)):
        body = one_line(entry.doc)
        if entry.name not in names and body not in bodies and len(body.split()) >= FEWEST_WORDS:
            names[entry.name] = bodies[body] = entry
    return sorted(names.values())


def one_line(doc: str) -> str:
    """Return a docstring on one line, without the rules under headings."""
    lines = (line.strip() for line in doc.splitlines())
    return " ".join(" ".join(line for line in lines if not _RULE.fullmatch(line)).split())


def pair(name: str, doc: str) -> Pair | None:
    """Return the query of a docstring; None where its first sentence would be none, or too little would be left of it."""
    paragraph = one_line(re.split(r"\n\s*\n", inspect.cleandoc(doc), maxsplit=1)[0])
    whole, end = one_line(doc), _SENTENCE.search(paragraph)
    sentence = paragraph[: end.start() + 1] if end else paragraph
    query = as_typed(sentence, how_to=_drawn(name, "how to", 3))
    words = len(query.removeprefix("how to ").split())
    if not (_SHORTEST <= words <= _LONGEST and query[0].isalnum() and whole.startswith(sentence)):
        return None
    if _drawn(name, "whole", 2):
        return Pair(query, None)
    rest = whole[len(sentence) :].strip()
    return Pair(query, rest) if len(rest.split()) >= _LEFT else None


def as_typed(sentence: str, *, how_to: bool) -> str:
    """Return a sentence without its signature, mark-up and end, with a small first letter and its verb in the base form.

    With *how_to*, a sentence that begins with a verb gets those two words before it.
    """
    plain = re.sub(r"[`*]+", "", _ROLE.sub(r"\1", _SIGNATURE.sub("", sentence, count=1))).strip().rstrip(".:;,! ")
    first, space, others = plain.partition(" ")
    if first[1:].islower() or len(first) == 1:  # no name, no abbreviation
        first = first.lower()
    verb = next((form for form in (first, first.removesuffix("s"), first.removesuffix("es")) if form in _VERBS), None)
    if first.endswith("ies") and f"{first[:-3]}y" in _VERBS:
        verb = f"{first[:-3]}y"
    return ("how to " if how_to and verb else "") + (verb or first) + space + others


def _drawn(name: str, what: str, of: int) -> bool:
    """Whether *name* is among the one in *of* that are drawn for *what*; the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"{what}\t{name}".encode()).digest()[:8]) % of == 0


def most(found: Sequence[Entry], number: int) -> list[Entry]:
    """Return *number* of the documents, drawn by a digest of their names, in their order; 0: all."""
    drawn = sorted(found, key=lambda entry: hashlib.sha256(entry.name.encode()).digest())
    return sorted(drawn[: number or None])


def write(found: Sequence[Entry], versions: Mapping[str, str], folder: Path) -> int:
    """Write the collection into *folder* and return how many pairs of query and document it has."""
    texts = {entry.name: one_line(entry.doc) for entry in found}
    asked: defaultdict[str, list[str]] = defaultdict(list)
    pairs = {entry.name: made for entry in found if (made := pair(entry.name, entry.doc))}
    for name, made in pairs.items():
        asked[made.query.lower()].append(name)
    kept = [names for names in asked.values() if len(names) <= _SHARED]
    for names in kept:
        texts |= {name: rest for name in names if (rest := pairs[name].rest)}
    corpus = ({"_id": name, "title": name, "text": text} for name, text in texts.items())
    queries = ({"_id": f"q:{names[0]}", "text": pairs[names[0]].query} for names in kept)
    qrels = [f"q:{names[0]}\t{name}\t1" for names in kept for name in names]
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    write_text(folder / "corpus.jsonl", "".join(json.dumps(one) + "\n" for one in corpus))
    write_text(folder / "queries.jsonl", "".join(json.dumps(one) + "\n" for one in queries))
    write_text(folder / "qrels" / "train.tsv", "\n".join(["query-id\tcorpus-id\tscore", *qrels]) + "\n")
    counts = Counter(entry.origin for entry in found)
    sources = {name: {"version": versions[name], "documents": counts[name]} for name in versions}
    write_text(folder / "sources.json", json.dumps(sources, indent=1) + "\n")
    listed = "".join(f"| {name} | {versions[name]} | {counts[name]:,} |\n" for name in versions)
    facts = {"documents": len(found), "queries": len(kept), "pairs": len(qrels)}
    write_text(folder / "README.md", _README.format(sources=listed, **facts))
    return len(qrels)


_README = """\
# Docstrings to train on

Made by lexbench's tools/docstring_collection.py on one machine, of the Python and the packages that are installed there:
{documents:,} documents, {queries:,} queries, {pairs:,} pairs. The docstrings are under the licenses of their packages; this
folder is for use where it was made and not for passing on.

A document is the docstring of a public module, class, function or method; its title is the qualified name. A query is the first
sentence of a docstring as one would type it, and its document is relevant; about half of those documents are without that
sentence. Documents with the same first sentence share a query. The questions and judgements of `pydoc` are not used; its
documents are among those of Python.

| from | version | documents |
|---|---|---|
{sources}"""


def main() -> None:
    """Write the collection and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write")
    parser.add_argument(
        "--packages", nargs="*", default=PACKAGES, help="as they are imported; none: the standard library alone"
    )
    parser.add_argument("--most", type=int, default=0, help="documents, drawn by their names; default: all")
    given = parser.parse_args()
    distributions = packages_distributions()
    missing = [name for name in given.packages if name not in distributions]
    installed = [name for name in given.packages if name in distributions]
    versions = {_ORIGIN: platform.python_version()} | {name: version(distributions[name][0]) for name in installed}
    found = [Entry(name, _ORIGIN, text.removeprefix(name)) for name, text in collect()]
    for name in installed:
        found += entries(name)
    chosen = most(documents(found), given.most)
    pairs = write(chosen, versions, given.folder)
    counts = Counter(entry.origin for entry in chosen)
    for name, number in versions.items():
        print(f"{name} {number}: {counts[name]:,} documents")
    if missing:
        print(f"not installed here: {', '.join(missing)}")
    print(f"{given.folder}: {len(chosen):,} documents, {pairs:,} pairs")


if __name__ == "__main__":
    main()
