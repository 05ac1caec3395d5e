"""Rules for the code as a whole."""

import ast
import re
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import pytest
from tiny import ended, loaded_modules

import lexbench
from lexbench.storage.code import _statements as statements

PACKAGE = Path(__file__).parent.parent / "lexbench"
MODULES = sorted(PACKAGE.rglob("*.py"))


def layers():
    """Return the names on each line of the diagram in CONTRIBUTING.md, from the top."""
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    diagram = text.split("```")[1].strip("\n").splitlines()
    return [[f"lexbench.{name}" for name in line.split("  ")[0].split(" · ")] for line in diagram]


LAYERS = layers()


@cache
def home(module):
    """Return the longest name in the diagram that is the module or contains it; None for the package itself."""
    fitting = [name for names in LAYERS for name in names if module == name or module.startswith(f"{name}.")]
    return max(fitting, key=len, default=None)


def layer(module):
    """Return the line of a module in the diagram, the highest 0; None for the package itself."""
    return next((number for number, names in enumerate(LAYERS) if home(module) in names), None)


def name_of(path):
    """Return the dotted name of a module."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports_and_classes(path):
    """Return the import statements of a file and its classes, without its tree, which is large."""
    found = statements(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in found if isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef)]


def imports(path):
    """Yield every lexbench module that a file imports: at its top, inside a function, or for type checkers."""
    for node in imports_and_classes(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lexbench"):
            for alias in node.names:
                inner = PACKAGE.parent / Path(*node.module.split(".")) / alias.name
                yield f"{node.module}.{alias.name}" if inner.is_dir() or inner.with_suffix(".py").exists() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("lexbench"))


def may_use_the_public_names(module):
    """Whether a module may use the functions of `lexbench` itself: the command line, and methods of `Results`."""
    return module in {"lexbench.cli", "lexbench.results"} or module.startswith("lexbench.cli.")


PARTS = [path for path in MODULES if home(name_of(path))]  # all but `lexbench` itself, which has the public names


@pytest.fixture(scope="module")
def imported_by():
    """Return what each module imports, by its name. It takes seconds, which no collection of tests should take."""
    return {name_of(path): list(imports(path)) for path in MODULES}


def test_every_module_is_in_the_diagram():
    """The diagram in CONTRIBUTING.md has a line for every module, and no other lines."""
    assert [name_of(path) for path in MODULES if path not in PARTS] == ["lexbench"]
    names = {name_of(path) for path in MODULES}

    assert [name for line in LAYERS for name in line if name not in names] == []


def test_imports_point_one_way(imported_by):
    """A module imports only from its own package and from lines below it."""
    wrong = [
        f"{module} imports {imported}, which is not below it"
        for module in map(name_of, PARTS)
        for imported in imported_by[module]
        if not (imported == "lexbench" and may_use_the_public_names(module))
        if home(imported) is None or (home(imported) != home(module) and layer(imported) <= layer(module))
    ]

    assert wrong == []


def test_the_command_line_uses_public_names_only(imported_by):
    """Commands can do nothing that a program cannot: they import `lexbench`, errors, and what shows answers and progress."""
    allowed = {"lexbench", "lexbench.errors", "lexbench.synonyms"}
    inner = {
        (module, imported)
        for module, found in imported_by.items()
        for imported in found
        if module.startswith("lexbench.cli")
        and not imported.startswith("lexbench.cli")
        and imported not in allowed
        and not imported.startswith("lexbench.display")
    }
    typed = {name for path in MODULES if "cli" in path.parts for name in re.findall(r"\blexbench\.(\w+)[.(]", path.read_text())}

    assert inner == set()
    assert typed - {"cli", "errors", "display", "synonyms"} <= set(lexbench.__all__)


def test_no_cycle(imported_by):
    """Modules have no import cycles, also inside packages and in imports for type checkers."""
    graph = {module: set(imported_by[module]) - {"lexbench"} for module in map(name_of, PARTS)}
    while free := {name for name, imported in graph.items() if not imported & graph.keys()}:
        graph = {name: imported for name, imported in graph.items() if name not in free}

    assert graph == {}


def test_one_name_is_one_thing():
    """Two modules define no public class of the same name, but for the layers of models in `models/native`."""
    found = {}
    for path in MODULES:
        classes = {node.name for node in imports_and_classes(path) if isinstance(node, ast.ClassDef)}
        for name in (one for one in classes if not one.startswith("_")):
            found.setdefault(name, []).append(name_of(path))
    several = {name: modules for name, modules in found.items() if len(modules) > 1}

    assert {name for name, modules in several.items() if not all("models.native." in one for one in modules)} == set()


def test_private_modules_are_private(imported_by):
    """A module whose name begins with an underscore is imported only inside its own package."""
    for module, imported in ((module, one) for module, found in imported_by.items() for one in found):
        package, _, name = imported.rpartition(".")
        if name.startswith("_") and not name.startswith("__"):
            assert f"{module}.".startswith(f"{package}."), f"{module} imports {imported}"


def test_every_file_is_written_atomically():
    """No module uses save_file of safetensors, which leaves a temporary file if the process is killed."""
    for path in MODULES:
        assert not re.search(r"\bsave_file\(|import .*\bsave_file\b", path.read_text(encoding="utf-8")), path


HEAVY = {
    "numpy", "scipy", "numba", "faiss", "torch", "transformers", "accelerate", "pandas", "ir_datasets", "ir_measures", "jnius",
    "matplotlib", "pyarrow", "pyserini", "rich", "yaml",
}  # fmt: skip


HELP = "--help; run suite --help; list --help; export --help; train --help; train finetune --help; --version"


def test_help_imports_nothing_heavy():
    """Help, also on training, loads neither numpy nor anything heavier, so it answers at once."""
    program = f"from lexbench.cli import code; assert not any([code(one.split()) for one in {HELP!r}.split(';')])"
    assert HEAVY.isdisjoint(loaded_modules(program))


@pytest.mark.parametrize("module", ["lexbench", "lexbench.pytest_plugin"])
def test_importing_the_package_loads_nothing_heavy(module):
    """`import lexbench` loads no library; public names load when they are used. pytest loads the plug-in at every start."""
    program = f"import sys, {module}; print(*sys.modules); assert set(lexbench.__all__) == set(dir(lexbench))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert HEAVY.isdisjoint(done.stdout.split())
    assert {name for name in done.stdout.split() if name.startswith("lexbench.")} <= {module}
    assert all(getattr(lexbench, name) for name in lexbench.__all__)


@pytest.mark.usefixtures("bread_suite", "store")
def test_stored_results_are_shown_without_heavy_libraries(bread_environment, capsys, tmp_path):
    """A stored result is shown, and compared, without loading a compiler, sparse matrices or a model."""
    run = ["run", "suite", "bread", "-d", "bread/test", "-r", "bm25", "-r", "bm25(k1=1.2)"]
    environment = {**bread_environment, "LEXBENCH_STORE": str(tmp_path / "store")}
    modules = partial(loaded_modules, "from lexbench.cli import code; assert not code(sys.argv[1:])", **environment)
    ended(capsys, 0, *run)

    shown = modules(*run)
    assert "numpy" in shown
    assert shown.isdisjoint({"numba", "scipy.sparse", "scipy.stats", "torch"})
    assert modules("compare", "bm25", "bm25(k1=1.2)", "-d", "bread/test").isdisjoint({"numba", "scipy.stats", "torch"})
