"""The settings of a recipe, section by section, and which of them must go together.

What a setting may be stands in its type. `inconsistencies` finds what types cannot say, as a stage that begins with a model
that the recipe does not make.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from lexbench.errors import LexbenchError
from lexbench.measures import parse as parse_measure
from lexbench.notation import parse
from lexbench.storage.reading import Strict

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Length: TypeAlias = Annotated[int, Meta(ge=8)]  # the special tokens of a pair, and something to cut
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Weight: TypeAlias = Annotated[float, Meta(ge=0)]
Scale: TypeAlias = Annotated[float, Meta(gt=0)]
Names: TypeAlias = Annotated[tuple[str, ...], Meta(min_length=1)]

_MODELS = ("start", "pretrained", "vectors", "stage1", "stage2")  # in the order in which they are trained
_PLACEHOLDER = re.compile(r"\{(\w*)\}")  # of a model's folder, in `negatives`
_OF_RUN_FILE = "dataset"  # the placeholder that run_file(path="...") fills by itself
_WHOLE = 1.0 + 1e-9  # shares such as 0.3 and 0.7 add up to this, or less


class Encoding(Strict, frozen=True, kw_only=True):
    """How texts become vectors, in training and later: the trained folder has it for the encoder `sparse_mlm`."""

    positions: Literal["text", "all"] = "text"  # that are pooled; text: neither the first token nor separators
    titles: Literal["pair", "string", "off"] = "pair"
    query_length: Length = 32  # tokens, special ones included
    document_length: Length = 144
    document_terms: Count = 0  # weights of a document that are kept, the largest; 0: all. Training has its own, `top_k`


class Start(Strict, frozen=True, kw_only=True):
    """The masked-language model that training begins with."""

    model: str  # a folder, or a name on the Hugging Face hub
    revision: str | None = None
    weights: Literal["keep", "fresh"] = "keep"  # fresh: of the model only its shape and tokenizer are taken
    # What a model without a head gets: embeddings, its word embeddings project its states as they are; regression, behind the
    # linear map that gives back the word pieces of the recipe's corpora best; words, behind the one that gives each word the
    # vector that the model, an encoder of sentences, has for it.
    head: Literal["own", "embeddings", "regression", "words"] = "own"
    layers: tuple[Count, ...] = ()  # that are kept, numbered from 0; (): all
    vocabulary: Count = 0  # word pieces that are kept: those that the corpora of pretraining use most; 0: all


class ExactTerms(Strict, frozen=True, kw_only=True):
    """Weights of a text's own word pieces, as they begin: see `lexbench.models.exact_terms`. All stages train them."""

    corpora: Names  # ids of datasets, or BEIR folders, whose documents the inverse document frequencies are of
    weight: Weight = 2.0  # of a word piece that the text has, times its inverse document frequency to the power of `idf`
    idf: Weight = 0.5
    predicted_idf: Weight = 0.25  # exponent of that which predicted weights are multiplied with
    scale: Scale = 0.35  # of both


class Fitting(Strict, frozen=True, kw_only=True):
    """What pretraining and the stages of fine-tuning share: the optimisation. Either *steps* or *epochs* is given."""

    steps: Count = 0
    epochs: Weight = 0.0
    batch_size: Positive  # texts (pretraining) or queries (fine-tuning) of one step, over all devices
    learning_rate: Scale
    warmup: Share = 0.05  # share of all steps; then it falls linearly to 0
    weight_decay: Weight = 0.01
    clip: Weight = 0.0  # the norm that gradients are scaled down to; 0: never
    dropout: Share | None = None  # of states and attention; None: the model's own
    save_every: Positive = 1000  # steps between checkpoints that training can go on from


class Pretrain(Fitting, frozen=True, kw_only=True):
    """The masked autoencoder: paper, section 3; settings of its ablations, Table 7."""

    corpora: Names  # ids of datasets, or BEIR folders
    encoder_share: Share = 0.3  # of the words that are masked for the encoder
    decoder_share: Share = 0.5  # likewise for the decoder, in expectation
    masking: Literal["inclusive", "exclusive", "random"] = "inclusive"
    corruption: Literal["fresh", "extend"] = "fresh"  # fresh: what replaces a hidden word is drawn anew for the decoder
    bottleneck: Literal["softmax", "saturated", "cls", "none"] = "softmax"
    bottleneck_at: Literal["first", "masks"] = "first"  # of the decoder's input; masks: at each [MASK] too, unlike the paper
    embedding_gradient: bool = False  # whether the bottleneck trains the word embeddings
    heads: Literal["separate", "shared", "extra"] = "separate"  # of encoder and decoder; extra: one more, for the bottleneck
    decoder_layers: Count = 2  # 0: no decoder, so masked-language modelling alone
    decoder_rate: Scale = 1.0  # what the learning rate of the decoder is multiplied with: its weights are new


class Vectors(Fitting, frozen=True, kw_only=True):
    """Learning a teacher's sparse vectors term by term: see `lexbench.lexmae.model.vector_learner`. No judgement is used."""

    corpora: Names  # ids of datasets, or BEIR folders
    queries: tuple[str, ...] = ()  # those of the corpora whose training queries are learned too
    most: Count = 0  # documents, and queries, of each corpus; 0: all
    start: Literal["start", "pretrained"] = "start"
    teacher: str  # a masked-language model that makes sparse vectors: a folder, or a name on the hub
    teacher_idf: Weight = 0.25  # exponent of the inverse document frequency that the teacher's weights are multiplied with
    own_weight: Weight = 2.0  # of the text's own word pieces, weighted as in BM25
    own_idf: Weight = 0.5  # exponent of theirs
    scale: Scale = 0.35  # of the whole: log(1 + x) does not reach the sum's largest weights
    largest: Scale = 4.5  # a weight, after scaling
    document_terms: Count = 0  # that are learned of a document, the largest; 0: all
    query_terms: Count = 0  # and of a query
    sparsity: Weight = 0.0  # of the sum of the weights that should be 0
    bias_rate: Scale = 10.0  # what the learning rate of the projection's bias is multiplied with


class Stage(Fitting, frozen=True, kw_only=True):
    """One stage of fine-tuning: paper, appendix A."""

    queries: Names  # ids of datasets for training, or BEIR folders
    start: Literal["start", "pretrained", "vectors", "stage1", "stage2"] = "pretrained"
    negatives: str  # the system that finds them; {vectors}, {stage1} and so on stand for the folders of those models
    depth: Positive  # rank down to which a query's documents serve as negatives
    documents: Annotated[int, Meta(ge=2)] = 16  # of one query in a batch: one relevant, the others not
    strata: tuple[Positive, ...] = ()  # ranks, ascending, that part a list; from each part as many negatives; (): from all
    most: Count = 0  # queries of each training set, drawn once; 0: all
    pairs: Literal["all", "one_per_query"] = "all"  # an example for each relevant document, or for each query, which draws one
    contrast: Literal["own", "in_batch"] = "in_batch"  # the softmax is over the query's own documents, or over the batch's
    lambda_d: Weight  # weight of the FLOPS regulariser of documents
    lambda_q: Weight  # likewise of queries
    ramp: Literal["constant", "quadratic"] = "constant"  # of both weights; quadratic: (t / ramp_steps)^2, as SPLADE does
    ramp_steps: Count = 0  # 0: all steps
    free_terms_d: Count = 0  # FLOPS does not count documents that have no more terms than this
    free_terms_q: Count = 0  # likewise queries
    top_k: tuple[
        Count, ...
    ] = ()  # how many weights of a document, the largest, count in a step: these in turn; 0: all; (): always all
    term_rate: Scale = 1.0  # what the learning rate of weights that belong to one word is multiplied with: bias, exact terms
    # A frozen reranker, as a folder or a name on the hub; or a system, as ensemble(bm25, minilm): it searches once, a query's
    # scores become 0 (the worst of its list, or not in it) to 1, and with contrast = "in_batch" it judges the whole batch.
    teacher: str | None = None
    teacher_rank: Count = 0  # queries whose relevant documents a system that teaches ranks below this are left out; 0: none
    teacher_scale: Scale = 1.0  # of the teacher's scores in the divergence
    student_scale: Scale = 1.0  # and of the model's own
    # KL(first || second) of the distributions over documents; margin_mse: of the differences to the relevant document's score
    divergence: Literal["teacher_student", "student_teacher", "margin_mse"] = "teacher_student"
    temperature: Scale = 1.0  # of both distributions in the divergence
    contrast_weight: Weight = 1.0  # gamma, of the contrastive loss beside a teacher's


class Selection(Strict, frozen=True, kw_only=True):
    """How the best model of a stage is chosen, on queries that no table reports."""

    datasets: tuple[str, ...] = ()  # for tuning, as beir/nfcorpus/dev
    held_out: Annotated[float, Meta(ge=0, lt=1)] = 0.0  # share of the training queries that are kept for choosing
    measure: str = "RR@10"
    depth: Positive = 1000  # documents of each query, the best by BM25, that the model ranks
    subset: Count = 0  # documents that all queries search instead: the relevant ones, others drawn; 0: BM25's
    queries: Count = 0  # at most, drawn once; 0: all
    every: Positive = 10_000  # steps between two choices; the last step is one too


class Hardware(Strict, frozen=True, kw_only=True):
    """What training is computed on. In-batch negatives and FLOPS are of a device's piece, so pieces change results a little."""

    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    device: Literal["auto", "cpu"] = "auto"
    accumulate: Positive = 1  # pieces in which a device computes its share of a batch
    threads: Count = 0  # of the processor; 0: all


class Recipe(Strict, frozen=True, kw_only=True):
    """All settings of a recipe file, its preset filled in."""

    schema: Literal[1]
    name: str
    description: str = ""
    preset: Literal["paper", "code"] = "code"
    output: str  # folder for models, negatives and logs
    seed: Count = 42
    license: str = ""  # of the trained weights, for the model card
    encoding: Encoding = Encoding()
    start: Start
    exact_terms: ExactTerms | None = None
    pretrain: Pretrain | None = None
    vectors: Vectors | None = None
    stage1: Stage | None = None
    stage2: Stage | None = None
    stage3: Stage | None = None
    selection: Selection = Selection()
    hardware: Hardware = Hardware()

    def stage(self, number: int) -> Stage | None:
        """Return stage 1, 2 or 3 of fine-tuning, None where the recipe has none of that number."""
        return (self.stage1, self.stage2, self.stage3)[number - 1]


SECTIONS: Mapping[str, type[Strict]] = {
    "encoding": Encoding,
    "start": Start,
    "exact_terms": ExactTerms,
    "pretrain": Pretrain,
    "vectors": Vectors,
    "stage1": Stage,
    "stage2": Stage,
    "stage3": Stage,
    "selection": Selection,
}


def placeholders(text: str) -> list[str]:
    """Return the models that *text*, the `negatives` of a stage, names in braces: `stage1` of `sparse_mlm("{stage1}")`."""
    return [name for name in _PLACEHOLDER.findall(text) if name != _OF_RUN_FILE]


def inconsistencies(recipe: Recipe) -> Iterator[str]:
    """Yield what is wrong with a recipe whose settings have their types, worded as msgspec does, the setting last."""
    if recipe.pretrain:
        yield from _of_fitting(recipe.pretrain, "pretrain", recipe.hardware.accumulate)
        yield from _of_masking(recipe.pretrain)
    if recipe.vectors:
        yield from _of_fitting(recipe.vectors, "vectors", recipe.hardware.accumulate)
        if not _trains(recipe, recipe.vectors.start):
            yield "The recipe makes no model 'pretrained': it has no [pretrain]; there is: start - at `$.vectors.start`"
        if others := [name for name in recipe.vectors.queries if name not in recipe.vectors.corpora]:
            yield f"Expected queries of the corpora, and {others[0]} is none of them - at `$.vectors.queries`"
    for number in (1, 2, 3):
        if stage := recipe.stage(number):
            yield from _of_fitting(stage, f"stage{number}", recipe.hardware.accumulate)
            yield from _of_stage(stage, number, recipe)
    try:
        parse_measure(recipe.selection.measure)
    except LexbenchError as error:
        yield f"{error} - at `$.selection.measure`"


def _of_fitting(fitting: Fitting, section: str, pieces: int) -> Iterator[str]:
    if bool(fitting.steps) == bool(fitting.epochs):
        given = "both are" if fitting.steps else "neither is"
        yield f"Expected `steps` or `epochs` above 0, and {given} - at `$.{section}`"
    if fitting.batch_size % pieces:
        yield f"Expected a multiple of `hardware.accumulate`, {pieces} - at `$.{section}.batch_size`"


def _of_masking(pretrain: Pretrain) -> Iterator[str]:
    encoder, decoder = pretrain.encoder_share, pretrain.decoder_share
    if pretrain.masking == "inclusive" and decoder < encoder:
        yield f"Inclusive masking needs at least the encoder's share, {encoder:g} - at `$.pretrain.decoder_share`"
    if pretrain.masking == "exclusive" and encoder + decoder > _WHOLE:
        most = f"{1 - encoder:g}"
        yield f"Exclusive masking leaves at most {most} - at `$.pretrain.decoder_share`"


def _of_stage(stage: Stage, number: int, recipe: Recipe) -> Iterator[str]:
    section = f"`$.stage{number}"
    earlier = _MODELS[: number + 2]
    trained = [name for name in earlier if _trains(recipe, name)]
    needed = [(stage.start, "start"), *((name, "negatives") for name in placeholders(stage.negatives))]
    for name, key in needed:
        if name not in earlier:
            yield f"Stage {number} comes before any model {name!r}; there is: {', '.join(trained)} - at {section}.{key}`"
        elif name not in trained:
            lacking = "pretrain" if name == "pretrained" else name
            models = ", ".join(trained)
            yield f"The recipe makes no model {name!r}: it has no [{lacking}]; there is: {models} - at {section}.{key}`"
    if list(stage.strata) != sorted(set(stage.strata)):
        yield f"Expected ranks that ascend - at {section}.strata`"
    try:
        parse(_PLACEHOLDER.sub("x", stage.negatives))
    except LexbenchError as error:
        yield f"{error} - at {section}.negatives`"


def _trains(recipe: Recipe, model: str) -> bool:
    section = "pretrain" if model == "pretrained" else model
    return getattr(recipe, section) is not None
