import { h, number, put, s } from "./dom.js";

const W = 560, H = 120, FOOT = 22;
const round = (x) => Number(x.toPrecision(4));

// A histogram with the edges of bins as handles: dragged, or moved with the arrow keys; Delete takes one away.
export function binsEditor(name, found, edges, changed, cuts = true) {
  const low = found.edges[0], high = found.edges.at(-1), most = Math.max(1, ...found.rows);
  const at = (x) => (x - low) / (high - low) * W;
  const box = h("div", { class: "bins-draw" });
  edges = [...edges];

  function draw(focus) {
    const bars = found.rows.map((n, i) => s("rect", { x: at(found.edges[i]) + 0.5, width: Math.max(0.5, W / found.rows.length - 1), y: H - H * n / most, height: H * n / most, class: "bin-bar" }));
    const ends = [low, high].map((x, i) => s("text", { x: i ? W : 0, y: H + 16, class: "bin-text", "text-anchor": i ? "end" : "start" }, number(x)));
    const drawing = s("svg", { viewBox: `-8 -4 ${W + 16} ${H + FOOT + 4}`, class: "bins", role: "group", "aria-label": `How ${name} is spread, and where it is cut` }, bars, ends, edges.map(handle));
    put(box, drawing);
    if (focus !== undefined) drawing.querySelectorAll('[role="slider"]')[focus]?.focus();
  }

  function handle(x, i) {
    const group = s("g", { role: "slider", tabindex: 0, class: "edge", transform: `translate(${at(x)} 0)`, "aria-label": `${name}, edge ${i + 1} of ${edges.length}`, "aria-valuemin": low, "aria-valuemax": high, "aria-valuenow": round(x), onkeydown: key },
      s("line", { y1: -2, y2: H + 2 }), s("circle", { cy: H / 2, r: 7 }), s("text", { y: H + 16, "text-anchor": "middle", class: "bin-text strong" }, number(x)));
    function key(e) {
      const step = (high - low) / (e.shiftKey ? 20 : 100) * ({ ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[e.key] ?? 0);
      if (step) { e.preventDefault(); move(edges[i] + step); changed(tidy()); draw(edges.indexOf(edges[i])); }
      if ((e.key === "Delete" || e.key === "Backspace") && edges.length > 1) { e.preventDefault(); edges.splice(i, 1); changed(tidy()); draw(0); }
    }
    const move = (to) => { edges[i] = round(Math.min(high, Math.max(low, to))); };
    group.addEventListener("pointerdown", (e) => {
      e.preventDefault(); group.setPointerCapture(e.pointerId); group.classList.add("held");
      const svg = group.ownerSVGElement, frame = svg.getBoundingClientRect();
      const drag = (m) => { move(low + (((m.clientX - frame.left) / frame.width) * (W + 16) - 8) / W * (high - low)); group.setAttribute("transform", `translate(${at(edges[i])} 0)`); group.querySelector("text").textContent = number(edges[i]); };
      group.addEventListener("pointermove", drag);
      group.addEventListener("pointerup", () => { group.removeEventListener("pointermove", drag); changed(tidy()); draw(); }, { once: true });
    });
    return group;
  }

  const tidy = () => { edges = [...new Set(edges)].sort((a, b) => a - b); return edges; };
  draw();
  if (!cuts) return box;
  return h("div", {}, box, h("div", { class: "row" },
    h("button", { type: "button", class: "small", onclick: () => { edges.push(round(widest(low, high, edges))); changed(tidy()); draw(); } }, "Add an edge"),
    h("span", { class: "muted" }, edges.length ? `${edges.length + 1} bins. Drag an edge, or use the arrow keys; Delete takes it away.` : "Not cut.")));
}

function widest(low, high, edges) {
  const all = [low, ...edges, high];
  let best = 0;
  for (let i = 1; i < all.length - 1; i++) if (all[i + 1] - all[i] > all[best + 1] - all[best]) best = i;
  return (all[best] + all[best + 1]) / 2;
}
