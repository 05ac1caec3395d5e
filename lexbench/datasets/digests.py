"""Digests of corpora, queries and qrels: what a contract expects and a result is stamped with.

Each is the SHA-256 of netstrings (https://cr.yp.to/proto/netstrings.txt: `5:hello,`), so no two contents have one byte
stream, and any language repeats it in a few lines. None depends on the order of the files:

    corpus    id, text of every document, by descending bytes of the id (the order of positions)
    queries   id, text of every judged query, by ascending bytes of the id
    qrels     query id, document id, grade (decimal) of every judgement, by ascending bytes of the two ids

Texts are those that retrievers see, so the text policy is in the digest of a corpus.
"""

import hashlib
from collections.abc import Iterable

from lexbench.trec.ids import bytes_of
from lexbench.types import Judgement, Query


def netstrings(*fields: bytes) -> bytes:
    """Return the *fields*, each as a netstring, in one piece."""
    return b"".join(b"%d:%s," % (len(field), field) for field in fields)


def queries_sha256(queries: Iterable[Query]) -> str:
    """Return the digest of *queries*, in whatever order they come."""
    pairs = sorted((bytes_of(query.query_id), utf8(query.text)) for query in queries)
    return hashlib.sha256(b"".join(netstrings(*pair) for pair in pairs)).hexdigest()


def qrels_sha256(judgements: Iterable[Judgement]) -> str:
    """Return the digest of *judgements*, in whatever order they come."""
    rows = sorted((bytes_of(row.query_id), bytes_of(row.doc_id), b"%d" % row.grade) for row in judgements)
    return hashlib.sha256(b"".join(netstrings(*row) for row in rows)).hexdigest()


def utf8(text: str) -> bytes:
    """Return *text* as UTF-8; half a surrogate pair, which JSON can hold and UTF-8 cannot, becomes U+FFFD as in Lucene."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
