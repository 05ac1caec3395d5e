// Scatter plots in SVG: the trade-off of effectiveness and cost. The data say which points are on the frontier.
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
  const line = (x1, x2, y1, y2) => svg("line", { class: `whisker ${colourOf(point.family)}`, x1, x2, y1, y2 });
  const [x, y] = [scale.x(point.x), scale.y(point.y)];
  return [
    point.x_range && line(scale.x(point.x_range[0]), scale.x(point.x_range[1]), y, y),
    point.y_range && line(x, x, scale.y(point.y_range[0]), scale.y(point.y_range[1])),
  ].filter(Boolean);
}

// The shape of a family, 11 pixels wide.
const SHAPES = {
  circle: (x, y) => svg("circle", { cx: x, cy: y, r: 5 }),
  square: (x, y) => svg("rect", { x: x - 4.6, y: y - 4.6, width: 9.2, height: 9.2 }),
  diamond: (x, y) => svg("path", { d: `M${x} ${y - 6.4}L${x + 6.4} ${y}L${x} ${y + 6.4}L${x - 6.4} ${y}Z` }),
  triangle: (x, y) => svg("path", { d: `M${x} ${y - 6}L${x + 6} ${y + 5}L${x - 6} ${y + 5}Z` }),
  wedge: (x, y) => svg("path", { d: `M${x} ${y + 6}L${x + 6} ${y - 5}L${x - 6} ${y - 5}Z` }),
  cross: (x, y) => svg("path", { d: `M${x - 5} ${y - 2}h3v-3h4v3h3v4h-3v3h-4v-3h-3z` }),
};
const FAMILIES = [...new Set(data.suites.flatMap((suite) => suite.systems.map((system) => system.family)))].sort();
const shapeOf = (family) => Object.values(SHAPES)[FAMILIES.indexOf(family) % Object.keys(SHAPES).length];
const colourOf = (family) => `family-${FAMILIES.indexOf(family) % 6}`;
const SHORT = 30; // characters of a label
const shortened = (text) => (text.length > SHORT ? `${text.slice(0, SHORT - 1)}…` : text);

// points: {x, y, label, name, family, frontier, aside, line}; points of one line are joined; levels: see levelLines.
function scatter({ title, points, lowerIsBetter, xLabel, yLabel, levels }) {
  const scale = scales(points, levels);
  const joined = points.filter((point) => point.frontier).sort((a, b) => a.x - b.x);
  const lines = [...new Set(points.map((point) => point.line))].map((line) => points.filter((point) => point.line === line).sort((a, b) => a.x - b.x)).filter((line) => line.length > 1);
  const order = [...points].sort((a, b) => Boolean(a.frontier) - Boolean(b.frontier));
  const named = [...order].reverse().sort((a, b) => Boolean(a.minor) - Boolean(b.minor));
  const dots = order.map((point) => {
    const within = point.y_range ? ` (${fixed(point.y_range[0])} – ${fixed(point.y_range[1])})` : "";
    const text = `${point.name}: ${yLabel} ${fixed(point.y)}${within}, ${xLabel} ${significant(point.x)}; ${point.family}${point.frontier ? "; on the frontier" : point.aside ? `; ${point.aside}` : ""}`;
    const kind = point.aside ? "aside" : point.frontier ? "frontier" : "dominated";
    const dot = svg("g", { class: `point ${kind} ${colourOf(point.family)}`, tabindex: 0, role: "img", "aria-label": text }, shapeOf(point.family)(scale.x(point.x), scale.y(point.y)));
    tell(dot, text);
    return dot;
  });
  return html("figure", {},
    html("figcaption", {}, title),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": title },
      axes(scale, xLabel, yLabel), ...levelLines(levels, scale),
      joined.length > 1 ? svg("path", { class: "frontier-line", d: steps(joined, scale, lowerIsBetter) }) : null,
      ...lines.map((line) => svg("path", { class: `family-line ${colourOf(line[0].family)}`, d: straight(line, scale) })),
      ...points.flatMap((point) => whiskers(point, scale)),
      ...labelled(named.map((point) => ({ x: scale.x(point.x), y: scale.y(point.y), label: point.label })), scale.right), ...dots));
}

// The published systems of a plot as levels: their cost was not measured here.
const levelsOf = (plot) => (byId("anchors").checked ? plot.levels ?? [] : []).map(([name, y]) => ({ y, label: shortened(name.replace(/ \(.*/, "")), text: `${name}: ${plot.y} ${fixed(y)}, published, not measured here` }));

function tradeOff({ suite, dataset }) {
  const figures = dataset.plots.map((plot) => {
    const placeOf = new Map(plot.points.map((point) => [point.system, `${point.x} ${point.y}`]));
    const different = plot.points.filter((point) => placeOf.get(point.system) !== placeOf.get(suite.systems[point.system].base));
    const points = different.map((point) => {
      const system = suite.systems[point.system];
      const variant = system.k && system.base !== undefined;
      return { ...point, name: system.label, label: variant ? `top ${system.k}` : shortened(system.label), minor: variant, family: system.family, line: variant ? system.base : point.system };
    });
    return scatter({ title: plot.title, points, lowerIsBetter: plot.lower_is_better, xLabel: plot.x, yLabel: plot.y, levels: levelsOf(plot) });
  });
  const families = [...new Set(dataset.plots.flatMap((plot) => plot.points.map((point) => suite.systems[point.system].family)))].sort();
  const legend = families.map((family) => html("span", {}, svg("svg", { viewBox: "0 0 14 14", class: `point ${colourOf(family)}`, "aria-hidden": "true" }, shapeOf(family)(7, 7)), family));
  const timed = dataset.plots.some((plot) => plot.title.startsWith("Speed"));
  byId("trade-off-plots").replaceChildren(html("p", { class: "legend" }, ...legend), html("div", { class: "plots" }, ...figures),
    timed ? "" : html("p", { class: "note" }, "No two systems were timed alike on this dataset; type: lexbench run … --time"));
}

function startPlots() {
  byId("trade-off").hidden = !chooseDataset(byId("trade-off-dataset"), ({ dataset }) => dataset.plots.length, tradeOff);
  byId("anchors").addEventListener("change", () => byId("trade-off-dataset").dispatchEvent(new Event("change")));
}
