// The newest positions, in typed arrays: nothing is allocated for a position, and the oldest make room.
import { Timeline } from "./timeline.js";
import { Waits } from "./waits.js";

export const KINDS = ["run", "open", "close", "standing", "revoke", "return"];
export const OUTCOMES = [null, "ran", "void", "gone"];
const RUN = 0;
/** Standing grants of which it is known how far they have run. */
const STANDING = 1024;

/** Names as small numbers. */
export class Names {
  list = [];
  #numbers = new Map();

  number(name) {
    let number = this.#numbers.get(name);
    if (number === undefined) {
      number = this.list.length;
      this.list.push(name);
      this.#numbers.set(name, number);
    }
    return number;
  }

  find(name) {
    return this.#numbers.get(name) ?? -1;
  }
}

const orNaN = (value) => (value === null || value === undefined ? NaN : value);
const orNull = (value) => (Number.isNaN(value) ? null : value);

const keyOf = (it) => `${it.worker} ${it.position}`;

/** How long a position took, ns. */
function tookOf(it) {
  const ran = it.kind === "run" || it.kind === "standing";
  return ran && it.outcome !== "void" && it.outcome !== "gone" ? (it.measured_ns ?? it.cost_ns ?? 0) : 0;
}

/** Positions have sequence numbers as they come; those from `oldest` to `next` are there. */
export class Ring {
  next = 0;
  /** Grows with whatever changes. */
  changes = 0;

  constructor(power) {
    const size = 2 ** power;
    this.size = size;
    this.mask = size - 1;
    for (const name of [
      "start",
      "width",
      "frontier",
      "epoch",
      "global",
      "position",
      "first",
      "last",
      "ordinal",
      "cost",
      "measured",
      "at",
    ]) {
      this[name] = new Float64Array(size);
    }
    this.lane = new Uint8Array(size);
    this.tenant = new Uint16Array(size);
    this.session = new Uint32Array(size);
    this.worker = new Uint16Array(size);
    this.kind = new Uint8Array(size);
    this.outcome = new Uint8Array(size);
    this.adopted = new Uint8Array(size);
    this.priority = new Uint8Array(size);
    this.kernels = new Int32Array(size);
    /** Whether it is a part of what a standing grant ran, which has not ended. */
    this.part = new Uint8Array(size);
    this.unfinished = new Map();
    this.standing = new Map();
    this.tenants = new Names();
    this.sessions = new Names();
    this.workers = new Names();
    this.gpus = new Names();
    this.waits = new Waits(size, this.tenants);
    this.timeline = new Timeline();
  }

  get oldest() {
    return Math.max(0, this.next - this.size);
  }

  /** Forgets the positions, not the names. */
  clear() {
    this.next = 0;
    this.changes++;
    this.unfinished.clear();
    this.standing.clear();
    this.stood = false;
    this.timeline = new Timeline();
  }

  /** Takes in a position; one that was there without an end is brought up to date. */
  push(it) {
    this.changes++;
    const known = this.unfinished.get(it.id);
    if (known !== undefined) {
      this.unfinished.delete(it.id);
      if (known >= this.oldest) return this.#finish(known & this.mask, it);
    }
    const before = it.kind === "standing" ? this.#ended(it) : 0;
    const sequence = this.#add(it, tookOf(it) - before);
    if (!it.outcome) {
      this.unfinished.set(it.id, sequence);
      if (this.unfinished.size > 4096) this.unfinished.delete(this.unfinished.keys().next().value);
    }
    return sequence;
  }

  /** Takes in how far standing grants have run: what is new of each is drawn as a part of it. */
  stand(grants) {
    // What ran before anybody looked belongs to no moment that is known.
    const { stood } = this;
    this.stood = true;
    for (const it of grants) {
      const key = keyOf(it);
      const before = this.standing.get(key) ?? (stood ? 0 : tookOf(it));
      this.standing.set(key, tookOf(it));
      if (tookOf(it) <= before) continue;
      this.changes++;
      this.part[this.#add(it, tookOf(it) - before) & this.mask] = 1;
    }
    while (this.standing.size > STANDING) this.standing.delete(this.standing.keys().next().value);
  }

  /** A standing grant has ended: how much of it was drawn before. */
  #ended(it) {
    const before = this.standing.get(keyOf(it)) ?? 0;
    this.standing.delete(keyOf(it));
    return before;
  }

  /** Adds a position that took this long. */
  #add(it, took) {
    const sequence = this.next++;
    const at = sequence & this.mask;
    const dot = it.id.indexOf(".");
    this.epoch[at] = Number(it.id.slice(0, dot));
    this.global[at] = Number(it.id.slice(dot + 1));
    this.part[at] = 0;
    this.#names(at, it);
    this.#numbers(at, it);
    this.#finish(at, it);
    this.width[at] = Math.max(0, took);
    this.start[at] = this.timeline.place(this.lane[at], this.width[at], this.at[at]);
    this.frontier[at] = this.timeline.end;
    if (this.sessions.list.length > this.size * 2) this.#tidy();
    return sequence;
  }

  /** Forgets the names of sessions that no position has any more. */
  #tidy() {
    const names = new Names();
    for (let sequence = this.oldest; sequence < this.next; sequence++) {
      const at = sequence & this.mask;
      this.session[at] = names.number(this.sessions.list[this.session[at]]);
    }
    this.sessions = names;
  }

  #names(at, it) {
    this.lane[at] = this.gpus.number(it.gpu);
    this.tenant[at] = this.tenants.number(it.tenant);
    this.session[at] = this.sessions.number(it.session);
    this.worker[at] = this.workers.number(it.worker);
  }

  #numbers(at, it) {
    this.position[at] = it.position;
    this.ordinal[at] = orNaN(it.ordinal);
    this.first[at] = orNaN(it.first);
    this.last[at] = orNaN(it.last);
    this.priority[at] = it.priority;
    this.kind[at] = Math.max(0, KINDS.indexOf(it.kind));
    this.kernels[at] = it.kernels ?? -1;
    this.cost[at] = it.cost_ns || 0;
    this.adopted[at] = it.adopted ? 1 : 0;
  }

  #finish(at, it) {
    this.measured[at] = orNaN(it.measured_ns);
    this.outcome[at] = Math.max(0, OUTCOMES.indexOf(it.outcome));
    this.at[at] = orNaN(it.at_ms);
    this.waits.put(at, it);
  }

  /** The first sequence number with a frontier at or behind a moment. */
  firstBehind(moment) {
    let low = this.oldest;
    let high = this.next;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (this.frontier[middle & this.mask] < moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  has(sequence) {
    return sequence >= this.oldest && sequence < this.next;
  }

  isRun(sequence) {
    return this.kind[sequence & this.mask] === RUN;
  }

  idOf(sequence) {
    const at = sequence & this.mask;
    return `${this.epoch[at]}.${this.global[at]}`;
  }

  /** The position of an id; -1 where it is not kept. */
  find(id) {
    const [epoch, global] = id.split(".").map(Number);
    for (let sequence = this.next - 1; sequence >= this.oldest; sequence--) {
      const at = sequence & this.mask;
      if (this.global[at] === global && this.epoch[at] === epoch && !this.part[at]) return sequence;
    }
    return -1;
  }

  /** The next position of the same lane in a direction; -1 where there is none. */
  beside(sequence, step) {
    const lane = this.lane[sequence & this.mask];
    for (let at = sequence + step; this.has(at); at += step) {
      if (this.lane[at & this.mask] === lane) return at;
    }
    return -1;
  }

  /** Everything that is known of a position. */
  read(sequence) {
    const at = sequence & this.mask;
    return {
      sequence,
      id: this.idOf(sequence),
      part: this.part[at] === 1,
      gpu: this.gpus.list[this.lane[at]],
      worker: this.workers.list[this.worker[at]],
      tenant: this.tenants.list[this.tenant[at]],
      session: this.sessions.list[this.session[at]],
      position: this.position[at],
      ordinal: orNull(this.ordinal[at]),
      kind: KINDS[this.kind[at]],
      first: orNull(this.first[at]),
      last: orNull(this.last[at]),
      priority: this.priority[at],
      kernels: this.kernels[at] < 0 ? null : this.kernels[at],
      cost_ns: this.cost[at],
      measured_ns: orNull(this.measured[at]),
      outcome: OUTCOMES[this.outcome[at]],
      adopted: this.adopted[at] === 1,
      at_ms: orNull(this.at[at]),
      ...this.waits.read(at),
    };
  }
}
