"""The gates of a file: run them, add one, and accept the present scores. `lexbench gate` and the function `lexbench.gate`."""

from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import Any

import msgspec

from lexbench.analysis.gate import output
from lexbench.analysis.gate.checks import GateRun, Measured, Verdict, check, measure, worst
from lexbench.analysis.gate.files import Gate, add_gate, read_baselines, read_gates, write_baselines
from lexbench.analysis.significance.noninferiority import fewest_queries
from lexbench.display.answer import Answer
from lexbench.display.progress import Progress
from lexbench.display.table import Table
from lexbench.errors import CommandError
from lexbench.storage.store import Store

DEFAULT = Path("lexbench-gate.toml")


class GateReport(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """Everything about the gates of a file after they ran."""

    verdict: Verdict  # over all gates
    gates: list[GateRun]

    def head(self) -> list[str]:
        """Return the verdict, and each gate's answers; of a gate without a table also its notes."""
        lines = [f"{self.verdict}: {sum(one.verdict == 'pass' for one in self.gates)} of {len(self.gates)} gates pass"]
        for report in self.gates:
            lines += output.answers(report)
            lines += [] if output.detail(report) else [f"· {note}" for note in report.notes]
        return lines

    def tables(self) -> list[Table]:
        """Return a table for each gate with queries that lost, and its notes."""
        return [table for report in self.gates if (table := output.detail(report))]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per gate: its verdict, and the scores before and after."""
        return [
            {"gate": one.gate, "verdict": one.verdict, "measure": one.measure, **msgspec.structs.asdict(one.quality)}
            for one in self.gates
        ]

    @property
    def markdown(self) -> str:
        """The report as Markdown, e.g. for a comment."""
        return output.as_markdown(self.gates)

    @property
    def junit(self) -> bytes:
        """The report as JUnit XML."""
        return output.as_junit(self.gates)


class Accepted(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """What changed when scores were accepted as baselines."""

    changes: list[str]
    advice: list[str] = []

    def head(self) -> list[str]:
        """Return the changes, and what to do with them."""
        return [*self.changes, *self.advice]


def run_gates(path: Path, store: Store, progress: Progress) -> GateReport:
    """Run the gates of the file *path* and compare them with the baselines beside it."""
    gates, baselines = read_gates(path), read_baselines(path.with_suffix(".json"))
    tests = gates.commits * len(gates.gate)
    reports = [
        check(gate, measured, baselines.get(gate.name), store, tests=tests, confidence=gates.confidence)
        for gate, measured in _measured(gates.gate, path, store, progress)
    ]
    return GateReport(verdict=worst([report.verdict for report in reports]), gates=reports)


def init_gate(path: Path, gate: Gate, store: Store, progress: Progress) -> Accepted:
    """Add *gate* to the file *path*, and accept its present scores. Raises CommandError if its name is taken."""
    if path.is_file() and gate.name in {known.name for known in read_gates(path).gate}:
        raise CommandError(f"{path} has a gate {gate.name!r}; give this one another name: --name NAME")
    ((_, measured),) = _measured([gate], path, store, progress, timed=False)
    baseline = measured.baseline()
    write_baselines({**read_baselines(path.with_suffix(".json")), gate.name: baseline}, path.with_suffix(".json"))
    add_gate(path, gate)
    advice = []
    fewest, queries = fewest_queries(gate.margin), len(baseline.values)
    if queries < fewest:
        advice.append(
            f"to show that a loss is below {gate.margin:g} takes {fewest} queries, even if none changes; there are {queries}"
        )
    test = join(["lexbench", "gate", *(["--file", str(path)] if path != DEFAULT else [])])
    advice.append(f"commit {path} and {path.with_suffix('.json')}; test: {test}")
    return Accepted(changes=list(output.accepted(gate.name, None, baseline)), advice=advice)


def update_gates(path: Path, store: Store, progress: Progress) -> Accepted:
    """Run the gates of the file *path* and accept their scores as the baselines."""
    before = read_baselines(path.with_suffix(".json"))
    measured = _measured(read_gates(path).gate, path, store, progress, timed=False)
    now = {gate.name: one.baseline() for gate, one in measured}
    write_baselines(now, path.with_suffix(".json"))
    return Accepted(changes=[line for name, one in now.items() for line in output.accepted(name, before.get(name), one)])


def _measured(
    gates: Sequence[Gate], path: Path, store: Store, progress: Progress, *, timed: bool = True
) -> list[tuple[Gate, Measured]]:
    """Run the systems of gates, and if *timed*, measure the speeds that gates limit."""
    found = []
    for gate in gates:
        found.append((gate, measure(gate, path.parent, store, progress, timed=timed)))
        progress.job_done()
    return found
