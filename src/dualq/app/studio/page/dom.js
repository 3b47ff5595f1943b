// The page is made of elements, and text is always text: no markup is ever read from a string.

export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (name === "value" || name === "checked" || name === "selected" || name === "disabled") node[name] = value;
    else if (value === true) node.setAttribute(name, "");
    else node.setAttribute(name, String(value));
  }
  add(node, children);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

export function s(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null) node.setAttribute(name, String(value));
  }
  add(node, children);
  return node;
}

export function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    node.append(child instanceof Node ? child : String(child).replaceAll(" ± ", "\u00a0±\u00a0"));
  }
  return node;
}

export const put = (node, ...children) => { node.replaceChildren(); return add(node, children); };

export const say = (words) => { document.getElementById("live").textContent = words; };

export const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

export const number = (x) => x === null || x === undefined ? "" :
  Math.abs(x) >= 1e4 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(4)));

export const percent = (x) => x >= 0.0995 || x === 0 ? `${Math.round(100 * x)}%` : x < 1e-4 ? "< 0.01%" : `${Number((100 * x).toPrecision(2))}%`;

export const bytes = (n) => n >= 1e9 ? `${(n / 1e9).toFixed(2)} GB` : n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : `${Math.max(1, Math.round(n / 1e3))} KB`;

const numeric = (cell) => cell !== "" && cell !== null && /^[\d,.\-+±%e<> to]*$/.test(String(cell)) && /\d/.test(String(cell));

// A table; columns in which every cell is a number stand at the right. pick(i) is called with the row that was chosen.
export function table(header, rows, { pick, label, pickLabel, narrow = [], caption } = {}) {
  const right = header.map((_, i) => rows.length > 0 && rows.every((row) => row[i] === "" || row[i] === null || numeric(row[i])));
  const kind = (i) => [right[i] ? "number" : "", narrow.includes(header[i]) ? "wide" : ""].join(" ").trim() || undefined;
  const head = h("tr", {}, header.map((name, i) => h("th", { scope: "col", class: kind(i) }, name === "" ? h("span", { class: "sr" }, "what") : name)));
  const body = rows.map((row, r) => h("tr", pick ? { class: "pick", onclick: () => pick(r) } : {},
    row.map((cell, i) => h("td", { class: kind(i) }, i === 0 && pick
      ? h("button", { class: "link", type: "button", "aria-label": pickLabel ? pickLabel(r) : undefined, onclick: (e) => { e.stopPropagation(); pick(r); } }, cellText(cell))
      : cellText(cell)))));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label ?? caption ?? header.filter(Boolean).join(", ") },
    h("table", {}, caption && h("caption", { class: "sr" }, caption), h("thead", {}, head), h("tbody", {}, body)));
}

const cellText = (cell) => cell === null ? h("span", { class: "none" }, "missing") : h("bdi", {}, String(cell));

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

export const section = (title, ...children) => h("section", {}, h("h2", {}, title), ...children);

// What stands in backticks is what one types.
export const rich = (words) => typeof words !== "string" ? words : words.split("`").map((part, i) => i % 2 ? h("code", {}, part) : part);

export const note = (words, kind = "") => h("div", { class: `note ${kind}` }, rich(words));

export function head(title, lead, ...more) {
  document.title = `${title} · dualq studio`;
  return h("div", { class: "head" }, h("div", {}, h("h1", { tabindex: -1 }, h("bdi", {}, title)), lead && h("p", { class: "lead" }, rich(lead))), h("div", { class: "actions" }, ...more));
}

export function copyable(name, text) {
  const button = h("button", { type: "button", class: "small", "aria-label": `Copy: ${name}` }, "Copy");
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; say("Copied"); }
    catch { getSelection().selectAllChildren(code); button.textContent = "Press Ctrl+C"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
  const code = h("code", { tabindex: 0 }, text);
  return h("div", { class: "copy" }, h("div", { class: "copy-head" }, h("span", {}, name), button), h("pre", {}, code));
}

export function tabs(named, label) {
  const body = h("div", { class: "tab-body", role: "tabpanel", tabindex: 0 });
  const names = Object.keys(named);
  const buttons = names.map((name, i) => h("button", {
    type: "button", role: "tab", id: `tab-${label}-${i}`, "aria-selected": "false", tabindex: -1,
    onclick: () => show(i),
    onkeydown: (e) => { const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: names.length - 1 }[e.key]; if (to !== undefined) { e.preventDefault(); show((to + names.length) % names.length, true); } },
  }, name));
  function show(i, focus) {
    buttons.forEach((b, j) => { b.setAttribute("aria-selected", String(i === j)); b.tabIndex = i === j ? 0 : -1; });
    body.setAttribute("aria-labelledby", buttons[i].id);
    put(body, named[names[i]]());
    if (focus) buttons[i].focus();
  }
  show(0);
  return h("div", { class: "tabs" }, h("div", { class: "tab-list", role: "tablist", "aria-label": label }, buttons), body);
}

// One drawer for what is looked at beside the page; Esc closes it, and the focus goes back.
export function drawer(title, ...children) {
  const box = document.getElementById("drawer");
  put(box,
    h("div", { class: "drawer-head" }, h("h2", { id: "drawer-title", tabindex: -1 }, h("bdi", {}, title)),
      h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => box.close() }, "×")),
    h("div", { class: "drawer-body" }, ...children));
  if (!box.open) box.showModal();
  box.querySelector("h2").focus();
  return box;
}

document.getElementById("drawer")?.addEventListener("click", (e) => { if (e.target === e.currentTarget) e.currentTarget.close(); });
