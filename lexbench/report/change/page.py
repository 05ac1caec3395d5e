"""A report as Markdown, as a page, and its picture: the change of every query, sorted."""

from collections.abc import Iterator, Sequence

from lexbench.analysis.compare.query_changes import MovedDocument, QueryChange
from lexbench.analysis.compare.tables import Comparison
from lexbench.display.table import Table, escape, number
from lexbench.display.table import markdown as in_markdown
from lexbench.errors import one_line
from lexbench.report import web
from lexbench.report.change.facts import Change, picture_table, summary_table

_WIDTH, _HEIGHT = 720, 160  # of the picture, in pixels
_NARROW = 3  # columns after the first that narrow pages show
_GAP = 3  # bars that are narrower have no gaps


# ---- Markdown --------------------------------------------------------------------------------------------------------------


def markdown(changes: Sequence[Change]) -> str:
    """Return the report as GitHub's Markdown: the verdicts, the tables, and the queries that lose in an open list."""
    return "\n".join(part for change in changes for part in _parts(change))


def _parts(change: Change) -> Iterator[str]:
    yield f"## {escape(change.system)} in place of {escape(change.baseline)}?\n"
    yield f"**{escape(change.verdict)}**\n"
    yield from (f"{escape(line)}\n" for line in change.cautions)
    yield in_markdown(summary_table(change))
    picture = picture_table(change)
    wide = max(len(row[0]) for row in picture.rows)
    bars = "\n".join(f"{name:<{wide}} {count:>5} {bar}" for name, count, bar in picture.rows)
    yield f"```text\n{picture.title}\n{bars}\n```\n"
    for name, changes, opened in (("lose", change.lost, " open"), ("gain", change.gained, "")):
        if changes:
            title = f"The queries that {name} most"
            yield f"<details{opened}><summary>{title}</summary>\n\n{_queries(change, changes)}\n</details>\n"


def _queries(change: Change, changes: Sequence[QueryChange]) -> str:
    rows = tuple(
        (
            "<br>".join([f"**{escape(_title(one))}**", *(escape(_move(moved)) for moved in one.moved)]),
            number(one.baseline_value),
            number(one.value),
        )
        for one in changes
    )
    header = ("query, and relevant documents that moved", *change.heads)
    return in_markdown(Table("", header, rows), escaped=True)


def _title(change: QueryChange) -> str:
    return f"{one_line(change.text)} ({change.query})" if change.text else change.query


def _move(moved: MovedDocument) -> str:
    return f"{moved}" + (f": {moved.beginning}" if moved.beginning else "")


# ---- a page ----------------------------------------------------------------------------------------------------------------


def html(changes: Sequence[Change], comparison: Comparison) -> str:
    """Return the report as a page of its own."""
    title = f"{' or '.join(change.system for change in changes)} in place of {comparison.systems[0]}?"
    lead = "Made by <code>lexbench report</code>. Ranks are those of relevant documents; — is none among the first 100."
    head = f'<header><h1>{web.text(title)}</h1>\n<p class="lead">{lead}</p></header>'
    body = "\n".join(section(change, heading=len(changes) > 1) for change in changes)
    return web.page(title, f"{head}\n<main>\n{body}\n{_settings(comparison)}</main>")


def notebook(changes: Sequence[Change]) -> str:
    """Return the report as a part of a notebook, which has its own style."""
    colours = "<style>.bar.better{fill:#2b7bba}.bar.worse{fill:#d9822b}.axis{stroke:#56616d}.tick{font-size:12px}</style>"
    return colours + "".join(section(change, heading=len(changes) > 1) for change in changes)


def section(change: Change, *, heading: bool) -> str:
    """Return one system against the baseline as markup."""
    title = f"<h2>{web.text(f'{change.system} in place of {change.baseline}?')}</h2>" if heading else ""
    cautions = "".join(f'<p class="caution">{web.text(line)}</p>' for line in change.cautions)
    said = web.text(change.verdict).replace("p ≤ ", "p&nbsp;≤&nbsp;")
    lists = "".join(
        _query_table(f"The queries that {name} most", change, changes)
        for name, changes in (("lose", change.lost), ("gain", change.gained))
    )
    return (
        f'{title}<p class="verdict">{said}</p>{cautions}\n{_grid(summary_table(change))}\n'
        f'<figure class="changes"><figcaption>{_caption(change)}</figcaption>{picture(change)}</figure>\n'
        f'<div class="pairs">{lists}</div>\n'
    )


def _caption(change: Change) -> str:
    worse, better = (sum(value < 0 for value in change.differences), sum(value > 0 for value in change.differences))
    same = len(change.differences) - worse - better
    what = f"Change of {change.measures[0].measure} by query, sorted: {worse} get worse, {better} better, {same} stay the same"
    return web.text(what)


def _grid(table: Table) -> str:
    hidden = [' class="detail"' if at > _NARROW else "" for at in range(len(table.header))]
    head = "".join(f'<th scope="col"{mark}>{web.text(name)}</th>' for name, mark in zip(table.header, hidden, strict=True))
    rows = "".join(
        f'<tr><th scope="row">{web.text(first)}</th>'
        + "".join(f"<td{mark}>{web.text(cell)}</td>" for cell, mark in zip(cells, hidden[1:], strict=True))
        + "</tr>"
        for first, *cells in table.rows
    )
    notes = "".join(f'<p class="note">{web.text(note)}</p>' for note in table.notes)
    label = web.text(table.title or "what changes")
    inside = f"<table><caption>{label}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{inside}</div>{notes}'


def _query_table(title: str, change: Change, changes: Sequence[QueryChange]) -> str:
    if not changes:
        return ""
    rows = []
    for one in changes:
        moves = "".join(f"<li>{_moved(moved)}</li>" for moved in one.moved)
        name = (
            f'{web.text(one_line(one.text))} <code class="id">{web.text(one.query)}</code>' if one.text else web.text(one.query)
        )
        text = f"<div>{name}</div>" + (f'<ul class="moved">{moves}</ul>' if moves else "")
        values = f"<td>{number(one.baseline_value)}</td><td>{number(one.value)}</td>"
        rows.append(f'<tr><th scope="row">{text}</th>{values}</tr>')
    heads = "".join(f'<th scope="col">{web.text(name)}</th>' for name in change.heads)
    head = f'<th scope="col" class="text">query</th>{heads}'
    body = "".join(rows)
    inside = f'<table class="listed"><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{title}">{inside}</div>'


def _moved(moved: MovedDocument) -> str:
    ranks = f"{moved.baseline_rank or '—'} → {moved.rank or '—'}"
    beginning = f" <span>{web.text(moved.beginning)}</span>" if moved.beginning else ""
    return f"<code>{web.text(moved.document)}</code> <b>{ranks}</b>{beginning}"


def _settings(comparison: Comparison) -> str:
    """Return the settings that differ, folded."""
    shown = [one for one in comparison.config_diff if not one.only_some]
    if not shown:
        return ""
    header = ("setting", *comparison.systems)
    rows = tuple((one.field, *(value or "—" for value in one.values)) for one in shown)
    return f"<details><summary>What differs between the systems</summary>{_grid(Table('settings', header, rows))}</details>\n"


# ---- the picture -----------------------------------------------------------------------------------------------------------


def picture(change: Change) -> str:
    """Return the change of every query as bars, the largest loss first, as SVG of any width, with its texts below it."""
    values = change.differences
    reach = max(map(abs, values)) or 1.0
    step = _WIDTH / len(values)
    gap = step / 5 if step > _GAP else 0
    bars = "".join(
        f'<rect class="bar {"worse" if value < 0 else "better"}" x="{at * step + gap / 2:.2f}" '
        f'y="{_HEIGHT / 2 * (1 - max(value, 0) / reach):.2f}" width="{step - gap:.2f}" '
        f'height="{_HEIGHT / 2 * abs(value) / reach:.2f}"/>'
        for at, value in enumerate(values)
        if value
    )
    line = f'<line class="axis" x1="0" x2="{_WIDTH}" y1="{_HEIGHT / 2:g}" y2="{_HEIGHT / 2:g}"/>'
    label = f"{_caption(change)}, from {values[0]:+.3f} to {values[-1]:+.3f}"
    drawn = (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{label}">{bars}{line}</svg>'
    )
    sides = (f"◀ {change.heads[0]} better: {values[0]:+.3f}", f"{change.heads[1]} better: {values[-1]:+.3f} ▶")
    return drawn + '<div class="sides">' + "".join(f"<span>{web.text(side)}</span>" for side in sides) + "</div>"
