"""BM25: indexing and query speed of ours against bm25s and against Lucene, on one collection, one thread each.

    python benchmarks/bm25.py                          # 200,000 synthetic documents of about 56 words, fixed seed
    python benchmarks/bm25.py --documents 20000
    python benchmarks/bm25.py --beir FOLDER_OR_ZIP     # a BEIR collection; its test queries

Each system runs in a process of its own, after one warm-up; of several repeats the median counts. bm25s is used as its README
recommends for speed: its own tokeniser with its English stop words and PyStemmer, and its numba backend. `anserini` is what
pyserini's LuceneSearcher calls (it also fetches ids); `bm25@lucene` asks Lucene for numbers only. Needs: the extra `lucene`,
bm25s, PyStemmer. The texts are in memory before anything is timed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SYSTEMS = ("bm25", "bm25s", "bm25@lucene", "anserini")
DEPTHS = (10, 1000)
QUERIES = 1000
REPEATS = 5
_QUERY_STEPS = ("tokenise", *(f"search_{k}" for k in DEPTHS))
ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def synthetic(documents: int) -> tuple[list[str], list[str]]:
    """Return texts of made-up words whose frequencies follow Zipf's law, and queries of six words of one text each."""
    rng = np.random.default_rng(2026)
    parts = [consonant + vowel for consonant in "bcdfglmnprstvz" for vowel in ("a", "e", "i", "o", "u", "ai", "or", "en")]
    ends = ["", "", "", "s", "ing", "ed", "er", "ation", "ly", "ness"]
    words = np.unique(["".join(rng.choice(parts, rng.integers(1, 5))) + str(rng.choice(ends)) for _ in range(150_000)])
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
        if place.is_dir():
            return (place / name).read_text(encoding="utf-8").splitlines()
        with zipfile.ZipFile(place) as archive:
            inside = next(one for one in archive.namelist() if one.endswith(name))
            return archive.read(inside).decode().split("\n")

    judged = {line.split("\t")[0] for line in read("qrels/test.tsv")[1:] if line}
    corpus = [json.loads(line) for line in read("corpus.jsonl") if line]
    queries = [json.loads(line) for line in read("queries.jsonl") if line]
    texts = [f"{one.get('title', '')} {one['text']}".strip() for one in corpus]
    return texts, [one["text"] for one in queries if one["_id"] in judged]


class Texts:
    """Texts as a corpus."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """Yield the documents."""
        from lexbench.types import Document

        return (Document(str(start + i), text) for i, text in enumerate(self.texts[start:stop]))


class Ours:
    """One of lexbench's retrievers."""

    def __init__(self, name: str) -> None:
        from lexbench.runner.systems import system

        self.retriever = system(name).retriever

    def index(self, texts: list[str], path: Path) -> None:
        """Write an index."""
        self.retriever.build(Texts(texts), path)

    def open(self, path: Path) -> None:
        """Open it."""
        self.searcher = self.retriever.open(path)

    def encode(self, queries: list[str]) -> Any:
        """Return the queries as *search* takes them."""
        return self.searcher.encode(queries)

    def search(self, encoded: Any, k: int) -> Any:
        """Return the best k documents of each."""
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
        """Return the best k documents of each."""
        return self.retriever.retrieve(encoded, k=min(k, self.documents), show_progress=False, n_threads=1)


class Anserini:
    """What pyserini calls: Anserini's own indexer, and its searcher, which returns objects with ids."""

    def __init__(self) -> None:
        from lexbench.engines.java.jvm import java_class

        self.java_class = java_class

    def index(self, texts: list[str], path: Path) -> None:
        """Write an index; Anserini reads JSON lines."""
        with tempfile.TemporaryDirectory() as folder:
            with Path(folder, "docs.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(json.dumps({"id": str(i), "contents": text}) + "\n" for i, text in enumerate(texts))
            given = ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator", "-threads", "1"]
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
        """Return the best k documents of each."""
        return [self.searcher.search(query, k) for query in encoded]


def timed(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the median seconds of *work*."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def measure(name: str, texts: list[str], queries: list[str], folder: Path) -> dict[str, float]:
    """Return the seconds that a system takes to index, to tokenise the queries, and to search them at each depth."""
    system: Any = {"bm25s": BM25S, "anserini": Anserini}.get(name, lambda: Ours(name))()
    for part, kept in (("warm", texts[:2000]), ("index", texts)):  # compiling, and starting Java, is not counted
        (folder / part).mkdir()
        start = time.perf_counter()
        system.index(kept, folder / part)
        seconds = {"index": time.perf_counter() - start}
        system.open(folder / part)
        for k in DEPTHS:
            system.search(system.encode(queries[:50]), k)
    bytes_ = sum(path.stat().st_size for path in (folder / "index").rglob("*"))
    encoded = system.encode(queries)
    if encoded is not queries:  # else the search does it
        seconds["tokenise"] = timed(lambda: system.encode(queries))
    return seconds | {f"search_{k}": timed(lambda k=k: system.search(encoded, k)) for k in DEPTHS} | {"megabytes": bytes_ / 1e6}


def in_own_process(name: str, arguments: list[str]) -> dict[str, float]:
    """Measure a system in a new process, whose standard output only we read: Java writes there too."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        command = [sys.executable, __file__, *arguments, "--system", name, "--answer", str(answer)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **ONE_THREAD})
        found: dict[str, float] = json.loads(answer.read_text())
        return found


def table(results: dict[str, dict[str, float]], queries: int, documents: int) -> str:
    """Return the figures, and in brackets how many times as fast as bm25s each is."""
    rows = [
        f"{'':12}  {'documents/s':>16}" + "".join(f"{f'queries/s {name}':>24}" for name in ("tokenise", *DEPTHS)) + f"{'MB':>8}"
    ]
    base = results.get("bm25s", next(iter(results.values())))
    for name, found in results.items():
        speeds = {key: f"{queries / found[key]:,.0f} ({base[key] / found[key]:.2f})" for key in found if key in _QUERY_STEPS}
        cells = [f"{documents / found['index']:,.0f} ({base['index'] / found['index']:.2f})".rjust(16)]
        cells += [speeds.get(key, "").rjust(24) for key in _QUERY_STEPS]
        rows.append(f"{name:12}  {''.join(cells)}{found['megabytes']:8.1f}")
    return "\n".join(rows)


def main() -> None:
    """Measure every system and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--beir", type=Path)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--system", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    texts, queries = beir(given.beir) if given.beir else synthetic(given.documents)
    if given.system:
        with tempfile.TemporaryDirectory() as folder:
            given.answer.write_text(json.dumps(measure(given.system, texts, queries, Path(folder))))
        return
    source = ["--beir", str(given.beir)] if given.beir else ["--documents", str(given.documents)]
    results = {name: in_own_process(name, source) for name in SYSTEMS}
    words = sum(len(text.split()) for text in texts) / len(texts)
    print(f"{len(texts):,} documents of {words:.0f} words, {len(queries):,} queries; in brackets: times as fast as bm25s")
    print(table(results, len(queries), len(texts)))
    if given.json:
        facts = {"documents": len(texts), "words": words, "queries": len(queries), "repeats": REPEATS, "seconds": results}
        given.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
