"""Judgements by plug-in judges, e.g. language models, in separate qrels files that cannot be taken for official ones.

    FILE              TREC qrels; in place of 0 or Q0, every line has the judge's stamp, `judge:` and a digest
    FILE.stamp.json   the judge with its settings, its server and its prompt; the date; the dataset
    FILE.answers      one line of JSON per answer; with them an interrupted judging continues

The stamp stays with a line wherever it is copied: trec_eval and other tools ignore that column, and every result says how many
of its judgements have a stamp. A file that joins such lines with official qrels gets a note.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench import registry
from lexbench.artifacts.describe import describe
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset
from lexbench.display.progress import Progress
from lexbench.errors import CannotStart, CommandError, LexbenchError, NotationError, echoed
from lexbench.notation import parse
from lexbench.plugins import Judge
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import digest
from lexbench.trec.ids import encode, lookup
from lexbench.trec.qrels import JUDGE, Qrels, judge_stamps, write_qrels
from lexbench.trec.runs import Run
from lexbench.types import Document, Judgement, Verdict

ANSWERS, STAMP = ".answers", ".stamp.json"  # appended to the name of the qrels file


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of a judge with the official judgements on relevance, over the documents that both have judged."""

    both: int = 0  # relevant for both
    judge: int = 0  # relevant only for the judge
    official: int = 0  # relevant only in the official judgements
    neither: int = 0

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa; None without documents, or if chance alone would agree on all."""
        return _kappa(np.array([[self.both, self.judge], [self.official, self.neither]]), 1 - np.eye(2))


def _kappa(counts: NDArray[Any], weights: NDArray[Any]) -> float | None:
    """Return Cohen's kappa of two judges; None without documents, or if chance alone would agree on all.

    *counts* (grades, grades) are documents by the grades of both judges, *weights* (grades, grades) how much each pair of
    grades differs.
    """
    by_chance = np.outer(counts.sum(1), counts.sum(0)) / max(float(counts.sum()), 1)
    expected = float((weights * by_chance).sum())
    return 1 - float((weights * counts).sum()) / expected if expected else None


class JudgingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a judging. They are written to its stamp file."""

    stamp: str
    judge: dict[str, Any]  # its description: plug-in, settings, the server's description of itself, digest of the prompt
    date: str  # UTC, ISO 8601
    dataset: str
    contract: str
    lists: list[str]  # systems whose first documents were judged
    depth: int
    grades: dict[str, int]  # counts by grade
    unreadable: int  # answers without a grade: their documents stay unjudged
    agreement: Agreement
    notes: list[str] = []


def documents_to_judge(
    runs: Mapping[str, Run], queries: Iterable[str], depth: int, known: Collection[tuple[str, str]] = ()
) -> dict[str, list[str]]:
    """Return the ids of the documents to judge for each of *queries*: the first *depth* of every run, each once.

    *queries* are ids. Documents that are judged already, *known* as (query, document), are left out.
    """
    found: dict[str, dict[str, None]] = {query: {} for query in queries}
    for run in runs.values():
        cut = run.cut(depth)
        for query, entries in cut.spans():
            if query in found:
                found[query] |= dict.fromkeys(doc for doc in cut.doc_ids(entries) if (query, doc) not in known)
    return {query: list(documents) for query, documents in found.items() if documents}


def judge(text: str) -> Judge:
    """Return the judge that *text* names, with its settings. Raises CommandError if *text* is not one."""
    try:
        made: Judge = registry.create("judges", parse(text).head)
    except NotationError:
        example = 'endpoint_judge(url="http://localhost:8000")'
        raise CommandError(f"{echoed(text)} is not a valid judge; write e.g. {example}; see: lexbench list judges") from None
    return made


def judge_documents(  # noqa: PLR0913 - what is judged, by whom, and where it goes
    judge: Judge,
    wanted: Mapping[str, Sequence[str]],
    dataset: Dataset,
    corpus: StoredCorpus,
    path: Path,
    *,
    lists: Iterable[str],
    depth: int,
    progress: Progress,
) -> JudgingRecord:
    """Let *judge* grade the documents *wanted* of each query; write the qrels file *path* and its two companions.

    Documents that the file of answers already has from the same judge are not judged again. Raises CannotStart if there is
    nothing to judge or *path* is another judge's, LexbenchError if no answer has a grade.
    """
    recipe = describe(judge)
    stamp = f"{JUDGE}{digest(recipe)}"
    if not wanted:
        raise CannotStart("there is nothing to judge: the lists have no documents for judged queries, or all are judged")
    if path.exists() and set(judge_stamps(path)) != {stamp}:
        raise CannotStart(f"{path} exists and is not of this judge ({stamp}); name another file with --output")
    answers = Answers(path.with_name(path.name + ANSWERS), stamp)
    ask(judge, wanted, dataset, corpus, answers, progress)
    total = sum(map(len, wanted.values()))
    grades = {(query, name): answers.grades[query, name] for query, documents in wanted.items() for name in documents}
    given = {pair: grade for pair, grade in grades.items() if grade is not None}
    if not given:
        raise LexbenchError(f"none of {total:,} answers has a grade; the answers are in {answers.path}")
    write_qrels(Qrels.from_judgements(Judgement(*pair, grade) for pair, grade in given.items()), path, stamp)
    judging = JudgingRecord(
        stamp=stamp,
        judge=recipe,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        dataset=dataset.contract.id,
        contract=dataset.contract.stamp,
        lists=list(lists),
        depth=depth,
        grades={str(grade): count for grade, count in sorted(Counter(given.values()).items())},
        unreadable=len(grades) - len(given),
        agreement=agreement(given, dataset.qrels, dataset.contract.relevance.default, judge.relevant),
    )
    atomic.write_json(path.with_name(path.name + STAMP), judging)
    return judging


def ask(
    judge: Judge,
    wanted: Mapping[str, Sequence[str]],
    dataset: Dataset,
    corpus: StoredCorpus,
    answers: "Answers",
    progress: Progress,
) -> None:
    """Let *judge* grade the documents *wanted* of each query that *answers* do not have, and add its answers."""
    texts = {query.query_id: query.text for query in dataset.queries}
    progress.start(dataset.contract.id, "judge", sum(map(len, wanted.values())), "documents")
    for query, documents in wanted.items():
        left = [name for name in documents if (query, name) not in answers.grades]
        progress.advance(len(documents) - len(left))
        answers.add(query, left, judge.judge(texts[query], list(_documents(dataset, corpus, left))) if left else [])
        progress.advance(len(left))
    progress.end()


def _documents(dataset: Dataset, corpus: StoredCorpus, names: Sequence[str]) -> Iterator[Document]:
    """Yield the documents with these ids. Raises CannotStart if one is not in the corpus."""
    positions = lookup(corpus.doc_ids, encode(names))
    if (missing := np.flatnonzero(positions < 0)).size:
        name = names[int(missing[0])]
        raise CannotStart(f"no document {name!r} in {dataset.contract.corpus}: the run is of another corpus")
    for position in positions.tolist():
        yield from corpus.documents(position, position + 1)


class Answers:
    """The answers of a judge so far, and their file."""

    def __init__(self, path: Path, stamp: str) -> None:
        """Read the answers of the judge with that *stamp*; a truncated last line is ignored."""
        self.path, self.stamp = path, stamp
        self.grades: dict[tuple[str, str], int | None] = {}  # None: no grade, or taken back; in the order given
        for row in atomic.read_rows(path):
            with suppress(TypeError, KeyError):  # a damaged line: the document is judged again
                if row["judge"] == stamp:
                    self._take(row)

    def _take(self, row: Mapping[str, Any]) -> None:
        pair, grade = (row["query"], row["document"]), row["grade"]
        if not (all(isinstance(one, str) for one in pair) and (grade is None or type(grade) is int)):
            raise TypeError
        self.grades.pop(pair, None)  # the last one given comes last
        self.grades[pair] = grade

    def add(self, query: str, documents: Sequence[str], verdicts: Sequence[Verdict]) -> None:
        """Add the verdicts on *documents*, and flush them to the disk."""
        if len(verdicts) != len(documents):
            raise LexbenchError(f"the judge gave {len(verdicts)} verdicts on {len(documents)} documents of query {query!r}")
        rows = [
            {"query": query, "document": name, "grade": verdict.grade, "answer": verdict.answer, "judge": self.stamp}
            for name, verdict in zip(documents, verdicts, strict=True)
        ]
        atomic.append_rows(self.path, rows)
        for row in rows:
            self._take(row)


class GradeAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of two judges on grades, over the documents that both have judged."""

    pairs: int
    same: float  # share of equal grades
    kappa: float | None  # Cohen's; None if chance alone would agree on all
    weighted: float | None  # Cohen's with quadratic weights: two grades apart counts four times as much as one
    by_grade: dict[str, float]  # for each grade, the share of both judges' uses in which the other one agrees

    def line(self) -> str:
        """Return the agreement in one line."""
        named = (("Cohen's kappa", self.kappa), ("with quadratic weights", self.weighted))
        kappas = [f"{name} {value:.2f}" for name, value in named if value is not None]
        grades = ", ".join(f"{grade}: {share:.0%}" for grade, share in self.by_grade.items())
        return f"{self.pairs:,} documents judged by both, {self.same:.0%} alike; {', '.join(kappas)}; alike by grade {grades}"


def grade_agreement(one: Mapping[Any, int], other: Mapping[Any, int]) -> GradeAgreement | None:
    """Return how far two judges agree; None if no document was judged by both."""
    both = [(grade, other[pair]) for pair, grade in one.items() if pair in other]
    if not both:
        return None
    first, second = np.array(both).T
    grades = np.unique(both)
    table = (first[:, None, None] == grades[:, None]) & (second[:, None, None] == grades)
    counts = table.sum(0)
    apart = np.subtract.outer(grades, grades)
    uses = counts.sum(0) + counts.sum(1)
    return GradeAgreement(
        pairs=len(both),
        same=float(np.trace(counts) / len(both)),
        kappa=_kappa(counts, apart != 0),
        weighted=_kappa(counts, apart**2),
        by_grade={str(grade): float(2 * counts[at, at] / uses[at]) for at, grade in enumerate(grades)},
    )


def agreement(given: Mapping[tuple[str, str], int], qrels: Qrels, relevant: int, by_judge: int) -> Agreement:
    """Return how far *given* grades agree with *qrels*; *by_judge* and *relevant* are their lowest relevant grades."""
    counts: Counter[tuple[bool, bool]] = Counter()
    for row in qrels.judgements():
        if (pair := (row.query_id, row.doc_id)) in given:
            counts[given[pair] >= by_judge, row.grade >= relevant] += 1
    return Agreement(
        both=counts[True, True], judge=counts[True, False], official=counts[False, True], neither=counts[False, False]
    )
