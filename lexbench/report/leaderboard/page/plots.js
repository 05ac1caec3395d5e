// Scatter plots in SVG: the trade-off of effectiveness and cost, and the top-K curves. The data say which points are on the frontier.
const WIDTH = 620;
const HEIGHT = 400;
const EDGE = { left: 62, right: 16, top: 16, bottom: 50 };

function linearTicks(low, high) {
  const rough = (high - low) / 5 || 0.01;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough);
  const found = [];
  for (let tick = Math.ceil(low / step); tick * step <= high + 1e-9; tick += 1) found.push(tick * step);
  return { ticks: found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

function logTicks(low, high) {
  const found = [];
  const wide = high / low > 100;
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const times of wide ? [1] : [1, 2, 5]) {
      const tick = times * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) found.push(tick);
    }
  }
  return found;
}

// The range of points and levels; labels of levels are to the right of the plot.
function scales(dots, levels) {
  const points = [...dots, ...levels.map(({ y }) => ({ x: dots[0].x, y }))];
  const edge = WIDTH - EDGE.right - Math.max(0, ...levels.map(({ label }) => 4 + PER_CHARACTER * label.length));
  const xs = points.flatMap((point) => [point.x, ...(point.x_range ?? [])]).map((x) => Math.log10(x));
  const ys = points.flatMap((point) => [point.y, ...(point.y_range ?? [])]);
  const pad = (low, high, least) => {
    const more = Math.max((high - low) * 0.09, least);
    return [low - more, high + more];
  };
  const [left, right] = pad(Math.min(...xs), Math.max(...xs), 0.12);
  const [bottom, top] = pad(Math.min(...ys), Math.max(...ys), 0.005);
  const across = (edge - EDGE.left) / (right - left);
  const up = (HEIGHT - EDGE.top - EDGE.bottom) / (top - bottom);
  return {
    x: (value) => EDGE.left + (Math.log10(value) - left) * across,
    y: (value) => HEIGHT - EDGE.bottom - (value - bottom) * up,
    right: edge,
    xTicks: logTicks(10 ** left, 10 ** right),
    yTicks: linearTicks(bottom, top),
  };
}

function axes(scale, xLabel, yLabel) {
  const right = scale.right;
  const floor = HEIGHT - EDGE.bottom;
  const parts = [];
  for (const tick of scale.yTicks.ticks) {
    const y = scale.y(tick);
    parts.push(svg("line", { class: "grid", x1: EDGE.left, x2: right, y1: y, y2: y }));
    parts.push(svg("text", { class: "tick", x: EDGE.left - 8, y: y + 4, "text-anchor": "end" }, tick.toFixed(scale.yTicks.digits)));
  }
  for (const tick of scale.xTicks) {
    const x = scale.x(tick);
    parts.push(svg("line", { class: "grid", x1: x, x2: x, y1: EDGE.top, y2: floor }));
    parts.push(svg("text", { class: "tick", x, y: floor + 18, "text-anchor": "middle" }, tick.toLocaleString("en")));
  }
  parts.push(svg("line", { class: "axis", x1: EDGE.left, x2: right, y1: floor, y2: floor }));
  parts.push(svg("text", { class: "label", x: (EDGE.left + right) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, xLabel));
  const middle = (EDGE.top + floor) / 2;
  parts.push(svg("text", { class: "label", x: 14, y: middle, transform: `rotate(-90 14 ${middle})`, "text-anchor": "middle" }, yLabel));
  return svg("g", { "aria-hidden": "true" }, ...parts);
}

const PER_CHARACTER = 7.6; // of a label, at most
const APART = 13; // labels of levels, from one to the next

// Levels across the plot, {y, label, text}, with labels beside it; labels move down where lines are too close for them.
function levelLines(levels, scale) {
  const floor = HEIGHT - EDGE.bottom;
  let last = -Infinity;
  return [...levels].sort((a, b) => b.y - a.y).flatMap((level, index) => {
    const y = scale.y(level.y);
    last = Math.min(Math.max(y, last + APART), floor - APART * (levels.length - 1 - index));
    const line = svg("path", { class: "level", d: `M${EDGE.left} ${y.toFixed(1)}H${scale.right}l8 ${(last - y).toFixed(1)}` });
    const told = level.text && { tabindex: 0, role: "img", "aria-label": level.text };
    const label = svg("text", { class: "level-label", x: scale.right + 11, y: last + 4, ...told }, level.label);
    if (level.text) tell(label, level.text);
    return [line, label];
  });
}

// Each label goes to the first free place around its point; if there is none, a line connects it to its point.
function labelled(spots, right) {
  const taken = spots.map(({ x, y }) => [x - 7, y - 7, x + 7, y + 7]);
  const free = (box) =>
    box[0] >= EDGE.left && box[2] <= right && box[1] >= EDGE.top - 8 && box[3] <= HEIGHT - EDGE.bottom &&
    taken.every((other) => box[0] >= other[2] || box[2] <= other[0] || box[1] >= other[3] || box[3] <= other[1]);
  return spots.flatMap(({ x, y, label }) => {
    const width = PER_CHARACTER * label.length + 4;
    let best = null;
    for (const far of [9, 20, 32, 46, 62]) {
      for (const turn of [45, -45, 135, -135, 0, 90, 180, -90]) {
        const angle = (turn * Math.PI) / 180;
        const centre = [x + Math.cos(angle) * (far + width / 2), y - Math.sin(angle) * (far + 6)];
        const box = [centre[0] - width / 2, centre[1] - 7, centre[0] + width / 2, centre[1] + 7];
        if (free(box)) best = { box, centre, far };
        if (best) break;
      }
      if (best) break;
    }
    if (!best) return [];
    taken.push(best.box);
    const text = svg("text", { class: "point-label", x: best.centre[0], y: best.centre[1] + 4, "text-anchor": "middle" }, label);
    return best.far > 9 ? [svg("line", { class: "leader", x1: x, y1: y, x2: best.centre[0], y2: best.centre[1] }), text] : [text];
  });
}

// The frontier as a staircase through its points, by ascending x.
function steps(joined, scale, lowerIsBetter) {
  return joined.map((point, index) => {
    const [x, y] = [scale.x(point.x).toFixed(1), scale.y(point.y).toFixed(1)];
    if (!index) return `M${x} ${y}`;
    return lowerIsBetter ? `H${x}V${y}` : `V${y}H${x}`;
  }).join("");
}
const straight = (joined, scale) => joined.map((point, index) => `${index ? "L" : "M"}${scale.x(point.x).toFixed(1)} ${scale.y(point.y).toFixed(1)}`).join("");

// The bars of a point: the 95 % interval of its mean, and the rates of its slowest and fastest process.
function whiskers(point, scale) {
  const line = (x1, x2, y1, y2) => svg("line", { class: `whisker ${point.kind}`, x1, x2, y1, y2 });
  const [x, y] = [scale.x(point.x), scale.y(point.y)];
  return [
    point.x_range && line(scale.x(point.x_range[0]), scale.x(point.x_range[1]), y, y),
    point.y_range && line(x, x, scale.y(point.y_range[0]), scale.y(point.y_range[1])),
  ].filter(Boolean);
}

// points: {x, y, label, name, kind}; joined: the points of a line in order, drawn by path; levels: see levelLines.
function scatter({ title, points, joined, path, xLabel, yLabel, levels = [] }) {
  const scale = scales(points, levels);
  const line = path(joined, scale);
  const spots = points.map((point) => ({ x: scale.x(point.x), y: scale.y(point.y), label: point.label }));
  const dots = points.map((point, index) => {
    const within = point.y_range ? ` (${fixed(point.y_range[0])} – ${fixed(point.y_range[1])})` : "";
    const text = `${point.name}: ${yLabel} ${fixed(point.y)}${within}, ${xLabel} ${significant(point.x)}${point.remark ? `; ${point.remark}` : ""}`;
    const dot = svg("circle", { class: `point ${point.kind}`, cx: spots[index].x, cy: spots[index].y, r: 5, tabindex: 0, role: "img", "aria-label": text });
    tell(dot, text);
    return dot;
  });
  const order = points.map((_, index) => index).sort((a, b) => (points[a].kind === "frontier") - (points[b].kind === "frontier"));
  return html("figure", {},
    html("figcaption", {}, title),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": title },
      axes(scale, xLabel, yLabel), ...levelLines(levels, scale),
      line && svg("path", { class: "frontier-line", d: line }),
      ...points.flatMap((point) => whiskers(point, scale)),
      ...labelled(spots, scale.right), ...order.map((index) => dots[index])));
}

// The published systems of a plot as levels: their cost was not measured here.
const anchorsOf = (plot) => (byId("anchors").checked ? plot.anchors ?? [] : []);
const published = (system) => (system.source ? html("small", {}, `${system.family}, published (${system.source})`) : null);
function anchorLevels({ suite, dataset }, plot) {
  return anchorsOf(plot).map((number) => {
    const [system, cell] = [suite.systems[number], dataset.cells[number]];
    const score = cell.means[dataset.headline];
    return { y: score, label: String(number + 1), text: `${system.label}, ${system.family}: ${dataset.headline} ${fixed(score)}, published (${system.source}), not measured here` };
  });
}

function tradeOff({ suite, dataset }) {
  const figures = dataset.plots.map((plot) => {
    const points = plot.points.map((point) => ({
      ...point,
      label: String(point.system + 1),
      name: suite.systems[point.system].label,
      kind: point.frontier ? "frontier" : point.aside ? "aside" : point.open ? "open" : "dominated",
      remark: point.frontier ? "on the frontier" : point.aside || (point.open ? "beaten only by systems without a significant difference" : "dominated"),
    }));
    const joined = points.filter((point) => point.frontier).sort((a, b) => a.x - b.x);
    return scatter({ title: plot.title, points, joined, path: (line, scale) => steps(line, scale, plot.lower_is_better), xLabel: plot.x, yLabel: plot.y, levels: anchorLevels({ suite, dataset }, plot) });
  });
  const shown = dataset.plots.flatMap((plot) => [...plot.points.map((point) => point.system), ...anchorsOf(plot)]);
  const inPlots = [...new Set(shown)].sort((a, b) => a - b);
  const ahead = new Set(dataset.plots.flatMap((plot) => plot.points.filter((point) => point.frontier).map((point) => point.system)));
  const legend = inPlots.map((number) =>
    html("li", { class: ahead.has(number) ? "ahead" : null }, html("span", { class: "number" }, String(number + 1)), systemName(suite.systems[number].label), published(suite.systems[number])));
  const untimed = dataset.timed ? null : html("p", { class: "note" }, "No system was timed on this dataset; type: lexbench run … --time");
  byId("trade-off-plots").replaceChildren(
    html("div", { class: "plots" }, ...figures), html("ol", { class: "legend", "aria-label": "Systems of the plots" }, ...legend), untimed ?? "");
}

function startPlots() {
  const there = chooseDataset(byId("trade-off-dataset"), ({ dataset }) => dataset.plots?.length, tradeOff);
  byId("trade-off").hidden = !there;
  byId("anchors").addEventListener("change", () => byId("trade-off-dataset").dispatchEvent(new Event("change")));
  const curves = places.flatMap((place) => place.dataset.curves.map((curve) => ({ ...place, curve })));
  byId("top-k").hidden = !curves.length;
  byId("top-k-plots").replaceChildren(...curves.map(({ suite, dataset, curve }) => {
    const points = curve.points.map((point) => ({ ...point, label: point.k ? `K=${point.k}` : "all", name: suite.systems[point.system].label, kind: "frontier" }));
    const levels = curve.baseline === undefined ? [] : [{ y: curve.baseline, label: "bm25" }];
    return scatter({ title: `${curve.name} on ${dataset.id}`, points, joined: points, path: straight, xLabel: "bytes per document (log)", yLabel: dataset.headline, levels });
  }));
}
