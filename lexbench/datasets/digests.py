"""Digests of corpora, queries and qrels, which contracts expect and results record, and numbers drawn from digests of ids.

Each digest of data is the SHA-256 of netstrings (https://cr.yp.to/proto/netstrings.txt, e.g. `5:hello,`), so no two contents
have the same bytes, and any language can repeat it in a few lines. No digest depends on the order of the files:

    corpus    id, text of every document, by descending bytes of the id (the order of positions)
    queries   id, text of every judged query, by ascending bytes of the id; then i and the instruction of one that has some
    ids       id of every judged query, by ascending bytes
    qrels     query id, document id, grade (the shortest decimal) of every judgement, by ascending bytes of the two ids

Texts are those that retrievers see, so the digest of a corpus includes the text policy.
"""

import hashlib
from collections.abc import Iterable

from lexbench.storage.reading import utf8
from lexbench.trec.ids import bytes_of
from lexbench.types import Judgement, Query


def netstrings(*fields: bytes) -> bytes:
    """Return the *fields* as netstrings, joined."""
    return b"".join([b"%d:%s," % (len(field), field) for field in fields])


def queries_sha256(queries: Iterable[Query]) -> str:
    """Return the digest of *queries*, which may come in any order."""
    rows = sorted((bytes_of(query.query_id), utf8(query.text), utf8(query.instruction)) for query in queries)
    own = (netstrings(*pair) + (b"i" + netstrings(instruction) if instruction else b"") for *pair, instruction in rows)
    return hashlib.sha256(b"".join(own)).hexdigest()


def query_ids_sha256(query_ids: Iterable[str]) -> str:
    """Return the digest of the ids of queries, which may come in any order."""
    return hashlib.sha256(b"".join(map(netstrings, sorted(map(bytes_of, query_ids))))).hexdigest()


def qrels_sha256(judgements: Iterable[Judgement]) -> str:
    """Return the digest of *judgements*, which may come in any order."""
    rows = sorted([(bytes_of(query_id), bytes_of(doc_id), b"%a" % grade) for query_id, doc_id, grade in judgements])
    return hashlib.sha256(b"".join([netstrings(*row) for row in rows])).hexdigest()


def drawn_number(name: str, what: str) -> float:
    """Return a number in [0, 1) that depends on *name* and *what* only: a random choice that is the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"{what}\t{name}".encode()).digest()[:8]) / 2**64
