"""The settings of a recipe, section by section, the rules that combine them, and the paths of what a recipe makes.

Each setting's type says which values are allowed. `inconsistencies` checks what types cannot express, for example a stage that
starts from a model that the recipe does not train.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from lexbench.errors import LexbenchError
from lexbench.measures import parse as parse_measure
from lexbench.notation import parse
from lexbench.storage.reading import Strict

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Length: TypeAlias = Annotated[int, Meta(ge=8)]  # room for the special tokens of a pair and some text
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Weight: TypeAlias = Annotated[float, Meta(ge=0)]
Scale: TypeAlias = Annotated[float, Meta(gt=0)]
Names: TypeAlias = Annotated[tuple[str, ...], Meta(min_length=1)]

STAGES = (1, 2, 3)
GROUP = 8  # texts of a batch of [ranking] per example: one, and neighbours of it
ASKED = 2  # queries near each neighbour, if a table encodes queries
MODELS: Mapping[str, str] = {  # what a recipe makes, in training order: a model, which names its folder, and its section
    "start": "start",
    "pretrained": "pretrain",
    "imitated": "imitation",
    **{f"stage{number}": f"stage{number}" for number in STAGES},
}
_PLACEHOLDER = re.compile(r"\{(\w*)\}")  # stands for a model's folder in `negatives`
_OF_RUN_FILE = "dataset"  # the placeholder that run_file(path="...") fills in itself


class Encoding(Strict, frozen=True, kw_only=True):
    """How texts become vectors. The trained folder records it, so that `sparse_mlm` encodes the same way."""

    positions: Literal["text", "all"] = "text"  # positions that are pooled; text: without the first token and separators
    titles: Literal["pair", "string", "off"] = "pair"
    query_length: Length = 32  # tokens, including special ones
    document_length: Length = 144
    document_terms: Count = 0  # keep this many of a document's largest weights; 0: all. Training uses all
    text_terms: Count = 0  # of a document, from the text head; training and selection have none
    query_text_terms: Count = 0
    query_counts: Literal["saturated", "whole"] = "saturated"  # of exact terms in queries; training saturates them
    query_idf: Weight = 0.0  # power of `collection_idf` in search, 0: none; training and selection have no collection idf


class Start(Strict, frozen=True, kw_only=True):
    """The masked-language model that training starts from."""

    model: str  # a folder, or a name on the Hugging Face hub
    revision: str | None = None
    weights: Literal["keep", "fresh"] = "keep"  # fresh: random weights; only the shape and the tokenizer are taken
    head: Literal["own", "embeddings"] = "own"  # embeddings: for a model without one; its word embeddings project its states
    vocabulary: Count = 0  # word pieces to keep, the most frequent ones in the corpora of pretraining; 0: all


class ExactTermsSettings(Strict, frozen=True, kw_only=True):
    """Initial weights of a text's own word pieces, see `lexbench.models.added_terms`. All stages train them."""

    corpora: Names  # ids of datasets or BEIR folders; their documents give the inverse document frequencies
    weight: Weight = 2.0  # of a word piece in the text, times its inverse document frequency to the power of `idf`
    idf: Weight = 0.5
    stems: bool = False  # a word counts as the most common word piece with its stem
    predicted_idf: Weight = 0.25  # exponent of the inverse document frequency that predicted weights are multiplied by
    scale: Scale = 0.35  # of both kinds of weights


class TextHeadSettings(Strict, frozen=True, kw_only=True):
    """A second head, see `lexbench.models.added_terms`. It is trained at the end of a stage or of imitation."""

    terms: Positive = 8192  # the most common whole words
    texts: Positive = 12_000  # of a stage: documents and queries, half each, the same number of each training set
    steps: Positive = 600
    scale: Scale = 2.0  # of its weights; with 1 the dot product of two texts is about their cosine


class Fitting(Strict, frozen=True, kw_only=True):
    """The optimisation settings shared by pretraining and fine-tuning. Give either *steps* or *epochs*."""

    steps: Count = 0
    epochs: Weight = 0.0
    batch_size: Positive  # texts (pretraining) or queries (fine-tuning) per step, over all devices
    learning_rate: Scale
    warmup: Share = 0.05  # share of all steps; then the learning rate falls linearly to 0
    weight_decay: Weight = 0.01
    clip: Weight = 0.0  # largest norm of the gradients; 0: no clipping
    dropout: Share | None = None  # of states and attention; None: the model's own
    save_every: Positive = 1000  # steps between checkpoints


class Pretrain(Fitting, frozen=True, kw_only=True):
    """The masked autoencoder: paper, section 3."""

    corpora: Names  # ids of datasets or BEIR folders
    encoder_share: Share = 0.3  # share of words masked for the encoder
    decoder_share: Share = 0.5  # expected share of words masked for the decoder, those masked for the encoder included
    corruption: Literal["fresh", "extend"] = "fresh"  # fresh: the replacement of a masked word is drawn anew for the decoder
    bottleneck: Literal["softmax", "saturated", "none"] = "softmax"
    decoder_layers: Count = 2  # 0: no decoder, that is, masked-language modelling alone


class Imitation(Fitting, frozen=True, kw_only=True):
    """Learning the predictions of another sparse model, text by text, see `lexbench.lexmae.training.imitation`.

    It starts from the initial model, even if the recipe has [pretrain].
    """

    model: str  # the imitated masked-language model with the same word pieces: a folder, or a name on the hub
    corpora: Names  # ids of datasets or BEIR folders; queries are learned from a folder that has them as documents
    shares: tuple[Scale, ...] = ()  # of the texts drawn, one for each of *corpora*; (): all texts count the same
    length: Count = 0  # tokens of a text; 0: document_length
    keep_means: Weight = 20.0  # weight of 1 - cosine of a text's mean state and the one before training
    # Weight of the distance between states: those that the imitated model projects, and a linear map of the model's own.
    # Above 0, the first head is fitted to them, and start.head is not used.
    states: Weight = 0.0
    term_rate: Scale = 10.0  # factor of the learning rate of weights that belong to one word
    start_share: Share = 0.0  # after training, share of the initial model in the mean of both, which keeps what it knows


class Ranking(Strict, frozen=True, kw_only=True):
    """Learning to rank in imitation, see `lexbench.lexmae.training.ranking`. A batch of imitation then has groups of texts.

    The weights are one for each of the corpora of imitation, or () if all are 1.
    """

    model: (
        str  # a dense model with the same word pieces; the means of its states are its vectors: a folder, or a name on the hub
    )
    texts: Positive = 60_000  # that batches draw from
    imitated: tuple[Weight, ...] = ()  # of the imitated model's scores in the ranking of a text; the dense model's count 1
    distance: tuple[Weight, ...] = ()  # of a text's distance to the imitated predictions; the ranking counts 1
    # Corpora of imitation whose texts are queries. A table of trained weights encodes them instead of the model, and they rank
    # the texts of the other corpora, see `lexbench.lexmae.training.query_table`. (): the model encodes all texts in both roles.
    queries: tuple[str, ...] = ()
    expansions: Count = 0  # other words that each word of such a query adds: the imitated model's, for a query of that word
    expansion_weight: Scale = 0.6  # of their weights before training, which are relative to that of the word

    @property
    def group(self) -> int:
        """Texts of a batch per example."""
        return GROUP + (GROUP - 1) * ASKED if self.queries else GROUP


class Stage(Fitting, frozen=True, kw_only=True):
    """One stage of fine-tuning: paper, appendix A."""

    queries: Names  # ids of datasets for training, or BEIR folders
    start: Literal["start", "pretrained", "imitated", "stage1", "stage2"] = "pretrained"
    negatives: str  # the system that finds them; {pretrained}, {stage1} and so on stand for the folders of those models
    depth: Positive  # negatives come from this many of the best documents of each query
    documents: Annotated[int, Meta(ge=2)] = 16  # per query in a batch: one relevant document, the others negatives
    pairs: Literal["all", "one_per_query"] = "all"  # one example per relevant document, or per query, which draws one
    contrast: Literal["own", "in_batch"] = "in_batch"  # softmax over the query's own documents, or over the whole batch's
    lambda_d: Weight  # weight of the FLOPS regulariser of documents
    lambda_q: Weight  # the same of queries
    ramp: Literal["constant", "quadratic"] = "constant"  # of both weights; quadratic: (t / ramp_steps)^2, as in SPLADE
    ramp_steps: Count = 0  # 0: all steps
    # A frozen reranker (a folder or a name on the hub) or a system, e.g. ensemble(bm25, minilm). A system searches once. The
    # scores of a query are scaled from 0 (last in its list, or not in it) to 1. With contrast = "in_batch" it judges the whole
    # batch.
    teacher: str | None = None
    # scaled: from 0 to 1, as said; given: a reranker's scores from a file, as they are and of the query's own documents, whose
    # lowest one is that of documents that the file lacks.
    teacher_scores: Literal["scaled", "given"] = "scaled"
    teacher_scale: Scale = 1.0  # factor of the teacher's scores in the divergence
    student_scale: Scale = 1.0  # factor of the model's own scores
    divergence: Literal["teacher_student", "student_teacher"] = "teacher_student"  # KL(first || second) over documents
    contrast_weight: Weight = 1.0  # gamma: weight of the contrastive loss when there is a teacher
    published: Share = 0.0  # the authors' value of the measure of selection, on other queries; shown beside selection's own


class Selection(Strict, frozen=True, kw_only=True):
    """How the best model of a stage is chosen, on queries that no table reports."""

    datasets: tuple[str, ...] = ()  # for tuning, e.g. beir/nfcorpus/dev
    held_out: Annotated[float, Meta(ge=0, lt=1)] = 0.0  # share of the training queries that are kept for selection
    measure: str = "RR@10"
    depth: Positive = 1000  # the model ranks this many of BM25's best documents of each query
    queries: Count = 0  # at most this many, drawn once; 0: all
    every: Positive = 10_000  # steps between two selections; the last step is always scored


class Hardware(Strict, frozen=True, kw_only=True):
    """The devices. Losses and gradients are those of the whole batch, however many devices and pieces compute it."""

    precision: Literal["fp32", "bf16", "fp16", "auto"] = (
        "fp32"  # auto: bf16 where it is faster, fp16 on GPUs without it, or fp32
    )
    device: Literal["auto", "cpu"] = "auto"
    accumulate: Positive = 1  # pieces in which a device computes its share of a batch, each twice: memory is that of one piece
    threads: Count = 0  # of the processor; 0: all
    workers: Count | None = None  # processes per device that prepare batches; None: up to 4 with a GPU, else 0


class Recipe(Strict, frozen=True, kw_only=True):
    """All settings of a recipe file, with its preset filled in."""

    schema: Literal[1]
    name: str
    description: str = ""
    preset: Literal["paper", "code"] = "code"
    output: str  # folder for models, negatives and logs
    seed: Count = 42
    license: str = ""  # of the trained weights, for the model card
    leave_out: tuple[
        str, ...
    ] = ()  # datasets for testing: nothing is trained on their judged documents, if the corpus is theirs
    encoding: Encoding = Encoding()
    start: Start
    exact_terms: ExactTermsSettings | None = None
    text_head: TextHeadSettings | None = None
    pretrain: Pretrain | None = None
    imitation: Imitation | None = None
    ranking: Ranking | None = None
    stage1: Stage | None = None
    stage2: Stage | None = None
    stage3: Stage | None = None
    selection: Selection = Selection()
    hardware: Hardware = Hardware()

    def stage(self, number: int) -> Stage | None:
        """Return stage 1, 2 or 3 of fine-tuning, or None if the recipe does not have it."""
        return (self.stage1, self.stage2, self.stage3)[number - 1]

    def section(self, model: str) -> Start | Fitting | None:
        """Return the section that makes *model*, one of MODELS, or None if the recipe does not have it."""
        section: Start | Fitting | None = getattr(self, MODELS[model])
        return section

    def folder(self, model: str) -> Path:
        """Return the folder of *model*, an ordinary one of transformers, whether it exists or not."""
        return Path(self.output) / model

    def state(self, model: str) -> Path:
        """Return the folder with the state of an unfinished training of *model*."""
        return Path(self.output) / f"{model}.training"

    def negatives(self, stage: int, dataset: str, *, taught: bool = False) -> Path:
        """Return the folder of a stage's negatives for the queries of *dataset* (an id or a folder).

        With *taught* it is that of the lists of the system that teaches the stage.
        """
        name = dataset.strip("/").replace("/", "-")
        return Path(self.output) / "negatives" / f"stage{stage}" / (f"teacher-{name}" if taught else name)


def placeholders(text: str) -> list[str]:
    """Return the models that a stage's `negatives` name in braces, e.g. `stage1` in `sparse_mlm("{stage1}")`."""
    return [name for name in _PLACEHOLDER.findall(text) if name != _OF_RUN_FILE]


def from_file(stage: Stage) -> bool:
    """Return whether the scores of a stage's teacher come from a file."""
    try:
        return parse(_PLACEHOLDER.sub("x", stage.teacher or "")).head.name == "run_file"
    except LexbenchError:  # it is a reranker's folder or name on the hub
        return False


def inconsistencies(recipe: Recipe) -> Iterator[str]:
    """Yield the errors that types cannot find, worded as msgspec words its own: the setting comes last."""
    for model, section in MODELS.items():
        fitting = recipe.section(model)
        if isinstance(fitting, Fitting) and bool(fitting.steps) == bool(fitting.epochs):
            given = "both are" if fitting.steps else "neither is"
            yield f"Expected `steps` or `epochs` above 0, and {given} - at `$.{section}`"
    if recipe.pretrain and recipe.pretrain.decoder_share < (share := recipe.pretrain.encoder_share):
        yield f"Expected at least the encoder's share, {share:g} - at `$.pretrain.decoder_share`"
    yield from _imitation_errors(recipe)
    for number in STAGES:
        if stage := recipe.stage(number):
            yield from _stage_errors(stage, number, recipe)
    if (recipe.encoding.text_terms or recipe.encoding.query_text_terms) and not recipe.text_head:
        yield "Needs a [text_head], and the recipe has none - at `$.encoding.text_terms`"
    try:
        parse_measure(recipe.selection.measure)
    except LexbenchError as error:
        yield f"{error} - at `$.selection.measure`"


def _imitation_errors(recipe: Recipe) -> Iterator[str]:
    """Yield the errors of [imitation] and [ranking]: numbers that are not one for each corpus, or a ranking alone."""
    imitation, ranking = recipe.imitation, recipe.ranking
    if imitation is None:
        if ranking:
            yield "Needs an [imitation], and the recipe has none - at `$.ranking`"
        return
    weights = {"ranking.imitated": ranking.imitated, "ranking.distance": ranking.distance} if ranking else {}
    for setting, values in {"imitation.shares": imitation.shares, **weights}.items():
        if len(values) not in (0, count := len(imitation.corpora)):
            yield f"Expected {count} numbers, one for each of `imitation.corpora` - at `$.{setting}`"
    if ranking and ranking.queries:
        yield from _table_errors(recipe, imitation, ranking)
    elif ranking and ranking.expansions:
        yield "Is for queries that a table encodes, and `ranking.queries` names none - at `$.ranking.expansions`"
    if ranking and not ranking.expansions and ranking.expansion_weight != Ranking(model="").expansion_weight:
        yield "Is for words that queries add, and `ranking.expansions` is 0 - at `$.ranking.expansion_weight`"


def _table_errors(recipe: Recipe, imitation: Imitation, ranking: Ranking) -> Iterator[str]:
    """Yield the errors of a recipe whose queries are looked up in a table: settings that this training cannot obey."""
    for name in ranking.queries:
        if name not in imitation.corpora:
            yield f"Expected some of `imitation.corpora`, and {name} is none - at `$.ranking.queries`"
    if set(ranking.queries) >= set(imitation.corpora):
        yield "Names all of `imitation.corpora`, so there are no documents - at `$.ranking.queries`"
    without = {
        "text_head": recipe.text_head is not None,
        "imitation.keep_means": imitation.keep_means > 0,
        "imitation.states": imitation.states > 0,
        **{f"stage{number}": recipe.stage(number) is not None for number in STAGES},
    }
    for setting in [setting for setting, given in without.items() if given]:
        yield f"Not possible with [ranking] queries, which a table encodes; leave it out, or give 0 - at `$.{setting}`"


def _stage_errors(stage: Stage, number: int, recipe: Recipe) -> Iterator[str]:
    """Yield the errors of a stage: models that are not trained before it, and the expression of the negatives."""
    section = f"`$.stage{number}"
    earlier = list(MODELS)[: number + 2]  # stage 1 can use the models before any stage, stage 2 also stage1, and so on
    trained = [name for name in earlier if recipe.section(name)]
    needed = [(stage.start, "start"), *((name, "negatives") for name in placeholders(stage.negatives))]
    for name, key in needed:
        if name not in earlier:
            yield f"Stage {number} comes before any model {name!r}; there is: {', '.join(trained)} - at {section}.{key}`"
        elif name not in trained:
            models = ", ".join(trained)
            yield f"The recipe makes no model {name!r}: it has no [{MODELS[name]}]; there is: {models} - at {section}.{key}`"
    if len(set(stage.queries)) < len(stage.queries):
        yield f"Names a training set twice; name each once - at {section}.queries`"
    if stage.teacher_scores == "given" and not from_file(stage):
        yield f'Needs the scores of a file: teacher = "run_file(path=…)" - at {section}.teacher_scores`'
    try:
        parse(_PLACEHOLDER.sub("x", stage.negatives))
    except LexbenchError as error:
        yield f"{error} - at {section}.negatives`"
