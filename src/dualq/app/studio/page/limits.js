import { get, post } from "./api.js";
import { MUTED, chart } from "./chart.js";
import { h, head, note, number, percent, put, say, table } from "./dom.js";
import { headline, policyMap } from "./decision.js";
import { jobsList } from "./jobs.js";

export async function limits({ main, id, signal, go }) {
  put(main, head("Limits", "Opening the run ..."), h("div", { class: "skeleton tall-block" }));
  const fit = await get(`/runs/${id}`, signal);
  if (!fit.costs.names.length) {
    put(main, head("Limits", "What a limit on a cost costs."), note(fit.kind === "numbers" ? "The state has numbers, so every limit is learned anew: set it on the page Learn." : "The log has no cost to limit. Give a column the part Costs, and learn again."));
    return;
  }
  const wanted = { ...fit.limits.asked }, margin = { value: fit.limits.margin ?? "certified" };
  const exact = h("div", { class: "exact", "aria-live": "polite" }), keep = h("div", { class: "job-box" });
  const button = h("button", { type: "button", class: "primary", disabled: true, onclick: kept }, "Keep as a run");
  const panels = h("div", {});
  const way = h("label", { class: "inline" }, "How limits are kept ", h("select", { onchange: (e) => { margin.value = e.target.value; solve(); } }, [["certified", "guaranteed, if possible"], ["none", "expected only"]].map(([key, words]) => h("option", { value: key, selected: key === margin.value }, words))));
  put(main, head("Limits", "Move a limit, and see what it costs. The curve answers at once; the exact policy follows a moment later.", way, button), panels, keep, exact);
  let turn = 0, mine = null;

  for (const cost of fit.costs.names) panels.append(h("div", { class: "skeleton", style: { height: "380px" } }, `${cost} ...`));
  const curves = [];
  for (const cost of fit.costs.names) {
    try { curves.push(await get(`/runs/${id}/curve?cost=${encodeURIComponent(cost)}`, signal)); }
    catch (error) { if (signal.aborted) throw error; curves.push({ cost, error: error.message }); }
  }
  put(panels, curves.map(panel));
  if (Object.keys(wanted).length) solve();

  function panel(curve) {
    if (curve.error) return h("section", {}, h("h2", {}, h("bdi", {}, curve.cost)), note(curve.error));
    const own = wanted[curve.cost] ?? curve.points.at(-1).limit; // which may lie beyond the curve
    const low = Math.min(curve.points[0].limit, own), high = Math.max(curve.points.at(-1).limit, own), tidy = (x) => Number(x.toPrecision(3));
    const at_once = h("div", { class: "at-once", role: "status" });
    const on = h("input", { type: "checkbox", checked: curve.cost in wanted, onchange: () => change() });
    const slider = h("input", { type: "range", min: low, max: high, step: "any", value: own, "aria-label": `Limit of ${curve.cost}`, oninput: () => { on.checked = true; change(); } });
    const box = h("input", { type: "number", step: "any", value: tidy(own), "aria-label": `Limit of ${curve.cost} as a number`, onchange: () => { if (box.value === "") { box.value = tidy(Number(slider.value)); return; } on.checked = true; reach(Number(box.value)); change(Number(box.value)); } });
    let view = null;

    // the slider goes as far as the number that was typed
    function reach(value) {
      slider.min = Math.min(Number(slider.min), value); slider.max = Math.max(Number(slider.max), value);
      slider.value = value;
    }

    function change(value = Number(slider.value)) {
      if (on.checked) wanted[curve.cost] = tidy(value); else delete wanted[curve.cost];
      if (document.activeElement !== box) box.value = tidy(value);
      answer(value);
      clearTimeout(solve.later); solve.later = setTimeout(solve, 350);
    }

    // the loosest computed policy that keeps the limit: guaranteed where that is asked for (its upper bound is within),
    // else expected. No number is made up between two points
    function answer(value) {
      const backwards = [...curve.points].reverse(), sure = margin.value === "certified" && backwards.find((p) => p.cost_high <= value + 1e-12);
      const point = sure || (backwards.find((p) => p.limit <= value + 1e-12) ?? curve.points[0]);
      slider.setAttribute("aria-valuetext", `${tidy(value)}: expected to earn ${number(point.value)}`);
      put(at_once, h("div", { class: "at-once-tiles" }, figure("expected to earn", `${number(point.value)}`, `± ${Number(point.error.toPrecision(2))}`),
        curve.band && figure(`bounds (${curve.confidence})`, `${number(point.low)} to ${number(point.high)}`, "on the conditions of the run"),
        figure(`${curve.cost} per ${curve.each}`, number(point.cost), `bounds ${Number(point.cost_low.toPrecision(2))} to ${Number(point.cost_high.toPrecision(2))}`),
        figure("price", number(point.price), `reward per ${curve.each}, for one unit of ${curve.cost}`)), h("p", { class: "muted" }, sure ? "From the curve: a policy whose upper bound is within the limit." : point.cost > value + 1e-6 * Math.abs(curve.points.at(-1).limit) ? "From the curve: the policy that comes nearest; it is not expected to keep the limit." : margin.value === "certified" ? "From the curve: a policy that is expected to keep the limit. No policy of the curve is guaranteed to." : "From the curve: a policy that is expected to keep the limit."));
      at_once.dataset.limit = point.limit;
      view?.change("at", window.vega.changeset().remove(() => true).insert([{ limit: value }])).run();
    }

    const marked = (spec) => ({ ...spec, layer: [...spec.layer, { data: { name: "at", values: [{ limit: Number(slider.value) }] }, mark: { type: "rule", aria: false, color: MUTED, strokeDash: [4, 3], strokeWidth: 2 }, encoding: { x: { field: "limit", type: "quantitative" } } }] });
    answer(Number(slider.value));
    return h("section", { class: "limit" }, h("h2", {}, h("bdi", {}, curve.cost)),
      h("div", { class: "limit-row" }, h("label", { class: "check" }, on, "limit it to at most"), box, slider), at_once,
      chart(marked(curve.spec), marked(curve.narrow), `What a limit on ${curve.cost} costs: what the best policy for every limit is expected to earn, with one standard error on both sides. The dashed line is the limit, the diamond is the run's own policy.${curve.band ? " The pale band: bounds on what is earned." : ""}`, { view: (drawn) => { view = drawn; answer(Number(slider.value)); } }),
      curve.doubt && note(curve.doubt));
  }

  async function solve() {
    const now = ++turn;
    button.disabled = true;
    if (!Object.keys(wanted).length) { put(exact); return; }
    exact.classList.add("waiting");
    try {
      const found = await post(`/runs/${id}/limits`, { limits: wanted, margin: margin.value }, signal);
      if (now !== turn) return;
      if (found.infeasible) { cannot(found); return; }
      put(exact, h("h2", {}, "Solved exactly"), headline(found), h("div", { class: `promise ${found.sure ? "sure" : ""}` }, found.guarantees.map((words) => h("p", {}, words))),
        table(...found.limits.table), found.limits.lines.map((words) => h("p", {}, words)),
        h("p", { class: "muted" }, `${percent(found.moved)} of decisions are other ones than in this run.`),
        found.policy.names.length <= 2 && found.policy.states.length <= 3000 && policyMap(found.policy, id));
      button.disabled = false;
      say(`Solved. ${found.rest}`);
    } catch (error) {
      if (!signal.aborted && now === turn) put(exact, note(error.message, "warn"));
    } finally { if (now === turn) exact.classList.remove("waiting"); }
  }

  function cannot({ infeasible, nearest }) {
    const take = () => { for (const [name, x] of Object.entries(nearest)) wanted[name] = up(x); put(panels, curves.map(panel)); solve(); };
    const words = Object.entries(nearest).map(([name, x]) => `${name} at most ${up(x)}`).join(", ");
    put(exact, h("h2", {}, "These limits cannot be kept"), h("div", { class: "note warn", role: "alert" }, infeasible,
      words && h("p", {}, h("button", { type: "button", onclick: take }, `Take the nearest: ${words}`))));
  }

  async function kept() {
    button.disabled = true;
    mine = (await post(`/runs/${id}/keep`, { limits: wanted, margin: margin.value })).id;
    jobsList(keep, signal, (job) => { if (job.id === mine) go(`/run/${job.run}`); }, () => mine);
  }
}

const figure = (name, value, below) => h("div", { class: "tile" }, h("span", { class: "tile-name" }, name), h("span", { class: "tile-value" }, value), h("span", { class: "muted" }, below));

// a bound that can be kept, with few digits: rounded to the loose side
const up = (x) => { const unit = 10 ** (Math.floor(Math.log10(Math.abs(x) || 1)) - 2); return Number((Math.ceil(x / unit + 1e-9) * unit).toPrecision(6)); };
