"""What ranked lists show beside their scores: signs that a system did not work. `Result.unmeasured` judges them.

Scoring counts the signs, so that every command that reads stored results has them.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from lexbench.results import Lists, Result
from lexbench.trec.ids import bytes_of, lookup
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run

_TOP = 10  # documents of a list that are compared
_LONG = 5  # documents; fewer may rightly have one score
_BYTES = 8  # of the digest of a document's id


def list_facts(run: Run, qrels: Qrels) -> Lists:
    """Return what the lists of the judged queries show."""
    digests = np.zeros(len(run.table), f"S{_BYTES}")
    used, judged = np.unique(run.docs), np.unique(qrels.doc_ids)
    digests[used] = [hashlib.blake2b(name, digest_size=_BYTES).digest() for name in run.table[used].tolist()]
    listed, wanted, spans = hashlib.sha256(), min(_TOP, len(judged)), dict(run.spans())
    tops: Counter[bytes] = Counter()
    short = constant = 0
    for query in qrels.query_ids:
        entries = spans.get(query, slice(0, 0))
        documents, scores = digests[run.docs[entries]].tobytes(), run.scores[entries]
        listed.update(bytes_of(f"{query}\n{len(scores)}\n"))
        listed.update(documents)
        if len(scores):
            tops[documents[: _TOP * _BYTES]] += 1
            short += len(scores) < wanted
            constant += len(scores) >= _LONG and bool(scores[0] == scores[-1])  # scores descend
    return Lists(
        short=short,
        same=max(tops.values(), default=0),
        constant=constant,
        judged=len(judged),
        found=int(np.count_nonzero(lookup(run.table[used], judged) >= 0)),
        sha256=listed.hexdigest(),
    )


def list_notes(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line for each result with mostly short lists, and for each group of systems with the same lists."""
    for result in results:
        lists, queries = result.lists, result.counts.queries
        named = result.unmeasured or any(note.kind == "short lists" for note in result.notes)
        if lists and lists.short > queries / 2 and not named:
            few = f"fewer than {min(_TOP, lists.judged)} documents"
            yield f"{result.system} on {result.dataset}: {lists.short:,} of {queries:,} queries got {few}"
    yield from _same_lists(results)


def _same_lists(results: Iterable[Result]) -> Iterator[str]:
    """Yield a line for each group of systems that found the same documents in the same order for all queries of a dataset."""
    groups: dict[tuple[str, str], list[str]] = {}
    for result in results:
        if result.lists and result.lists.sha256 and not result.unmeasured:
            groups.setdefault((result.dataset, result.lists.sha256), []).append(result.system)
    for (dataset, _), systems in groups.items():
        if len(systems) > 1:
            who = f"{', '.join(systems[:-1])} and {systems[-1]}"
            yield f"{dataset}: {who} found the same documents in the same order; what differs between them changed nothing"
