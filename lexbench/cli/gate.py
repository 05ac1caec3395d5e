"""Test retrieval quality, size and speed against a committed baseline."""

import os
from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any

import click

from lexbench.cli._options import FILE, dataset_option, json_option, system_option
from lexbench.cli._output import open_store, print_json, print_lines, print_tables, say
from lexbench.cli._progress import shown

if TYPE_CHECKING:
    from lexbench.analysis.gate.checks import Measured
    from lexbench.analysis.gate.files import Gate

_EXIT_CODES = {"pass": 0, "fail": 1, "cannot tell": 2}
_DEFAULT = Path("lexbench-gate.toml")
_FILE = click.option(
    "--file",
    "path",
    type=FILE,
    default=_DEFAULT,
    show_default=True,
    help="The gates; the baseline is in the same folder, with the ending .json.",
)


@click.group(invoke_without_command=True)
@_FILE
@click.option("--markdown", type=FILE, metavar="FILE", help="Also write Markdown, e.g. for a comment.")
@click.option("--junit", type=FILE, metavar="FILE", help="Also write JUnit XML.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, path: Path, *, as_json: bool, **files: Path | None) -> None:
    """Run the gates in lexbench-gate.toml and compare them with the committed baseline.

    Exit codes: 0 pass; 1 fail: significantly worse by more than the margin, or over a limit; 2 cannot tell: worse by more than
    the margin, but too few queries; 3 not run: wrong command line or file, missing data, or a system that failed.
    """
    if ctx.invoked_subcommand:
        return
    from lexbench.analysis.gate import output
    from lexbench.analysis.gate.checks import check, worst
    from lexbench.analysis.gate.files import read_baselines, read_gates
    from lexbench.storage import atomic

    gates = read_gates(path)
    baselines = read_baselines(path.with_suffix(".json"))
    reports = [
        check(gate, measured, baselines.get(gate.name), tests=gates.commits * len(gates.gate), confidence=gates.confidence)
        for gate, measured in _measure(gates.gate, path)
    ]
    verdict = worst([report.verdict for report in reports])
    if as_json:
        print_json({"verdict": verdict, "gates": reports})
    else:
        say(f"{verdict}: {sum(report.verdict == 'pass' for report in reports)} of {len(reports)} gates pass")
        for report in reports:
            print_lines(output.answers(report))
            if table := output.detail(report):
                print_tables([table])
            else:
                print_lines(f"· {note}" for note in report.notes)
    if files["markdown"]:
        atomic.write_text(files["markdown"], output.as_markdown(reports))
    if files["junit"]:
        atomic.write_bytes(files["junit"], output.as_junit(reports))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:  # other steps write there too
            file.write(f"\n{output.as_markdown(reports)}")
    ctx.exit(_EXIT_CODES[verdict])


@command.command(short_help="Add a gate, and accept the present scores as its baseline.")
@dataset_option("The queries and judgements.", required=True)
@system_option("What is tested: an expression, or module:function.", multiple=False, required=True)
@click.option("-m", "--measure", default="nDCG@10", show_default=True, metavar="MEASURE", help="From 0 to 1.")
@click.option("--margin", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.02, show_default=True,
              help="A smaller fall of the mean is tolerated.")  # fmt: skip
@click.option("--name", metavar="NAME", help="Default: the last part of the dataset's name.")
@_FILE
def init(path: Path, name: str | None, **settings: Any) -> None:
    """Add a gate to lexbench-gate.toml and its baseline to lexbench-gate.json. Commit both."""
    from lexbench.analysis.gate.files import Gate, add_gate, read_baselines, read_gates, write_baselines
    from lexbench.analysis.gate.output import accepted
    from lexbench.analysis.significance.noninferiority import fewest_queries
    from lexbench.errors import CommandError

    gate = Gate(name=name or Path(settings["dataset"].replace("/test", "")).name or "retrieval", **settings)
    if path.is_file() and gate.name in {known.name for known in read_gates(path).gate}:
        raise CommandError(f"{path} has a gate {gate.name!r}; give this one another name: --name NAME")
    ((_, measured),) = _measure([gate], path, timed=False)
    baseline = measured.baseline()
    add_gate(path, gate)
    write_baselines({**read_baselines(path.with_suffix(".json")), gate.name: baseline}, path.with_suffix(".json"))
    print_lines(accepted(gate.name, None, baseline))
    fewest, queries = fewest_queries(gate.margin), len(baseline.values)
    if queries < fewest:
        say(f"to show that a loss is below {gate.margin:g} takes {fewest} queries, even if none changes; there are {queries}")
    test = join(["lexbench", "gate", *(["--file", str(path)] if path != _DEFAULT else [])])
    say(f"commit {path} and {path.with_suffix('.json')}; test: {test}")


@command.command(short_help="Accept the present scores as the baseline, and print what changed.")
@_FILE
def update(path: Path) -> None:
    """Run the gates, accept their scores as the baseline, and print what changed."""
    from lexbench.analysis.gate.files import read_baselines, read_gates, write_baselines
    from lexbench.analysis.gate.output import accepted

    before = read_baselines(path.with_suffix(".json"))
    now = {gate.name: measured.baseline() for gate, measured in _measure(read_gates(path).gate, path, timed=False)}
    write_baselines(now, path.with_suffix(".json"))
    for name, baseline in now.items():
        print_lines(accepted(name, before.get(name), baseline))


def _measure(gates: "Sequence[Gate]", path: Path, *, timed: bool = True) -> "list[tuple[Gate, Measured]]":
    """Run the systems of gates, and if *timed*, measure the speeds that gates limit."""
    from lexbench.analysis.gate.checks import measure

    measured = []
    with shown("gate", len(gates)) as progress:
        store = open_store(progress.note)
        for gate in gates:
            measured.append((gate, measure(gate, path.parent, store, progress, timed=timed)))
            progress.job_done()
    return measured
