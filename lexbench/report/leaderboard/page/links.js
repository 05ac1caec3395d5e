// A link to the current view: the part of the address after #? has every changed control and the order of the tables.
const sorts = new Map(); // suite -> { get, set } of how its table is sorted
const controls = () => [...document.querySelectorAll("main select[id], main input[id]")];
const valueOf = (control) => (control.type === "checkbox" ? String(control.checked) : control.value);
let began = new Map();

function linkOf() {
  const changed = controls().filter((control) => valueOf(control) !== began.get(control.id)).map((control) => [control.id, valueOf(control)]);
  const sorted = [...sorts].map(([suite, sort]) => [`sort-${suite}`, sort.get()]).filter(([, value]) => value);
  const state = new URLSearchParams([...changed, ...sorted]).toString();
  const address = location.href.split("#")[0] + (state ? `#?${state}` : "");
  if (address !== location.href && (state || location.hash.startsWith("#?"))) history.replaceState(null, "", address);
}

// Set the controls in order, because the options of one may depend on those before it.
function follow() {
  if (!location.hash.startsWith("#?")) return;
  const state = new URLSearchParams(location.hash.slice(2));
  for (const id of controls().map((control) => control.id)) {
    const control = byId(id);
    const value = state.get(id) ?? began.get(id);
    if (value === undefined || value === null || valueOf(control) === value) continue;
    if (control.type === "checkbox") control.checked = value === "true";
    else control.value = value;
    if (control.tagName === "SELECT" && control.selectedIndex < 0) control.value = began.get(id); // nothing of that name here
    for (const name of ["input", "change"]) control.dispatchEvent(new Event(name, { bubbles: true }));
  }
  for (const [suite, sort] of sorts) sort.set(state.get(`sort-${suite}`) ?? "");
  linkOf();
}

function startLinks() {
  began = new Map(controls().map((control) => [control.id, valueOf(control)]));
  follow();
  for (const name of ["input", "change", "click"]) byId("main").addEventListener(name, () => queueMicrotask(linkOf));
  addEventListener("hashchange", follow);
}
