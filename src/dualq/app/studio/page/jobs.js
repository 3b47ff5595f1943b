import { drop } from "./api.js";
import { h, put } from "./dom.js";

// Jobs at work or just ended, with their stages; done() is called when one has ended well since the page was opened.
export function jobsList(box, signal, done, only) {
  const seen = new Map();
  let opened = true;
  const show = (e) => {
    const all = e.detail.filter((job) => !only || job.id === only());
    const shown = all.filter((job) => job.status !== "done" || only).filter((job) => only || job.status !== "stopped").slice(0, 6);
    put(box, shown.map((job) => panel(job)));
    for (const job of all) {
      // one that was quick may be done when it is first heard of
      if (job.status === "done" && seen.get(job.id) !== "done" && (only || !opened)) done(job);
      seen.set(job.id, job.status);
    }
    opened = false;
  };
  document.addEventListener("jobs", show, { signal });
  document.dispatchEvent(new Event("look-again"));
}

const WORDS = { queued: "waiting for its turn", running: "learning", done: "done", failed: "it stopped with an error", stopped: "stopped" };

function panel(job) {
  const live = job.status === "running" || job.status === "queued";
  return h("div", { class: `job ${job.status}` },
    h("div", { class: "job-head" }, h("strong", {}, h("bdi", {}, job.title)), h("span", { class: "muted" }, WORDS[job.status]),
      live && h("button", { type: "button", class: "small", onclick: async (e) => { e.target.disabled = true; await drop(`/jobs/${job.id}`); document.dispatchEvent(new Event("look-again")); } }, "Stop")),
    h("ol", { class: "stages" }, job.stages.map((stage, i) => h("li", { class: i === job.stages.length - 1 && live ? "now" : job.status === "failed" && i === job.stages.length - 1 ? "bad" : "past" }, h("span", {}, stage.name), h("span", { class: "tabular muted" }, `${stage.seconds.toFixed(1)} s`)))),
    job.error && h("p", { class: "note warn", role: "alert" }, job.error));
}
