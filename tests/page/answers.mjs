// What the mock answers: the interface under /api/v1, in one table.
import { KERNELS, randomOf } from "./cluster.mjs";
import { missing, Refusal } from "./refusal.mjs";
import { positionOf, WHY } from "./whyanswers.mjs";

export const DAY = 86_400_000;
/** The tenant of a tenant-admin. */
export const OWN = "chat";

const READS = [
  "cluster.read",
  "tenants.read",
  "workers.read",
  "sessions.read",
  "profiles.read",
  "settings.read",
  "usage.read",
  "order.read",
  "events.read",
];
export const ROLES = {
  viewer: READS,
  auditor: [...READS, "order.verify", "order.export", "tokens.read"],
  "tenant-admin": [
    "cluster.read",
    "tenants.read",
    "tenants.login",
    "sessions.read",
    "sessions.end",
    "usage.read",
    "order.read",
    "events.read",
  ],
  operator: [
    ...READS,
    "cluster.hold",
    "tenants.write",
    "tenants.login",
    "workers.drain",
    "sessions.end",
    "profiles.write",
    "settings.write",
    "order.verify",
    "order.export",
    "tokens.read",
    "tokens.write",
  ],
};

export const SETTINGS = [
  ["window", "4ms", "2ms", "estimated work granted to a GPU and not done"],
  ["quantum", "500us", "500us", "estimated work of one slice"],
  ["unknown", "20us", "20us", "estimate of a kernel that is in no profile yet"],
  ["learn", "on", "on", "measured times make new versions"],
  ["settle", "on", "on", "longer work than estimated is charged the rest; needs learn"],
  ["standing", "on", "on", "the foremost session runs its ops as they arrive"],
  ["slo-window", "500us", "500us", "the small window below an active target"],
  ["slo-wait", "200ms", "200ms", "longest wait of a slice too long for a target"],
  ["floors", "0,0,0,0,10", "none", "work left to priorities 0 to 4"],
  ["record.max_bytes", "8GiB", "8GiB", "size of the record"],
  ["record.max_age", "7d", "7d", "age of the record"],
  ["usage.max_age", "90d", "90d", "age of detailed usage"],
  ["tenant.sessions", "1024", "1024", "sessions of a tenant"],
];

const list = (items) => ({ items, next: null });

function tenantOf(mock, name) {
  if (!mock.cluster.tenants.has(name) || !mock.sees(name)) throw missing(`tenant "${name}"`);
  return mock.cluster.tenants.get(name);
}

/** What the leader says of targets. */
function admissionOf(name, { slo_ns }) {
  const chat = {
    tenant: "chat",
    target_ns: 25e6,
    verdict: "met",
    gpu: 0,
    request_ns: 9e6,
    before_ns: 1e6,
    ahead_ns: 2e6,
    load: 0.4,
    advice: null,
  };
  if (!slo_ns) return [chat];
  const short = slo_ns < 2e6;
  return [
    {
      ...chat,
      tenant: name,
      target_ns: slo_ns,
      verdict: short ? "too-long" : "met",
      advice: short ? "a target of 12 ms would be met" : null,
    },
    chat,
  ];
}

function changeTenant(mock, name, values, body) {
  const settings = tenantOf(mock, name);
  const changes = Object.entries(body)
    .filter(([key, value]) => JSON.stringify(settings[key]) !== JSON.stringify(value))
    .map(([key, after]) => ({ key, before: JSON.stringify(settings[key]), after: JSON.stringify(after) }));
  const admission = admissionOf(name, body);
  if (values.dry_run !== "true") Object.assign(settings, body);
  return values.dry_run === "true" ? { changes, admission } : mock.cluster.tenant(name);
}

function changeSettings(mock, values, body) {
  const changes = Object.entries(body.changes).map(([key, value]) => {
    const item = mock.settings.get(key);
    if (!item) throw new Refusal(422, "E-API-VALUE", `${key} is no setting`);
    if (/time|window|quantum/.test(key) && value !== null && !/^\d+(ns|us|ms|s)$/.test(value))
      throw new Refusal(422, "E-API-VALUE", `${key} is a time such as 500us or 4ms, not "${value}"`);
    return { key, before: item.value, after: value ?? item.default };
  });
  const applied = values.dry_run !== "true";
  if (applied)
    for (const it of changes)
      Object.assign(mock.settings.get(it.key), { value: it.after, source: "set" });
  return { changes, applied };
}

function profiles(mock) {
  return { in_force: mock.profiles.at(-1) ?? null, pinned: mock.pinned, items: mock.profiles };
}

function window(mock, { after, before, limit = 100, tenant, gpu }) {
  const all = mock.cluster.positions;
  const key = (id) => {
    const [epoch, global] = id.split(".").map(Number);
    return epoch * 1e12 + global;
  };
  const fits = (it) => mock.sees(it.tenant) && (!tenant || it.tenant === tenant) && (!gpu || String(it.gpu) === gpu);
  const find = (wanted) => {
    let [low, high] = [0, all.length];
    while (low < high) {
      const mid = (low + high) >> 1;
      if (key(all[mid].id) < wanted) low = mid + 1;
      else high = mid;
    }
    return low;
  };
  const from = after ? find(key(after) + 1) : 0;
  const to = before ? find(key(before)) : all.length;
  const items = [];
  if (after) for (let at = from; at < to && items.length < limit; at++) fits(all[at]) && items.push(all[at]);
  else for (let at = to - 1; at >= from && items.length < limit; at--) fits(all[at]) && items.unshift(all[at]);
  return { items: items.map((it) => positionOf(mock, it)), oldest: all[0]?.id ?? null, newest: all.at(-1)?.id ?? null };
}

const USED = [
  "launches",
  "device_seconds",
  "core_credits",
  "vram_credits",
  "share",
  "swap_outs",
  "swap_out_bytes",
  "swap_ins",
  "swap_in_bytes",
  "swap_wait_seconds",
  "swapped_credits",
  "saved_credits",
  "unsent_bytes",
  "cost",
];

function usage(mock, { by = "tenant", since, until, tenant }) {
  const keys = by.split(",");
  const rows = [];
  const days = [];
  for (let at = Date.parse(since); at < Date.parse(until); at += DAY)
    days.push(new Date(at).toISOString().slice(0, 10));
  const pick = (key, all) => (keys.includes(key) ? all : [null]);
  const names = [...mock.cluster.tenants.keys()].filter((it) => mock.sees(it)).filter((it) => !tenant || it === tenant);
  for (const name of pick("tenant", names))
    for (const when of pick("day", days))
      for (const kernel of pick("kernel", KERNELS))
        for (const gpu of pick("gpu", [0, 1, 2])) {
          const random = randomOf(
            [...`${name}${when}${kernel}${gpu}`].reduce(
              (sum, it) => Math.imul(sum ^ it.charCodeAt(0), 0x01000193),
              0x811c9dc5,
            ),
          );
          const time = (800 + random() * 9000) * (when ? 1 : days.length) * (name ? 1 : 4) * (kernel ? 0.2 : 1);
          rows.push({
            ...Object.fromEntries(keys.map((key) => [key, { tenant: name, day: when, kernel, gpu }[key]])),
            launches: Math.round(time * 480),
            device_seconds: time,
            core_credits: time * 118,
            vram_credits: time * 9.4,
            share: 0,
            swap_outs: Math.round(random() * 40),
            swap_out_bytes: 3e10,
            swap_ins: Math.round(random() * 40),
            swap_in_bytes: 3e10,
            swap_wait_seconds: random() * 90,
            swapped_credits: random() * 900,
            saved_credits: random() * 4000,
            unsent_bytes: Math.round(random() * 4e11),
            cost: time * 118 * 0.00002 + time * 9.4 * 0.00001,
          });
        }
  const total = Object.fromEntries(USED.map((key) => [key, rows.reduce((sum, it) => sum + it[key], 0)]));
  for (const it of rows) it.share = it.core_credits / total.core_credits;
  total.share = rows.length ? 1 : 0;
  return {
    rows: names.length ? rows : [],
    total,
    missing: Object.fromEntries(USED.map((key) => [key, 0])),
    prices: { core_credit: 0.00002, vram_credit: 0.00001, currency: "EUR" },
  };
}

/** What is answered to which request: the mock, what the path names, what stands behind `?`, the body. */
export const ROUTES = [
  ...WHY,
  [
    /^GET \/me$/,
    (mock) => ({
      name: "link",
      role: mock.options.role,
      tenant: mock.options.role === "tenant-admin" ? OWN : null,
      csrf: "mock-secret",
      expires_ms: Date.now() + DAY,
      cluster: "warploom",
      operations: ROLES[mock.options.role],
    }),
  ],
  [/^POST \/logout$/, () => undefined],
  [/^GET \/cluster$/, (mock) => mock.cluster.about()],
  [
    /^PUT \/order\/hold$/,
    (mock, _, __, body) => {
      mock.cluster.held = body.held;
      return mock.cluster.about();
    },
  ],
  [/^GET \/tenants$/, (mock) => list(mock.status().tenants)],
  [
    /^GET \/tenants\/([^/]+)$/,
    (mock, [name]) => {
      tenantOf(mock, name);
      return mock.cluster.tenant(name);
    },
  ],
  [
    /^POST \/tenants$/,
    (mock, _, values, { name, ...settings }) => {
      if (mock.cluster.tenants.has(name))
        throw new Refusal(409, "E-API-CONFLICT", `there is a tenant ${name} already: choose another name`);
      const changes = Object.entries(settings).map(([key, after]) => ({
        key,
        before: JSON.stringify(mock.cluster.settingsOf(name)[key]),
        after: JSON.stringify(after),
      }));
      if (values.dry_run === "true") return { changes, admission: admissionOf(name, settings) };
      mock.cluster.tenants.set(name, { ...mock.cluster.settingsOf(name), ...settings });
      return { made: 201, answer: mock.cluster.tenant(name) };
    },
  ],
  [/^PATCH \/tenants\/([^/]+)$/, (mock, [name], values, body) => changeTenant(mock, name, values, body)],
  [
    /^DELETE \/tenants\/([^/]+)$/,
    (mock, [name], values) => {
      tenantOf(mock, name);
      if (values.force !== "true" && mock.cluster.tenant(name).sessions)
        throw new Refusal(409, "E-TENANT-SESSIONS", `${name} has open sessions: end them, or force it`);
      const ended = mock.cluster.tenant(name).sessions;
      mock.cluster.tenants.delete(name);
      return { ended, login: true };
    },
  ],
  [
    /^POST \/tenants\/([^/]+)\/(suspend|resume)$/,
    (mock, [name, what]) => {
      tenantOf(mock, name).suspended = what === "suspend";
      return mock.cluster.tenant(name);
    },
  ],
  [/^POST \/tenants\/([^/]+)\/login$/, (mock, [name]) => ({ user: name, credentials: `credentials/${name}.json` })],
  [/^GET \/workers$/, (mock) => list(mock.cluster.status().workers)],
  [
    /^POST \/workers\/([^/]+)\/drain$/,
    (mock, [id], _, body) => {
      const gpu = mock.cluster.gpus.find((it) => it.id === id);
      gpu.draining = !body.undo;
      return mock.cluster.worker(gpu);
    },
  ],
  [/^GET \/groups$/, (mock) => list(mock.cluster.gpus.length ? mock.cluster.groups() : [])],
  [
    /^GET \/sessions$/,
    (mock, _, { tenant, worker, after, limit = 100 }) => {
      const all = mock.cluster.sessions
        .filter((it) => mock.sees(it.tenant))
        .map((it, at) => mock.cluster.sessionView(it, at))
        .filter((it) => (!tenant || it.tenant === tenant) && (!worker || it.worker === worker));
      const from = Number(after || 0);
      return {
        items: all.slice(from, from + Number(limit)),
        next: from + Number(limit) < all.length ? String(from + Number(limit)) : null,
      };
    },
  ],
  [
    /^GET \/sessions\/([^/]+)$/,
    (mock, [id]) => {
      const at = mock.cluster.sessions.findIndex((it) => it.id === id);
      if (at < 0 || !mock.sees(mock.cluster.sessions[at].tenant)) throw missing(`session "${id}"`);
      return mock.cluster.sessionView(mock.cluster.sessions[at], at);
    },
  ],
  [
    /^DELETE \/sessions\/([^/]+)$/,
    (mock, [id]) => {
      mock.cluster.sessions = mock.cluster.sessions.filter((it) => it.id !== id);
      return undefined;
    },
  ],
  [/^GET \/settings$/, (mock) => ({ items: [...mock.settings.values()], revision: 41 })],
  [/^PATCH \/settings$/, (mock, _, values, body) => changeSettings(mock, values, body)],
  [/^GET \/profiles$/, profiles],
  [
    /^PUT \/profiles\/pinned$/,
    (mock, _, __, body) => {
      mock.pinned = body.hash;
      return profiles(mock);
    },
  ],
  [/^GET \/usage$/, (mock, _, values) => usage(mock, values)],
  [/^GET \/order$/, (mock, _, values) => window(mock, values)],
  [
    /^POST \/order\/verify$/,
    async (mock) => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      return {
        ok: true,
        digest: "7342dcdcc44d7717a9d0c41f7751be20cc9e0f3377ab1266d1f0b2c7c4e1045f",
        positions: mock.cluster.positions.length,
        compared: mock.cluster.positions.length - 40,
        adopted: 11,
        skipped: 0,
        unrecorded: 0,
        disagreements: [],
      };
    },
  ],
  [/^GET \/tokens$/, (mock) => list(mock.tokens)],
  [
    /^POST \/tokens$/,
    (mock, _, __, { days = 30, ...body }) => {
      const token = {
        id: `t${mock.tokens.length + 1}${Date.now()}`,
        tenant: null,
        operations: null,
        ...body,
        created_ms: Date.now(),
        expires_ms: Date.now() + days * DAY,
      };
      mock.tokens.push(token);
      return { made: 201, answer: { ...token, secret: "wl_4c1ef0aa27d94b6d9f0c51d0a3be77c4" } };
    },
  ],
  [
    /^DELETE \/tokens\/([^/]+)$/,
    (mock, [id]) => {
      mock.tokens = mock.tokens.filter((it) => it.id !== id);
      return undefined;
    },
  ],
];
