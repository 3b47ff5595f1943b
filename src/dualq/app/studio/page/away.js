import { get, post } from "./api.js";
import { bytes, copyable, h, head, note, put, rich, section, table } from "./dom.js";

export async function data({ main, id, signal }) {
  put(main, head("Data that helps", "Opening the run ..."));
  const fit = await get(`/runs/${id}`, signal);
  const found = fit.data;
  put(main, head("Data that helps", "Which further rows would raise most what can be guaranteed."),
    !found ? note("The state has numbers: which rows would help most is not known.") : [
      found.needed && note(`About ${found.needed} rows like these would be needed for a useful guarantee.`),
      found.rows.length ? table(found.header, found.rows, { label: "Rows that would help most" }) : h("p", {}, "More rows of the same kind would not help here; this is why:"),
      h("div", { class: "promise" }, found.lines.map((words) => h("p", {}, words))),
      found.limits.length > 0 && section("To guarantee the limits", h("ul", {}, found.limits.map((words) => h("li", {}, words))))]);
}

const WORDS = {
  "report.html": "the report: one page to read or print, which needs no network", "policy.csv": "the policy, a row per state; opens anywhere",
  "fit.json": "every number, for programs", "solution.npz": "everything that `dualq.load` needs", "studio.json": "which log it was learned from, and how", "bad_rows.csv": "the rows that were set aside, and why",
};

// The policy for other systems: written into the run's folder, and taken away.
function exported(id) {
  const box = h("div", { "aria-live": "polite" });
  const form = h("select", { "aria-label": "Form" }, [["sql duckdb", "SQL for DuckDB"], ["sql postgres", "SQL for PostgreSQL"], ["sql sqlite", "SQL for SQLite"], ["python", "a Python file without imports"], ["json", "JSON"]].map(([key, words]) => h("option", { value: key }, words)));
  const write = async () => {
    const [to, dialect] = form.value.split(" ");
    try { const file = await post(`/runs/${id}/export`, { to, ...(dialect && { dialect }) }); put(box, h("a", { href: `${file.address}&save=1`, download: file.name }, `Download ${file.name}`)); }
    catch (error) { put(box, note(error.message, "warn")); }
  };
  return h("section", {}, h("h2", {}, "For other systems"), h("div", { class: "row" }, form, h("button", { type: "button", onclick: write }, "Write it"), box));
}

export async function report({ main, id, signal }) {
  put(main, head("Report and export", "Opening the run ..."));
  const fit = await get(`/runs/${id}`, signal);
  const page = fit.files.find((file) => file.name === "report.html");
  const frame = page && h("iframe", { src: page.address, title: "The report", class: "report" });
  put(main, head("Report and export", "The same report that `dualq learn --out` writes: one file, to send or to print.",
    page && h("button", { type: "button", onclick: () => frame.contentWindow.print() }, "Print, or save as PDF"), page && h("a", { class: "button", href: page.address, target: "_blank", rel: "noopener" }, "Open it alone"), page && h("a", { class: "button primary", href: `${page.address}&save=1`, download: "report.html" }, "Download the report")),
    h("section", {}, h("h2", {}, "Files"), h("ul", { class: "list files" }, fit.files.map((file) => h("li", {}, h("a", { href: `${file.address}&save=1`, download: file.name }, file.name), h("span", { class: "muted" }, rich(WORDS[file.name] ?? "")), h("span", { class: "muted tabular" }, bytes(file.size)))))),
    exported(id),
    h("section", {}, h("h2", {}, "In Python"), copyable("Load the run", `import dualq\nfit = dualq.load("${id}")\nprint(fit)`)),
    frame && h("section", {}, h("h2", {}, "The report"), frame));
}
