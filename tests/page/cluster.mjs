// A believable cluster that is the same each time: what it is asked for is computed from a seed and its clock.
import { waitedOf } from "./why.mjs";

export const NAMES = ["chat", "search", "train", "vision", "batch"];
const GIB = 2 ** 30;
const KEPT = 200_000;

/** Numbers as if at random, the same for a seed. */
export function randomOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const hex = (random, length) => Array.from({ length }, () => Math.floor(random() * 16).toString(16)).join("");

/** How tenants work: how much of the time, how long a slice in units of the mean, how many kernels. */
const WAYS = {
  chat: { share: 0.3, long: 0.35, kernels: 3, priority: 0, slo: 25e6, period: 3.1 },
  search: { share: 0.26, long: 0.6, kernels: 2, priority: 1, slo: 8e6, period: 2.3 },
  vision: { share: 0.17, long: 1.1, kernels: 6, priority: 2, slo: 0, period: 5.7 },
  train: { share: 0.18, long: 2.6, kernels: 14, priority: 3, slo: 0, period: 9 },
  batch: { share: 0.09, long: 3.4, kernels: 22, priority: 4, slo: 0, period: 13 },
};
const QUOTAS = { chat: 24 * GIB, search: 16 * GIB, vision: 32 * GIB, train: 80 * GIB, batch: 0 };
const WAITS = ["nothing", "order", "window", "program", "program", "cap", "bound", "target", "memory"];
const PROGRAMS = { chat: "serve", search: "index-server", vision: "detect", train: "pretrain", batch: "embed" };
export const KERNELS = [
  "gemm_bf16_128x128",
  "flash_fwd_d128",
  "rms_norm",
  "softmax_rows",
  "conv2d_nhwc",
  "adam_step",
  "topk_f32",
];

export class Cluster {
  constructor({ rate = 150, sessions = 40, seed = 7, alone = false } = {}) {
    this.rate = rate;
    this.random = randomOf(seed);
    this.whys = randomOf(seed + 1);
    this.held = false;
    this.lost = [];
    this.epoch = 3;
    this.started = Date.now();
    this.positions = [];
    this.global = 0;
    this.debt = 0;
    this.watchers = new Set();
    this.gpus = [0, 1, 2].map((gpu) => ({
      gpu,
      id: hex(this.random, 16),
      position: 0,
      free: 0,
      draining: false,
      active: 0,
    }));
    this.tenants = new Map(NAMES.map((name) => [name, this.settingsOf(name)]));
    this.sessions = Array.from({ length: sessions }, (_, at) => this.session(at));
    this.byTenant = new Map(NAMES.map((name) => [name, this.sessions.filter((it) => it.tenant === name)]));
    if (alone) this.lone = this.loneGrant();
    this.past(Math.min(30_000, Math.round(rate * 40)));
  }

  /** A device that one program has for itself: it runs under a standing grant that does not end. */
  loneGrant() {
    const gpu = { gpu: 3, id: hex(this.random, 16), position: 1, free: Infinity, draining: false, active: 0 };
    this.gpus.push(gpu);
    const { id: session, ordinal } = this.byTenant.get("batch")[0];
    return {
      id: `${this.epoch}.1`,
      gpu: gpu.gpu,
      worker: gpu.id,
      position: 1,
      tenant: "batch",
      session,
      ordinal,
      kind: "standing",
      first: 1,
      priority: WAYS.batch.priority,
      cost_ns: 0,
      outcome: null,
      adopted: false,
      waited_ns: 0,
      waits: [],
    };
  }

  /** How far standing grants have run that have not ended. */
  standing() {
    if (!this.lone) return [];
    const ran = Math.round((Date.now() - this.started) * 0.8e6);
    const ops = Math.ceil(ran / 1e6);
    return [{ ...this.lone, last: ops, kernels: ops, measured_ns: ran, at_ms: Date.now() }];
  }

  settingsOf(name) {
    const way = WAYS[name];
    return {
      priority: way?.priority ?? 2,
      weight: name === "search" ? 2 : 1,
      quota: QUOTAS[name] ?? 0,
      sessions: 0,
      outstanding_ns: name === "train" ? 2e6 : 0,
      cap: name === "batch" ? 40 : 0,
      slo_ns: way?.slo ?? 0,
      groups: name === "train" ? ["bulk"] : [],
      addresses: 0,
      modules: 0,
      staged: 0,
      swap: true,
      suspended: false,
    };
  }

  session(at) {
    const { random } = this;
    const tenant = NAMES[at % NAMES.length];
    const gpu = tenant === "train" ? 2 : Math.floor(at / NAMES.length) % 3;
    return {
      id: hex(random, 16),
      tenant,
      ordinal: at + 1,
      worker: this.gpus[gpu].id,
      gpu,
      next: 1 + Math.floor(random() * 90_000),
      held: Math.round(random() * 3.5 * GIB),
      pinned: random() < 0.1,
      process:
        random() < 0.85
          ? { host: `node-${1 + (at % 7)}`, pid: 2000 + Math.floor(random() * 60_000), name: PROGRAMS[tenant] }
          : null,
    };
  }

  /** Positions that were there before anybody looked, without moments; the first third is of the epoch before. */
  past(count) {
    this.epoch = 2;
    const end = Date.now();
    for (let at = 0; at < count; at++) {
      if (at === Math.floor(count / 3)) {
        this.epoch = 3;
        this.global = 0;
      }
      this.one(end - ((count - at) * 1000) / this.rate).at_ms = null;
    }
  }

  choose(moment, gpu) {
    const weights = NAMES.map((name) => {
      if (this.tenants.get(name)?.suspended) return 0;
      const way = WAYS[name];
      const wave = Math.sin((moment / 1000 / way.period) * 2 * Math.PI + gpu * 1.9);
      const away = name === "train" && gpu !== 2 ? 0 : 1;
      return (away * way.share * Math.max(0.03, 0.6 + 0.75 * wave)) / way.long;
    });
    let rest = this.random() * weights.reduce((a, b) => a + b, 0);
    return NAMES[weights.findIndex((it) => (rest -= it) <= 0)] ?? NAMES[0];
  }

  /** The next position of the order; it ends about now. */
  one(moment) {
    const { random } = this;
    const gpu = this.gpus.reduce((a, b) => (a.free <= b.free ? a : b));
    const tenant = this.choose(moment, gpu.gpu);
    const way = WAYS[tenant];
    const mean = (1e9 / this.rate) * this.gpus.length * 1.95;
    const cost = Math.round(mean * way.long * (0.35 + 1.3 * random() * random() + (random() < 0.04 ? 2 : 0)));
    const measured = Math.round(cost * (0.86 + 0.3 * random()));
    const choices = this.byTenant.get(tenant).filter((it) => it.gpu === gpu.gpu);
    const session = choices[Math.floor(random() * choices.length)] ?? this.byTenant.get(tenant)[0] ?? this.sessions[0];
    const isVoid = random() < 0.004;
    const kind =
      random() < 0.006
        ? ["open", "close", "revoke", "return"][Math.floor(random() * 4)]
        : random() < 0.02
          ? "standing"
          : "run";
    const runs = kind === "run" || kind === "standing";
    const ops = 1 + Math.floor(random() * way.kernels * 2);
    gpu.free = Math.max(gpu.free, moment - 40) + (runs && !isVoid ? measured / 1e6 : 0);
    gpu.active += runs && !isVoid ? measured / 1e6 : 0;
    const position = {
      id: `${this.epoch}.${++this.global}`,
      gpu: gpu.gpu,
      worker: gpu.id,
      position: ++gpu.position,
      tenant,
      session: session.id,
      ordinal: session.ordinal,
      kind,
      first: runs ? session.next : 0,
      last: runs ? session.next + ops - 1 : 0,
      priority: way.priority,
      kernels: runs ? Math.ceil(ops / 2) : null,
      cost_ns: runs ? cost : 0,
      measured_ns: isVoid || !runs ? null : measured,
      outcome: isVoid ? "void" : "ran",
      adopted: this.epoch === 3 && this.global < 12,
      at_ms: Math.round(gpu.free),
      ...waitedOf(this.whys, tenant, cost, runs && !isVoid && this.epoch === 3),
    };
    if (runs && !isVoid) session.next += ops;
    this.positions.push(position);
    if (this.positions.length > KEPT * 1.2) this.positions.splice(0, this.positions.length - KEPT);
    return position;
  }

  /** Lets time pass; what became of it goes to those who watch. */
  tick(passed) {
    if (this.held) return;
    this.debt += (this.rate * passed) / 1000;
    const count = Math.floor(this.debt);
    this.debt -= count;
    const now = Date.now();
    const fresh = [];
    for (let at = 0; at < count; at++) fresh.push(this.one(now - passed + (passed * (at + 1)) / count));
    for (const watcher of this.watchers) watcher(fresh);
  }

  seconds() {
    return (Date.now() - this.started) / 1000;
  }

  wave(key, period, from, to) {
    const shift = [...key].reduce((sum, it) => sum + it.charCodeAt(0), 0);
    return (
      from +
      (to - from) *
        (0.5 +
          0.32 * Math.sin((this.seconds() / period) * 2 * Math.PI + shift) +
          0.18 * Math.sin(this.seconds() * 1.7 + shift * 3))
    );
  }

  about() {
    return {
      name: "warploom",
      leader: "9be65b1fadd4eeb2",
      epoch: this.epoch,
      held: this.held,
      input: 812_344 + this.global * 3,
      recorded: 812_344 + this.global * 3 - 12,
      global: this.global,
      stores: [
        { name: "wl-warploom-record", bytes: Math.round(2.1 * GIB), max_bytes: 8 * GIB, alarm: null },
        { name: "wl-warploom-state", bytes: 4.1e6, max_bytes: 256e6, alarm: null },
      ],
      lost: this.lost,
      evidence_key: "9f2c51d0a3be77c4e1045f9b",
    };
  }

  tenant(name) {
    const settings = this.tenants.get(name);
    const sessions = this.byTenant.get(name) || [];
    const held = sessions.reduce((sum, it) => sum + it.held, 0);
    const swapped = name === "batch" ? Math.round(held * 0.31) : 0;
    const p99 = settings.slo_ns
      ? this.wave(name, 17, settings.slo_ns * 0.55, settings.slo_ns * (name === "chat" ? 1.15 : 0.9))
      : this.wave(name, 23, 30e6, 120e6);
    const attained = settings.slo_ns ? Math.min(1, name === "chat" ? 0.981 : 0.997) : null;
    const total = settings.quota || 96 * GIB;
    return {
      name,
      settings,
      sessions: sessions.length,
      queued: settings.suspended ? 320 : Math.round(this.wave(`${name}q`, 7, 0, 420)),
      granted: this.positions.length * 4 + sessions.length,
      attainment: settings.slo_ns
        ? {
            target_ns: settings.slo_ns,
            p99_ns: Math.round(p99),
            attained,
            requests: 18_220,
            within: Math.round(18_220 * attained),
            counted_s: 300.25,
          }
        : { target_ns: 0, p99_ns: Math.round(p99), attained: null, requests: 640, within: 0, counted_s: 300.25 },
      memory: {
        held,
        resident: held - swapped,
        swapped,
        saved: name === "chat" ? Math.round(held * 0.62) : 0,
        free: Math.max(0, total - held),
        total,
        busy: Math.max(0, Math.min(1, this.wave(name, 11, 0.05, (WAYS[name]?.share ?? 0) * 2.4))),
      },
    };
  }

  /** How much of the last two seconds a device ran. */
  busy(gpu) {
    const since = Date.now() - 2000;
    let sum = 0;
    for (let at = this.positions.length - 1; at >= 0 && this.positions[at].at_ms > since; at--)
      if (this.positions[at].gpu === gpu) sum += this.positions[at].measured_ns || 0;
    return Math.min(1, sum / 2e9);
  }

  worker(gpu) {
    const mine = this.sessions.filter((it) => it.gpu === gpu.gpu);
    const capacity = 80 * GIB;
    const held = mine.reduce((sum, it) => sum + it.held, 0);
    const swapped =
      gpu.gpu === 2
        ? {
            limit: 64 * GIB,
            memory: { used: Math.round(6.2 * GIB), max: 32 * GIB },
            file: { used: Math.round(1.4 * GIB), max: 64 * GIB },
            outs: { times: 41, bytes: 88 * GIB },
            ins: { times: 37, bytes: 80 * GIB },
            waited_ns: 9.4e9,
            moving: { done: 0, of: 0 },
          }
        : null;
    return {
      id: gpu.id,
      gpu: gpu.gpu,
      device: gpu.gpu === 2 ? "NVIDIA H200" : "NVIDIA H100 80GB",
      state: gpu.draining ? "draining" : "live",
      group: gpu.gpu === 2 ? "bulk" : "default",
      exclusive: gpu.gpu === 2,
      capacity,
      free: Math.max(0, capacity - held),
      busy: this.busy(gpu.gpu),
      sessions: mine.length,
      granted: gpu.position,
      accepted: gpu.position,
      chain: "c4e1045f9b0a3be77c4e1045f9b9f2c5",
      outstanding_ns: Math.round(this.wave(`out${gpu.gpu}`, 5, 0.4e6, 2e6)),
      memory: { capacity, held, free: Math.max(0, capacity - held), swap: swapped },
    };
  }

  sessionView(it, at) {
    const suspended = this.tenants.get(it.tenant)?.suspended;
    return {
      id: it.id,
      tenant: it.tenant,
      ordinal: it.ordinal,
      worker: it.worker,
      gpu: it.gpu,
      queued: Math.round(this.wave(it.id, 6, 0, 60)),
      outstanding_ns: Math.round(this.wave(it.id, 4, 0, 9e5)),
      waits: suspended ? "suspended" : WAITS[(at + Math.floor(this.seconds() / 9)) % WAITS.length],
      held: it.held,
      busy: Math.max(0, this.wave(it.id, 9, 0, 0.2)),
      place: it.tenant === "batch" && at % 3 === 0 ? "out" : "resident",
      pinned: it.pinned,
      process: it.process,
    };
  }

  status() {
    return {
      cluster: this.about(),
      workers: this.gpus.map((it) => this.worker(it)),
      tenants: [...this.tenants.keys()].map((it) => this.tenant(it)),
    };
  }

  groups() {
    return [
      {
        name: "bulk",
        exclusive: true,
        workers: [this.gpus[2].id],
        tenants: ["train"],
        capacity: 80 * GIB,
        free: 31 * GIB,
      },
      {
        name: "default",
        exclusive: false,
        workers: this.gpus.slice(0, 2).map((it) => it.id),
        tenants: [...this.tenants.keys()].filter((it) => it !== "train"),
        capacity: 160 * GIB,
        free: 70 * GIB,
      },
    ];
  }
}
