"""The base classes of plug-ins: what each kind must define, and what it may override.

A plug-in is a frozen dataclass that inherits from one of these classes and whose fields are its settings:

    @dataclass(frozen=True)
    class OneByOne(Engine):
        kind: ClassVar[Kind] = Kind.DENSE
        exact: ClassVar[bool] = True

        def build(self, shards, path): ...
        def open(self, path): ...

The kinds are Encoder, Engine, Executor, Judge, Measure, Reranker, Retriever, Source and Transform. Required methods come first
in each class and raise NotImplementedError; every other method and class attribute has a default. Engines open an `Index`,
retrievers a `Searcher` or a `Rescorer`.

lexbench finds its own plug-ins by file name: `lexbench/engines/impact.py` has the class `Impact`. Another package registers
its own with an entry point:

    [project.entry-points."lexbench.engines"]
    one_by_one = "my_package.one_by_one:OneByOne"

`lexbench.testing` has the tests that a plug-in must pass. Objects given to `lexbench.run` need not inherit from anything:
`lexbench.runner.adapters` wraps them.

This is version 2 of the interface (`API_VERSION`). Within a version no required method is added, and no name, default or
meaning changes. The changelog names what will be removed one minor release before it is.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass
from pathlib import Path
from sys import maxsize
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self
from urllib.parse import SplitResult

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.fusion import ScoreMatrix
from lexbench.contracts import Contract
from lexbench.display.progress import Progress
from lexbench.errors import CommandError, NotationError, echoed
from lexbench.storage.node import Node
from lexbench.trec.judged_run import JudgedRun
from lexbench.types import CollectionStatistics, Corpus, Document, Hits, Judgement, Kind, Query, TrainingData, Verdict

API_VERSION = 2
CHOSEN_WEIGHTS = ("tuned", "oracle")  # weights of an ensemble that the harness chooses
CUT_PAIRS = "cut_pairs"  # the name of a count of `Searcher.work`
_BATCH = 256  # texts per call of an encoder that does not cut batches itself
_LARGEST = 2**31 - 1  # grade or cutoff of a measure


class Plugin:
    """What all plug-ins have.

    A field made by `lexbench.registry.runtime` cannot change an answer. A runtime field `threads` whose value is 0 is set by
    `--time` to the threads of its scenario, and by an executor of several processes to a worker's share of the processors.
    """

    version: ClassVar[int] = 1  # raise it if answers change; it is in every key and result
    deterministic: ClassVar[bool] = False  # whether building twice gives the same bytes, or scoring twice the same bits
    requires: ClassVar[Sequence[str]] = ()  # modules that must be importable, e.g. ("faiss",)
    extra: ClassVar[str] = ""  # the extra of lexbench that installs them; "" in another package
    family: ClassVar[str] = "other"  # of its systems, in the words of the catalogue; "" takes that of the first member
    remote: ClassVar[bool] = False  # whether it may send its input to a server

    def identity(self) -> Mapping[str, Any]:
        """Return digests of the files that answers depend on, as JSON values: the same wherever the files are."""
        return {}

    def index_identity(self) -> Mapping[str, Any]:
        """Return digests of the files that the index depends on, e.g. without those of a separate query model."""
        return self.identity()

    @classmethod
    def checkpoint_defaults(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return defaults that a checkpoint states, given the *settings* that were typed. Unknown names are ignored."""
        return {}


class Model(Plugin):
    """What encoders, rerankers and retrievers can report about their trained model."""

    reads_instructions: bool = False  # whether it is given the `instruction` of a query; a note says if it is not
    elsewhere: ClassVar[str] = ""  # what computes instead of this process, e.g. "a server": timings are flagged and not ranked

    def notes(self) -> Sequence[str]:
        """Return notes for readers of the scores, one line each."""
        return ()

    def slow_note(self) -> str:
        """Return one line about a setting that would be faster on this machine, shown before the work; "" for none."""
        return ""

    def weight_files(self) -> Mapping[str, int]:
        """Return the size in bytes of each file of trained weights, by path: a file that members share counts once."""
        return {}

    def models(self) -> Sequence[str]:
        """Return the models that it uses: folders, or names on the hub."""
        return ()

    def training_data(self) -> Sequence[TrainingData | None]:
        """Return the training data of each of `models`; None where nothing states it."""
        return [None] * len(self.models())

    def trained_on(self) -> Sequence[str]:
        """Return the ids of datasets whose queries the model was trained on."""
        return ()

    def for_dataset(self, dataset: str) -> Self:
        """Return the model as it is used on the dataset with this id, e.g. with its prompt. Default: the model itself."""
        return self


# ---- encoders --------------------------------------------------------------------------------------------------------------


class TokenSpans(NamedTuple):
    """Where the tokens of a text are; special tokens are left out."""

    spans: NDArray[np.int32]  # (tokens, 2) the first character of each token and the first behind it; ascending
    words: NDArray[np.int32]  # (tokens,) the number of the word that each token belongs to


class Encoder(Model):
    """Turns texts into vectors, one per text, in order. It knows no index.

    Define `encode_document` and `encode_query`. An encoder that cuts its own batches overrides `tokenise_documents` and
    `encode_tokens` instead of `encode_document`; one that looks vectors up by id overrides `encode_queries` too.
    """

    looks_up: ClassVar[bool] = False  # whether vectors of queries are read instead of made: timings are flagged and not ranked
    kind: ClassVar[Kind]  # of its vectors
    storage: str = "float32"  # how vectors are stored: "float32" or "float16"
    names_terms: ClassVar[bool] = False  # whether `token` gives words and not numbers
    metric: str = "dot"  # how its vectors are compared: "dot", or "euclidean" or "manhattan", which `flat` has
    states_similarity: bool = True  # False if nobody says how its vectors are compared: a note then warns of unequal lengths
    query_idf: float = 0.0  # power of the `collection_idf` that comes first unless the user names one; 0: none
    document_length: int | None = None  # tokens read per document, special ones included; None: it has no `token_spans`

    def other_dtypes(self) -> "Mapping[str, Encoder]":
        """Return copies that may be faster here, by dtype; they are tried before a long encoding."""
        return {}

    def encode_document(self, texts: Sequence[str]) -> Any:
        """Return the vectors of documents."""
        raise NotImplementedError

    def encode_query(self, texts: Sequence[str]) -> Any:
        """Return the vectors of queries."""
        raise NotImplementedError

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Return the vectors of queries that have ids."""
        return self.encode_query([query.text for query in queries])

    def tokenise_documents(self, documents: Sequence[Document]) -> Any:
        """Return the input of `encode_tokens`. Runs on the CPU, in a separate thread, for a shard of the corpus."""
        return [document.text for document in documents]

    def encode_tokens(self, tokens: Any, advance: Callable[[int], None]) -> Any:
        """Return the vectors of the tokenised documents. Calls *advance* with the number of documents of each batch."""
        from lexbench.arrays.vectors import stacked  # loads SciPy

        blocks = []
        for start in range(0, len(tokens), _BATCH):
            batch = tokens[start : start + _BATCH]
            blocks.append(self.encode_document(batch))
            advance(len(batch))
        return stacked(blocks)

    @property
    def shards_at_once(self) -> int:
        """How many threads may call `encode_tokens` at the same time to keep a device busy."""
        return 1

    def truncated(self, tokens: Any) -> int:
        """Return how many of the tokenised documents were cut to the encoder's length: the attribute `truncated`, if any."""
        return int(getattr(tokens, "truncated", 0))

    def workers(self) -> "Sequence[Encoder]":
        """Return one encoder per device; each gives the same bytes for the same text."""
        return (self,)

    def token(self, term: int) -> str:
        """Return the text of a term of sparse vectors; its number where `names_terms` is False."""
        return str(term)

    def token_spans(self, texts: Sequence[str]) -> Sequence[TokenSpans]:
        """Return the tokens of each text, however long, so that texts can be cut into passages."""
        raise NotImplementedError

    def part(self, vectors: Any, name: str) -> Any:
        """Return the part *name* (n, its width) of *vectors* (n, width), for encoders whose vectors have several outputs."""
        raise NotImplementedError

    def own_tokens(self) -> int:
        """Return how many tokens of `document_length` are special, belong to a prompt, or stand for a missing title."""
        return 0


# ---- rerankers, transforms, engines ----------------------------------------------------------------------------------------


class ScoredPairs(NamedTuple):
    """What a reranker makes of pairs of a query and a document."""

    scores: NDArray[np.float32]  # (n,)
    cut: NDArray[np.bool_]  # (n,) which pairs were too long, so that the reranker has not read all of them


class Reranker(Model):
    """Scores a document by reading it together with the query."""

    def score(self, queries: Sequence[str], documents: Sequence[Document]) -> NDArray[np.float32]:
        """Return the relevance of documents[i] to queries[i] (n,), finite; higher is better."""
        raise NotImplementedError

    def scored_pairs(self, queries: Sequence[str], documents: Sequence[Document]) -> ScoredPairs:
        """Return the scores of `score`, and which pairs it cut. Default: none. Results have the number of cut pairs."""
        return ScoredPairs(self.score(queries, documents), np.zeros(len(documents), bool))


class Transform(Plugin):
    """Changes stored vectors before they are indexed, and queries before they are searched, e.g. pruning."""

    kind: ClassVar[Kind]  # of the vectors that it takes and gives
    kinds: ClassVar[tuple[Kind, ...]] = ()  # all of them, if there are several
    codes: ClassVar[str] = ""  # the form of `lexbench.types.Codes` that it makes, "int8" or "bits"; "": it makes vectors
    takes: ClassVar[tuple[str, ...]] = ("",)  # the forms that it takes; "": vectors
    learns: ClassVar[bool] = False  # whether it needs `learned` before it is used
    impacts: ClassVar[bool] = False  # whether it makes whole numbers, which engines with `impacts` take
    uses_collection: ClassVar[bool] = False  # whether `query` needs the statistics that `with_collection` gets

    def document(self, vectors: Any) -> Any:
        """Return the transformed document vectors (n, width), as many and in the same order."""
        raise NotImplementedError

    def query(self, vectors: Any) -> Any:
        """Return the transformed query vectors (n, width), as many and in the same order."""
        raise NotImplementedError

    def counts(self, vectors: Any) -> Mapping[str, int]:
        """Return counts for document vectors (n, width), e.g. {"dropped": 12}; results add them up over the corpus."""
        return {}

    def learned(self, shards: Iterable[Any]) -> Self:
        """Return a copy that has learned from the document vectors in *shards*; called first if `learns` is true."""
        return self

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return what was learned, as arrays by name: an index keeps them."""
        return {}

    def with_state(self, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return a copy that knows the `state` of another."""
        return self

    def with_collection(self, statistics: CollectionStatistics) -> Self:
        """Return a copy that knows the sparse vectors in the index; called before `query` if `uses_collection` is true."""
        return self


class Engine(Plugin):
    """Finds the nearest vectors. It knows no text."""

    kind: ClassVar[Kind]  # of the vectors that it takes
    kinds: ClassVar[tuple[Kind, ...]] = ()  # all of them, if `for_kind` makes it take others
    exact: ClassVar[bool]  # whether it finds what comparing a query with every vector finds
    impacts: ClassVar[bool] = False  # whether it takes whole numbers only: sparse vectors are then quantised for it
    compressed: ClassVar[bool] = False  # whether scores are of vectors in fewer bits, so that they are no exact dot products
    codes: ClassVar[tuple[str, ...]] = ()  # the forms of `lexbench.types.Codes` that it takes besides vectors
    rescore: int = 0  # times k candidates are found by codes, and scored again by what these were made from; 0: none

    def build(self, shards: Iterable[Any], path: Path) -> None:
        """Index the vectors, which come in position order, into the existing, empty folder *path*."""
        raise NotImplementedError

    def open(self, path: Path) -> "Index":
        """Return the index that `build` wrote."""
        raise NotImplementedError

    def for_kind(self, kind: Kind) -> Self:
        """Return the engine for vectors of *kind*; an engine of one kind returns itself."""
        return self

    def for_metric(self, metric: str) -> Self:
        """Return the engine that compares vectors by *metric*. Raises CommandError if it has another; default: dot products."""
        if metric == "dot":
            return self
        name = type(self).__name__.lower()
        raise CommandError(
            f"{name} compares vectors by dot product, and the model states the similarity {metric}: search them by @flat, or "
            'type similarity="cosine" or "dot" to compare them otherwise'
        )

    def on_workers(self, executor: "Executor", note: Callable[[str], None]) -> Self:
        """Return a copy whose indexes the workers of *executor* build and search; *note* as in `Executor.index_workers`."""
        return self

    def drop(self, path: Path) -> None:
        """Remove what the index in *path* has outside this folder, e.g. a collection on a server. Called before *path* goes."""

    @classmethod
    def attach(cls, address: SplitResult) -> "RunningIndex":
        """Open an index that others built, e.g. at NAME://HOST:6333/COLLECTION, where NAME is that of the engine.

        Raises CommandError for an address of another form, CannotStart if nothing answers there.
        """
        raise NotImplementedError


class Index:
    """Vectors made searchable: what an engine opens."""

    transfer: float = 0.0  # seconds of all searches so far spent on packing, sending, waiting for workers and merging

    def search(self, queries: Any, k: int) -> Hits:
        """Return the *k* largest dot products of each query vector; of equal ones the lower position first."""
        raise NotImplementedError


class RunningIndex:
    """An index that others built, on a server or in a program. `lexbench probe` searches it one query at a time.

    Define `search`. Vectors are rows (n, dimensions) of float32, or sparse rows (n, vocabulary). A filter is a text in the
    language of the server. Methods raise CommandError if the server cannot do what they ask.
    """

    similarity: str = ""  # "dot", "cosine" or "l2"; "": unknown
    knob: str = ""  # the usual setting of a search
    values: Sequence[int] = (16, 32, 64, 128, 256)  # of that setting
    parallel: bool = True  # whether it takes several queries at a time
    short_advice: str = ""  # what helps if answers under a filter are too short

    def search(self, query: Any, k: int, settings: Mapping[str, Any], where: str) -> Sequence[str]:
        """Return the ids of the best *k* documents that pass the filter *where* ("": all), best first. Threads may call it."""
        raise NotImplementedError

    def vectors(self) -> Iterator[tuple[Sequence[str], Any]]:
        """Yield the ids and vectors of all documents, block by block."""
        raise CommandError("the index gives no vectors; type --vectors FILE.npy and --ids FILE")

    def passing(self, where: str) -> Collection[str]:
        """Return the ids of all documents that pass a filter."""
        raise CommandError("the index does not list the documents that pass a filter; give their ids with --passing FILE")

    def counts(self, field: str) -> Mapping[Any, int]:
        """Return the number of documents with each value of a field."""
        raise CommandError("the index does not count values; write filters without {} and without --selectivity")

    def plan(self, query: Any, k: int, settings: Mapping[str, Any], where: str) -> str:
        """Return how the server carries a search out, in a few words; "" if it does not say."""
        return ""

    def notes(self) -> Sequence[str]:
        """Return notes for readers of the measurements, one line each, when these are finished."""
        return ()

    def close(self) -> None:
        """Close connections and end programs."""


# ---- retrievers ------------------------------------------------------------------------------------------------------------


class Retriever(Model):
    """Ranks the documents of a corpus for text queries.

    Define `build` and `open`: an index that `build` wrote, another process can open. A retriever that is made of other
    artifacts (an encoder's vectors, the searches of its members) defines `parts` instead of `build`, and `open` gets them. One
    that can score documents that others found, so that it can come later in a pipeline, also defines `scorer`.
    """

    members: tuple[Any, ...] = ()  # retrievers that it is made of
    weights: tuple[float, ...] | str = ()  # of the members' scores, or "tuned" or "oracle": the harness chooses them
    reranker: Any = None  # the Reranker that scores candidates, if any

    def build(self, corpus: Corpus, path: Path) -> None:
        """Write an index of *corpus* into the existing, empty folder *path*."""
        raise NotImplementedError

    def parts(self, corpus: Any) -> Mapping[str, Node[Any]]:
        """Return what `open` gets, by name, e.g. {"first": Search(corpus, member)}; {}: the folder that `build` fills.

        *corpus* is a node too; `lexbench.artifacts` has them.
        """
        return {}

    def open(self, opened: Any) -> "Searcher":
        """Return a searcher. *opened* is the folder that `build` has filled, or the opened `parts` by name."""
        raise NotImplementedError

    def scorer_parts(self, corpus: Any) -> Mapping[str, Node[Any]]:
        """Return what `scorer` gets, by name; {}: the folder that `build` fills."""
        return {}

    def scorer(self, opened: Any) -> "Rescorer":
        """Return a scorer of given documents. *opened* is the folder that `build` has filled, or the opened `scorer_parts`."""
        raise NotImplementedError

    def check_depth(self, depth: int) -> None:
        """Raise CommandError if the settings do not allow runs of *depth* documents per query."""

    @property
    def absent_is_zero(self) -> bool:
        """Whether every document that is missing from a list has the score 0, if the list is shorter than requested."""
        return False

    @property
    def candidates(self) -> int:
        """The number of documents of the first member that can be returned; 0: any document."""
        return 0

    def single_terms(self, searcher: Any, query: str) -> tuple[Mapping[str, tuple[Any, float]], Sequence[str]]:
        """Return each term of *query* as an encoded query with its weight, and the terms that no document has.

        Only a retriever whose scores are sums over query terms has them.
        """
        raise NotImplementedError


def has(retriever: Any, method: str) -> bool:
    """Return whether a retriever defines a method that is optional, e.g. `scorer`; a run file has no `open`."""
    return isinstance(retriever, Retriever) and getattr(type(retriever), method) is not getattr(Retriever, method)


class QueryEncoder:
    """What a Searcher and a Rescorer share: encoding is a separate step, so that it can be timed separately."""

    def encode(self, queries: Sequence[str]) -> Any:
        """Turn query texts into the input of `search` or `score`: BM25 tokenises, a neural model runs."""
        raise NotImplementedError

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Do the same for queries with their ids, for encoders that look vectors up."""
        return self.encode([query.text for query in queries])

    @property
    def queries_at_a_time(self) -> int:
        """The most queries per call, at least 1: a smaller number stores runs and reports progress more often."""
        return maxsize

    def without(self, encoded: Any, own: NDArray[np.int32]) -> Any:
        """Return *encoded* queries whose own document *own* (queries,), a position or -1, is left out before scores are fused.

        By default the harness drops it afterwards.
        """
        return encoded


class Searcher(QueryEncoder):
    """An opened index of a retriever."""

    def search(self, encoded: Any, k: int) -> Hits:
        """Return the best *k* documents of each query; fewer where fewer match (position -1)."""
        raise NotImplementedError

    def work(self, encoded: Any) -> Mapping[str, NDArray[np.int64]]:
        """Return machine-independent counts of what searching looks at, each (queries,), e.g. "postings"."""
        return {}

    @property
    def one_call(self) -> bool:
        """Whether all queries must come in one call of `search`, e.g. because each call encodes the corpus."""
        return False

    @property
    def transfer(self) -> float:
        """Seconds of all searches so far spent on packing, sending, waiting for workers and merging."""
        return 0.0

    def score_matrix(self, encoded: Any, k: int) -> ScoreMatrix:
        """Return each member's normalised scores of the documents that searching for *k* looks at, if scores are weighted."""
        raise NotImplementedError


class Rescorer(QueryEncoder):
    """Scores given documents exactly, without a search. It encodes queries as a searcher of the same retriever does."""

    def score(self, encoded: Any, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the scores (queries, n) of the positions *docs* (queries, n): each row ascends and is padded with -1.

        A document that does not match has the score 0 of an empty sum; scores at -1 mean nothing.
        """
        raise NotImplementedError


# ---- measures, sources, judges ---------------------------------------------------------------------------------------------


class Measure(Plugin):
    """A measure: its text in ir-measures' notation, e.g. `RR(rel=2)@10`, is made from its fields.

    `cutoff` stands behind the @, other fields in (). A field that is None is left out: `RR@10` leaves the threshold to the
    dataset's contract, and `RR(rel=1)@10` does not. A measure may have fields of its own, e.g. `p: float = 0.8  # persistence`;
    the comment is the help of the setting. It checks their values in `__post_init__`.
    """

    continuous: ClassVar[bool] = False  # whether it takes grades that are no whole numbers, without a threshold `rel`
    at: ClassVar[str] = "cutoff"  # the field that is written behind the @
    example: ClassVar[str] = "10"  # a value of it

    cutoff: int | None  # how many documents of each list it looks at; None: all

    @property
    def depth(self) -> int | None:
        """How many documents of each list `per_query` needs; None: all."""
        return self.cutoff

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the value for every query of the qrels (queries,)."""
        raise NotImplementedError

    def __str__(self) -> str:
        values = {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]  # a dataclass
        at = values.pop(self.at, None)
        settings = ",".join(f"{name}={value!r}" for name, value in values.items() if value is not None)
        return type(self).__name__ + (f"({settings})" if settings else "") + (f"@{at}" if at is not None else "")

    def __post_init__(self) -> None:
        """Raise NotationError for a cutoff that is not a whole number from 1, or a threshold that is not a number above 0."""
        for name in ("cutoff", "rel"):
            value = getattr(self, name, None)
            if name == "rel" and isinstance(value, float) and 0 < value <= _LARGEST:  # of continuous grades
                object.__setattr__(self, name, int(value) if value.is_integer() else value)
            elif value is not None and (type(value) is not int or not 1 <= value <= _LARGEST):
                what = f"{name} of {type(self).__name__}"
                raise NotationError(f"{what} is a whole number from 1 to {_LARGEST}, not {echoed(str(value))}")


class Source(Plugin):
    """The content of a dataset. The class finds it for a contract; the object reads it anew at each call, item by item."""

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Self | None:
        """Return the dataset's source, or None if it is not here; *folders* are those that the user may have put it in.

        Reads as little as possible. Raises MissingData, with the reason, if a dataset that should be here is missing.
        """
        raise NotImplementedError

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:
        """Return in a few words where the dataset is, "" if it is not here; takes no time and uses no network."""
        raise NotImplementedError

    @classmethod
    def ways(cls, contract: Contract) -> str:
        """Return how the user can provide the dataset, e.g. "put X into Y"; "" if there is no way."""
        return ""

    def documents(self) -> Iterator[Document]:
        """Yield the documents in the order of the source, with the contract's text policy applied."""
        raise NotImplementedError

    def queries(self) -> Iterator[Query]:
        """Yield the queries, also those without judgements."""
        raise NotImplementedError

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements."""
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        """Return what determines the documents, for a content key: digests of files, not their places."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """Return notes about this copy of the documents, which every result carries."""
        return []

    def judgement_notes(self) -> list[str]:
        """Return notes about this choice of judgements, which every result carries."""
        return []

    def summary(self) -> str:
        """Return in one line which files were found, shown before a run; "" if the contract is enough."""
        return ""

    def place(self, kind: Literal["documents", "queries", "judgements"], record_id: str | None = None) -> str:
        """Return the file of that content, and the lines with *record_id*, e.g. "corpus.jsonl:3 and 9"; "" if unknown.

        Of judgements the *record_id* is "QUERY DOCUMENT".
        """
        return ""


class Judge(Plugin):
    """Grades documents in place of an assessor, e.g. with a language model.

    Its verdicts are kept in qrels of their own, stamped with its `identity`, which names the model and its prompt.
    """

    @property
    def grades(self) -> Sequence[int]:
        """The grades of its scale, ascending."""
        raise NotImplementedError

    @property
    def relevant(self) -> int:
        """The lowest grade that counts as relevant."""
        raise NotImplementedError

    def judge(self, query: str, documents: Sequence[Document]) -> Sequence[Verdict]:
        """Return a verdict on each document, in order. Raises LexbenchError, in one line, if it cannot."""
        raise NotImplementedError


# ---- executors -------------------------------------------------------------------------------------------------------------


class Executor(Plugin):
    """Where corpora are encoded: in this process, in several processes, or on a cluster. The vectors are the same bytes."""

    def encode(self, encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress) -> None:
        """Encode the documents at the positions *shards*, at least one, and write each into the folder *path* when it is done.

        `lexbench.encodings.shards` has the name and format of the files. *progress* gets finished documents, and workers that
        came or went. Raises LexbenchError, in one line, if it cannot; a killed worker is no reason.
        """
        raise NotImplementedError

    def index_workers(self, index: Any, shards: int, note: Callable[[str], None]) -> AbstractContextManager[Sequence["Worker"]]:
        """Return a context with workers that each have a copy of *index*, whose *shards* they build or search.

        *note* gets one line for each worker that is replaced. Default: no workers, so this process does the work.
        """
        return nullcontext(())

    def reranking_workers(
        self, rerankers: Sequence[Reranker], note: Callable[[str], None]
    ) -> AbstractContextManager[Sequence["Worker"]]:
        """Return the same for workers with a method score(number, queries, documents), which calls that one of *rerankers*."""
        return nullcontext(())


class Worker(Protocol):
    """A worker with a copy of an object, as the asking process sees it. Several threads may call, and wait for each other."""

    @property
    def spent(self) -> float:
        """Seconds that the worker's object has taken for all calls so far; what a call takes besides is transfer."""

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the result of that method of the object. Raises LexbenchError, in one line, for an error that it raised.

        If the worker dies, another one gets a copy and the call is repeated; LexbenchError after three deaths.
        """


# ---- what the registry checks when it loads a plug-in ----------------------------------------------------------------------

_GROUPS: Mapping[str, tuple[type[Plugin], Sequence[str]]] = {  # base and required names; of those joined by "or" one is enough
    "encoders": (Encoder, ("kind", "encode_document or encode_tokens", "encode_query or encode_queries")),
    "engines": (Engine, ("kind", "exact", "build", "open")),
    "executors": (Executor, ("encode",)),
    "judges": (Judge, ("grades", "relevant", "judge")),
    "measures": (Measure, ("per_query",)),
    "rerankers": (Reranker, ("score",)),
    "retrievers": (Retriever, ("build or parts or read", "open or read")),
    "sources": (Source, ("locate", "status", "documents", "queries", "judgements", "identity")),
    "transforms": (Transform, ("kind", "document", "query")),
}


def fault(group: str, plugin: type[Any]) -> str:
    """Return in one line why a class is no plug-in of *group*, and what to write; "" if it is one."""
    base, required = _GROUPS[group]
    if not issubclass(plugin, base):
        return f"it does not inherit from lexbench.plugins.{base.__name__}; write class {plugin.__name__}({base.__name__})"
    if group != "sources" and not is_dataclass(plugin):
        return "it is no dataclass; write @dataclass(frozen=True) before it"
    defined = {name for cls in plugin.__mro__ if cls not in base.__mro__ for name in vars(cls)}
    if lacking := next((names for names in required if defined.isdisjoint(names.split(" or "))), ""):
        return f"it has no {lacking}; see lexbench.plugins.{base.__name__}"
    if group == "measures" and "cutoff" not in {*dir(plugin), *getattr(plugin, "__dataclass_fields__", ())}:
        return "it has no field cutoff; write cutoff: int | None = None"
    kind = vars(plugin).get("kind")
    if isinstance(kind, str) and not isinstance(kind, Kind):
        return f"its kind is the text {kind!r}; write e.g. kind = Kind.{kind.upper() if kind in list(Kind) else 'DENSE'}"
    return f"its requires is a text; write requires = ({plugin.requires!r},)" if isinstance(plugin.requires, str) else ""
