import { get } from "./api.js";
import { chart } from "./chart.js";
import { copyable, count, facts, h, head, note, percent, put, rich, section, table, tabs } from "./dom.js";
import { kind } from "./home.js";
import { showState } from "./state.js";

export async function decision({ main, id, signal }) {
  put(main, head("The decision", "Opening the run ..."), h("div", { class: "skeleton tall-block" }));
  const fit = await get(`/runs/${id}`, signal);
  put(main, head(fit.task.title ?? id, h("span", {}, `${count(fit.decisions, "decision")} from `, h("bdi", {}, fit.source)),
    h("a", { class: "button", href: `#/run/${id}/report` }, "Report"), fit.costs.names.length > 0 && h("a", { class: "button primary", href: `#/run/${id}/limits` }, "Move limits")),
    headline(fit), ...shown(fit, id));
}

export function headline(fit) {
  const tile = (name, value, below, sure) => h("div", { class: `tile ${sure ? "sure" : ""}` }, h("span", { class: "tile-name" }, name), h("span", { class: "tile-value" }, value), h("span", { class: "muted" }, below));
  const plus = (e) => e.plus ? `${e.plus}, one standard error` : "no error can be given";
  return [h("div", { class: `verdict ${kind(fit.verdict)}` }, h("p", { class: "verdict-big" }, fit.word), h("p", {}, fit.rest)),
    h("div", { class: "tiles four" }, tile("expected", fit.expected.words, plus(fit.expected)),
      tile(`guaranteed (${fit.confidence})`, fit.promised ? `${fit.promised.low} to ${fit.promised.high}` : "nothing", fit.promised ? "on the conditions below" : "the reason is below", Boolean(fit.promised)),
      tile("what was done so far", fit.logged.words, plus(fit.logged)),
      tile("difference", fit.difference.words, plus(fit.difference)))];
}

function shown(fit, id) {
  return [
    ...fit.warnings.map((words) => note(words, "warn")),
    h("div", { class: `promise ${fit.sure ? "sure" : ""}` }, fit.guarantees.map((words) => h("p", {}, words))),
    chart(fit.worth, fit.worth_narrow, fit.caption),
    section(fit.heading, ...what(fit, id)),
    section("Why", table(fit.why.table[0], fit.why.table[1]), fit.why.lines.map((words) => h("p", {}, words))),
    fit.limits.table[1].length > 0 && section("Limits", !fit.limits.kept && note("Not every limit is guaranteed; the table says what each rests on.", "warn"), table(...fit.limits.table), fit.limits.lines.map((words) => h("p", {}, words))),
    fit.costs.table[1].length > 0 && section("Costs", table(...fit.costs.table)),
    h("details", { class: "more" }, h("summary", {}, "Details"), fit.coverage && chart(fit.coverage, fit.coverage_narrow, "Combinations of state and action, by how many rows of the log have them."),
      fit.details.map(([name, pairs]) => [h("h3", {}, name), facts(pairs)]),
      fit.lists.filter(([, lines]) => lines.length).map(([name, lines]) => [h("h3", {}, name), h("ul", {}, lines.map((words) => h("li", {}, words)))]),
      copyable("Ask the policy at the command line", `dualq act ${id} --state '${JSON.stringify(example(fit))}'`)),
  ];
}

const example = (fit) => fit.policy ? Object.fromEntries(fit.policy.names.map((name, i) => [name, fit.policy.states[0].label[i]])) : fit.usual;

function what(fit, id) {
  if (fit.kind === "numbers") return [rules(fit.rules), fit.grid && map2(fit.grid), h("div", { class: "charts" }, fit.plots.map((plot) => chart(plot.spec, plot.narrow, plot.caption))), asking(fit, id)];
  const views = {};
  const { changes, policy } = fit;
  if (changes.rows.length) views["What changes"] = () => [table(changes.header, changes.rows, { pick: (r) => showState(id, { place: changes.places[r] }), pickLabel: (r) => `Explain ${changes.rows[r].slice(0, policy.names.length).join(", ")}`, narrow: ["changed", "worth", "rows"], label: "What changes" }), h("p", { class: "muted" }, changes.below)];
  if (policy.names.length <= 2 && policy.states.length <= 3000) views.Map = () => policyMap(policy, id);
  views.Table = () => policyTable(policy, id);
  if (fit.rules) views.Rules = () => rules(fit.rules);
  return [h("p", {}, fit.changed), tabs(views, "policy")];
}

const rules = (found) => [h("ol", { class: "rules" }, found.rules.map(([conditions, action, share]) => h("li", {}, conditions.length ? ["if ", h("span", {}, conditions.join(" and ")), ": "] : "always: ", h("b", {}, h("bdi", {}, action)), share && h("span", { class: "muted" }, `, ${share} of decisions`)))), h("p", { class: "muted" }, rich(found.below))];

// ---- the policy as a map: one or two columns of the state, a cell each, the new policy beside what was done

export function policyMap(policy, id) {
  const at = policy.names.map((_, i) => [...new Set(policy.states.map((st) => st.label[i]))].sort((a, b) => policy.numeric[i] ? a - b : binOrder(a) - binOrder(b) || String(a).localeCompare(String(b))));
  const down = at.length === 1 || at[0].length >= at[1].length ? 0 : 1, across = at.length === 1 ? null : 1 - down;
  const key = (y, x) => JSON.stringify([y, x]);
  const places = new Map(policy.states.map((st) => [key(st.label[down], across === null ? null : st.label[across]), st]));
  const cell = (st, which, rows) => st ? h("td", { class: rows < 10 ? "thin" : "", style: { backgroundColor: policy.colours[which] } },
    h("button", { type: "button", title: `${policy.actions[which]}: ${rows.toLocaleString("en")} rows`, "aria-label": `${policy.names.map((n, i) => `${n} ${st.label[i]}`).join(", ")}: ${policy.actions[which]}, ${rows.toLocaleString("en")} rows`, onclick: () => showState(id, { place: st.place }) }, h("bdi", {}, policy.actions[which]))) : h("td", {});
  const panel = (title, of) => {
    const xs = across === null ? [null] : at[across];
    return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, h("table", { class: "map" }, h("caption", {}, title),
      h("thead", {}, across !== null && h("tr", {}, h("td", {}), h("th", { colspan: xs.length, scope: "colgroup" }, policy.names[across])), h("tr", {}, h("th", { scope: "col" }, policy.names[down]), across === null ? h("th", { scope: "col" }, "action") : xs.map((x) => h("th", { scope: "col" }, h("bdi", {}, String(x)))))),
      h("tbody", {}, at[down].map((y) => h("tr", {}, h("th", { scope: "row" }, h("bdi", {}, String(y))), xs.map((x) => { const st = places.get(key(y, x)); return cell(st, ...(st ? of(st) : [])); }))))));
  };
  const letters = Math.max(...policy.actions.map((action) => String(action).length)), wide = across !== null && at[across].length * Math.min(11, Math.max(2, letters)) > 40;
  return [h("div", { class: `maps ${wide ? "stacked" : ""}` }, panel("new policy", (st) => [st.do, st.rows]), panel("so far, most often", (st) => [st.usual, st.usual_rows])), legend(policy)];
}

const binOrder = (label) => { const found = /^(?:<|>=|\[)\s*(-?[\d.e+-]+)/.exec(String(label)); return found ? Number(found[1]) - (String(label).startsWith("<") ? 1e-9 : 0) : 0; };

function legend(policy) {
  const used = [...new Set(policy.states.flatMap((st) => [st.do, st.usual]))].sort((a, b) => a - b);
  return h("div", { class: "key" }, used.map((a) => h("span", {}, h("i", { class: "swatch", style: { backgroundColor: policy.colours[a] } }), h("bdi", {}, policy.actions[a]))), h("span", {}, h("i", { class: "swatch thin" }), "fewer than 10 rows"), h("span", { class: "muted" }, "Choose a cell to see why."));
}

function map2(grid) {
  const xs = [...new Set(grid.cells.map((c) => c[0]))], ys = [...new Set(grid.cells.map((c) => c[1]))].reverse();
  const at = new Map(grid.cells.map((c) => [`${c[0]} ${c[1]}`, c]));
  return h("figure", {}, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The action by two columns" }, h("table", { class: "map dense" }, h("caption", {}, `By ${grid.names[0]} (across) and ${grid.names[1]} (down)`), h("thead", {}, h("tr", {}, h("td", {}), xs.map((x) => h("th", { scope: "col" }, x)))), h("tbody", {}, ys.map((y) => h("tr", {}, h("th", { scope: "row" }, y), xs.map((x) => { const c = at.get(`${x} ${y}`); return c ? h("td", { class: c[3] < 10 ? "thin" : "", style: { backgroundColor: grid.colours[c[2]] }, title: `${grid.actions[c[2]]}: ${c[3]} rows` }, h("bdi", {}, grid.actions[c[2]])) : h("td", {}); })))))),
    h("figcaption", {}, "Where all other columns have their usual values. Hatched: few rows of the log are like this."));
}

function policyTable(policy, id) {
  const box = h("div", {}), step = 200;
  let wanted = "", many = step;
  const draw = () => {
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    const found = policy.states.filter((st) => words.every((word) => `${st.label.join(" ")} ${policy.actions[st.do]}`.toLowerCase().includes(word)));
    put(box, table([...policy.names, "do", "so far", "how often", "rows"], found.slice(0, many).map((st) => [...st.label, st.probability > 1 - 1e-9 ? policy.actions[st.do] : `${policy.actions[st.do]} (${percent(st.probability)})`, policy.actions[st.usual], percent(st.share), st.rows.toLocaleString("en")]), { pick: (r) => showState(id, { place: found[r].place }), pickLabel: (r) => `Explain ${found[r].label.join(", ")}`, label: "What to do in each state" }),
      h("p", { class: "muted" }, `${count(found.length, "state")}${policy.of > policy.states.length ? `; the ${policy.states.length.toLocaleString("en")} of ${policy.of.toLocaleString("en")} where most decisions are made, policy.csv has all` : ""}.`, found.length > many && h("button", { type: "button", class: "small", onclick: () => { many += 10 * step; draw(); } }, "Show more")));
  };
  draw();
  return [h("input", { type: "search", placeholder: "Search states and actions", "aria-label": "Search states and actions", oninput: (e) => { wanted = e.target.value; many = step; draw(); } }), box];
}

// ---- states of numbers: what would be done here?

function asking(fit, id) {
  const values = { ...fit.usual };
  return h("form", { class: "card ask", onsubmit: (e) => { e.preventDefault(); showState(id, { state: values }); } }, h("h3", {}, "What to do in one state, and why"),
    h("div", { class: "form" }, fit.columns.map((name) => h("label", { class: "field" }, h("span", {}, h("bdi", {}, name)), h("input", { value: values[name], type: typeof values[name] === "number" ? "number" : "text", step: "any", onchange: (e) => { values[name] = typeof fit.usual[name] === "number" ? Number(e.target.value) : e.target.value; } })))),
    h("button", { class: "primary" }, "Explain"));
}
