"""Recipes: what is trained on what, and how. One TOML file describes the way from a masked-language model to a retriever.

A recipe names a preset, whose values it takes where it gives none of its own. `paper` and `code` are LexMAE as its paper
describes it and as its authors' program trains it; they differ in exactly the settings in which those two disagree.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from lexbench.errors import CommandError, InvalidFile, LexbenchError
from lexbench.lexmae import _recipe_checks, _recipe_table
from lexbench.storage.reading import Strict

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Length: TypeAlias = Annotated[int, Meta(ge=8)]  # the special tokens of a pair, and something to cut
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Weight: TypeAlias = Annotated[float, Meta(ge=0)]
Scale: TypeAlias = Annotated[float, Meta(gt=0)]
Names: TypeAlias = Annotated[tuple[str, ...], Meta(min_length=1)]


class Encoding(Strict, frozen=True, kw_only=True):
    """How texts become vectors: in training and, told by the trained folder, in the encoder `sparse_mlm`."""

    positions: Literal["text", "all"] = "text"  # that are pooled: all, or neither the first token nor separators
    titles: Literal["pair", "string", "off"] = "pair"
    query_length: Length = 32  # tokens, special ones included
    document_length: Length = 144


class Start(Strict, frozen=True, kw_only=True):
    """The masked-language model that training begins with."""

    model: str  # a folder, or a name on the Hugging Face hub
    revision: str | None = None
    weights: Literal["keep", "fresh"] = "keep"  # fresh: of the model only its shape and tokenizer are taken
    head: Literal["own", "embeddings"] = "own"  # embeddings: a model without a head gets its word embeddings for one
    layers: tuple[Count, ...] = ()  # that are kept, from 0; none named: all
    vocabulary: Count = 0  # word pieces that are kept: those that the corpora of pretraining use most; 0: all


class Fitting(Strict, frozen=True, kw_only=True):
    """What pretraining and the stages of fine-tuning share. Either *steps* or *epochs* is given."""

    steps: Count = 0
    epochs: Weight = 0.0
    batch_size: Positive  # texts (pretraining) or queries (fine-tuning) of one step, over all devices
    learning_rate: Scale
    warmup: Share = 0.05  # share of all steps; then it falls linearly to 0
    weight_decay: Weight = 0.01
    clip: Weight = 0.0  # gradients are scaled down to this norm; 0: never
    dropout: Share | None = None  # of states and attention; not given: the model's own
    save_every: Positive = 1000  # steps between checkpoints that training can go on from


class Pretrain(Fitting, frozen=True, kw_only=True):
    """The masked autoencoder: paper, section 3; settings of its ablations, Table 7."""

    corpora: Names  # ids of datasets, or BEIR folders
    encoder_share: Share = 0.3  # of the words that are masked for the encoder
    decoder_share: Share = 0.5  # likewise for the decoder, in expectation
    masking: Literal["inclusive", "exclusive", "random"] = "inclusive"
    corruption: Literal["fresh", "extend"] = "fresh"  # is what stands for a hidden word drawn anew for the decoder?
    bottleneck: Literal["softmax", "saturated", "cls", "none"] = "softmax"
    embedding_gradient: bool = False  # does the bottleneck train the word embeddings?
    heads: Literal["separate", "shared", "extra"] = "separate"  # of encoder and decoder; extra: one more, for the bottleneck
    decoder_layers: Positive = 2


class Stage(Fitting, frozen=True, kw_only=True):
    """One stage of fine-tuning: paper, appendix A."""

    queries: Names  # ids of datasets for training, or BEIR folders
    start: Literal["start", "pretrained", "stage1", "stage2"] = "pretrained"
    negatives: str  # the retriever that finds them; {pretrained}, {stage1}, {stage2} stand for the folders of those models
    depth: Positive  # the best so many documents of a query are where its negatives are drawn from
    documents: Annotated[int, Meta(ge=2)] = 16  # of one query: a relevant one, the others not
    pairs: Literal["all", "one_per_query"] = "all"  # an example for each relevant document, or one a query, which draws one
    contrast: Literal["own", "in_batch"] = "in_batch"  # what a relevant document is set against: its query's list, or the batch
    lambda_d: Weight  # weight of FLOPS, of documents
    lambda_q: Weight  # and of queries
    ramp: Literal["constant", "quadratic"] = "constant"  # quadratic: (t / ramp_steps)^2 of both weights, as SPLADE does
    ramp_steps: Count = 0  # 0: all steps
    teacher: str | None = None  # a frozen reranker: a folder, or a name on the hub
    divergence: Literal["teacher_student", "student_teacher"] = "teacher_student"  # KL(first || second)
    temperature: Scale = 1.0  # of both distributions in the divergence
    contrast_weight: Weight = 1.0  # gamma, beside a teacher


class Selection(Strict, frozen=True, kw_only=True):
    """Which of a stage's models is kept: the best on queries that no table reports."""

    datasets: tuple[str, ...] = ()  # for tuning, as beir/nfcorpus/dev
    held_out: Annotated[float, Meta(ge=0, lt=1)] = 0.0  # share of the training queries that serve for this instead
    measure: str = "RR@10"
    depth: Positive = 1000  # BM25's best so many documents of each query are ranked by the model
    queries: Count = 0  # at most so many, drawn once; 0: all
    every: Positive = 10_000  # steps; the last step too


class Hardware(Strict, frozen=True, kw_only=True):
    """What it is computed on. In-batch negatives and FLOPS are of a device's piece, so pieces change results a little."""

    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    device: Literal["auto", "cpu"] = "auto"
    accumulate: Positive = 1  # pieces that a device's share of a batch is computed in
    threads: Count = 0  # of the processor; 0: all


class Recipe(Strict, frozen=True, kw_only=True):
    """The whole of it."""

    schema: Literal[1]
    name: str
    description: str = ""
    preset: Literal["paper", "code"] = "code"
    output: str  # the folder for models, negatives and logs
    seed: Count = 42
    license: str = ""  # of the trained weights, for the model card
    encoding: Encoding = Encoding()
    start: Start
    pretrain: Pretrain | None = None
    stage1: Stage | None = None
    stage2: Stage | None = None
    stage3: Stage | None = None
    selection: Selection = Selection()
    hardware: Hardware = Hardware()

    def stage(self, number: int) -> Stage | None:
        """Return stage 1, 2 or 3 of fine-tuning, None where the recipe has none of that number."""
        return (self.stage1, self.stage2, self.stage3)[number - 1]


def read(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Return the recipe in the TOML file *path*, its preset filled in, *overrides* such as `stage1.lambda_d=0.004` on top.

    An override's value is TOML, or text as it is where it does not read as such. A preset fills the sections that the recipe
    has, and makes no pretraining or stage. `steps` and `epochs` take each other's place. `~` is expanded; other paths
    stay relative to the current folder. InvalidFile names the file and the place, CommandError the override; UnknownName is
    for an override of a setting that there is not.
    """
    table = _recipe_table.assembled(path, overrides, Recipe)
    try:
        recipe = msgspec.convert(table, Recipe)
    except msgspec.ValidationError as error:
        raise _blamed(str(error), path, overrides) from None
    if complaint := next(_recipe_checks.complaints(recipe), None):
        raise _blamed(complaint, path, overrides)
    return recipe


def _blamed(error: str, path: Path, overrides: Sequence[str]) -> LexbenchError:
    """Return the error for the override that gave the value, or for the file."""
    what, _, place = error.partition(" - at `$.")
    typed = [text for text in overrides if _recipe_table.named(text) == place.rstrip("`")]
    return CommandError(f"{typed[-1]}: {what}") if typed else InvalidFile(f"{path}: {error}")
