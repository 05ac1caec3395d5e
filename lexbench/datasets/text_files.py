"""Folders of text files, with one document per file: plain text, Markdown, reStructuredText and HTML."""

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from lexbench.errors import one_line
from lexbench.storage.reading import COMPRESSED
from lexbench.storage.rows import text_lines

_HTML = (".html", ".htm")
ENDINGS = (".txt", ".md", ".rst", *_HTML)
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


def visible_files(folder: Path) -> Iterator[Path]:
    """Yield the files in and below *folder*, without those whose name, or folder, begins with a dot."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place, name) for name in names if not name.startswith("."))


def text_files(folder: Path) -> list[Path]:
    """Return the visible text files in and below *folder*, by name."""
    return sorted(filter(text_ending, visible_files(folder)))


def read_texts(folder: Path) -> Iterator[Text]:
    """Yield a document for each text file of *folder*, by name. Its id is the path of the file there.

    Raises InvalidFile for a file that is not UTF-8.
    """
    seen: set[str] = set()
    for file in text_files(folder):
        text_id = "_".join(str(file.relative_to(folder)).split()).lstrip("#")
        while text_id in seen:  # names that differed in white space only
            text_id += "_"
        seen.add(text_id)
        content = "\n".join(line for _, line in text_lines(file))
        title, text = _read_html(content) if text_ending(file) in _HTML else _read_plain_text(content)
        yield Text(text_id, title or re.sub(r"[\s_-]+", " ", file.name.partition(".")[0]), text)


def text_ending(file: Path) -> str:
    """Return the ending of a text file without that of its compression, "" for other files."""
    suffixes = [suffix for suffix in file.suffixes if suffix not in COMPRESSED][-1:]
    return suffixes[0].lower() if suffixes and suffixes[0].lower() in ENDINGS else ""


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
