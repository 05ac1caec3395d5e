"""What must be true of the code as a whole."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "lexbench"
MODULES = sorted(PACKAGE.rglob("*.py"))

LAYERS = [  # a module imports only from its own layer and those below it
    {"lexbench.cli", "lexbench.__main__"},
    {
        "lexbench.api",
        "lexbench.analysis",
        "lexbench.lexmae",
        "lexbench.report",
        "lexbench.interop",
    },
    {"lexbench.runner", "lexbench.timing"},
    {"lexbench.retrievers"},
    {"lexbench.fusion"},
    {
        "lexbench.catalog",
        "lexbench.datasets",
        "lexbench.encoders",
        "lexbench.engines",
        "lexbench.rerankers",
        "lexbench.transforms",
        "lexbench.measures",
        "lexbench.suites",
        "lexbench.checkpoints",
        "lexbench.neural",
    },
    {"lexbench.tokenization", "lexbench.encodings", "lexbench.vector_formats", "lexbench.progress"},
    {"lexbench.registry", "lexbench.trec", "lexbench.results"},
    {"lexbench.storage"},
    {"lexbench.notation", "lexbench.types", "lexbench.errors"},
]


def layer(module):
    """Return the number of the layer that a module belongs to, the highest 0; None for the package itself."""
    fitting = [
        (len(name), number)
        for number, names in enumerate(LAYERS)
        for name in names
        if module == name or module.startswith(f"{name}.")
    ]
    return max(fitting)[1] if fitting else None


def name_of(path):
    """Return the dotted name of a module."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def imports(path):
    """Yield every module of lexbench that a file imports at its top or inside a function, but for type checkers only."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lexbench"):
            for alias in node.names:
                inner = PACKAGE.parent / Path(*node.module.split(".")) / alias.name
                yield f"{node.module}.{alias.name}" if inner.is_dir() or inner.with_suffix(".py").exists() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("lexbench"))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_one_way(path):
    """No module imports from a layer above its own."""
    own = layer(name_of(path))
    if own is None:
        pytest.skip("the package itself holds names of its public parts")
    for imported in imports(path):
        assert layer(imported) is not None, f"{imported} stands in no layer"
        assert layer(imported) >= own, f"{name_of(path)} imports {imported}, which is above it"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_stay_readable(path):
    """No module is longer than 320 lines."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 320


def test_only_the_command_line_prints():
    """Nothing outside lexbench.cli calls print."""
    for path in MODULES:
        if "cli" not in path.parts:
            calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
            names = {node.func.id for node in calls if isinstance(node.func, ast.Name)}
            assert "print" not in names, path


def test_no_writer_has_a_temporary_file_of_its_own():
    """The save_file of safetensors writes beside its target under a name of its own: what a kill leaves of it would be kept."""
    for path in MODULES:
        names = {node.id for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Name)}
        assert "save_file" not in names, path


HEAVY = {
    "numpy",
    "scipy",
    "numba",
    "faiss",
    "torch",
    "transformers",
    "pandas",
    "ir_datasets",
    "ir_measures",
    "jnius",
    "matplotlib",
    "pyarrow",
    "pyserini",
    "rich",
    "yaml",
}


HELP = [["--help"], ["run", "suite", "--help"], ["list", "--help"], ["export", "--help"], ["--version"]]


@pytest.mark.parametrize("arguments", HELP)
def test_help_imports_nothing_heavy(arguments):
    """Asking for help loads neither numpy nor anything heavier, so it answers at once."""
    program = f"import sys; from lexbench.cli import code; code({arguments!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert HEAVY.isdisjoint(done.stderr.split())


def test_importing_the_package_loads_nothing_heavy():
    """`import lexbench` costs no library; its public names are loaded when they are used."""
    program = "import sys, lexbench; print(*sys.modules); assert set(lexbench.__all__) == set(dir(lexbench))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert HEAVY.isdisjoint(done.stdout.split())


def test_every_public_name_is_there():
    """Each name in `__all__` loads."""
    import lexbench

    assert all(getattr(lexbench, name) for name in lexbench.__all__)
