import { get, post } from "./api.js";
import { ACCENT, INK, SURE, chart, spec } from "./chart.js";
import { h, head, note, put, section, table } from "./dom.js";
import { jobsList } from "./jobs.js";
import { understood } from "./mapping.js";

export async function compare({ main, signal }) {
  const all = await get("/runs", signal);
  const chosen = new Set(all.slice(0, 3).map((run) => run.id)), box = h("div", {});
  put(main, head("Compare", "Runs side by side: what each is expected to earn, what is guaranteed, and what it costs."),
    all.length === 0 ? h("p", { class: "muted" }, "There is no run yet.") : [h("fieldset", { class: "chooser" }, h("legend", {}, "Runs"), all.map((run) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: chosen.has(run.id), onchange: (e) => { if (e.target.checked) chosen.add(run.id); else chosen.delete(run.id); draw(); } }), h("bdi", {}, run.title), h("span", { class: "muted" }, run.limits.join(", "))))), box]);

  main.append(await judging(all, chosen, signal));

  async function draw() {
    if (!chosen.size) { put(box, h("p", { class: "muted" }, "Choose at least one.")); return; }
    const found = await post("/compare", { runs: all.map((run) => run.id).filter((id) => chosen.has(id)) }, signal);
    put(box, found.warning && note(found.warning, "warn"), h("div", { class: "one" }, chart(drawn(found.runs, 720), drawn(found.runs, 340), "Dots: expected, with two standard errors on both sides. Thick bars: guaranteed, on the conditions that each run names.")),
      section("Side by side", table(["", ...found.runs.map((run) => run.title)], found.lines.map(([name, cells]) => [name, ...cells.map((cell) => cell ?? "")]), { label: "Runs side by side" })));
  }
  if (all.length) await draw();
}

// Rules of one's own and the chosen runs, judged by one log: the report of the comparison.
async function judging(all, chosen, signal) {
  const logs = await get("/logs", signal), box = h("div", { class: "job-box" }), shown = h("div", {});
  const log = h("select", {}, logs.map((one) => h("option", { value: one.id }, one.name)));
  const rules = h("textarea", { rows: 3, placeholder: "my rule: order = 6 if stock <= 1 else 0" });
  let mine = null;
  const begin = async () => {
    put(shown);
    const lines = rules.value.split("\n").map((line) => line.trim()).filter(Boolean);
    const named = Object.fromEntries(lines.map((line) => { const at = line.indexOf(":"); return at > 0 && at < line.indexOf("=") ? [line.slice(0, at).trim(), line.slice(at + 1).trim()] : [line, line]; }));
    try {
      const { columns } = await understood(log.value, signal);
      mine = (await post("/judge", { log: log.value, columns, rules: named, runs: all.map((run) => run.id).filter((id) => chosen.has(id)) })).id;
      document.dispatchEvent(new Event("look-again"));
    } catch (error) { put(shown, note(error.message, "warn")); }
  };
  jobsList(box, signal, async (job) => { if (job.id === mine) put(shown, h("iframe", { src: (await get(`/judged/${job.id}`)).address, title: "The comparison", class: "report" })); }, () => mine);
  return section("Judge policies by one log", h("p", { class: "muted" }, "The chosen runs and rules of your own, beside what was done so far and what dualq learns: which is best, and how sure that is."),
    h("div", { class: "form" }, h("label", { class: "field" }, h("span", {}, "Log"), log), h("label", { class: "field" }, h("span", {}, "Rules, one a line"), rules)),
    h("p", {}, h("button", { type: "button", onclick: begin }, "Judge them")), box, shown);
}

function drawn(runs, width) {
  const short = (words) => words.length > width / 9 ? `${words.slice(0, Math.floor(width / 9))}...` : words;
  const rows = runs.flatMap((run, i) => [
    { place: 2 * i, name: short(`${run.title}: ${run.expected}`), low: run.value - 2 * (run.error ?? 0), high: run.value + 2 * (run.error ?? 0), value: run.value, ink: ACCENT, wide: 2 },
    ...(run.low === null ? [] : [{ place: 2 * i + 1, name: short(`guaranteed (${run.confidence}): ${run.guaranteed}`), low: run.low, high: run.high, ink: SURE, wide: 8 }])]);
  const y = { field: "place", type: "ordinal", axis: null }, x = (field) => ({ field, type: "quantitative", title: null, scale: { zero: false, nice: false, padding: 10 } });
  return spec(width, 44 * rows.length + 24, { data: { values: rows }, encoding: { y }, layer: [
    { mark: { type: "rule", yOffset: 8, aria: false }, encoding: { x: x("low"), x2: { field: "high" }, color: { field: "ink", type: "nominal", scale: null }, strokeWidth: { field: "wide", type: "quantitative", scale: null } } },
    { mark: { type: "text", yOffset: -8, align: "left", color: INK, aria: false }, encoding: { x: { value: 0 }, text: { field: "name" } } },
    { transform: [{ filter: { field: "value", valid: true } }], mark: { type: "point", yOffset: 8, filled: true, size: 80, opacity: 1, aria: false }, encoding: { x: x("value"), color: { field: "ink", type: "nominal", scale: null } } }] });
}
