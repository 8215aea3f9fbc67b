// Server-sent events by fetch: many a chunk, with the problem document where there is one.
import { address, Problem, problemOf } from "./api.js";

const LONGEST = 15_000;
/** What came behind the last that was had is not kept any more. */
const GONE = 410;
/** Time for which a hidden page keeps its streams: browsers allow few connections to a server. */
const UNSEEN = 30_000;

/** Cuts a stream's text into events. */
export class Cutter {
  rest = "";

  /** The whole events that are there by now, as `{ event, id, data }`. */
  take(chunk) {
    const text = this.rest + (chunk.includes("\r") ? chunk.replaceAll("\r", "") : chunk);
    const events = [];
    let from = 0;
    for (let end = text.indexOf("\n\n", from); end >= 0; end = text.indexOf("\n\n", from)) {
      const event = read(text.slice(from, end));
      if (event) events.push(event);
      from = end + 2;
    }
    this.rest = text.slice(from);
    return events;
  }
}

function read(block) {
  let event = "message";
  let id = null;
  let data = null;
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (line.startsWith("data")) data = data === null ? value : `${data}\n${value}`;
    else if (line.startsWith("event")) event = value;
    else if (line.startsWith("id")) id = value;
  }
  return data === null && id === null ? null : { event: data === null ? "silence" : event, id, data };
}

/**
 * Follows a stream until it is stopped, and goes on where it was cut off; where that is not kept any more it
 * begins anew, and `on.gone` is told. `on.events(list)`, `on.state("connecting" | "live" | "lost", problem)`.
 */
export function follow(path, values, on, last = null) {
  const stop = new AbortController();
  const state = { last, wait: 500 };
  run(path, values, on, state, stop.signal);
  return {
    stop: () => stop.abort(),
    get last() {
      return state.last;
    },
  };
}

async function run(path, values, on, state, signal) {
  while (!signal.aborted) {
    await seen();
    if (signal.aborted) return;
    const turn = new AbortController();
    const off = unless(signal, turn);
    let problem = null;
    try {
      on.state?.("connecting");
      await once(path, values, on, state, turn.signal);
    } catch (error) {
      problem = error;
    }
    off();
    if (signal.aborted) return;
    if (turn.signal.aborted) continue;
    if (problem?.status === GONE) {
      state.last = null;
      on.gone?.(problem);
      continue;
    }
    on.state?.("lost", problem);
    if (problem?.status === 401 || problem?.status === 403) return;
    await new Promise((resolve) => setTimeout(resolve, state.wait));
    state.wait = Math.min(LONGEST, state.wait * 2);
  }
}

/** Waits until the page is seen. */
async function seen() {
  while (document.hidden)
    await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}

/** Ends a turn once all is stopped, or once the page was hidden for a while. */
function unless(signal, turn) {
  let timer = 0;
  const end = () => turn.abort();
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(end, UNSEEN);
  };
  signal.addEventListener("abort", end);
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    clearTimeout(timer);
    signal.removeEventListener("abort", end);
    document.removeEventListener("visibilitychange", look);
  };
}

async function once(path, values, on, state, signal) {
  const headers = { Accept: "text/event-stream" };
  if (state.last) headers["Last-Event-ID"] = state.last;
  const response = await fetch(address(path, values), { headers, signal, cache: "no-store", credentials: "same-origin" });
  if (!response.ok) throw await problemOf(response);
  on.state?.("live");
  state.wait = 500;
  const cutter = new Cutter();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const events = cutter.take(part.value);
    if (!events.length) continue;
    for (let at = events.length - 1; at >= 0; at--) {
      if (events[at].id) {
        state.last = events[at].id;
        break;
      }
    }
    on.events(events);
    if (events.at(-1).event === "gone") throw new Problem(GONE, { code: "E-API-GONE" });
  }
}
