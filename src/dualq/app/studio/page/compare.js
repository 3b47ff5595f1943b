import { get, post } from "./api.js";
import { ACCENT, INK, SURE, chart, spec } from "./chart.js";
import { h, head, note, put, section, table } from "./dom.js";

export async function compare({ main, signal }) {
  const all = await get("/runs", signal);
  const chosen = new Set(all.slice(0, 3).map((run) => run.id)), box = h("div", {});
  put(main, head("Compare", "Runs side by side: what each is expected to earn, what is guaranteed, and what it costs."),
    all.length === 0 ? h("p", { class: "muted" }, "There is no run yet.") : [h("fieldset", { class: "chooser" }, h("legend", {}, "Runs"), all.map((run) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: chosen.has(run.id), onchange: (e) => { if (e.target.checked) chosen.add(run.id); else chosen.delete(run.id); draw(); } }), h("bdi", {}, run.title), h("span", { class: "muted" }, run.limits.join(", "))))), box]);

  async function draw() {
    if (!chosen.size) { put(box, h("p", { class: "muted" }, "Choose at least one.")); return; }
    const found = await post("/compare", { runs: all.map((run) => run.id).filter((id) => chosen.has(id)) }, signal);
    put(box, found.warning && note(found.warning, "warn"), h("div", { class: "one" }, chart(drawn(found.runs, 720), drawn(found.runs, 340), "Dots: expected, with two standard errors on both sides. Thick bars: guaranteed, on the conditions that each run names.")),
      section("Side by side", table(["", ...found.runs.map((run) => run.title)], found.lines.map(([name, cells]) => [name, ...cells.map((cell) => cell ?? "")]), { label: "Runs side by side" })));
  }
  if (all.length) await draw();
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
