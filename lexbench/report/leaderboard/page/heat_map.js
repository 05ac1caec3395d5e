// Systems x datasets: the difference of each mean from the baseline's, as a coloured number.
const STRONGEST = 60; // per cent of the colour at the largest difference, so that the number on it stays readable

function startHeatMap() {
  const labels = [...new Set(data.suites.flatMap((suite) => suite.systems.filter((system) => system.base === undefined).map((system) => system.label)))];
  byId("differences").hidden = labels.length < 2;
  const first = labels.includes("bm25") ? "bm25" : labels[0];
  options(byId("baseline"), labels.map((label) => [label, label]), first);
  const show = () => heatMap(labels, byId("baseline").value);
  byId("baseline").addEventListener("change", show);
  show();
}

function heatMap(labels, baseline) {
  const numberOf = ({ suite }, label) => suite.systems.findIndex((system) => system.label === label);
  const mean = (place, label) => place.dataset.means[numberOf(place, label)] ?? undefined;
  const columns = places.filter((place) => mean(place, baseline) !== undefined);
  const differences = labels.map((label) => columns.map((place) => {
    const value = mean(place, label);
    return value === undefined ? undefined : value - mean(place, baseline);
  }));
  const largest = Math.max(1e-9, ...differences.flat().filter((value) => value !== undefined).map(Math.abs));
  const body = labels.map((label, line) => {
    const row = html("tr", { class: label === baseline ? "baseline" : null }, html("th", { scope: "row" }, html("div", { class: "system" }, systemName(label))));
    columns.forEach((place, index) => {
      const value = differences[line][index];
      const p = value === undefined ? undefined : pOf(place.dataset, numberOf(place, label), numberOf(place, baseline));
      const cell = html("td", { tabindex: -1, class: value > 0 ? "better" : value < 0 ? "worse" : null }, value === undefined ? MISSING : label === baseline ? fixed(mean(place, label)) : signed(value));
      if (value !== undefined) cell.style.setProperty("--share", `${((Math.abs(value) / largest) * STRONGEST).toFixed(0)}%`);
      if (p < 0.05) cell.append(html("span", { class: "dot", "aria-label": "significant" }, " •"));
      if (p !== undefined) tell(cell, `${label} on ${place.dataset.id}: ${fixed(mean(place, label))}, ${baseline} ${fixed(mean(place, baseline))}; p ${pText(place.dataset, p)}`);
      row.append(cell);
    });
    return row;
  });
  const heads = columns.map((place) => html("th", { scope: "col" }, place.dataset.id, html("br"), html("small", {}, place.dataset.headline)));
  const table = html("table", { class: "heat" },
    html("caption", {}, `Difference to ${baseline}; its own row has its means`),
    html("thead", {}, html("tr", {}, html("th", { scope: "col", class: "text" }, "system"), ...heads)), html("tbody", {}, ...body));
  roam(table);
  byId("heat-map").replaceChildren(scroller("differences to the baseline", table));
}
