"""The indexes that `lexbench probe` searches: those of engines, programs and HTTP servers of the user; and files of vectors."""

import shlex
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import SplitResult, urlsplit

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench import registry
from lexbench.arrays.vectors import canonical
from lexbench.encodings.shards import Encodings
from lexbench.errors import CannotStart, CommandError, InvalidFile
from lexbench.outside.http_client import HttpClient
from lexbench.outside.programs import Program
from lexbench.outside.running import is_sparse, repeated_note
from lexbench.plugins import Engine, RunningIndex
from lexbench.types import MultiVectors

Block: TypeAlias = tuple[Sequence[str], Any]  # ids and vectors (documents, width), dense or sparse

_READ = 1000  # vectors at a time
_TIMEOUT = 60  # seconds that a program or server has for an answer
_FORM = '{"docs": [["d1", 3.2], …]}'  # of an answer


def opened(target: str) -> RunningIndex:
    """Open the index at the address *target*, or the one that the command *target* searches.

    Raises CommandError for an unknown kind of address, CannotStart if nothing answers there.
    """
    if "://" not in target:
        return _Command(target)
    address = urlsplit(target)
    kind = address.scheme.partition("+")[0]
    if kind in {"http", "https"}:
        return _Url(address)
    known = [name for name in registry.names("engines") if _attaches(name)]
    if kind not in known:
        places = ", ".join(f"{name}://" for name in known)
        raise CommandError(f"{target!r}: begin with {places} or http://, or give a command")
    if address.password or (address.username and kind != "pgvector"):
        raise CommandError(
            "write no name and no key in the address; environment variables have them, see: lexbench probe --help"
        )
    running: RunningIndex = registry.load("engines", kind).attach(address)
    return running


def _attaches(name: str) -> bool:
    """Return whether an engine can open indexes that others built."""
    found = registry.find(f"engines/{name}")
    return found is not None and any("attach" in vars(cls) for cls in found.__mro__ if cls is not Engine)


def _listed(vector: Any) -> Any:
    """Return a query as JSON: a list of numbers, or the terms and weights of a sparse one."""
    if is_sparse(vector):
        return {"indices": vector.indices.tolist(), "values": vector.data.tolist()}
    return vector.tolist()


def _question(query: Any, k: int, settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return what a server or program of the user is asked."""
    return {"vector": _listed(query), "k": k, **settings, **({"filter": where} if where else {})}


def _ids(answer: Any) -> list[str]:
    """Return the ids of an answer. Raises TypeError or LookupError for one of another form."""
    return [str(row[0] if isinstance(row, list) else row) for row in answer["docs"]]


class _Url(RunningIndex):
    """A server of the user. It gets no key."""

    def __init__(self, address: SplitResult) -> None:
        self._client = HttpClient(f"{address.scheme}://{address.netloc}", "the server", timeout=_TIMEOUT, known=True)
        self._path = (address.path or "/") + (f"?{address.query}" if address.query else "")

    def search(self, query: Any, k: int, settings: Mapping[str, Any], where: str) -> Sequence[str]:
        found: list[str] = self._client.ask("POST", self._path, _question(query, k, settings, where), read=_ids, form=_FORM)
        return found

    def notes(self) -> Sequence[str]:
        return repeated_note(self._client.repeated)


class _Command(RunningIndex):
    """A program of the user."""

    parallel = False

    def __init__(self, text: str) -> None:
        try:
            self._program = Program(repr(text), shlex.split(text), _TIMEOUT)
        except (CannotStart, ValueError) as error:
            raise CannotStart(f"{error}; a server's address begins with http://") from None

    def search(self, query: Any, k: int, settings: Mapping[str, Any], where: str) -> Sequence[str]:
        return self._program.ask(_question(query, k, settings, where), _FORM, _ids)

    def close(self) -> None:
        self._program.close()


# ---- files of vectors ------------------------------------------------------------------------------------------------------


def file_blocks(path: Path, ids: Path | None) -> Callable[[], Iterator[Block]]:
    """Return the vectors in a .npy or .npz file or a folder of encodings, with the *ids* in a file, or row numbers.

    Raises InvalidFile if they are no matrix, or if there are more or fewer ids.
    """
    names = ids.read_text(encoding="utf-8").split() if ids else None

    def matrices() -> Iterator[Any]:
        if path.is_dir():
            yield from Encodings(path).shards()
            return
        whole = read_matrix(path)
        yield from (whole[start : start + _READ] for start in range(0, whole.shape[0], _READ))

    def blocks() -> Iterator[Block]:
        start = 0
        for matrix in matrices():
            stop = start + matrix.shape[0]
            if isinstance(matrix, MultiVectors):
                raise InvalidFile(f"{path}: probe takes one vector per document, and these are per token")
            if names and stop > len(names):
                raise InvalidFile(f"{ids} has {len(names):,} ids, and {path} has more vectors")
            rows = matrix if is_sparse(matrix) else np.asarray(matrix, np.float32)
            yield names[start:stop] if names else [str(row) for row in range(start, stop)], rows
            start = stop
        if names and start < len(names):
            raise InvalidFile(f"{ids} has {len(names):,} ids, and {path} has {start:,} vectors")

    return blocks


def read_matrix(path: Path) -> Any:
    """Return the matrix (n, width) in a .npy file, mapped, in a .npz file of SciPy, or in a folder of encodings.

    Raises InvalidFile for anything else.
    """
    if path.is_dir():
        shards = list(Encodings(path).shards())
        if not shards:
            raise InvalidFile(f"{path}: no encodings in this folder")
        return sparse.csr_array(sparse.vstack(shards)) if is_sparse(shards[0]) else np.concatenate(shards)
    try:
        if path.suffix == ".npz":
            return canonical(sparse.csr_array(sparse.load_npz(path)))
        matrix: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, LookupError, TypeError, zipfile.BadZipFile) as error:
        raise InvalidFile(f"{path}: not a .npy or .npz file of vectors ({type(error).__name__}: {error})") from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":  # noqa: PLR2004 - a matrix
        raise InvalidFile(f"{path}: {matrix.dtype} of shape {matrix.shape}; vectors are a matrix of numbers (documents, width)")
    return matrix
