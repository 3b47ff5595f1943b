// Requests to our own server, with the token of this session. It comes after # in the address, which is cleared at once.

const KEPT = "dualq-token";
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem(KEPT, given);
  history.replaceState(null, "", `${location.pathname}#/`);
}
const token = sessionStorage.getItem(KEPT) ?? "";

export class Refused extends Error {
  constructor(words, status) { super(words); this.status = status; }
}

export async function ask(method, address, body, signal) {
  let answer;
  try {
    answer = await fetch(`/api${address}`, {
      method, signal,
      headers: { Authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The studio does not answer. Was it stopped? Start it again with `dualq studio`.", 0);
  }
  const said = await answer.json().catch(() => ({ error: `The studio answered ${answer.status}` }));
  if (!answer.ok) throw new Refused(said.error ?? `The studio answered ${answer.status}`, answer.status);
  return said;
}

export const get = (address, signal) => ask("GET", address, undefined, signal);
export const post = (address, body, signal) => ask("POST", address, body, signal);
export const drop = (address) => ask("DELETE", address);

// A file, streamed as it is; told() hears how much of it has gone.
export function upload(file, told) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.open("POST", "/api/logs");
    request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.setRequestHeader("X-File-Name", encodeURIComponent(file.name));
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.responseType = "json";
    request.upload.addEventListener("progress", (e) => told(e.loaded, e.total));
    request.addEventListener("load", () => request.status < 300 ? resolve(request.response) : reject(new Refused(request.response?.error ?? `The studio answered ${request.status}`, request.status)));
    request.addEventListener("error", () => reject(new Refused("The studio stopped reading the file. Is it too large, or was the studio stopped?", 0)));
    request.addEventListener("abort", () => reject(new Refused("Stopped.", 0)));
    request.send(file);
  });
  return { done, stop: () => request.abort() };
}

// What was chosen on a page, kept for this tab.
export const kept = {
  get(name) { try { return JSON.parse(sessionStorage.getItem(name)); } catch { return null; } },
  set(name, value) { sessionStorage.setItem(name, JSON.stringify(value)); },
};
