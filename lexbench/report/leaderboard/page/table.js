// The tables, one per suite, over all its datasets or for one; a click on a heading sorts, the controls filter.
const ALL = "all";
const redraw = [];
const EXPOSURE = { "zero-shot": "", unknown: " ?", "corpus seen": " ‡", "in-domain": " ‡‡" };

// RR(rel=2)@10 as RR@10 with rel=2 below it, to keep columns narrow.
function measureHead(measure) {
  const [, name, settings, cutoff] = /^([^(]+)\((.*)\)(.*)$/.exec(measure) ?? [null, measure, "", ""];
  return [name + cutoff, settings && html("small", {}, ` ${settings}`)];
}

function scoreColumn(name, cellOf, measure) {
  return {
    name, head: name === measure ? measureHead(measure) : [name],
    value: (row) => cellOf(row)?.means[measure],
    write(td, row) {
      const cell = cellOf(row);
      const value = cell?.means[measure];
      const text = fixed(value);
      const mark = cell?.marks?.[measure];
      const shown = mark === 1 ? html("strong", {}, text) : mark === 2 ? html("u", {}, text) : text;
      td.append(shown);
      const deviation = cell?.deviations?.[measure];
      if (deviation !== undefined) td.append(html("small", {}, ` ±${fixed(deviation)}`));
      if (value !== undefined && measure === cell.headline) td.append(EXPOSURE[cell.exposure ?? "unknown"]);
      if (cell?.letters && measure === cell.headline) td.append(html("sup", {}, cell.letters));
      const interval = measure === cell?.headline && cell?.interval;
      if (interval) td.append(html("small", { class: "interval" }, `${fixed(interval[0])} – ${fixed(interval[1])}`));
      if (value !== undefined) tell(td, told(row, cell, measure, name, interval));
    },
  };
}

function told(row, cell, measure, name, interval) {
  const seen = [`seen in training: ${cell.exposure ?? "unknown"}`, ...(cell.because ?? [])];
  if (row.system.source) return [`${name}: published by ${row.system.source}, not ours (${cell.where})`, ...seen].join("\n");
  const lines = [`${measure} of ${row.system.label} on ${cell.dataset}`, ...seen];
  if (interval) lines.push(`95 % interval ${fixed(interval[0])} – ${fixed(interval[1])} (bootstrap over queries)`);
  if (cell.better && measure === cell.headline) lines.push(`significantly better than ${cell.better} of ${cell.others} others`);
  const deviation = cell.deviations?.[measure];
  if (deviation !== undefined) lines.push(`mean of ${row.system.seeds.length} seeds, ±${fixed(deviation)} (standard deviation of their means): ${row.system.seeds.join(", ")}`);
  if (row.system.bound) lines.push("an upper bound, tuned on these queries: not ranked");
  return lines.join("\n");
}

function plainColumn(name, value, write, note) {
  return { name, head: name, value, write: (td, row) => td.append(write(value(row))), note };
}

function rate(speed) {
  const range = speed.range ? `, ${significant(speed.range[0])} to ${significant(speed.range[1])} over fresh processes` : "";
  return `${significant(speed.qps)} ${speed.name}${range}`;
}

function costColumns(cellOf, timed) {
  const speed = (part) => (row) => cellOf(row)?.speed?.[part];
  const milliseconds = (value) => (value === undefined || value === null ? MISSING : significant(value * 1000));
  const aside = (row) => (cellOf(row)?.speed?.unranked ? " ~" : "");
  return [
    ...(timed
      ? [
          { name: "QPS", head: "QPS", value: speed("qps"), write: (td, row) => {
            td.append(significant(speed("qps")(row)) + aside(row));
            const found = cellOf(row)?.speed;
            if (found) tell(td, [...[found, ...(cellOf(row).speeds ?? [])].map(rate), found.machine, ...(found.flags ?? [])].join("\n"));
          } },
          plainColumn("p50 ms", speed("p50"), milliseconds),
          plainColumn("p99 ms", speed("p99"), milliseconds),
        ]
      : []),
    plainColumn("index MB", (row) => cellOf(row)?.index, (bytes) => (bytes === undefined ? MISSING : fixed(bytes / 1e6, 1))),
    plainColumn("bytes/doc", (row) => cellOf(row)?.bytes_per_document, (bytes) => (bytes === undefined ? MISSING : bytes.toLocaleString("en", { maximumFractionDigits: 0 }))),
    plainColumn("model MB", (row) => cellOf(row)?.model, (bytes) => (bytes === undefined ? MISSING : fixed(bytes / 1e6, 1))),
    plainColumn("built s", (row) => cellOf(row)?.built, (seconds) => (seconds === undefined ? MISSING : fixed(seconds, 1))),
  ];
}

function columnsOf(suite, view) {
  if (view === ALL) {
    return [
      ...suite.datasets.map((dataset, index) => scoreColumn(dataset.id, (row) => row.cells[index], suite.headline)),
      ...suite.aggregates.map((name, index) => ({
        name, head: name,
        value: (row) => row.system.means[index]?.value,
        write(td, row) {
          const mean = row.system.means[index];
          td.append(mean.mark === 1 ? html("strong", {}, mean.text) : mean.mark === 2 ? html("u", {}, mean.text) : mean.text);
          if (mean.interval) tell(td, `95 % interval ${fixed(mean.interval[0])} – ${fixed(mean.interval[1])} (stratified bootstrap)`);
          if (mean.value === undefined) tell(td, `members that are there: ${mean.text}; a mean needs all of them`);
        },
      })),
      ...costColumns((row) => row.system, false),
    ];
  }
  const index = Number(view);
  const dataset = suite.datasets[index];
  const cellOf = (row) => row.cells[index];
  return [
    ...dataset.measures.map((measure) => scoreColumn(measure, cellOf, measure)),
    ...costColumns(cellOf, dataset.timed),
  ];
}

function rowsOf(suite) {
  return suite.systems.map((system, number) => ({ system, number, cells: suite.datasets.map((dataset) => dataset.cells[number] ?? undefined) }));
}

function wanted(row, view) {
  const found = byId("find").value.trim().toLowerCase();
  const family = byId("family").value;
  const { system } = row;
  if (view !== ALL && !row.cells[Number(view)]) return false;
  if (system.source && !byId("published").checked) return false;
  return (!family || system.family === family) && `${system.label} ${system.notation ?? ""} ${system.source ?? ""} ${system.who ?? ""}`.toLowerCase().includes(found);
}

function systemHead(row) {
  const { system } = row;
  const people = system.who?.length && `by ${system.who.join(", ")}`;
  const tags = [system.bound && "upper bound, not ranked", system.source && `published: ${system.source}`, people].filter(Boolean);
  const badge = html("span", { class: "number" }, system.source ? "†" : String(row.number + 1));
  const tagged = tags.map((tag) => html("span", { class: "tag" }, tag));
  const name = system.notation ? html("details", { class: "named" }, html("summary", {}, system.label), systemName(system.notation)) : systemName(system.label);
  return html("th", { scope: "row" }, html("div", { class: "system" }, badge, html("span", {}, name, ...tagged)));
}

function sorted(rows, column, direction) {
  if (!column) return rows;
  return [...rows].sort((a, b) => {
    const [one, other] = [column.value(a), column.value(b)];
    const [none, neither] = [one === undefined || one === null, other === undefined || other === null];
    if (none || neither) return none - neither; // what is missing comes last, whichever way
    return direction * (typeof one === "string" ? one.localeCompare(other, "en") : one - other);
  });
}

function legend(suite, view) {
  const shown = view === ALL ? suite.datasets : [suite.datasets[Number(view)]];
  const lines = ["Best in bold, second underlined. ‡‡ trained on queries of the dataset, ‡ trained on its documents, ? unknown training data; all others are zero-shot."];
  if (shown.some((dataset) => dataset.cells.some((cell) => cell?.letters)))
    lines.push(`Systems that share a letter have no significant difference in ${suite.headline} (paired randomisation test, Holm-corrected over all pairs of a dataset, p < 0.05).`);
  const found = shown.filter((dataset) => dataset.detectable !== undefined).map((dataset) => `${fixed(dataset.detectable, 3)} on ${dataset.id}`);
  if (found.length) lines.push(`The tests have 80 % power for differences of ${found.join(", ")}.`);
  if (suite.systems.some((system) => system.source)) lines.push("† published scores: not measured here, not ranked, not tested.");
  const speeds = view === ALL ? [] : shown[0].cells.filter((cell) => cell?.speed).map((cell) => `${cell.speed.name} on ${cell.speed.machine} (${cell.speed.fingerprint})`);
  if (speeds.length) lines.push(`QPS: ${[...new Set(speeds)].join("; ")}. ~ marks timings that are not ranked: noisy, or with workers.`);
  lines.push(view === ALL && suite.datasets.length > 1 ? "Index: sum over the datasets shown." : "");
  return lines.join(" ");
}

function suiteTable(suite) {
  const rows = rowsOf(suite);
  const place = html("div", {});
  const note = html("p", { class: "note" });
  const several = suite.datasets.length > 1 || suite.aggregates.length > 0;
  let view = several ? ALL : "0";
  let sort = { name: null, direction: -1 };
  let shownRows = [];

  function heading(column) {
    const now = sort.name === column.name;
    const first = column.text ? 1 : -1;
    const [name, below] = [].concat(column.head);
    const button = html("button", { type: "button" }, name, html("span", { class: "arrow", "aria-hidden": "true" }), below || null);
    button.addEventListener("click", () => {
      sort = { name: column.name, direction: now ? -sort.direction : first };
      draw();
      place.querySelector("th[aria-sort] button")?.focus();
    });
    const order = now ? (sort.direction > 0 ? "ascending" : "descending") : undefined;
    return html("th", { scope: "col", "aria-sort": order, class: column.text && `text ${column.text === true ? "" : column.text}`.trim() }, button);
  }

  function draw() {
    const columns = [
      { name: "system", head: "system", text: true, value: (row) => row.system.label, write: null },
      { name: "family", head: "family", text: "family", value: (row) => row.system.family, write: (td, row) => td.append(row.system.family) },
      ...columnsOf(suite, view),
    ];
    const shown = sorted(rows.filter((row) => wanted(row, view)), columns.find((column) => column.name === sort.name), sort.direction);
    shownRows = shown;
    const body = shown.map((row) => {
      const line = html("tr", { class: [row.system.source && "published", row.system.bound && "bound"].filter(Boolean).join(" ") || null });
      line.append(systemHead(row));
      for (const column of columns.slice(1)) {
        const td = html("td", { tabindex: -1, class: column.text && `text ${column.text}` });
        column.write(td, row);
        line.append(td);
      }
      return line;
    });
    const none = html("tr", {}, html("td", { colspan: columns.length, class: "text" }, "no system matches the filter"));
    const caption = html("caption", {}, `${suite.name}: ${view === ALL ? `${suite.headline} on each dataset` : suite.datasets[Number(view)].id}`);
    const table = html("table", { class: "scores" }, caption, html("thead", {}, html("tr", {}, ...columns.map(heading))), html("tbody", {}, ...(body.length ? body : [none])));
    roam(table);
    place.replaceChildren(scroller(`table of ${suite.name}`, table));
    note.textContent = legend(suite, view);
    return shown.length;
  }

  const views = [[ALL, `${suite.headline} on every dataset`], ...suite.datasets.map((dataset, index) => [String(index), dataset.id])];
  const select = html("select", { id: `view-${suite.id}` });
  options(select, views, view);
  select.addEventListener("change", () => {
    view = select.value;
    sort = { name: null, direction: -1 };
    draw();
  });
  const chooser = several ? html("div", { class: "controls" }, html("label", {}, "Show ", select)) : null;
  sorts.set(suite.id, {
    get: () => (sort.name === null ? "" : `${sort.direction > 0 ? "+" : "-"}${sort.name}`),
    set(value) {
      sort = value ? { name: value.slice(1), direction: value[0] === "+" ? 1 : -1 } : { name: null, direction: -1 };
      draw();
    },
  });
  redraw.push(draw);
  const copies = copier(() => viewOf(suite, view, shownRows));
  return html("article", { class: "suite", id: `suite-${suite.id}` }, html("h3", {}, suite.name), html("p", {}, suite.description), chooser, place, copies, note);
}

// A table is one stop for the Tab key; the arrow keys move between cells.
function roam(table) {
  const cellAt = (line, column) => table.tBodies[0].rows[line]?.cells[column];
  const start = cellAt(0, 1);
  if (start) start.tabIndex = 0;
  table.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const from = event.target.closest("td");
    if (!step || !from) return;
    const to = cellAt(from.parentNode.sectionRowIndex + step[0], from.cellIndex + step[1]);
    event.preventDefault();
    if (to?.tagName !== "TD") return;
    from.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  });
}

function startTables() {
  const families = [...new Set(data.suites.flatMap((suite) => suite.systems.map((system) => system.family)))].sort();
  options(byId("family"), [["", "all"], ...families.map((family) => [family, family])]);
  byId("suites").replaceChildren(...data.suites.map(suiteTable));
  const all = () => {
    const shown = redraw.map((draw) => draw()).reduce((sum, count) => sum + count, 0);
    const there = data.suites.reduce((sum, suite) => sum + suite.systems.length, 0);
    byId("shown").textContent = shown === there ? "" : `${shown} of ${there} rows`;
  };
  byId("controls").addEventListener("input", all);
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("intervals").addEventListener("change", () => document.body.classList.toggle("with-intervals", byId("intervals").checked));
  all();
}
