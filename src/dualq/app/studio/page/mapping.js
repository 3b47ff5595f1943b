// Which part each column plays, as it was chosen on the page of columns; the other pages of a log go on from it.
// What was chosen is kept by the studio, with the log; what was found for it, by this tab.
import { get, kept, post } from "./api.js";
import { say } from "./dom.js";

export const PARTS = [
  ["state", "State", "what was known when deciding"],
  ["action", "Action", "what was decided"],
  ["reward", "Reward", "what was earned"],
  ["time", "Time", "the order of the rows"],
  ["episode", "Episode", "which rows belong together"],
  ["costs", "Costs", "what may be limited"],
  ["next_state", "Next state", "the state afterwards, if it has columns"],
  ["terminal", "Ended", "true where an episode ended"],
  ["truncated", "Stopped", "true where a recording stopped"],
  ["propensity", "Propensity", "with which probability it was decided, if that was recorded"],
];
const MANY = new Set(["state", "action", "next_state", "episode", "costs"]);

export const fresh = () => ({ edited: false, parts: {}, bins: null, numbers: null, more: {}, learning: {} });

// The arguments of read_log: what was chosen; what was not is left to dualq.
export function asked(chosen, known) {
  if (!chosen.edited) return { ...(known ?? {}), ...extra(chosen) };
  const said = {};
  for (const [part] of PARTS) {
    const names = chosen.parts[part] ?? [];
    if (names.length) said[part] = MANY.has(part) ? names : names[0];
    else if (!["state", "action", "reward"].includes(part)) said[part] = false;
  }
  return { ...said, ...extra(chosen) };
}

function extra(chosen) {
  const more = { ...chosen.more };
  if (chosen.bins) more.bins = chosen.bins;
  if (chosen.numbers?.length) more.numbers = chosen.numbers;
  return more;
}

let sending = Promise.resolve(); // one after another, so that the last word is the last
export function choose(id, chosen) {
  const body = JSON.parse(JSON.stringify(chosen));
  sending = sending.then(() => post(`/logs/${id}/choose`, body)).catch((error) => say(`What you chose could not be kept: ${error.message}`));
}

// A log, and what was chosen of it, in this tab or in another.
export async function logOf(id, signal) {
  await sending;
  const log = (await get("/logs", signal)).find((one) => one.id === id);
  if (!log) throw Object.assign(new Error("There is no such log in the workspace."), { status: 404 });
  return { log, chosen: { ...fresh(), ...log.chosen } };
}

// The log, and how it is read: what the page of columns found, or what dualq finds now.
export async function understood(id, signal) {
  const { log, chosen } = await logOf(id, signal);
  let found = kept.get(`read:${id}`);
  if (found?.asked !== signature(log, chosen)) found = remember(log, chosen, await post(`/logs/${id}/look`, { columns: asked(chosen, log.columns) }, signal));
  return { log, chosen, ...found };
}

const signature = (log, chosen) => JSON.stringify(Object.entries(asked(chosen, log.columns)).sort(([a], [b]) => a < b ? -1 : 1));

export function remember(log, chosen, seen) {
  const found = { asked: signature(log, chosen), columns: seen.proposed, lines: seen.lines, facts: seen.facts, stops: stopsOf(seen, chosen) };
  kept.set(`read:${log.id}`, found);
  return found;
}

// Why learning would stop.
const STOP = "dualq learn would stop here: ";
export const stopsOf = (seen, chosen) => chosen.more.skip_bad && !seen.stops ? [] : stopWords(seen);
export const stopWords = (seen) => seen.suspicious.filter((words) => words.startsWith(STOP)).map((words) => words.replace(STOP, ""));
export const oddWords = (seen) => seen.suspicious.filter((words) => !words.startsWith(STOP));
