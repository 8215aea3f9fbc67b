// A controller that is none: serves the page as the real one does, and a cluster that is made up.
//
//     node mock.mjs [--port 8080] [--rate 150] [--sessions 40] [--role operator|viewer|...|none] [--slow MS] [--empty]
import { createServer } from "node:http";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { extname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { DAY, OWN, ROLES, ROUTES, SETTINGS } from "./answers.mjs";
import { missing, Refusal } from "./refusal.mjs";
import { positionOf } from "./whyanswers.mjs";
import { Cluster } from "./cluster.mjs";
import { checkAnswer, checkEvent, checkRequest, needOf } from "./contract.mjs";

export const PAGE = fileURLToPath(new URL("../../ops/controller/page/", import.meta.url));
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".md": "text/markdown; charset=utf-8",
  ".txt": "text/plain; charset=utf-8",
};
const TICK = 20;
/** How often it is told how far standing grants have run, ms. */
const STANDING = 250;
/** What only a leader can tell. */
const LEADERS = /^\/(cluster|tenants|workers|sessions|groups)\b/;

/** A session that a kernel's fault ended. */
export const FAILURE = {
  session: "00000000000000f1",
  tenant: OWN,
  gpu: 1,
  op: 1742,
  at_ms: Date.now() - 60_000,
  code: "E-KERNEL-ADDRESS",
  text: "illegal address in kernel `saxpy`, src/saxpy.cu:12, PTX line 34, block [1, 0, 0], thread [5, 0, 0], read of 4 bytes at 0x7f0000001000: at the end of an allocation of 4096 bytes at 0x7f0000000000",
  kernel: {
    kind: "illegal address",
    name: "saxpy",
    file: "src/saxpy.cu",
    line: 12,
    ptx_line: 34,
    block: [1, 0, 0],
    thread: [5, 0, 0],
    access: "read of 4 bytes",
    address: "0x7f0000001000",
    detail: "at the end of an allocation of 4096 bytes at 0x7f0000000000",
  },
};

/** All files of the page, as they are served. */
export function files(root = PAGE) {
  const all = new Map();
  const walk = (folder) => {
    for (const name of readdirSync(folder)) {
      const path = join(folder, name);
      if (statSync(path).isDirectory()) walk(path);
      else all.set(`/${relative(root, path)}`, readFileSync(path));
    }
  };
  walk(root);
  return all;
}

/** What a mock holds: the cluster, and what was changed of it. */
export class Mock {
  constructor(options = {}) {
    this.options = { role: "operator", slow: 0, ...options };
    this.cluster = new Cluster(options);
    this.files = files();
    this.settings = new Map(
      SETTINGS.map(([key, value, byDefault, help]) => [
        key,
        { key, value, default: byDefault, source: value === byDefault ? "default" : "set", help },
      ]),
    );
    this.tokens = [
      {
        id: "t1",
        name: "grafana",
        role: "viewer",
        tenant: null,
        operations: null,
        created_ms: Date.now() - 20 * DAY,
        expires_ms: Date.now() + 70 * DAY,
      },
      {
        id: "t2",
        name: "billing export",
        role: "auditor",
        tenant: null,
        operations: ["usage.read"],
        created_ms: Date.now() - 90 * DAY,
        expires_ms: Date.now() - DAY,
      },
      {
        id: "t3",
        name: "chat team",
        role: "tenant-admin",
        tenant: "chat",
        operations: null,
        created_ms: Date.now() - 3 * DAY,
        expires_ms: Date.now() + 27 * DAY,
      },
    ];
    /** Sessions that failed, the oldest first. */
    this.failures = [FAILURE, { ...FAILURE, session: "00000000000000f2", tenant: "batch", kernel: null, text: "the worker ran out of memory for the launch" }];
    this.pinned = null;
    this.profiles = ["a9d0c41f77", "51be20cc9e", "0f3377ab12"].map((start, at) => ({
      hash: start.repeat(6),
      version: 16 + at,
      entries: 338 + at * 37,
      created_ms: Date.now() - (2 - at) * 7 * 3_600_000,
    }));
    this.requests = [];
    /** What streams of positions were asked to go on behind. */
    this.asked = [];
    /** How often somebody who asks why hears that the record is being read; "broken" where it does not replay. */
    this.busy = 0;
    /** Whether no leader answers: true, or "event" where streams go on and tell it. */
    this.leaderless = false;
    if (options.empty) {
      this.cluster.tenants.clear();
      this.cluster.sessions = [];
      this.cluster.gpus = [];
      this.cluster.positions = [];
      this.cluster.rate = 0;
      this.tokens = [];
      this.failures = [];
      this.profiles = [];
    }
  }

  start(port = 0) {
    this.server = createServer((request, response) => this.#answer(request, response));
    this.timer = setInterval(() => this.cluster.tick(TICK), TICK);
    return new Promise((resolve) =>
      this.server.listen(port, "127.0.0.1", () => resolve(`http://127.0.0.1:${this.server.address().port}`)),
    );
  }

  stop() {
    clearInterval(this.timer);
    this.server.closeAllConnections();
    this.server.close();
  }

  async #answer(request, response) {
    const url = new URL(request.url, "http://mock");
    if (!url.pathname.startsWith("/api/")) return this.#file(url.pathname, response);
    if (this.options.slow) await new Promise((resolve) => setTimeout(resolve, this.options.slow));
    try {
      const body = await bodyOf(request);
      checkRequest(request.method, url, body);
      if (request.method !== "GET") this.requests.push(`${request.method} ${url.pathname}${url.search}`);
      await this.#route(request, response, url, body);
    } catch (error) {
      const problem = problemOf(error);
      checkAnswer(request.method, url.pathname, problem.status, problem);
      response.writeHead(problem.status, { "Content-Type": "application/problem+json", "Cache-Control": "no-store" });
      response.end(JSON.stringify(problem));
    }
  }

  #file(path, response) {
    const name = path === "/" ? "/index.html" : path;
    const file = this.files.get(name);
    const headers = {
      "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
      "X-Content-Type-Options": "nosniff",
      "Content-Type": TYPES[extname(name)] || "text/plain",
    };
    response.writeHead(file ? 200 : 404, headers);
    response.end(file || "there is no such file");
  }

  async #route(request, response, url, body) {
    const { role } = this.options;
    if (role === "none")
      throw new Refusal(401, "E-API-LOGIN", "send a token or log in; `warploom controller link` prints a link");
    if (request.method !== "GET" && request.headers["x-csrf-token"] !== "mock-secret")
      throw new Refusal(403, "E-API-CSRF", "the page was opened anew elsewhere: load it again");
    const need = needOf(request.method, url.pathname);
    if (need?.includes(".") && !ROLES[role].includes(need))
      throw new Refusal(403, "E-API-ROLE", `the role ${role} does not allow ${need}`);
    const path = url.pathname.slice("/api/v1".length);
    if (this.leaderless && LEADERS.test(path)) throw noLeader();
    if (this.busy && path.endsWith("/why")) throw this.#unread();
    const values = Object.fromEntries(url.searchParams);
    if (values.tenant && !this.sees(values.tenant)) throw missing(`tenant ${values.tenant}`);
    if (path.startsWith("/events/")) return this.#events(path, values, request, response);
    if (/csv$|export$/.test(path)) {
      response.writeHead(200, {
        "Content-Type": "text/csv",
        "Content-Disposition": `attachment; filename="${path.split("/").at(-1)}"`,
      });
      return response.end("a,b\n1,2\n");
    }
    const answer = await this.#call(`${request.method} ${path}`, values, body);
    const status = answer === undefined ? 204 : (answer.made ?? 200);
    const told = answer?.made ? answer.answer : answer;
    checkAnswer(request.method, url.pathname, status, told);
    response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store", ETag: '"7"' });
    response.end(told === undefined ? undefined : JSON.stringify(told));
  }

  #unread() {
    if (this.busy === "broken") return new Refusal(409, "E-REPLAY", "the record does not replay");
    this.busy--;
    return new Refusal(429, "E-API-BUSY", "a replay of the record is being done for somebody else: ask again in a moment");
  }

  /** Streams that are open, so that a test can cut them off. */
  streams = new Set();

  cut() {
    for (const it of this.streams) it.destroy();
  }

  #events(path, values, request, response) {
    if (this.leaderless && path === "/events/status" && this.leaderless !== "event") throw noLeader();
    const last = request.headers["last-event-id"];
    if (path === "/events/order") this.asked.push(last ?? null);
    if (last && path === "/events/order" && this.#gone(last))
      throw new Refusal(410, "E-API-GONE", "what came behind that is not kept any more: begin anew, without Last-Event-ID");
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write("retry: 1000\n: ok\n\n");
    this.streams.add(response);
    const off = path === "/events/order" ? this.#order(values, last, response) : this.#statuses(path, response);
    response.on("close", () => {
      this.streams.delete(response);
      off();
    });
  }

  #gone(last) {
    return this.cluster.positions.length > 0 && !this.cluster.positions.some((it) => it.id === last);
  }

  #order(values, last, response) {
    const send = (list) => {
      const all = this.options.role !== "tenant-admin";
      const seen = list.filter((it) => this.#fits(it, values));
      const fits = all ? seen : seen.map((it) => positionOf(this, it));
      if (fits.length) checkEvent("position", fits[0]);
      if (fits.length)
        response.write(fits.map((it) => `event: position\nid: ${it.id}\ndata: ${JSON.stringify(it)}\n\n`).join(""));
    };
    const all = this.cluster.positions;
    if (last) send(all.slice(all.findIndex((it) => it.id === last) + 1));
    this.cluster.watchers.add(send);
    const stand = () => {
      const grants = this.cluster.standing().filter((it) => this.#fits(it, values));
      if (!grants.length) return;
      checkEvent("standing", grants);
      response.write(`event: standing\ndata: ${JSON.stringify(grants)}\n\n`);
    };
    const timer = values.standing === "true" ? setInterval(stand, STANDING) : null;
    return () => {
      clearInterval(timer);
      this.cluster.watchers.delete(send);
    };
  }

  #fits(it, { tenant, gpu }) {
    return this.sees(it.tenant) && (!tenant || it.tenant === tenant) && (!gpu || String(it.gpu) === gpu);
  }

  #statuses(path, response) {
    if (path !== "/events/status") return () => {};
    const send = () => {
      const [name, value] = this.leaderless ? ["problem", problemOf(noLeader())] : ["status", this.status()];
      checkEvent(name, value);
      response.write(`event: ${name}\ndata: ${JSON.stringify(value)}\n\n`);
    };
    const seen = () => this.failures.filter((it) => this.sees(it.tenant));
    let told = 0;
    const write = (name, value) => {
      checkEvent(name, value);
      response.write(`event: ${name}\ndata: ${JSON.stringify(value)}\n\n`);
    };
    const tell = () => {
      const all = seen();
      for (const it of all.slice(told)) write("failure", it);
      told = all.length;
      send();
    };
    write("failures", seen().slice(-200));
    told = seen().length;
    tell();
    const timer = setInterval(tell, 1000);
    return () => clearInterval(timer);
  }

  /** Whether whoever is logged in may know of a tenant. */
  sees(tenant) {
    return this.options.role !== "tenant-admin" || tenant === OWN;
  }

  /** The cluster as whoever is logged in sees it. */
  status() {
    const { cluster, workers, tenants } = this.cluster.status();
    const all = this.options.role !== "tenant-admin";
    return { cluster, workers: all ? workers : [], tenants: tenants.filter((it) => this.sees(it.name)) };
  }

  #call(what, values, body) {
    for (const [pattern, run] of ROUTES) {
      const found = pattern.exec(what);
      if (found) return run(this, found.slice(1).map(decodeURIComponent), values, body);
    }
    throw missing(what);
  }
}

const TITLES = { 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 409: "Conflict", 429: "Too Many Requests", 410: "Gone", 503: "Service Unavailable" };

function problemOf(error) {
  const status = error.status || 500;
  const { code = "E-API-INTERNAL", message: detail } = error;
  return { type: "about:blank", title: TITLES[status] || "Refused", status, code, detail };
}

const noLeader = () => new Refusal(503, "E-CLUSTER-UNREACHABLE", "no leader answered within 5 s");

async function bodyOf(request) {
  let text = "";
  for await (const part of request) text += part;
  return text ? JSON.parse(text) : {};
}

function argumentsOf(words) {
  const values = {};
  for (let at = 0; at < words.length; at++) {
    const key = words[at].replace(/^--/, "");
    values[key] = key === "empty" ? true : key === "role" ? words[++at] : Number(words[++at]);
  }
  return values;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const options = argumentsOf(process.argv.slice(2));
  console.log(await new Mock(options).start(options.port || 8080));
}
