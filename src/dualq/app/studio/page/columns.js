import { post } from "./api.js";
import { binsEditor } from "./bins.js";
import { bytes, copyable, count, h, head, note, put, say, section } from "./dom.js";
import { PARTS, asked, choose, fresh, logOf, oddWords, remember, stopWords, stopsOf } from "./mapping.js";

export async function columns({ main, id, signal }) {
  const { log, chosen } = await logOf(id, signal);
  const reading = (words) => h("p", { class: "reading", role: "status" }, words);
  const boxes = { preview: h("div", { class: "preview" }, reading(`Reading the first rows (${bytes(log.size)} in all) ...`)), board: h("div", { class: "board" }, reading("Reading the log: its first rows ...")), told: h("div", {}), bins: h("div", {}), lines: h("div", {}), open: h("div", {}) };
  const next = h("a", { class: "button primary", href: `#/log/${id}/tell`, "aria-disabled": "true" }, "What the log can tell");
  put(main,
    head(log.name, "Which part does each column play? dualq has guessed, and says why. Change what is wrong.",
      h("button", { type: "button", class: "quiet", onclick: () => { Object.assign(chosen, fresh()); again(); } }, "Guess again"), next),
    boxes.open, boxes.board, boxes.told,
    h("section", {}, h("h2", {}, "The first rows"), boxes.preview),
    boxes.bins,
    section("The same without clicking", boxes.lines));

  let seen = null, preview = null, turn = 0;
  const opening = () => Object.fromEntries(Object.entries(chosen.more).filter(([name]) => ["table", "delimiter", "columns"].includes(name)));

  async function first() {
    try { preview = await post(`/logs/${id}/preview`, { columns: opening() }, signal); drawPreview(); put(boxes.open); }
    catch (error) { if (signal.aborted) return; cannotOpen(error); throw error; }
  }

  async function again() {
    choose(id, chosen);
    const mine = ++turn;
    boxes.told.classList.add("waiting");
    if (!seen) put(boxes.board, reading("Reading the log: all its rows, for the part that each column plays, episodes and clock, and bad rows ..."));
    say("Looking at the log");
    try {
      const found = await post(`/logs/${id}/look`, { columns: asked(chosen, log.columns) }, signal);
      if (mine !== turn) return;
      seen = found;
      if (!chosen.edited) chosen.parts = { ...seen.parts };
      else for (const part of ["state", "action", "reward"]) if (!chosen.parts[part]?.length && seen.parts[part]) chosen.parts[part] = seen.parts[part];
      remember(log, chosen, seen); choose(id, chosen);
      drawBoard(); drawTold(); drawPreview(); drawBins(); drawLines();
      const ready = seen.lines && ["state", "action", "reward"].every((part) => seen.parts[part]?.length) && !stopsOf(seen, chosen).length;
      next.setAttribute("aria-disabled", String(!ready));
      say(ready ? "The log can be read" : "The log cannot be read yet");
    } catch (error) {
      if (signal.aborted || mine !== turn) return;
      put(boxes.told, note(error.message, "warn")); next.setAttribute("aria-disabled", "true");
    } finally { if (mine === turn) boxes.told.classList.remove("waiting"); }
  }

  function cannotOpen(error) {
    put(boxes.preview); put(boxes.board); put(boxes.told);
    const field = (name, label, hint) => h("label", { class: "field" }, h("span", {}, label), h("input", { value: chosen.more[name] ?? "", placeholder: hint, onchange: (e) => { if (e.target.value) chosen.more[name] = e.target.value; else delete chosen.more[name]; choose(id, chosen); start(); } }));
    put(boxes.open, h("div", { class: "note warn", role: "alert" }, error.message), h("div", { class: "row" }, field("table", "Table or sheet", "orders"), field("delimiter", "Delimiter", ";")));
  }

  const partOf = (column) => PARTS.find(([part]) => chosen.parts[part]?.includes(column))?.[0] ?? "";

  function give(column, part) {
    for (const [one] of PARTS) chosen.parts[one] = (chosen.parts[one] ?? []).filter((name) => name !== column && name !== "row");
    if (part) {
      const many = ["state", "action", "next_state", "episode", "costs"].includes(part);
      chosen.parts[part] = many ? [...chosen.parts[part], column] : [column];
    }
    chosen.edited = true;
    if (part !== "state" && chosen.bins && typeof chosen.bins === "object") delete chosen.bins[column];
    drawBoard(); drawPreview();
    clearTimeout(give.later); give.later = setTimeout(again, 200);
  }

  // ---- the board: parts, with the columns that play them

  function drawBoard() {
    const of = (name) => seen.columns.find((c) => c.name === name);
    const chip = (name) => h("span", { class: "chip", draggable: "true", ondragstart: (e) => { e.dataTransfer.setData("text/plain", name); e.dataTransfer.effectAllowed = "move"; }, title: seen.why[name] ?? "" }, h("bdi", {}, name), h("span", { class: "kind" }, of(name)?.kind ?? ""));
    const zone = ([part, words, hint]) => {
      const names = part ? (chosen.parts[part] ?? []) : seen.columns.map((c) => c.name).filter((name) => !partOf(name));
      const box = h("div", {
        class: `zone ${["state", "action", "reward"].includes(part) && !names.length ? "missing" : ""} ${part ? "" : "unused"}`,
        ondragover: (e) => { e.preventDefault(); box.classList.add("over"); }, ondragleave: () => box.classList.remove("over"),
        ondrop: (e) => { e.preventDefault(); const name = e.dataTransfer.getData("text/plain"); if (seen.columns.some((c) => c.name === name)) give(name, part); },
      }, h("div", { class: "zone-name" }, h("strong", {}, words), seen.unsure.includes(part) && !chosen.edited && h("span", { class: "tag warn" }, "a guess"), h("span", { class: "muted" }, hint)),
      h("div", { class: "chips" }, names.map((name) => name === "row" ? h("span", { class: "chip fixed" }, "the order of the rows") : chip(name))));
      return box;
    };
    put(boxes.board, [...PARTS, ["", "Not used", "drag a column here to leave it out"]].map(zone));
  }

  // ---- what was found

  function drawTold() {
    const answers = (seen.answers ?? []).map((ways, i) => h("fieldset", { class: "question" }, h("legend", {}, "Which is right?"), ways.map((way) => h("label", {}, h("input", { type: "radio", name: `q${i}`, onchange: () => answer(way.say) }), way.when))));
    const wrong = seen.bad.map((bad) => h("li", {}, bad.words));
    const stops = stopWords(seen), odd = oddWords(seen);
    const aside = h("label", { class: "check" }, h("input", { type: "checkbox", checked: Boolean(chosen.more.skip_bad), onchange: (e) => { if (e.target.checked) chosen.more.skip_bad = true; else delete chosen.more.skip_bad; again(); } }), "Set bad rows aside, and learn from the others");
    put(boxes.told,
      (stops.length > 0 || wrong.length > 0 || chosen.more.skip_bad) && h("div", { class: "note warn", role: "alert" },
        wrong.length ? [h("strong", {}, "Bad rows"), h("ul", {}, wrong)] : stops.map((words) => h("p", {}, words)), (wrong.length > 0 || chosen.more.skip_bad) && aside),
      (seen.doubts.length > 0 || answers.length > 0) && h("div", { class: "note" }, h("strong", {}, "Decide"), h("ul", {}, seen.doubts.map((words) => h("li", {}, words))), answers),
      odd.length > 0 && h("div", { class: "note" }, h("strong", {}, "Suspicious"), h("ul", {}, odd.map((words) => h("li", {}, words)))),
      h("ul", { class: "plain" }, [...seen.facts, ...seen.notes].map((words) => h("li", {}, words)), h("li", {}, `${count(seen.rows, "row")} in all.`)));
  }

  function answer(said) {
    for (const [name, value] of Object.entries(said)) {
      if (name === "discount") chosen.learning.discount = value;
      else if (["terminal", "truncated"].includes(name) && chosen.edited) chosen.parts[name] = [value];
      else chosen.more[name] = value;
    }
    again();
  }

  // ---- the first rows

  function drawPreview() {
    if (!preview) return;
    const select = (name) => h("select", { "aria-label": `Part of ${name}`, onchange: (e) => give(name, e.target.value) }, h("option", { value: "" }, "not used"), PARTS.map(([part, words]) => h("option", { value: part, selected: partOf(name) === part }, words)));
    const of = (name) => seen?.columns.find((c) => c.name === name);
    const right = preview.kinds.map((kind) => kind === "integer" || kind === "number");
    put(boxes.preview, h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "The first rows" }, h("table", { class: "rows" },
      h("thead", {}, h("tr", {}, preview.names.map((name, i) => h("th", { scope: "col", class: `${partOf(name) ? "used" : ""} ${right[i] ? "number" : ""}` },
        h("div", { class: "col-name" }, h("bdi", {}, name)), seen ? select(name) : h("div", { class: "select-room" }),
        h("div", { class: "col-why muted" }, seen ? `${preview.kinds[i]}, ${of(name) ? `${of(name).different.toLocaleString("en")} distinct` : ""}${of(name)?.missing ? `, ${of(name).missing.toLocaleString("en")} missing` : ""}` : preview.kinds[i]),
        h("div", { class: "col-why muted" }, seen?.why[name] ?? "\u00a0"))))),
      h("tbody", {}, preview.rows.map((row) => h("tr", {}, row.map((cell, i) => h("td", { class: right[i] ? "number" : "" }, cell === null ? h("span", { class: "none" }, "missing") : h("bdi", {}, typeof cell === "number" ? String(Number(cell.toPrecision(7))) : String(cell))))))))));
  }

  // ---- bins

  function drawBins() {
    const drawn = Object.entries(seen.histograms ?? {}).filter(([, found]) => found);
    if (!drawn.length) { put(boxes.bins); return; }
    put(boxes.bins, h("section", {}, h("h2", {}, "Numbers of the state"),
      h("p", { class: "muted" }, "A number may be a label as it is, be cut into bins, or stay a number: then dualq learns a function of it."),
      h("div", { class: "cards" }, drawn.map(([name, found]) => h("article", { class: "card" }, binsOf(name, found))))));
  }

  function binsOf(name, found) {
    const proposed = seen.proposed.bins;
    const now = proposed === "auto" ? "auto" : proposed?.[name];
    const mode = seen.numbers.includes(name) ? "number" : now === undefined ? "label" : now === "auto" ? "auto" : "bins";
    const edges = Array.isArray(now) ? now : seen.edges[name] ?? [];
    const set = (value, numbers) => {
      const bins = typeof chosen.bins === "object" && chosen.bins ? { ...chosen.bins } : typeof proposed === "object" && proposed ? { ...proposed } : {};
      if (value === undefined) delete bins[name]; else bins[name] = value;
      chosen.bins = bins; chosen.numbers = numbers ? [...new Set([...(chosen.numbers ?? []), name])] : (chosen.numbers ?? []).filter((one) => one !== name);
      choose(id, chosen);
      clearTimeout(set.later); set.later = setTimeout(again, 300);
    };
    const choice = h("select", { "aria-label": `How ${name} is read`, onchange: (e) => ({ label: () => set(undefined), bins: () => set(4), auto: () => set("auto"), number: () => set(undefined, true) })[e.target.value]() },
      [["label", "a label for each value"], ["bins", "cut into bins"], ["auto", "cut where it predicts most"], ["number", "stays a number"]].filter(([key]) => key !== "label" || mode === "label" || !seen.numbers.includes(name)).map(([key, words]) => h("option", { value: key, selected: key === mode }, words)));
    const many = mode === "bins" && h("label", { class: "inline" }, "bins ", h("input", { type: "number", min: 2, max: 50, value: edges.length + 1, "aria-label": `How many bins of ${name}`, onchange: (e) => set(Math.min(50, Math.max(2, Math.round(Number(e.target.value) || 4)))) }));
    return [h("div", { class: "row spread" }, h("h3", {}, h("bdi", {}, name)), h("span", { class: "row" }, choice, many)),
      binsEditor(name, found, mode === "bins" || mode === "auto" ? edges : [], (moved) => set(moved), mode !== "number")];
  }

  // ---- the same without clicking

  function drawLines() {
    if (!seen.lines) { put(boxes.lines); return; }
    put(boxes.lines, copyable("Command line", seen.lines[0]), copyable("Python", `import dualq\nfit = ${seen.lines[1]}`));
  }

  async function start() { await first(); await again(); }
  try { await first(); } catch { return; }
  again();
}
