// The origin of everything: commands, digests, versions, machines, notes.
function startProvenance() {
  byId("sources").replaceChildren(...data.suites.map((suite) => html("details", { class: "source" },
    html("summary", {}, suite.name),
    ...(suite.names.length ? [html("h4", {}, "Names"), html("ul", {}, ...suite.names.map((line) => html("li", {}, html("code", {}, line))))] : []),
    html("h4", {}, "Repeat it: sh reproduce.sh"), html("pre", { tabindex: 0 }, suite.command),
    ...suite.datasets.flatMap((dataset) => [
      html("h4", {}, dataset.stamp),
      html("dl", { class: "digests" }, ...Object.entries(dataset.digests).flatMap(([name, digests]) => [html("dt", {}, name), html("dd", {}, digests.join("; "))])),
      ...(dataset.notes.length ? [html("ul", {}, ...dataset.notes.map((note) => html("li", {}, note.text)))] : []),
    ]),
    ...(suite.ran?.length ? [html("h4", {}, "Who ran what where"), html("ul", {}, ...suite.ran.map((line) => html("li", {}, line)))] : []),
    html("h4", {}, "Made with"), html("ul", {}, ...suite.made.map((line) => html("li", {}, line))),
    ...(suite.sources.length ? [html("h4", {}, "Published scores are from"), html("ul", {}, ...suite.sources.map((line) => html("li", {}, line)))] : []))));
}

byId("main").hidden = false;
startTables();
startPlots();
startHeatMap();
startQueries();
startProvenance();
startLinks();
document.documentElement.dataset.ready = "yes";
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));
