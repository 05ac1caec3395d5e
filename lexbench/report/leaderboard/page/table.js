// The tables: per suite the main table or all measures on one dataset, then top-K variants and published scores.
const MAIN = "main";
const redraw = [];
const textOf = (value) => value.text ?? MISSING;

// 1 for the best, 2 for the second of a column, among the ranked rows that are shown. Equal texts have equal marks.
function marksOf(grid, rows) {
  const ranked = rows.filter((row) => row.ranked ?? true);
  const places = grid.columns.map((column, at) => {
    const known = new Map(ranked.map((row) => row.values[at]).filter((one) => one.value !== undefined).map((one) => [one.text, one.value]));
    return column.ranked && ranked.length > 1 ? [...known].sort((a, b) => b[1] - a[1]).slice(0, 2).map(([text]) => text) : [];
  });
  return rows.map((row) => row.values.map((one, at) => ((row.ranked ?? true) ? places[at].indexOf(one.text) + 1 : 0)));
}

function sorted(rows, at, direction) {
  if (at === null) return rows;
  const keyOf = (row) => (at < 0 ? row.name : row.values[at].value);
  return [...rows].sort((a, b) => {
    const [one, other] = [keyOf(a), keyOf(b)];
    if (one === undefined || other === undefined) return (one === undefined) - (other === undefined); // missing values come last
    return direction * (typeof one === "string" ? one.localeCompare(other, "en") : one - other);
  });
}

function headOf(column) {
  return [column.name, ...(column.about ? [html("small", {}, ` ${column.about.replaceAll("\n", ", ")}`)] : [])];
}

// One table of a grid. `name` makes the cell of a row's name; `sort` is {at, direction} with a function `set`, or undefined.
function gridTable(grid, rows, { caption, name, sort, empty = "no system" }) {
  const marks = marksOf(grid, rows);
  const heading = (label, at) => {
    if (!sort) return html("th", { scope: "col", class: at < 0 && "text" }, ...label);
    const now = sort.at === at;
    const button = html("button", { type: "button" }, ...label, html("span", { class: "arrow", "aria-hidden": "true" }));
    button.addEventListener("click", () => sort.set(at, now ? -sort.direction : at < 0 || grid.columns[at].name === "rank" ? 1 : -1));
    return html("th", { scope: "col", class: at < 0 && "text", "aria-sort": now && (sort.direction > 0 ? "ascending" : "descending") }, button);
  };
  const body = rows.map((row, line) => html("tr", { class: row.published ? "published" : row.ranked === false ? "unranked" : row.variant ? "variant" : null }, name(row),
    ...row.values.map((one, at) => {
      const text = textOf(one);
      const mark = marks[line][at];
      const cell = html("td", { tabindex: -1 }, mark === 1 ? html("strong", {}, text) : mark === 2 ? html("u", {}, text) : text);
      if (one.note) tell(cell, one.note);
      return cell;
    })));
  const none = html("tr", {}, html("td", { colspan: grid.columns.length + 1, class: "text" }, empty));
  const table = html("table", { class: "scores" }, html("caption", {}, caption),
    html("thead", {}, html("tr", {}, heading(["system"], -1), ...grid.columns.map((column, at) => heading(headOf(column), at)))),
    html("tbody", {}, ...(body.length ? body : [none])));
  roam(table);
  return fitted(grid, table, caption);
}

// A table that hides its least important columns where it would be cut off; a button shows all of them.
function fitted(grid, table, label) {
  const place = scroller(label, table);
  const all = html("button", { type: "button", hidden: true, class: "more" });
  let whole = false;
  const show = (hidden) => {
    for (const line of table.rows) [...line.cells].forEach((cell, at) => (cell.hidden = hidden.has(at - 1)));
  };
  const fit = () => {
    const hidden = new Set();
    show(hidden);
    if (!whole) {
      const order = grid.columns.map((_, at) => at).sort((a, b) => (grid.columns[a].keep ?? 0) - (grid.columns[b].keep ?? 0));
      while (place.clientWidth && table.offsetWidth > place.clientWidth + 1 && order.length > 1) show(hidden.add(order.shift()));
    }
    all.hidden = !hidden.size && !whole;
    all.textContent = whole ? "hide columns that do not fit" : `show ${hidden.size} more columns`;
  };
  all.addEventListener("click", () => { whole = !whole; fit(); });
  new ResizeObserver(fit).observe(place);
  return html("div", {}, place, all);
}

function nameOf(row, unfold) {
  const { system } = row;
  const people = system?.who?.length && `by ${system.who.join(", ")}`;
  const tags = [system?.aside && `${system.aside}, not ranked`, row.published && "not measured here", people].filter(Boolean);
  const name = system?.notation ? html("details", { class: "named" }, html("summary", {}, row.name), systemName(system.notation)) : systemName(row.name);
  return html("th", { scope: "row" }, html("div", { class: "system" }, html("span", {}, name, ...tags.map((tag) => html("span", { class: "tag" }, tag)), unfold ?? null)));
}

function suiteTable(suite) {
  const place = html("div", {});
  const open = new Set(); // bases whose variants are shown
  let view = MAIN;
  let sort = { column: null, direction: -1 };
  let shown = { grid: suite.summary, rows: [] };

  const gridOf = () => (view === MAIN ? suite.summary : suite.datasets[Number(view)].details);
  const published = () => byId("published").checked && suite.published;
  const wanted = ({ name, system }) => {
    const found = byId("find").value.trim().toLowerCase();
    const family = byId("family").value;
    return (!family || system.family === family) && `${name} ${system.notation ?? ""} ${system.who ?? ""}`.toLowerCase().includes(found);
  };

  // Main rows in order, each followed by its variants if they are unfolded. A search also finds folded variants.
  function rowsOf(grid, at) {
    const all = grid.rows.map((row) => ({ ...row, number: row.system ?? 0, system: suite.systems[row.system ?? 0] })).filter(wanted);
    const there = new Set(all.map((row) => row.number));
    const isMain = (row) => row.system.base === undefined || !there.has(row.system.base);
    return sorted(all.filter(isMain), at, sort.direction).flatMap((row) => {
      const variants = all.filter((one) => one.system.base === row.number);
      return [{ ...row, variants: variants.length }, ...(open.has(row.number) ? sorted(variants, at, sort.direction).map((one) => ({ ...one, variant: true })) : [])];
    });
  }

  function unfold(row) {
    if (!row.variants) return null;
    const now = open.has(row.number);
    const button = html("button", { type: "button", class: "fold", "aria-expanded": String(now) }, now ? "− variants" : `+ ${row.variants} variants`);
    button.addEventListener("click", () => { now ? open.delete(row.number) : open.add(row.number); draw(); });
    return button;
  }

  function draw() {
    const grid = gridOf();
    const names = ["system", ...grid.columns.map((column) => column.name)];
    const at = sort.column === null ? null : names.indexOf(sort.column) - 1;
    const rows = rowsOf(grid, at);
    shown = { grid, rows };
    const set = (column, direction) => {
      sort = { column: names[column + 1], direction };
      draw();
      place.querySelector("th[aria-sort] button")?.focus();
    };
    const main = gridTable(grid, rows, { caption: `${suite.name}: ${grid.title}`, name: (row) => nameOf(row, unfold(row)), sort: { at, direction: sort.direction, set }, empty: "no system matches the filter" });
    const others = published();
    place.replaceChildren(main, ...(others ? [gridTable(others, others.rows, { caption: "Published by others: not measured here, not ranked, not tested", name: (row) => nameOf(row) })] : []));
    return rows.length;
  }

  const views = [[MAIN, "main table"], ...suite.datasets.map((dataset, index) => [String(index), `all measures on ${dataset.id}`])];
  const select = html("select", { id: `view-${suite.id}` });
  options(select, views, view);
  select.addEventListener("change", () => {
    view = select.value;
    sort = { column: null, direction: -1 };
    draw();
  });
  sorts.set(suite.id, {
    get: () => (sort.column === null ? "" : `${sort.direction > 0 ? "+" : "-"}${sort.column}`),
    set(value) {
      sort = value ? { column: value.slice(1), direction: value[0] === "+" ? 1 : -1 } : { column: null, direction: -1 };
      draw();
    },
  });
  redraw.push(draw);
  const copies = copier(() => viewOf(suite, shown.grid, [...shown.rows, ...(view === MAIN && published() ? published().rows : [])]));
  const notes = [...(suite.summary.notes ?? []), ...suite.notes];
  const topK = suite.top_k && gridTable(suite.top_k, suite.top_k.rows, { caption: [suite.top_k.title, ...suite.top_k.notes].join("; "), name: (row) => nameOf(row) });
  return html("article", { class: "suite", id: `suite-${suite.id}` }, html("h3", {}, suite.name), html("p", {}, suite.description),
    html("div", { class: "controls" }, html("label", {}, "Show ", select)), place, copies,
    html("ul", { class: "note" }, ...notes.map((note) => html("li", {}, note))), topK);
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
  byId("published").parentNode.hidden = !data.suites.some((suite) => suite.published);
  byId("suites").replaceChildren(...data.suites.map(suiteTable));
  const all = () => {
    const counts = redraw.map((draw) => draw());
    const filtered = byId("find").value || byId("family").value;
    byId("shown").textContent = filtered ? `${counts.reduce((sum, count) => sum + count, 0)} rows` : "";
  };
  byId("controls").addEventListener("input", all);
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  all();
}
