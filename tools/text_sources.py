"""Readers of training texts: collections, docstrings, and descriptions, manuals and dictionaries of Debian packages.

Used by `training_texts.py`. A reader yields texts with titles; long sections are split.
"""

import ast
import gzip
import json
import re
import subprocess
import tokenize
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from lexbench.contracts import contract_of
from lexbench.datasets.location import find_source
from lexbench.datasets.text_files import HtmlPage, Text
from lexbench.errors import one_line

_FEWEST_WORDS = 4  # of a docstring; shorter ones explain nothing
LONGEST = 240  # words of a text; longer sections are split between paragraphs
_PART = 170  # words after which a part of a long section ends

# fmt: off
PACKAGES = (  # modules of packages in constraints.txt with more than 200 docstrings
    "anyio", "authlib", "beartype", "bs4", "cyclopts", "Cython", "datasets", "distlib", "dns", "fastmcp", "flask",
    "fontTools", "fsspec", "httpx2", "huggingface_hub", "hypothesis", "jinja2", "key_value", "llvmlite", "matplotlib",
    "mcp", "mcp_types", "mpmath", "mypy", "mypyc", "narwhals", "networkx", "numba", "numpy", "onnxruntime", "openai",
    "pandas", "PIL", "platformdirs", "pydantic", "pygments", "pyparsing", "pyterrier", "rich", "scipy",
    "sentence_transformers", "sklearn", "statsmodels", "sympy", "torch", "transformers", "virtualenv", "websockets",
    "werkzeug",
)
_SKIPPED = {  # parts of module names: tests, and copies of other packages
    "benchmarks", "conftest", "dummy_pt_objects", "examples", "extern", "externals", "_external", "_internal", "test", "tests",
    "_testing", "third_party", "_third_party", "vendor", "vendored", "_vendor", "_vendored", "_extern",
}
# fmt: on
_ORIGIN = "Python"  # the name of the standard library
_RULE = re.compile(r"[-=~^]{3,}")  # a line under a heading
_UNTOLD_HEADINGS = {"SEE ALSO", "AUTHOR", "AUTHORS", "COLOPHON", "COPYRIGHT", "STANDARDS", "VERSIONS", "SYNOPSIS"}
_REQUESTS = (
    "nf fi RS RE in ad ft ie el if de ds nr TH so ne hy nh TS TE EX EE UE UR ta ti ce na tr rm SY YS OP PD HP"  # of roff
)
_LANGUAGES = "ar ca cs da de el es fa fr hr hu id it ja ko nb nl pl pt ro ru sv tr vi zh"
_NO_PAGE = re.compile(
    rf"\.({'|'.join(_LANGUAGES.split())}|pt-br|zh-cn)(\.|$)|/({'|'.join(_LANGUAGES.split())})[-_A-Za-z]{{0,5}}/"
    r"|genindex|search\.html|/_modules/"
)
_LARGEST = 3_000_000  # bytes of a page
_NUMBERED = re.compile(r"^(?:Chapter |Appendix )?[\dA-Z]?[\d.]*\.?\s+")
_SOURCE_MARKS = re.compile(
    r"\[(?:1913 Webster|PJC|WordNet [\d.]+|Webster 1913 Suppl\.|Century Dict\.[^]]*)(?: \+[^]]*)?\]"
    r"|\\[^\\\n]{1,40}\\|[{}]|<[^>]*>"  # pronunciation, links, mark-up
)
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class Entry(NamedTuple):
    """A docstring, its qualified name, and the package that it belongs to."""

    name: str
    origin: str
    doc: str


def sections(name: str, title: str, paragraphs: Iterable[str]) -> Iterator[Text]:
    """Yield a section as one text, or several if it is long, split between paragraphs."""
    lines = [line for paragraph in paragraphs if (line := one_line(paragraph))]
    part: list[str] = []
    words = number = 0
    whole = sum(len(line.split()) for line in lines) <= LONGEST
    for line in lines:
        count = len(line.split())
        if part and not whole and (words >= _PART or words + count > LONGEST):
            yield Text(f"{name}#{number}", title, " ".join(part))
            part, words, number = [], 0, number + 1
        part.append(line)
        words += count
    if part:
        yield Text(f"{name}#{number}" if number else name, title, " ".join(part))


def beir_lines(lines: Iterable[str]) -> Iterator[Text]:
    """Yield the documents of a BEIR corpus."""
    for line in lines:
        row = json.loads(line)
        yield Text(row["_id"], one_line(row.get("title", "")), one_line(row["text"]))


def beir_zip(path: Path, name: str) -> Iterator[Text]:
    """Yield the documents in the official zip of a BEIR set. Its other files are not read."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}/corpus.jsonl") as file:
        yield from beir_lines(line.decode() for line in file)


def beir_corpus(path: Path, judged: Iterable[Path]) -> Iterator[Text]:
    """Yield the documents of a compressed corpus that are in none of the compressed qrels *judged*."""
    left_out: set[str] = set()
    for qrels in judged:
        with gzip.open(qrels, "rt", encoding="utf-8") as file:
            left_out |= {line.split()[2] for line in file}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from (text for text in beir_lines(file) if text.text_id not in left_out)


def docstrings() -> Iterator[Text]:
    """Yield the docstrings of the standard library, which are pydoc's documents, and of the installed packages."""
    documents = find_source(contract_of("pydoc/test")).documents()
    entries = [Entry(one.doc_id, _ORIGIN, one.text.removeprefix(one.doc_id)) for one in documents]
    for package in PACKAGES:
        entries += package_docstrings(package)
    for entry in distinct(entries):
        yield from sections(entry.name, entry.name, [without_rules(part) for part in re.split(r"\n\s*\n", entry.doc)])


def package_docstrings(package: str) -> Iterator[Entry]:
    """Yield the docstrings of an installed package, in the order of its files. Nothing is imported."""
    spec = find_spec(package)  # imports nothing, because the name has no dot
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
    """Yield qualified names and docstrings of a file; nothing if it is not Python."""
    try:
        with tokenize.open(path) as file, warnings.catch_warnings(action="ignore"):
            tree = ast.parse(file.read())
    except (SyntaxError, UnicodeDecodeError, ValueError):  # templates and test data
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


def distinct(found: Iterable[Entry]) -> list[Entry]:
    """Return the docstrings with enough words, by name, without duplicates: the standard library and short names win."""
    names: dict[str, Entry] = {}
    bodies: dict[str, Entry] = {}
    for entry in sorted(found, key=lambda entry: (entry.origin != _ORIGIN, len(entry.name), entry.name)):
        body = without_rules(entry.doc)
        if entry.name not in names and body not in bodies and len(body.split()) >= _FEWEST_WORDS:
            names[entry.name] = bodies[body] = entry
    return sorted(names.values())


def without_rules(doc: str) -> str:
    """Return a docstring on one line, without the lines under headings."""
    lines = (line.strip() for line in doc.splitlines())
    return " ".join(" ".join(line for line in lines if not _RULE.fullmatch(line)).split())


class Debian:
    """apt with its own lists and cache in a folder: nothing is installed, and the system's apt does not change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        for name in ("lists/partial", "cache/archives/partial", "debs", "unpacked"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        self._options = (
            "-qoAcquire::Languages=en",
            f"-oDir::State::lists={self._folder}/lists",
            f"-oDir::Cache={self._folder}/cache",
        )

    def lists(self) -> list[Path]:
        """Return the files with the English descriptions of all packages, fetched once."""
        pattern = "lists/*_main_i18n_Translation-en*"
        if not list(self._folder.glob(pattern)):
            subprocess.run(["apt-get", *self._options, "update"], check=True, capture_output=True)
        return sorted(self._folder.glob(pattern))

    def package(self, name: str) -> tuple[Path, Path]:
        """Return a package's file, fetched once and checked by apt, and the folder with what is in it."""
        debs, unpacked = self._folder / "debs", self._folder / "unpacked" / name
        if not list(debs.glob(f"{name}_*.deb")):
            subprocess.run(["apt-get", *self._options, "download", name], check=True, cwd=debs, capture_output=True)
        file = max(debs.glob(f"{name}_*.deb"))
        if not unpacked.exists():
            subprocess.run(["dpkg-deb", "-x", str(file), str(unpacked)], check=True)
        return file, unpacked


def descriptions(lists: Iterable[Path]) -> Iterator[Text]:
    """Yield descriptions of packages: name and synopsis are the title."""
    stanza = re.compile(r"Package: (\S+)\nDescription-md5: \S+\nDescription-en: (.*)\n((?: .*\n?)*)")
    for path in lists:
        command = ["/usr/lib/apt/apt-helper", "cat-file", str(path)]
        stanzas = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for package, synopsis, long in stanza.findall(stanzas):
            paragraphs = re.sub(r"(?m)^ ", "", long).replace("\n.\n", "\n\n").split("\n\n")
            bare = [re.sub(r"(?m)^\s*[*-] ", "", paragraph) for paragraph in paragraphs]
            yield from sections(package, f"{package}: {synopsis}", bare)


def man_pages(root: Path) -> Iterator[Text]:
    """Yield sections of manual pages; the title is the page and what it is about, or the page and the heading."""
    for path in sorted(root.glob("usr/share/man/man*/*.gz")):
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            roff = file.read()
        page, about = path.name.removesuffix(".gz"), ""
        name = page.rpartition(".")[0]
        for number, section in enumerate(re.split(r"(?m)^\.S[HS]\s+", roff)[1:]):
            line, _, body = section.partition("\n")
            heading = plain_roff(line).strip('" ')
            paragraphs = [plain_roff(part) for part in re.split(r"(?m)^\.(?:PP|P|LP|TP|IP|sp|br)\b.*\n|\n\s*\n", body)]
            if heading.upper() == "NAME":
                about = re.sub(r"^.*? \\?-+ ", "", one_line(" ".join(paragraphs)))
            elif heading.upper() not in _UNTOLD_HEADINGS:
                title = f"{name} - {about}" if heading.upper() == "DESCRIPTION" else f"{name} {heading.lower()}"
                yield from sections(f"{page}/{number}", title, paragraphs)


def plain_roff(text: str) -> str:
    """Return roff without its requests, macros and escapes."""
    text = re.sub(rf'(?m)^[.\'](?:\\"|\s*(?:{"|".join(_REQUESTS.split())})\b).*$', "", text)
    text = re.sub(r"(?m)^\.(?:[BIR]{1,2}|SM|SB)\s+(.*)$", lambda macro: macro[1].replace('"', ""), text)
    text = re.sub(r"(?m)^[.'].*$", "", text)
    text = re.sub(r"\\f(?:\[\w*\]|\(..|.)|\\[&|^%/,:]|\\s[+-]?\d", "", text)
    text = re.sub(r"\\\((?:bu|em|en)", "-", text)
    for escape, plain in (("\\-", "-"), ("\\e", "\\"), ("\\(aq", "'"), ("\\ ", " ")):
        text = text.replace(escape, plain)
    return re.sub(r"\\(?:\(..|\[[^]]*\]|.)", "", text)


def html_manual(root: Path) -> Iterator[Text]:
    """Yield sections of a manual's English pages; the title is the page's first heading and the section's own."""
    for path in sorted(page for pattern in ("*.html", "*.htm", "*.html.gz") for page in root.rglob(pattern)):
        name = str(path.relative_to(root))
        if _NO_PAGE.search(name) or path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
            continue
        content = path.read_bytes()
        page = HtmlPage()
        page.feed((gzip.decompress(content) if path.suffix == ".gz" else content).decode(errors="replace"))
        first = next((heading for heading, _ in page.sections if heading), "")
        for number, (heading, paragraphs) in enumerate(page.sections):
            bare = _NUMBERED.sub("", heading)
            title = bare if bare in first or first in bare else f"{first}: {bare}"
            yield from sections(f"{name}/{number}", title, paragraphs) if bare else ()


def dictionary(root: Path) -> Iterator[Text]:
    """Yield entries of dictionaries in dictd's format: the headword is the title."""
    for index in sorted(root.glob("usr/share/dictd/*.index")):
        content = gzip.decompress(index.with_suffix(".dict.dz").read_bytes())
        entries: dict[tuple[int, int], str] = {}
        for line in index.read_text(encoding="utf-8", errors="replace").splitlines():
            word, offset, length = line.split("\t")[:3]
            if not word.startswith("00-database"):
                entries.setdefault((_number(offset), _number(length)), word)
        for (start, size), word in entries.items():
            entry = _SOURCE_MARKS.sub(" ", content[start : start + size].decode(errors="replace"))
            first, _, rest = entry.partition("\n")
            yield from sections(f"{index.stem}/{start}", word, re.split(r"\n\s*\n", rest if rest.strip() else first))


def _number(text: str) -> int:
    """Return a number that dictd wrote: digits of base 64, the first one the highest."""
    value = 0
    for digit in text:
        value = value * 64 + _BASE64.index(digit)
    return value
