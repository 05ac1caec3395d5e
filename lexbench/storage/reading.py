"""Reading files: digests, lines, blocks of lines, and TOML. Files of gzip, bzip2 and xz are decompressed on the way.

Errors are InvalidFile and name the file and the place in it. A UTF-8 byte order mark at the beginning of a file, which Windows
tools write, is not part of its first line.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from lexbench.errors import InvalidFile

_BLOCK = 1 << 22  # bytes of a block of lines
_LONGEST = 1 << 28  # bytes of a line; a longer one means a file of another kind, or one made to fill the memory
_UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError)
_MAGIC = 24  # bytes that show how a file is compressed, or what else it is
_OPENERS: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    **{b"BZh%d1AY&SY" % size: bz2.open for size in range(1, 10)},
}
COMPRESSED = (".gz", ".bz2", ".xz")  # possible endings of file names; the first bytes decide how a file is read
_ZIP = b"PK\x03\x04"
_WORKBOOK = "it is a workbook of Excel; save it as CSV"
_NOT_READ = {  # how other packed files begin, and what unpacks them
    b"\x28\xb5\x2f\xfd": "zstd -d",
    _ZIP: "unzip",
    b"7z\xbc\xaf\x27\x1c": "7z x",
    b"Rar!\x1a\x07": "unrar x",
    b"\x04\x22\x4d\x18": "lz4 -d",
    b"\x1f\x9d": "gzip -d",  # of compress, whose files end in .Z
}
_NO_DATA = {  # how files begin that have no data to read, and what to do
    b"version https://git-lfs": "it is a pointer of Git LFS, and the data are elsewhere; type: git lfs pull",
    b"SQLite format 3": "it is a database of SQLite; save its tables as CSV",
    b"\xd0\xcf\x11\xe0": _WORKBOOK,
}
_TAR, _TAR_PLACE = b"ustar", 257  # the mark of a tar archive, and where it is
_NO_CHOICE = re.compile(r"Invalid enum value (.+?)(?: - at `\$\.?([^`]*)`)?")  # as msgspec says it
_UTF8_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16 and UTF-32


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a TOML file in which an unknown key is an error."""


Table = TypeVar("Table", bound=Strict)


FileState: TypeAlias = tuple[int, int, int]


class Block(NamedTuple):
    """Some whole lines of a file."""

    first: int  # number of the first line, from 1
    text: bytes  # ends in a newline, unless the file does not


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the digest of a file's bytes as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def cached_file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the digest of a file's bytes; while its size and times do not change, each process reads it once."""
    return _file_digest(path.resolve(), algorithm, file_state(path))


def file_state(path: Path) -> FileState:
    """Return what changes whenever a file is written to, for keys of caches of one process."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns  # the first time can be set back


@cache
def _file_digest(path: Path, algorithm: str, _state: FileState) -> str:
    return file_digest(path, algorithm)


def digests_below(path: str) -> dict[str, str]:
    """Return the digest of a file, or of each file below a folder by its name there."""
    top = Path(path)
    files = sorted(file for file in top.rglob("*") if file.is_file()) if top.is_dir() else [top]
    return {file.relative_to(top).as_posix(): cached_file_digest(file) for file in files}


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading bytes, decompressed if its first bytes are those of gzip, bzip2 or xz.

    Raises InvalidFile for archives, files of zstd, workbooks of Excel, and other files without data to read.
    """
    check_data(path)
    if command := unpacking(path):
        raise InvalidFile(f"{path}: it is packed and cannot be read; type: {command}")
    return _opened(path)


def check_data(path: Path) -> None:
    """Raise InvalidFile for a workbook of Excel, for a file that has no data, e.g. a pointer of Git LFS, and for a pipe.

    Files are opened several times, and a pipe gives other bytes each time.
    """
    if path.is_fifo():
        raise InvalidFile(f"{path} is a pipe, which can be read only once; write it to a file first")
    with path.open("rb") as file:
        begin = file.read(_MAGIC)
    why = next((why for magic, why in _NO_DATA.items() if begin.startswith(magic)), "")
    if begin.startswith(_ZIP):
        with suppress(*_UNREADABLE, zipfile.BadZipFile, ValueError), zipfile.ZipFile(path) as archive:
            why = _WORKBOOK if any(name.startswith("xl/") for name in archive.namelist()) else ""
    if why:
        raise InvalidFile(f"{path}: {why}")


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        begin = file.read(_MAGIC)
    named = gzip.open if path.suffix == ".gz" else None
    opener = next((opener for magic, opener in _OPENERS.items() if begin.startswith(magic)), named)
    return cast(BinaryIO, io.BufferedReader(opener(path))) if opener else path.open("rb")


def unpacking(path: Path) -> str:
    """Return the command that unpacks an archive or a file of zstd; "" for a file that can be read as it is."""
    with path.open("rb") as file:
        begin = file.read(_MAGIC)
    program = next((program for magic, program in _NOT_READ.items() if begin.startswith(magic)), "")
    with suppress(*_UNREADABLE), _opened(path) as file:  # reading it says more about a damaged file
        if file.read(_TAR_PLACE + len(_TAR))[_TAR_PLACE:] == _TAR:
            program = "tar -xf"
    return f"{program} {quote(str(path))}" if program else ""


def content(path: Path) -> bytes:
    """Return all bytes of a file, decompressed. Raises InvalidFile if it cannot be read."""
    try:
        with open_file(path) as file:
            return file.read()
    except _UNREADABLE as error:
        raise InvalidFile(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each line, from 1, and the line without its newline; no other character ends a line."""
    for first, text in blocks(path):
        yield from enumerate(text.removesuffix(b"\n").split(b"\n"), first)


def blocks(path: Path) -> Iterator[Block]:
    """Yield the lines of a file, some megabytes of them at a time."""
    first, rest = 1, b""
    try:
        with open_file(path) as file:
            while read := file.read(_BLOCK):
                begun = rest + read if first > 1 or rest else _line(read, path)
                end = begun.rfind(b"\n") + 1
                whole, rest = begun[:end], begun[end:]
                if len(rest) > _LONGEST:
                    raise InvalidFile(f"{path}: in or after line {first}: a line of more than {_LONGEST:,} bytes")
                if whole:
                    yield Block(first, whole)
                    first += whole.count(b"\n")
    except _UNREADABLE as error:
        where = f"{path}: after line {first - 1}" if first > 1 else path
        raise InvalidFile(f"{where}: {getattr(error, 'strerror', None) or error}") from None
    if rest:
        yield Block(first, rest)


def _line(begin: bytes, path: Path) -> bytes:
    """Return the beginning of a file without a UTF-8 byte order mark. Raises InvalidFile for the mark of UTF-16 or UTF-32."""
    if begin.startswith(_WIDE_MARKS):
        how = f"iconv -f UTF-16 -t UTF-8 {path} > new{path.suffix}"
        raise InvalidFile(f"{path}: it is UTF-16 or UTF-32; save it as UTF-8, e.g.: {how}")
    return begin.removeprefix(_UTF8_MARK)


def utf8(text: str) -> bytes:
    """Return *text* as UTF-8. Half a surrogate pair, which JSON allows and UTF-8 does not, becomes U+FFFD, as in Lucene."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def explained(problem: str, model: type[Any]) -> str:
    """Return what msgspec says of a value of *model*, with the values that there are if it says that this is none of them."""
    found = _NO_CHOICE.fullmatch(problem)
    if not found:
        return problem
    value, place = found.groups(default="")
    kinds = [model]
    for name in filter(None, re.sub(r"\[[^]]*\]", "", place).split(".")):
        kinds = [hints[name] for kind in _within(kinds) if name in (hints := _hints(kind))]
    known = [str(choice) for kind in _within(kinds) if get_origin(kind) is Literal for choice in get_args(kind)]
    return f"Invalid enum value {value}; there is: {', '.join(known)}" + (f" - at `$.{place}`" if place else "")


def _within(kinds: Iterable[Any]) -> Iterator[Any]:
    """Yield *kinds* and the types that they are made of, e.g. those of the items of a list."""
    for kind in kinds:
        yield kind
        if get_origin(kind) is not Literal:
            yield from _within(get_args(kind))


def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of *kind*, none if it is no table."""
    return get_type_hints(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else {}


def read_toml(path: Path, model: type[Table]) -> Table:
    """Read a TOML file as *model*. Raises InvalidFile with the file and the place, e.g. `$.datasets[1].exclude_self`."""
    try:
        return cast("Table", _decoded(path.read_bytes(), model))
    except (msgspec.DecodeError, ValueError) as error:  # tomllib raises ValueError
        raise InvalidFile(f"{path}: {explained(str(error), model)}") from None
    except RecursionError:
        raise InvalidFile(f"{path}: it is nested too deep") from None


def decode_json(path: Path, model: type[Any]) -> Any:
    """Read a JSON file as *model*. Raises InvalidFile with the file and the place."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=model)
    except ValueError as error:
        raise InvalidFile(f"{path}: {explained(str(error), model)}") from None
    except RecursionError:
        raise InvalidFile(f"{path}: it is nested too deep") from None


@lru_cache(maxsize=1024)  # commands that check many results read the files of the catalogue many times
def _decoded(content: bytes, model: type[Any]) -> Any:
    return msgspec.toml.decode(content, type=model)
