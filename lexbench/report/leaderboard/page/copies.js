// Copy the shown table as Markdown, LaTeX or CSV, like `lexbench leaderboard --copy`; and a link to this view.
const LATEX = { "\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", $: "\\$", "#": "\\#", _: "\\_", "{": "\\{", "}": "\\}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "|": "\\textbar{}", "<": "\\textless{}", ">": "\\textgreater{}", "—": "---", "-": "-{}" };
const MARKDOWN = { "\\": "\\\\", "|": "\\|", "`": "\\`", "<": "&lt;", ">": "&gt;", "*": "\\*", _: "\\_" };
const tex = (text) => text.replace(/[\\&%$#_{}~^|<>—]|-(?=-)/g, (sign) => LATEX[sign]);
const plainMarkdown = (text) => text.replace(/[\\|`<>*_]/g, (sign) => MARKDOWN[sign]);
const PACKAGES = "% needs \\usepackage{booktabs,graphicx}, and XeLaTeX or LuaLaTeX for names in other scripts";
const NO_WIDER = "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%";
const MARKED = "Best in bold, second underlined.";
const TESTED = "Systems that share a letter have no significant difference (paired randomisation test, Holm-corrected over all pairs of the dataset, p < .05).";

function scoreOf(cell, measure, headline) {
  const value = cell?.means[measure];
  if (value === undefined) return { text: MISSING, mark: 0, letters: "" };
  const deviation = cell.deviations?.[measure] === undefined ? "" : fixed(cell.deviations[measure]);
  return { text: fixed(value), mark: cell.marks?.[measure] ?? 0, letters: measure === headline ? cell.letters ?? "" : "", deviation };
}

// The content to copy: caption, header, and per shown row a name with its scores.
function viewOf(suite, view, rows) {
  const all = view === ALL;
  const dataset = all ? null : suite.datasets[Number(view)];
  const header = all ? [...suite.datasets.map((one) => one.id), ...suite.aggregates] : dataset.measures;
  const scores = (row) => all
    ? [...suite.datasets.map((_, index) => scoreOf(row.cells[index], suite.headline, suite.headline)), ...row.system.means.map((mean) => ({ text: mean.text, mark: mean.mark ?? 0, letters: "" }))]
    : dataset.measures.map((measure) => scoreOf(row.cells[Number(view)], measure, dataset.headline));
  const shown = rows.map((row) => ({ name: row.system.source ? `${row.system.label} (${row.system.source})` : row.system.label, notation: row.system.notation ?? "", scores: scores(row) }));
  const tested = shown.some((row) => row.scores.some((score) => score.letters));
  const caption = all ? `${suite.name}: ${suite.headline} on each dataset.` : `${suite.name}: ${dataset.id}.`;
  return { caption: [caption, MARKED, ...(tested ? [TESTED] : [])].join(" "), header, rows: shown };
}

const COPIES = {
  Markdown({ header, rows }) {
    const write = ({ text, mark, letters, deviation }) => (mark === 1 ? `**${text}**` : mark === 2 ? `<ins>${text}</ins>` : text) + (deviation ? ` ±${deviation}` : "") + (letters ? ` <sup>${plainMarkdown(letters)}</sup>` : "");
    const line = (cells) => `| ${cells.join(" | ")} |\n`;
    return line(["system", ...header].map(plainMarkdown)) + `|${[" :-- ", ...header.map(() => " --: ")].join("|")}|\n` + rows.map((row) => line([plainMarkdown(row.name), ...row.scores.map(write)])).join("");
  },
  LaTeX({ caption, header, rows }) {
    const write = ({ text, mark, letters, deviation }) => (mark === 1 ? `\\textbf{${tex(text)}}` : mark === 2 ? `\\underline{${tex(text)}}` : tex(text)) + (deviation ? ` $\\pm$ ${deviation}` : "") + (letters ? `\\textsuperscript{${letters}}` : "");
    const line = (cells) => `${cells.join(" & ")} \\\\`;
    const sides = header.map((_, at) => (rows.some(({ scores }) => scores[at].letters || scores[at].deviation) ? "l" : "r"));
    return [
      PACKAGES, "\\begin{table}", "\\centering", `\\caption{${tex(caption)}}`, NO_WIDER, `\\begin{tabular}{l${sides.join("")}}`, "\\toprule",
      line(["system", ...header].map(tex)), "\\midrule", ...rows.map((row) => line([tex(row.name), ...row.scores.map(write)])),
      "\\bottomrule", "\\end{tabular}}", "\\end{table}", "",
    ].join("\n");
  },
  CSV({ header, rows }) {
    const inert = (text) => (/^[=+\-@]/.test(text) ? `'${text}` : text); // no spreadsheet takes it for a formula
    const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const line = (cells) => `${cells.map(quoted).join(",")}\n`;
    return line(["system", "notation", ...header]) + rows.map((row) => line([inert(row.name), inert(row.notation), ...row.scores.map((score) => (score.text === MISSING ? "" : score.text))])).join("");
  },
};

// Buttons that copy the text to the clipboard, and show it for browsers that forbid that.
function copier(view) {
  const text = html("textarea", { readonly: true, rows: 6, hidden: true, "aria-label": "copied text", spellcheck: "false" });
  const said = html("output", {});
  function copy(what, content) {
    text.value = content;
    text.hidden = false;
    text.select();
    const done = (ok) => (said.textContent = ok ? `${what} copied` : `${what}: select and copy`);
    if (navigator.clipboard) navigator.clipboard.writeText(content).then(() => done(true), () => done(false));
    else done(false);
  }
  const button = (what, content) => {
    const made = html("button", { type: "button" }, what);
    made.addEventListener("click", () => copy(what, content()));
    return made;
  };
  const buttons = Object.entries(COPIES).map(([name, write]) => button(name, () => write(view())));
  return html("div", { class: "copies" }, html("span", {}, "Copy as "), ...buttons, button("Link to this view", () => location.href), said, text);
}
