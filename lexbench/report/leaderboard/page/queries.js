// Two systems on one dataset by query: how often each wins, by how much, and the largest differences.
const BINS = 20; // from -1 to 1; differences of 0 are counted apart
const MOST = 10; // queries listed each way

function startQueries() {
  const comparable = ({ dataset }) => dataset.compared.length > 1;
  const there = chooseDataset(byId("pair-dataset"), comparable, (place) => {
    const choices = place.dataset.compared.map((number) => [String(number), place.suite.systems[number].label]);
    const baseline = place.dataset.compared.find((number) => place.suite.systems[number].label === "bm25");
    const first = place.dataset.compared[0];
    const second = baseline !== undefined && baseline !== first ? baseline : place.dataset.compared[1];
    options(byId("pair-a"), choices, String(first));
    options(byId("pair-b"), choices, String(second));
    pair();
  });
  byId("queries").hidden = !there;
  for (const id of ["pair-a", "pair-b"]) byId(id).addEventListener("change", pair);
}

function pair() {
  const place = places[Number(byId("pair-dataset").value)];
  const { suite, dataset } = place;
  const [a, b] = [Number(byId("pair-a").value), Number(byId("pair-b").value)];
  const scoresOf = (number) => dataset.scores[dataset.compared.indexOf(number)];
  const differences = scoresOf(a).map((score, index) => (score - scoresOf(b)[index]) / data.scale);
  const wins = differences.filter((value) => value > 0).length;
  const losses = differences.filter((value) => value < 0).length;
  const mean = dataset.means[a] - dataset.means[b];
  const p = pOf(dataset, a, b);
  const range = rangeOf(dataset, a, b);
  const facts = [
    ["A", suite.systems[a].label], ["B", suite.systems[b].label],
    [`${dataset.headline}, A − B`, `${fixed(dataset.means[a])} − ${fixed(dataset.means[b])} = ${signed(mean)}`],
    ["95 % interval", range ? `${signed(range[0])} to ${signed(range[1])}` : MISSING],
    ["p, corrected", pText(dataset, p).replace("= ", "")],
    ["A wins · tie · B wins", `${wins} · ${differences.length - wins - losses} · ${losses}`],
  ];
  const order = differences.map((_, index) => index).sort((one, other) => differences[one] - differences[other] || one - other);
  const best = order.filter((index) => differences[index] > 0).slice(-MOST).reverse();
  const worst = order.filter((index) => differences[index] < 0).slice(0, MOST);
  byId("pair-shown").replaceChildren(
    html("dl", { class: "facts" }, ...facts.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value)))),
    histogram(differences, dataset.headline),
    html("div", { class: "pairs" }, listing("Where A does best", best, differences, dataset, a, b), listing("Where B does best", worst, differences, dataset, a, b)));
}

function listing(title, found, differences, dataset, a, b) {
  const score = (number, index) => fixed(dataset.scores[dataset.compared.indexOf(number)][index] / data.scale);
  const rows = found.map((index) => html("tr", {},
    html("th", { scope: "row" }, html("code", {}, dataset.queries[index]), dataset.texts ? html("div", { class: "query" }, dataset.texts[index]) : null),
    html("td", {}, score(a, index)), html("td", {}, score(b, index)), html("td", {}, signed(differences[index]))));
  const none = html("tr", {}, html("td", { colspan: 4, class: "text" }, "no query"));
  const head = html("tr", {}, html("th", { scope: "col", class: "text" }, "query"), ...["A", "B", "A − B"].map((name) => html("th", { scope: "col" }, name)));
  return scroller(title, html("table", {}, html("caption", {}, title), html("thead", {}, head), html("tbody", {}, ...(rows.length ? rows : [none]))));
}

function histogram(differences, measure) {
  const counts = new Array(BINS).fill(0);
  for (const value of differences) {
    if (value !== 0) counts[Math.max(0, Math.min(BINS - 1, Math.floor(((value + 1) / 2) * BINS - (value > 0 && value >= 1 ? 1e-9 : 0))))] += 1;
  }
  const [width, height, floor, top] = [620, 200, 164, 20];
  const most = Math.max(1, ...counts);
  const step = (width - 40) / BINS;
  const bars = counts.flatMap((count, bin) => {
    if (!count) return [];
    const [low, high] = [(bin / BINS) * 2 - 1, ((bin + 1) / BINS) * 2 - 1];
    const tall = (count / most) * (floor - top);
    const x = 20 + bin * step;
    const text = `${count} queries with a difference of ${low.toFixed(1)} to ${high.toFixed(1)}`;
    const bar = svg("rect", { class: bin < BINS / 2 ? "bar worse" : "bar better", x: x + 1, y: floor - tall, width: step - 2, height: tall, tabindex: 0, role: "img", "aria-label": text });
    tell(bar, text);
    return [bar, svg("text", { class: "tick", x: x + step / 2, y: floor - tall - 4, "text-anchor": "middle", "aria-hidden": "true" }, String(count))];
  });
  const ticks = [-1, -0.5, 0, 0.5, 1].map((tick) => svg("text", { class: "tick", x: 20 + ((tick + 1) / 2) * (width - 40), y: floor + 16, "text-anchor": "middle" }, tick === 0 ? "0" : signed(tick, 1)));
  const title = `Differences of ${measure}, A − B, without the ties`;
  return html("figure", { class: "histogram" }, html("figcaption", {}, title),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": title }, ...bars,
      svg("line", { class: "axis", x1: 20, x2: width - 20, y1: floor, y2: floor }), ...ticks,
      svg("text", { class: "label", x: 20, y: height - 4 }, "◀ B better"), svg("text", { class: "label", x: width - 20, y: height - 4, "text-anchor": "end" }, "A better ▶")));
}
