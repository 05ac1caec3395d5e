"""The pytest fixture `lexbench_gate`: a retrieval test in one line. pytest loads this module at its start; it is light.

def test_search(lexbench_gate):
    lexbench_gate(search, dataset="./tests/retrieval")
"""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_FOLDER = "lexbench-gates"  # in the folder of the test file, to commit


class CannotTell(UserWarning):
    """The mean fell by more than the margin, but there are too few queries to call it significant."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --lexbench-update."""
    text = "Accept the present scores of retrieval tests as their baselines."
    parser.getgroup("lexbench").addoption("--lexbench-update", action="store_true", help=text)


@pytest.fixture
def lexbench_gate(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return a function that tests a system on a dataset against the committed baseline of this test.

    `lexbench_gate(system, dataset=..., measure="nDCG@10", margin=0.02, depth=100)` takes a system and
    a dataset like `lexbench.run`; folders are relative to pytest's root. It fails the test if the system is significantly
    worse by more than the margin, warns with CannotTell if there are too few queries to tell, and returns the report.
    """

    def run(system: Any, dataset: Any, **settings: Any) -> Any:
        from lexbench.analysis.gate.checks import check, measure
        from lexbench.analysis.gate.files import COMMITS, Gate, read_baselines, write_baselines
        from lexbench.analysis.gate.output import accepted, as_text
        from lexbench.errors import LexbenchError
        from lexbench.storage.store import Store

        root, name = request.config.rootpath, f"{request.path.stem}.{request.node.name}"
        folder = request.path.parent / _FOLDER
        file = folder / f"{re.sub(r'[^A-Za-z0-9._=-]', '_', name)}.json"
        label = system if isinstance(system, str) else getattr(system, "__name__", type(system).__name__)
        given, data = (None if isinstance(one, str | Path) else one for one in (system, dataset))
        try:
            gate = Gate(name=name, dataset="in memory" if data else str(dataset), system=label, **settings)
            store = Store()
            measured = measure(gate, root, store, system=given, data=data)
            before, now = read_baselines(file).get(name), measured.baseline()
            if request.config.getoption("--lexbench-update"):
                file.parent.mkdir(exist_ok=True)
                write_baselines({name: now}, file)
                lines = "\n".join(accepted(name, before, now))
                request.node.add_report_section("call", "lexbench", lines)  # shown by -rP
                return None
            if before is None:
                pytest.fail(f"{name} has no baseline; accept the present scores: pytest --lexbench-update", pytrace=False)
            gates = max(1, len(list(folder.glob("*.json"))))
            report = check(gate, measured, before, store, tests=COMMITS * gates)
        except LexbenchError as error:
            pytest.fail(str(error).replace("lexbench gate update", "pytest --lexbench-update"), pytrace=False)
        if report.verdict == "fail":
            pytest.fail(as_text(report), pytrace=False)
        if report.verdict == "cannot tell":
            warnings.warn(as_text(report), CannotTell, stacklevel=2)
        return report

    return run
