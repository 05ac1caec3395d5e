// Elements, numbers and the tooltip. Text reaches the page by text nodes and attributes only, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const MISSING = "—";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === undefined || value === null) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const fixed = (value, digits = 4) => (value === undefined || value === null ? MISSING : value.toFixed(digits));
const signed = (value, digits = 4) => (value > 0 ? "+" : value < 0 ? "−" : "±") + Math.abs(value).toFixed(digits);
function significant(value, digits = 3) {
  if (value === undefined || value === null) return MISSING;
  const most = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return value.toLocaleString("en", { minimumFractionDigits: Math.min(most, 6), maximumFractionDigits: Math.min(most, 6) });
}

// The name of a system. Long names break at punctuation.
const systemName = (label) => html("code", {}, ...label.split(/(?<=[(,/])|(?=[@|])/).flatMap((part) => [part, html("wbr")]));

function options(select, choices, chosen) {
  select.replaceChildren(...choices.map(([value, text]) => html("option", { value, selected: value === chosen }, text)));
}

// A region that scrolls by itself must be reachable by keyboard.
const scroller = (label, child) => html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, child);

function tell(node, text) {
  const tip = byId("tip");
  const show = () => {
    tip.textContent = text;
    tip.hidden = false;
    const box = node.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8));
    const below = box.bottom + 6 + tip.offsetHeight < innerHeight;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(below ? box.bottom + 6 : box.top - tip.offsetHeight - 6) + scrollY}px`;
    node.setAttribute("aria-describedby", "tip");
  };
  const hide = () => {
    tip.hidden = true;
    node.removeAttribute("aria-describedby");
  };
  node.addEventListener("mouseenter", show);
  node.addEventListener("focus", show);
  node.addEventListener("mouseleave", hide);
  node.addEventListener("blur", hide);
}
addEventListener("keydown", (event) => {
  if (event.key === "Escape") byId("tip").hidden = true;
});

// Restore what the JSON leaves out: empty lists and zeros.
for (const suite of data.suites) for (const dataset of suite.datasets) {
  for (const name of ["plots", "notes"]) dataset[name] ??= [];
  dataset.digests ??= {};
  dataset.floor ??= 0;
}

// Every dataset of every suite, with its position.
const places = data.suites.flatMap((suite) => suite.datasets.map((dataset) => ({ suite, dataset })));
const placeName = ({ suite, dataset }) => (suite.datasets.length > 1 ? `${dataset.id} (${suite.name})` : dataset.id);

function chooseDataset(select, fits, changed) {
  const fitting = places.map((place, index) => ({ place, index })).filter(({ place }) => fits(place));
  options(select, fitting.map(({ place, index }) => [String(index), placeName(place)]));
  const show = () => changed(places[Number(select.value)]);
  select.addEventListener("change", show);
  if (fitting.length) show();
  return fitting.length;
}

// The Holm-corrected p of two systems on a dataset, and the interval of the first minus the other; stored as upper triangles.
// Undefined if they were not compared.
function pOf(dataset, one, other) {
  const [i, j] = [dataset.compared.indexOf(one), dataset.compared.indexOf(other)].sort((a, b) => a - b);
  return i < 0 || i === j ? undefined : dataset.p[i][j - i - 1];
}
// p as text: never below what the resamples can show.
const pText = (dataset, p) => (p === undefined ? MISSING : p <= dataset.floor ? `≤ ${dataset.floor}` : `= ${fixed(p, 4)}`);
function rangeOf(dataset, one, other) {
  const [i, j] = [dataset.compared.indexOf(one), dataset.compared.indexOf(other)];
  if (i < 0 || j < 0 || i === j) return undefined;
  if (i < j) return dataset.ranges[i][j - i - 1];
  const [low, high] = dataset.ranges[j][i - j - 1];
  return [-high, -low];
}
