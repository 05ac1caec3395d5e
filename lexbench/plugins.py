"""What lexbench asks of a plug-in: all of it, typed, with what is assumed of a plug-in that says nothing.

A plug-in is a frozen dataclass whose fields are its settings. Ours are files: `lexbench/engines/impact.py` has the class
`Impact`. Another package names its own by an entry point:

    [project.entry-points."lexbench.engines"]
    one_by_one = "my_package.one_by_one:OneByOne"

Groups are encoders, engines, executors, judges, measures, rerankers, retrievers, sources and transforms. Each has a protocol
below with what is required: Encoder, Engine, Executor, Judge, Measure, Reranker, Retriever, Source with SourceFinder,
Transform. What is optional is a small protocol of its own, or a class attribute that stands in `Facts`, `EncoderFacts`,
`EngineFacts` or `TransformFacts`. Nobody has to inherit from any of these: having the attributes is enough. `lexbench.testing`
has the tests that a plug-in must pass.

Two things besides: an object given to `lexbench.run` is called by its `name` (`HasName`), and a setting `threads` that is
marked `runtime`, of which 0 is none that anybody chose, is set by `--time` to the number of threads of its scenario, and by an
executor of several processes to a worker's share of the processors.

This is version 1 of the interface (`API_VERSION`). Within a version nothing that is required is added, and no name, default or
meaning changes; what is to go is named in the changelog, and still works, for one minor release of lexbench before it goes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lexbench.contracts import Contract
from lexbench.fusion.normalise import ScoreMatrix
from lexbench.progress import Progress
from lexbench.trec.judged_run import JudgedRun
from lexbench.trec.runs import Run
from lexbench.types import Corpus, Document, Hits, Judgement, Kind, Query, TrainingData, Verdict

API_VERSION = 1
CHOSEN_WEIGHTS = ("tuned", "oracle")  # weights of a fusion that the harness chooses

V_co = TypeVar("V_co", covariant=True)  # vectors, see `lexbench.types.Kind`
V_contra = TypeVar("V_contra", contravariant=True)
Q = TypeVar("Q")  # encoded queries: whatever `encode` returns and `search` takes
T = TypeVar("T")  # tokens: whatever `tokenise_documents` returns and `encode_tokens` takes


# ---- class attributes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Facts:
    """Class attributes that any plug-in may have, with what is assumed where it has none."""

    version: int = 1  # goes up when answers change; it is in every key and result
    deterministic: bool = False  # whether building twice writes the same bytes, or scoring twice gives the same bits
    requires: Sequence[str] = ()  # modules that must be importable, as ("faiss",)
    extra: str = ""  # the extra of lexbench that installs them; "" where it is another package's
    family: str = "other"  # of the systems that it makes, in the words of the catalogue; "" is that of its first part
    remote: bool = False  # whether it may send what it is given to a server, where nothing made-up is to go
    absent_is_zero: bool = False  # of a retriever: documents that a list shorter than asked lacks have the score 0

    @classmethod
    def of(cls, plugin: Any) -> Self:
        """Return the facts of a plug-in, an object or its class."""
        return cls(**{item.name: getattr(plugin, item.name) for item in fields(cls) if hasattr(plugin, item.name)})


@dataclass(frozen=True)
class EncoderFacts(Facts):
    """Class attributes of an encoder."""

    kind: Kind | None = None  # of its vectors; an object handed to `lexbench.run` may leave it out, a plug-in may not
    storage: str = "float32"  # how its vectors are stored: "float32" or "float16"


@dataclass(frozen=True)
class EngineFacts(Facts):
    """Class attributes of an engine, besides the `kind` and `exact` that it must have."""

    impacts: bool = False  # whether it takes whole numbers only: sparse vectors are then quantised for it
    compressed: bool = False  # whether its scores are those of compressed vectors, which differ a little from the exact ones


@dataclass(frozen=True)
class TransformFacts(Facts):
    """Class attributes of a transform, besides the `kind` that it must have."""

    impacts: bool = False  # whether it makes whole numbers, which engines with `impacts` take


# ---- optional for every plug-in --------------------------------------------------------------------------------------------


@runtime_checkable
class HasFiles(Protocol):
    """A plug-in whose answers depend on files besides its settings, as a model's weights; default: on its settings alone."""

    def identity(self) -> Mapping[str, Any]:
        """Return digests of the files, as JSON values: the same wherever they lie. An empty mapping is none."""


@runtime_checkable
class HasWeights(Protocol):
    """An encoder or reranker that is made from a trained model, whose size results tell; default: it has none."""

    def weights(self) -> Mapping[str, int]:
        """Return the bytes of each file of weights, by its path: a file that several parts share counts once."""


@runtime_checkable
class HasIndexFiles(Protocol):
    """A plug-in of whose files only some decide its index, as an encoder with another model for queries; default: all."""

    def index_identity(self) -> Mapping[str, Any]:
        """Return digests of the files that decide the index."""


@runtime_checkable
class HasCheckpointDefaults(Protocol):
    """A class of plug-ins some of whose defaults are those that a checkpoint's folder states."""

    @classmethod
    def checkpoint_defaults(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the defaults that hold, given the *settings* that were typed; names that are no settings are passed over."""


@runtime_checkable
class HasName(Protocol):
    """An object handed to `lexbench.run` that says what tables call it; default: the name of its class."""

    @property
    def name(self) -> str:
        """What tables call it."""


@runtime_checkable
class HasRemarks(Protocol):
    """An encoder or reranker with something to say that readers of its scores must know."""

    def remarks(self) -> Sequence[str]:
        """Return one line for each remark; each stands in the results."""


@runtime_checkable
class KnowsWhatIsSlow(Protocol):
    """An encoder or reranker that can tell when another setting would be faster on this machine."""

    def slow_note(self) -> str:
        """Return one line that says so, and what to type; "" for nothing. It is shown before the work, and is in no result."""


@runtime_checkable
class NeedsQueryIds(Protocol[V_co]):
    """An encoder or searcher that must know which query a text is: its vectors may come from a file, by id."""

    def encode_queries(self, queries: Sequence[Query]) -> V_co:
        """Return what encoding the texts of *queries* gives."""


def encode_queries(encoder: Any, queries: Sequence[Query]) -> Any:
    """Let an encoder, a searcher or a rescorer encode *queries*, with their ids where it has to know them."""
    if isinstance(encoder, NeedsQueryIds):
        return encoder.encode_queries(queries)
    encode = encoder.encode_query if isinstance(encoder, Encoder) else encoder.encode
    return encode([query.text for query in queries])


# ---- encoders --------------------------------------------------------------------------------------------------------------


@runtime_checkable
class Encoder(Protocol[V_co]):
    """Turns texts into vectors. Knows no index."""

    def encode_document(self, texts: Sequence[str]) -> V_co:
        """Return one vector a text, in order."""

    def encode_query(self, texts: Sequence[str]) -> V_co:
        """Return one vector a text, in order."""


@runtime_checkable
class BatchEncoder(Protocol[T, V_co]):
    """An encoder that cuts batches itself, in two steps that run at the same time on different shards of a corpus."""

    def tokenise_documents(self, documents: Sequence[Document]) -> T:
        """Return what `encode_tokens` takes; runs on the CPU, in a thread of its own."""

    def encode_tokens(self, tokens: T, advance: Callable[[int], None]) -> V_co:
        """Return one vector a document, in order, telling *advance* how many more are done."""


AnyEncoder: TypeAlias = Encoder[Any] | BatchEncoder[Any, Any]  # what executors take: whichever steps it has


class TokenSpans(NamedTuple):
    """Where the tokens of a text are in it; special tokens are not among them."""

    spans: NDArray[np.int32]  # (tokens, 2) the first character of each, and the first behind it; ascending
    words: NDArray[np.int32]  # (tokens,) the number of the word that each is of


@runtime_checkable
class FindsTokens(Protocol):
    """An encoder that can tell where its model's tokens are in texts, so that these can be cut to what it reads at once."""

    @property
    def document_length(self) -> int:
        """How many tokens of a document it reads, its own ones included."""

    def own_tokens(self) -> int:
        """Return how many of these are special, of a prompt, or stand for a title that is missing."""

    def token_spans(self, texts: Sequence[str]) -> Sequence[TokenSpans]:
        """Return the tokens of each text, however long it is."""


@runtime_checkable
class CountsTruncated(Protocol):
    """Tokens of documents of which some were cut to the encoder's length; default: none was."""

    @property
    def truncated(self) -> int:
        """How many documents."""


@runtime_checkable
class RunsOnDevices(Protocol):
    """An encoder that can share a corpus among devices; default: one process encodes all of it."""

    def workers(self) -> Sequence[Encoder[Any]]:
        """Return an encoder for each device, each with the same bytes for the same text."""


@runtime_checkable
class NamesTerms(Protocol):
    """An encoder of sparse vectors that knows what its terms are; default: a term is shown by its number."""

    def token(self, term: int) -> str:
        """Return the text of a term."""


@runtime_checkable
class KnowsTrainingData(Protocol):
    """An encoder that knows on which queries its model was trained; results on these say so."""

    @property
    def model(self) -> str:
        """The model's name or folder, for people."""

    def trained_on(self) -> Sequence[str]:
        """Return the ids of the datasets."""


@runtime_checkable
class StatesTrainingData(Protocol):
    """An encoder or reranker that can tell what its models have learned from; of others results say "unknown"."""

    def models(self) -> Sequence[str]:
        """Return its models: folders, or names on the hub."""

    def training_data(self) -> Sequence[TrainingData | None]:
        """Return what each of `models` says that it has learned from; None where it says nothing."""


# ---- transforms, engines, rerankers ----------------------------------------------------------------------------------------


@runtime_checkable
class Transform(Protocol):
    """Changes stored vectors before they are indexed, and queries before they are searched: top-K, quantisation, pruning."""

    kind: ClassVar[Kind]  # of the vectors that it takes and gives

    def document(self, vectors: Any) -> Any:
        """Transform document vectors (n, width), keeping their number and order."""

    def query(self, vectors: Any) -> Any:
        """Transform query vectors (n, width), keeping their number and order."""


@runtime_checkable
class CountsChanges(Protocol):
    """A transform that counts what it changes; results add the counts up over the corpus."""

    def counts(self, vectors: Any) -> Mapping[str, int]:
        """Return the counts for document vectors (n, width), as {"dropped": 12}, changing nothing."""


class Index(Protocol[V_contra]):
    """Vectors made searchable."""

    def search(self, queries: V_contra, k: int) -> Hits:
        """Return the *k* largest dot products of each query vector; of equal ones the lower position."""


@runtime_checkable
class Engine(Protocol[V_contra]):
    """Finds the nearest vectors. Knows no text."""

    kind: ClassVar[Kind]  # of the vectors that it takes
    exact: ClassVar[bool]  # whether it finds what comparing a query with every vector would; results and rankings say so

    def build(self, shards: Iterable[V_contra], path: Path) -> None:
        """Index the vectors, which come in position order, into the existing, empty folder *path*."""

    def open(self, path: Path) -> Index[V_contra]:
        """Open what `build` wrote."""


@runtime_checkable
class Reranker(Protocol):
    """Scores a document by reading it together with the query."""

    def score(self, queries: Sequence[str], documents: Sequence[Document]) -> NDArray[np.float32]:
        """Return how relevant documents[i] is to queries[i] (n,), finite; the higher the better."""


# ---- judges ----------------------------------------------------------------------------------------------------------------


@runtime_checkable
class Judge(Protocol):
    """Grades documents in place of an assessor, as a language model does.

    What it says is kept in qrels of its own, stamped with its `identity` (`HasFiles`), which tells the model and its prompt.
    """

    @property
    def grades(self) -> Sequence[int]:
        """The grades of its scale, ascending."""

    @property
    def relevant(self) -> int:
        """The lowest grade of what answers a query."""

    def judge(self, query: str, documents: Sequence[Document]) -> Sequence[Verdict]:
        """Return a verdict on each document, in order; LexbenchError, in one line, where that cannot be done."""


# ---- retrievers ------------------------------------------------------------------------------------------------------------


class Searcher(Protocol[Q]):
    """An opened index. Two steps, so that they can be timed apart."""

    def encode(self, queries: Sequence[str]) -> Q:
        """Turn query texts into what `search` takes: BM25 tokenises, a neural model runs."""

    def search(self, encoded: Q, k: int) -> Hits:
        """Return the best *k* documents of each query; fewer where fewer match (position -1)."""


@runtime_checkable
class CountsWork(Protocol):
    """A searcher that knows what searching has to look at, in numbers that no machine changes."""

    def work(self, encoded: Any) -> Mapping[str, NDArray[np.int64]]:
        """Return counts by name, each (queries,), as "postings"; an empty mapping where there is nothing to count."""


@runtime_checkable
class SearchesInBlocks(Protocol):
    """A searcher that takes long for a query: runs are stored, and tell of progress, in smaller blocks; default: 256."""

    @property
    def queries_at_a_time(self) -> int:
        """The number of queries of a block, at least 1."""


@runtime_checkable
class Retriever(Protocol):
    """Ranks the documents of a corpus for text queries.

    The folder is everything that passes from building to searching, so an index can be opened by another process.
    """

    def build(self, corpus: Corpus, path: Path) -> None:
        """Write an index of *corpus* into the existing, empty folder *path*."""

    def open(self, path: Path) -> Searcher[Any]:
        """Open what `build` wrote."""


@runtime_checkable
class BuildsFromParts(Protocol):
    """A retriever whose index is made of others' stages: of an encoder's stored vectors, or of other retrievers' indexes."""

    def assemble(self, corpus: Corpus, path: Path, context: "BuildContext") -> None:
        """Write an index of *corpus* into the existing, empty folder *path*, asking *context* for the parts."""

    def open(self, path: Path) -> Searcher[Any]:
        """Open what `assemble` wrote."""


@runtime_checkable
class ReadsRuns(Protocol):
    """In place of a retriever: finished runs. It has neither index nor search."""

    def file_identity(self, dataset: str) -> str:
        """Return the digest of the file for *dataset*: what decides the answer in place of an index."""

    def read(self, dataset: str) -> Run:
        """Return the run for the dataset of that id, in canonical order; MissingData where there is none."""


AnyRetriever: TypeAlias = Retriever | BuildsFromParts | ReadsRuns


class StoredVectors(Protocol[V_co]):
    """The vectors of a corpus in the store."""

    @property
    def path(self) -> Path:
        """Their folder, from which `lexbench.encodings.shards` reads them."""

    def shards(self) -> Iterator[V_co]:
        """Yield them shard by shard, in position order."""

    def truncated(self) -> int:
        """Return how many texts were cut to the encoder's length."""


class BuildContext(Protocol):
    """What the harness gives a retriever that is made of parts: each part is made once, stored, and shared by all systems."""

    def encodings(self, encoder: Encoder[Any]) -> StoredVectors[Any]:
        """Return the vectors of the corpus."""

    def index(self, retriever: AnyRetriever) -> Path:
        """Return the folder of an index of the corpus."""

    def corpus_dir(self) -> Path:
        """Return the folder of the stored corpus, for `lexbench.datasets.corpus.open_corpus`."""

    def derived(self, name: str, recipe: Mapping[str, Any], write: Callable[[Corpus, Path], None]) -> "BuildContext":
        """Return the same for a corpus that is made of this one, stored and shared likewise.

        *write* is given this corpus and an empty folder, into which `lexbench.datasets.corpus.write_corpus` writes the other.
        *recipe*, values and plug-ins, says what decides the other besides this one, and *name* what people call it.
        """


@runtime_checkable
class EncodesVectors(BuildsFromParts, Protocol):
    """A retriever that is an encoder, transforms of its vectors, and the engine that searches them."""

    @property
    def encoder(self) -> Any:
        """The Encoder; this and the next two are fields of a dataclass, so that a copy can have others."""

    @property
    def engine(self) -> Any:
        """The Engine."""

    @property
    def transforms(self) -> tuple[Transform, ...]:
        """The transforms, in the order in which they are applied."""

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Return one vector a query, transformed as the engine takes it."""

    def as_queries(self, vectors: Any) -> Any:
        """Return what the encoder makes of queries (n, width) as the engine takes them."""

    def documents(self, stored: StoredVectors[Any], counts: Any) -> Iterator[Any]:
        """Yield the shards of *stored* as the engine takes them, adding what transforms count to the Counter *counts*."""

    def as_documents(self, vectors: Any) -> Any:
        """Return stored document vectors (n, width) as the engine takes them."""


@runtime_checkable
class Fusion(BuildsFromParts, Protocol):
    """A retriever that is made of retrievers. Its index only says where those of its parts are."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """The retrievers; a field of a dataclass, so that a copy can have others."""

    def search_inputs(self, context: BuildContext) -> list[Path]:
        """Return the folders that searching reads, in order: each made, or found in the store."""

    def check_depth(self, depth: int) -> None:
        """Raise CommandError where the settings do not allow runs of *depth* documents a query."""


@runtime_checkable
class SearchesDerived(Fusion, Protocol):
    """A fusion whose parts search a corpus that is made of the one that it ranks, as of its passages."""

    def context_of_parts(self, context: BuildContext) -> BuildContext:
        """Return what makes the parts' stages, given what makes its own."""

    def growth(self, text_bytes: float) -> float:
        """Return about how many documents of the other corpus come of one of *text_bytes*, for estimates of disk space."""


@runtime_checkable
class Weighted(Fusion, Protocol):
    """A fusion with a weight for each part. Its searcher has the method of `HasScoreMatrix`."""

    @property
    def weights(self) -> tuple[float, ...] | str:
        """The weights, or "tuned" or "oracle" where the harness chooses them; a field of a dataclass."""


@runtime_checkable
class RanksCandidates(Protocol):
    """A fusion that returns only what its first part found; results tell how much of what is relevant that is."""

    @property
    def candidates(self) -> int:
        """How many documents of the first part are ranked."""


@runtime_checkable
class LeavesOut(Protocol):
    """A searcher of a fusion that leaves documents out before scores are made comparable; else the harness drops them."""

    def without(self, encoded: Any, own: NDArray[np.int32]) -> Any:
        """Return *encoded* queries of which `search` leaves out the document *own* (queries,), a position, or -1 for none."""


@runtime_checkable
class HasReranker(Protocol):
    """A fusion with a reranker."""

    @property
    def reranker(self) -> Any:
        """The Reranker."""


@runtime_checkable
class ScoresPairs(Protocol):
    """A searcher that scores pairs of a query and a document, which executors can do before it searches."""

    @property
    def reranker(self) -> Reranker:
        """What scores them."""

    @property
    def corpus(self) -> Corpus:
        """The documents."""

    @property
    def candidates(self) -> int:
        """How many pairs a query has at most."""

    def pairs(self, encoded: Any) -> Sequence[tuple[str, int]]:
        """Return the pairs, (query text, position), that `search` would score of *encoded* queries, in its order."""

    def learn(self, encoded: Any, pairs: Sequence[tuple[str, int]], scores: NDArray[np.float32]) -> None:
        """Keep the *scores* of *pairs* for `search`, which then does not score them."""


@runtime_checkable
class HasPairScorers(Protocol):
    """A searcher of a fusion, of whose parts some may score pairs."""

    def pair_scorers(self, encoded: Any) -> "Sequence[tuple[ScoresPairs, Any]]":
        """Return the searchers in it that score pairs, each with its part of *encoded* queries, as `pair_scorers` does."""


def pair_scorers(searcher: Any, encoded: Any) -> Sequence[tuple[ScoresPairs, Any]]:
    """Return what scores pairs in *searcher*, itself too, each with its part of *encoded* queries.

    What finds the candidates of another comes before it: its scores must be known before the other's pairs are.
    """
    if isinstance(searcher, HasPairScorers):
        return searcher.pair_scorers(encoded)
    return [(searcher, encoded)] if isinstance(searcher, ScoresPairs) else []


@runtime_checkable
class HasScoreMatrix(Protocol):
    """A searcher whose scores are weighted sums."""

    def score_matrix(self, encoded: Any, k: int) -> ScoreMatrix:
        """Return the normalised scores, by each part, of the documents that searching for *k* looks at."""


class Rescorer(Protocol[Q]):
    """Scores documents that it is given: exactly, without a search."""

    def encode(self, queries: Sequence[str]) -> Q:
        """Turn query texts into what `score` takes, as a searcher of the same retriever does for its `search`."""

    def score(self, encoded: Q, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return scores (queries, n) of the positions *docs* (queries, n), each row ascending, then -1 where there are no more.

        A document that does not match has the score 0 of an empty sum; what stands at a -1 means nothing.
        """


@runtime_checkable
class Rescores(Protocol):
    """A retriever that can also score documents that others found, and so come later in a pipeline."""

    def rescoring_inputs(self, context: BuildContext) -> list[Path]:
        """Return the folders that scoring reads, in order: each made, or found in the store."""

    def rescorer(self, folders: Iterator[Path]) -> Rescorer[Any]:
        """Open the rescorer from the folders returned by `rescoring_inputs`, taking as many as these are."""


@runtime_checkable
class ScoresByTerm(Protocol):
    """A retriever whose score is a sum over a query's terms, each of which its searcher, a rescorer too, can score alone."""

    def single_terms(self, searcher: Any, query: str) -> tuple[Mapping[str, tuple[Any, float]], Sequence[str]]:
        """Return each term of *query* as an encoded query of it alone, with its weight; and the terms found in no document."""


# ---- measures, sources, executors ------------------------------------------------------------------------------------------


@runtime_checkable
class Measure(Protocol):
    """A measure: a frozen dataclass that derives from `lexbench.measures.Notation`, which gives it its text."""

    @property
    def cutoff(self) -> int | None:
        """How many documents of each list it looks at; None is all."""

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the value for every query of the qrels (queries,)."""


class Source(Protocol):
    """The content of a dataset, read anew at each call, one at a time."""

    def documents(self) -> Iterator[Document]:
        """Yield the documents, the contract's text policy applied, in the order of the source."""

    def queries(self) -> Iterator[Query]:
        """Yield the queries, those without judgements too."""

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements."""

    def identity(self) -> dict[str, Any]:
        """Return what determines the documents, for a content key: digests of files, not where they are."""

    def remarks(self) -> list[str]:
        """Return what a reader of scores must know of this copy of the documents; every result says it."""


@runtime_checkable
class NamesPlaces(Protocol):
    """A source that knows where something is in its files."""

    def place(self, kind: Literal["documents", "queries", "judgements"], record_id: str | None = None) -> str:
        """Return the file of its documents, queries or judgements, and the lines with that id, as 'corpus.jsonl:3 and 9'."""
        ...


class SourceFinder(Protocol):
    """A class of sources, as it is registered: it finds a dataset for its contract."""

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Source | None:
        """Return the dataset's source, or None where it is not; *folders* are those the user may have put it in.

        Nothing is read but what is needed to know. MissingData says why a dataset that should be here is not.
        """

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:
        """Return in a few words whether and where the dataset is, '' for not here; touches no network, takes no time."""

    @classmethod
    def ways(cls, contract: Contract) -> str:
        """Return how the user can provide the dataset, as 'put X into Y'; '' for no way."""


@runtime_checkable
class Executor(Protocol):
    """Where corpora are encoded: in this process, in several of this machine, on a cluster. It changes no byte.

    One whose workers also hold what is called many times has `HoldsObjects.hold`.
    """

    def encode(self, encoder: AnyEncoder, corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress) -> None:
        """Encode the documents at the positions *shards*, at least one, and write each into the folder *path* when it is there.

        `lexbench.encodings.shards` says what a file is called and holds. *progress* hears of documents done, and of workers
        that came or went. LexbenchError, in one line, where that cannot be done; a worker that is killed is no reason.
        """


class Held(Protocol):
    """An object that a worker holds, as the process sees it that asked for it. Threads may call several at the same time."""

    @property
    def worker(self) -> int:
        """The number of the worker, from 0; calls of objects of one worker wait for each other."""

    @property
    def spent(self) -> float:
        """Seconds that this worker's objects have taken in all: what a call takes besides is the way there and back."""

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what that method of the object returns; LexbenchError, in one line, for an error that it raised.

        Where the worker dies another makes and fills the object, and the same is asked again; LexbenchError after three.
        """


@runtime_checkable
class Closes(Protocol):
    """An object that a worker holds and that has something to remove in the end, as files; default: nothing."""

    def close(self) -> None:
        """Remove it."""


class Holdable(Protocol):
    """What a worker makes an object from; it travels to the worker, so it has no more than settings and names of files."""

    def make(self) -> Any:
        """Return the object; called by the worker, which closes it before it is ended where it is one that `Closes`."""

    def fill(self, held: Held) -> None:
        """Give the object what it needs, by calling it; called where the object was asked for, each time that it is made."""


@runtime_checkable
class HoldsObjects(Protocol):
    """An executor whose workers hold objects that are called many times, as opened indexes; default: this process does."""

    def hold(self, things: Sequence[Holdable], note: Callable[[str], None]) -> AbstractContextManager[Sequence[Held]]:
        """Return a context in which workers hold an object for each of *things*, in that order.

        *note* is told, in a line, of a worker that is replaced. Several objects may have one worker. CannotStart where none
        can be had.
        """


@runtime_checkable
class RunsOnWorkers(Protocol):
    """An engine whose index can be built and searched by workers; default: where it is called."""

    def on_workers(self, executor: HoldsObjects, note: Callable[[str], None]) -> Self:
        """Return a copy of which `build` and `open` use *executor*, with the same bytes and hits; *note* as in `hold`."""


@runtime_checkable
class TellsTransfer(Protocol):
    """An index, or a searcher, that workers search: it knows what the way to them takes."""

    @property
    def transfer(self) -> float:
        """Seconds of all searches so far in which no worker searched: packing, sending, waiting, and merging what came back."""


@runtime_checkable
class ReadsFolders(Protocol):
    """An encoder that reads folders to encode documents, or a reranker, which a cluster may not have; default: none."""

    def document_folders(self) -> Mapping[str, Path]:
        """Return the folders, by the settings that name them."""

    def with_document_folders(self, folders: Mapping[str, Path]) -> Self:
        """Return a copy that reads *folders*, by the same settings, in place of its own."""


# ---- what the registry checks when it loads a plug-in ----------------------------------------------------------------------

_REQUIRED: Mapping[str, tuple[tuple[str, ...], ...]] = {  # by group: the names of one of these rows
    "encoders": (("kind", "encode_document", "encode_query"), ("kind", "tokenise_documents", "encode_tokens")),
    "engines": (("kind", "exact", "build", "open"),),
    "executors": (("encode",),),
    "judges": (("grades", "relevant", "judge"),),
    "measures": (("per_query",),),
    "rerankers": (("score",),),
    "retrievers": (("build", "open"), ("assemble", "open"), ("read", "file_identity")),
    "sources": (("locate", "status", "ways", "documents", "queries", "judgements", "identity", "remarks"),),
    "transforms": (("kind", "document", "query"),),
}


def lacks(group: str, plugin: type[Any]) -> str:
    """Return in a few words what a class lacks to be a plug-in of *group*; "" for nothing."""
    if group != "sources" and not is_dataclass(plugin):
        return "it is no dataclass; write @dataclass(frozen=True) before it"
    rows = [[name for name in row if not hasattr(plugin, name)] for row in _REQUIRED[group]]
    missing = min(rows, key=len)
    return f"it has no {missing[0]}; lexbench.plugins says what that is" if missing else ""
