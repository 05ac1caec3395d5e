"""One dense vector per text, pooled from the states of its tokens, e.g. their mean, or the state of the first or last one.

Models are BERT-like, or causal language models (Llama, Mistral, Qwen), whose last token has seen the whole text. The models in
the tables of the LexMAE paper differ in settings: DPR and ADORE have two towers, ANCE and ADORE a head, SimLM and BGE compare
by cosine, TCT-ColBERT writes its own markers and leaves them out of the mean, coCondenser and SimLM read title and passage as a
pair. `lexbench list models` shows models with known settings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.vectors import SIMILARITIES, metric_of
from lexbench.encoders._transformer import Transformer, encode, no_progress
from lexbench.errors import CommandError
from lexbench.models.architectures import body_files
from lexbench.models.checkpoint import CheckpointFiles
from lexbench.models.stated_modules import POOLINGS, STEPS
from lexbench.models.stated_settings import dense_defaults, instead
from lexbench.models.token_batches import Batch, Input, Tokens, ended, filled, tokenise
from lexbench.registry import at_search, optional
from lexbench.types import Document, Kind

if TYPE_CHECKING:
    from lexbench.encoders._torch_models import DenseModel


@dataclass(frozen=True)
class Dense(Transformer):
    """The settings of `Transformer`, and the following; folders of sentence-transformers state most of them.

    *pooling*: "cls" is the state of the first token, "last" of the last token, "mean" the mean of all real positions, "max" the
    largest value of each dimension. "mean_sqrt_len" divides the sum by the root of the number of positions, "weightedmean"
    weights each state with its position, from 1. Several are joined, e.g. "cls+mean". *skip* leaves out the first positions of
    the mean; without *pool_prompts* every pooling leaves out the prompt. *end_token* adds the tokenizer's end token to texts
    that lack it, for models that were trained with one but whose tokenizer does not add it (RepLLaMA); texts are cut before it.
    *head*: the steps behind the pooling, joined by "_": "linear", "layernorm", "normalize", an activation such as "tanh", and
    "residual", which adds the input of the last linear layer; e.g. "linear_layernorm" (ANCE). *dimensions* above 0 cuts vectors
    behind the head (Matryoshka). *similarity*: "dot"; "cosine", which makes vectors of length 1, cut ones too; "euclidean" and
    "manhattan", which `flat` has. Prompts are put before texts (before the title if it is separate), and are cut with them.
    Without *special_tokens* the tokenizer adds none, but "[CLS]" in a prompt is one. Queries are filled with [MASK] up to
    *mask_queries_to* tokens, which are attended to and pooled (TCT-ColBERT).
    *type_ids* marks which text of a pair a token belongs to (SimLM). *no_title* replaces a missing title in a pair.
    *lowercase* is for models whose tokenizer does not lower-case (ANCE).
    """

    pooling: str = ""
    similarity: str = "dot"
    head: str = "none"
    skip: int = 0
    query_prompt: str = at_search("")
    document_prompt: str = ""
    special_tokens: bool = True
    mask_queries_to: int = at_search(0)
    type_ids: bool = False
    no_title: str = "-"
    lowercase: bool = False
    end_token: bool = optional(False)
    dimensions: int = optional(0)
    pool_prompts: bool = optional(True)

    kind: ClassVar[Kind] = Kind.DENSE
    family: ClassVar[str] = "dense"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Transformer.choices,
        "similarity": SIMILARITIES,
    }

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings. Pooling has no default, because a wrong one gives wrong numbers."""
        if not self.pooling:
            raise CommandError(
                f'dense: {self.model} does not say how it pools; type pooling="mean", "cls" or "last", as its authors do'
                f"{instead(Path(self.model), 'dense')}"
            )
        super().__post_init__()
        for name, joint, known in (("pooling", "+", POOLINGS), ("head", "_", STEPS)):
            value = getattr(self, name)
            if (name, value) != ("head", "none") and not set(value.split(joint)) <= set(known):
                raise CommandError(f"dense({name}={value!r}): there is {', '.join(known)}, joined by {joint}")
        for name in ("skip", "mask_queries_to", "dimensions"):
            if (value := getattr(self, name)) < 0:
                raise CommandError(f"dense({name}={value}): a whole number from 0")
        if self.mask_queries_to > self.query_length:
            raise CommandError(
                f"dense(mask_queries_to={self.mask_queries_to}): queries have at most query_length={self.query_length} tokens"
            )
        if self.skip and self.pooling != "mean":
            raise CommandError(f'dense(skip={self.skip}) leaves out positions of the mean; type pooling="mean", or skip=0')

    @property
    def metric(self) -> str:  # type: ignore[override] # a setting decides it
        """The similarity, if vectors are not multiplied."""
        return metric_of(self.similarity)

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of a body, and the settings that the folder states."""
        files = body_files(folder, causal=True)
        return replace(files, defaults=dense_defaults(folder, files.config))

    @staticmethod
    def _computation() -> "type[DenseModel]":
        from lexbench.encoders._torch_models import DenseModel

        return DenseModel

    def tokenise_documents(self, documents: Sequence[Document]) -> Tokens:
        """Return the tokens of *documents* with prompt and title, cut to `document_length`."""
        model = self._document_model()
        if self.titles != "off" and model.tokenizer.sep_token is None:
            raise CommandError(f"dense(titles={self.titles!r}): {model.name} has no token that separates texts; leave it out")
        texts = self._inputs(documents, str(model.tokenizer.sep_token), self.no_title)
        return self._tokens(model, texts, "document_length")

    def _query_tokens(self, model: "DenseModel", texts: Sequence[str]) -> Tokens:
        """Return the tokens of queries with their prompt, filled with [MASK] as `mask_queries_to` says."""
        tokens = self._tokens(model, [self.asked_prompt + text for text in texts], "query_length")
        if self.mask_queries_to:
            tokens = filled(tokens, model.special_token("mask", "mask_queries_to=0"), self.mask_queries_to)
        return tokens

    def _tokens(self, model: "DenseModel", texts: Sequence[Input], setting: str) -> Tokens:
        """Return the tokens of *texts*, cut to the length in the *setting* of that name. Raises the errors of `check_head`."""
        model.check_head(self._steps)
        self._width(model)
        length = getattr(self, setting)
        cutter = model.cutter(length, setting)
        if self.end_token:
            cutter = model.cutter(length - 1, setting)
        if self.lowercase:
            texts = [text.lower() if isinstance(text, str) else (text[0].lower(), text[1].lower()) for text in texts]
        tokens = tokenise(cutter, texts, special=self.special_tokens, types=self.type_ids)
        return ended(tokens, model.special_token("eos", "end_token=False")) if self.end_token else tokens

    def _encoded(
        self, model: "DenseModel", tokens: Tokens, *, query: bool, advance: Callable[[int], None] = no_progress
    ) -> NDArray[np.float32]:
        """Return the vectors (texts, dimensions)."""
        prompt = self.asked_prompt if query else self.document_prompt
        skip = self.skip if self.pool_prompts or not prompt else model.prompt_tokens(prompt, special=self.special_tokens)
        poolings, width, unit_length = self.pooling.split("+"), self._width(model), self.similarity == "cosine"

        def compute(batch: Batch) -> NDArray[np.float32]:
            return model.vectors(batch, poolings, self._steps, skip, width, unit_length=unit_length)

        return encode(self, model, tokens, compute, np.zeros((0, width), np.float32), advance=advance)

    @property
    def _steps(self) -> list[str]:
        """The steps of the head."""
        return [] if self.head == "none" else self.head.split("_")

    def _width(self, model: "DenseModel") -> int:
        """Return the dimensions of a vector. Raises CommandError if there are fewer than *dimensions*."""
        width = model.dimensions_behind(len(self.pooling.split("+")))
        if self.dimensions > width:
            raise CommandError(f"dense(dimensions={self.dimensions}): {model.name} makes {width} dimensions; type fewer")
        return self.dimensions or width
