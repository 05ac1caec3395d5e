"""Probe PostgreSQL with pgvector: dense vectors under filters, or the sparse vectors of two files.

    python benchmarks/probing.py                                  # random vectors, and filters that 100, 10 and 1 % pass
    python benchmarks/probing.py --vectors docs.npz --queries queries.npz    # sparse vectors, as SciPy writes them

Each starts a server of its own on this machine, as the tests do. The tables of docs/howto/probe.md are its output.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lexbench.cli import code
from lexbench.engines.pgvector import _texts as texts
from lexbench.probing.targets import file_blocks

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import postgres


def main() -> int:
    """Fill a table and probe it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=5000, help="of random vectors")
    parser.add_argument("--dimensions", type=int, default=32)
    parser.add_argument("--seconds", default="5", help="of load per setting; 0: none")
    parser.add_argument("--vectors", type=Path, help="sparse vectors of documents: a .npz file or a folder of encodings")
    parser.add_argument("--queries", help="sparse vectors of queries")
    given = parser.parse_args()
    with postgres.running() as server, server.connect() as connection:
        connection.execute("CREATE EXTENSION vector")
        if given.vectors:
            return sparse(server, connection, given)
        rng = np.random.default_rng(1)
        connection.execute(f"CREATE TABLE docs (id int, tenant int, v vector({given.dimensions}))")
        with connection.cursor().copy("COPY docs FROM STDIN") as copy:
            for row, vector in enumerate(rng.normal(size=(given.documents, given.dimensions))):
                copy.write_row((row, row % 100, str(vector.tolist())))
        connection.execute("CREATE INDEX docs_hnsw ON docs USING hnsw (v vector_cosine_ops)")
        connection.execute("ANALYZE")
        knobs = ["ef_search=40,200", "iterative_scan=off,strict_order,relaxed_order", "enable_seqscan=off"]
        words = [word for knob in knobs for word in ("--knob", knob)]
        filters = ["--filter", "tenant < {}", "--selectivity", "1,0.1,0.01"]
        return code(["probe", f"pgvector://{server.address}/docs/v", *words, *filters, "--seconds", given.seconds])


def sparse(server: Any, connection: Any, given: argparse.Namespace) -> int:
    """Probe a graph of sparse vectors; return the exit code."""
    name, width = "terms", 0
    for ids, rows in file_blocks(given.vectors, None)():
        if not width:
            width = rows.shape[1]
            connection.execute(f"CREATE TABLE {name} (id int, v sparsevec({width}))")
        with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row, text in zip(ids, texts(rows, "sparsevec"), strict=True):
                copy.write_row((row, text or f"{{}}/{width}"))
    connection.execute(f"CREATE INDEX {name}_hnsw ON {name} USING hnsw (v sparsevec_ip_ops)")
    connection.execute("ANALYZE")
    words = [
        "--queries",
        given.queries,
        "--sample",
        "300",
        "--knob",
        "ef_search=10,20,40,80,160,320",
        "--seconds",
        given.seconds,
    ]
    exact = ["--knob", "enable_indexscan=off", "--queries", given.queries, "--sample", "300", "--seconds", given.seconds]
    for arguments in (words, exact):
        if ended := code(["probe", f"pgvector://{server.address}/{name}/v", *arguments]):
            return ended
    return 0


if __name__ == "__main__":
    sys.exit(main())
