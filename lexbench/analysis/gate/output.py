"""Reports of gates as text, Markdown and JUnit XML."""

import html
from collections.abc import Iterator, Sequence
from statistics import fmean
from xml.etree import ElementTree as ET

from lexbench.analysis.compare.tables import change_rows
from lexbench.analysis.gate.checks import GateRun, changes, worst
from lexbench.analysis.gate.files import Baseline
from lexbench.display.table import Table, escape, interval_cell, markdown, number, p_text
from lexbench.errors import visible

_SIGNS = {"pass": "✅", "fail": "❌", "cannot tell": "❔"}


def answer(report: GateRun) -> str:
    """Return the answer in one line: the verdict on quality and the numbers behind it."""
    quality = report.quality
    head = f"{report.gate}: {quality.verdict}: {report.measure}"
    queries = f"{quality.queries} queries"
    if not quality.better and not quality.worse:
        return f"{head} {number(quality.after)}, equal to the baseline on all {queries}"
    how = "fell" if quality.difference < 0 else "rose"
    moved = f"{head} {how} by {number(abs(quality.difference))} ({number(quality.before)} → {number(quality.after)})"
    test = f"p {p_text(quality.p)}, limit {quality.level:.2g}"
    match quality.verdict:
        case "fail":
            return f"{moved}, more than the margin of {quality.margin:g} and significant ({test}; {queries})"
        case "cannot tell":
            needs = f"needs about {quality.needed:,} queries, has" if quality.needed else "has only"
            return f"{moved}, more than the margin of {quality.margin:g}; {needs} {quality.queries} ({test})"
    within = f", within the margin of {quality.margin:g}" if quality.difference < 0 else ""
    return f"{moved}{within} ({queries})"


def answers(report: GateRun) -> Iterator[str]:
    """Yield the answers of a gate, one line each: quality, then limits."""
    yield answer(report)
    yield from (f"{report.gate}: {limit.verdict}: {limit.what} {limit.line}" for limit in report.limits)


def detail(report: GateRun) -> Table | None:
    """Return the queries that lost most; None if none did."""
    if not report.worst_queries:
        return None
    rows = tuple(row for one in report.worst_queries for row in change_rows(one))
    quality = report.quality
    spread = f"queries: {quality.better} better, {quality.worse} worse; 95 % {interval_cell(quality.interval, '+.3f')}"
    return Table(f"{report.gate}: the queries that lost most", ("query", "baseline", "now"), rows, (spread, *report.notes))


def as_text(report: GateRun) -> str:
    """Return a report as plain text, the answer first."""
    table = detail(report)
    rows = [f"  {before} → {now}  {query}" if now else f"    {query}" for query, before, now in table.rows] if table else []
    notes = table.notes if table else report.notes
    return "\n".join(map(visible, [*answers(report), *([f"{table.title}:"] if table else []), *rows, *notes]))


def as_markdown(reports: Sequence[GateRun]) -> str:
    """Return reports as Markdown for a pull request: a table of all gates, then the queries that lost most."""
    verdict = worst([report.verdict for report in reports])
    rows = tuple(
        (one.gate, f"{_SIGNS[found.verdict]} {found.verdict}", one.measure, number(found.before), number(found.after),
         number(found.difference, "+.4f"), f"{found.margin:g}", str(found.queries))
        for one in reports for found in [one.quality]
    )  # fmt: skip
    header = ("gate", "verdict", "measure", "baseline", "now", "change", "margin", "queries")
    parts = [f"## {_SIGNS[verdict]} Retrieval gate: {verdict}\n", markdown(Table("", header, rows))]
    if limits := [(report.gate, limit) for report in reports for limit in report.limits]:
        cells = tuple((f"{name}: {one.what}", f"{_SIGNS[one.verdict]} {one.verdict}", one.line) for name, one in limits)
        parts.append(markdown(Table("", ("limit", "verdict", "measured"), cells)))
    for report in reports:
        if table := detail(report):
            opened = " open" if report.verdict != "pass" else ""
            body = f"{escape(answer(report))}\n\n{markdown(table)}"
            parts.append(f"<details{opened}><summary>{html.escape(visible(table.title))}</summary>\n\n{body}\n</details>\n")
    return "\n".join(parts)


def as_junit(reports: Sequence[GateRun]) -> bytes:
    """Return reports as JUnit XML: a test case per gate and limit; "cannot tell" is a skipped test."""
    suite = ET.Element("testsuite", name="lexbench gate")
    for report in reports:
        lines = [(report.quality.verdict, "quality", as_text(report))]
        lines += [(limit.verdict, limit.what, limit.line) for limit in report.limits]
        for verdict, what, text in lines:
            case = ET.SubElement(suite, "testcase", classname=f"lexbench.gate.{report.gate}", name=what)
            if verdict != "pass":
                tag = "failure" if verdict == "fail" else "skipped"
                ET.SubElement(case, tag, message=text.partition("\n")[0]).text = text
    cases = list(suite)
    counts = {"tests": cases, "failures": suite.findall("*/failure"), "skipped": suite.findall("*/skipped")}
    suite.attrib |= {name: str(len(found)) for name, found in counts.items()}
    return bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True))


def accepted(name: str, before: Baseline | None, now: Baseline) -> Iterator[str]:
    """Yield the changes from the baseline *before* to the baseline *now*, which was just accepted."""
    mean = number(fmean(now.values.values()))
    if before is None:
        yield f"{name}: {now.measure} {mean} on {len(now.values)} queries"
        return
    moved = [value - before.values[query] for query, value in now.values.items() if query in before.values]
    counts = f"queries: {sum(one > 0 for one in moved)} better, {sum(one < 0 for one in moved)} worse"
    yield f"{name}: {now.measure} {number(fmean(before.values.values()))} → {mean}; {counts}"
    yield from (f"{name}: {what}: {change}" for what, change in changes(before, now).items())
