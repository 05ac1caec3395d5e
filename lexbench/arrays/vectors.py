"""Vectors in memory, of all three kinds: their kind, joining them, taking rows, and the canonical form of sparse ones.

`converted` turns what other people's encoders return into one of these kinds.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.errors import CommandError, LexbenchError, echoed
from lexbench.types import Codes, Kind, MultiVectors

SIMILARITIES = ("dot", "cosine", "euclidean", "manhattan")  # of single vectors; by maxsim the token vectors are multiplied
_SIMILARITY_NAMES = {  # without case, blanks and punctuation: of sentence-transformers, mteb, beir and vector databases
    "dot": ("dot", "dotproduct", "dotscore", "ip", "innerproduct"),
    "cosine": ("cosine", "cos", "cossim", "cosinesimilarity"),
    "euclidean": ("euclidean", "euclideandistance", "euclid", "l2"),
    "manhattan": ("manhattan", "manhattandistance", "cityblock", "l1"),
    "maxsim": ("maxsim", "meanmaxsim"),  # the mean divides all scores of a query by one number
}
CODES = (
    "8-bit codes are no vectors without their ranges, and packed bits are no numbers; give float vectors "
    '(precision="float32"), and let lexbench make the codes: MODEL|int8 or MODEL|binary@flat(rescore=4)'
)
_PARTS = {"indices", "values"}  # of a sparse vector
_LEAST = np.float32(1e-12)  # the least length to divide by
_VOCABULARY = 1 << 20  # different terms that an encoder may name
_RETURNS = (
    "a 2-d numpy array, a torch tensor, a list of vectors, a scipy sparse matrix, or a list of dicts {term: weight}, "
    "with one vector per text"
)


def kind_of(vectors: Any) -> Kind:
    """Return the kind of *vectors*. Raises LexbenchError if an encoder returned something else, or by `check_numbers`."""
    check_numbers(vectors.values if isinstance(vectors, MultiVectors) else vectors)
    if scipy.sparse.issparse(vectors):
        return Kind.SPARSE
    if isinstance(vectors, MultiVectors):
        return Kind.MULTI
    if isinstance(vectors, Codes) or (isinstance(vectors, np.ndarray) and vectors.ndim == 2):  # noqa: PLR2004 - a matrix
        return Kind.DENSE
    raise LexbenchError(
        f"an encoder returned {type(vectors).__name__}; it must be a scipy.sparse matrix, a 2-d numpy array or MultiVectors"
    )


def converted(returned: Any, texts: int | None, columns: dict[str, int]) -> Any:
    """Return the vectors that a foreign encoder *returned*, as float32: an array, a csr_array or MultiVectors.

    *texts* is how many vectors there must be (None: any number). *columns* has the column of each term named so far;
    new terms are added to it. Raises LexbenchError for other types and shapes, and for values that are not finite.
    """
    try:
        with np.errstate(over="ignore"):  # infinity is refused below
            vectors = _vectors(returned, columns)
    except (TypeError, ValueError, RuntimeError):  # e.g. texts instead of numbers, rows of several lengths, or codes of torch
        vectors = None
    if vectors is None:
        one = "; a function of one text says so by `text: str`" if len(getattr(returned, "shape", ())) == 1 else ""
        raise LexbenchError(f"the encoder returned {form_of(returned)}; it must return {_RETURNS}{one}")
    if texts is not None and vectors.shape[0] != texts:
        raise LexbenchError(f"the encoder returned {vectors.shape[0]} vectors for {texts} texts")
    values = {Kind.SPARSE: "data", Kind.MULTI: "values"}.get(kind_of(vectors))
    if not np.isfinite(getattr(vectors, values) if values else vectors).all():
        raise LexbenchError("the encoder returned a value that is NaN, infinite or too large for float32")
    return vectors


def _vectors(returned: Any, columns: dict[str, int]) -> Any:
    """Return *returned* as vectors, or None if its form is unknown."""
    if isinstance(returned, MultiVectors):
        check_numbers(returned.values)
        values, offsets = np.asarray(returned.values, np.float32), np.asarray(returned.offsets)
        are_numbers = offsets.dtype.kind in "iu" and values.ndim == 2  # noqa: PLR2004 - a matrix
        fit = are_numbers and [*offsets[:1], *offsets[-1:]] == [0, len(values)] and (np.diff(offsets) >= 0).all()
        return MultiVectors(values, offsets) if fit else None
    check_numbers(returned)
    returned = without_torch(returned)
    if not isinstance(returned, list | tuple) and hasattr(returned, "__array__"):  # also of JAX, TensorFlow and pandas
        returned = np.asarray(returned)
        check_numbers(returned)  # again as an array: a data frame itself has no dtype
    if isinstance(returned, list | tuple) or (isinstance(returned, np.ndarray) and returned.dtype == object):
        for row in returned:
            check_numbers(row)
        return _of_rows([without_torch(row) for row in returned], columns)
    if isinstance(returned, np.ndarray) and returned.ndim == 2 and returned.dtype.kind in "biuf":  # noqa: PLR2004 - a matrix
        return returned.astype(np.float32, copy=False)
    matrix: Any = returned if scipy.sparse.issparse(returned) else None
    return None if matrix is None else scipy.sparse.csr_array(matrix, dtype=np.float32)


def _of_rows(rows: Sequence[Any], columns: dict[str, int]) -> Any:
    """Return the vectors of texts that come one by one, or None if their form is unknown."""
    rows = [SimpleNamespace(**row) if isinstance(row, Mapping) and row.keys() == _PARTS else row for row in rows]
    if all(all(hasattr(row, name) for name in _PARTS) and not scipy.sparse.issparse(row) for row in rows):
        rows = [dict(zip(map(int, row.indices), row.values, strict=True)) for row in rows]  # of fastembed, Qdrant and Pinecone
    if all(isinstance(row, Mapping) for row in rows):
        return _by_name(rows, columns)
    if all(scipy.sparse.issparse(row) for row in rows):
        return scipy.sparse.csr_array(scipy.sparse.vstack([row.reshape(1, -1) for row in rows]), dtype=np.float32)
    arrays = [np.asarray(row, np.float32) for row in rows]
    if all(array.ndim == 2 for array in arrays):  # noqa: PLR2004 - one vector per token
        return MultiVectors(np.concatenate(arrays), offsets_of(np.array([len(array) for array in arrays])))
    return np.stack(arrays) if arrays[0].ndim == 1 else None


def _by_name(rows: Sequence[Mapping[Any, Any]], columns: dict[str, int]) -> "scipy.sparse.csr_array":
    """Return the vectors of dicts {term: weight}; a new term gets the next column."""
    columns.setdefault("", 0)  # a reserved name: even before the first term, the dict shows that terms have names
    terms = [columns.setdefault(str(term), len(columns)) for row in rows for term in row]
    if len(columns) > _VOCABULARY:
        raise LexbenchError(f"the encoder named more than {_VOCABULARY:,} terms; let it return a scipy sparse matrix")
    weights = np.array([float(weight) for row in rows for weight in row.values()], np.float32)
    offsets = offsets_of(np.array([len(row) for row in rows]))
    return scipy.sparse.csr_array((weights, np.array(terms, np.int32), offsets), shape=(len(rows), _VOCABULARY))


def check_numbers(value: Any) -> None:
    """Raise LexbenchError for an array or a tensor of complex numbers, or of 8-bit ones, which are codes or packed bits.

    Sparse ones of 8 bits have weights. A masked array is refused, too, because numpy drops its mask.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):  # the second alone would take 4 µs of each query
        raise LexbenchError(f"the encoder returned {form_of(value)} with masked values; return numbers, e.g. value.filled(0)")
    kind = str(getattr(value, "dtype", "")).rpartition(".")[2]
    if kind.startswith("complex"):  # numpy and torch would drop the imaginary part
        raise LexbenchError(f"the encoder returned {form_of(value)} of {kind}; return real numbers")
    if kind in ("int8", "uint8") and not scipy.sparse.issparse(value):
        raise LexbenchError(f"the encoder returned {form_of(value)} of {kind}: {CODES}")


def without_torch(value: Any) -> Any:
    """Return a torch tensor as an array or a coo_array, and any other *value* unchanged."""
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    if str(tensor.layout) == "torch.strided":
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()  # NumPy has no bfloat16
    tensor = tensor.to_sparse_coo().coalesce()
    return scipy.sparse.coo_array((tensor.values().float().numpy(), tuple(tensor.indices().numpy())), shape=tuple(tensor.shape))


def form_of(value: Any) -> str:
    """Return the type of *value* in words, with its shape or the type of its first item."""
    name = type(value).__name__
    if getattr(value, "is_nested", False):  # a tensor of torch without a shape
        return f"nested {name}"
    if (shape := getattr(value, "shape", None)) is not None:
        return f"{name} of shape {tuple(shape)}"
    return f"{name} of {type(value[0]).__name__}" if isinstance(value, list | tuple) and value else name


# ---- similarity ------------------------------------------------------------------------------------------------------------


def similarity_of(stated: Any, where: str) -> str:
    """Return which of SIMILARITIES, or "maxsim", the *stated* name or enumeration member means.

    Raises CommandError, which names *where* it is stated, for any other.
    """
    name = str(getattr(stated, "value", stated))
    letters = "".join(filter(str.isalnum, name.lower()))
    if found := next((ours for ours, names in _SIMILARITY_NAMES.items() if letters in names), None):
        return found
    raise CommandError(
        f"{where} states the similarity {echoed(name)}, and lexbench has {', '.join(SIMILARITIES)}, maxsim; set one of these"
    )


def metric_of(similarity: str) -> str:
    """Return how an engine compares vectors of that *similarity*: "dot" also for cosine, whose vectors have length 1."""
    return similarity if similarity in ("euclidean", "manhattan") else "dot"


def unit_length(vectors: Any) -> Any:
    """Return *vectors* of any kind, float32, scaled to length 1: each text's vector, or each token's. A vector of 0 stays 0."""
    if isinstance(vectors, MultiVectors):
        return vectors._replace(values=unit_length(vectors.values))
    if not scipy.sparse.issparse(vectors):
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _LEAST)
    given: Any = vectors
    scaled = scipy.sparse.csr_array(given, copy=True)
    lengths = np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel())
    scaled.data /= np.repeat(np.maximum(lengths, _LEAST), np.diff(scaled.indptr)).astype(np.float32)
    return scaled


# ---- joining and taking rows -----------------------------------------------------------------------------------------------


def stacked(blocks: Sequence[Any]) -> Any:
    """Return *blocks*, each the vectors of one batch of texts, joined in order; there is at least one."""
    kind = kind_of(blocks[0])
    if kind is Kind.SPARSE:
        return scipy.sparse.vstack(blocks, format="csr")
    if kind is Kind.DENSE:
        return np.concatenate(blocks)
    counts = np.concatenate([np.diff(block.offsets) for block in blocks])
    return MultiVectors(np.concatenate([block.values for block in blocks]), offsets_of(counts))


def rows_of(vectors: MultiVectors, rows: NDArray[np.integer[Any]]) -> MultiVectors:
    """Return the vectors of the texts *rows* (n,), in that order; no others are read if *vectors* are memory-mapped."""
    offsets = offsets_of(np.diff(vectors.offsets)[rows])
    return MultiVectors(vectors.values[ranges(vectors.offsets[rows], offsets)], offsets)


def offsets_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offsets (n + 1,) of consecutive ranges of *counts* (n,) elements: the starts, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def pieces(offsets: NDArray[np.int64], most: int) -> Iterator[slice]:
    """Yield slices of the ranges with these *offsets* (n + 1,): at most *most* elements together, or one range of more."""
    first, count = 0, len(offsets) - 1
    while first < count:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1)
        yield slice(first, last)
        first = last


def ranges(starts: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of n ranges, joined: range i begins at starts[i] and has offsets[i + 1] - offsets[i] indices."""
    return np.repeat(starts - offsets[:-1], np.diff(offsets)) + np.arange(offsets[-1])


def canonical(vectors: "scipy.sparse.csr_array") -> "scipy.sparse.csr_array":
    """Return *vectors* (n, width) as float32, columns ascending in each row, each once, without stored zeros.

    Vectors in this form, e.g. all from the store, are returned unchanged; others are copied, never changed in place.
    """
    if vectors.dtype == np.float32 and vectors.has_canonical_format and vectors.data.all():
        return vectors
    matrix = scipy.sparse.csr_array(vectors, copy=True)
    matrix.data = matrix.data.astype(np.float32)
    matrix.sum_duplicates()  # also sorts
    matrix.eliminate_zeros()
    return matrix


def select_entries(
    matrix: "scipy.sparse.csr_array", values: NDArray[np.float32], mask: NDArray[np.bool_]
) -> "scipy.sparse.csr_array":
    """Return the entries of *matrix* for which *mask* (nonzeros,) is true, with *values* (nonzeros,) instead of its values.

    If it is true for all of them, the result shares the indices of *matrix*, as of most queries.
    """
    if mask.all():
        return csr_of(values, matrix.indices, matrix.indptr, matrix.shape[1])
    before = np.zeros(len(mask) + 1, matrix.indptr.dtype)
    np.cumsum(mask, out=before[1:])
    return csr_of(values[mask], matrix.indices[mask], before[matrix.indptr], matrix.shape[1])


def csr_of(values: NDArray[np.float32], indices: NDArray[Any], offsets: NDArray[Any], width: int) -> "scipy.sparse.csr_array":
    """Return the matrix (rows, *width*) of *values* and *indices* (nonzeros,) and *offsets* (rows + 1,), which are not checked.

    The indices must be below *width* and ascend in each row. scipy's constructor checks such things, and takes seven times as
    long for a query.
    """
    made = copy(_empty(len(offsets) - 1, width))
    made.data, made.indices, made.indptr = values, indices, offsets
    return made


@lru_cache(maxsize=16)
def _empty(rows: int, width: int) -> "scipy.sparse.csr_array":
    parts = (np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(rows + 1, np.int32))
    return scipy.sparse.csr_array(parts, shape=(rows, width))
