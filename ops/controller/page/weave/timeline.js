// Where a position stands in time. A lane's blocks follow one another as the device ran them, as wide as they
// ran; the moments at which they ended, where they are known, leave the idle time between them.

/** By how much a lane may be ahead of the moments before all moments are moved. */
const AHEAD = 50e6;
/** How far behind the furthest lane a position without a moment may start. */
const SLACK = 4e6;
/** Idle times shorter than this are not told apart from the coarseness of moments, which are whole ms. */
const COARSE = 1.5e6;

export class Timeline {
  end = 0;
  #ends = [];
  #first = NaN;
  #moved = 0;

  /** Whether moments are known, so that idle time is seen. */
  get timed() {
    return !Number.isNaN(this.#first);
  }

  /** The first moment that is known goes on where those without moments have come to. */
  #begin(at, width) {
    this.#first = at;
    this.#moved = this.end + width;
  }

  /** Where a block of this width starts; `at` is the moment of its end in ms, or NaN. */
  place(lane, width, at) {
    const before = this.#ends[lane] ?? 0;
    let wish = this.end - SLACK - width;
    if (!Number.isNaN(at)) {
      if (Number.isNaN(this.#first)) this.#begin(at, width);
      wish = (at - this.#first) * 1e6 + this.#moved - width;
      if (before - wish > AHEAD + width) this.#moved += before - wish - AHEAD - width;
    }
    const start = Math.max(0, wish > before + COARSE ? wish : before);
    this.#ends[lane] = start + width;
    if (start + width > this.end) this.end = start + width;
    return start;
  }
}
