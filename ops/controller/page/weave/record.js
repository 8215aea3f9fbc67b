// The record as a line of numbers from 0 to 1: which epochs it has, and which id is at which place.
import { patient } from "../app/api.js";

const MOST_EPOCHS = 12;

const partsOf = (id) => id.split(".").map(Number);

/** Whether an id is before another. */
export function before(a, b) {
  const [x, y] = [partsOf(a), partsOf(b)];
  return x[0] < y[0] || (x[0] === y[0] && x[1] < y[1]);
}

/** Positions in the order's order, however they were answered. */
export function inOrder(items) {
  return [...items].sort((a, b) => (before(a.id, b.id) ? -1 : 1));
}

export class RecordLine {
  /** Newest last: `{ epoch, first, last }` in global positions. */
  segments = [];

  /** Learns the epochs from the newest backwards. */
  async learn() {
    const { items, oldest, newest } = await patient("/order", { limit: 1 });
    if (!items.length || !newest) return;
    const segments = [];
    let [epoch, last] = partsOf(newest);
    const [firstEpoch, first] = partsOf(oldest);
    while (epoch > firstEpoch && segments.length < MOST_EPOCHS) {
      const ahead = await patient("/order", { before: `${epoch}.0`, limit: 1 });
      const previous = ahead.items.at(-1)?.id;
      const start = previous ? (await patient("/order", { after: previous, limit: 1 })).items[0] : null;
      segments.unshift({ epoch, first: start ? partsOf(start.id)[1] : 0, last });
      if (!previous) break;
      [epoch, last] = partsOf(previous);
    }
    if (epoch === firstEpoch) segments.unshift({ epoch, first, last });
    this.segments = segments;
  }

  /** A newer position is there. */
  grow(id) {
    const [epoch, global] = partsOf(id);
    const newest = this.segments.at(-1);
    if (newest?.epoch === epoch) newest.last = Math.max(newest.last, global);
    else if (!newest || epoch > newest.epoch) this.segments.push({ epoch, first: global, last: global });
  }

  get total() {
    return this.segments.reduce((sum, it) => sum + it.last - it.first + 1, 0);
  }

  get oldest() {
    const it = this.segments[0];
    return it ? `${it.epoch}.${it.first}` : null;
  }

  get newest() {
    const it = this.segments.at(-1);
    return it ? `${it.epoch}.${it.last}` : null;
  }

  /** The id at a place. */
  idAt(place) {
    let rest = Math.round(place * (this.total - 1));
    for (const it of this.segments) {
      const length = it.last - it.first + 1;
      if (rest < length) return `${it.epoch}.${it.first + rest}`;
      rest -= length;
    }
    return this.newest;
  }

  /** The place of an id. */
  placeOf(id) {
    const [epoch, global] = partsOf(id);
    let sum = 0;
    for (const it of this.segments) {
      if (it.epoch === epoch) return Math.min(1, Math.max(0, (sum + global - it.first) / Math.max(1, this.total - 1)));
      sum += it.last - it.first + 1;
    }
    return 0;
  }
}
