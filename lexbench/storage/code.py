"""Digests of source code, for the keys of artifacts: edited code must not get the answers of the code before.

Plug-ins of a released lexbench have a `version` instead, so that a release without changed answers keeps all artifacts. A
file of lexbench counts as released if it is as its wheel installed it, or in a clone, as git has it in its index. Changes that
are staged or committed are part of lexbench: whoever commits them raises the `version` of the class. Durations depend on all
code, so the keys of timings have the digest of every file that the system and the measuring process import.

Code is read as files. Modules whose names are computed are not followed, and neither are installed packages that a plug-in
imports: results name their versions. A file of data counts if the source names it.
"""

import ast
import hashlib
import inspect
import marshal
import os
import re
import struct
import sys
import sysconfig
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial
from importlib import metadata
from importlib.util import MAGIC_NUMBER, cache_from_source, find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from lexbench.storage.artifact_folder import digest
from lexbench.storage.reading import cached_file_digest

CODE = "code"  # in key facts: the digest of code that is not part of a released lexbench
_OWN = Path(__file__).resolve().parents[1]
_INSTALLED = tuple({Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_SUFFIXES = (".py", ".so", ".pyd")
_WRAPPED = {property: "fget", cached_property: "func", partial: "func", staticmethod: "__func__", classmethod: "__func__"}
_FILE_NAME = re.compile(r"/?[\w.][\w ./+-]{0,200}|[\w/-]*\*[\w-]*\.[\w.]+")  # also patterns such as data/*.txt
_BYTECODE_HEAD = 16  # bytes
_GIT_ENTRY = ">10L20sH"  # see gitformat-index(5)
_GIT_EXTENDED = 0x4000
_GIT_PREFIXES = 4  # from this version of the index on, a path names only how it differs from the one before


def code_digest(cls: type) -> str | None:
    """Return the digest of the source of a class; "" if it is part of a released lexbench; None if its source is not known.

    For a class of lexbench it is that of the files that its module imports and that are not as released. For another one it is
    that of all files of its top package, or of its module, and of the packages and modules that these or its base classes
    import, except installed ones.
    """
    modules = [base.__module__ or "" for base in cls.__mro__]  # a class that exec made may have None
    own, *_ = tops = [module.partition(".")[0] for module in modules]
    files = _changed([module for module, top in zip(modules, tops, strict=True) if top == _OWN.name])
    followed = set[str]()
    for top in set(tops) - {_OWN.name}:
        place = _place(top)
        if place and place.installed:
            files |= _installed_files(place)[0] if top == own else {}
        elif place:
            found, names = _files(place)
            files |= found
            followed |= names
    if followed and _replaced(followed):
        return None
    if own != _OWN.name and not files:
        try:
            files = {"": hashlib.sha256(inspect.getsource(cls).encode()).hexdigest()}
        except (OSError, TypeError):  # typed at a prompt, or made by exec
            return None
    return digest(files) if files else ""


def code_facts(module: str, *classes: type) -> Mapping[str, str]:
    """Return {"code": digest} if a *module* of lexbench, what it imports, or *classes* are not as released; {} if they are."""
    found = [digest(files)] if (files := _changed([module])) else []
    found += [code for cls in classes if (code := code_digest(cls))]
    return {CODE: digest(found)} if found else {}


def source_digest(modules: Iterable[str]) -> str:
    """Return the digest of all files that *modules* of lexbench are and import, released or not: for durations."""
    return digest({name: cached_file_digest(_OWN / name) for name in sorted(_reached(frozenset(modules)))})


def recoded(before: Any, after: Any) -> Iterator[str]:
    """Yield the identity of each plug-in whose code differs between two key facts; "lexbench" for lexbench's own."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if before.get(CODE) != after.get(CODE):
            yield str(after.get("plugin", _OWN.name))
        for name in before.keys() & after.keys():
            yield from recoded(before[name], after[name])
    elif isinstance(before, list) and isinstance(after, list):
        for one, other in zip(before, after, strict=False):
            yield from recoded(one, other)


def outdated(recipe: Any, find: Callable[[str], type | None]) -> Iterator[str]:
    """Yield the identity of each plug-in in a recipe whose code has changed since; *find* returns its class, or None.

    Code that was released then is not looked at.
    """
    if isinstance(recipe, Mapping):
        name = str(recipe.get("plugin", ""))
        plugin = find(name) if CODE in recipe else None
        if plugin and code_digest(plugin) != recipe[CODE]:
            yield name
        recipe = list(recipe.values())
    for value in recipe if isinstance(recipe, list | tuple) else ():
        yield from outdated(value, find)


def codes(facts: Any) -> Iterator[str]:
    """Yield the digests of code in key facts: those of code that is not part of a released lexbench."""
    if isinstance(facts, Mapping):
        yield from (str(value) for name, value in facts.items() if name == CODE)
        facts = list(facts.values())
    if isinstance(facts, list | tuple):
        for value in facts:
            yield from codes(value)


def without_code(facts: Any) -> Any:
    """Return key facts without digests of code."""
    if isinstance(facts, Mapping):
        return {name: without_code(value) for name, value in facts.items() if name != CODE}
    return [without_code(value) for value in facts] if isinstance(facts, list | tuple) else facts


# ---- other packages --------------------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where the source of a top package or module is: its folders, or its file."""

    name: str
    folders: tuple[Path, ...] = ()
    file: Path | None = None

    @property
    def installed(self) -> bool:
        """Whether it belongs to Python or to an installed package that is not installed as editable."""
        places = [self.file] if self.file else self.folders
        return not places or any(map(_is_installed, places))

    def sources(self) -> Iterator[tuple[Path, Path]]:
        """Yield its source files and compiled modules, each after the folder that its name in digests begins in."""
        for folder in self.folders:
            yield from ((folder, path) for path in sorted(folder.rglob("*")) if path.suffix in _SUFFIXES)
        if not self.folders and self.file:
            yield self.file.parent, self.file


@cache
def _is_installed(place: Path) -> bool:
    return any(place.resolve().is_relative_to(folder) for folder in _INSTALLED)


def _place(top: str) -> _Place | None:
    """Return where a top package or module is, imported or not; None if there is none."""
    folders: Iterable[str] | None
    file: str | None
    if module := sys.modules.get(top):
        folders, file = getattr(module, "__path__", None), getattr(module, "__file__", None)
    else:
        spec = None
        with suppress(ImportError, AttributeError, ValueError):  # a finder fails
            spec = find_spec(top)
        if spec is None:
            return None
        folders, file = spec.submodule_search_locations, spec.origin if spec.has_location else None
    return _Place(top, tuple(map(Path, folders or ())), Path(file) if file else None)


def _files(place: _Place) -> tuple[dict[str, str], set[str]]:
    """Return the digests of the files of a top package or module, and of what it imports from packages not installed.

    Files of data count if the source names them. Return also the names of these packages and modules.
    """
    digests: dict[str, str] = {}
    waiting, seen, followed = [place], {place.name, _OWN.name}, set[str]()
    while waiting:
        one = waiting.pop()
        followed.add(one.name)
        name = "" if one is place else one.name  # a script is __main__ here and another module in a worker
        for folder, path in one.sources():
            with suppress(OSError):  # it is being replaced
                digests[f"{name}/{path.relative_to(folder).as_posix()}"] = cached_file_digest(path)
                names, texts = _said(path, cached_file_digest(path)) if path.suffix == ".py" else ([], [])
                tops = {imported.partition(".")[0] for imported in (*_imports(path), *names)} - seen
                seen |= tops
                waiting += [other for top in sorted(tops) if (other := _place(top)) and not other.installed]
                if not one.installed:
                    digests |= {f"{name}/{path.stem} reads {data}": found for data, found in _data(path.parent, texts)}
                    if path.suffix == ".py" and (stale := _stale_bytecode(path)):
                        digests[f"{name}/{path.stem} runs"] = stale
    return digests, followed


_installed_files = cache(_files)  # of a package, which has hundreds of files, and this process has loaded them as they were


@cache
def _said(path: Path, _digest: str) -> tuple[list[str], list[str]]:
    """Return the modules that a source file names in calls of `import_module`, and the texts that may be names of files."""
    modules, texts = list[str](), set[str]()
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return [], []
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _FILE_NAME.fullmatch(node.value):
            texts |= {node.value, node.value.lstrip("/")}  # of an f-string, it may be the end of a path
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__"):
            modules += [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return modules, sorted(texts)


def _stale_bytecode(path: Path) -> str:
    """Return the digest of the compiled file that Python runs in place of a source file, if it is of another source; else "".

    Python looks at the time in seconds and the size of a source, which an edit need not change.
    """
    compiled = Path(cache_from_source(path))
    if not compiled.is_file():
        return ""
    with compiled.open("rb") as file:
        head = file.read(_BYTECODE_HEAD)
    status = path.stat()
    state = (int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
    magic, flags, *known = struct.unpack("<4sLLL", head) if len(head) == _BYTECODE_HEAD else (b"", 0)
    if magic != MAGIC_NUMBER or (not flags and tuple(known) != state):  # with flags, it has a digest of its source
        return ""  # Python compiles the source
    return _bytecode_of_another(path, compiled, cached_file_digest(path), cached_file_digest(compiled))


@cache
def _bytecode_of_another(path: Path, compiled: Path, _source: str, found: str) -> str:
    """Return the digest *found* of a compiled file if it is not that of a source file, else ""."""
    with suppress(EOFError, ValueError, TypeError, SyntaxError, RecursionError):
        ran = marshal.loads(compiled.read_bytes()[_BYTECODE_HEAD:])  # noqa: S302 - Python loads the same file
        if ran == compile(path.read_bytes(), str(path), "exec", dont_inherit=True):
            return ""
    return found


def _data(beside: Path, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the digest of each file that *texts* name, *beside* their source or in the working folder.

    The name may be in two texts, the first of a folder, e.g. in `folder / "data" / "words.txt"`.
    """
    for start in dict.fromkeys((beside, Path.cwd())):
        places = list(_named(start, texts))
        inside = (file for place in places if place.is_dir() for file in _named(place, texts))
        for file in (*places, *inside):
            if file.is_file():
                yield Path(os.path.relpath(file, start)).as_posix(), cached_file_digest(file)


def _named(folder: Path, texts: Sequence[str]) -> Iterator[Path]:
    """Yield what *texts* name in a folder: paths, or patterns with a star."""
    there: Collection[str] = ()
    with suppress(OSError):  # it may not be listed
        there = _listed(folder, folder.stat().st_mtime_ns)
    for text in texts:
        if "*" in text:
            yield from sorted(folder.glob(text.lstrip("/")))
        elif text[0] == "/" or text.partition("/")[0] in there:
            yield folder / text


@lru_cache(maxsize=256)
def _listed(folder: Path, _changed_at: int) -> frozenset[str]:
    """Return the names in a folder, whose time changes with them."""
    return frozenset(path.name for path in folder.iterdir())


def _imports(path: Path) -> list[str]:
    """Return the dotted names that a source file imports anywhere; [] if it is no source, or cannot be parsed."""
    return _parsed(path, cached_file_digest(path)) if path.suffix == ".py" else []


@cache
def _parsed(path: Path, _digest: str) -> list[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    names: list[str] = []
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements of a tree, without their expressions, which are most of its nodes and import nothing."""
    waiting = [tree]
    while waiting:
        yield (node := waiting.pop())
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, field, ())


# ---- lexbench itself -------------------------------------------------------------------------------------------------------


def _changed(modules: Sequence[str]) -> dict[str, str]:
    """Return the digests of the files, by path, that *modules* of lexbench are and import, and that are not as released."""
    changed = _unreleased()
    return {name: changed[name] for name in sorted(_reached(frozenset(modules)) & changed.keys())} if changed else {}


@cache  # the modules that this process has loaded are those of the files when it started
def _reached(modules: frozenset[str]) -> set[str]:
    """Return the paths in the folder of lexbench of *modules* and of all modules of lexbench that they import."""
    waiting = list(modules)
    known, reached = set(waiting), set[str]()
    while waiting:
        place = _OWN.joinpath(*waiting.pop().split(".")[1:])  # without suffix
        path = next((one for one in (place.with_suffix(".py"), place / "__init__.py") if one.is_file()), None)
        if path is None or path == _OWN / "__init__.py":
            continue
        reached.add(path.relative_to(_OWN).as_posix())
        found = {one for one in _imports(path) if one.partition(".")[0] == _OWN.name} - known
        known |= found
        waiting += found
    return reached


@cache  # like `_reached`
def _unreleased() -> dict[str, str]:
    """Return the digests of the source files of lexbench, by path in its folder, that are not as released."""
    files = {path.relative_to(_OWN).as_posix(): path for path in sorted(_OWN.rglob("*.py"))}
    known = _in_git() or _in_wheel()
    return {name: cached_file_digest(path) for name, path in files.items() if not _is_released(path, known.get(name))}


def _is_released(path: Path, known: str | None) -> bool:
    """Return whether git's blob or the wheel's digest of a file, None if it has none, is that of its content now."""
    content = path.read_bytes()
    return known in (_blob(content), _record(content)) or known == _blob(content.replace(b"\r\n", b"\n"))


def replaced() -> list[str]:
    """Return the functions and classes of lexbench that another module has replaced in this process, by their places.

    For example, a notebook, a conftest.py or a sitecustomize.py can do so, and no digest of a file shows it.
    """
    return _replaced({_OWN.name})


def _replaced(packages: Collection[str]) -> list[str]:
    """Return the functions and classes in top *packages* and modules that one of the user's, not among them, has put there."""
    found = []
    for name in sorted(name for name in list(sys.modules) if name.partition(".")[0] in packages):
        if isinstance(module := sys.modules.get(name), ModuleType):
            classes = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == name]
            spaces = {name: vars(module), **{f"{name}.{one.__name__}": vars(one) for one in classes}}
            tops = ((f"{place}.{key}", _top_of(value)) for place, space in spaces.items() for key, value in space.items())
            found += [place for place, top in tops if top and top not in packages and (top == "__main__" or _is_of_user(top))]
    return found


@cache
def _is_of_user(top: str) -> bool:
    place = None if top == _OWN.name else _place(top)
    return place is not None and not place.installed


def _top_of(value: Any) -> str:
    """Return the top package or module that defines a class or function, also in a property or method; "" for other values."""
    if isinstance(value, type):
        return str(value.__module__).partition(".")[0]
    function = value if isinstance(value, FunctionType) else getattr(value, _WRAPPED.get(type(value), "py_func"), None)
    return function.__globals__.get("__name__", "").partition(".")[0] if isinstance(function, FunctionType) else ""


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content), usedforsecurity=False).hexdigest()


def _record(content: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _in_wheel() -> dict[str, str]:
    """Return the digest of each file that the wheel of lexbench installed, by its path in the folder; {} without a wheel."""
    try:
        files = metadata.distribution(_OWN.name).files or []
    except metadata.PackageNotFoundError:
        return {}
    installed = {Path(str(one.locate())).resolve(): one.hash.value for one in files if one.hash}
    return {path.relative_to(_OWN).as_posix(): value for path, value in installed.items() if path.is_relative_to(_OWN)}


def _in_git() -> dict[str, str]:
    """Return the blob of each file of lexbench in git's index, by its path in the folder; {} if this is no clone."""
    place = _OWN.parent / ".git"
    try:
        if place.is_file():  # a work tree
            place = (_OWN.parent / place.read_text(encoding="utf-8").removeprefix("gitdir:").strip()).resolve()
        blobs = dict(read_git_index((place / "index").read_bytes()))
    except (OSError, ValueError, struct.error):
        return {}
    return {name.removeprefix(f"{_OWN.name}/"): blob for name, blob in blobs.items() if name.startswith(f"{_OWN.name}/")}


def read_git_index(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the path and the blob of each entry of git's index (versions 2 to 4). Raises ValueError if it is none."""
    signature, version, count = struct.unpack_from(">4sLL", content)
    if signature != b"DIRC":
        raise ValueError("no index of git")
    start, path = 12, b""
    for _ in range(count):
        *_, sha1, flags = struct.unpack_from(_GIT_ENTRY, content, start)
        at = start + struct.calcsize(_GIT_ENTRY) + (2 if flags & _GIT_EXTENDED else 0)
        if version >= _GIT_PREFIXES:
            dropped, at = _offset(content, at)
            end = content.index(b"\0", at)
            path, start = path[: len(path) - dropped] + content[at:end], end + 1
        else:
            end = content.index(b"\0", at)
            path, start = content[at:end], start + (end - start + 8) // 8 * 8
        yield path.decode(errors="surrogateescape"), sha1.hex()


def _offset(content: bytes, at: int) -> tuple[int, int]:
    """Return a number in git's encoding of offsets, and where it ends."""
    value = content[at] & 0x7F
    while content[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (content[at] & 0x7F)
    return value, at + 1
