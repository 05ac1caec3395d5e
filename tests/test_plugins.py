"""Plug-ins of another package: the example package, loaded through its entry points."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import tiny

from lexbench import plugins, registry

PROGRAM = """
import contextlib, io, json, sys
from lexbench.cli import code
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        ended = code(words)
    print(json.dumps([ended, out.getvalue(), err.getvalue()]))
"""
PLUGINS = {
    "encoders": "letters", "transforms": "square", "engines": "one_by_one", "retrievers": "alphabetical", "measures": "first",
    "sources": "numerals",
}  # fmt: skip


@pytest.fixture
def lexbench(fast):
    """Return `ran` with the Python that starts fast."""
    return partial(ran, fast / "python")


def ran(python, environment, *commands):
    """Run commands in one process; return the exit code, stdout and stderr of each."""
    command = [python, "-c", PROGRAM, json.dumps(commands)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_plugins_are_listed_with_their_package(lexbench, plugin_environment):
    """`lexbench list` shows every plug-in of the package with the package's name."""
    shown = lexbench(plugin_environment, *(["list", group, "--json"] for group in PLUGINS))

    for name, (ended, out, _) in zip(PLUGINS.values(), shown, strict=True):
        assert ended == 0
        assert (name, "lexbench-example 0.1") in {(row["name"], row["from"]) for row in json.loads(out)}


def test_all_plugins_work_together(lexbench, plugin_environment):
    """Suite, source, retriever, encoder, transform, engine and measure of another package work; a wrong setting is one line."""
    first, last = "alphabetical", "alphabetical(backwards=True)"
    systems = [first, last, "letters@one_by_one", "letters|square@flat", "letters(case=True)"]
    run = ["run", "suite", "numerals"]
    wrong = [[*run, "-r", "letters(case=3)"], [*run, "-r", "letters(cas=True)"]]
    (ended, out, err), *refused = lexbench(plugin_environment, [*run, *(f"-r{system}" for system in systems), "--json"], *wrong)
    results = {result["system"]: result for result in json.loads(out)["results"]}

    assert ended == 1, err
    assert err.count("not measured: 10 of 10 queries got one and the same list") == 2  # an alphabet asks no query
    assert set(results) == set(systems)
    # `eight eight` is the first text of all, `zero zero` the last; the queries are `zero zero`, `one zero`, …
    assert results[first]["means"]["First"] == 0.0
    assert results[last]["means"]["First"] == pytest.approx(0.1)
    assert results["letters@one_by_one"]["means"] == results["letters(case=True)"]["means"]
    assert [one[:2] for one in refused] == [[2, ""], [3, ""]]
    assert "letters(case=…) takes bool, not 3" in refused[0][2]
    assert "did you mean 'case'" in refused[1][2]
    assert refused[1][2].count("\n") == 1


@pytest.mark.slow
def test_a_package_tests_its_plugins_with_lexbench_testing(plugin_environment):
    """The contract tests of lexbench run in another package's tests, and its plug-ins pass."""
    tests = Path(__file__).parent / "plugin" / "test_contracts.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(tests)]
    done = subprocess.run(command, env=plugin_environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


ENGINES = {
    "no_class": ("Thing = 3", "no class; it needs a class called NoClass"),
    "plain": ("class Plain:\n    pass", "it does not inherit from lexbench.plugins.Engine; write class Plain(Engine)"),
    "mutable": ("class Mutable(Engine):\n    pass", "it is no dataclass; write @dataclass(frozen=True) before it"),
    "nothing": ("@dataclass(frozen=True)\nclass Nothing(Engine):\n    pass", "it has no kind; see lexbench.plugins.Engine"),
    "vague": (
        "@dataclass(frozen=True)\nclass Vague(Engine):\n    kind = 'dense'\n    def build(self): ...\n    def open(self): ...",
        "it has no exact; see lexbench.plugins.Engine",
    ),
    "text": (
        "@dataclass(frozen=True)\nclass Text(Engine):\n    kind = 'dense'\n    exact = True\n    build = open = print",
        "its kind is the text 'dense'; write e.g. kind = Kind.DENSE",
    ),
}


def test_plugins_that_do_not_load_are_named(lexbench, plugin_environment, tmp_path):
    """A package that fails to import, and invalid engines, give one line, and only if they are used.

    An engine without `exact` would be published as exact.
    """
    entries = {"lexbench.retrievers": ["broken = broken_module:Broken", "leaving = leaving_module:Leaving"]}
    entries["lexbench.engines"] = [f"{name} = {name}_engine" for name in ENGINES]
    head = "from dataclasses import dataclass\nfrom lexbench import Engine\n"
    leaving = "import sys\nprint('leaving')\nsys.exit(0)\n"
    modules = {f"{name}_engine": f"{head}{text}\n" for name, (text, _) in ENGINES.items()}
    tiny.install(tmp_path, "odd", entries, broken_module="1 / 0\n", leaving_module=leaving, **modules)
    environment = {**plugin_environment, "PYTHONPATH": f"{tmp_path}{os.pathsep}{plugin_environment['PYTHONPATH']}"}
    used = [["run", "suite", "pydoc", "-r", f"lexmae_nano@{name}"] for name in ENGINES]
    others = [["run", "suite", "pydoc", "-r", name] for name in ("broken", "leaving")]
    listed, broken, left, *engines = lexbench(environment, ["list", "engines"], *others, *used)

    assert listed[0] == 0
    assert "plug-in 'broken' (broken_module:Broken of odd) does not load: ZeroDivisionError" in broken[2]
    for (name, (_, reason)), (_, _, err) in zip(ENGINES.items(), engines, strict=True):
        assert f"plug-in '{name}' ({name}_engine of odd) is {reason}" in err or f"is not one of engines: {reason}" in err
    assert left[:2] == [3, ""]
    assert "plug-in 'leaving' (leaving_module:Leaving of odd) does not load: SystemExit: 0" in left[2]
    assert [(ended, err.count("\n")) for ended, _, err in (broken, *engines)] == [(3, 1)] * 7


PAGE = Path(__file__).parent.parent / "docs" / "reference" / "plugins.md"


@pytest.mark.parametrize("group", registry.PACKAGES)
def test_one_page_lists_everything_that_can_be_added(group):
    """Each kind of plug-in has a row with its base class and everything that it must define."""
    base, required = plugins._GROUPS[group]
    (row,) = (
        line for line in PAGE.read_text(encoding="utf-8").splitlines() if f"`[{group}]`" in line and line.startswith("| a")
    )

    assert f"`class X({base.__name__})`" in row
    for names in required:
        assert any(re.search(rf"`{name}\b", row) for name in names.split(" or ")), names


def test_every_link_of_that_page_leads_somewhere():
    """The page is one screen of rows, and the files and headings that it links to exist."""
    table = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    links = re.findall(r"\]\(([^)#]+)(?:#([\w-]+))?\)", "\n".join(table))

    assert len(table) <= 20
    assert len(links) >= 12
    for path, heading in links:
        text = (PAGE.parent / path).read_text(encoding="utf-8")
        assert not heading or heading in {line.lstrip("# ").lower().replace(" ", "-") for line in text.splitlines()}
