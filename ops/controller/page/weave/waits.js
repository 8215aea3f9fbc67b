// What positions waited for, in typed arrays: of each the longest few, and what all come to.

/** Waits of a position that are kept. */
const KEPT = 4;

export class Waits {
  #causes = [];
  #numbers = new Map();

  /** For so many positions; `names` are those of tenants, as numbers. */
  constructor(size, names) {
    this.names = names;
    this.waited = new Float64Array(size).fill(NaN);
    this.cause = new Uint8Array(size * KEPT);
    this.of = new Uint16Array(size * KEPT);
    this.ns = new Float64Array(size * KEPT);
  }

  #number(cause) {
    let number = this.#numbers.get(cause);
    if (number === undefined) {
      number = this.#causes.length;
      this.#causes.push(cause);
      this.#numbers.set(cause, number);
    }
    return number;
  }

  /** Takes in what a position waited for. */
  put(at, { waited_ns, waits }) {
    this.waited[at] = waited_ns ?? NaN;
    for (let row = 0; row < KEPT; row++) {
      const wait = waits?.[row];
      const place = at * KEPT + row;
      this.ns[place] = wait?.ns ?? 0;
      if (!wait) continue;
      this.cause[place] = this.#number(wait.cause);
      this.of[place] = wait.of ? this.names.number(wait.of) + 1 : 0;
    }
  }

  /** What a position waited, and what for; what is not kept one by one goes together. Null if unknown. */
  read(at) {
    if (Number.isNaN(this.waited[at])) return { waited_ns: null, waits: null };
    const waits = [];
    let rest = this.waited[at];
    for (let place = at * KEPT; place < (at + 1) * KEPT && this.ns[place]; place++) {
      const of = this.of[place];
      rest -= this.ns[place];
      waits.push({ cause: this.#causes[this.cause[place]], of: of ? this.names.list[of - 1] : null, ns: this.ns[place] });
    }
    if (rest > 0) waits.push({ cause: "others", of: null, ns: rest });
    return { waited_ns: this.waited[at], waits };
  }
}
