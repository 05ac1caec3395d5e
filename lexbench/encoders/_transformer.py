"""Base classes of encoders that run a transformer: their settings, checkpoints, devices and batches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from scipy import sparse

from lexbench import devices
from lexbench.arrays.vectors import rows_of, stacked
from lexbench.encoders._prompts import Prompted
from lexbench.errors import CommandError, shortened
from lexbench.models.checkpoint import check_length, fetch
from lexbench.models.local_model import DTYPES, LocalModel
from lexbench.models.token_batches import (
    Batch,
    Input,
    Tokens,
    batches,
    document_inputs,
    halves,
    plain_copy,
    token_spans,
    tokenise,
)
from lexbench.plugins import TokenSpans
from lexbench.registry import at_search, optional, optional_at_search, runtime
from lexbench.storage.environment import cores
from lexbench.types import Document, Kind, MultiVectors

if TYPE_CHECKING:
    from lexbench.models.transformer_model import TransformerModel

V = TypeVar("V")  # vectors of one kind
_MOST_TRIED = 2 << 30  # bytes of weights, above which no second copy is loaded to try a dtype
_BATCH_TOKENS = {"cpu": 768, "cuda": 65_536, "mps": 8192}  # what fits the cache of a processor, or occupies a GPU
_LEAST_TOKENS = {"cuda": 16_384}  # from so many on a batch of a GPU ends before it would have much padding
_SHOWN = 300  # characters of a note
_BATCH_TEXTS = 1024  # bounds (texts, vocabulary) float32: 125 MB for BERT's


def no_progress(_count: int) -> None:
    """Ignore the number of documents done."""


@dataclass(frozen=True)
class Transformer(LocalModel, Prompted):
    """An encoder that runs a transformer, or two: one for documents and one for queries. `Prompted` has more settings.

    *model* and *query_model* are folders, or names on the Hugging Face hub, where a *revision* can be given. Without
    *query_model* queries are encoded by *model*. *query_length* and *document_length* are in tokens, special ones included.
    *titles*: "off" reads a text without separator; "pair" and "string" put a separator between title and body. If these are
    too long, "pair" cuts the longer one first, "string" cuts the end. *dtype* is the type of the computation ("int8": of linear
    layers, on a processor), *storage* the type of stored vectors. *device*: "auto" is the first GPU or else the processor; with
    several, e.g. "cuda:0,cuda:1", each encodes a share of the corpus. *batch_tokens* is the number of tokens computed at once,
    padding included; 0 suits the device. *unknown_ok* accepts a folder with code of its authors and settings that only that
    code knows; they are ignored, and the code never runs.
    """

    model: str = field(metadata={"runtime": True})  # these four say where files are; `identity` has their content
    revision: str | None = runtime(None)
    query_model: str | None = runtime(None)
    query_revision: str | None = runtime(None)
    titles: str = "off"
    query_length: int = at_search(512)
    document_length: int = 512
    dtype: str = "float32"
    storage: str = "float32"
    device: str = runtime("auto")
    batch_tokens: int = runtime(0)
    threads: int = runtime(0)
    unknown_ok: bool = runtime(False)

    deterministic: ClassVar[bool] = True  # on one machine and device: neither workers nor threads change a bit
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "titles": ("off", "pair", "string"),
        "dtype": DTYPES,
        "storage": ("float32", "float16"),
    }
    lengths: ClassVar[tuple[str, ...]] = ("query_length", "document_length")
    query_lengths: ClassVar[tuple[str, ...]] = ("query_length",)  # settings with the number of tokens of a query
    several_devices: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        super().__post_init__()
        self.check_prompts()
        if self.query_revision and not self.query_model:
            raise CommandError(f"{self.plugin}(query_revision=…) says which revision of query_model, which is not given")

    # ---- the checkpoint ----------------------------------------------------------------------------------------------------

    def notes(self) -> list[str]:
        """Return one note for each setting but lengths that differs from what the checkpoint states, and one on what it states.

        The latter has the settings that other models lack, e.g. cut vectors and prompts.
        """
        stated = self.checkpoint_defaults({item.name: getattr(self, item.name) for item in fields(self)})
        actual = {name: getattr(self, name, value) for name, value in stated.items()}
        prompt = self.prompt_notes()
        if "query_prompt" in actual:  # a file of prompts means to have others
            actual["query_prompt"] = stated["query_prompt"] if prompt else self.asked_prompt
        optional = {item.name: item.default for item in fields(self) if "optional" in item.metadata}
        ordinary = optional | {"query_prompt": "", "document_prompt": ""}
        taken = [
            f"{name}={value!r}"
            for name, value in stated.items()
            if name in ordinary and ordinary[name] != value == actual[name]
        ]
        return (
            [
                f"{name}={actual[name]!r} was asked for, and the checkpoint says {name}={value!r}"
                for name, value in stated.items()
                if name not in (*self.lengths, *self.query_lengths) and value != actual[name]
            ]
            + prompt
            + ([f"the folder of its model states {shortened(', '.join(taken), _SHOWN)}"] if taken else [])
            + self.unused_prompts(fetch(self.model, self.revision))
            + self.code_notes()
            + [*super().notes()]
        )

    def other_dtypes(self) -> dict[str, Self]:
        """Return copies in bfloat16 and int8 if this processor has faster products in them, and two models fit into memory."""
        from lexbench.models.dtype_speed import faster

        on_cpu = self.spec(self.model, self.revision).torch_device.type == "cpu"
        if self.dtype != "float32" or not on_cpu or sum(self.weight_files().values()) > _MOST_TRIED:
            return {}
        return {dtype: replace(self, dtype=dtype) for dtype in faster()}

    def trained_on(self) -> list[str]:
        """Return the datasets whose queries its models are known to have been trained on."""
        return sorted({name for data in self.training_data() if data for name in data.queries})

    def towers(self) -> list[tuple[str, str | None]]:
        """Return model and revision for documents, and for queries if they have a separate model."""
        return super().towers() + ([(self.query_model, self.query_revision)] if self.query_model else [])

    def identity(self) -> dict[str, Any]:
        """Return the digests of the weights and tokenizers, wherever they are; `query_model` is None for one model.

        Raises CommandError if a text could have more tokens than its model has positions, before the model is loaded.
        """
        document, query_tower = self.towers()[0], self.towers()[-1]
        for name in dict.fromkeys([*self.lengths, *self.query_lengths]):
            tower = query_tower if name in self.query_lengths else document
            check_length(getattr(self, name), name, tower[0], self.checkpoint_files(fetch(*tower)).longest)
        query = self.digests(self.query_model, self.query_revision) if self.query_model else None
        return self.index_identity() | {"query_model": query}

    def index_identity(self) -> dict[str, Any]:
        """Return the digests of the files that decide document vectors. Raises CommandError as `check_settings`."""
        self.check_settings()
        return {"model": self.digests(self.model, self.revision)}

    # ---- encoding ----------------------------------------------------------------------------------------------------------

    @staticmethod
    def _computation() -> "type[TransformerModel]":
        """Return the class in `_torch_models` that runs the model. It needs torch, so it is imported late."""
        raise NotImplementedError

    def tokenise_documents(self, documents: Sequence[Document]) -> Tokens:
        """Return the tokens of *documents*, titles put where `titles` says, cut to `document_length`."""
        model = self._document_model()
        texts = self._inputs(documents, str(model.tokenizer.sep_token or ""))
        return tokenise(model.cutter(self.document_length, "document_length"), texts)

    def encode_tokens(self, tokens: Tokens, advance: Callable[[int], None] = no_progress) -> Any:
        """Return the vectors of documents with these *tokens*, in order; *advance* gets the number of documents just done."""
        return self._encoded(self._document_model(), tokens, query=False, advance=advance)

    def encode_query(self, texts: Sequence[str]) -> Any:
        """Return the vectors of queries, in order."""
        model = self._query_model()
        return self._encoded(model, self._query_tokens(model, texts), query=True)

    def _query_tokens(self, model: Any, texts: Sequence[str]) -> Tokens:
        """Return the tokens of queries with their prompt, cut to `query_length`."""
        return tokenise(model.cutter(self.query_length, "query_length"), [self.asked_prompt + text for text in texts])

    def _encoded(self, model: Any, tokens: Tokens, *, query: bool, advance: Callable[[int], None] = no_progress) -> Any:
        """Return the vectors of documents, or of queries, with these *tokens*, by `encode`."""
        raise NotImplementedError

    def encode_document(self, texts: Sequence[str]) -> Any:
        """Return the vectors of documents without titles, in order."""
        return self.encode_tokens(self.tokenise_documents([Document("", text) for text in texts]))

    def workers(self) -> list[Self]:
        """Return one copy for each device in `device`; copies on the processor share its cores."""
        names = self.device.split(",")
        on_cores = names.count("cpu")
        share = max(1, len(cores()) // on_cores) if on_cores > 1 else 0
        return [replace(self, device=name, threads=self.threads or (share if name == "cpu" else 0)) for name in names]

    @property
    def shards_at_once(self) -> int:
        """Two on a GPU, which then computes the one while the vectors of the other are copied and packed."""
        first = self.device.partition(",")[0]
        return 2 if first.startswith("cuda") or (first == "auto" and devices.has_gpu()) else 1

    def own_tokens(self) -> int:
        """Return the number of tokens of a document without text."""
        return len(self.tokenise_documents([Document("", "")]).ids)

    def token_spans(self, texts: Sequence[str]) -> list[TokenSpans]:
        """Return the tokens of each text, without special ones."""
        return token_spans(self._document_model().tokenizer, texts)

    def _document_model(self) -> Any:
        model = self._loaded(self.model, self.revision)
        if not self.query_model:  # otherwise the error would come after all documents are encoded
            for name in self.query_lengths:
                model.check_length(getattr(self, name), name)
        return model

    def _query_model(self) -> Any:
        return self._loaded(self.query_model, self.query_revision) if self.query_model else self._document_model()

    def _loaded(self, name: str, revision: str | None) -> Any:
        from lexbench.models.transformer_model import loaded

        return loaded(self._computation(), self.spec(name, revision))

    def _inputs(self, documents: Sequence[Document], separator: str, no_title: str = "-") -> list[Input]:
        """Return the tokenizer's input for *documents*, with prompt and title as the settings say."""
        return document_inputs(documents, self.titles, separator, no_title, self.document_prompt)


def encode(
    encoder: Transformer,
    model: "TransformerModel",
    tokens: Tokens,
    compute: Callable[[Batch], V],
    nothing: V,
    *,
    silent: Sequence[int] = (),
    advance: Callable[[int], None] = no_progress,
) -> V:
    """Return the vectors of texts with these *tokens*, in order; *nothing* are those of no texts.

    *compute* makes the vectors of a batch, in which the ids in *silent* do not pool. *encoder* has the settings `threads` and
    `batch_tokens`. A batch that does not fit into memory is halved. Raises LexbenchError if one text does not fit, or a batch
    of stated `batch_tokens`.
    """
    import torch

    from lexbench.models.transformer_model import side_by_side

    most_tokens = encoder.batch_tokens or _BATCH_TOKENS[model.device.type]
    least = _LEAST_TOKENS.get(model.device.type)
    cut = list(batches(tokens, most_tokens, _BATCH_TEXTS, pad=model.pad, silent=silent, least_tokens=least))
    if not cut:
        return nothing

    def computed(batch: Batch) -> Any:
        try:
            with model.own_stream():
                return compute(batch)
        except torch.OutOfMemoryError as error:
            if encoder.batch_tokens or len(batch.texts) == 1:
                raise model.out_of_memory(batch.ids.size) from error
        return stacked([computed(half) for half in halves(batch)])  # here, so that the error's frames keep no memory

    # The longest texts come first: progress counts tokens, as documents, so that the time left can be told from it.
    work = np.cumsum([batch.ids.size for batch in cut])
    reported = np.diff((work / work[-1] * sum(len(batch.texts) for batch in cut)).astype(int), prepend=0).tolist()
    blocks = []
    with devices.torch_threads(encoder.threads):
        threads = torch.get_num_threads() if model.device.type == "cpu" else 1
        with side_by_side(threads if len(cut) > threads else 1) as each:
            for documents, vectors in zip(reported, each(computed, cut), strict=True):
                blocks.append(vectors)
                advance(documents)
    longest_first: Any = stacked(blocks)
    order = np.argsort(np.concatenate([batch.texts for batch in cut]))
    in_order: Any = rows_of(longest_first, order) if isinstance(longest_first, MultiVectors) else longest_first[order]
    if hasattr(in_order, "sort_indices"):  # they are sparse
        in_order.sort_indices()
    found: V = in_order
    return found


def term_text(model: Any, term: int) -> str:
    """Return the text of a term of the vocabulary, or its number in brackets if the tokenizer has none."""
    name = model.tokenizer.convert_ids_to_tokens(int(term))
    return f"[{int(term)}]" if name is None else str(name)


def no_terms(width: int) -> sparse.csr_array:
    """Return the vectors (0, *width*) of no texts."""
    return sparse.csr_array(np.zeros((0, width), np.float32))


@dataclass(frozen=True)
class SparseTransformer(Transformer):
    """The settings of `Transformer`, and the following.

    Prompts are put before texts, and are cut with them; without *pool_prompts* their tokens do not pool.
    """

    query_prompt: str = optional_at_search("")
    document_prompt: str = optional("")
    pool_prompts: bool = optional(True)

    kind: ClassVar[Kind] = Kind.SPARSE
    names_terms: ClassVar[bool] = True

    def token(self, term: int) -> str:
        """Return the text of a term, or its number in brackets if the tokenizer has none."""
        return term_text(self._document_model(), term)

    def _without_prompt(self, model: Any, batch: Batch, prompt: str) -> Batch:
        """Return *batch* in which the tokens of *prompt* do not pool, if `pool_prompts` says so.

        Those are the tokens of the prompt alone, as far as each text begins with them.
        """
        if self.pool_prompts or not prompt:
            return batch
        cutter = plain_copy(model.tokenizer)
        own, marked = (tokenise(cutter, [prompt], special=special).ids for special in (False, True))
        first = next((i for i in range(len(marked)) if np.array_equal(marked[i : i + len(own)], own)), 0)
        places = batch.ids[:, first : first + len(own)]
        pools = batch.pools.copy()
        pools[:, first : first + len(own)] &= ~np.logical_and.accumulate(places == own[: places.shape[1]], axis=1)
        return batch._replace(pools=pools)
