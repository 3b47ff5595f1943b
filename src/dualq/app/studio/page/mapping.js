// Which part each column plays, as it was chosen on the page of columns; the other pages of a log go on from it.
import { get, kept, post } from "./api.js";

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

const place = (id) => `mapping:${id}`;
export const chosenOf = (id) => kept.get(place(id)) ?? fresh();
export const choose = (id, chosen) => kept.set(place(id), chosen);

// The log, and how it is read: what the page of columns found, or what dualq finds now.
export async function understood(id, signal) {
  const log = (await get("/logs", signal)).find((one) => one.id === id);
  if (!log) { const error = new Error("There is no such log in the workspace."); error.status = 404; throw error; }
  const chosen = chosenOf(id);
  let found = kept.get(`read:${id}`);
  if (!found) {
    const seen = await post(`/logs/${id}/look`, { columns: asked(chosen, log.columns) }, signal);
    found = { columns: seen.proposed, lines: seen.lines, facts: seen.facts };
    kept.set(`read:${id}`, found);
  }
  return { log, chosen, columns: found.columns, lines: found.lines, facts: found.facts };
}

export const remember = (id, seen) => kept.set(`read:${id}`, { columns: seen.proposed, lines: seen.lines, facts: seen.facts });
