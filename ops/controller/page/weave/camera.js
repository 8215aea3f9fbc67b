// What is seen of the time: a span, and its right end, which follows the newest position while it plays.

const SHORTEST = 2e6;
const LONGEST = 60e9;
/** How far behind the newest position the right end stays, so that it moves evenly. */
const LAG = 180e6;
const JUMP = 1.5e9;

export class Camera {
  span = 4e9;
  right = 0;
  playing = true;
  /** Steps instead of a steady move. */
  still = false;

  get left() {
    return this.right - this.span;
  }

  /** Moves on by `passed` ms. `newest` is the end of what there is. */
  advance(passed, newest, timed) {
    if (!this.playing) return;
    const target = newest - LAG;
    const error = target - this.right;
    if (this.still) {
      if (error > this.span / 8 || error < 0) this.right = Math.max(0, target);
      return;
    }
    if (Math.abs(error) > JUMP) {
      if (error > 0 || !timed) this.right = target;
      return;
    }
    const even = passed * 1e6;
    this.right += Math.max(0, even + error * Math.min(1, passed / 400) * 0.5);
    if (!timed && this.right > newest) this.right = newest;
  }

  /** Moves on over recorded positions. */
  replay(passed, newest) {
    if (this.playing) this.right = Math.min(newest, this.right + passed * 1e6);
  }

  /** Zooms by a factor about a moment. */
  zoom(factor, about = this.right) {
    const span = Math.min(LONGEST, Math.max(SHORTEST, this.span * factor));
    this.right = about + (this.right - about) * (span / this.span);
    this.span = span;
  }

  pan(nanos) {
    this.playing = false;
    this.right += nanos;
  }

  /** Brings a moment into view. */
  show(from, to) {
    const room = this.span * 0.08;
    if (to - from > this.span * 0.8) this.right = from + this.span * 0.9;
    else if (from < this.left + room) this.right = from - room + this.span;
    else if (to > this.right - room) this.right = to + room;
  }
}
