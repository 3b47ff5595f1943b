import { post } from "./api.js";
import { drawer, h, note, put, table } from "./dom.js";

// One state in the drawer: every action with its rows, what it earns, what came after; the rows of the log behind it.
export async function showState(run, asked) {
  drawer("One state", h("div", { class: "skeleton tall-block" }));
  let found;
  try { found = await post(`/runs/${run}/state`, asked); } catch (error) { drawer("One state", note(error.message, "warn")); return; }
  const behind = h("div", {});
  const rows = async (action) => {
    put(behind, h("p", { class: "muted" }, "Looking for the rows ..."));
    try {
      const got = await post(`/runs/${run}/rows`, { state: found.state, action: action?.label });
      put(behind, h("h3", {}, action ? `Rows of the log with ${action.said}` : "Rows of the log"), got.rows.length ? table(got.names, got.rows, { label: "Rows of the log" }) : h("p", { class: "muted" }, "There are none."), got.rows.length === 20 && h("p", { class: "muted" }, "The first 20."));
    } catch (error) { put(behind, note(error.message)); }
  };
  drawer(found.title, h("p", {}, found.first),
    table(found.header, found.rows, { label: "Every action in this state" }),
    ranges(found),
    found.below.map((words) => h("p", { class: "muted" }, words)),
    found.successors.some((each) => each.length) && [h("h3", {}, "What came next"), h("div", { class: "after" }, found.successors.map((each, i) => each.length > 0 && h("div", { class: "card" },
      h("h4", {}, h("bdi", {}, found.actions[i].said), found.share[i] > 0 && h("span", { class: "tag sure" }, "new policy")),
      h("ul", { class: "next" }, each.map((one) => h("li", {}, h("span", { class: "next-bar", style: { width: one.share.startsWith("<") ? "1%" : one.share } }),
        one.place === null ? h("span", {}, one.words) : h("button", { type: "button", class: "link", onclick: () => showState(run, { place: one.place }) }, h("bdi", {}, one.words)), h("span", { class: "tabular" }, one.share), h("span", { class: "tabular muted", title: "mean reward" }, one.reward)))),
      h("button", { type: "button", class: "small", onclick: () => rows(found.actions[i]) }, "Rows behind it"))))],
    found.successors.length > 0 && h("p", {}, h("button", { type: "button", class: "small", onclick: () => rows(null) }, "All rows in this state")), behind);
}

// The intervals of the actions on one line each.
function ranges(found) {
  const known = found.intervals.filter(([low]) => low !== null);
  if (known.length < 2) return null;
  const low = Math.min(...known.map((x) => x[0])), high = Math.max(...known.map((x) => x[2])), wide = high - low || 1;
  const at = (x) => `${(100 * (x - low) / wide).toFixed(2)}%`;
  return h("div", { class: "ranges", "aria-hidden": "true" }, found.intervals.map(([a, v, b], i) => a !== null && h("div", { class: `range ${found.share[i] > 0 ? "chosen" : ""}` }, h("span", {}, h("bdi", {}, found.actions[i].said)), h("div", { class: "range-line" }, h("div", { class: "range-bar", style: { left: at(a), width: `${(100 * (b - a) / wide).toFixed(2)}%` } }), h("div", { class: "range-dot", style: { left: at(v) } })))));
}
