"""BM25: speed of indexing and searching, next to bm25s, Lucene and PISA, on one collection, one thread each.

    python benchmarks/bm25.py                          # 200,000 synthetic documents of about 56 words, fixed seed
    python benchmarks/bm25.py --documents 20000 --systems bm25,bm25@lucene
    python benchmarks/bm25.py --beir FOLDER            # a BEIR collection and its test queries
    python benchmarks/bm25.py --clock processor        # on a machine with other work
    python benchmarks/bm25.py --threads 2 --systems bm25,anserini

Each system runs in its own process, after one warm-up; the median of several repeats counts. bm25s is used as its README
recommends for speed: its own tokeniser with its English stop words and PyStemmer, and its numba backend. `anserini` is what
pyserini's LuceneSearcher calls (it also fetches ids); `bm25@lucene` asks Lucene for document numbers only. `pisa` searches the
terms of `bm25` with block_max_maxscore; it has no analysis in Python, so its indexing and analysis are not timed. --threads
applies to `bm25` and `anserini`.

Texts are in memory before the timing. Processor time includes Java's compiler and garbage collector. Needs: the extras `lucene`
and `pisa`, bm25s, PyStemmer; systems that are not installed are left out with a note.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import _child
import numpy as np
from scipy import sparse

SYSTEMS = {  # system -> the package that it needs
    "bm25": "lexbench",
    "bm25s": "bm25s",
    "bm25@lucene": "pyserini",
    "anserini": "pyserini",
    "pisa": "pyterrier_pisa",
}
DEPTHS = (10, 1000)
QUERIES = 1000
REPEATS = 5
WARM = 12_000  # documents of the index that is built before the timing: enough for `bm25` to compile its loop
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "processor": time.process_time}
_QUERY_STEPS = ("tokenise", *(f"search_{k}" for k in DEPTHS))
ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def synthetic(documents: int) -> tuple[list[str], list[str]]:
    """Return texts of made-up words whose frequencies follow Zipf's law, and queries of six words of one text each."""
    rng = np.random.default_rng(2026)
    parts = [consonant + vowel for consonant in "bcdfglmnprstvz" for vowel in ("a", "e", "i", "o", "u", "ai", "or", "en")]
    ends = ["", "", "", "s", "ing", "ed", "er", "ation", "ly", "ness"]
    made = min(150_000, 10 * documents)  # words, many of them twice
    words = np.unique(["".join(rng.choice(parts, rng.integers(1, 5))) + str(rng.choice(ends)) for _ in range(made)])
    rng.shuffle(words)
    cumulative = np.cumsum(1 / (np.arange(len(words)) + 2.7))
    texts = []
    for length in np.maximum(rng.lognormal(np.log(52), 0.4, documents).astype(int), 6):
        text = words[np.searchsorted(cumulative, rng.random(length) * cumulative[-1])]
        texts.append(f"{' '.join(text[:-6]).capitalize()}, {' '.join(text[-6:])}.")
    chosen = rng.choice(documents, QUERIES)
    return texts, [" ".join(rng.choice(texts[one].strip(".").replace(",", "").lower().split(), 6)) for one in chosen]


def beir(place: Path) -> tuple[list[str], list[str]]:
    """Return the texts and the test queries of a BEIR collection."""

    def read(name: str) -> list[str]:
        return (place / name).read_text(encoding="utf-8").splitlines()

    judged = {line.split("\t")[0] for line in read("qrels/test.tsv")[1:] if line}
    corpus = [json.loads(line) for line in read("corpus.jsonl") if line]
    queries = [json.loads(line) for line in read("queries.jsonl") if line]
    texts = [f"{one.get('title', '')} {one['text']}".strip() for one in corpus]
    return texts, [one["text"] for one in queries if one["_id"] in judged]


class Texts:
    """Texts as a corpus."""

    fingerprint = "benchmark"

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.doc_ids = np.arange(len(texts)).astype("S")

    def __len__(self) -> int:
        return len(self.texts)

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """Yield the documents."""
        from lexbench.types import Document

        return (Document(str(start + i), text) for i, text in enumerate(self.texts[start:stop]))


class Ours:
    """One of lexbench's retrievers."""

    def __init__(self, name: str, threads: int) -> None:
        from lexbench.runner.systems import system

        self.retriever = system(name).retriever
        self.indexing = system(f"bm25(threads={threads})").retriever if name == "bm25" else self.retriever

    def index(self, texts: list[str], path: Path) -> None:
        """Write an index."""
        self.indexing.build(Texts(texts), path)

    def open(self, path: Path) -> None:
        """Open it."""
        self.searcher = self.retriever.open(path)

    def encode(self, queries: list[str]) -> Any:
        """Return the queries as *search* takes them."""
        return self.searcher.encode(queries)

    def search(self, encoded: Any, k: int) -> Any:
        """Return the best k documents of each query."""
        return self.searcher.search(encoded, k)


class BM25S:
    """bm25s, as its README recommends for speed."""

    def __init__(self) -> None:
        import bm25s
        import Stemmer

        self.library = bm25s
        self.stemmer = Stemmer.Stemmer("english")

    def encode(self, texts: list[str]) -> Any:
        """Return texts as tokens."""
        return self.library.tokenize(texts, stopwords="en", stemmer=self.stemmer, show_progress=False)

    def index(self, texts: list[str], path: Path) -> None:
        """Write an index."""
        retriever = self.library.BM25(method="lucene", k1=0.9, b=0.4, backend="numba")
        retriever.index(self.encode(texts), show_progress=False)
        retriever.save(path, show_progress=False)

    def open(self, path: Path) -> None:
        """Open it."""
        self.retriever = self.library.BM25.load(path, show_progress=False)
        self.retriever.backend = "numba"
        self.documents = self.retriever.scores["num_docs"]

    def search(self, encoded: Any, k: int) -> Any:
        """Return the best k documents of each query."""
        return self.retriever.retrieve(encoded, k=min(k, self.documents), show_progress=False, n_threads=1)


class Anserini:
    """Anserini's own indexer, and the searcher that pyserini calls, which returns objects with ids."""

    def __init__(self, threads: int) -> None:
        from lexbench.engines.kernels.java import java_class

        self.java_class, self.threads = java_class, threads

    def index(self, texts: list[str], path: Path) -> None:
        """Write an index; Anserini reads JSON lines."""
        with tempfile.TemporaryDirectory() as folder:
            for part in range(self.threads):  # a thread reads a file
                with Path(folder, f"docs{part}.jsonl").open("w", encoding="utf-8") as file:
                    rows = range(part, len(texts), self.threads)
                    file.writelines(json.dumps({"id": str(i), "contents": texts[i]}) + "\n" for i in rows)
            given = ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"]
            given += ["-threads", str(self.threads)]
            self.java_class("io.anserini.index.IndexCollection").main(
                [*given, "-input", folder, "-index", str(path), "-optimize"]
            )

    def open(self, path: Path) -> None:
        """Open it."""
        self.searcher = self.java_class("io.anserini.search.SimpleSearcher")(str(path))
        self.searcher.set_bm25(0.9, 0.4)

    def encode(self, queries: list[str]) -> list[str]:
        """Return the queries; the searcher analyses them itself."""
        return queries

    def search(self, encoded: list[str], k: int) -> Any:
        """Return the best k documents of each query."""
        return [self.searcher.search(query, k) for query in encoded]


class Pisa:
    """PISA over the terms of `bm25`."""

    algorithm = "block_max_maxscore"

    def __init__(self) -> None:
        from lexbench.engines import pisa
        from lexbench.tokenization import analyze

        self.adapter, self.analyze = pisa, analyze
        self.terms: dict[str, int] = {}

    def index(self, texts: list[str], path: Path) -> None:
        """Write an index by the adapter of the engine `pisa`, with the lengths of the documents for BM25's scorer."""
        counts = [Counter(self.terms.setdefault(term, len(self.terms)) for term in self.analyze(text)) for text in texts]
        starts = np.cumsum([0, *map(len, counts)])
        terms = np.fromiter(chain.from_iterable(counts), np.int32)
        values = np.fromiter(chain.from_iterable(count.values() for count in counts), np.float32)
        matrix = sparse.csr_array((values, terms, starts), shape=(len(texts), len(self.terms)))
        self.adapter.write_collection([matrix], path)
        lengths = [len(texts), *(count.total() for count in counts)]
        np.array(lengths, np.uint32).tofile(path / "inv.sizes")
        self.open(path)  # compresses
        self.adapter.remove_collection(path)

    def open(self, path: Path) -> None:
        """Open it."""
        self.library = self.adapter.compiled_library()
        self.context = self.library.RetrievalContext()
        self.library.prepare_index(self.context, str(path), "block_simdbp", "bm25", "", bm25_k1=0.9, bm25_b=0.4)

    def encode(self, queries: list[str]) -> list[tuple[int, dict[str, float]]]:
        """Return the queries in PISA's form: a number, and the count of each term."""
        counted = (Counter(term for term in self.analyze(query) if term in self.terms) for query in queries)
        name = self.adapter.term_name
        return [(i, {name(self.terms[term]): float(count) for term, count in one.items()}) for i, one in enumerate(counted)]

    def search(self, encoded: list[tuple[int, dict[str, float]]], k: int) -> Any:
        """Return PISA's names of the best k documents of each query."""
        room = len(encoded) * k
        found = {"result_qidxs": np.empty(room, np.int32), "result_ranks": np.empty(room, np.int32)}
        found |= {"result_docnos": np.empty(room, object), "result_scores": np.empty(room, np.float32)}
        settings = {"k": k, "threads": 1, "query_weighted": 1, "pretokenised": 1}
        return self.library.retrieve(self.context, self.algorithm, encoded, **settings, **found)


def timed(work: Callable[[], Any], clock: Callable[[], float], repeats: int = REPEATS) -> float:
    """Return the median seconds that *work* takes."""
    seconds = []
    for _ in range(repeats):
        start = clock()
        work()
        seconds.append(clock() - start)
    return statistics.median(seconds)


def measure(
    name: str, texts: list[str], queries: list[str], folder: Path, clock: Callable[[], float], threads: int
) -> dict[str, float]:
    """Return the seconds of indexing, of tokenising the queries, and of searching them at each depth."""
    kinds: dict[str, Callable[[], Any]] = {"bm25s": BM25S, "pisa": Pisa, "anserini": lambda: Anserini(threads)}
    system: Any = kinds.get(name, lambda: Ours(name, threads))()
    for part, kept in (("warm", texts[:WARM]), ("index", texts)):  # compiling and starting Java do not count
        (folder / part).mkdir()
        start = clock()
        system.index(kept, folder / part)
        seconds = {} if name == "pisa" else {"index": clock() - start}
        system.open(folder / part)
        for k in DEPTHS:
            system.search(system.encode(queries[:50]), k)
    bytes_ = sum(path.stat().st_size for path in (folder / "index").rglob("*"))
    encoded = system.encode(queries)
    if encoded is not queries and name != "pisa":  # otherwise the search does it, or not the system itself
        seconds["tokenise"] = timed(lambda: system.encode(queries), clock)
    searched = {f"search_{k}": timed(partial(system.search, encoded, k), clock) for k in DEPTHS}
    return seconds | searched | {"megabytes": bytes_ / 1e6}


def in_own_process(name: str, arguments: list[str]) -> dict[str, float]:
    """Measure a system in a new process. Its answer is a file, because Java writes on standard output."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        command = [sys.executable, __file__, *arguments, "--system", name, "--answer", str(answer)]
        _child.run(command, env={**os.environ, **ONE_THREAD})
        found: dict[str, float] = json.loads(answer.read_text())
        return found


def installed(name: str) -> bool:
    """Return whether the package of a system is installed, and print a note if not."""
    if there := find_spec(SYSTEMS[name]) is not None:
        return there
    print(f"{name} is left out: {SYSTEMS[name]} is not installed")
    return there


def table(results: dict[str, dict[str, float]], queries: int, documents: int) -> str:
    """Return the figures; in brackets: times as fast as bm25s."""
    rows = [
        f"{'':12}  {'documents/s':>16}" + "".join(f"{f'queries/s {name}':>24}" for name in ("tokenise", *DEPTHS)) + f"{'MB':>8}"
    ]
    base = results.get("bm25s", next(iter(results.values())))
    for name, found in results.items():
        speeds = {key: f"{queries / found[key]:,.0f} ({base[key] / found[key]:.2f})" for key in found if key in _QUERY_STEPS}
        indexed = f"{documents / found['index']:,.0f} ({base['index'] / found['index']:.2f})" if "index" in found else ""
        cells = [indexed.rjust(16)]
        cells += [speeds.get(key, "").rjust(24) for key in _QUERY_STEPS]
        rows.append(f"{name:12}  {''.join(cells)}{found['megabytes']:8.1f}")
    return "\n".join(rows)


def main() -> None:
    """Measure every system and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--beir", type=Path)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="default: all that are installed")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="wall or processor time (default: wall)")
    parser.add_argument("--threads", type=int, default=1, help="threads for indexing")
    parser.add_argument("--system", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--texts", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.system:
        texts, queries = json.loads(given.texts.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            given.answer.write_text(
                json.dumps(measure(given.system, texts, queries, Path(folder), CLOCKS[given.clock], given.threads))
            )
        return
    texts, queries = beir(given.beir) if given.beir else synthetic(given.documents)
    with tempfile.TemporaryDirectory() as folder:
        shared = Path(folder, "texts.json")
        shared.write_text(json.dumps([texts, queries]), encoding="utf-8")
        arguments = ["--texts", str(shared), "--clock", given.clock, "--threads", str(given.threads)]
        results = {name: in_own_process(name, arguments) for name in given.systems.split(",") if installed(name)}
    words = sum(len(text.split()) for text in texts) / len(texts)
    print(f"{len(texts):,} documents of {words:.0f} words, {len(queries):,} queries; in brackets: times as fast as bm25s")
    print(table(results, len(queries), len(texts)))
    if given.json:
        facts = {
            "documents": len(texts),
            "words": words,
            "queries": len(queries),
            "repeats": REPEATS,
            "clock": given.clock,
            "threads": given.threads,
            "seconds": results,
        }
        given.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
