// Charts: Vega-Lite, from the same specifications as the report. The library is loaded when the first chart is drawn; its
// expressions are interpreted, so that the page needs no eval. Colours follow the page's inks (studio.css), dark ones too.
import { h } from "./dom.js";

let library;
function loaded() {
  library ??= ["vega", "vega-lite", "vega-embed"].reduce((before, name) => before.then(() => new Promise((resolve, reject) => {
    document.head.append(h("script", { src: `vendor/${name}.min.js`, onload: resolve, onerror: () => reject(new Error(`cannot load ${name}`)) }));
  })), Promise.resolve());
  return library;
}

export const INK = "#1f2933", ACCENT = "#1f5fa8", SURE = "#2f7d4f", MUTED = "#7b8794", PALE = "#e4e7eb";
const axis = { labelColor: MUTED, titleColor: INK, gridColor: PALE, tickColor: PALE, labelFontSize: 13, titleFontSize: 13, titleFontWeight: "normal", domain: false, ticks: false, labelPadding: 8 };
export const config = { font: "Helvetica, Arial, sans-serif", background: "white", view: { stroke: null }, axis, text: { fontSize: 13 } };

export const spec = (width, height, rest) => ({
  $schema: "https://vega.github.io/schema/vega-lite/v6.json", width, height, padding: 2,
  autosize: { type: "fit", contains: "padding" }, config, ...rest,
});

const narrow = matchMedia("(max-width: 640px)");

// A figure with a chart: wide and slim are specifications for both kinds of screens. view(v) gets the drawing, to change it.
export function chart(wide, slim, caption, { view, label } = {}) {
  const chosen = () => (narrow.matches && slim ? slim : wide);
  const box = h("div", { class: "chart", role: "img", "aria-label": label ?? caption });
  const size = () => { const one = chosen(); box.style.aspectRatio = `${one.width} / ${one.height}`; box.style.maxWidth = `${one.width}px`; };
  size();
  async function draw() {
    await loaded();
    if (!box.isConnected && box.dataset.drawn) return;
    size();
    const clear = { ...chosen(), background: "transparent", config: { ...chosen().config, background: "transparent" } };
    const drawn = await window.vegaEmbed(box, clear, { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: false });
    box.dataset.drawn = "yes";
    const svg = box.querySelector("svg");
    svg.setAttribute("aria-hidden", "true");
    svg.removeAttribute("width"); svg.removeAttribute("height");
    view?.(drawn.view);
  }
  draw().catch((error) => { box.textContent = "The chart could not be drawn."; console.error(error); });
  narrow.addEventListener("change", () => { if (box.isConnected) draw(); });
  return h("figure", {}, box, caption && h("figcaption", {}, caption));
}
