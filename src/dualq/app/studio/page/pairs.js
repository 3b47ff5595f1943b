import { h, put } from "./dom.js";

const HIGH = [26, 12, 5, 2]; // pixels of a row, from near to far
const VIEW = 420;

// Rows per pair of state and action: a line for each state, only those in sight are drawn; searched, and seen from afar.
export function pairs(found, actions) {
  let shown = found.states.map((_, i) => i), zoom = found.states.length > 400 ? 2 : 0;
  const most = Math.max(1, ...found.rows.map((row) => Math.max(...row)));
  const view = h("div", { class: "pairs-view", tabindex: 0, role: "region", "aria-label": "Rows per state and action", onscroll: () => draw() });
  const tall = h("div", {});
  const lines = h("div", { class: "pairs-lines" });
  view.append(tall, lines);
  const words = h("span", { class: "muted tabular", role: "status" });
  const level = (n) => 0.06 + 0.42 * Math.log1p(n) / Math.log1p(most); // letters stay legible on all of them
  const cellStyle = (n) => ({ backgroundColor: n === 0 ? "" : `color-mix(in srgb, var(--accent) ${Math.round(100 * level(n))}%, var(--paper))` });

  function draw() {
    const high = HIGH[zoom], first = Math.max(0, Math.floor(view.scrollTop / high) - 2), number = Math.ceil(VIEW / high) + 4;
    tall.style.height = `${shown.length * high}px`;
    lines.style.transform = `translateY(${first * high}px)`;
    const visible = shown.slice(first, first + number);
    put(lines, visible.map((i) => h("div", { class: `pairs-line z${zoom}`, style: { height: `${high}px`, gridTemplateColumns: `minmax(7rem, 16rem) repeat(${actions.length}, minmax(${zoom ? 4 : 56}px, 1fr))` }, title: zoom ? `${found.states[i]}: ${found.rows[i].map((n, a) => `${actions[a]} ${n.toLocaleString("en")}`).join(", ")}` : undefined },
      h("span", { class: "pairs-state" }, zoom < 2 && h("bdi", {}, found.states[i])), found.rows[i].map((n) => h("span", { class: n === 0 ? "pairs-cell never" : "pairs-cell", style: cellStyle(n) }, zoom === 0 && n.toLocaleString("en"))))));
    words.textContent = shown.length === found.states.length ? `${shown.length.toLocaleString("en")} of ${found.of.toLocaleString("en")} states` : `${shown.length.toLocaleString("en")} of ${found.states.length.toLocaleString("en")} states match`;
  }

  const search = h("input", { type: "search", placeholder: "Search states", "aria-label": "Search states", oninput: () => {
    const wanted = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    shown = found.states.map((_, i) => i).filter((i) => wanted.every((word) => found.states[i].toLowerCase().includes(word)));
    view.scrollTop = 0; draw();
  } });
  const nearer = (by) => { zoom = Math.min(HIGH.length - 1, Math.max(0, zoom + by)); draw(); };
  const header = h("div", { class: "pairs-line pairs-header", style: { gridTemplateColumns: `minmax(7rem, 16rem) repeat(${actions.length}, minmax(${zoom ? 4 : 56}px, 1fr))` } }, h("span", {}, "state"), actions.map((a) => h("span", { class: "number" }, h("bdi", {}, a))));
  draw();
  view.style.maxHeight = `${Math.min(VIEW, found.states.length * HIGH[0] + 4)}px`;
  return h("div", { class: "pairs" }, h("div", { class: "row spread" }, h("span", { class: "row" }, search, words),
    h("span", { class: "row" }, h("button", { type: "button", class: "small", "aria-label": "Zoom out", onclick: () => nearer(1) }, "−"), h("button", { type: "button", class: "small", "aria-label": "Zoom in", onclick: () => nearer(-1) }, "+"))),
    h("div", { class: "pairs-frame" }, header, view));
}
