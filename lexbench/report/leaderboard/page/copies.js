// Copy the shown table as Markdown, LaTeX or CSV, like `lexbench leaderboard --copy`; and a link to this view.
const LATEX = { "\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", $: "\\$", "#": "\\#", _: "\\_", "{": "\\{", "}": "\\}", "~": "$\\sim$", "^": "\\textasciicircum{}", "|": "\\textbar{}", "<": "\\textless{}", ">": "\\textgreater{}", "—": "--", "±": "$\\pm$", "≠": "$\\neq$", "‡": "$\\ddagger$", "†": "$\\dagger$", "-": "-{}" };
const MARKDOWN = { "\\": "\\\\", "|": "\\|", "`": "\\`", "<": "&lt;", ">": "&gt;", "*": "\\*", _: "\\_" };
const tex = (text) => text.replace(/[\\&%$#_{}~^|<>—±≠‡†]|-(?=-)/g, (sign) => LATEX[sign]);
const plainMarkdown = (text) => text.replace(/[\\|`<>*_]/g, (sign) => MARKDOWN[sign]);
const PACKAGES = "% needs \\usepackage{booktabs,graphicx}, and XeLaTeX or LuaLaTeX for names in other scripts";
const NO_WIDER = "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%";

// What to copy: the rows with the columns that are not empty.
function viewOf(suite, grid, rows) {
  const fitting = rows.map((row) => {
    if (!row.published) return row;
    const places = new Map(suite.published.columns.map((column, at) => [column.name, at]));
    return { ...row, values: grid.columns.map((column) => row.values[places.get(column.name)] ?? {}) };
  });
  const kept = grid.columns.map((_, at) => at).filter((at) => fitting.some((row) => !row.published && textOf(row.values[at]) !== MISSING));
  const columns = kept.map((at) => grid.columns[at]);
  const shown = fitting.map((row) => ({ ...row, notation: row.published ? "" : row.system.notation ?? "", values: kept.map((at) => row.values[at]) }));
  return { columns, rows: shown, marks: marksOf({ columns }, shown), title: `${grid.title.includes(suite.name) ? "" : `${suite.name}: `}${grid.title}.`, label: `tab:${suite.id}`, headline: suite.headline };
}

function captionOf({ title, headline, columns, rows, marks }) {
  const texts = rows.flatMap((row) => row.values.map(textOf));
  return [
    title,
    marks.flat().some(Boolean) && "Best in bold, second underlined, among the systems measured here.",
    columns.some((column) => column.name === "rank") && `Rank by ${headline}: what paired randomisation tests at .05 leave possible, Holm-corrected over all pairs.`,
    rows.some((row) => row.published) && "†: published scores, not measured here.",
    texts.some((text) => text.includes("~")) && "~: timing not ranked.",
    texts.includes("‡") && "‡: trained on documents of the datasets.",
    texts.includes("‡‡") && "‡‡: trained on queries of the datasets.",
  ].filter(Boolean).join(" ");
}

const COPIES = {
  Markdown({ columns, rows, marks }) {
    const first = columns[0]?.name === "rank" ? 1 : 0;
    const line = (cells, name) => `| ${[...cells.slice(0, first), name, ...cells.slice(first)].join(" | ")} |\n`;
    const heads = columns.map((column) => plainMarkdown([column.name, ...(column.about ?? "").split("\n")].filter(Boolean).join(" ")));
    const sides = [...Array(first).fill(" --: "), " :-- ", ...Array(columns.length - first).fill(" --: ")];
    const write = (text, mark) => (mark === 1 ? `**${text}**` : mark === 2 ? `<ins>${text}</ins>` : text);
    return line(heads, "system") + `|${sides.join("|")}|\n` +
      rows.map((row, at) => line(row.values.map((one, column) => write(plainMarkdown(textOf(one)), marks[at][column])), (row.published ? "† " : "") + plainMarkdown(row.name))).join("");
  },
  LaTeX(view) {
    const { columns, rows, marks } = view;
    const write = (text, mark) => (mark === 1 ? `\\textbf{${tex(text)}}` : mark === 2 ? `\\underline{${tex(text)}}` : tex(text));
    const line = (cells) => `${cells.join(" & ")} \\\\`;
    const lines = (published) => rows.flatMap((row, at) => (Boolean(row.published) !== published ? [] : [
      line([tex(row.name) + (published ? "$^{\\dagger}$" : ""), ...row.values.map((one, column) => write(textOf(one), marks[at][column]))])]));
    const others = lines(true);
    const place = columns.length > 6 ? "table*" : "table";
    return [
      PACKAGES, `\\begin{${place}}`, "\\centering", `\\caption{${tex(captionOf(view))}}`, `\\label{${view.label}}`, NO_WIDER,
      `\\begin{tabular}{l${"r".repeat(columns.length)}}`, "\\toprule", line(["system", ...columns.map((column) => column.name)].map(tex)), "\\midrule",
      ...lines(false), ...(others.length ? ["\\midrule", ...others] : []), "\\bottomrule", "\\end{tabular}}", `\\end{${place}}`, "",
    ].join("\n");
  },
  CSV({ columns, rows }) {
    const inert = (text) => (/^[=+\-@]/.test(text) ? `'${text}` : text); // no spreadsheet takes it for a formula
    const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const line = (cells) => `${cells.map(quoted).join(",")}\n`;
    const bare = (text) => (text === MISSING ? "" : text.split(" ")[0].replaceAll(",", ""));
    return line(["system", "expression", ...columns.map((column) => column.name)]) + rows.map((row) => line([inert(row.name), inert(row.notation), ...row.values.map((one) => bare(textOf(one)))])).join("");
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
