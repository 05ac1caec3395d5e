"""Results, timings, runs, judgements and an encoder made by hand, for tests."""

import numpy as np

from lexbench.results import Counts, Latency, Result, Timing
from lexbench.storage.artifact_folder import digest
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run
from lexbench.types import Judgement


def result(system, values=(0.5, 0.5), dataset="pydoc/test", documents=None, **facts):
    """Make a result with the nDCG@10 of each query; *facts* add or replace fields.

    One with a recipe counts its documents, and one with the bytes of its index has those of its corpus.
    """
    documents = documents or (100 if "recipe" in facts else None)
    if "index" in facts.get("sizes", {}):
        facts["sizes"] = {"corpus": 1000, **facts["sizes"]}
    given = {
        "contract": f"{dataset}@1", "depth": 1000, "means": {"nDCG@10": float(np.mean(values))},
        "query_ids": [f"q{number:02}" for number in range(len(values))], "per_query": {"nDCG@10": list(map(float, values))},
        "counts": Counts(queries=len(values), documents=documents),
        "digests": {"queries": "of the queries", "qrels": "of the judgements", "corpus": "of the corpus"},
    }  # fmt: skip
    return Result(system=system, dataset=dataset, **(given | facts))


def encoded(k=0):
    """Make the recipe of an encoder of sparse vectors whose documents keep *k* terms (0: all)."""
    transforms = [{"plugin": "transforms/top_k", "version": 1, "settings": {"k": k}}] if k else []
    settings = {"encoder": {"plugin": "encoders/sparse_mlm", "version": 1, "settings": {}}, "transforms": transforms}
    return {"plugin": "retrievers/encoded", "version": 2, "settings": settings}


def timing(rate, **facts):
    """Make a timing of single queries at this many QPS that the check of results accepts; *facts* add or replace fields."""
    shares = {"encode_query": 0.5, "search": 0.5, "e2e": 1.0}  # of the duration
    stages = {stage: Latency(p50=share / rate, mean=share / rate) for stage, share in shares.items()}
    machine, flags = facts.get("machine", {}), facts.get("flags", ())
    given = {
        "scenario": "single-stream-1t", "k": 1000, "threads": 1, "exact": True, "queries": 2, "passes": 5, "warm_up": 1,
        "stages": stages, "first_pass": stages, "qps": {stage: rate / share for stage, share in shares.items()},
        "overhead": 0.01, "cpu_per_wall": 1.0, "checked": "differs" not in flags, "taken": "2026-11-26T00:00:00+00:00",
        "asked_seconds": 5 * facts.get("queries", 2) / rate, "fingerprint": digest(machine),
        "notes": [f"why {flag}" for flag in flags],
    }  # fmt: skip
    return Timing(**(given | facts))


def texts_of(notes):
    """Return the texts of *notes*, which are structs or, from JSON, dictionaries."""
    return [note["text"] if isinstance(note, dict) else note.text for note in notes]


def ranked(**lists):
    """Make a run of the documents of each query, best first; in a text, each letter is a document."""
    entries = [(query, document, -rank) for query, documents in lists.items() for rank, document in enumerate(documents)]
    return Run.from_entries(*([entry[column] for entry in entries] for column in range(3)))


def judged(**grades):
    """Make judgements: the grade of each document, by query."""
    return Qrels.from_judgements(Judgement(query, *item) for query, given in grades.items() for item in given.items())


class Length:
    """An encoder object of a user: no kind, no settings, no identity."""

    def encode_document(self, texts):
        """Return the length of each text."""
        return np.array([[len(text)] for text in texts], np.float32)

    encode_query = encode_document
