"""Results as artifacts: the score of a run, with the notes that readers need to understand it.

`ScoredRun` is the result of a system's run, `ScoredFile` that of a run file.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from lexbench.artifacts.corpora import DerivedCorpus
from lexbench.artifacts.searches import Search, searched
from lexbench.artifacts.token_counts import TokenCounts, tokenizer_digest, tokenizers_of
from lexbench.artifacts.vectors import CorpusVectors
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset
from lexbench.datasets.passages import DOCUMENTS
from lexbench.encodings.shards import Encodings
from lexbench.errors import visible
from lexbench.measures import DocumentTokens, function_keys, with_threshold
from lexbench.measures import parse as parse_measure
from lexbench.measures import score as score_run
from lexbench.outside.foreign import ForeignRetriever
from lexbench.plugins import CUT_PAIRS, Searcher, Source
from lexbench.results import Note, Result, SearchWork, VectorSizes, save
from lexbench.retrievers.encoded import Encoded
from lexbench.retrievers.run_file import RunFile
from lexbench.runner.data_notes import data_notes
from lexbench.runner.exposure import exposure_of
from lexbench.runner.query_texts import is_own, relevant_ranks
from lexbench.runner.scoring import noted, score_ranked, unknown_documents, unstated_thresholds, without_relevant
from lexbench.runner.search import Data, SystemRun
from lexbench.runner.soundness import read_stored
from lexbench.runner.systems import System, encoded_leaves, model_name, trained_members, weight_bytes
from lexbench.storage.artifact_folder import VECTORS_FILE, KeyFacts, notes_in
from lexbench.storage.code import code_facts
from lexbench.storage.drafting import Draft
from lexbench.storage.node import Node, Parts, Stored
from lexbench.storage.stopwatch import parts_of, read_measurement
from lexbench.trec.qrels import judge_notes
from lexbench.trec.runs import Filtered, Run, rising_notes
from lexbench.types import Kind, Query

_OF_VALUES = {"encodings": ("lexbench", "torch", "transformers"), "indexes": ("lexbench",)}  # packages that decide values
_SCORER = 3  # raise it when a measure's code or the form of a result changes


@dataclass(frozen=True)
class _Scored(Node[Result]):
    """The result of a system on a dataset."""

    data: Data
    system: System
    measures: tuple[str, ...]
    depth: int
    kind: ClassVar[str] = "results"

    def label(self) -> str:
        """Return the dataset and the name of the system."""
        return f"{self.data.dataset.contract.id} {self.system.name}"

    def facts(self) -> KeyFacts:
        """Return the judgements, and how they are used."""
        return {
            "contract": self.data.dataset.contract.stamp,
            "qrels": self.data.dataset.digests["qrels"],
            "measures": list(self.measures),
            "depth": self.depth,
            "scorer": _SCORER,
            **({"functions": keys} if (keys := function_keys(self.measures)) else {}),
            **code_facts("lexbench.runner.scoring", *(type(parse_measure(name)) for name in self.measures)),
        }

    def counts(self) -> Mapping[str, Node[Any]]:
        """Return the corpus and its counts of tokens, if a measure has a budget."""
        counts = {f"tokens {name}": TokenCounts(self.data.corpus, name) for name in tokenizers_of(self.measures)}
        return {"corpus": self.data.corpus, **counts} if counts else {}

    def scored(self, ranked: Filtered, parts: Parts) -> Result:
        """Score a run; the result lacks what its corpus, index and machine add."""
        dataset, contract = self.data.dataset, self.data.dataset.contract
        named = {"system": self.system.name, "dataset": contract.id, "contract": contract.stamp}
        names = list(tokenizers_of(self.measures))
        tokens = DocumentTokens(parts["corpus"].doc_ids, {name: parts[f"tokens {name}"] for name in names}) if names else None
        result = score_ranked(
            ranked.run, dataset.qrels, self.measures, named, protocol=contract.protocol, depth=self.depth, tokens=tokens
        )
        counts = msgspec.structs.replace(result.counts, self_matches=result.counts.self_matches + ranked.dropped)
        made = {"expression": self.system.alias_of, "recipe": dict(self.system.recipe), "sizes": _model_size(self.system)}
        seen = exposure_of(self.system, contract)
        made["tokenizers"] = {name: tokenizer_digest(name) for name in names}
        ranks = relevant_ranks(ranked.run, dataset.qrels) if is_own(contract) else {}
        return msgspec.structs.replace(result, counts=counts, digests=dataset.digests, exposure=seen, ranks=ranks, **made)

    def open(self, stored: Stored | None, parts: Parts) -> Result:
        """Return the result, which may have been made under another name, or with an older catalogue."""
        assert stored is not None
        found = read_stored(stored.folder / "result.json", self.data.dataset.qrels)
        seen = exposure_of(self.system, self.data.dataset.contract)
        named = {"system": self.system.name, "expression": self.system.alias_of}
        sizes = found.sizes | _model_size(self.system)
        return msgspec.structs.replace(found, **named, measured=stored.measured, exposure=seen, sizes=sizes)


@dataclass(frozen=True)
class ScoredRun(_Scored):
    """The result of a system's run; *chosen* are notes on weights that were chosen for it."""

    chosen: tuple[Note, ...] = ()

    @property
    def _search(self) -> Search:
        return Search(self.data.corpus, self.system.retriever)

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return the run and the corpus; passages; and approximate searches with the vectors that exact search needs."""
        parts: dict[str, Node[Any]] = {"run": SystemRun(self.data, self.system, self.depth), "corpus": self.data.corpus}
        parts |= self.counts()
        parts |= {f"passages {number}": corpus for number, corpus in enumerate(_passages(self._search))}
        for number, (one, leaf) in enumerate(approximate_searches(self._search)):
            parts |= {f"search {number}": one, f"vectors {number}": CorpusVectors(one.corpus, leaf.encoder)}
        return parts

    def facts(self) -> KeyFacts:
        """Return also the notes: the same run with weights that were typed is another result, without a note on a choice."""
        return {**super().facts(), **({"chosen": [note.text for note in self.chosen]} if self.chosen else {})}

    def make(self, draft: Draft, parts: Parts) -> None:
        """Score the run, and collect the notes."""
        data, corpus = self.data, parts["corpus"]
        with draft.watch.time("score"):
            ranked: Filtered = parts["run"]
            result, wanted = self.scored(ranked, parts), min(self.depth, len(corpus) - data.drops_self_matches)
            lines = [
                *self.chosen,
                *noted("documents", notes_in(corpus.path)),
                *judgement_notes(data.dataset, self.measures),
                *noted("documents", data_notes(self._search, data.dataset, corpus)),
                *model_notes(self.system, data.dataset.contract.id),
                *candidate_notes(self.system, data.dataset, ranked.run),
                *short_list_notes(self.system, wanted, ranked.run),
                *(note for note in result.notes if note.kind == "too good"),
            ]
            counts = msgspec.structs.replace(
                result.counts, documents=len(corpus), judged_absent=data.dataset.check_corpus(corpus)
            )
        recalls = [  # not while scoring is timed
            recall_of_exact(leaf, parts[f"search {number}"], parts[f"vectors {number}"], data.dataset.queries)
            for number, (_, leaf) in enumerate(approximate_searches(self._search))
        ]
        passages = [_passage_note(parts[name], len(corpus)) for name in parts if name.startswith("passages")]
        alone = isinstance(self.system.retriever, Encoded)
        result = msgspec.structs.replace(
            result,
            counts=counts,
            digests=result.digests | {"corpus": corpus.fingerprint},
            bound=any(note.kind == "bound" for note in self.chosen),
            notes=[*lines, *(note for note, _ in recalls), *dict.fromkeys(passages)],
            found={str(k): share for _, recall in recalls for k, share in recall.items()} if alone else {},
        )
        save(result, draft.folder / "result.json")


@dataclass(frozen=True)
class GivenRun(Node[Run]):
    """A run from a file, on a dataset. It opens as the run of the file, in canonical order."""

    data: Data
    retriever: RunFile

    def facts(self) -> KeyFacts:
        """Return the digest of the file."""
        return {"file": self.retriever.file_identity(self.data.dataset.contract.id)}

    def open(self, stored: Stored | None, parts: Parts) -> Run:
        """Read the file."""
        return self.retriever.read(self.data.dataset.contract.id)


@dataclass(frozen=True)
class ScoredFile(_Scored):
    """The result of a run file. Self-matches are dropped, lists are cut to the depth. *source* is a user's own dataset."""

    source: Source | None = None

    @property
    def _given(self) -> GivenRun:
        assert isinstance(self.system.retriever, RunFile)
        return GivenRun(self.data, self.system.retriever)

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return the run."""
        return {"run": self._given, **self.counts()}

    def facts(self) -> KeyFacts:
        """Return also the file, and the documents, whose ids are compared."""
        return {**super().facts(), **self._given.facts(), **({"documents": self.source.identity()} if self.source else {})}

    def make(self, draft: Draft, parts: Parts) -> None:
        """Score the run."""
        with draft.watch.time("score"):
            run = parts["run"]
            result = self.scored(Filtered(run, 0), parts)
            result = msgspec.structs.replace(result, notes=[*result.notes, *unknown_documents(run, self.source)])
        save(result, draft.folder / "result.json")


def _model_size(system: System) -> dict[str, int]:
    model = weight_bytes(system.retriever)
    return {"model": model} if model else {}


def completed(result: Result, run: Stored, read: Iterable[Stored], corpus: Stored) -> Result:
    """Return a result with what its run adds, the artifacts that its search *read*, and its corpus: sizes, counts, times."""
    read = list(read)
    built = sum(one.index_bytes for one in read)  # 0 if the index is elsewhere
    own = run.facts["system"].get("index")  # None if the system is made of others
    vectors = next(
        (one.folder / VECTORS_FILE for one in read if one.name == own and (one.folder / VECTORS_FILE).exists()), None
    )
    work = json.loads((run.folder / "work.json").read_bytes())  # empty if the retriever counts nothing
    notes = dict.fromkeys(line for one in sorted(read, key=lambda one: one.name) if one.kind == "indexes" for line in one.notes)
    found = [*noted("index", [*notes, *_older_parts(run)]), *_work_notes(work, result.counts.queries)]
    return msgspec.structs.replace(
        result,
        notes=[*result.notes, *found],
        sizes=result.sizes | ({"index": built} if built else {}) | {"corpus": corpus.bytes},
        vectors=msgspec.json.decode(vectors.read_bytes(), type=VectorSizes) if vectors else None,
        work=_search_work(work, result.counts.documents or 1) if "postings" in work else None,
        measured=msgspec.structs.replace(run.measured, seconds=result.measured.seconds, resumed=result.measured.resumed),
    )


def _older_parts(run: Stored) -> Iterator[str]:
    """Yield a line for each kind of artifact that a run was made from with other packages, or on another machine."""
    own, found = run.measured, dict[str, dict[str, None]]()
    for folder in parts_of(run.folder):
        made, kind = read_measurement(folder), folder.parent.name
        pairs = [(name, made.versions.get(name), own.versions.get(name)) for name in _OF_VALUES.get(kind, ())]
        pairs += [("", made.machine.get(name), own.machine.get(name)) for name in ("processor", "system") if kind in _OF_VALUES]
        others = (f"{name} {fact}".strip() for name, fact, now in pairs if fact and fact != now)
        found.setdefault(kind, {}).update(dict.fromkeys(others))
    yield from (f"its {kind} were made earlier or elsewhere: {', '.join(facts)}" for kind, facts in found.items() if facts)


def _work_notes(work: Mapping[str, dict[str, float]], queries: int) -> Iterator[Note]:
    """Yield what the counts of a run show of the system and of its members: scores that never fall, and pairs that were cut."""
    means = {name: counts.get("mean", 0.0) for name, counts in work.items()}
    for name, mean in means.items():
        member = name.removesuffix(name.rpartition(": ")[2])  # e.g. "member 2: ", or "" for the system itself
        if name == f"{member}rises":
            steps = (round(count * queries) for count in (mean, means[f"{member}falls"]))
            yield from noted("run", (member + line for line in rising_notes(*steps)))
        if name == f"{member}{CUT_PAIRS}" and mean >= _FEW_PAIRS:
            yield from noted("model", [f"{member}its reranker cut {mean:,.2f} pairs per query to its maximum length"])


def _search_work(counts: Mapping[str, dict[str, float]], documents: int) -> SearchWork:
    postings = counts["postings"]
    return SearchWork(query_terms=counts["query_terms"], postings=postings, flops=postings["mean"] / documents)


# ---- notes of a result: facts that readers need to understand its scores ----------------------------------------------------


_FEW_PAIRS = 0.005  # per query, which would be shown as 0.00
_QUERIES = 200  # evenly spaced, searched exactly: the recall is then known to about .01
_DEPTHS = (10, 100)


def model_notes(system: System, dataset: str) -> list[Note]:
    """Return the notes of encoders and rerankers, and warnings about encoders that were trained on the tested queries."""
    said = (member.notes() for member in trained_members(system.retriever))
    every = (line for lines in said for line in ([lines] if isinstance(lines, str) else lines))  # a text has letters
    lines = [Note("model", visible(str(line))) for line in every]
    lines += [
        Note(
            "seen in training",
            f"{model_name(leaf.encoder)} was trained on the very queries that are scored, so it may do worse on others",
        )
        for leaf in encoded_leaves(system.retriever)
        if dataset in leaf.encoder.trained_on()
    ]
    return list(dict.fromkeys(lines))


def judgement_notes(dataset: Dataset, measures: Sequence[str]) -> list[Note]:
    """Return notes about the judgements: queries without relevant documents or text, thresholds, and the LLM judge."""
    place, textless = dataset.source.place("judgements"), dataset.topics.textless
    path = Path(place) if place else None
    lines = [*noted("judgements", dataset.source.judgement_notes()), *without_relevant(dataset.qrels)]
    lines += unstated_thresholds(dataset.qrels, measures, dataset.contract.stamp)
    if textless:
        line = f"{len(textless)} of {len(dataset.queries)} judged queries have no text, e.g. {textless[0]!r}"
        lines.append(Note("judgements", line))
    may_have_judges = path and not {".tsv", ".txt"}.isdisjoint(path.suffixes)
    return [*lines, *(noted("judge", judge_notes(path)) if path and may_have_judges else ())]


def candidate_notes(system: System, dataset: Dataset, run: Run) -> list[Note]:
    """Return the recall of the candidates of a pipeline or a reranked retriever; *run* has exactly the candidates.

    Continuous grades have no threshold that a recall could use.
    """
    if not system.retriever.candidates or dataset.qrels.continuous:
        return []
    recall = with_threshold(f"R@{system.retriever.candidates}", dataset.contract)
    mean = score_run(run, dataset.qrels, [recall]).means[recall]
    return [Note("candidates", f"the candidates that its first retriever found have {recall} {mean:.4f}")]


def short_list_notes(system: System, wanted: int, run: Run) -> list[Note]:
    """Return a note if a search system outside lexbench returned fewer documents than *wanted*."""
    short = int((np.diff(run.offsets) < wanted).sum()) if isinstance(system.retriever, ForeignRetriever) else 0
    line = f"it returned fewer than {wanted:,} documents for {short:,} of {len(run.query_ids):,} queries"
    return [Note("short lists", line)] if short else []


def approximate_searches(search: Search) -> Iterator[tuple[Search, Encoded]]:
    """Yield each search of dense or sparse vectors that is approximate, once, with its retriever."""
    seen = set()
    for one in searched(search):
        leaf = one.retriever
        if not (isinstance(one, Search) and isinstance(leaf, Encoded)) or leaf.engine.exact or leaf.engine.kind is Kind.MULTI:
            continue
        if (name := (str(leaf), one.corpus.label())) not in seen:
            seen.add(name)
            yield one, leaf


def recall_of_exact(
    leaf: Encoded, searcher: Searcher, stored: Encodings, queries: Sequence[Query]
) -> tuple[Note, dict[int, float]]:
    """Return a note and the recall of exact, by k, of an approximate search.

    A sample of the queries is encoded and searched again, and multiplied with all stored vectors, a shard in memory at a time.
    """
    from lexbench.engines.kernels.dense import overlap

    queries = queries[:: max(1, len(queries) // _QUERIES)][:_QUERIES]
    vectors = searcher.encode_queries(queries)
    hits = searcher.search(vectors, min(max(_DEPTHS), len(stored)))
    recall = overlap((leaf.as_documents(shard) for shard in stored.shards()), vectors, hits, _DEPTHS)
    found = " and ".join(f"{share:.3f} of the best {k}" for k, share in recall.items())
    line = f"{type(leaf.engine).__name__.lower()} finds {found} of exact search, on {len(queries)} of the queries"
    return Note("approximate search", line), recall


def _passages(search: Search) -> list[DerivedCorpus]:
    """Return each corpus of passages that *search* reads."""
    return [one.corpus for one in searched(search) if isinstance(one, Search) and isinstance(one.corpus, DerivedCorpus)]


def _passage_note(passages: StoredCorpus, documents: int) -> Note:
    """Return how many passages of how many documents there are."""
    counts = np.bincount(np.load(passages.path / DOCUMENTS), minlength=documents)
    return Note("index", f"{counts.sum():,} passages of {documents:,} documents are indexed, at most {counts.max():,} of one")
