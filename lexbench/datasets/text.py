"""How the fields of a document become the one text that retrievers see.

This is done once, when a corpus is read, by the contract's policy. What is kept of the title is where the body starts, for
encoders that put something of their own between the two.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from lexbench.types import Document

Fields = Mapping[str, str]  # `text`, `title`, `url`, `body`, as far as the collection has them
Policy = Literal["text", "title_text", "title_line_text", "url_title_body"]


def text(fields: Fields) -> str:
    """Return the text alone, whatever title there is."""
    return fields["text"]


def title_text(fields: Fields) -> str:
    """Return title and text with a space between, as BEIR and Pyserini's "flat" indexes do."""
    return f"{fields.get('title', '')} {fields['text']}".strip()


def title_line_text(fields: Fields) -> str:
    """Return the title on a line of its own, then the text: to words the same as a space, and it can be told apart again."""
    title = fields.get("title", "")
    return f"{title}\n{fields['text']}" if title else fields["text"]


def url_title_body(fields: Fields) -> str:
    """Return URL, title and body on lines of their own, as the TREC file that Anserini indexes has them."""
    return f"{fields.get('url', '')}\n{fields.get('title', '')}\n{fields['body']}"


POLICIES: Mapping[Policy, Callable[[Fields], str]] = {
    "text": text,
    "title_text": title_text,
    "title_line_text": title_line_text,
    "url_title_body": url_title_body,
}

_BODIES: Mapping[Policy, str] = {
    "title_text": "text",
    "title_line_text": "text",
    "url_title_body": "body",
}  # of those with titles


def document(doc_id: str, fields: Fields, policy: Policy) -> Document:
    """Return a document, its fields joined by *policy*; KeyError for a field that the collection does not have."""
    joined = POLICIES[policy](fields)
    if policy not in _BODIES or not fields.get("title", "").strip():
        return Document(doc_id, joined)
    body = fields[_BODIES[policy]]
    kept = body if joined.endswith(body) else body.rstrip()  # a policy may strip the end
    return Document(doc_id, joined, len(joined) - len(kept))
