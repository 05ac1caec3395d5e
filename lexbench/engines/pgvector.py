"""PostgreSQL with pgvector: dense and sparse vectors in a table; and tables that others built.

Vectors are loaded by COPY in blocks of one transaction each, so an interrupted build goes on with the first missing block.
"""

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from threading import Condition
from typing import Any, ClassVar, NamedTuple, Self, TypeVar
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit
from weakref import finalize

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.arrays.vectors import canonical
from lexbench.engines.kernels.checks import all_finite, fill, no_hits, one_width, same_width
from lexbench.errors import CannotStart, CommandError, LexbenchError, one_line, require, shortened, visible
from lexbench.outside.running import SIMILARITIES, check_there, csr_rows, kept_name, own_name
from lexbench.plugins import Engine, Index, RunningIndex
from lexbench.registry import at_search
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import write_server_bytes
from lexbench.types import Hits, Kind

T = TypeVar("T")

_FACTS = "table.json"
_ROWS = 1000  # of a block
_WAITS = (0.5, 1, 2, 4, 8, 16)  # seconds, while the server is away: it may be restarting
_CONNECTIONS = 32  # of a probe at a time; PostgreSQL allows 100 by default
_OPERATORS = {"dot": "<#>", "cosine": "<=>", "l2": "<->"}
_FORMATS = {"full": "vector", "half": "halfvec", "bit": "bit"}  # of dense vectors
_USED = {
    "exact": (),
    "hnsw": ("m", "ef_construction", "ef_search", "iterative_scan"),
    "ivfflat": ("lists", "probes", "iterative_scan"),
}
_SCANS = ("off", "strict_order", "relaxed_order")
_TYPE = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass(%s)"
_INDEX = """
SELECT am.amname, c.opcname
FROM pg_index i
JOIN pg_class k ON k.oid = i.indexrelid
JOIN pg_am am ON am.oid = k.relam
JOIN pg_opclass c ON c.oid = i.indclass[0]
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = to_regclass(%s) AND a.attname = %s AND am.amname IN ('hnsw', 'ivfflat', 'diskann')
ORDER BY 1
"""
_AWAY = ("08", "57P")  # classes of errors of a server that went away


@dataclass(frozen=True)
class Pgvector(Engine):
    """A table of the database at *url*. A password is read from PGPASSWORD or ~/.pgpass.

    *index* is "exact" (every vector is read), "hnsw" (a graph with *m* and *ef_construction*) or "ivfflat" (*lists*).
    Sparse vectors take "exact" and "hnsw". A search with an index looks at *ef_search* candidates or *probes* lists. With
    *iterative_scan* "strict_order" or "relaxed_order" (pgvector 0.8) it goes on until the list is full. With "off",
    hnsw refuses to find more than *ef_search* documents. *storage* of dense vectors is "full" (float32), "half" (float16), or
    "bit" (the sign of each dimension; scores are products of signs).
    """

    url: str = "postgresql://localhost:5432/postgres"
    index: str = "exact"
    storage: str = "full"
    m: int = 16
    ef_construction: int = 64
    lists: int = 100
    ef_search: int = at_search(40)
    probes: int = at_search(1)
    iterative_scan: str = at_search("relaxed_order")

    kind: ClassVar[Kind] = Kind.DENSE  # an instance has its own, see `for_kind`
    kinds: ClassVar[tuple[Kind, ...]] = (Kind.DENSE, Kind.SPARSE)
    exact: ClassVar[bool] = True  # an instance has its own
    remote: ClassVar[bool] = True
    requires: ClassVar[tuple[str, ...]] = ("psycopg",)
    extra: ClassVar[str] = "pgvector"

    def __post_init__(self) -> None:
        """Raise CommandError for a malformed address, for impossible settings, and for settings that the index does not use."""
        conninfo(self.url)
        for name, known in (("index", tuple(_USED)), ("storage", tuple(_FORMATS)), ("iterative_scan", _SCANS)):
            if getattr(self, name) not in known:
                raise CommandError(f"pgvector({name}={getattr(self, name)!r}): there is {', '.join(known)}")
        numbers = ("m", "ef_construction", "lists", "ef_search", "probes")
        if min(getattr(self, name) for name in numbers) < 1:
            raise CommandError(f"pgvector: {', '.join(numbers)} are numbers from 1 up")
        defaults = {item.name: item.default for item in fields(self)}
        for name in (*numbers, "iterative_scan"):
            if name not in _USED[self.index] and getattr(self, name) != defaults[name]:
                raise CommandError(f'pgvector: index="{self.index}" does not use {name}; leave it out')
        if self.index == "ivfflat" and self.iterative_scan == "strict_order":
            raise CommandError(
                'pgvector: index="ivfflat" has iterative_scan="off" and "relaxed_order"; lists are sorted anyway'
            )
        object.__setattr__(self, "exact", self.index == "exact")
        object.__setattr__(self, "compressed", self.storage != "full")

    def for_kind(self, kind: Kind) -> Self:
        """Return a copy for vectors of *kind*. Raises CommandError for sparse vectors in a form that pgvector has not."""
        if kind is Kind.SPARSE and (self.index == "ivfflat" or self.storage != "full"):
            raise CommandError('pgvector: sparse vectors take index="exact" or "hnsw", and storage="full"')
        copy = replace(self)
        object.__setattr__(copy, "kind", kind)
        return copy

    @property
    def format(self) -> str:
        """The type of the column."""
        return "sparsevec" if self.kind is Kind.SPARSE else _FORMATS[self.storage]

    def build(self, shards: Iterable[Any], path: Path) -> None:
        """Load *shards* (n, width) into a table named by *path*, and index it."""
        table = _Table(self.url, own_name(path, "_"), self.format)
        documents, width = 0, 0
        with table.alone():
            for shard in shards:
                width = one_width("pgvector", width, shard.shape[1])
                rows = _checked(shard, self.kind, "a document vector")
                if not documents:
                    table.make(width)
                for start in range(0, rows.shape[0], _ROWS):
                    block = rows[start : start + _ROWS]
                    table.load(documents + start, _packed(block, documents + start, self.format))
                documents += rows.shape[0]
            size = table.finish(documents, self._definition(table.name)) if width else 0
        facts = {"table": table.name, "documents": documents, "width": width}
        write_server_bytes(path, size)
        atomic.write_json(path / _FACTS, facts)

    def _definition(self, table: str) -> str:
        """Return the SQL that makes the index, "" for an exact engine."""
        if self.index == "exact":
            return ""
        operators = f"{self.format}_{'hamming' if self.format == 'bit' else 'ip'}_ops"
        settings = (
            f"lists = {self.lists}" if self.index == "ivfflat" else f"m = {self.m}, ef_construction = {self.ef_construction}"
        )
        return f"CREATE INDEX {table}_index ON {table} USING {self.index} (v {operators}) WITH ({settings})"

    def open(self, path: Path) -> "PgvectorIndex":
        """Open the table. Raises MissingData if the server has lost it."""
        return PgvectorIndex(self, path)

    def drop(self, path: Path) -> None:
        """Drop the table."""
        _Table(self.url, kept_name(path, _FACTS, "table", "_"), self.format).drop()

    @classmethod
    def attach(cls, address: SplitResult) -> RunningIndex:
        """Open the column at pgvector://HOST:5432/DATABASE/TABLE/COLUMN; ?id=NAME names the column of ids, by default id."""
        require("probing PostgreSQL", cls.requires, cls.extra)
        return RunningPgvector(address)


class PgvectorIndex(Index):
    """An opened table."""

    def __init__(self, settings: Pgvector, path: Path) -> None:
        facts = json.loads((path / _FACTS).read_bytes())
        self._settings, self._name = settings, str(facts["table"])
        self._documents, self._width = int(facts["documents"]), int(facts["width"])
        self._table = _Table(settings.url, self._name, settings.format)
        self._changed = [("enable_seqscan", "off")] if settings.index != "exact" else []
        for name in _USED[settings.index]:
            if name in {"ef_search", "probes", "iterative_scan"}:
                self._changed.append((f"{settings.index}.{name}", str(getattr(settings, name))))
        self._table.settings = self._changed
        if self._documents:
            check_there(settings.url, self._name, self._table.count(), self._documents, path)

    def search(self, queries: Any, k: int) -> Hits:
        """Return the best *k* documents of each of *queries* (queries, width).

        Raises LexbenchError if more documents are asked for than the index looks at.
        """
        made = self._settings
        if self._documents:
            same_width(queries.shape[1], self._width, "terms" if made.kind is Kind.SPARSE else "dimensions")
        hits = no_hits(queries.shape[0], min(k, self._documents))
        if made.index == "hnsw" and made.iterative_scan == "off" and hits.docs.shape[1] > made.ef_search:
            raise LexbenchError(
                f"pgvector finds at most ef_search={made.ef_search} documents, and {hits.docs.shape[1]:,} are asked for; "
                'type a larger ef_search, or iterative_scan="relaxed_order"'
            )
        if not hits.docs.size:
            return hits
        sql = self._sql()
        for row, text in enumerate(_texts(_checked(queries, made.kind, "a query vector"), made.format)):
            if text is None:
                continue
            found = self._table.rows(sql, {"query": text, "k": hits.docs.shape[1]})
            docs = np.array([doc for doc, _ in found], np.int64)
            scores = np.array([score for _, score in found], np.float32)
            if made.format == "bit":
                scores = self._width + 2 * scores  # of products of signs; the distance is the number of different signs
            elif made.kind is Kind.SPARSE:
                docs, scores = docs[scores != 0], scores[scores != 0]
            fill(hits, row, docs, scores)
        return hits

    def _sql(self) -> str:
        """Return the search. Without an index, ties are in order of position."""
        made = self._settings
        distance = f"v {'<~>' if made.format == 'bit' else '<#>'} %(query)s::{made.format}({self._width})"
        ties = ", id" if made.exact else ""
        return f"SELECT id, -({distance}) FROM {self._name} ORDER BY {distance}{ties} LIMIT %(k)s"


def _checked(vectors: Any, kind: Kind, what: str) -> Any:
    """Return *vectors* (n, width), sparse ones in canonical form. Raises LexbenchError for values that are not finite."""
    if kind is not Kind.SPARSE:
        all_finite(vectors, what)
        return vectors
    matrix = canonical(vectors)
    if not np.isfinite(matrix.data).all():
        raise LexbenchError(f"{what} has a weight that is no finite number; mend the encoder")
    return matrix


def _texts(vectors: Any, form: str) -> Iterator[str | None]:
    """Yield each of *vectors* (n, width) as a text that PostgreSQL reads; None for one without terms."""
    if form == "sparsevec":
        for start, stop in zip(vectors.indptr, vectors.indptr[1:], strict=False):
            pairs = zip(vectors.indices[start:stop].tolist(), vectors.data[start:stop].tolist(), strict=True)
            listed = ",".join(f"{term + 1}:{weight!r}" for term, weight in pairs)
            yield f"{{{listed}}}/{vectors.shape[1]}" if listed else None
    elif form == "bit":
        yield from ("".join(map(str, row)) for row in (vectors > 0).astype(int).tolist())
    else:
        yield from (json.dumps(row) for row in vectors.tolist())


def _packed(block: Any, first: int, form: str) -> bytes:
    """Return rows of the ids from *first* on and their vectors in the binary form of COPY."""
    count, width = block.shape
    head, end = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
    if form == "sparsevec":
        rows = []
        for at, (start, stop) in enumerate(zip(block.indptr, block.indptr[1:], strict=False)):
            terms, weights = block.indices[start:stop].astype(">i4"), block.data[start:stop].astype(">f4")
            numbers = np.array([4, first + at, 12 + 8 * len(terms), width, len(terms), 0], ">i4")
            rows.append(b"\0\2" + numbers.tobytes() + terms.tobytes() + weights.tobytes())
        return head + b"".join(rows) + end
    if form == "bit":
        bits = np.packbits(block > 0, axis=1)
        parts = [("width", ">i4"), ("values", "u1", (bits.shape[1],))]
        values: NDArray[Any] = bits
    else:
        parts = [("width", ">i2"), ("unused", ">i2"), ("values", ">f2" if form == "halfvec" else ">f4", (width,))]
        with np.errstate(over="ignore"):  # infinity is refused below
            values = block.astype(parts[-1][1])
        if not np.isfinite(values).all():
            raise LexbenchError('pgvector: a value is too large for storage="half"; use storage="full"')
    layout = np.dtype([("fields", ">i2"), ("id_bytes", ">i4"), ("id", ">i4"), ("bytes", ">i4"), *parts])
    rows_ = np.zeros(count, layout)
    rows_["fields"], rows_["id_bytes"], rows_["id"] = 2, 4, np.arange(first, first + count)
    rows_["bytes"], rows_["width"], rows_["values"] = layout.itemsize - 14, width, values
    return head + rows_.tobytes() + end


# ---- the server ------------------------------------------------------------------------------------------------------------


def conninfo(url: str) -> str:
    """Return *url*. Raises CommandError for a malformed address, and for one with a password, because results show it."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgresql", "postgres"}:
        raise CommandError(f'pgvector(url={url!r}): write it like "postgresql://localhost:5432/mydb"')
    if parts.password or "password" in parse_qs(parts.query):
        raise CommandError("results show the url of pgvector, so write no password in it; set PGPASSWORD")
    return url


@contextmanager
def _one_line(place: str) -> Iterator[None]:
    """Turn an error of PostgreSQL into one line that names the server at *place*."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        said = shortened(visible(one_line(str(error))), 300) or type(error).__name__
        if isinstance(error, psycopg.errors.DiskFull):
            raise CannotStart(
                f"postgresql at {place}: its disk is full ({said}); make room and give the command again"
            ) from None
        if _is_away(error):
            raise CannotStart(f"postgresql at {place} does not answer ({said}); is it running?") from None
        raise LexbenchError(f"postgresql at {place}: {said}") from None


def _is_away(error: Exception) -> bool:
    """Return whether the server went away, so that it may be back later."""
    import psycopg

    state = getattr(error, "sqlstate", None)
    away = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return away and (state is None or state.startswith(_AWAY))


def _connected(url: str) -> Any:
    """Return a connection on which each statement is a transaction."""
    import psycopg

    return psycopg.connect(url, autocommit=True, connect_timeout=10, keepalives_idle=30, application_name="lexbench")


def _close(connections: list[Any]) -> None:
    """Close *connections* and forget them."""
    while connections:
        connections.pop().close()


class _Table:
    """A table of ours. While the server is away, what it should do is tried again for half a minute."""

    def __init__(self, url: str, name: str, form: str) -> None:
        self.name, self._url, self._form = name, url, form
        self.settings: list[tuple[str, str]] = []  # of each connection
        self._place = _place(url)
        self._open: list[Any] = []  # the connection, if there is one
        finalize(self, _close, self._open)
        self._locks = False
        self._known = False  # whether the server has ever answered

    def _do(self, act: Callable[[Any], T]) -> T:
        """Return what *act* makes of a cursor, in one transaction; again on a new connection if the server went away."""
        import psycopg

        with _one_line(self._place):
            for wait in (*_WAITS, None):
                try:
                    if not self._open:
                        self._open.append(_connected(self._url))
                        self._prepare(self._open[0])
                    with self._open[0].transaction(), self._open[0].cursor(binary=True) as cursor:
                        return act(cursor)
                except psycopg.Error as error:
                    if wait is None or not self._known or not _is_away(error):
                        raise
                    _close(self._open)
                    time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _prepare(self, connection: Any) -> None:
        """Give a new connection the settings and, while building, the lock."""
        self._known = True
        connection.execute("SELECT NULL::vector")  # loads pgvector, which then knows its settings
        for name, value in self.settings:
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        for wait in (*_WAITS, None) if self._locks else ():
            found = connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [self.name]).fetchone()
            if found[0]:
                break
            if wait is None:
                raise CannotStart(f"another client builds {self.name} on {self._place}; wait until it is done")
            time.sleep(wait)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other clients from building the same table, and close the connection at the end."""
        with _one_line(self._place):
            first = _connected(self._url)
            with first:
                first.execute("CREATE EXTENSION IF NOT EXISTS vector")
        self._locks = True
        try:
            yield
        finally:
            self._locks = False
            _close(self._open)

    def drop(self) -> None:
        """Drop the table, if there is one, and close the connection."""
        try:
            self._do(lambda cursor: cursor.execute(f"DROP TABLE IF EXISTS {self.name}, {self.name}_blocks"))
        finally:
            _close(self._open)

    def make(self, width: int) -> None:
        """Make the table, if an interrupted build has not left it. Drop one of another type, and its index."""

        def act(cursor: Any) -> None:
            column = f"{self._form}({width})"
            cursor.execute(
                f"{_TYPE} AND attname = 'v'",
                [self.name],
            )
            found = cursor.fetchone()
            if found and found[0] != column:
                cursor.execute(f"DROP TABLE {self.name}, {self.name}_blocks")
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {self.name} (id integer NOT NULL, v {column} NOT NULL)")
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {self.name}_blocks (first integer PRIMARY KEY, digest text)")
            cursor.execute(f"DROP INDEX IF EXISTS {self.name}_index")

        self._do(act)

    def load(self, first: int, rows: bytes) -> None:
        """Load *rows*, whose first id is *first*, unless the table has just these. Other rows from there on are deleted."""
        known = hashlib.sha256(rows).hexdigest()

        def act(cursor: Any) -> None:
            cursor.execute(f"SELECT digest FROM {self.name}_blocks WHERE first = %s", [first])
            found = cursor.fetchone()
            if found and found[0] == known:
                return
            if found:
                cursor.execute(f"DELETE FROM {self.name} WHERE id >= %s", [first])
                cursor.execute(f"DELETE FROM {self.name}_blocks WHERE first >= %s", [first])
            with cursor.copy(f"COPY {self.name} (id, v) FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(rows)
            cursor.execute(f"INSERT INTO {self.name}_blocks VALUES (%s, %s)", [first, known])

        self._do(act)

    def finish(self, documents: int, definition: str) -> int:
        """Make the index by the SQL *definition*, and return the bytes of table and index.

        Raises LexbenchError if the table has not the ids of *documents* documents.
        """

        def act(cursor: Any) -> tuple[int, int, int]:
            cursor.execute(f"DELETE FROM {self.name} WHERE id >= %s", [documents])
            cursor.execute(f"DELETE FROM {self.name}_blocks WHERE first >= %s", [documents])
            if definition:
                cursor.execute(definition)
            cursor.execute(f"SELECT count(*), count(DISTINCT id), pg_total_relation_size('{self.name}') FROM {self.name}")
            count, ids, size = cursor.fetchone()
            return int(count), int(ids), int(size)

        count, ids, size = self._do(act)
        if count != documents or ids != documents:
            raise LexbenchError(
                f"{self._place} has {count:,} rows of the {documents:,} that it was sent; give the command again"
            )
        self._do(lambda cursor: cursor.execute(f"ANALYZE {self.name}"))
        return size

    def count(self) -> int:
        """Return the number of rows; 0 if there is no such table."""

        def act(cursor: Any) -> int:
            cursor.execute("SELECT to_regclass(%s)::text", [self.name])
            if cursor.fetchone()[0] is None:
                return 0
            cursor.execute(f"SELECT count(*) FROM {self.name}")
            return int(cursor.fetchone()[0])

        return self._do(act)

    def rows(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows that *sql* selects."""
        return self._do(lambda cursor: cursor.execute(sql, values, prepare=False).fetchall())


def _place(url: str) -> str:
    """Return host, port and database of an address, for messages."""
    parts = urlsplit(url)
    return f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"


# ---- a table that others built ---------------------------------------------------------------------------------------------


class _Column(NamedTuple):
    """A column of vectors."""

    form: str  # vector, halfvec, sparsevec or bit
    width: int  # 0: unknown
    method: str  # hnsw, ivfflat, diskann, or "" without an index
    operators: str  # of the index


class RunningPgvector(RunningIndex):
    """A column of a table, with an index or without one. Filters are SQL. Nothing is written.

    Knobs are settings of PostgreSQL. Those of the index may be written without its method: `ef_search` is hnsw.ef_search.
    """

    def __init__(self, address: SplitResult) -> None:
        place, options = [unquote(part) for part in address.path.strip("/").split("/")], parse_qs(address.query)
        if len(place) != 3:  # noqa: PLR2004 - database, table and column
            raise CommandError("name the database, the table and the column: pgvector://HOST:5432/DATABASE/TABLE/COLUMN")
        database, self._table, self._column = place
        self._id = options.pop("id", ["id"])[0]
        similarity = options.pop("similarity", [""])[0]
        if options:
            raise CommandError(f"pgvector:// takes ?id=COLUMN and similarity=, not {', '.join(options)}")
        self._url = conninfo(f"postgresql://{address.netloc}/{database}")
        self._place = _place(self._url)
        self._idle: list[tuple[tuple[Any, ...], Any]] = []  # settings and connection, the last used at the end
        self._count, self._free = 0, Condition()
        with _one_line(self._place):
            self._facts = self._described()
        facts = self._facts
        known = {"ip": "dot", "cosine": "cosine", "l2": "l2", "hamming": "dot"}
        self.similarity = similarity or known.get(facts.operators.rpartition("_")[0].rpartition("_")[2], "")
        if self.similarity not in SIMILARITIES:
            raise CommandError(
                f"{self._column} has no index of vectors; say how it is searched: ?similarity={'|'.join(SIMILARITIES)}"
            )
        self.knob = {"hnsw": "ef_search", "ivfflat": "probes", "diskann": "query_search_list_size"}.get(facts.method, "")
        self.values = (1, 2, 4, 8, 16) if facts.method == "ivfflat" else (20, 40, 80, 160, 320)
        scans = "relaxed_order" if facts.method == "ivfflat" else "strict_order,relaxed_order"
        if facts.method in {"hnsw", "ivfflat"}:
            self.short_advice = (
                f"let PostgreSQL read on until the list is full: --knob iterative_scan=off,{scans} (pgvector 0.8)"
            )

    def _described(self) -> _Column:
        """Return the type of the column, and its index."""
        from psycopg import sql

        with _connected(self._url) as connection:
            kind = connection.execute(
                f"{_TYPE} AND attname = %s AND attnum > 0",
                [self._table, self._column],
            ).fetchone()
            if not kind:
                raise CommandError(f"{self._place} has no column {self._table}.{self._column}")
            form, _, width = kind[0].rstrip(")").partition("(")
            form = form.rpartition(".")[2]
            if form not in {"vector", "halfvec", "sparsevec", "bit"}:
                raise CommandError(
                    f"{self._table}.{self._column} has the type {kind[0]}; there is vector, halfvec, sparsevec and bit"
                )
            index = connection.execute(
                _INDEX,
                [self._table, self._column],
            ).fetchone() or ("", "")
            names = [sql.Identifier(part).as_string(connection) for part in (self._column, self._id)]
            connection.execute("SELECT NULL::vector")  # loads pgvector, which then knows its settings
            self._names = {name for (name,) in connection.execute("SELECT name FROM pg_settings").fetchall()}
        self._column_sql, self._id_sql = names
        return _Column(form, int(width or 0), *index)

    @contextmanager
    def _connection(self, settings: Mapping[str, Any]) -> Iterator[Any]:
        """Lend a connection with the settings. One that has them already is preferred, so that measuring does not set them."""
        wanted = tuple(settings.items())
        with self._free:
            while True:
                at = next((at for at, (has, _) in enumerate(self._idle) if has == wanted), None)
                if at is not None or (self._idle and self._count >= _CONNECTIONS):
                    has, connection = self._idle.pop(0 if at is None else at)
                    break
                if self._count < _CONNECTIONS:
                    self._count += 1
                    has, connection = (), None
                    break
                self._free.wait()
        kept = False
        try:
            with _one_line(self._place):
                if connection is None:
                    connection = _connected(self._url)
                    connection.execute("SET default_transaction_read_only = on")
                    connection.execute("SELECT NULL::vector")  # loads pgvector, which then knows its settings
                if has != wanted:
                    self._set(connection, settings)
                yield connection
            kept = True
        finally:
            with self._free:
                if kept:
                    self._idle.append((wanted, connection))
                else:
                    self._count -= 1
                    if connection is not None:
                        connection.close()
                self._free.notify()

    def _set(self, connection: Any, settings: Mapping[str, Any]) -> None:
        """Set settings of PostgreSQL on a connection, and reset others."""
        connection.execute("RESET ALL")
        connection.execute("SET default_transaction_read_only = on")
        for name, value in settings.items():
            full = f"{self._facts.method}.{name}"
            connection.execute("SELECT set_config(%s, %s, false)", [full if full in self._names else name, str(value)])

    def _sql(self, where: str) -> str:
        """Return the search."""
        facts = self._facts
        operator = "<~>" if facts.form == "bit" else _OPERATORS[self.similarity]
        form = f"bit({facts.width})" if facts.form == "bit" else facts.form
        return (
            f"SELECT {self._id_sql}::text FROM {self._table} {_where(where)}"
            f"ORDER BY {self._column_sql} {operator} %(query)s::{form} LIMIT %(k)s"
        )

    def _text(self, query: Any) -> str:
        """Return a query as PostgreSQL reads it."""
        row = query if self._facts.form == "sparsevec" else np.atleast_2d(query)
        return next(_texts(row, self._facts.form)) or f"{{}}/{row.shape[1]}"

    def search(self, query: Any, k: int, settings: Mapping[str, Any], where: str) -> Sequence[str]:
        """Return the ids of the best *k* rows."""
        values = {"query": self._text(query), "k": k}
        with self._connection(settings) as connection:
            found = connection.execute(self._sql(where), values, prepare=False).fetchall()
        return [name for (name,) in found]

    def plan(self, query: Any, k: int, settings: Mapping[str, Any], where: str) -> str:
        """Return the scan that PostgreSQL chooses, e.g. "Index Scan using docs_v_idx"."""
        values = {"query": self._text(query), "k": k}
        with self._connection(settings) as connection:
            (found,) = connection.execute(f"EXPLAIN (FORMAT JSON) {self._sql(where)}", values, prepare=False).fetchone()
        node_ = found[0]["Plan"]
        while node_.get("Plans"):
            node_ = node_["Plans"][0]
        index = f" using {node_['Index Name']}" if "Index Name" in node_ else ""
        return f"{node_['Node Type']}{index}"

    def vectors(self) -> Iterator[tuple[Sequence[str], Any]]:
        """Yield the ids and vectors of all rows, in blocks; of bits their signs, 1 or -1."""
        form = self._facts.form
        cast = "::real[]" if form in {"vector", "halfvec"} else "::text"
        chosen = (
            f"SELECT {self._id_sql}::text, {self._column_sql}{cast} FROM {self._table} WHERE {self._column_sql} IS NOT NULL"
        )
        with (
            _one_line(self._place),
            _connected(self._url) as connection,
            connection.transaction(),
            connection.cursor("lexbench_vectors", binary=True) as cursor,
        ):
            cursor.execute(chosen)
            while rows := cursor.fetchmany(_ROWS):
                values = [row for _, row in rows]
                if form == "sparsevec":
                    block: Any = _parsed(values)
                elif form == "bit":
                    block = np.array([[2.0 * (bit == "1") - 1 for bit in row] for row in values], np.float32)
                else:
                    block = np.array(values, np.float32)
                yield [name for name, _ in rows], block

    def passing(self, where: str) -> Collection[str]:
        """Return the ids of the rows that pass a filter."""
        with self._connection({}) as connection:
            found = connection.execute(f"SELECT {self._id_sql}::text FROM {self._table} {_where(where)}", {}).fetchall()
        return {name for (name,) in found}

    def counts(self, field: str) -> Mapping[Any, int]:
        """Return the number of rows with each value of a column."""
        with self._connection({}) as connection:
            return dict(
                connection.execute(
                    f"SELECT {field}, count(*) FROM {self._table} WHERE {field} IS NOT NULL GROUP BY 1"
                ).fetchall()
            )

    def close(self) -> None:
        """Close the connections."""
        for _, connection in self._idle:
            connection.close()


def _where(text: str) -> str:
    """Return a filter as a clause in a statement with parameters."""
    return f"WHERE ({text.replace('%', '%%')}) " if text else ""


def _parsed(texts: Sequence[str]) -> sparse.csr_array:
    """Return sparse vectors (n, width) from texts like {1:0.5,3:2}/30522."""
    rows, width = [], 0
    for text in texts:
        body, _, number = text.rpartition("/")
        width = int(number)
        pairs = [pair.split(":") for pair in body[1:-1].split(",") if pair]
        rows.append(
            (np.array([int(term) - 1 for term, _ in pairs]), np.array([float(weight) for _, weight in pairs], np.float32))
        )
    return csr_rows(rows, width)
