"""The documents of `pydoc`: the docstrings of the running Python's standard library.

They are collected in a bare child process (`python -I -S`), so that nothing which this process has loaded, patched or
configured can change them. This file is both sides: imported, it starts the child; run as a script, it is the child. It
therefore imports the standard library only.
"""

import functools
import hashlib
import importlib
import inspect
import itertools
import json
import os
import pkgutil
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from types import ModuleType
from typing import NamedTuple

FEWEST_WORDS = 4  # of a docstring without its name; shorter ones are left out, because they explain nothing

# fmt: off
_SKIPPED = {  # modules, by their full name or the last part of it
    # They do something when imported, or are not for users.
    "antigravity", "this", "test", "tests", "idlelib", "lib2to3", "turtledemo", "pydoc_data", "distutils",
    # They need a display, or a library that many builds of Python lack.
    "tkinter", "turtle", "curses", "dbm", "readline", "rlcompleter",
    # They exist on some systems only.
    "crypt", "fcntl", "grp", "nis", "nt", "ntpath", "nturl2path", "ossaudiodev", "posix", "pty", "pwd", "resource",
    "spwd", "syslog", "termios", "tty", "ctypes.macholib", "ctypes.wintypes", "multiprocessing.popen_fork",
    "multiprocessing.popen_forkserver",
    # They are internals of another module, which exports what is useful.
    "genericpath", "sre_compile", "sre_constants", "sre_parse",
}
# fmt: on
_PUBLIC = {"posixpath": "os.path"}  # one name on every system, so that all have the same documents


class Docstring(NamedTuple):
    """One document: the docstring of a name in the standard library."""

    doc_id: str  # the qualified name, 'os.path.join'; without 'builtins.'
    text: str  # the same name, a space, and the docstring on one line


def collect(python: str = sys.executable) -> Iterator[tuple[str, str]]:
    """Yield the qualified name and the text of everything documented in the standard library of `python`, by name.

    A module, class, function, method or property that is exported under several names gets one of them. A docstring that
    repeats the one of a base class is left out, and so is a second one with the same text and last name (`bytearray.lower`
    repeats `bytes.lower`).
    """
    # -I: no environment variables (PYTHONOPTIMIZE would strip docstrings) and no current folder. -S: no site-packages.
    child = subprocess.run([python, "-I", "-S", __file__], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if child.returncode:
        message = f"{python} could not collect its docstrings: {child.stderr.decode(errors='replace').strip()[-500:]}"
        raise RuntimeError(message)
    for line in child.stdout.splitlines():
        yield Docstring(*json.loads(line))


def digest(text: str) -> str:
    """Return the digest of a text in the list of documents: 16 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ------------------------------------------------------------------------------------ from here on: in the child


_SIGNATURE = re.compile(r"(?:\w+\.)?(\w+)\(.*\)(?: --?> \S+(?: \S+)?)?\s*")


class _Name(NamedTuple):
    """A name under which an object is exported. The smallest of an object's names is used."""

    distance: int  # 0: in its own module or a package around it; 1: listed in `__all__`; 2: in a related module
    alias: bool  # the object's own name is another one
    depth: int
    doc_id: str


def _main() -> None:
    """Write the documents to stdout as JSON lines. Output of imported modules goes to stderr."""
    with os.fdopen(os.dup(1), "w", encoding="ascii") as out:
        os.dup2(2, 1)
        warnings.simplefilter("ignore")
        first: dict[tuple[str, str], Docstring] = {}
        for document in sorted(_walk(), key=lambda document: (len(document.doc_id), document.doc_id)):
            last_name = document.doc_id.rpartition(".")[2]
            first.setdefault((last_name, document.text.removeprefix(document.doc_id)), document)
        out.writelines(json.dumps(document) + "\n" for document in sorted(first.values()))


def _walk() -> Iterator[Docstring]:
    """Yield every document."""
    modules = {_PUBLIC.get(name, name): module for name, module in _modules()}
    for name, module in modules.items():
        yield from _document(name, _doc(module))
    named = _named(modules)
    seen: set[int] = set()
    for known, thing in sorted(named.values(), key=lambda pair: pair[0].doc_id):
        yield from _describe(known.doc_id.removeprefix("builtins."), thing, named.keys(), seen)


def _modules() -> Iterator[tuple[str, ModuleType]]:
    """Yield every public module that can be imported here, a package before its modules."""
    names = sorted(sys.stdlib_module_names)
    while names:
        name = names.pop(0)
        last = name.rpartition(".")[2]
        if last.startswith("_") or {name, last} & _SKIPPED:
            continue
        try:
            module = importlib.import_module(name)
        except Exception:  # noqa: BLE001, S112 - this Python does not have the module
            continue
        yield name, module
        if name != "encodings":  # it has a hundred similar modules
            names += [f"{name}.{inner.name}" for inner in pkgutil.iter_modules(getattr(module, "__path__", ()))]


def _named(modules: Mapping[str, ModuleType]) -> dict[int, tuple[_Name, object]]:
    """Return the classes and functions of all modules by identity, each with the name that is used for it."""
    known: dict[int, tuple[_Name, object]] = {}
    for module, holder in modules.items():
        for attribute in dict.fromkeys([*vars(holder), *getattr(holder, "__all__", ())]):
            thing = getattr(holder, attribute, None)
            if attribute.startswith("_") or not (inspect.isclass(thing) or _is_routine(thing)):
                continue
            name = _name(module, attribute, thing, modules)
            if name and (_identity(thing) not in known or name < known[_identity(thing)][0]):
                known[_identity(thing)] = (name, thing)
    return known


def _name(module: str, attribute: str, thing: object, modules: Mapping[str, ModuleType]) -> _Name | None:
    """Return the name of `thing` as an attribute of a module; None if the module only imports it."""
    home = getattr(thing, "__module__", None) or ""
    home = _PUBLIC.get(home, home)
    alias = _is_alias(attribute, thing)
    if alias and home not in modules:  # e.g. `socket.SocketType`, which is the internal `_socket.socket`
        return None
    if f"{home}.".startswith(f"{module}.") or home == f"_{module}":
        distance = 0
    elif attribute in getattr(modules[module], "__all__", ()):
        distance = 1
    elif (
        home not in modules and module.partition(".")[0] in home
    ):  # e.g. `importlib`, whose functions come from `_frozen_importlib`
        distance = 2
    else:
        return None
    return _Name(distance, alias, module.count("."), f"{module}.{attribute}")


def _describe(name: str, thing: object, named: AbstractSet[int], seen: set[int]) -> Iterator[Docstring]:
    """Yield the document of a class, function, method or property, then those of the members of a class."""
    if not inspect.isclass(thing):
        yield from _document(name, _doc(thing))
        return
    if _doc(thing) not in map(_doc, thing.__mro__[1:]) and not _is_generated(thing):
        yield from _document(name, _doc(thing))
    for attribute, member in _members(thing, named):
        if _identity(member) not in named | seen:
            seen.add(_identity(member))
            yield from _describe(f"{name}.{attribute}", member, named, seen)


def _members(owner: type, named: AbstractSet[int]) -> Iterator[tuple[str, object]]:
    """Yield the members that a class or its unnamed bases document, unless another base has the same text; aliases last."""
    bases = [base for base in owner.__mro__ if base is owner or id(base) not in named]
    members = {attribute: member for base in reversed(bases) for attribute, member in vars(base).items()}
    for attribute, member in sorted(members.items(), key=lambda pair: (_is_alias(*pair), pair[0])):
        elsewhere = (vars(base).get(attribute) for base in owner.__mro__ if base not in bases)
        if _is_member(attribute, member) and _doc(member) not in map(_doc, elsewhere):
            yield attribute, member


def _document(name: str, doc: str) -> Iterator[Docstring]:
    """Yield the document, unless its docstring is too short."""
    last_name = name.rpartition(".")[2]
    lines = itertools.dropwhile(lambda line: _signed(line) == last_name, inspect.cleandoc(doc).split("\n"))
    words = " ".join(lines).split()
    if len(words) >= FEWEST_WORDS:
        yield Docstring(name, " ".join([name, *words]))


def _signed(line: str) -> str | None:
    """Return the name in a signature line such as `S.find(sub[, start]) -> int`. Such lines differ between versions."""
    match = _SIGNATURE.fullmatch(line)
    return match and match[1]


def _doc(thing: object) -> str:
    """Return a docstring; "" if it is computed, e.g. in a class whose instances have their own."""
    return thing.__doc__ if isinstance(thing.__doc__, str) else ""


def _identity(thing: object) -> int:
    """Return a number that all wrappers of one function share."""
    return id(getattr(thing, "__func__", None) or getattr(thing, "fget", None) or thing)


def _is_routine(thing: object) -> bool:
    """Return whether `thing` is a function, also if its results are cached."""
    return inspect.isroutine(thing) or isinstance(thing, functools._lru_cache_wrapper)  # noqa: SLF001 - its only name


def _is_member(attribute: str, thing: object) -> bool:
    """Return whether `thing`, an attribute of a class, is a member with its own docstring."""
    if attribute.startswith("_"):  # special methods have their own docstrings only if they are written in Python
        return attribute.startswith("__") and inspect.isfunction(thing) and "<" not in thing.__code__.co_qualname
    if inspect.isclass(thing):
        return thing.__qualname__.endswith(f".{attribute}")
    described = inspect.isgetsetdescriptor(thing) or inspect.ismemberdescriptor(thing)
    return described or _is_routine(thing) or isinstance(thing, property | functools.cached_property)


def _is_alias(attribute: str, thing: object) -> bool:
    """Return whether the object's own name is not `attribute`."""
    return attribute != getattr(thing, "__name__", attribute)


def _is_generated(owner: type) -> bool:
    """Return whether a class's docstring is a generated signature like 'Point(x, y)', of a dataclass or namedtuple."""
    doc = _doc(owner)
    return doc.startswith(f"{owner.__name__}(") and doc.endswith(")") and "\n" not in doc


if __name__ == "__main__":
    _main()
