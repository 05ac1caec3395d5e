"""Queries made from documents, without a language model, and how much of its document each gives away.

A made query is a question, title or heading of a document, or some of its key words. `leak` compares a query with the document
that it was made from. `REAL` has the same figures of queries that people would type, for comparison.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from heapq import nsmallest
from typing import NamedTuple

from lexbench.collecting.documents import Text, one_line
from lexbench.tokenization import analyze

# fmt: off
_STOP = frozenset((
    "the", "a", "an", "of", "and", "or", "to", "in", "for", "on", "with", "is", "are", "be", "as", "by", "at", "from", "this",
    "that", "it", "its", "was", "were", "which", "can", "has", "have", "not", "if", "you", "will", "may", "should", "also",
    "when", "used", "use", "using", "than", "then",
))
# fmt: on
_SHARES = {"question": 0.3, "title": 0.2, "heading": 0.2, "key words": 0.3}  # of queries, if a document allows them
_LONG = 4  # words with more letters are key words
_KEPT = 5  # words of a longer title, heading or question
_SAMPLE = 2000  # documents that queries are made from
_QUESTION = re.compile(r"(?:^|(?<=[.!?]\s))([A-Z][^.!?\n]{10,150}\?)", re.MULTILINE)
_HEADING = re.compile(r"(?:^|\n\n)([A-Z0-9][^\n]{8,80}[^\s.,:;!?])(?=\n\n)")
COPIED = 6  # consecutive words of the document: a query with so many is left out


class MadeQuery(NamedTuple):
    """A query, how it was made, and the document that it was made from."""

    text: str
    kind: str
    text_id: str


class Leak(NamedTuple):
    """How much a query has in common with a document."""

    shared: float  # share of its distinct index terms that the document has
    run: int  # its longest run of consecutive words that stands in the document


REAL = ("pydoc/test", 0.22, 1.2)  # share and run, means over queries and their documents of grade 2 and 3


def leak(query: str, document: str) -> Leak:
    """Return what *query* and *document* have in common."""
    return leaks([query], document)[0]


def leaks(queries: Iterable[str], document: str) -> list[Leak]:
    """Return what each of *queries* has in common with *document*, which is analysed once."""
    known, spaced = set(analyze(document)), f" {' '.join(_words(document))} "
    found = []
    for query in queries:
        terms, words = set(analyze(query)), _words(query)
        run = next((n for n in range(len(words), 0, -1) if any(f" {' '.join(part)} " in spaced for part in _runs(words, n))), 0)
        found.append(Leak(len(terms & known) / max(len(terms), 1), run))
    return found


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _runs(words: Sequence[str], length: int) -> Iterator[Sequence[str]]:
    return (words[at : at + length] for at in range(len(words) - length + 1))


def drawn(documents: Iterable[Text]) -> list[Text]:
    """Return at most 2,000 of *documents*, drawn by their ids."""
    return nsmallest(_SAMPLE, documents, key=lambda text: lot(text.text_id, "drawn"))


def made_queries(texts: Sequence[Text], count: int) -> list[MadeQuery]:
    """Return at most *count* queries, each made from another of *texts*; their ids decide the kinds.

    Words that many documents have are left out of long queries. A text that several documents have is no query.
    """
    frequency = Counter(term for text in texts for term in set(_words(text.whole)))
    candidates = {text.text_id: _candidates(text) for text in texts}
    owners = Counter(one.lower() for found in candidates.values() for one in {text for kind in found.values() for text in kind})
    made: dict[str, MadeQuery] = {}
    for text in texts:
        for kind in ordered(text.text_id, _SHARES):
            unique = [one for one in candidates[text.text_id][kind] if owners[one.lower()] == 1]
            if unique:
                query = _shortened(unique[int(lot(text.text_id, "which") * len(unique))], frequency)
                made.setdefault(query.lower(), MadeQuery(query, kind, text.text_id))
                break
        if len(made) == count:
            break
    return list(made.values())


def _candidates(text: Text) -> Mapping[str, Sequence[str]]:
    """Return possible queries by kind."""
    words = phrase(text)
    found = {
        "question": _QUESTION.findall(text.text),
        "title": [text.title],
        "heading": _HEADING.findall(text.text),
        "key words": [words] if words else [],
    }
    return {kind: [line for one in some if 2 <= len((line := one_line(one)).split()) <= 25] for kind, some in found.items()}  # noqa: PLR2004


def _shortened(query: str, frequency: Mapping[str, int]) -> str:
    """Return *query*, or its five rarest words in their order if it has more."""
    words = query.split()
    if len(words) <= _KEPT:
        return query
    bare = [word.strip("?!.,:;()[]{}\"'`*") for word in words]
    telling = [at for at, word in enumerate(bare) if len(word) > 1 and word.lower() not in _STOP]
    rarity: Callable[[int], int] = lambda at: min((frequency[part] for part in _words(bare[at])), default=0)  # noqa: E731
    return " ".join(bare[at] for at in sorted(sorted(telling, key=rarity)[:_KEPT]))


def phrase(text: Text) -> str | None:
    """Return two to four words of *text*, in a row or from anywhere; None if it has too few."""
    words, number = re.findall(r"[A-Za-z][\w-]+", text.text), 2 + int(lot(text.text_id, "number") * 3)
    telling = [len(word) > _LONG and word.lower() not in _STOP for word in words]
    if number > 2 and lot(text.text_id, "anywhere") < 0.5:  # noqa: PLR2004
        distinct = {word for word, tells in zip(words, telling, strict=True) if tells}
        query = sorted(distinct, key=lambda word: lot(f"{text.text_id} {word}", "word"))[:number]
        return " ".join(query) if len(query) == number else None
    ends = [word.lower() in _STOP for word in words]
    starts = [at for at in range(len(words) - number + 1) if not ends[at] and not ends[at + number - 1]]
    if not starts:
        return None
    scores = {at: sum(telling[at : at + number]) for at in starts}
    best = [at for at in starts if scores[at] == max(scores.values())]
    at = best[int(lot(text.text_id, "phrase") * len(best))]
    return " ".join(words[at : at + number])


def ordered(name: str, shares: Mapping[str, float]) -> list[str]:
    """Return the kinds of *shares*: first the one drawn for *name*, which each kind is with its share, then the others."""
    left, order = lot(name, "kind"), list[str]()
    for kind, share in shares.items():
        order.insert(0 if 0 <= left < share else len(order), kind)
        left -= share
    return order


def lot(name: str, what: str) -> float:
    """Return a number in [0, 1) drawn for *name* and *what*: the same on every machine."""
    return int.from_bytes(sha256(f"{what}\t{name}".encode()).digest()[:8]) / 2**64
