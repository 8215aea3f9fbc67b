// What the cluster is like now: once a second, and a few minutes of it for small plots.
import { signal, batch } from "./html.js";
import { get, Problem } from "./api.js";
import { follow } from "./stream.js";
import { shadeOf } from "./colours.js";
import { loggedOut, may } from "./identity.js";
import { say } from "../parts/notice.js";

const KEPT = 180;
const FAULTS = 200;
const POLL = 5000;

/** "connecting", "live", "leaderless" or "lost". */
export const connection = signal("connecting");
export const cluster = signal(null);
/** Null until they are known. */
export const workers = signal(null);
export const tenants = signal(null);
/** Sessions that failed, the newest first. */
export const faults = signal([]);
/** What went wrong where nothing is known. */
export const liveProblem = signal(null);

const past = new Map();
/** Whether the stream has told of a status. */
let streamed = false;

function remember(key, value) {
  let row = past.get(key);
  if (!row) past.set(key, (row = []));
  row.push(value);
  if (row.length > KEPT) row.shift();
}

/** The last minutes of a number, oldest first. */
export const pastOf = (key) => past.get(key) || [];

function take(status) {
  batch(() => {
    if (status.cluster) cluster.value = status.cluster;
    if (status.workers) workers.value = status.workers;
    if (status.tenants) tenants.value = status.tenants;
    status.tenants
      ?.map((it) => it.name)
      .sort()
      .forEach(shadeOf);
    liveProblem.value = null;
  });
  for (const worker of status.workers || []) remember(`busy ${worker.id}`, worker.busy);
  for (const tenant of status.tenants || []) {
    remember(`p99 ${tenant.name}`, tenant.attainment?.p99_ns ?? null);
    remember(`busy ${tenant.name}`, tenant.memory?.busy ?? null);
    remember(`queued ${tenant.name}`, tenant.queued);
  }
}

async function itemsOf(path, operation) {
  if (!may(operation)) return null;
  const items = [];
  for (let after; after !== null; ) {
    const page = await get(path, { limit: 1000, after });
    items.push(...page.items);
    after = page.next ?? null;
  }
  return items;
}

/** Reads all of it once. */
export async function refresh() {
  try {
    const [about, gpus, names] = await Promise.all([
      may("cluster.read") ? get("/cluster") : null,
      itemsOf("/workers", "workers.read"),
      itemsOf("/tenants", "tenants.read"),
    ]);
    take({ cluster: about, workers: gpus, tenants: names });
  } catch (problem) {
    if (problem.status === 401) loggedOut();
    liveProblem.value = problem;
  }
}

/** Whether the controller is there, and the cluster's leader is not. */
const isLeaderless = (problem) => problem?.status === 503;

/** Takes in the sessions that failed; those that were not there at first are told at once. */
function failed(told) {
  const known = new Set(faults.value.map((it) => it.session));
  const news = told.filter((it) => !known.has(it.session)).reverse();
  if (!news.length) return;
  faults.value = [...news, ...faults.value].slice(0, FAULTS);
  if (streamed) for (const it of news.slice(0, 3)) say(`${it.tenant}: ${it.text}`);
}

/** Takes in what the stream tells: its state, or why that is unknown. */
function told({ event, data }) {
  if (event === "status") take(JSON.parse(data));
  else liveProblem.value = new Problem(503, JSON.parse(data));
  connection.value = event === "status" ? "live" : "leaderless";
  streamed ||= event === "status";
}

/** Begins to follow; called once. */
export function startLive() {
  refresh();
  if (!may("events.read")) {
    connection.value = "live";
    setInterval(refresh, POLL);
    return;
  }
  follow(
    "/events/status",
    {},
    {
      events: (events) => {
        const last = events.findLast((it) => it.event === "status" || it.event === "problem");
        const news = events.filter((it) => it.event === "fault").map((it) => JSON.parse(it.data));
        failed(news);
        if (last) told(last);
      },
      state: (state, problem) => {
        connection.value = isLeaderless(problem) ? "leaderless" : state;
        if (problem?.status === 401) loggedOut();
        else if (problem) liveProblem.value = problem;
      },
    },
  );
}
