"""`njit` for compiled loops, with a cache that every copy of the same lexbench shares.

numba's own cache stands beside each source file and is checked against that file alone. A loop that calls one of another file
would stay as it was after a change of the other, e.g. after an upgrade. This cache is in the user's cache folder, in a folder
named by the digest of all files with compiled loops. A file in it is named by all that decides its content, the processor among
it, so processes on different processors never write the same file. Nobody but the user can write to it, because code is loaded
from it. Where there can be no such folder, numba's own cache is used, or none.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import caching, compiler, event
from platformdirs import user_cache_path

from lexbench import compiling

# Relative to the package; a test compares them with the files that import `njit` from here.
SOURCES = (
    "compiling/loops.py", "encoders/_looked_up.py", "engines/kernels/dense.py", "engines/kernels/impact_index.py",
    "engines/kernels/impact_search.py", "engines/kernels/llvm.py", "models/int8.py", "retrievers/_bm25_index.py",
    "retrievers/_bm25_search.py", "retrievers/_bm25_terms.py", "arrays/selection.py", "tokenization/compiled.py",
    "trec/_compiled.py",
)  # fmt: skip
_DIGITS = 16  # hexadecimal digits of a digest in a name
_OTHERS_WRITE = 0o022  # of a file's mode

_caching: Any = caching  # numba has no types
_event: Any = event
_compiler: Any = compiler


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a loop like `numba.njit`. With `cache=True` the compiled loop is kept, see above."""
    kept = options.pop("cache", False)
    decorate: Any = numba.njit

    def decorated(function: Callable[..., Any]) -> Any:
        loop = decorate(**options)(function)
        if kept and (folder := cache_folder()):
            loop._cache = _Loop(function, folder)  # noqa: SLF001 - as numba's `enable_caching` does
        elif kept:
            with suppress(RuntimeError):  # numba finds no folder either
                loop.enable_caching()
        return loop

    return decorated


@cache
def cache_folder() -> Path | None:
    """Return the folder of this version's compiled loops, made if need be; None if there can be none.

    It is in NUMBA_CACHE_DIR, or else in the user's cache folder.
    """
    package = Path(__file__).parent.parent
    digest = sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for name in SOURCES:
        digest.update((package / name).read_bytes())
    user = str(os.getuid()) if hasattr(os, "getuid") else ""  # Windows gives each user a folder
    with suppress(OSError, ValueError, RuntimeError):  # the last for a user without a home folder
        root = Path(os.environ.get("NUMBA_CACHE_DIR") or user_cache_path("lexbench")) / f"compiled{user}"
        folder = root / digest.hexdigest()[:_DIGITS]
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        made = [path.lstat() for path in (root, folder)]
        own = not user or all(str(one.st_uid) == user and not one.st_mode & _OTHERS_WRITE for one in made)
        if own and os.access(folder, os.W_OK):
            return folder
    return None


class _Listener(_event.Listener):  # type: ignore[misc] # likewise
    """Hears when numba compiles."""

    def on_start(self, _event: Any) -> None:
        """Begin the clock."""
        compiling.begin()

    def on_end(self, _event: Any) -> None:
        """End it."""
        compiling.end()


_event.register("numba:compile", _Listener())


class _Files(_caching.IndexDataCacheFile):  # type: ignore[misc] # likewise
    """One file per key, named by it. numba numbers the files in an index, which two processes can confuse."""

    def save(self, key: object, data: Any) -> None:
        """Write the file. A full disk costs the next process its time, and not this one its work."""
        with suppress(OSError):
            self._save_data(self._name(key), (repr(key), data))

    def load(self, key: object) -> Any:
        """Return what was saved; None if there is nothing, or a damaged file."""
        try:
            known, data = self._load_data(self._name(key))
        except Exception:  # noqa: BLE001 - a damaged file can raise anything; it is written again
            return None
        return data if known == repr(key) else None

    def _name(self, key: object) -> str:
        return str(self._data_name(int(sha256(repr(key).encode()).hexdigest()[:_DIGITS], 16)))


class _Loop(_caching._Cache):  # type: ignore[misc] # noqa: SLF001 - the base class of numba's own
    """The cache of one loop: a compiled form for each processor and types of its arguments."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        name = f"{function.__module__}.{function.__qualname__}-{sys.implementation.cache_tag}"
        self._folder, self._files = str(folder), _Files(str(folder), name, folder.name)

    @property
    def cache_path(self) -> str:
        """The folder."""
        return self._folder

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the compiled loop, None if it must be compiled."""
        target.refresh()
        data = self._files.load((signature, target.codegen().magic_tuple()))
        return None if data is None else _compiler.CompileResult._rebuild(target, *data)  # noqa: SLF001 - as numba's caches do

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled loop, unless it has addresses of this process in it."""
        if not any(not one.can_cache for one in result.lifted) and not result.library.has_dynamic_globals:
            self._files.save((signature, result.codegen.magic_tuple()), result._reduce())  # noqa: SLF001 - likewise

    def enable(self) -> None:
        """Do nothing: it is always used."""

    def disable(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing: another version has another folder."""
