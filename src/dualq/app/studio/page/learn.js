import { post } from "./api.js";
import { copyable, h, head, note, put, section } from "./dom.js";
import { jobsList } from "./jobs.js";
import { choose, understood } from "./mapping.js";

export async function learn({ main, id, signal, go }) {
  put(main, head("Learn", "Reading the log: which part each column plays, and what is wrong ..."), h("div", { class: "skeleton tall-block" }));
  const { log, chosen, columns, lines, stops } = await understood(id, signal);
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
  const bad = stops.length > 0; // it would only fail
  const start = h("button", { type: "button", class: "primary", disabled: bad, "aria-describedby": bad ? "stops" : undefined, onclick: begin }, "Learn");
  const ends = ["lowest", "highest"].map((end, i) => h("input", { type: "number", step: "any", placeholder: end, "aria-label": `The ${end} that a reward can be`, value: asked.reward_range?.[i] ?? "", onchange: range }));
  const alike = chosen.more.skip_bad && h("label", { class: "check" }, h("input", { type: "checkbox", checked: Boolean(asked.assume), onchange: (e) => set("assume", e.target.checked ? ["set aside"] : undefined) }), "The rows set aside are like the others");

  function range() {
    const [low, high] = ends.map((end) => end.value === "" ? NaN : Number(end.value));
    put(words, (ends[0].value === "") !== (ends[1].value === "") ? note("A reward range needs both ends.") : low >= high ? note("The lowest reward must be less than the highest.", "warn") : "");
    set("reward_range", low < high ? [low, high] : undefined);
  }

  function said() {
    const flags = { limits: (all) => all.map((one) => ` --limit '${one}'`), assume: (all) => all.map((one) => ` --assume '${one}'`), reward_range: (both) => [` --reward-range=${both.join(",")}`] };
    const shell = `${lines?.[0] ?? "dualq learn"}${Object.entries(asked).flatMap(([name, value]) => flags[name]?.(value) ?? [` --${name} ${value}`]).join("")} --out run/`;
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
    bad && h("div", { class: "note warn", id: "stops", role: "alert" }, h("strong", {}, "It cannot be learned from as it is. "), h("bdi", {}, stops[0]), h("p", {}, h("a", { href: `#/log/${id}/columns` }, "Back to the columns"), ", to set bad rows aside or to change what is wrong.")),
    h("form", { class: "form", onsubmit: (e) => { e.preventDefault(); begin(); } },
      field("Name of the run", "for you to find it again", name),
      field("Discount", "how much a reward counts one step later; 0: only the next one counts", num("discount", 0.95, 0, 0.9999, "any")),
      field("Confidence", "how sure guarantees must be", num("confidence", 0.95, 0.5, 0.9999, "any")),
      field("Start", "where rewards begin to count", h("select", { onchange: (e) => set("start", e.target.value) }, [["", "where episodes begin, if any"], ["episodes", "where episodes begin"], ["log", "in any row of the log"], ["uniform", "in any state"]].map(([key, text]) => h("option", { value: key, selected: (asked.start ?? "") === key }, text)))),
      columns.numbers?.length > 0 && field("Numbers of the state", "how a function of them is learned", h("select", { onchange: (e) => set("approximation", e.target.value) }, [["", "all ways, the best is chosen"], ["partition", "cells"], ["linear", "linear features"], ["neural", "small networks"]].map(([key, text]) => h("option", { value: key, selected: (asked.approximation ?? "") === key }, text))))),
    section("What you know", h("p", { class: "muted" }, "What no row of the log can show. Guarantees rest on it; leave it empty if you do not know."),
      h("div", { class: "row" }, h("span", {}, "Rewards are always between"), ends[0], h("span", {}, "and"), ends[1]), alike),
    costs.length > 0 && section("Limits", h("p", { class: "muted" }, "Keep a cost within a limit, on average per step; early steps count more, as they do for rewards. It can be moved later, too."), limits),
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
