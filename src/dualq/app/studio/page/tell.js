import { post } from "./api.js";
import { ACCENT, INK, PALE, chart, spec } from "./chart.js";
import { count, h, head, note, number, percent, put, section } from "./dom.js";
import { understood } from "./mapping.js";
import { pairs } from "./pairs.js";

export async function tell({ main, id, signal }) {
  put(main, head("What the log can tell", "Counting the rows, and testing whether the system changed ..."), h("div", { class: "skeleton tall-block" }));
  const { log, columns, facts: said } = await understood(id, signal);
  const found = await post(`/logs/${id}/tell`, { columns }, signal);
  const next = h("a", { class: "button primary", href: `#/log/${id}/learn` }, "Learn");
  const title = head("What the log can tell", h("bdi", {}, log.name), next);
  const marks = found.summary ? tiles(found) : null;
  put(main, title,
    ...(found.warnings ?? []).map((words) => note(words, "warn")),
    found.numbers.length > 0 && note(`${found.numbers.join(", ")} ${found.numbers.length === 1 ? "stays a number" : "stay numbers"}: few values come again, so there are no counts per state. dualq learns a function of them, and tests the log while it learns.`),
    marks,
    found.findings && section("What was tested", h("ul", { class: "tests" }, found.findings.map((f) => h("li", { class: f.found && f.what !== "behaviour" ? "bad" : f.tested ? "good" : "open" }, h("span", { class: "mark", "aria-hidden": "true" }), h("span", {}, h("b", {}, f.what), ": ", f.words, ".")))), found.findings.length === 0 && h("p", { class: "muted" }, "The rows have no order in time, so nobody can test whether the system changed.")),
    found.pairs && section("Rows per state and action", h("p", { class: "muted" }, "dualq considers only actions that the log has tried in a state, and judges rarely tried ones cautiously. Darker: more rows. 0: never tried."), pairs(found.pairs, found.actions)),
    found.over && section("Over time", overTime(found.over, found.actions)),
    section("Rewards and costs", h("div", { class: "charts" }, found.spread.map(histogram))),
    said?.length > 0 && section("Episodes and clock", h("ul", { class: "plain" }, said.map((words) => h("li", {}, words)))),
    (found.notes ?? found.remarks)?.length > 0 && section("Notes", h("ul", { class: "plain" }, (found.notes ?? found.remarks).map((words) => h("li", {}, words)))));
}

const tile = (name, value, below) => h("div", { class: "tile" }, h("span", { class: "tile-name" }, name), h("span", { class: "tile-value" }, value), below && h("span", { class: "muted" }, below));

function tiles(found) {
  const { summary } = found;
  return h("div", { class: "tiles" },
    tile("rows", found.rows.toLocaleString("en"), found.dropped ? `${count(found.dropped, "row")} left out: nobody saw what followed` : "all of them used"),
    tile("states", summary.states.toLocaleString("en")), tile("actions", summary.actions.toLocaleString("en")),
    tile("combinations tried", percent(summary.supported_pairs / (summary.states * summary.actions)), `${summary.supported_pairs.toLocaleString("en")} of ${(summary.states * summary.actions).toLocaleString("en")}${summary.thin_pairs ? `, ${summary.thin_pairs.toLocaleString("en")} in fewer than 10 rows` : ""}`),
    tile("mean reward", number(found.reward), Object.entries(found.costs).map(([name, x]) => `${name} ${number(x)}`).join(", ") || "per row"));
}

function histogram(found) {
  const values = found.rows.map((n, i) => ({ low: found.edges[i], high: found.edges[i + 1], rows: n }));
  const draw = (width) => spec(width, 150, { data: { values }, mark: { type: "bar", color: ACCENT, aria: false }, encoding: { x: { field: "low", type: "quantitative", bin: { binned: true }, title: found.column, axis: { grid: false, tickCount: 6 } }, x2: { field: "high" }, y: { field: "rows", type: "quantitative", title: null, axis: { tickCount: 3, format: "~s" } } } });
  return chart(draw(420), draw(340), `How ${found.column} is spread: rows by value.`);
}

function overTime(over, actions) {
  const at = over.edges.slice(0, -1), values = at.map((when, i) => ({ i, when, reward: over.reward[i], rows: over.rows[i] })).filter((row) => row.reward !== null);
  const taken = at.flatMap((when, i) => actions.map((action, a) => ({ i, when, action, order: a, share: over.rows[i] ? over.actions[i][a] / over.rows[i] : 0 })));
  const some = (width) => at.filter((_, i) => i % Math.max(1, Math.ceil(at.length / (width / 90))) === 0);
  const x = (width) => ({ field: "when", type: "ordinal", sort: null, title: over.by, axis: { grid: false, labelAngle: 0, values: some(width) } });
  const reward = (width) => spec(width, 170, { data: { values }, layer: [{ mark: { type: "line", color: ACCENT, strokeWidth: 2, aria: false } }, { mark: { type: "point", filled: true, color: ACCENT, size: 30, aria: false } }], encoding: { x: x(width), y: { field: "reward", type: "quantitative", title: null, scale: { zero: false }, axis: { tickCount: 4 } } } });
  const shares = (width) => spec(width, 190, { data: { values: taken }, mark: { type: "bar", aria: false }, encoding: { x: x(width), y: { field: "share", type: "quantitative", stack: "normalize", title: null, axis: { format: "%", tickCount: 4 } }, order: { field: "order" }, color: { field: "action", type: "nominal", sort: actions, scale: { domain: actions, range: COLOURS }, legend: { title: null, orient: "top", labelColor: INK, labelFontSize: 13, columns: Math.max(2, Math.floor(width / 130)), symbolStrokeColor: PALE, labelLimit: 120 } } } });
  return h("div", { class: "charts" }, chart(reward(420), reward(340), "The mean reward, period by period."), chart(shares(420), shares(340), "How often each action was taken, period by period. A change of who decides, or how, is fine."));
}

const COLOURS = ["#8dd3c7", "#fdb462", "#bebada", "#fb8072", "#80b1d3", "#b3de69", "#fccde5", "#ffed6f", "#c79fc8", "#d9d9d9"];
