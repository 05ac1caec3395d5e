"""Plug-ins of another package: the example package, loaded through its entry points."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def lexbench(environment, *arguments):
    """Run the command line; return its exit code, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "lexbench", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("encoders", "letters"),
        ("transforms", "square"),
        ("engines", "one_by_one"),
        ("retrievers", "alphabetical"),
        ("measures", "first"),
        ("sources", "numerals"),
    ],
)
def test_a_plugin_is_listed_with_its_package(plugin_environment, group, name):
    """`lexbench list` shows every plug-in of the package with the package's name."""
    code, out, _ = lexbench(plugin_environment, "list", group, "--json")

    assert code == 0
    assert (name, "lexbench-example 0.1") in {(row["name"], row["from"]) for row in json.loads(out)}


def test_all_plugins_work_together(plugin_environment):
    """Suite, source, retriever, encoder, transform, engine and measure of another package work in one run."""
    first, last = "alphabetical", "alphabetical(backwards=True)"
    systems = [first, last, "letters@one_by_one", "letters|square@flat", "letters(case=True)"]
    options = [word for system in systems for word in ("-r", system)]
    code, out, err = lexbench(plugin_environment, "run", "suite", "numerals", *options, "--json")
    results = {result["system"]: result for result in json.loads(out)["results"]}

    assert code == 0, err
    assert set(results) == set(systems)
    # `eight eight` is the first text of all, `zero zero` the last; the queries are `zero zero`, `one zero`, …
    assert results[first]["means"]["First"] == 0.0
    assert results[last]["means"]["First"] == pytest.approx(0.1)
    assert results["letters@one_by_one"]["means"] == results["letters(case=True)"]["means"]


def test_a_setting_of_a_plugin_is_checked(plugin_environment):
    """A wrong setting of another package's plug-in gives one line and exit code 2 or 3, like our own."""
    code, out, err = lexbench(plugin_environment, "run", "suite", "numerals", "-r", "letters(case=3)")
    assert (code, out) == (2, "")
    assert "letters(case=…) takes bool, not 3" in err

    code, _, err = lexbench(plugin_environment, "run", "suite", "numerals", "-r", "letters(cas=True)")
    assert code == 3
    assert "did you mean 'case'" in err
    assert err.count("\n") == 1


def test_a_plugin_that_does_not_load_is_named(plugin_environment, tmp_path):
    """A package whose module fails to import gives one line that names it, and only if it is used."""
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lexbench.retrievers]\nbroken = broken_module:Broken\n")
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    environment = {**plugin_environment, "PYTHONPATH": str(tmp_path)}

    assert lexbench(environment, "list", "retrievers")[0] == 0
    code, _, err = lexbench(environment, "run", "suite", "pydoc", "-r", "broken")
    assert code == 3
    assert "plug-in 'broken' (broken_module:Broken of broken) does not load: ZeroDivisionError" in err
    assert err.count("\n") == 1


def test_a_package_tests_its_plugins_with_lexbench_testing(plugin_environment):
    """The contract tests of lexbench run in another package's tests, and its plug-ins pass."""
    tests = Path(__file__).parent / "plugin" / "test_contracts.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(tests)]
    done = subprocess.run(command, env=plugin_environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


CLASSES = {
    "no class": ("Thing = 3", "no class; it needs a class called Odd"),
    "no engine": ("class Odd:\n    pass", "it does not inherit from lexbench.plugins.Engine; write class Odd(Engine)"),
    "no dataclass": ("class Odd(Engine):\n    pass", "it is no dataclass; write @dataclass(frozen=True) before it"),
    "nothing": ("@dataclass(frozen=True)\nclass Odd(Engine):\n    pass", "it has no kind; see lexbench.plugins.Engine"),
    "not exact": (
        "@dataclass(frozen=True)\nclass Odd(Engine):\n    kind = 'dense'\n    def build(self): ...\n    def open(self): ...",
        "it has no exact; see lexbench.plugins.Engine",
    ),
}


@pytest.mark.parametrize("case", CLASSES)
def test_a_class_that_is_no_engine_is_refused(plugin_environment, tmp_path, case):
    """An invalid plug-in is refused in one line: an engine without `exact` would be published as exact."""
    code, reason = CLASSES[case]
    info = tmp_path / "odd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lexbench.engines]\nodd = odd_engine\n")
    (tmp_path / "odd_engine.py").write_text(f"from dataclasses import dataclass\nfrom lexbench import Engine\n{code}\n")
    environment = {**plugin_environment, "PYTHONPATH": f"{tmp_path}{os.pathsep}{plugin_environment.get('PYTHONPATH', '')}"}
    exit_code, _, err = lexbench(environment, "run", "suite", "pydoc", "-r", "lexmae_nano@odd")

    assert exit_code == 3
    assert f"plug-in 'odd' (odd_engine of odd) is {reason}" in err or f"is not one of engines: {reason}" in err
    assert err.count("\n") == 1
