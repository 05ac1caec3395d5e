"""Vectors in files of NumPy: .npy with a list of ids, and .npz with both. Files that need pickle are refused.

The ids of `documents.npy` are in a file of their own: text with one id per line, a list as JSON, or an array as .npy. By
default it stands beside the vectors, as documents.ids, documents.ids.txt, documents.ids.json or documents.ids.npy. An .npz file
has an array of ids and one of vectors, or one vector under each id.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile
from lexbench.storage.rows import text_lines
from lexbench.trec.ids import id_of

ENDINGS = (".npy", ".npz")
IDS_ENDINGS = (".ids", ".ids.txt", ".ids.json", ".ids.npy")
_IDS = ("ids", "id", "docids", "doc_ids", "qids", "query_ids", "docid", "qid", "_id")
_VECTORS = ("vectors", "embeddings", "vector", "emb", "embedding")
_FLAT, _MATRIX = 1, 2  # dimensions


class DenseRows(NamedTuple):
    """Vectors of a file in their order, and the id of each."""

    ids: list[str]  # (n,)
    vectors: NDArray[Any]  # (n, dimensions), of any type of number


def ids_beside(path: Path) -> Path | None:
    """Return the file of ids beside the vectors *path*; None if there is none."""
    return next((file for end in IDS_ENDINGS if (file := path.with_name(path.stem + end)).is_file()), None)


def read_arrays(path: Path, ids: Path | None = None) -> DenseRows:
    """Read a file of NumPy; *ids* is the file of the ids of an .npy file, by default the one beside it.

    Raises InvalidFile if the ids are missing or as many as there are no vectors, or if the values are no numbers.
    """
    loaded = _loaded(path)
    if isinstance(loaded, Mapping):
        if ids is not None:
            raise InvalidFile(f"{path}: it has its own ids, so {ids} cannot be theirs; leave it out")
        found = _of_archive(path, loaded)
    else:
        where = ids or ids_beside(path)
        if where is None:
            beside = ", ".join(path.stem + end for end in IDS_ENDINGS)
            raise InvalidFile(f"{path}: whose vectors are these? Name a file with one id per line, or put it beside: {beside}")
        found = DenseRows(_read_ids(where), loaded)
    return _checked(path, found)


def write_array(path: Path, ids: Sequence[Any], vectors: Any) -> None:
    """Write *vectors* (n, dimensions) as .npy and their *ids* beside it; equal content gives equal bytes.

    Raises InvalidFile for ids that are no texts or whole numbers, and for vectors that are no numbers of one length.
    """
    try:
        values = np.asarray(vectors)
        names = [id_of(one.item() if isinstance(one, np.generic) else one) for one in ids]
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"{path.stem}: {str(error).partition('. ')[0]}") from None
    if any(map(np.ma.is_masked, [vectors] if hasattr(vectors, "dtype") else vectors)):  # numpy drops the masks
        raise InvalidFile(f"{path.stem}: vectors with masked values; give numbers, e.g. vectors.filled(0)")
    _checked(Path(path.stem), DenseRows(names, values))
    np.save(path, values, allow_pickle=False)
    path.with_name(path.stem + ".ids.json").write_text(json.dumps(names), encoding="utf-8")


def _checked(path: Path, found: DenseRows) -> DenseRows:
    kind, shape = found.vectors.dtype, found.vectors.shape
    if len(shape) != _MATRIX or kind.kind not in "fiu":
        raise InvalidFile(f"{path}: vectors are an array of numbers (texts, dimensions); this is one of {kind}, {shape}")
    if kind.itemsize == 1:
        raise InvalidFile(f"{path}: {kind} are codes, which are no vectors without their ranges; save vectors as float32")
    if len(found.ids) != len(found.vectors):
        raise InvalidFile(f"{path}: {len(found.vectors):,} vectors, and {len(found.ids):,} ids")
    return found


def _loaded(path: Path) -> Any:
    """Return the array of a file, mapped, or the arrays of an archive by name."""
    try:
        loaded = np.load(path, mmap_mode=None if path.suffix == ".npz" else "r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        why = str(error).partition("\n")[0]
        pickled = "; texts as objects need pickle, which is never loaded: save np.array(ids, dtype=str)" * (
            "ickle" in why or "objects" in why
        )
        raise InvalidFile(f"{path}: it is no file of NumPy that can be read ({why}){pickled}") from None


def _of_archive(path: Path, arrays: Mapping[str, NDArray[Any]]) -> DenseRows:
    """Return the vectors of an archive, in which ids and vectors are arrays, or each array is the vector of its name."""
    ids, vectors = next((name for name in _IDS if name in arrays), None), only_one(str(path), _VECTORS, arrays)
    if ids is not None and vectors is not None:
        return DenseRows(_texts(path, arrays[ids]), arrays[vectors])
    if arrays and all(one.ndim == _FLAT and one.dtype.kind == "f" for one in arrays.values()):
        if len({len(one) for one in arrays.values()}) > 1:
            raise InvalidFile(f"{path}: its vectors are not all as long as the first")
        return DenseRows(list(arrays), np.stack(list(arrays.values())))
    raise InvalidFile(f"{path}: no arrays {_IDS[0]!r} and {_VECTORS[0]!r}; there is: {', '.join(arrays) or 'nothing'}")


def only_one(where: str, known: Sequence[str], names: Collection[str]) -> str | None:
    """Return the one of the *known* names of vectors that is there, None if there is none. Raises InvalidFile for two."""
    found = [name for name in known if name in names]
    if len(found) > 1:
        raise InvalidFile(f"{where}: are the vectors in {found[0]!r} or in {found[1]!r}? Keep one of the two")
    return found[0] if found else None


def _read_ids(path: Path) -> list[str]:
    """Read a file of ids: an array, a list as JSON, or one per line."""
    if path.suffix == ".npy":
        return _texts(path, _loaded(path))
    if path.suffix != ".json":
        return [line for _, line in text_lines(path) if line]
    try:
        value = json.loads(path.read_bytes())
        return [id_of(one) for one in value] if isinstance(value, list) else _no_list(path)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidFile(f"{path}: it is no list of ids ({error})") from None


def _no_list(path: Path) -> list[str]:
    raise InvalidFile(f"{path}: it is no list of ids")


def _texts(path: Path, ids: NDArray[Any]) -> list[str]:
    if ids.ndim != _FLAT or ids.dtype.kind not in "USiu":
        raise InvalidFile(f"{path}: ids are an array of texts or whole numbers, not of {ids.dtype}, {ids.shape}")
    return [one.decode() if isinstance(one, bytes) else str(one) for one in ids.tolist()]


def blocks(found: DenseRows, size: int) -> Iterator[DenseRows]:
    """Yield the vectors in blocks of *size*."""
    for start in range(0, len(found.ids), size):
        yield DenseRows(found.ids[start : start + size], np.asarray(found.vectors[start : start + size]))
