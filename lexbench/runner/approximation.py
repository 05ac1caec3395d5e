"""How much of exact search an approximate engine finds on the queries at hand: said in every result of one."""

from collections.abc import Iterator
from typing import Any

from lexbench.retrievers._combination import encode_queries
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.stages import Workbench
from lexbench.runner.systems import leaves
from lexbench.types import Kind

_QUERIES = 200  # evenly spaced, that are searched exactly, too: the share is then known to about .01
_DEPTHS = (10, 100)


def remarks(retriever: Any, bench: Workbench) -> Iterator[str]:
    """Yield a line for each part of *retriever* that searches dense vectors approximately, once each.

    The sample is encoded and searched anew, and multiplied with all stored vectors, of which a shard is in memory at a time.
    """
    from lexbench.engines.kernels.dense import overlap

    done = set()
    for part in leaves(retriever):
        if not isinstance(part, Encoded) or getattr(part.engine, "exact", True) or part.engine.kind is not Kind.DENSE:
            continue
        if (line := str(part)) in done:
            continue
        done.add(line)
        queries = bench.dataset.queries[:: max(1, len(bench.dataset.queries) // _QUERIES)][:_QUERIES]
        searcher = part.open(bench.index(part))
        vectors = encode_queries(searcher, queries)
        hits = searcher.search(vectors, min(max(_DEPTHS), len(bench.corpus)))
        stored = bench.encodings(part.encoder)
        shards = (part.as_documents(shard) for shard in stored.shards())
        shares = overlap(shards, vectors, hits, _DEPTHS)
        found = " and ".join(f"{share:.3f} of the best {k}" for k, share in shares.items())
        yield f"{type(part.engine).__name__.lower()} finds {found} of exact search, on {len(queries)} of the queries"
