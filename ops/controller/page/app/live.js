// What the cluster is like now: once a second, and a few minutes of it for small plots.
import { signal, batch } from "./html.js";
import { get, Problem } from "./api.js";
import { follow } from "./stream.js";
import { shadeOf } from "./colours.js";
import { loggedOut, may } from "./identity.js";
import { headline } from "./failure.js";
import { say } from "../parts/notice.js";

const KEPT = 180;
const FAILURES = 200;
/** Time between two notices of a tenant's failures, ms, and their greatest length. */
const QUIET = 10_000;
const NOTICE = 160;
const POLL = 5000;

/** "connecting", "live", "leaderless" or "lost". */
export const connection = signal("connecting");
export const cluster = signal(null);
/** Null until they are known. */
export const workers = signal(null);
export const tenants = signal(null);
/** Sessions that failed, the newest first. */
export const failures = signal([]);
/** What went wrong where nothing is known. */
export const liveProblem = signal(null);

const past = new Map();
/** For each tenant, the time until which its failures are listed and not told. */
const quiet = new Map();

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

/** Takes in the sessions that failed: a list of those that there are, and each further one. */
function failed({ event, data }) {
  if (event === "failures") {
    failures.value = JSON.parse(data).reverse();
    return;
  }
  const it = JSON.parse(data);
  failures.value = [it, ...failures.value.filter((known) => known.session !== it.session)].slice(0, FAILURES);
  const now = Date.now();
  if (now < (quiet.get(it.tenant) ?? 0)) return;
  quiet.set(it.tenant, now + QUIET);
  const text = `${it.tenant}: ${headline(it)}`;
  say(text.length > NOTICE ? `${text.slice(0, NOTICE)} …` : text);
}

/** Takes in what the stream tells: its state, or why that is unknown. */
function told({ event, data }) {
  if (event === "status") take(JSON.parse(data));
  else liveProblem.value = new Problem(503, JSON.parse(data));
  connection.value = event === "status" ? "live" : "leaderless";
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
        events.filter((it) => it.event === "failures" || it.event === "failure").forEach(failed);
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
