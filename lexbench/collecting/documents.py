"""Documents of a user: a table that lexbench reads, or a folder of text files with one document per file."""

from collections.abc import Iterator
from pathlib import Path

from lexbench.datasets.records import read_records
from lexbench.datasets.sources.files import find_tables
from lexbench.datasets.stated_columns import NONE, Columns
from lexbench.datasets.text_files import ENDINGS, Text, read_texts, text_files
from lexbench.errors import CommandError, MissingData


def read_documents(path: Path, columns: Columns = NONE) -> Iterator[Text]:
    """Yield the documents of a corpus file, of a folder with one, or of a folder of text files.

    *columns* are stated for the tables. Raises MissingData if there are none, and CommandError if there is no table for them.
    """
    tables = [path] if path.is_file() else [file for found in find_tables(path, "documents").values() for file in found]
    if any(file.is_file() for file in tables):  # else its text files are read, those in and beside "docs"
        for text_id, fields in (record for file in tables for record in read_records(file, stated=columns)):
            yield Text(text_id, fields.get("title", ""), fields.get("text") or fields.get("body", ""))
        return
    if columns.stated:
        raise CommandError(f"columns are those of a table, and {path} has none; leave them out, or give the file of the table")
    if not text_files(path):
        raise MissingData(f"{path} has no documents: neither a table, e.g. corpus.csv, nor files {', '.join(ENDINGS)}")
    yield from read_texts(path)
