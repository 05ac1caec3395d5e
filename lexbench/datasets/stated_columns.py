"""Which columns of a user's tables have the ids, texts and grades: known names, names that the user states, and guesses.

A user states {"id": "package", "title": "summary", "text": "description"} for documents, with the prefix "queries." for
queries, and with "qrels." for judgements, whose columns are query, document and grade.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from statistics import fmean

from lexbench.errors import CommandError, echoed
from lexbench.storage.rows import NoColumn, Row
from lexbench.trec.columns import are_numbers
from lexbench.trec.qrels import DOC_IDS, GRADES, QUERY_IDS

IDS = (
    # MS MARCO's passages of 2021 have the docid of their document, too; PyTerrier's documents a docid that it counts.
    *("_id", "id", "doc_id", "doc-id", "pid", "docno", "docid", "document_id", "corpus-id", "corpus_id"),
    *("query-id", "query_id", "qid", "q_id", "topic_id"),
)
TEXTS = ("text", "contents", "content", "body", "passage", "document", "query", "question", "abstract")
_NAMES: Mapping[str, Mapping[str, Sequence[str]]] = {  # what columns of each table are called, the name used inside first
    "documents": {"id": IDS, "title": ("title",), "text": TEXTS, "url": ("url",)},
    "queries": {"id": IDS, "text": TEXTS, "instruction": ("instruction",)},
    "judgements": {"query": QUERY_IDS, "document": DOC_IDS, "grade": GRADES},
}
PREFIXES = {"documents": "", "queries": "queries.", "judgements": "qrels."}
_TYPED = [f"{prefix}{role}" for table, prefix in PREFIXES.items() for role in _NAMES[table]]
_SHORT, _LONG = 64, 512  # characters of an id with spaces and without, e.g. a path
_WORDS = 12  # characters on average, of which a title has more
_LEAST = 2  # rows, of which a guess needs some


@dataclass(frozen=True)
class Columns:
    """What the user states about the columns of one *table*: their names by what they have."""

    table: str = "documents"
    stated: tuple[tuple[str, str], ...] = ()

    def names(self) -> set[str]:
        """Return the stated names in lower case."""
        return {name.lower() for _, name in self.stated}

    def renamed(self, row: Row) -> Row:
        """Return *row* with known names for the stated columns, and without others of these names.

        Raises NoColumn if it lacks a column, and TypeError if a text is none.
        """
        if not self.stated:
            return row
        by_letters = {str(name).lower(): name for name in row}
        if lacking := [repr(name) for _, name in self.stated if name not in row and name.lower() not in by_letters]:
            there = ", ".join(map(str, row))
            raise NoColumn(f"there is no column {' and no '.join(lacking)}; there is: {there}")
        places = {role: name if name in row else by_letters[name.lower()] for role, name in self.stated}
        known = _NAMES[self.table]
        taken = {*places.values(), *(name for role in places for name in known[role])}
        found = {known[role][0]: row[place] for role, place in places.items()}
        for role in {"title", "text", "url", "instruction"} & places.keys():
            if not isinstance(found[known[role][0]], str | int | None):
                kind = type(found[known[role][0]]).__name__
                raise TypeError(f"the column {places[role]!r} has values of type {kind}; a {role} is text")
        return found | {name: value for name, value in row.items() if name not in taken}


NONE = Columns()


def stated_columns(stated: Mapping[str, str]) -> dict[str, Columns]:
    """Return what a user states about the columns of each table. Raises CommandError, with all of them, for unknown names."""
    if unknown := [echoed(role) for role in stated if role not in _TYPED]:
        raise CommandError(f"columns: {', '.join(unknown)} is unknown; there is: {', '.join(_TYPED)}")
    return {
        table: Columns(table, tuple((role, stated[prefix + role]) for role in _NAMES[table] if prefix + role in stated))
        for table, prefix in PREFIXES.items()
    }


def parse_columns(text: str) -> dict[str, str]:
    """Return the columns that are typed as "id=package,text=description". Raises CommandError for anything else."""
    pairs = [part.partition("=") for part in text.split(",")]
    typed = {role.strip(): name.strip() for role, _, name in pairs}
    if len(typed) < len(pairs) or not all(equal and typed[role.strip()] for role, equal, _ in pairs):
        raise CommandError(f"columns {echoed(text)}: write each once, like id=package,title=summary,text=description")
    stated_columns(typed)
    return typed


# ---- guesses ---------------------------------------------------------------------------------------------------------------

_NEEDED = {"documents": ("id", "text"), "queries": ("id", "text"), "judgements": ("query", "document", "grade")}


def advice(said: str, names: Mapping[str, str], samples: Mapping[str, Sequence[Row]], columns: Mapping[str, Columns]) -> str:
    """Return what tables lack besides the one that was *said*, and the columns to type, for the end of an error message.

    *names* are those of the files, *samples* the first rows of each.
    """
    complaints, reasons, typed = list[str](), list[str](), dict[str, str]()
    ids: dict[str, set[str]] = {}
    for table, rows in samples.items():
        lacking, of_ids = _lacking(table, rows, columns[table], titles=table != said)
        found = _guesses(table, rows, ids) if lacking else {}
        lacking = [role for role in lacking if role != "grade" or role in found]
        if of_ids is None:
            of_ids = found.get("id", ("", ""))[0]
        ids[table] = {str(row.get(of_ids)) for row in rows}
        if lacking and table != said:
            there = ", ".join(map(str, rows[0]))
            complaints.append(f"{names[table]} has no column for the {' and the '.join(lacking)}; there is: {there}")
        guessed = {role: found[role] for role in found if role in lacking or role == "title"} if lacking else {}
        reasons += (f"{name} looks like the {role} ({why})" for role, (name, why) in guessed.items())
        typed |= {PREFIXES[table] + role: name for role, (name, _) in guessed.items()}
        typed |= {PREFIXES[table] + role: name for role, name in columns[table].stated if rows and _holds(rows[0], name)}
    advised = f"type: --columns {quote(','.join(f'{role}={name}' for role, name in typed.items()))}" if reasons else ""
    return "".join(f"; {part}" for part in (*complaints, *reasons, advised) if part)


def _holds(row: Row, name: str) -> bool:
    return name.lower() in {str(one).lower() for one in row}


def _lacking(table: str, rows: Sequence[Row], columns: Columns, *, titles: bool) -> tuple[list[str], str | None]:
    """Return what a table lacks, and the name of its column of ids, if it is known. *titles* do as texts."""
    if not rows:
        return [], ""
    stated = {role: name for role, name in columns.stated if _holds(rows[0], name)}

    def known(role: str) -> str | None:
        return stated.get(role) or next((name for name in _NAMES[table].get(role, ()) if name in rows[0]), None)

    enough = titles and table == "documents" and known("title")
    lacking = [role for role in _NEEDED[table] if not known(role) and not (role == "text" and enough)]
    return lacking, known("id") if table != "judgements" else ""


def _may_be_id(text: str) -> bool:
    return 0 < len(text) <= (_SHORT if " " in text else _LONG)


def _guesses(table: str, rows: Sequence[Row], ids: Mapping[str, set[str]]) -> dict[str, tuple[str, str]]:
    """Return the columns of *rows*, the first of a *table*, by what they look like, each with the reason.

    *ids* are those of documents and queries, among which judgements have theirs.
    """
    if len(rows) < _LEAST:
        return {}
    by_name = {str(name): [row.get(name) for row in rows] for name in rows[0]}
    short = {
        name: list(map(str, values))
        for name, values in by_name.items()
        if all(isinstance(value, str | int) and _may_be_id(str(value)) for value in values)
    }
    found: dict[str, tuple[str, str]] = {}
    if table == "judgements":
        for role, part in (("query", "queries"), ("document", "documents")):
            name = next((name for name, values in short.items() if ids.get(part, set()) & set(values)), None)
            if name:
                found[role] = name, f"it has ids of {part}"
                del short[name]
        number = next((name for name, values in short.items() if are_numbers(values)), None)
        return found | ({"grade": (number, "it has numbers")} if number else {})
    unique = next((name for name, values in short.items() if len(set(values)) == len(values)), None)
    if unique:
        found["id"] = unique, f"{len(rows):,} different short values"
    lengths = {
        name: fmean(len(value or "") for value in values)
        for name, values in by_name.items()
        if name != unique and all(isinstance(value, str | None) for value in values)
    }
    longest = sorted(lengths, key=lambda name: -lengths[name])
    if longest:
        found["text"] = longest[0], f"its values have {lengths[longest[0]]:.0f} characters"
    if table == "documents" and len(longest) > 1 and lengths[longest[1]] > _WORDS:
        found["title"] = longest[1], f"{lengths[longest[1]]:.0f} characters"
    return found
