"""Hold the code that computes answers against the versions that stand in the keys of stored indexes, runs and results.

    python tools/kernel_versions.py                    say where code changed and its version did not: exit status 1
    python tools/kernel_versions.py --write            answers can change: record what has a new version, or is new
    python tools/kernel_versions.py --same NAME ...    no answer changes: record the new code of these at their old version

tests/kernel_versions.tsv has a line for each plug-in and for each of SHARED: name, version, digest of the code. The code of a
plug-in is its class and what this uses, function by function, in the parts of lexbench that are COMPUTING. Comments,
docstrings, annotations, layout, errors that are raised, what other parts do, and the names of modules, functions, private
methods and local variables are not in the digest: what is moved or renamed needs no decision.
"""

import argparse
import ast
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeAlias

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "lexbench"
TABLE = ROOT / "tests" / "kernel_versions.tsv"
PLUGINS = ("encoders", "engines", "measures", "rerankers", "retrievers", "transforms")
COMPUTING = {*PLUGINS, "checkpoints", "encodings", "fusion", "neural", "selection", "tokenization", "trec"}
SCORES = "runner.jobs:_SCORER"  # the version of all measures
SHARED = {  # name: the constant that is its version, and its functions
    "encodings": (
        "runner.corpus_stages:FORMAT",
        ("encodings.encode:encode_shards", "encodings.shards:read_shard", "encodings.shards:read_rows"),
    ),
    "scores": (SCORES, ("measures:score", "measures:tie_report")),
    "weights": (
        "runner.weight_search:_FORMAT",
        (
            "fusion.normalise:weighted_sum",
            "fusion.normalise:top_k",
            "fusion.weight_grid:candidates",
            "fusion.weight_grid:grid",
        ),
    ),
}
NO_ANSWERS = {  # methods of plug-ins that say something about answers, or decide on their keys
    "check_depth", "checkpoint_defaults", "counts", "document_folders", "file_identity", "identity", "index_identity", "models",
    "remarks", "single_terms", "slow_note", "token", "trained_on", "training_data", "truncated",
    "with_document_folders", "work",
}  # fmt: skip
_LEFT_OUT = {"ctx", "kind", "type_comment", "type_params", "returns", "annotation"}  # fields of syntax that compute nothing


class Row(NamedTuple):
    """A line of the table but for its name."""

    version: int
    digest: str


Rows: TypeAlias = dict[str, Row]  # by name


class Definition(NamedTuple):
    """A function, class or variable at the top of a module."""

    module: "Module"
    name: str
    node: ast.stmt


class Module:
    """A file of the package, parsed and not imported."""

    def __init__(self, package: "Package", name: str, file: Path) -> None:
        self.package, self.name, self.file = package, name, file
        self._tree = ast.parse(file.read_text(encoding="utf-8"))

    @property
    def computes(self) -> bool:
        """Whether the module is in a part of lexbench whose code is followed."""
        return self.name.partition(".")[0] in COMPUTING

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """What the module defines, by name."""
        return {name: Definition(self, name, node) for node in self._tree.body for name in _bound(node)}

    @cached_property
    def imports(self) -> dict[str, str]:
        """What is imported anywhere in the module, as dotted names, by the names it has there."""
        names: dict[str, str] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                names |= {alias.asname: alias.name for alias in node.names if alias.asname}
            elif isinstance(node, ast.ImportFrom):
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        return names


class Package:
    """The modules of lexbench in the folder *root*."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[str, Module] = {}

    def module(self, name: str) -> Module | None:
        """Return the module with a dotted name, without the leading `lexbench`; None where there is none."""
        if name not in self._modules:
            path = self.root.joinpath(*name.split("."))
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            if not file.exists():
                return None
            self._modules[name] = Module(self, name, file)
        return self._modules[name]

    def find(self, dotted: str) -> Definition | Module | None:
        """Return what a dotted name, without `lexbench`, stands for, wherever it is defined."""
        if (module := self.module(dotted)) is not None:
            return module
        parent, _, name = dotted.rpartition(".")
        holder = self.module(parent) if parent else None
        if holder is None:
            return None
        if name in holder.definitions:
            return holder.definitions[name]
        origin = holder.imports.get(name, "")
        return self.find(origin.removeprefix("lexbench.")) if origin.startswith("lexbench.") else None

    def definition(self, place: str) -> Definition:
        """Return what `module:name` stands for; SystemExit where this tool's tables name what is not there."""
        found = self.find(place.replace(":", "."))
        if not isinstance(found, Definition):
            raise SystemExit(
                f"lexbench/{place.replace(':', ': ')}: there is no such definition; mend SHARED in {Path(__file__).name}"
            )
        return found

    def plugins(self) -> Iterator[tuple[str, Definition]]:
        """Yield the name `group/name` of each plug-in, and its class: the one that is called as its file is."""
        for group in PLUGINS:
            for file in sorted((self.root / group).glob("[!_]*.py")):
                module = self.module(f"{group}.{file.stem}")
                for name, definition in module.definitions.items() if module else ():
                    if isinstance(definition.node, ast.ClassDef) and name.lower() == file.stem.replace("_", ""):
                        yield f"{group}/{file.stem}", definition

    def rows(self) -> Rows:
        """Return the version and the digest of all that computes."""
        rows = {name: Row(self._version(name, roots), code_of(roots).digest) for name, roots in self.roots().items()}
        return dict(sorted(rows.items()))

    def roots(self) -> dict[str, list[Definition]]:
        """Return what the code of each row begins with, by the row's name."""
        shared = {name: [self.definition(place) for place in code] for name, (_, code) in SHARED.items()}
        return {name: [plugin] for name, plugin in self.plugins()} | shared

    def _version(self, name: str, roots: list[Definition]) -> int:
        """Return the version of a row."""
        constant = SHARED[name][0] if name in SHARED else SCORES if name.startswith("measures/") else None
        return self._class_version(roots[0]) if constant is None else _constant(self.definition(constant))

    def _class_version(self, plugin: Definition) -> int:
        """Return the `version` of a class, its own or inherited; 1 where it has none."""
        node = plugin.node
        assert isinstance(node, ast.ClassDef)
        for statement in node.body:
            if "version" in _bound(statement):
                return _constant(Definition(plugin.module, f"{plugin.name}.version", statement))
        for base in node.bases:
            parent = _resolve(plugin.module, base)
            if isinstance(parent, Definition) and isinstance(parent.node, ast.ClassDef):
                return self._class_version(parent)
        return 1


def _constant(definition: Definition) -> int:
    value = getattr(definition.node, "value", None)
    if not isinstance(value, ast.Constant) or not isinstance(value.value, int):
        raise SystemExit(f"{definition.module.file}: {definition.name} is no whole number")
    return value.value


def _bound(node: ast.AST) -> list[str]:
    """Return the names that a statement, or what is inside it, gives a value."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def _resolve(module: Module, node: ast.expr) -> Definition | Module | None:
    """Return what a name, or the attribute of a module, stands for in *module*; None where it is not of lexbench."""
    if isinstance(node, ast.Attribute):
        holder = _resolve(module, node.value)
        return module.package.find(f"{holder.name}.{node.attr}") if isinstance(holder, Module) else None
    if not isinstance(node, ast.Name):
        return None
    if node.id in module.definitions:
        return module.definitions[node.id]
    origin = module.imports.get(node.id, "")
    return module.package.find(origin.removeprefix("lexbench.")) if origin.startswith("lexbench.") else None


class Code(NamedTuple):
    """All code that computes something."""

    digest: str
    definitions: list[Definition]


def code_of(roots: Iterable[Definition]) -> Code:
    """Return *roots* and all computing code that they use, directly and indirectly."""
    numbers: dict[tuple[str, str], int] = {}  # by module and name: what the code is called by its users
    definitions: list[Definition] = []

    def refer(definition: Definition) -> str:
        key = definition.module.name, definition.name
        if key not in numbers:
            numbers[key] = len(numbers)
            definitions.append(definition)
        return f"#{numbers[key]}"

    for root in roots:
        refer(root)
    words = (word for definition in definitions for word in _Words(definition, refer).all())  # *definitions* grows meanwhile
    return Code(hashlib.sha256("\n".join(words).encode()).hexdigest()[:16], definitions)


class _Words:
    """A definition as words that say what it computes, with numbers in place of the names that are its own."""

    def __init__(self, definition: Definition, refer: Callable[[Definition], str]) -> None:
        self._definition, self._module, self._refer = definition, definition.module, refer
        self._local: set[str] | None = None  # names of the local variables of the function that is read
        self._numbers: dict[str, int] = {}  # of local variables and private attributes, as they are met

    def all(self) -> Iterator[str]:
        """Yield the words of the definition."""
        node = self._definition.node
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield str(_bound(node).index(self._definition.name))
            yield from self._of(node.value)
        else:
            yield from self._of(node)

    def _of(self, node: object) -> Iterator[str]:
        """Yield the words of a node of syntax, of a list of nodes, or of an identifier."""
        if isinstance(node, list):
            yield "["
            for item in node:
                yield from self._of(item)
            yield "]"
        elif isinstance(node, ast.Constant):
            yield self._constant(node.value)
        elif isinstance(node, ast.Name | ast.Attribute):
            yield from self._reference(node)
        elif isinstance(node, ast.AnnAssign):  # in a class a setting or a fact, which is in keys itself
            yield from self._fields(ast.Assign([node.target], node.value)) if node.value and self._local is not None else ()
        elif isinstance(node, ast.JoinedStr):  # Python 3.12 has empty constants in some
            yield from self._of([part for part in node.values if not isinstance(part, ast.Constant) or part.value])
        elif isinstance(node, ast.FunctionDef) and self._local is None:
            self._local = {*_local_names(node), *([node.name] if node is self._definition.node else ())}
            yield from self._fields(node)
            self._local = None
        elif isinstance(node, ast.ClassDef):
            yield from self._of([base for base in node.bases if self._computes(base)])
            yield from self._of([item for item in node.body if getattr(item, "name", "") not in NO_ANSWERS])
        elif isinstance(node, ast.AST):
            yield from self._fields(node) if not _is_silent(node) else ()
        else:
            yield self._identifier(node)

    def _fields(self, node: ast.AST) -> Iterator[str]:
        yield type(node).__name__
        for name, value in ast.iter_fields(node):
            if name not in _LEFT_OUT:
                yield from self._of(value)

    def _reference(self, node: ast.Name | ast.Attribute) -> Iterator[str]:
        meant = None if isinstance(node, ast.Name) and node.id in (self._local or ()) else _resolve(self._module, node)
        if isinstance(meant, Definition):
            yield self._refer(meant) if meant.module.computes else "lexbench"
        elif isinstance(meant, Module):  # all its functions: who knows which are called
            for definition in meant.definitions.values() if meant.computes else ():
                if isinstance(definition.node, ast.FunctionDef) and not definition.name.startswith("_"):
                    yield self._refer(definition)
        elif isinstance(node, ast.Name):
            yield self._identifier(self._module.imports.get(node.id, node.id))
        else:
            yield from self._of(node.value)
            yield self._identifier(node.attr)

    def _computes(self, base: ast.expr) -> bool:
        meant = _resolve(self._module, base)
        return isinstance(meant, Definition) and meant.module.computes

    def _identifier(self, name: object) -> str:
        """Return a name; a number in place of one that can be changed without changing those who use the definition."""
        if isinstance(name, str) and (name in (self._local or ()) or (name.startswith("_") and not name.startswith("__"))):
            return f"%{self._numbers.setdefault(name, len(self._numbers))}"
        return str(name)

    def _constant(self, value: object) -> str:
        """Return a constant; for the name of a text file beside the module what is in it, too."""
        data = self._module.file.with_name(value) if isinstance(value, str) and value.endswith(".txt") else None
        return repr(value) + (hashlib.sha256(data.read_bytes()).hexdigest() if data and data.exists() else "")


def _is_silent(node: ast.AST) -> bool:
    """Tell whether a statement is an import, a docstring, or an error that is raised."""
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Raise) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def _local_names(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names of the arguments and variables of a function, and of the functions inside it."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ExceptHandler | ast.FunctionDef) and node.name and node is not function:
            yield node.name


def read_table(text: str) -> Rows:
    """Read the table."""
    cells = (line.split("\t") for line in text.splitlines())
    return {name: Row(int(version), code) for name, version, code in cells}


def table(rows: Rows) -> str:
    """Write the table."""
    return "".join(f"{name}\t{row.version}\t{row.digest}\n" for name, row in sorted(rows.items()))


def complaints(recorded: Rows, rows: Rows) -> Iterator[str]:
    """Yield a line for each kind of difference: what it is, and what to type. What is new or gone is none."""
    tool = f"python tools/{Path(__file__).name}"
    both = {name: (recorded[name].version, rows[name].version) for name in sorted(recorded.keys() & rows.keys())}
    if lower := [name for name, (old, new) in both.items() if new < old]:
        yield f"a version only goes up, and is lower than the one recorded of {' '.join(lower)}"
    if higher := [name for name, (old, new) in both.items() if new > old]:
        yield f"not recorded with the version that they have now: {' '.join(higher)}; type: {tool} --write"
    if changed := [name for name, (old, new) in both.items() if old == new and recorded[name] != rows[name]]:
        names = " ".join(changed)
        yield (
            f"changed, under the version that was recorded: {names}. Where any answer can change, raise the version and type: "
            f"{tool} --write. Where none can, type: {tool} --same {names}"
        )


def raised(recorded: Rows, rows: Rows) -> Rows:
    """Return the table with all *rows*; SystemExit, saying what to decide, where code changed and its version did not go up."""
    names = {name for name in recorded.keys() & rows.keys() if rows[name].version <= recorded[name].version}
    if lines := list(complaints({name: recorded[name] for name in names}, {name: rows[name] for name in names})):
        raise SystemExit("\n".join([*lines, "Nothing was written."]))
    return rows


def same(recorded: Rows, rows: Rows, names: Iterable[str]) -> Rows:
    """Return the table *recorded* with the digests of today for *names*; SystemExit where one has another version than then."""
    for name in names:
        if name not in recorded or name not in rows or recorded[name].version != rows[name].version:
            raise SystemExit(f"{name} has no version that was recorded and is the same today; there is: {' '.join(recorded)}")
    return recorded | {name: rows[name] for name in names}


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, or write the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--write", action="store_true", help="record what has a new version, or is new")
    choice.add_argument("--same", nargs="+", metavar="NAME", help="record the new code of these at their old version")
    options = parser.parse_args(arguments)
    recorded, rows = read_table(TABLE.read_text(encoding="utf-8")), Package(PACKAGE).rows()
    if options.write or options.same:
        new = raised(recorded, rows) if options.write else same(recorded, rows, options.same)
        TABLE.write_text(table(new), encoding="utf-8")
        return 0
    lines = list(complaints(recorded, rows))
    notes = [f"new or gone, which --write records: {name}" for name in sorted(recorded.keys() ^ rows.keys())]
    for line in (*lines, *notes):
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
