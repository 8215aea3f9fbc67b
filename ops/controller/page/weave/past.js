// Recorded positions that are looked at again, read in windows.
import { patient } from "../app/api.js";
import { inOrder } from "./record.js";
import { Ring } from "./ring.js";

const PAGE = 1000;
const AHEAD = 300;

async function window(values) {
  return inOrder((await patient("/order", values)).items);
}

export class Past {
  ring = new Ring(16);
  ended = false;
  #loading = false;
  #last = null;

  /** Reads what is around an id; the sequence number of the nearest position. */
  async load(id) {
    this.#loading = true;
    try {
      // One after the other: of what is not kept, the record is read for one at a time.
      const ahead = await window({ before: id, limit: AHEAD });
      const behind = await window({ after: id, limit: PAGE });
      const self = await this.#exact(id, ahead.at(-1)?.id);
      this.ring.clear();
      this.ended = behind.length < PAGE;
      for (const position of [...ahead, ...self, ...behind]) this.ring.push(position);
      this.#last = behind.at(-1)?.id ?? self[0]?.id ?? null;
      return Math.min(this.ring.next - 1, ahead.length);
    } finally {
      this.#loading = false;
    }
  }

  /** The position of the id itself: the one that comes behind those ahead of it. */
  async #exact(id, previous) {
    const items = previous ? await window({ after: previous, limit: 1 }) : [];
    return items[0]?.id === id ? items : [];
  }

  /** Reads the next window. */
  async more() {
    if (this.#loading || this.ended || !this.#last) return;
    this.#loading = true;
    try {
      const items = await window({ after: this.#last, limit: PAGE });
      for (const position of items) this.ring.push(position);
      this.#last = items.at(-1)?.id ?? this.#last;
      this.ended = items.length < PAGE;
    } catch {
      setTimeout(() => (this.#loading = false), 2000);
      return;
    }
    this.#loading = false;
  }
}
