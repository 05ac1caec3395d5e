"""Count what makes a code base hard to find one's way in, for one checkout or several side by side.

    python tools/structure.py . ../older-checkout

Read as text but for the frames of a run, which are counted in a process of each checkout's own code.
"""

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

PLUGINS = (
    "encoders",
    "engines",
    "measures",
    "rerankers",
    "retrievers",
    "transforms",
    "datasets/sources",
    "neural",
    "checkpoints",
)
FRAMES = """
import tempfile, traceback, lexbench
from lexbench.retrievers import bm25
search, counts = bm25.BM25Searcher.search, []
def counted(self, encoded, k):
    stack = traceback.extract_stack()
    if any(frame.name == "run" for frame in stack) and len(encoded.starts) > 2:
        counts.append(1 + sum("/lexbench/" in frame.filename for frame in stack))
    return search(self, encoded, k)
bm25.BM25Searcher.search = counted
with tempfile.TemporaryDirectory() as store:
    lexbench.run("pydoc", ["bm25"], store=store)
print(max(counts))
"""


def modules(root: Path) -> dict[str, Path]:
    """Return the files of the package by dotted name."""
    paths = sorted((root / "lexbench").rglob("*.py"))
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules that a file imports anywhere, for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lexbench"):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else str(node.module) for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("lexbench"))


def in_cycles(graph: dict[str, set[str]]) -> int:
    """Return how many modules import themselves by way of others."""
    for _ in range(2):  # first those that import none of the rest are taken away, then those that none imports
        while free := {name for name, others in graph.items() if not others & graph.keys()}:
            graph = {name: others for name, others in graph.items() if name not in free}
        graph = {name: {other for other in graph if name in graph[other]} for name in graph}
    return len(graph)


def layers_of(root: Path) -> ModuleType:
    """Return the checkout's own test of its layers, as a module."""
    spec = importlib.util.spec_from_file_location("layers", root / "tests" / "test_architecture.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked_names(path: Path) -> set[str]:
    """Return the attributes that a file looks for by their names, in hasattr and getattr."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    asked = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("hasattr", "getattr")]
    return {
        call.args[1].value
        for call in asked
        if isinstance(call.args[1], ast.Constant) and isinstance(call.args[1].value, str) and ast.unparse(call.args[0]) != "os"
    }


def harness(root: Path) -> list[Path]:
    """Return the modules that use plug-ins: all but theirs, and training."""
    outside = [root / "lexbench" / name for name in (*PLUGINS, "lexmae")]
    return [path for path in (root / "lexbench").rglob("*.py") if not any(folder in path.parents for folder in outside)]


def hidden_attributes(root: Path) -> int:
    """Return how many attributes of plug-ins the harness asks for by name that stand in no interface."""
    interfaces = [root / "lexbench" / name for name in ("plugins.py", "types.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in interfaces if path.exists())
    plugin_code = "".join(path.read_text() for name in PLUGINS for path in (root / "lexbench" / name).rglob("*.py"))
    asked = {name for path in harness(root) for name in asked_names(path)}
    return len([name for name in asked if f"{name}:" in plugin_code or f"def {name}(" in plugin_code if name not in text])


def concrete_tests(root: Path) -> int:
    """Return how often a class of lexbench/retrievers stands in an isinstance outside that folder."""
    folder = root / "lexbench" / "retrievers"
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.glob("*.py")]
    classes = {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    calls = [
        node
        for path in (root / "lexbench").rglob("*.py")
        if folder not in path.parents
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
    ]
    names = [{name.id for name in ast.walk(call.args[1]) if isinstance(name, ast.Name)} for call in calls]
    return sum(bool(found & classes) for found in names)


def frames(root: Path) -> str:
    """Return how many frames of ours there are from lexbench.run to BM25's search, both counted."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", FRAMES], env=environment, cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def figures(root: Path) -> dict[str, object]:
    """Return all figures of one checkout."""
    known, layers = modules(root), layers_of(root)
    edges = [(name, other) for name, path in known.items() for other in imports(path, known) if name != "lexbench"]
    private = [
        (name, other)
        for name, other in edges
        if other.rpartition(".")[2].startswith("_")
        and not other.endswith("__")
        and not f"{name}.".startswith(f"{other.rpartition('.')[0]}.")
    ]
    upward = [
        (a, b)
        for a, b in edges
        if b in known and None not in (layers.layer(a), layers.layer(b)) and layers.layer(b) < layers.layer(a)
    ]
    shipped = [path for path in known.values() if "testing" not in path.parts]
    return {
        "modules": len(shipped),
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in shipped),
        "lines of lexbench.testing, which were tests": sum(
            len(path.read_text(encoding="utf-8").splitlines()) for path in known.values() if "testing" in path.parts
        ),
        "loose modules at the top": len(list((root / "lexbench").glob("[a-z]*.py"))),
        "imports of private modules across packages": len(private),
        "modules in cycles": in_cycles({name: {b for a, b in edges if a == name} for name in known}),
        "imports that point up": len(upward),
        "frames from lexbench.run to BM25's search": frames(root),
        "attributes asked of plug-ins that stand nowhere": hidden_attributes(root),
        "isinstance of a concrete retriever outside its package": concrete_tests(root),
    }


def main() -> None:
    """Print a table with a column for each checkout."""
    checkouts = [Path(argument).resolve() for argument in sys.argv[1:] or ["."]]
    columns = [figures(root) for root in checkouts]
    print("| |", " | ".join(root.name for root in checkouts), "|\n|---|" + "---|" * len(checkouts))
    for name in columns[0]:
        print(f"| {name} |", " | ".join(str(column[name]) for column in columns), "|")


if __name__ == "__main__":
    main()
