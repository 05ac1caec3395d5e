"""A collection in the making, in a folder: documents, queries, a pool of ranked lists, judgements, and at the end a contract.

    corpus.jsonl, queries.jsonl     documents and queries; of a made query also its document and what it gives away
    pool/0.run, ...                 the first documents of each system, TREC runs; their union is judged
    judgements/NAME.jsonl           one line per judgement, in the order given; a grade of null takes one back
    qrels/test.tsv, contract.toml   what `lexbench run dataset` reads
    collection.json                 the facts of the folder

Each step that is finished is not repeated, so the same command continues where it was interrupted.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import msgspec
import numpy as np
from filelock import BaseFileLock, Timeout

from lexbench.analysis.judgements import LeftOut, leave_one_out
from lexbench.artifacts.describe import describe
from lexbench.artifacts.graph import Graph
from lexbench.collecting.documents import read_documents
from lexbench.collecting.made_queries import COPIED, REAL, Leak, Writer, leak, made_queries, sampled_documents
from lexbench.contracts import Contract, Defect, Expected, Judging, Relevance, SourceFacts, TextPolicy
from lexbench.datasets.dataset import Dataset, Topics, judgement_facts
from lexbench.datasets.digests import drawn_number, queries_sha256
from lexbench.datasets.location import CONTRACT
from lexbench.datasets.records import read_queries
from lexbench.datasets.sources.files import Files
from lexbench.datasets.stated_columns import NONE, Columns, stated_columns
from lexbench.errors import CannotStart, CommandError, InvalidFile
from lexbench.notation import parse
from lexbench.plugins import Judge
from lexbench.runner.judging import Answers, GradeAgreement, ask, documents_to_judge, grade_agreement
from lexbench.runner.plan import systems_of
from lexbench.runner.search import Data, SystemRun, data_of
from lexbench.runner.systems import resolve
from lexbench.storage import atomic, locks
from lexbench.storage.artifact_folder import digest
from lexbench.storage.reading import decode_json, read_toml
from lexbench.storage.rows import text_lines
from lexbench.storage.toml import toml
from lexbench.trec.qrels import JUDGE, Qrels, is_table, write_beir_qrels, write_qrels
from lexbench.trec.runs import Run, read_run, write_run
from lexbench.types import Judgement, Query

GRADES = {  # the scale of TREC's Deep Learning tracks, which `endpoint_judge` uses as well
    0: "has nothing to do with the query",
    1: "is related, but does not answer it",
    2: "answers it partly, or among other things",
    3: "is about it and answers it exactly",
}
MEASURE = "nDCG@10"
_RELEVANT = 2  # the lowest grade that answers the query
_DEPTH = 1000  # of the stored runs, the default of `run dataset`
_FACTS, _CORPUS, _QUERIES, _WRITTEN = "collection.json", "corpus.jsonl", "queries.jsonl", "writer.jsonl"
_QRELS = "qrels/test.tsv"
_MODEL = "model-"  # begins the names of files with the judgements of models
_MADE = 50  # queries

Pair = tuple[str, str]  # ids of a query and a document


class CollectionFacts(msgspec.Struct, kw_only=True):
    """The facts of a collection."""

    source: str  # the name of the folder or file of the documents
    columns: dict[str, str] = {}  # stated for its tables
    documents: int
    queries_from: str = ""
    queries: int = 0
    shared: float | None = None  # of made queries: see `Leak`, means
    run: float | None = None
    left_out: int = 0  # queries that copied their documents
    asked: list[str] = []  # systems for the pool, as typed
    systems: dict[str, str] = {}  # those in the pool: expressions by name
    depth: int = 0
    corpus_sha256: str = ""


class CollectionJudgements(msgspec.Struct, frozen=True, kw_only=True):
    """The judgements of a collection so far."""

    by: str  # whose judgements the qrels are
    judged: int
    pool: int
    grades: dict[str, int]
    agreement: dict[str, GradeAgreement]  # with each other judge


class Collection:
    """The folder of a collection. *facts* are None before its documents were read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        facts = path / _FACTS
        self.facts: CollectionFacts | None = decode_json(facts, CollectionFacts) if facts.exists() else None

    @classmethod
    def begin(cls, path: Path, source: Path, columns: Mapping[str, str] = MappingProxyType({})) -> Self:
        """Return the collection in the folder *path*, with the documents of *source*, whose tables have these *columns*.

        Raises CommandError if the folder has documents of another source or by other columns.
        """
        stated = stated_columns(columns)
        found = cls(path)
        if found.facts is None:
            path.mkdir(parents=True, exist_ok=True)
            if others := [file.name for file in path.iterdir() if file.suffix != atomic.UNFINISHED and file.name != _CORPUS]:
                raise CommandError(f"{path} has other files in it, e.g. {others[0]}; name a new folder with --output")
            count = 0
            with atomic.writer(path / _CORPUS) as file:
                for text in read_documents(source, stated["documents"]):
                    file.write(json.dumps({"_id": text.text_id, "title": text.title, "text": text.text}).encode() + b"\n")
                    count += 1
            found._save(CollectionFacts(source=source.resolve().name, columns=dict(columns), documents=count))
        elif found.facts.source != source.resolve().name:
            raise CommandError(f"{path} has the documents of {found.facts.source}; name another folder with --output")
        elif columns and found.facts.columns != columns:
            raise CommandError(f"{path} was made with other columns; leave out --columns, or name another folder with --output")
        return found

    def _save(self, facts: CollectionFacts) -> None:
        self.facts = facts
        atomic.write_json(self.path / _FACTS, facts)

    @property
    def known(self) -> CollectionFacts:
        """The facts. Raises CannotStart if there are none."""
        if self.facts is None:
            raise CannotStart(f"{self.path} is no collection; to make one, type: lexbench collect DOCUMENTS")
        return self.facts

    # ---- queries

    def add_queries(self, given: Path | None, count: int | None, writer: Writer | None) -> None:
        """Add queries if there are none: *count* of a file (default: all), made ones (50), or ones that *writer* writes."""
        facts = self.known
        if facts.queries:
            return
        rows: list[dict[str, Any]] = []
        if given:
            facts.queries_from = given.name
            rows = [
                {"_id": f"q{number}", "text": text}
                for number, text in _read_queries(given, count, stated_columns(facts.columns)["queries"])
            ]
        else:
            facts.queries_from = f"written by {writer.model or writer.url}" if writer else "made from the documents"
            texts = sampled_documents(read_documents(self.path / _CORPUS))
            whole = {text.text_id: text.whole for text in texts}
            made = writer.queries(texts, self.path / _WRITTEN) if writer else made_queries(texts)
            leaks: list[Leak] = []
            while len(rows) < (count or _MADE) and (query := next(made, None)):
                one = leak(query.text, whole[query.text_id])
                if one.run < COPIED:
                    leaks.append(one)
                    origin = {"kind": query.kind, "document": query.text_id, **one._asdict()}
                    rows.append({"_id": f"q{len(leaks)}", "text": query.text, "metadata": origin})
                facts.left_out += one.run >= COPIED
            if leaks:
                facts.shared, facts.run = (float(value) for value in np.mean(leaks, axis=0))
        if not rows:
            raise CannotStart("there are no queries; give some: --queries FILE, or let a model write them: --writer URL")
        atomic.write_text(self.path / _QUERIES, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        facts.queries = len(rows)
        self._save(facts)

    @cached_property
    def queries(self) -> dict[str, str]:
        """The texts of the queries by id."""
        return {query.query_id: query.text for query in read_queries(self.path / _QUERIES)}

    # ---- the pool

    def data(self) -> Data:
        """Return the documents and the queries as a dataset."""
        contract = self._contract()
        queries = tuple(Query(*item) for item in sorted(self.queries.items(), key=lambda item: item[0].encode()))
        source = Files(contract, (self.path / _CORPUS,), (self.path / _QUERIES,), (self.path / _QRELS,))
        return data_of(Dataset(contract, source, Topics(queries, (), 0)))

    def add_to_pool(self, systems: Sequence[str], depth: int, graph: Graph) -> None:
        """Add the first *depth* documents of each of *systems* that the pool lacks. Raises CommandError for another depth."""
        facts = self.known
        if facts.depth not in {0, depth}:
            raise CommandError(f"the pool has depth {facts.depth}; type -k {facts.depth}, or name a new folder with --output")
        every = list(dict.fromkeys([*facts.asked, *systems]))
        found, facts.asked, facts.depth = systems_of(every), every, depth
        self._save(facts)
        data = self.data()
        for one in found:
            if one.name not in facts.systems:
                run = graph.open(SystemRun(data, one, _DEPTH)).run
                (self.path / "pool").mkdir(exist_ok=True)
                write_run(run.cut(depth), self.path / "pool" / f"{len(facts.systems)}.run")
                facts.systems[one.name] = one.expression or one.name
                facts.corpus_sha256 = graph.open(data.corpus).fingerprint
                self._save(facts)

    @property
    def runs(self) -> dict[str, Run]:
        """The lists of the pool by system."""
        return {name: read_run(self.path / "pool" / f"{number}.run") for number, name in enumerate(self.known.systems)}

    @cached_property
    def pool(self) -> dict[str, list[str]]:
        """The documents to judge by query, in an order that does not depend on the systems."""
        pool = documents_to_judge(self.runs, self.queries, self.known.depth)
        return {query: sorted(pool[query], key=lambda doc: drawn_number(doc, query)) for query in self.queries if query in pool}

    # ---- judgements

    def lock(self, name: str) -> BaseFileLock:
        """Lock the judgements of a person. Raises CannotStart if another process adds to them."""
        try:
            return locks.taken(self.answers(name).path.with_suffix(".lock"))
        except Timeout:
            what = f"{name} judges {self.path} in another process; end that one"
            raise CannotStart(f"{what}, or give another person's name: --name NAME") from None

    def answers(self, name: str, stamp: str = "") -> Answers:
        """Return the judgements of the judge *name*, and their file. Raises CommandError if no person can have that name."""
        if not re.fullmatch(r"\w[\w.@-]{0,60}", name) or (name.startswith(_MODEL) and not stamp):
            raise CommandError(f"{name!r} cannot be a person's name here: write letters, digits and '-', not {_MODEL!r} first")
        (self.path / "judgements").mkdir(exist_ok=True)
        return Answers(self.path / "judgements" / f"{name}.jsonl", stamp or name)

    def ask_judge(self, judge: Judge, graph: Graph) -> None:
        """Let a plug-in judge grade the pool; documents that it has graded are not sent again."""
        recipe = describe(judge)
        stamp = f"{JUDGE}{digest(recipe)}"
        answers = self.answers(stamp.replace(JUDGE, _MODEL), stamp)
        atomic.write_json(answers.path.with_suffix(".json"), recipe)
        data = self.data()
        ask(judge, self.pool, data.dataset, graph.open(data.corpus), answers, graph.progress)

    def judges(self) -> dict[str, dict[Pair, int]]:
        """Return the grades of each judge with judgements: people before models, then by their number."""
        pool = {(query, doc) for query, docs in self.pool.items() for doc in docs}
        found = {}
        for file in (self.path / "judgements").glob("*.jsonl"):
            stamp = file.stem.replace(_MODEL, JUDGE, 1)
            grades = {pair: grade for pair, grade in Answers(file, stamp).grades.items() if grade is not None and pair in pool}
            if grades:
                found[stamp] = grades
        return dict(sorted(found.items(), key=lambda item: (item[0].startswith(JUDGE), -len(item[1]), item[0])))

    def publish(self, by: str = "") -> CollectionJudgements | None:
        """Write qrels and contract with the judgements *by* one judge (default: the first of `judges`); None without any."""
        judges = self.judges()
        if not judges:
            return None
        if by and by not in judges:
            raise CommandError(f"no judgements by {by!r}; there are those by: {', '.join(judges)}")
        by = by or next(iter(judges))
        grades = judges[by]
        judgements = [Judgement(*pair, grade) for pair, grade in grades.items()]
        (self.path / "qrels").mkdir(exist_ok=True)
        if by.startswith(JUDGE):
            write_qrels(Qrels.from_judgements(judgements), self.path / _QRELS, by)
        else:
            write_beir_qrels(Qrels.from_judgements(judgements), self.path / _QRELS)
        judged = CollectionJudgements(
            by=by,
            judged=len(grades),
            pool=sum(map(len, self.pool.values())),
            grades=judgement_facts(judgements).grades,
            agreement={name: one for name, others in judges.items() if name != by and (one := grade_agreement(grades, others))},
        )
        contract = self._contract(judgements, judged)
        path = self.path / CONTRACT
        if path.exists():
            old = read_toml(path, Contract)
            contract = msgspec.structs.replace(contract, version=old.version + (old.expected != contract.expected))
        atomic.write_text(path, toml(msgspec.to_builtins(contract), empty=False))
        return judged

    def losses(self, by: str) -> list[LeftOut]:
        """Return what each system of the pool would lose without its own judgements *by* a judge; [] for one system.

        An ensemble contributes few documents that its members do not, so its documents count as theirs.
        """
        facts, runs = self.known, self.runs
        if len(runs) == 1:
            return []
        qrels = Qrels.from_judgements(Judgement(*pair, grade) for pair, grade in self.judges()[by].items())
        single = [name for name, expression in facts.systems.items() if not resolve(parse(expression)).members]
        contributors = single if len(single) > 1 else list(runs)
        return leave_one_out(runs, qrels, MEASURE, contributors, depth=facts.depth, relevant=_RELEVANT)

    # ---- the contract

    def _contract(self, judgements: Sequence[Judgement] = (), judged: CollectionJudgements | None = None) -> Contract:
        """Return the contract of the collection; before anybody judged, one that expects nothing."""
        facts, expected = self.known, Expected()
        name, pool = "-".join(self.path.resolve().name.split()), tuple(facts.systems)
        if judged:
            texts = queries_sha256(Query(query, self.queries[query]) for query in {row.query_id for row in judgements})
            corpus = {"documents": facts.documents, "absent": 0, "corpus_sha256": facts.corpus_sha256}
            expected = msgspec.structs.replace(judgement_facts(judgements), queries_sha256=texts, **corpus)
        return Contract(
            schema=1,
            id=name,
            version=1,
            name=name,
            description=f"Documents of {Path(facts.source).name}; queries: {facts.queries_from}.",
            corpus=name,
            source=SourceFacts(loader="files"),
            text=TextPolicy(document="title_text"),
            relevance=Relevance(default=_RELEVANT),
            expected=expected,
            judging=Judging(by=judged.by, pool=pool, contributors=pool, depth=facts.depth, source=_FACTS) if judged else None,
            defects=tuple(Defect(what, _FACTS) for what in self.limits(judged)) if judged else (),
        )

    def limits(self, judged: CollectionJudgements) -> list[str]:
        """Return the known limits of the collection, one line each."""
        facts, found = self.known, []
        if judged.judged < judged.pool:
            found.append(f"{judged.judged:,} of {judged.pool:,} documents of the pool are judged; others count as irrelevant.")
        if facts.shared is not None:
            found.append(f"{leak_line(facts)}.")
        losses = [row.mean - row.mean_without for row in self.losses(judged.by) if row.mean_without is not None]
        if losses:
            found.append(
                f"Without its own judgements a system of the pool loses {np.mean(losses):.4f} {MEASURE} on average, "
                f"{max(losses):.4f} at most. So may a system outside the pool."
            )
        found += [f"{judged.by} and {name}: {one.line()}." for name, one in judged.agreement.items()]
        if not judged.agreement:
            found.append("One judge only; how far a second one would agree is unknown.")
        return found


def leak_line(facts: CollectionFacts) -> str:
    """Return how much made queries give away, compared with real queries, as a sentence without its full stop."""
    name, shared, run = REAL
    return (
        f"Queries share {facts.shared:.0%} of their terms with the documents that they were made from, {facts.run:.1f} words "
        f"in a row (real queries of {name}: {shared:.0%}, {run:.1f} words), so systems that match words are favoured"
    )


def _has_plain_lines(path: Path) -> bool:
    """Return whether the lines of a file are texts, or texts with counts, and no table or topics."""
    if is_table(path) or ".xml" in path.suffixes:
        return False
    first = next((line.strip() for _, line in text_lines(path) if line.strip()), "")
    return not first.startswith("<") and ("\t" not in first or first.rpartition("\t")[2].isdecimal())


def _text_and_count(line: str) -> tuple[str, int]:
    """Return the query of a line, and its count in a log."""
    text, _, times = line.rpartition("\t")
    return (text.strip(), int(times)) if text and times.isdecimal() else (line.replace("\t", " "), 1)


def _read_queries(path: Path, count: int | None, columns: Columns = NONE) -> list[tuple[int, str]]:
    """Return the line number and text of *count* queries of a file (default: all), one per line, each once.

    In a log, `query<TAB>count`, a query is drawn with a probability that grows with its count. Tables, e.g. `id<TAB>query`, and
    topics of TREC are read as those of a dataset. Raises InvalidFile for a file without queries.
    """
    found: dict[str, tuple[int, int]] = {}
    texts = ((number, query.text.strip(), 1) for number, query in enumerate(read_queries(path, stated=columns), 1))
    plain = ((number, *_text_and_count(line.strip())) for number, line in text_lines(path))
    for number, text, times in plain if _has_plain_lines(path) else texts:
        if text:
            first, before = found.get(text, (number, 0))
            found[text] = first, before + times
    if not found:
        raise InvalidFile(f"{path} has no queries; write one per line")
    order = sorted(found, key=lambda text: drawn_number(text, "drawn") ** (1 / max(found[text][1], 1e-9)), reverse=True)
    return sorted((found[text][0], text) for text in order[:count])
