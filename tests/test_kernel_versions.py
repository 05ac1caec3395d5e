"""Code that computes answers, and the versions that stand in the keys of what it computed."""

import ast
import importlib.util
from pathlib import Path

import pytest

_FILE = Path(__file__).parent.parent / "tools" / "kernel_versions.py"
_SPEC = importlib.util.spec_from_file_location("kernel_versions", _FILE)
tool = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tool)

ENGINE = '''"""Sums."""
from lexbench.engines.kernels.loops import add
from lexbench.errors import LexbenchError

_MOST = 3

class Sum:
    version: ClassVar[int] = 1

    def build(self, shards):
        total = 0
        for shard in shards:
            if shard > _MOST:
                raise LexbenchError("too much")
            total = add(total, shard)
        self._keep(total)

    def _keep(self, total):
        self._total = total
'''
KERNELS = '''"""Loops."""
from numba import njit

@njit(nogil=True)
def add(first: int, second: int):
    """Add two numbers."""
    return weighted(first) + second

def weighted(number, weight=1):
    return weight * number  # for ever
'''
BASE = """class Base:
    def search(self):
        return 1
"""


def digest(folder, *replacements, moved="loops"):
    """Return the digest of the engine `sum`, whose files are written with *replacements* of text, its kernels in *moved*."""
    kernels = folder / "engines" / "kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    files = {folder / "engines" / "sum.py": ENGINE, kernels / f"{moved}.py": KERNELS, kernels / "base.py": BASE}
    for path, text in files.items():
        for old, new in (*replacements, ("kernels.loops", f"kernels.{moved}")):
            text = text.replace(old, new)  # noqa: PLW2901 - one after another
        path.write_text(text)
    return tool.code_of([dict(tool.Package(folder).plugins())["engines/sum"]]).digest


def test_code_has_the_versions_that_were_recorded():
    """Where code that computes answers changed, its version was raised, or its author recorded that answers are the same."""
    recorded = tool.read_table(tool.TABLE.read_text(encoding="utf-8"))

    assert list(tool.complaints(recorded, tool.Package(tool.PACKAGE).rows())) == []


def test_every_compiled_function_has_a_version():
    """Each function that numba compiles, in the parts of lexbench that compute answers, is in the code of a plug-in."""
    package = tool.Package(tool.PACKAGE)
    known = {(each.module.file, each.name) for roots in package.roots().values() for each in tool.code_of(roots).definitions}
    compiled = {
        (path, node.name)
        for part in tool.COMPUTING
        for path in (tool.PACKAGE / part).rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(each) for each in node.decorator_list)
    }

    assert compiled
    assert compiled - known == set()


@pytest.mark.parametrize(
    "replacement",
    [
        ("_MOST = 3", "_MOST = 4"),
        ("+ second", "- second"),
        ("weight=1", "weight=2"),
        ("nogil=True", "fastmath=True"),
        ("add(total, shard)", "add(shard, total)"),
        ("weighted(first)", "int(first)"),
        ("class Sum:", "from lexbench.engines.kernels.base import Base\nclass Sum(Base):"),
    ],
)
def test_what_computes_is_noticed(tmp_path, replacement):
    """A constant, an operation, a default, how it is compiled, the order of arguments, what is called, a base class."""
    assert digest(tmp_path, replacement) != digest(tmp_path)


@pytest.mark.parametrize(
    "replacement",
    [
        ("Add two numbers.", "Return the sum."),
        ("# for ever", ""),
        (": int", ": float"),
        ("return weight * number", "return (\n        weight\n        * number\n    )"),
        ("too much", "less, please"),
        ("shard", "block"),
        ("weighted", "times"),
        ("_keep", "_remember"),
        ("_total", "_sum"),
        ("add", "plus"),
        ("ClassVar[int] = 1", "ClassVar[int] = 2"),
    ],
)
def test_what_does_not_compute_is_not_noticed(tmp_path, replacement):
    """Docstrings, comments, annotations, layout, errors, names of variables, functions and private methods, versions."""
    assert digest(tmp_path, replacement) == digest(tmp_path)


def test_moved_code_is_the_same(tmp_path):
    """In which module a function is changes nothing."""
    assert digest(tmp_path, moved="elsewhere") == digest(tmp_path)


def test_data_of_code_is_code(tmp_path):
    """A text file beside a module, which it names, belongs to it."""
    named = ("_MOST = 3", '_MOST = "words.txt"')
    digests = {digest(tmp_path, named)}
    for text in ("a", "b"):
        (tmp_path / "engines" / "words.txt").write_text(text)
        digests.add(digest(tmp_path, named))

    assert len(digests) == 3


RECORDED = {"a": tool.Row(1, "x"), "b": tool.Row(1, "y"), "gone": tool.Row(3, "z")}


def test_the_complaint_says_what_to_type():
    """One line for what changed and both ways on; what has a new version is to be recorded, what is new can be."""
    rows = {"a": tool.Row(1, "changed"), "b": tool.Row(2, "changed"), "new": tool.Row(1, "n")}
    record, decide = tool.complaints(RECORDED, rows)

    assert record == "not recorded with the version that they have now: b; type: python tools/kernel_versions.py --write"
    assert "recorded: a. " in decide
    assert decide.endswith("Where none can, type: python tools/kernel_versions.py --same a")


def test_a_change_without_a_new_version_is_not_written():
    """Whether answers change is decided by the author, so `--write` takes nothing while one row is undecided."""
    with pytest.raises(SystemExit, match="--same a"):
        tool.raised(RECORDED, {"a": tool.Row(1, "changed"), "b": tool.Row(2, "changed")})
    with pytest.raises(SystemExit, match="only goes up"):
        tool.raised(RECORDED, {"gone": tool.Row(2, "z")})

    rows = {"a": tool.Row(1, "x"), "b": tool.Row(2, "changed"), "new": tool.Row(1, "n")}
    assert tool.raised(RECORDED, rows) == rows


def test_the_same_answers_are_recorded_by_name():
    """`--same` takes the new digest of what is named, and leaves the rest undecided."""
    rows = {name: tool.Row(row.version, "changed") for name, row in RECORDED.items()}

    assert tool.same(RECORDED, rows, ["a"]) == RECORDED | {"a": tool.Row(1, "changed")}
    for name in ("b", "nothing"):
        with pytest.raises(SystemExit, match=name):
            tool.same(RECORDED, rows | {"b": tool.Row(2, "changed")}, [name])


def test_a_table_reads_as_it_was_written():
    """Rows by name, sorted."""
    assert tool.read_table(tool.table(RECORDED)) == RECORDED
