import { post } from "./api.js";
import { copyable, h, head, note, put, section } from "./dom.js";
import { jobsList } from "./jobs.js";
import { choose, understood } from "./mapping.js";

export async function learn({ main, id, signal, go }) {
  const { log, chosen, columns, lines } = await understood(id, signal);
  const costs = Array.isArray(columns.costs) ? columns.costs : columns.costs ? [columns.costs] : [];
  const asked = chosen.learning;
  let mine = null;
  const box = h("div", { class: "job-box" }), words = h("div", {}), line = h("div", {});
  const field = (label, hint, input) => h("label", { class: "field" }, h("span", {}, label), input, h("span", { class: "muted" }, hint));
  const set = (name, value) => { if (value === undefined || value === "") delete asked[name]; else asked[name] = value; choose(id, chosen); said(); };
  const num = (name, usual, min, max, step) => h("input", { type: "number", min, max, step, value: asked[name] ?? usual, onchange: (e) => set(name, Number(e.target.value) === usual ? undefined : Number(e.target.value)) });
  const limits = h("div", { class: "limits-asked" }, costs.map((cost) => {
    const bound = h("input", { type: "number", step: "any", "aria-label": `Limit of ${cost}`, placeholder: "no limit", value: boundOf(asked.limits, cost) ?? "", onchange: () => set("limits", others(asked.limits, cost, bound.value)) });
    return h("div", { class: "row" }, h("bdi", {}, cost), h("span", {}, "at most, per step:"), bound);
  }));
  const start = h("button", { type: "button", class: "primary", onclick: begin }, "Learn");

  function said() {
    const shell = `${lines[0]}${Object.entries(asked).flatMap(([name, value]) => Array.isArray(value) ? value.map((one) => ` --limit '${one}'`) : [` --${name} ${value}`]).join("")} --out run/`;
    put(line, copyable("The same at the command line", shell));
  }

  async function begin() {
    start.disabled = true; put(words);
    try { mine = (await post("/jobs", { log: id, name: name.value, columns, learning: asked })).id; document.dispatchEvent(new Event("look-again")); }
    catch (error) { put(words, note(error.message, "warn")); }
    start.disabled = false;
  }

  const name = h("input", { value: log.name, maxlength: 200 });
  put(main,
    head("Learn", h("span", {}, "From ", h("bdi", {}, log.name), ". The log is read, counted, modelled with care where it is thin, solved, and what can be guaranteed is proven."), start),
    h("form", { class: "form", onsubmit: (e) => { e.preventDefault(); begin(); } },
      field("Name of the run", "for you to find it again", name),
      field("Discount", "how much a reward counts one step later; 0: only the next one counts", num("discount", 0.95, 0, 0.9999, "any")),
      field("Confidence", "how sure guarantees must be", num("confidence", 0.95, 0.5, 0.9999, "any")),
      field("Start", "where rewards begin to count", h("select", { onchange: (e) => set("start", e.target.value) }, [["", "where episodes begin, if any"], ["episodes", "where episodes begin"], ["log", "in any row of the log"], ["uniform", "in any state"]].map(([key, text]) => h("option", { value: key, selected: (asked.start ?? "") === key }, text)))),
      columns.numbers?.length > 0 && field("Numbers of the state", "how a function of them is learned", h("select", { onchange: (e) => set("approximation", e.target.value) }, [["", "all ways, the best is chosen"], ["partition", "cells"], ["linear", "linear features"], ["neural", "small networks"]].map(([key, text]) => h("option", { value: key, selected: (asked.approximation ?? "") === key }, text))))),
    costs.length > 0 && section("Limits", h("p", { class: "muted" }, "Keep a cost within a limit, on average. It can be moved later, too."), limits),
    words, box, section("The same without clicking", line));
  said();
  jobsList(box, signal, (job) => { if (job.id === mine) go(`/run/${job.run}`); }, () => mine);
}

const boundOf = (limits, cost) => limits?.map((one) => one.split("<=")).find(([name]) => name === cost)?.[1];
function others(limits, cost, bound) {
  const left = (limits ?? []).filter((one) => one.split("<=")[0] !== cost);
  const all = bound === "" ? left : [...left, `${cost}<=${Number(bound)}`];
  return all.length ? all : undefined;
}
