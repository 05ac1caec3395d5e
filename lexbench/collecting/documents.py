"""Documents of a user: a table that lexbench reads, or a folder of text files with one document per file."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from lexbench.datasets.records import read_records
from lexbench.datasets.sources.files import find_tables
from lexbench.datasets.stated_columns import NONE, Columns
from lexbench.errors import CommandError, MissingData, one_line
from lexbench.storage.reading import COMPRESSED, open_file

_HTML = (".html", ".htm")
_ENDINGS = (".txt", ".md", ".rst", *_HTML)
_RULE = re.compile(r"(?m)^([=\-~^*#\"'`])\1{2,}\s*$")  # a line above or under a heading
_MARKED = re.compile(r"(?m)^#{1,6}\s+(.+?)\s*#*$")
_UNDERLINED = re.compile(r"(?m)^(\S.*)\n([=\-~^*#\"'`])\2{2,}\s*$")


class Text(NamedTuple):
    """A document with its title, which may be empty. Paragraphs of the text are separated by empty lines."""

    text_id: str
    title: str
    text: str

    @property
    def whole(self) -> str:
        """Title and text, as BEIR joins them."""
        return f"{self.title} {self.text}".strip()


def read_documents(path: Path, columns: Columns = NONE) -> Iterator[Text]:
    """Yield the documents of a corpus file, of a folder with one, or of a folder of text files.

    *columns* are stated for the tables. Raises MissingData if there are none, and CommandError if there is no table for them.
    """
    tables = [path] if path.is_file() else [file for found in find_tables(path, "documents").values() for file in found]
    if tables and (path.is_file() or not any(map(_format, tables))):  # a folder "docs" may be one of text files
        for text_id, fields in (record for file in tables for record in read_records(file, stated=columns)):
            yield Text(text_id, fields.get("title", ""), fields.get("text") or fields.get("body", ""))
        return
    if columns.stated:
        raise CommandError(f"columns are those of a table, and {path} has none; leave them out, or give the file of the table")
    every = [file for file in sorted(path.rglob("*")) if _format(file) and file.is_file()]
    files = [file for file in every if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    if not files:
        raise MissingData(f"{path} has no documents: neither a table, e.g. corpus.csv, nor files {', '.join(_ENDINGS)}")
    seen: set[str] = set()
    for file in files:
        text_id = "_".join(str(file.relative_to(path)).split()).lstrip("#")
        while text_id in seen:  # names that differed in white space only
            text_id += "_"
        seen.add(text_id)
        with open_file(file) as opened:
            content = opened.read().decode(errors="replace").replace("\r\n", "\n").removeprefix("\ufeff")
        title, text = _read_html(content) if _format(file) in _HTML else _read_plain_text(content)
        yield Text(text_id, title or re.sub(r"[\s_-]+", " ", file.name.partition(".")[0]), text)


def _format(file: Path) -> str:
    """Return the ending of a text file without that of its compression, "" for other files."""
    suffixes = [suffix for suffix in file.suffixes if suffix not in COMPRESSED][-1:]
    return suffixes[0].lower() if suffixes and suffixes[0].lower() in _ENDINGS else ""


def _read_plain_text(content: str) -> tuple[str, str]:
    """Return title and text of plain text, Markdown or reStructuredText: its first heading, and headings as paragraphs."""
    found = [match for pattern in (_MARKED, _UNDERLINED) if (match := pattern.search(content))]
    title = one_line(min(found, key=lambda match: match.start())[1]) if found else ""
    text = _UNDERLINED.sub(r"\n\1\n", _MARKED.sub(r"\n\1\n", content))
    return title, re.sub(r"\n\s*\n", "\n\n", _RULE.sub("", text)).strip().removeprefix(title).lstrip()


def _read_html(content: str) -> tuple[str, str]:
    """Return the first heading of a page and its text, with headings as paragraphs."""
    page = HtmlPage()
    page.feed(content)
    parts = (one_line(part) for heading, paragraphs in page.sections for part in (heading, *paragraphs))
    title = next((heading for heading, _ in page.sections if heading), "")
    return title, "\n\n".join(part for part in parts if part).removeprefix(title).lstrip()


class HtmlPage(HTMLParser):
    """The headings of an HTML page with the paragraphs under each."""

    _SKIPPED = frozenset({"title", "script", "style", "nav", "head", "footer", "header", "form", "svg"})
    _ASIDE = frozenset({"sphinxsidebar", "related", "headerlink", "navheader", "navfooter", "toc"})  # classes
    _BREAKS = frozenset({"p", "li", "dt", "dd", "pre", "div", "tr", "table", "blockquote", "section"})
    _HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5"})

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[tuple[str, list[str]]] = [("", [""])]
        self._skipping: list[str] = []
        self._heading: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Start a skipped element, a heading or a paragraph."""
        if tag in self._SKIPPED or dict(attrs).get("class") in self._ASIDE or tag in self._skipping[-1:]:
            self._skipping.append(tag)
        elif tag in self._HEADINGS:
            self._heading = ""
        elif tag in self._BREAKS:
            self.sections[-1][1].append("")

    def handle_endtag(self, tag: str) -> None:
        """End a skipped element or a heading."""
        if tag in self._skipping[-1:]:
            self._skipping.pop()
        elif tag in self._HEADINGS and self._heading is not None:
            self.sections.append((one_line(self._heading).strip("¶ "), [""]))
            self._heading = None

    def handle_data(self, data: str) -> None:
        """Add to the heading, or to the paragraph."""
        if self._skipping:
            return
        if self._heading is None:
            self.sections[-1][1][-1] += data
        else:
            self._heading += data
