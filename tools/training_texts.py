"""Gather training texts of many kinds, with queries made from them, from public packages and given collections.

    python tools/training_texts.py FOLDER [--shared ../shared/data] [--most 40000] [--without-collections]

writes a BEIR folder for each kind (FOLDER/manuals: corpus.jsonl, queries.jsonl, qrels/train.tsv) and sources.json: the origin,
licence and number of texts of each source, and SHA-256 digests of the files read and written. apt fetches Debian packages into
FOLDER/debian without installing them. Of collections only the documents are read.

A query is made from a text that is relevant to it: its title, a sentence (every second one with half of its words), or one
half; the text then loses that part. Other queries are phrases or key words of a text, which stays whole.

Imitation learns queries as texts. So FOLDER/queries has the queries of all kinds as documents, and FOLDER/questions has the
training queries of MS MARCO.
"""

import argparse
import gzip
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import text_sources
from text_sources import Debian

from lexbench.collecting.made_queries import STOP, kinds_in_order
from lexbench.datasets.digests import drawn_number
from lexbench.datasets.text_files import Text
from lexbench.errors import one_line
from lexbench.storage.atomic import write_text

# fmt: off
MANUALS = (
    "python3.11-doc", "linux-doc-6.1", "postgresql-doc-15", "apache2-doc", "debian-policy", "debian-reference-en",
    "developers-reference", "maint-guide", "r-doc-html", "octave-doc", "maxima-doc", "gap-doc", "sqlite3-doc",
    "postfix-doc", "exim4-doc-html", "ffmpeg-doc", "git-doc", "gnuplot-doc", "python-scipy-doc", "wireshark-doc",
    "imagemagick-6-doc", "aptitude-doc-en",
)
MAN_PAGES = ("manpages", "manpages-dev", "perl-doc", "systemd", "iproute2", "nftables", "cups-client", "qemu-system-common")
DICTIONARIES = ("dict-gcide", "dict-wn", "dict-foldoc", "dict-jargon", "dict-elements", "dict-devil")
# fmt: on
FEWEST, FEWEST_IN_DICTIONARIES = 8, 14  # fewest words of a text
_LETTERS = 0.75  # share of a text's characters that are letters or spaces
_LEFT = 8  # fewest words of a text without its query
_SHARES = {"title": 0.35, "sentence": 0.30, "half": 0.15, "phrase": 0.20}  # of queries, if a text allows them
_LONG = 4  # words with more letters are key words
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z(\"'])")


class Source(NamedTuple):
    """The origin and licence of texts."""

    kind: str  # the folder that they are written into
    name: str
    licence: str
    files: tuple[Path, ...]  # that are read
    read: Callable[[], Iterator[Text]]


class Pair(NamedTuple):
    """A query, and its text without the part that the query is made from."""

    query: str
    rest: str


def sources(folder: Path, shared: Path | None) -> Iterator[Source]:
    """Yield all sources. A package is fetched before it is yielded."""
    if shared is not None:
        for name, licence in (("scifact", "CC BY-NC 2.0"), ("nfcorpus", "for academic use")):
            path = shared / "ir_datasets_home" / "beir" / name / "source.zip"
            yield Source(name, f"documents of BEIR's {name}", licence, (path,), partial(text_sources.beir_zip, path, name))
        # Passages that are judged for TREC DL 2019 or 2020 are left out, so that both are tests on unseen passages.
        path = shared / "msmarco" / "passage-sample" / "corpus.jsonl.gz"
        judged = [shared / "msmarco" / f"qrels.dl{year}-passage.txt.gz" for year in (19, 20)]
        passages = partial(text_sources.beir_corpus, path, judged)
        yield Source("passages", "MS MARCO passages", "for research", (path, *judged), passages)
    python = f"Python {sys.version.split()[0]} and installed packages"
    yield Source("docstrings", python, "each package's own", (), text_sources.docstrings)
    debian = Debian(folder / "debian")
    lists = debian.lists()
    free = "free by Debian's guidelines"
    yield Source(
        "descriptions", "descriptions of Debian's packages", free, (*lists,), partial(text_sources.descriptions, lists)
    )
    readers = (
        ("man-pages", MAN_PAGES, text_sources.man_pages),
        ("manuals", MANUALS, text_sources.html_manual),
        ("dictionaries", DICTIONARIES, text_sources.dictionary),
    )
    for kind, packages, reader in readers:
        for package in packages:
            file, root = debian.package(package)
            licence = f"{free}; usr/share/doc/{package}/copyright in it"
            yield Source(kind, file.name, licence, (file,), partial(reader, root))


def fit(texts: Iterable[Text], seen: set[str], fewest: int) -> Iterator[Text]:
    """Yield distinct texts with enough words that are mostly letters. Their digests are added to *seen*."""
    for text in texts:
        letters = sum(character.isalpha() or character == " " for character in text.text)
        key = hashlib.sha256(text.text.lower().encode()).hexdigest()
        is_prose = letters > _LETTERS * len(text.text) and "\ufffd" not in text.text
        if len(text.text.split()) >= fewest and is_prose and key not in seen:
            seen.add(key)
            yield text


def pair(kind: str, text: Text) -> Pair | None:
    """Return a query made from *text*; its id decides the kind of query. Return None if no kind is possible."""
    makers: dict[str, Callable[[Text], Pair | None]] = {
        "title": partial(_title, kind),
        "sentence": _sentence,
        "half": _half,
        "phrase": _phrase,
    }
    pairs = (makers[name](text) for name in kinds_in_order(text.text_id, _SHARES))
    return next((Pair(one_line(pair.query), one_line(pair.rest)) for pair in pairs if pair and _is_left(pair.rest)), None)


def _is_left(rest: str) -> bool:
    return len(rest.split()) >= _LEFT


def _title(kind: str, text: Text) -> Pair | None:
    """Return the title of a text, or a docstring's first sentence, and the text without it."""
    title, rest = text.title, text.text
    if kind == "docstrings":
        title = re.split(r"\.(?=\s|$)", text.text, maxsplit=1)[0]
        rest = f"{text.title} {text.text[len(title) + 1 :]}"
    elif kind == "descriptions":
        package, _, title = text.title.partition(": ")
        rest = f"{package} {text.text}"
    elif kind == "man-pages":
        title = text.title.partition(" - ")[2] or text.title
    elif kind == "manuals":
        last = text.title.rpartition(": ")[2]
        title = last if len(last.split()) > 2 else text.title.replace(": ", " ")  # noqa: PLR2004 - "Options", "See also"
    fewest, most = (1, 20) if kind == "dictionaries" else (3, 30)
    return Pair(title, rest) if fewest <= len(title.split()) <= most else None


def _sentence(text: Text) -> Pair | None:
    """Return a sentence, or half of its words for every second text; most texts lose it."""
    sentences = [part for part in _SENTENCE.split(text.text) if 4 <= len(part.split()) <= 40]  # noqa: PLR2004 - words
    if len(sentences) < 2:  # noqa: PLR2004 - one is left
        return None
    sentence = sentences[int(drawn_number(text.text_id, "which") * len(sentences))]
    words = sentence.split()
    if drawn_number(text.text_id, "halved") < 0.5:  # noqa: PLR2004
        words = [word for number, word in enumerate(words) if drawn_number(f"{text.text_id} {number}", "kept") < 0.5]  # noqa: PLR2004
    hidden = drawn_number(text.text_id, "hidden") < 0.7  # noqa: PLR2004
    rest = text.whole.replace(sentence, " ", 1) if hidden else text.whole
    return Pair(" ".join(words), rest) if len(words) > 2 else None  # noqa: PLR2004


def _half(text: Text) -> Pair | None:
    """Return one half of a text of at least 50 words, and the other with the title."""
    words = text.text.split()
    if len(words) < 50:  # noqa: PLR2004
        return None
    halves = [" ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])]
    query, rest = halves if drawn_number(text.text_id, "side") < 0.5 else halves[::-1]  # noqa: PLR2004
    return Pair(query, f"{text.title} {rest}")


def _phrase(text: Text) -> Pair | None:
    """Return two to four words of a text, in a row or from anywhere."""
    words, number = re.findall(r"[A-Za-z][\w-]+", text.text), 2 + int(drawn_number(text.text_id, "number") * 3)
    telling = [len(word) > _LONG and word.lower() not in STOP for word in words]
    if number > 2 and drawn_number(text.text_id, "anywhere") < 0.5:  # noqa: PLR2004
        distinct = {word for word, tells in zip(words, telling, strict=True) if tells}
        query = sorted(distinct, key=lambda word: drawn_number(f"{text.text_id} {word}", "word"))[:number]
        return Pair(" ".join(query), text.whole) if len(query) == number else None
    ends = [word.lower() in STOP for word in words]
    starts = [at for at in range(len(words) - number + 1) if not ends[at] and not ends[at + number - 1]]
    if not starts:
        return None
    scores = {at: sum(telling[at : at + number]) for at in starts}
    best = [at for at in starts if scores[at] == max(scores.values())]
    at = best[int(drawn_number(text.text_id, "phrase") * len(best))]
    return Pair(" ".join(words[at : at + number]), text.whole)


def write(folder: Path, kind: str, texts: Mapping[str, Text]) -> tuple[list[str], str]:
    """Write the texts of a kind as a BEIR folder; return its queries and the digest of its files."""
    pairs = {text_id: drawn for text_id, text in texts.items() if (drawn := pair(kind, text))}
    corpus = [
        {"_id": text_id, "text": pairs[text_id].rest if text_id in pairs else text.whole} for text_id, text in texts.items()
    ]
    queries = [{"_id": f"q:{text_id}", "text": drawn.query} for text_id, drawn in pairs.items()]
    qrels = ["query-id\tcorpus-id\tscore", *(f"q:{text_id}\t{text_id}\t1" for text_id in pairs)]
    files = {
        "corpus.jsonl": "".join(json.dumps(row) + "\n" for row in corpus),
        "queries.jsonl": "".join(json.dumps(row) + "\n" for row in queries),
        "qrels/train.tsv": "\n".join(qrels) + "\n",
    }
    return [drawn.query for drawn in pairs.values()], _write_files(folder / kind, files)


def write_as_documents(folder: Path, kind: str, texts: Iterable[str]) -> str:
    """Write *texts*, without those that occur before, as the corpus of a BEIR folder; return its digest."""
    distinct = dict.fromkeys(map(one_line, texts))
    rows = (json.dumps({"_id": f"{number}", "text": text}) + "\n" for number, text in enumerate(distinct))
    return _write_files(folder / kind, {"corpus.jsonl": "".join(rows)})


def _write_files(folder: Path, files: Mapping[str, str]) -> str:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_text(folder / name, content)
    return hashlib.sha256("".join(files.values()).encode()).hexdigest()


def main() -> None:
    """Write the folders and print their content."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write")
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"), help="the folder with the collections")
    parser.add_argument("--most", type=int, default=0, help="texts per kind, drawn by their ids; default: all")
    parser.add_argument("--without-collections", action="store_true", help="leave out the documents of collections")
    arguments = parser.parse_args()
    kinds: dict[str, dict[str, Text]] = {}
    facts: dict[str, dict[str, object]] = {}
    seen: set[str] = set()
    for source in sources(arguments.folder, None if arguments.without_collections else arguments.shared):
        fewest = FEWEST_IN_DICTIONARIES if source.kind == "dictionaries" else FEWEST
        named = {f"{source.name}/{text.text_id}": text for text in fit(source.read(), seen, fewest)}
        texts = kinds.setdefault(source.kind, {})
        texts |= {f"{len(texts) + number}": named[name]._replace(text_id=name) for number, name in enumerate(named)}
        read = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in source.files}
        facts[source.name] = {"kind": source.kind, "licence": source.licence, "texts": len(named), "sha256": read}
        print(f"{source.kind}: {source.name}: {len(named):,} texts", flush=True)
    written, made = {}, []
    for kind, texts in kinds.items():
        drawn = sorted(texts, key=lambda number: drawn_number(texts[number].text_id, "drawn"))[: arguments.most or None]
        queries, digest = write(arguments.folder, kind, {number: texts[number] for number in sorted(drawn, key=int)})
        made += queries
        written[kind] = {"texts": len(drawn), "of": len(texts), "queries": len(queries), "sha256": digest}
        print(f"{arguments.folder / kind}: {len(drawn):,} texts, {len(queries):,} queries", flush=True)
    written["queries"] = {"texts": len(made), "sha256": write_as_documents(arguments.folder, "queries", made)}
    if not arguments.without_collections:
        path = arguments.shared / "development" / "msmarco_train_queries" / "queries.tsv.gz"
        with gzip.open(path, "rt", encoding="utf-8") as file:
            asked = [line.rstrip("\n").partition("\t")[2] for line in file]
        digest = write_as_documents(arguments.folder, "questions", asked)
        written["questions"] = {"texts": len(asked), "licence": "for research", "sha256": digest}
    write_text(arguments.folder / "sources.json", json.dumps({"kinds": written, "sources": facts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
