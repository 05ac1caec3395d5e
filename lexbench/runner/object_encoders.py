"""Encoders made of objects and functions of other libraries: how each is called, and how it wants its vectors to be compared.

`encoder_of_object` looks at methods and signatures and takes what is clear. The encoder's notes say what that was. A parameter
that may tell queries from documents, and that is not understood, is refused by its name. An exception of foreign code becomes
one line. `lexbench.arrays.vectors.converted` says which vectors an encoder may return.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args
from uuid import uuid4

import numpy as np

from lexbench.arrays.vectors import converted, kind_of, metric_of, rows_of, similarity_of, unit_length
from lexbench.artifacts.describe import StandIn
from lexbench.errors import CommandError, LexbenchError, one_line, shortened
from lexbench.models.stated_modules import unused_prompts
from lexbench.plugins import Encoder
from lexbench.storage.artifact_folder import SESSION
from lexbench.types import Document, Kind, MultiVectors

T = TypeVar("T")
Encode: TypeAlias = Callable[[list[Any]], Any]
Role: TypeAlias = Literal["query", "document"]

_OPTIONS = {"batch_size": 128, "show_progress_bar": False, "convert_to_tensor": False}  # the three that beir passes
_BEIR_SIMILARITIES = ("cosine", "dot")
_TASK = "MSMARCO"  # models of mteb use the prompts of this task
_REASON = 200  # characters of a foreign exception
_FLAG = re.compile(r"(?:is|as|for)_(\w+)|(\w+)")  # a parameter that is true for texts of one role: is_query, or query=False
_FLAGGED: Mapping[str, "Role"] = {  # by the name, without s at its end
    **dict.fromkeys(("query", "querie", "q", "question"), "query"),
    **dict.fromkeys(("document", "doc", "passage", "corpu"), "document"),
}
# Parameters that may name the role of the texts, and values for queries and documents that belong together.
_ROLE_PARAMETERS = ("prompt_type", "input_type", "text_type", "task_type", "encode_type", "embed_type", "task", "role")
_ROLE_VALUES = (
    ("query", "document"),
    ("query", "passage"),
    ("query", "corpus"),
    ("query", "doc"),
    ("queries", "documents"),
    ("search_query", "search_document"),
    ("retrieval.query", "retrieval.passage"),
    ("RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"),
)
_SHOWN_ROLES = {value for pair in _ROLE_VALUES for value in pair}
_UNGIVEN = ("instruction", "instructions", "query_instruction", "prompt", "prefix", "task_description")  # what queries may need
_PAIRS = (  # of methods that take lists: for documents, for queries
    ("encode_documents", "encode_queries"),
    ("encode_docs", "encode_queries"),
    ("encode_passages", "encode_queries"),
    ("encode_passage", "encode_query"),
    ("encode_corpus", "encode_query"),
    ("embed_documents", "embed_queries"),
    ("embed_passages", "embed_queries"),
)
_PROMPTS: Mapping[str, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}
_SPACE = "default_space"
_OTHER_NAMES = ("similarity_function", "similarity_metric", "score_function", "scoring_function", "distance_metric", _SPACE)
_LIBRARY = "sentence_transformers."
_INNER = ("model", "_model", "client", "_client")  # attributes in which wrappers of LangChain, LlamaIndex and mteb keep a model
_ASKED = "what kind of vectors are these?"
_BEFORE = "zebra"  # comes behind _ASKED in every order: of letters, of falling lengths, and reversed
_ROUNDING = 0.02  # of the largest component
_WIDE = 8  # dimensions from which whole numbers look strange
_PROBES = np.array([[0.5, -1.0, 2.0, 0.25], [1.5, 1.0, -0.5, 3.0], [-2.0, 0.75, 1.0, 1.0]], np.float32)


# ---- what lexbench sees ----------------------------------------------------------------------------------------------------


class ForeignEncoder(StandIn, Encoder):
    """An encoder made of two functions, of Documents and of query texts.

    *settings* are in its key. *scaled* are the kinds of its vectors that get length 1. *made_by* is a function and its
    arguments that make it again in another process.
    """

    def __init__(
        self, item: Any, document: Encode, query: Encode, settings: Mapping[str, str], scaled: Collection[Kind], made_by: Any
    ) -> None:
        self.wrapped, self._document, self._query, self._settings = item, document, query, settings
        self._scaled, self._made_by = scaled, made_by
        self._lines: dict[str, None] = {}
        self._columns: dict[str, int] = {}  # of terms that the object names
        self._session = uuid4().hex

    @property
    def key_facts(self) -> Mapping[str, Any]:  # type: ignore[override] # not a setting
        """The settings. Columns of named terms are known only in this session."""
        return {**self._settings, **({SESSION: self._session} if self._columns else {})}

    @property
    def metric(self) -> str:  # type: ignore[override] # a setting of the object
        """How its vectors are compared."""
        return metric_of(self._settings.get("similarity", "dot"))

    @property
    def states_similarity(self) -> bool:  # type: ignore[override] # a setting of the object
        """Whether the object states how its vectors are compared."""
        return "similarity" in self._settings

    @property
    def names_terms(self) -> bool:  # type: ignore[override] # not known of the class
        """Whether the object names its terms."""
        return bool(self._columns)

    def notes(self) -> list[str]:
        """Return what was taken of the object."""
        return list(self._lines)

    def remember(self, line: str) -> None:
        """Add a note."""
        self._lines[line] = None

    def token(self, term: int) -> str:
        """Return the name of a term, or its number."""
        return next((name for name, column in self._columns.items() if column == term), str(term))

    def encode_query(self, texts: Sequence[str]) -> Any:
        """Return the vectors of queries."""
        return self._vectors(self._query, list(texts))

    def encode_document(self, texts: Sequence[str] | Sequence[Document]) -> Any:
        """Return the vectors of documents. A text without a Document has no title."""
        return self._vectors(self._document, [one if isinstance(one, Document) else Document("", one) for one in texts])

    def tokenise_documents(self, documents: Sequence[Document]) -> Sequence[Document]:
        """Return the documents: the object tokenises when it encodes, and may need titles."""
        return documents

    def _vectors(self, encode: Encode, texts: list[Any]) -> Any:
        """Return the vectors that the function *encode* returns for *texts*, scaled if their similarity is cosine.

        Raises LexbenchError, in one line, for an exception of the function, and for what it returned.
        """
        count = len(texts)  # the function may change the list
        returned, taken = called(self.wrapped, lambda given: _only_value(encode(given)), texts)
        if taken:
            self.remember(f"of the table that it returned, {taken} was taken")
        vectors = converted(returned, count, self._columns)
        kind = kind_of(vectors)
        if kind is Kind.DENSE and vectors.shape[1] >= _WIDE and _are_codes(vectors):
            self.remember("its vectors have whole numbers alone, as codes have: int8 codes and packed bits are no vectors")
        if kind is not Kind.MULTI and self._settings.get("similarity") == "maxsim":
            raise LexbenchError(f"{name_of(self.wrapped)} states maxsim, and returned one vector per text; state another one")
        return unit_length(vectors) if kind in self._scaled else vectors

    def __reduce__(self) -> Any:
        if self._columns:
            raise LexbenchError(f"{name_of(self.wrapped)} names its terms, which works in one process only: leave out on=…")
        return self._made_by


def _are_codes(vectors: Any) -> bool:
    """Whether dense *vectors* look like 8-bit numbers, whose type got lost."""
    return bool(1 < np.abs(vectors).max(initial=0) < 256 and np.array_equal(vectors, np.rint(vectors)))  # noqa: PLR2004 - bytes


def called(item: Any, encode: Callable[[list[Any]], T], texts: list[Any]) -> T:
    """Return encode(texts). An exception of the foreign code of *item* is one LexbenchError that names both."""
    try:
        return encode(texts)
    except (LexbenchError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # its exit is not that of the program
        said = shortened(one_line(str(error)), _REASON) or "without a message"
        hint = "; it got a list of texts: a function of one text says so by `text: str`" if "'list' object" in said else ""
        if isinstance(error, LookupError) and _ASKED in said:  # it looks texts up
            hint = ", which is a trial; give vectors that you have as {'documents': {id: vector}, 'queries': {id: vector}}"
        raise LexbenchError(f"{name_of(item)} cannot encode: {type(error).__name__}: {said}{hint}") from error


def _only_value(returned: Any) -> tuple[Any, str]:
    """Return *returned* and ""; of a table by names with one value, e.g. of BGE-M3, return that value and its name.

    Raises LexbenchError for a table with several values. Iterators become lists.
    """
    if isinstance(returned, Mapping):
        there = {str(name): value for name, value in returned.items() if value is not None}
        if len(there) == 1:
            ((name, value),) = there.items()
            return value, name
        names = ", ".join(there)
        raise LexbenchError(
            f"the encoder returned a table of {shortened(names, _REASON)}, and one of them must count; give a function, e.g. "
            f"lambda texts: model.encode(texts)[{next(iter(there), 'name')!r}]"
        )
    return (list(returned) if hasattr(returned, "__next__") else returned), ""


def with_kind(encoder: Encoder) -> Encoder:
    """Return *encoder* with its `kind`; if it has none, a query is encoded to find out."""
    if not isinstance(getattr(encoder, "kind", None), Kind):
        found = kind_of(encoder.encode_query([_ASKED]))
        object.__setattr__(encoder, "kind", found)  # also of a frozen dataclass
    return encoder


def name_of(item: Any) -> str:
    """Return the name of an object that has one, of a function, or else of the object's class."""
    named = (getattr(item, name, None) for name in ("name", "__name__"))
    return next((one for one in named if isinstance(one, str)), type(item).__name__)


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function; an empty list if Python does not know them, e.g. of some built-in functions."""
    try:
        return list(signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


# ---- similarity ------------------------------------------------------------------------------------------------------------


class Stated(NamedTuple):
    """The similarity that an object states, and where."""

    similarity: str
    where: str


def stated_similarity(item: Any) -> Stated | None:
    """Return the similarity that an object or a function states; None if it states none.

    It is the attribute `similarity_fn_name` (sentence-transformers, PyLate) of the object, of its description for mteb, of the
    object that a method belongs to, or of the model inside a wrapper; or one of another name, e.g. `score_function`, or the
    answer of `default_space` (Chroma); or else what its method `similarity` computes. Raises
    CommandError for a similarity that lexbench does not have.
    """
    while isinstance(item, partial):
        item = item.func
    item = getattr(item, "__self__", item)
    for place in ("", "mteb_model_meta.", *(f"{name}." for name in _INNER)):
        owner = getattr(item, place.rstrip("."), None) if place else item
        try:
            stated = getattr(owner, "similarity_fn_name", None)
        except Exception as error:
            raise CommandError(
                f"{name_of(item)}.{place}similarity_fn_name cannot be read: {type(error).__name__}: {error}"
            ) from error
        if stated is not None:
            where = f"{place}similarity_fn_name"
            return Stated(similarity_of(stated, f"{name_of(item)}.{where}"), where)
    for name in _OTHER_NAMES:
        stated = getattr(item, name, None)
        if name == _SPACE and callable(stated):
            stated = called(item, lambda _texts: item.default_space(), [])
        if isinstance(stated, str | Enum):
            return Stated(similarity_of(stated, f"{name_of(item)}.{name}"), name)
    computed = _computed_similarity(item)
    return Stated(computed, "its method similarity") if computed else None


def _computed_similarity(item: Any) -> str:
    """Return which similarity the method `similarity` of an object computes; "" if it has none for vectors.

    Raises CommandError if it computes another one.
    """
    if isinstance(item, type) or not callable(method := getattr(item, "similarity", None)):
        return ""
    dots = _PROBES @ _PROBES.T
    lengths, distances = np.sqrt(np.diag(dots)), _PROBES[:, None] - _PROBES
    known = {
        "cosine": dots / np.outer(lengths, lengths),
        "dot": dots,
        "euclidean": -np.sqrt((distances**2).sum(-1)),
        "manhattan": -np.abs(distances).sum(-1),
    }
    for compute in (lambda: method(_PROBES, _PROBES), lambda: [[method(list(a), list(b)) for b in _PROBES] for a in _PROBES]):
        try:
            found = np.array(compute(), np.float64)
        except Exception:  # noqa: BLE001, S112 - it compares something else, e.g. texts
            continue
        if found.shape == dots.shape:
            if name := next((name for name, values in known.items() if np.allclose(found, values, 1e-3, 1e-3)), ""):
                return name
            raise CommandError(
                f"{name_of(item)}: its method similarity computes none of {', '.join(known)}, which lexbench can search by; "
                'set similarity_fn_name = "cosine", for example'
            )
    return ""


# ---- how objects are called ------------------------------------------------------------------------------------------------


class Sides(NamedTuple):
    """The functions that encode Documents and query texts, and what is to be said of them."""

    document: Encode
    query: Encode
    taken: str = ""


_Form: TypeAlias = tuple[Callable[[Any], bool], Callable[[Any], Sides]]  # a test of an object, and its sides


def encoder_of_object(item: Any) -> Encoder:
    """Return an encoder of a function, or of an object that encodes texts. Raises CommandError if it is not understood."""
    sides = next((make(item) for has, make in _SIDES if has(item)), None) or _sides_of_function(item)
    stated = stated_similarity(item)
    settings = {"similarity": stated.similarity} if stated else {}
    scaled = tuple(Kind) if stated and stated.similarity == "cosine" else ()
    made: ForeignEncoder = subclass(ForeignEncoder, item)(
        item, sides.document, sides.query, settings, scaled, (encoder_of_object, (item,))
    )
    if sides.taken:
        made.remember(sides.taken)
    for line in _unused_prompts(item):
        made.remember(line)
    if stated:
        made.remember(f"its vectors are compared by {stated.similarity}, as it states ({stated.where})")
    first, again = made.encode_query([_ASKED]), made.encode_query([_BEFORE, _ASKED])
    if _differ(first, rows_of(again, np.array([1])) if isinstance(again, MultiVectors) else again[[1]]):
        made.remember(
            "one text got two different vectors, alone and behind another text: call eval() of a model in training mode, and "
            "return vectors in the order of the texts"
        )
    object.__setattr__(made, "kind", kind_of(first))  # a class variable
    return made


def _unused_prompts(item: Any) -> list[str]:
    """Return notes on prompts of an object of sentence-transformers that its own methods put before no texts."""
    by_library = str(getattr(getattr(item, "encode_document", None), "__module__", "")).startswith(_LIBRARY)
    by_name = getattr(item, "prompts", None)
    if not by_library or not isinstance(by_name, Mapping):
        return []
    return unused_prompts(by_name, getattr(item, "default_prompt_name", None), 'set its prompts["{side}"] = {prompt}')


def _differ(one: Any, other: Any) -> bool:
    """Whether two vectors of one text differ by more than rounding, e.g. on a GPU or of a server; the widths may have grown."""
    if isinstance(one, MultiVectors):
        one, other = one.values, other.values
    return bool(one.shape == other.shape and one.size and abs(one - other).max() > _ROUNDING * abs(one).max())


def subclass(base: type, item: Any) -> Any:
    """Return a subclass of *base* with the name and module of *item*, so that results name the user's code."""
    return type(name_of(item), (base,), {"__module__": getattr(item, "__module__", None) or __name__})


def texts_of(documents: Sequence[Document]) -> list[str]:
    """Return the text of each document."""
    return [document.text for document in documents]


def _on_texts(encode: Encode) -> Encode:
    """Return *encode*, a function of texts, as a function of Documents."""
    return lambda documents: encode(texts_of(documents))


def _one_by_one(encode: Callable[[Any], Any]) -> Encode:
    """Return a function of one text as a function of several."""
    return lambda texts: [encode(text) for text in texts]


def _of_lists(encode: Encode) -> Encode:
    """Return a function of several texts: *encode*, which its signature may say is one of a single text."""
    first = next(iter(parameters(encode)), None)
    return _one_by_one(encode) if first and first.annotation in (str, "str") else encode


def _sides_of_function(item: Any) -> Sides:
    known = {one.name: one for one in parameters(item)}
    return _joined(*(_told(item, item, known, role, {}) for role in ("document", "query")))


def _sides_of_pair(item: Any) -> Sides:
    document, query = next(pair for pair in _PAIRS if all(hasattr(item, name) for name in pair))
    return _joined(_Side(getattr(item, document), document), _Side(getattr(item, query), query))


def _sides_of_chroma(item: Any) -> Sides:
    """Return the sides of an EmbeddingFunction of Chroma: its call encodes documents, and `embed_query` a list of queries."""
    return Sides(_on_texts(item), item.embed_query, "documents by its call, queries by embed_query, which takes a list")


def _sides_of_encode(item: Any) -> Sides:
    """Return the sides of an object with `encode`, or with one method for each role."""
    return _joined(_side(item, "document"), _side(item, "query"))


class _Side(NamedTuple):
    encode: Encode
    said: str = ""  # how it is called, if not by its name alone


def _joined(document: _Side, query: _Side) -> Sides:
    said = [f"{role} by {side.said}" for role, side in (("documents", document), ("queries", query)) if side.said]
    return Sides(_on_texts(_of_lists(document.encode)), _of_lists(query.encode), ", ".join(said))


def _side(item: Any, role: Role) -> _Side:
    """Return how *item* encodes texts of *role*. Raises CommandError for a parameter that may tell the roles apart."""
    name = f"encode_{role}"
    encode = getattr(item, "encode", None)
    known = {one.name: one for one in parameters(encode)} if encode else {}
    if hasattr(item, name) and not _is_undercut(item, name, known):
        return _Side(getattr(item, name))
    if encode is None:
        raise CommandError(f"{name_of(item)} has no {name} and no encode; give an object with encode_document and encode_query")
    if hasattr(item, "mteb_model_meta"):
        return _Side(_mteb_encode(encode, role), f"encode with the prompt of {_TASK}")
    return _told(item, encode, known, role, getattr(item, "prompts", None) or {})


def _told(item: Any, encode: Encode, known: Mapping[str, Parameter], role: Role, prompts: Mapping[str, str]) -> _Side:
    """Return *encode* with what tells it the *role*: a flag, a parameter with a known value, or the name of a prompt."""
    given: dict[str, Any] = {name: flagged == role for name, one in known.items() if (flagged := _flagged(one))}
    if not given and (
        asking := next((one for one in known.values() if one.name in _ROLE_PARAMETERS or _shows_role(one)), None)
    ):
        given = {asking.name: _value_of_role(item, asking, role)}
    prompt = next((prompt for prompt in _PROMPTS[role] if prompts.get(prompt)), None)
    if prompt and (not known or "prompt_name" in known or any(one.kind is Parameter.VAR_KEYWORD for one in known.values())):
        given["prompt_name"] = prompt
    called_by = getattr(encode, "__name__", "encode")
    if not given:
        ungiven = next((name for name in _UNGIVEN if name in known and role == "query"), "")
        said = f"{called_by} without {ungiven}=…; to give it, write a function" if ungiven and not prompts else ""
        return _Side(encode, said)
    arguments = ", ".join(f"{key}={getattr(value, 'value', value)!r}" for key, value in given.items())
    return _Side(partial(encode, **given), f"{called_by}({arguments})")


def _flagged(parameter: Parameter) -> Role | None:
    """Return the role of the texts for which a *parameter* is true, None if it is no such flag."""
    match = _FLAG.fullmatch(parameter.name)
    role = _FLAGGED.get((match[1] or match[2]).removesuffix("s")) if match else None
    is_switch = type(parameter.default) is bool or parameter.annotation in (bool, "bool", bool | None, "bool | None")
    return role if match and role and (is_switch or (match[1] and parameter.default is Parameter.empty)) else None


def _shows_role(parameter: Parameter) -> bool:
    """Whether the default of a *parameter*, or a value in its annotation, is the name of a role."""
    return parameter.default is not Parameter.empty and not _SHOWN_ROLES.isdisjoint(_shown_values(parameter))


def _is_undercut(item: Any, name: str, encode: Mapping[str, Parameter]) -> bool:
    """Whether the method *name* is inherited and calls an `encode` that a subclass has replaced by one of another form.

    The method of sentence-transformers passes task=…. PyLate's `encode` does not take that, and asks for is_query=….
    """
    order = type(item).__mro__
    places = [next((at for at, base in enumerate(order) if one in vars(base)), None) for one in (name, "encode")]
    if name in getattr(item, "__dict__", ()) or None in places or places[0] <= places[1]:  # type: ignore[operator]
        return False
    takes_any = any(one.kind is Parameter.VAR_KEYWORD for one in encode.values())
    return any(map(_flagged, encode.values())) or not (takes_any or "task" in encode)


def _value_of_role(item: Any, parameter: Parameter, role: Role) -> Any:
    """Return the value of a *parameter* for texts of *role*, from the values that its annotation and its default show."""
    shown = _shown_values(parameter)
    for query, document in _ROLE_VALUES:
        if document in shown or (query in shown and sum(query == one for one, _ in _ROLE_VALUES) == 1):
            wanted = query if role == "query" else document
            return shown.get(wanted, wanted)
    raise CommandError(
        f"{name_of(item)}: its encode takes {parameter.name}=…, which may tell queries from documents, and lexbench does not "
        "know its values; give an object with encode_query(texts) and encode_document(texts)"
    )


def _shown_values(parameter: Parameter) -> dict[str, Any]:
    """Return the values that the default and the annotation of a *parameter* show, by what they say."""
    annotation = parameter.annotation
    listed = (
        value
        for one in (annotation, *get_args(annotation))
        for value in (*get_args(one), *getattr(one, "__members__", {}).values())
    )
    return {str(getattr(value, "value", value)): value for value in [parameter.default, *listed]}


def _mteb_encode(encode: Callable[..., Any], role: Role) -> Encode:
    """Return `encode` of a model of mteb 2 as a function of texts, with the prompts of a general retrieval task."""
    prompts, metadata = import_module("mteb.types").PromptType, import_module("mteb").get_task(_TASK).metadata
    prompt = prompts.query if role == "query" else prompts.document
    settled = partial(encode, task_metadata=metadata, hf_split="test", hf_subset="default", prompt_type=prompt)
    data, loader = import_module("datasets").Dataset, import_module("torch.utils.data").DataLoader
    return lambda texts: settled(loader(data.from_dict({"text": texts}), batch_size=_OPTIONS["batch_size"]))


def _has(*names: str) -> Callable[[Any], bool]:
    """Return a test whether an object has all of *names*."""
    return lambda item: all(hasattr(item, name) for name in names)


def _by(document: str, query: str, said: str = "", *, of_one: bool = False) -> _Form:
    """Return the form of objects with these two methods; that for queries takes a list, or *of_one* a text."""

    def sides(item: Any) -> Sides:
        encode = getattr(item, query)
        taken = f"documents by {document}{said}, queries by {query}"
        return Sides(_on_texts(getattr(item, document)), _one_by_one(encode) if of_one else encode, taken)

    return _has(document, query), sides


# How objects with other methods than those of beir are called: by the first test that they pass.
_SIDES: Sequence[_Form] = (
    _by("encode_corpus", "encode_queries", ", which takes texts"),  # FlagEmbedding
    _by("embed_documents", "embed_query", of_one=True),  # LangChain
    _by("get_text_embedding_batch", "get_query_embedding", of_one=True),  # LlamaIndex
    _by("passage_embed", "query_embed"),  # FastEmbed
    (lambda item: any(all(hasattr(item, name) for name in pair) for pair in _PAIRS), _sides_of_pair),
    (lambda item: callable(item) and hasattr(item, "embed_query"), _sides_of_chroma),
    (_has("encode"), _sides_of_encode),
    (_has("encode_document", "encode_query"), _sides_of_encode),
)
FORMS = (  # groups of methods by which an encoder is recognised
    ("embed_documents", "embed_query"),
    ("get_text_embedding_batch", "get_query_embedding"),
    ("passage_embed", "query_embed"),
    *_PAIRS,
    ("__call__", "embed_query"),
    ("encode",),
    ("encode_document", "encode_query"),
)


# ---- models of beir and FlagEmbedding --------------------------------------------------------------------------------------


def encoder_of_corpus_model(model: Any) -> Encoder:
    """Return an encoder of an object with encode_corpus and encode_queries, of FlagEmbedding (texts) or beir (documents)."""
    first = next(iter(parameters(model.encode_corpus)), None)
    annotation = str(first.annotation).lower() if first else ""
    takes_texts = "str" in annotation and "dict" not in annotation and "mapping" not in annotation
    return encoder_of_object(model) if takes_texts else beir_encoder(model)


def beir_encoder(model: Any, similarity: str = "cosine") -> Encoder:
    """Return a retrieval model of beir as an encoder. It gets titles and bodies separately, as from beir.

    *similarity* "cosine", the default of beir's EvaluateRetrieval, scales dense vectors to length 1; "dot" does not. A model
    with an `identity()` keeps its stored vectors in other sessions. A model that does not take beir's documents gets their
    texts. Raises CommandError for an unknown similarity.
    """
    if similarity not in _BEIR_SIMILARITIES:
        raise CommandError(f"similarity={similarity!r} is unknown; it is one of {', '.join(_BEIR_SIMILARITIES)}")
    takes_texts = False  # known after the first call

    def document(documents: list[Document]) -> Any:
        nonlocal takes_texts
        if takes_texts:
            return model.encode_corpus(texts_of(documents))
        try:
            return model.encode_corpus([fields(one) for one in documents], **_OPTIONS)
        except (TypeError, AttributeError, KeyError):
            try:
                vectors = model.encode_corpus(texts_of(documents))
            except Exception:  # noqa: BLE001, S110 - the first exception says more
                pass
            else:
                takes_texts = True
                made.remember("its encode_corpus does not take beir's documents, so it got their texts")
                return vectors
            raise

    scaled = (Kind.DENSE,) if similarity == "cosine" else ()
    made: ForeignEncoder = subclass(ForeignEncoder, model)(
        model,
        document,
        lambda texts: model.encode_queries(texts, **_options(model.encode_queries)),
        {"similarity": similarity},
        scaled,
        (beir_encoder, (model, similarity)),
    )
    return with_kind(made)


def _options(encode: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of beir that a function takes."""
    known = parameters(encode)
    takes_any = not known or any(one.kind is Parameter.VAR_KEYWORD for one in known)
    return {name: value for name, value in _OPTIONS.items() if takes_any or name in {one.name for one in known}}


def fields(document: Document) -> dict[str, str]:
    """Return a document in the form of beir."""
    return {"title": document.title, "text": document.body}
