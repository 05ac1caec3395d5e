"""A dataset as the pipeline uses it: its judged queries and judgements in memory, its corpus still at the source."""

from dataclasses import dataclass
from functools import cached_property

from lexbench.datasets.checks import Topics, absent, check, read_topics
from lexbench.datasets.contract import Contract, Expected
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.find import find
from lexbench.datasets.source import Source
from lexbench.trec.runs import Qrels
from lexbench.types import Query


@dataclass(frozen=True)
class Dataset:
    """What a contract names, found and checked."""

    contract: Contract
    source: Source
    topics: Topics

    @property
    def queries(self) -> tuple[Query, ...]:
        """The judged queries, by ascending bytes of the id."""
        return self.topics.queries

    @cached_property
    def qrels(self) -> Qrels:
        """The judgements as arrays."""
        return Qrels.from_judgements(self.topics.judgements)

    @property
    def queries_sha256(self) -> str:
        """Digest of the judged queries."""
        return self.topics.found.queries_sha256 or ""

    @property
    def qrels_sha256(self) -> str:
        """Digest of the judgements."""
        return self.topics.found.qrels_sha256 or ""

    def check_corpus(self, corpus: StoredCorpus) -> int:
        """Return how many judged documents *corpus* lacks; ContractMismatch where it is not what the contract expects."""
        lacking = len(absent(self.topics.judgements, corpus.doc_ids))
        if not self.contract.source.varies:
            check(self.contract, Expected(documents=len(corpus), corpus_sha256=corpus.fingerprint, absent=lacking))
        return lacking


def open_dataset(contract: Contract, source: Source | None = None) -> Dataset:
    """Return the dataset from *source* (default: wherever it is found), its queries and judgements read and checked.

    MissingData or ContractMismatch, in one line.
    """
    source = source or find(contract)
    topics = read_topics(source)
    check(contract, topics.found)
    return Dataset(contract, source, topics)
