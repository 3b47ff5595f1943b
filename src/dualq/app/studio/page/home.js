import { drop, get, upload } from "./api.js";
import { bytes, h, head, note, put, say, section } from "./dom.js";
import { jobsList } from "./jobs.js";

const KINDS = "CSV, Parquet, Arrow, JSON, Excel, SQLite or DuckDB";

export async function home({ main, go, signal }) {
  const logs = await get("/logs", signal);
  const input = h("input", { type: "file", id: "file", class: "sr", accept: ".csv,.gz,.tsv,.txt,.parquet,.arrow,.feather,.jsonl,.ndjson,.json,.xlsx,.duckdb,.sqlite,.db", onchange: () => take(input.files[0]) });
  const status = h("div", { class: "upload", "aria-live": "polite" });
  const zone = h("label", {
    class: "drop", for: "file",
    ondragover: (e) => { e.preventDefault(); zone.classList.add("over"); },
    ondragleave: () => zone.classList.remove("over"),
    ondrop: (e) => { e.preventDefault(); zone.classList.remove("over"); take(e.dataTransfer.files[0]); },
  }, h("span", { class: "drop-title" }, "Drop a log here, or choose a file"), h("span", { class: "muted" }, `${KINDS}. It stays on this machine.`));

  async function take(file) {
    if (!file) return;
    const bar = h("progress", { max: 1, value: 0, "aria-label": `Reading ${file.name}` });
    const words = h("span", { class: "tabular" });
    const sent = upload(file, (loaded, total) => { bar.value = total ? loaded / total : 0; words.textContent = `${bytes(loaded)} of ${bytes(total)}`; });
    put(status, h("div", { class: "upload-row" }, h("bdi", {}, file.name), bar, words, h("button", { type: "button", class: "small", onclick: sent.stop }, "Stop")));
    try { const log = await sent.done; say(`${file.name} is here`); go(`/log/${log.id}/columns`); }
    catch (error) { put(status, note(error.message, "warn")); }
  }

  const example = logs.find((log) => log.kind === "example");
  put(main,
    head("Choose a log", "A log is a table with a row per decision: what was known, what was decided, what it earned, and when. dualq learns a better policy from it, and says how good it is."),
    h("div", { class: "start" }, h("div", {}, zone, input, status),
      example && h("a", { class: "card example", href: `#/log/${example.id}/columns` }, h("strong", {}, "Try the shipped example"), h("span", { class: "muted" }, "Orders of 68 shops over two years: stock and season, what was ordered, what it earned. It is simulated, so the truth is known."), h("span", { class: "go" }, "Open it"))),
    section("Logs here", logs.filter((log) => log.kind !== "example").length === 0 ? h("p", { class: "muted" }, "None yet.") : h("ul", { class: "list" }, logs.filter((log) => log.kind !== "example").map((log) => h("li", {},
      h("a", { href: `#/log/${log.id}/columns` }, h("bdi", {}, log.name)), h("span", { class: "muted tabular" }, bytes(log.size)),
      log.kind === "dropped" && h("button", { type: "button", class: "small quiet", "aria-label": `Delete ${log.name}`, onclick: async () => { await drop(`/logs/${log.id}`); home({ main, go, signal }); } }, "Delete"))))));
}

export async function runs({ main, go, signal, forget }) {
  const found = await get("/runs", signal);
  const job_box = h("div", {});
  put(main, head("Runs", "Each is a folder as `dualq learn --out` writes it; opening an old one learns nothing anew."),
    job_box,
    found.length === 0 ? h("p", { class: "muted" }, "No run yet. ", h("a", { href: "#/" }, "Choose a log"), " to learn from.") :
      h("div", { class: "cards" }, found.map((run) => card(run, async () => { await drop(`/runs/${run.id}`); forget("run"); runs({ main, go, signal, forget }); }))));
  jobsList(job_box, signal, () => runs({ main, go, signal, forget }));
}

function card(run, remove) {
  const when = new Date(run.written * 1000).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
  return h("article", { class: `card run ${kind(run.verdict)}` },
    h("h2", {}, h("a", { href: `#/run/${run.id}` }, h("bdi", {}, run.title))),
    h("p", { class: "verdict-word" }, run.verdict),
    h("dl", { class: "pairs" }, h("dt", {}, "expected"), h("dd", {}, run.expected), h("dt", {}, "so far"), h("dd", {}, run.logged), h("dt", {}, "guaranteed"), h("dd", {}, run.guaranteed || "nothing"), h("dt", {}, "limits"), h("dd", {}, run.limits.join(", ") || "none")),
    h("p", { class: "muted foot" }, h("span", {}, `${Number(run.rows).toLocaleString("en")} rows, ${when}`), h("button", { type: "button", class: "small quiet", "aria-label": `Delete ${run.title}`, onclick: remove }, "Delete")));
}

export const kind = (verdict) => String(verdict).replaceAll(" ", "-");
