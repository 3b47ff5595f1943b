import { get, kept } from "./api.js";
import { h, put, say } from "./dom.js";
import { home, runs } from "./home.js";
import { columns } from "./columns.js";
import { tell } from "./tell.js";
import { learn } from "./learn.js";
import { decision } from "./decision.js";
import { limits } from "./limits.js";
import { data, report } from "./away.js";
import { compare } from "./compare.js";

const main = document.getElementById("main");
const LOG = [["columns", "Columns", columns], ["tell", "What it can tell", tell], ["learn", "Learn", learn]];
const RUN = [["", "Decision", decision], ["limits", "Limits", limits], ["data", "Data that helps", data], ["report", "Report and export", report]];
const here = { log: kept.get("log"), run: kept.get("run") };
let leaving = new AbortController();

function steps(path) {
  const link = (to, words, off) => h("a", { href: off ? undefined : `#${to}`, "aria-disabled": off ? "true" : undefined, role: off ? "link" : undefined, "aria-current": `#${to}` === `#${path}` ? "page" : undefined }, words);
  const { log, run } = here;
  put(document.getElementById("steps"),
    h("div", { class: "step-group", role: "group", "aria-label": "Log" }, h("span", { class: "step-name", "aria-hidden": "true" }, "Log"), link("/", "Choose a log"), LOG.map(([at, words]) => link(log ? `/log/${log}/${at}` : "-", words, !log))),
    h("div", { class: "step-group", role: "group", "aria-label": "Run" }, h("span", { class: "step-name", "aria-hidden": "true" }, "Run"), link("/runs", "Runs"), RUN.map(([at, words]) => link(run ? `/run/${run}${at && `/${at}`}` : "-", words, !run)), link("/compare", "Compare")));
  document.querySelector('[aria-current="page"]')?.scrollIntoView({ block: "nearest", inline: "center" });
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const signal = leaving.signal;
  const path = location.hash.replace(/^#/, "") || "/";
  if (path === "main") { main.focus(); return; }
  const [, kind, id, what = ""] = path.split("/");
  if (kind === "log" || kind === "run") { here[kind] = id; kept.set(kind, id); }
  steps(path);
  document.getElementById("drawer").close();
  const page = { "": home, runs, compare }[kind]
    ?? (kind === "log" ? LOG.find(([at]) => at === what)?.[2] : kind === "run" ? RUN.find(([at]) => at === what)?.[2] : undefined);
  try {
    if (!page) throw new Error("There is no such page.");
    await page({ main, id, signal, go: (to) => { location.hash = to; }, forget: (which) => { here[which] = null; kept.set(which, null); steps(path); } });
  } catch (error) {
    if (signal.aborted) return;
    const gone = error.status === 404;
    put(main, h("div", { class: "head" }, h("h1", { tabindex: -1 }, gone ? "Not here" : "That did not work")), h("p", { class: "note warn", role: "alert" }, error.message), h("p", {}, h("a", { href: "#/" }, "Choose a log"), " or ", h("a", { href: "#/runs" }, "look at the runs"), "."));
    if (gone && (kind === "log" || kind === "run")) { here[kind] = null; kept.set(kind, null); steps(path); }
  }
  if (signal.aborted) return;
  main.dataset.page = path;
  const title = main.querySelector("h1");
  if (title && show.before) title.focus({ preventScroll: true });
  if (show.before !== path) window.scrollTo(0, 0);
  show.before = path;
}

async function begin() {
  try { await get("/session"); } catch (error) {
    put(main, h("div", { class: "head" }, h("h1", {}, "The studio is closed to this tab")), h("p", { class: "note warn", role: "alert" }, error.message));
    return;
  }
  addEventListener("hashchange", show);
  await show();
  watch();
}

// The bar says what is being learned, on every page.
async function watch() {
  const link = document.getElementById("jobs");
  let before = new Map(), again = false, wake = () => {};
  document.addEventListener("look-again", () => { again = true; wake(); });
  for (;;) {
    let wait = 4000;
    again = false;
    try {
      const all = await get("/jobs");
      const at_work = all.filter((job) => job.status === "running" || job.status === "queued");
      link.hidden = at_work.length === 0;
      if (at_work.length) { wait = 700; link.textContent = at_work.length === 1 ? "Learning ..." : `Learning, ${at_work.length - 1} waiting`; }
      for (const job of all) if (job.status === "done" && ["running", "queued"].includes(before.get(job.id))) say(`${job.title}: done`);
      before = new Map(all.map((job) => [job.id, job.status]));
      document.dispatchEvent(new CustomEvent("jobs", { detail: all }));
    } catch { link.hidden = true; }
    if (!again) await new Promise((resolve) => { setTimeout(resolve, wait); wake = resolve; });
  }
}

begin();
