// The weave at work: takes positions in, moves on, draws; and what it tells the page.
import { signal, batch } from "../app/html.js";
import { shadeOf } from "../app/colours.js";
import { follow } from "../app/stream.js";
import { get } from "../app/api.js";
import { loggedOut, may } from "../app/identity.js";
import { colourOf } from "../app/theme.js";
import { Camera } from "./camera.js";
import { geometry } from "./geometry.js";
import { Painter } from "./painter.js";
import { Past } from "./past.js";
import { inOrder, RecordLine } from "./record.js";
import { Ring } from "./ring.js";

const TELL = 400;
const WANTED = 120;
/** For how long positions that were read to begin with may be told again, ms. */
const KNOWN = 10_000;
/** Before a stream that was gone is begun anew, ms. */
const AGAIN = 500;
/** The canvas has at most so many pixels, or one for each CSS pixel: what a frame costs grows with them. */
const MOST_PIXELS = 4e6;
/** A larger canvas is drawn in every second frame only, where the browser does not keep up. */
const MANY_PIXELS = 3e6;
/** Between frames on the average, ms: above it the browser does not keep up. */
const SLOW = 19;
/** Positions that are read to begin with. */
const START = 1000;

export class Loom {
  live = new Ring(18);
  past = new Past();
  camera = new Camera();
  line = new RecordLine();
  dimmed = new Set();
  split = false;
  mode = signal("live");
  playing = signal(true);
  split$ = signal(false);
  /** What the pointer or the keyboard is at: everything that is known of it. */
  detail = signal(null);
  legend = signal(null);
  figures = signal({ rate: null, span: this.camera.span, place: 1, id: null, frame: 0 });
  state = signal("connecting");
  problem = signal(null);
  selected = -1;
  hovered = -1;
  last = null;

  get ring() {
    return this.mode.peek() === "live" ? this.live : this.past.ring;
  }

  /** Begins to draw on a canvas, and to follow. */
  open(canvas, { labels, gpus }, still) {
    this.canvas = canvas;
    this.labels = labels;
    this.gpus = gpus;
    this.camera.still = still;
    this.painter = new Painter(canvas);
    this.recolour();
    this.resize();
    this.#begin();
    this.#learn();
    const frame = (now) => {
      this.request = requestAnimationFrame(frame);
      if (!this.#left(now)) this.frame(now);
    };
    this.before = this.shown = performance.now();
    this.told = 0;
    this.counted = 0;
    this.taken = 0;
    this.request = requestAnimationFrame(frame);
  }

  /** Takes in what came last, so that there is something to see at once, and follows from there. */
  async #begin() {
    const turn = (this.turn = {});
    if (!this.last && may("order.read")) {
      const { items } = await get("/order", { limit: START }).catch(() => ({ items: [] }));
      if (this.turn !== turn) return;
      this.#put(inOrder(items));
      this.last = items.length ? this.live.idOf(this.live.next - 1) : null;
      // Positions are told in the order of their ends: some of these may be told again.
      this.known = new Set(items.map((it) => it.id));
      setTimeout(() => (this.known = null), KNOWN);
    }
    this.feed = follow("/events/order", { standing: true }, this.#listener(), this.last);
  }

  close() {
    cancelAnimationFrame(this.request);
    clearTimeout(this.again);
    this.turn = null;
    this.last = this.feed?.last ?? this.last;
    this.feed?.stop();
    this.feed = null;
  }

  #listener() {
    return {
      events: (events) => this.#take(events),
      gone: () => this.#anew(),
      state: (state, problem) => {
        if (problem?.status === 401) loggedOut();
        batch(() => {
          this.state.value = state;
          this.problem.value = problem ?? null;
        });
      },
    };
  }

  /** What came meanwhile is not kept any more: begins with what is there now. */
  #anew() {
    this.feed.stop();
    this.last = null;
    this.live.clear();
    this.selected = this.hovered = -1;
    this.#learn();
    // Not at once: what is read may be newer than what the stream knows.
    this.again = setTimeout(() => this.#begin(), AGAIN);
  }

  #learn() {
    this.line
      .learn()
      .then(() => (this.told = 0))
      .catch(() => {});
  }

  #take(events) {
    const positions = [];
    let standing = null;
    for (const event of events) {
      if (event.event === "standing") standing = event;
      if (event.event === "position" && !this.known?.has(event.id)) positions.push(JSON.parse(event.data));
    }
    if (standing) this.live.stand(JSON.parse(standing.data));
    this.taken = (this.taken || 0) + positions.length;
    this.#put(positions);
  }

  #put(positions) {
    for (const position of positions) this.live.push(position);
    if (positions.length) this.line.grow(positions.at(-1).id);
    if (!this.sized && this.live.next >= 40) this.#size();
  }

  /** The first span: such that blocks can be told apart, and nothing races. */
  #size() {
    this.sized = true;
    let sum = 0;
    for (let at = 0; at < Math.min(200, this.live.next); at++) sum += this.live.width[at];
    const lanes = Math.max(1, this.live.gpus.list.length);
    this.camera.span = Math.min(8e9, Math.max(2e9, ((sum / Math.min(200, this.live.next)) * WANTED * 3) / lanes));
  }

  /** Whether this frame is left out: without a GPU a large picture takes longer than there is between two frames. */
  #left(now) {
    if (this.many && !this.halved) {
      this.paces++;
      this.pace = this.pace * 0.97 + Math.min(100, now - this.shown) * 0.03;
      this.halved = this.paces > 90 && this.pace > SLOW;
    }
    this.shown = now;
    this.odd = this.halved && !this.odd;
    return this.odd;
  }

  resize() {
    const { canvas } = this;
    this.many = canvas.clientWidth * canvas.clientHeight > MANY_PIXELS;
    this.halved = false;
    this.pace = 0;
    this.paces = 0;
    const most = Math.sqrt(MOST_PIXELS / Math.max(1, canvas.clientWidth * canvas.clientHeight));
    const ratio = Math.max(1, Math.min(2, devicePixelRatio || 1, most));
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    this.ratio = ratio;
    this.scale = ratio * (parseFloat(getComputedStyle(document.documentElement).fontSize) / 15);
  }

  recolour() {
    const tones = Array.from({ length: 8 }, (_, at) => colourOf(`--tone${at}`));
    const inks = Array.from({ length: 8 }, (_, at) => colourOf(`--tone-ink${at}`));
    const names = {
      ground: "--surface",
      lane: "--lane",
      line: "--line",
      thread: "--line",
      ink: "--ink",
      soft: "--soft",
      bad: "--bad",
    };
    const colours = { tones, inks, font: getComputedStyle(document.body).fontFamily };
    for (const [name, property] of Object.entries(names)) colours[name] = colourOf(property);
    this.painter.setColours(colours);
  }

  /** One frame. */
  frame(now) {
    const began = performance.now();
    const passed = Math.min(250, now - this.before);
    this.before = now;
    const { ring, camera } = this;
    if (ring === this.live) camera.advance(passed, ring.timeline.end, ring.timeline.timed);
    else this.#replay(passed);
    this.scene = this.#scene(ring);
    if (this.#differs(this.scene)) {
      this.painter.density.dimmed = this.dimmed;
      this.painter.density.split = this.split ? this.scene.rowOf : null;
      this.painter.paint(this.scene);
    }
    const spent = performance.now() - began;
    this.spent = this.spent === undefined ? spent : this.spent * 0.95 + spent * 0.05;
    if (now - this.told > TELL) this.#tell(now);
  }

  /** Whether anything of a scene is other than when it was last drawn. */
  #differs({ ring, camera, place, live, split, dimmed, selected, hovered }) {
    const { colours } = this.painter;
    const words = place.lanes.map((box) => Object.values(this.labels(box.gpu))).join();
    const seen = [ring, ring.changes, camera.right, camera.span, place.width, place.height, place.ratio];
    seen.push(live, split, dimmed, selected, hovered, colours, words);
    const differs = !this.seen || seen.some((it, at) => it !== this.seen[at]);
    this.seen = seen;
    return differs;
  }

  #replay(passed) {
    const { past, camera } = this;
    camera.replay(passed, past.ring.timeline.end);
    if (camera.playing && past.ring.timeline.end - camera.right < camera.span) past.more();
    if (past.ended && camera.right >= past.ring.timeline.end) this.goLive();
  }

  #scene(ring) {
    for (const gpu of this.gpus()) ring.gpus.number(gpu);
    const names = [...ring.tenants.list].sort();
    names.forEach(shadeOf);
    const shades = ring.tenants.list.map(shadeOf);
    return {
      ring,
      shades,
      rows: names,
      rowOf: ring.tenants.list.map((name) => names.indexOf(name)),
      camera: this.camera,
      place: geometry(this.canvas.width, this.canvas.height, this.scale, ring.gpus.list),
      split: this.split && names.length > 0,
      dimmed: this.dimmed,
      selected: this.selected,
      hovered: this.hovered,
      labels: this.labels,
      live: ring === this.live && this.camera.playing,
    };
  }

  /** Tells the page what is seen, a few times a second. */
  #tell(now) {
    const { ring, camera, painter } = this;
    this.told = now;
    const rate = this.#rate(now);
    const edge = Math.min(ring.next - 1, Math.max(ring.oldest, ring.firstBehind(camera.right)));
    const id = ring.next ? ring.idOf(edge) : null;
    const total = painter.seen.reduce((sum, it) => sum + it, 0) || 1;
    const rows = ring.tenants.list.map((name, number) => ({ name, number, share: painter.seen[number] / total }));
    batch(() => {
      this.figures.value = {
        rate,
        span: camera.span,
        place: id ? this.line.placeOf(id) : 1,
        id,
        oldest: this.line.oldest,
        newest: this.line.newest,
        frame: this.spent,
        drawn: painter.drawn,
      };
      this.legend.value = rows.sort((a, b) => (a.name < b.name ? -1 : 1));
      this.playing.value = camera.playing;
      if (this.selected < 0 && this.hovered < 0) this.#newest(edge);
    });
  }

  /** Positions in a second, of the last second or two. */
  #rate(now) {
    if (!this.counted) this.counted = now;
    if (now - this.counted > 1000) {
      this.rate = ((this.taken || 0) * 1000) / (now - this.counted);
      this.counted = now;
      this.taken = 0;
    }
    return this.rate ?? null;
  }

  /** Where nothing is chosen, what is at the right end is told of. */
  #newest(edge) {
    const { ring } = this;
    for (let sequence = edge; ring.next && sequence >= Math.max(ring.oldest, edge - 200); sequence--) {
      if (!ring.isRun(sequence)) continue;
      this.detail.value = { ...ring.read(sequence), chosen: false };
      return;
    }
  }

  toggle() {
    this.camera.playing = !this.camera.playing;
    if (this.camera.playing && this.mode.peek() === "live") this.camera.right = this.live.timeline.end;
    this.playing.value = this.camera.playing;
  }

  goLive() {
    this.select(-1);
    this.mode.value = "live";
    this.camera.playing = true;
    this.camera.right = this.live.timeline.end;
    this.playing.value = true;
    this.problem.value = null;
  }

  setSplit(split) {
    this.split = split;
    this.split$.value = split;
  }

  /** Dims all tenants but those that are chosen. */
  only(chosen) {
    this.dimmed = new Set(
      chosen.size ? this.ring.tenants.list.map((name, at) => (chosen.has(name) ? -1 : at)).filter((at) => at >= 0) : [],
    );
  }

  /** Goes to a recorded position, and stays there. */
  async seek(id) {
    this.camera.playing = this.playing.value = false;
    const kept = this.live.find(id);
    if (kept >= 0) {
      this.mode.value = "live";
      this.#centre(this.live, kept);
      return;
    }
    try {
      const found = await this.past.load(id);
      this.mode.value = "past";
      if (found >= 0) this.#centre(this.past.ring, found);
      this.problem.value = null;
    } catch (problem) {
      this.problem.value = problem;
    }
    this.only(new Set());
  }

  #centre(ring, sequence) {
    const at = sequence & ring.mask;
    this.camera.right = ring.start[at] + ring.width[at] / 2 + this.camera.span / 2;
    this.select(sequence);
  }

  pan(part) {
    const { camera, ring } = this;
    camera.pan(camera.span * part);
    const [first, end] = [ring.next ? ring.start[ring.oldest & ring.mask] : 0, ring.timeline.end];
    camera.right = Math.min(end + camera.span * 0.5, Math.max(first + camera.span * 0.1, camera.right));
    this.playing.value = false;
    if (ring !== this.live && camera.right > end - camera.span / 4) this.past.more();
  }

  zoom(factor, about) {
    this.camera.zoom(
      factor,
      about ?? (this.camera.playing ? this.camera.right : this.camera.right - this.camera.span / 2),
    );
    this.told = Math.min(this.told, performance.now() - TELL);
  }

  /** The moment at a place on the canvas, in its own pixels. */
  momentAt(x) {
    const { place } = this.scene;
    return this.camera.left + ((x - place.gutter) / place.inner) * this.camera.span;
  }

  /** The position at a point; -1 where there is none. */
  hit(x, y) {
    const { place, ring, split, rowOf, rows } = this.scene;
    const box = place.lanes.find((it) => y >= it.y - 2 && y <= it.y + it.height + 2);
    if (!box || x < place.gutter) return -1;
    const row = split ? Math.floor(((y - box.y) / box.height) * rows.length) : -1;
    const near = (this.camera.span / place.inner) * 3 * place.ratio;
    const moment = this.momentAt(x);
    let best = -1;
    let distance = near;
    for (let sequence = ring.firstBehind(moment - near); sequence < ring.next; sequence++) {
      const at = sequence & ring.mask;
      if (ring.lane[at] !== box.lane || (split && rowOf[ring.tenant[at]] !== row)) continue;
      const off = Math.max(ring.start[at] - moment, moment - ring.start[at] - ring.width[at], 0);
      if (off < distance || (off === 0 && distance === 0)) [best, distance] = [sequence, off];
      if (ring.start[at] > moment + near) break;
    }
    return best;
  }

  hover(sequence) {
    this.hovered = sequence;
    if (this.selected < 0 && sequence >= 0) this.detail.value = { ...this.ring.read(sequence), pointed: true, chosen: false };
  }

  select(sequence) {
    this.selected = sequence;
    if (sequence >= 0) this.detail.value = { ...this.ring.read(sequence), pointed: true, chosen: true };
  }

  /** Moves the choice along its lane. */
  step(direction) {
    const { ring, camera } = this;
    if (!ring.next) return;
    camera.playing = this.playing.value = false;
    const from =
      this.selected >= 0 && ring.has(this.selected) ? ring.beside(this.selected, direction) : this.#middle(0);
    if (from >= 0) this.#reveal(from);
  }

  /** Moves the choice to the lane above or below. */
  lane(direction) {
    const { ring, camera, scene } = this;
    if (!ring.next) return;
    camera.playing = this.playing.value = false;
    const { lanes } = scene.place;
    const row = this.selected < 0 ? -1 : lanes.findIndex((it) => it.lane === ring.lane[this.selected & ring.mask]);
    const next = Math.min(lanes.length - 1, Math.max(0, row + direction));
    this.#reveal(this.#middle(next));
  }

  #middle(row) {
    const { ring, camera, scene } = this;
    const lane = scene.place.lanes[row].lane;
    const chosen =
      this.selected >= 0 && ring.has(this.selected)
        ? ring.start[this.selected & ring.mask]
        : camera.right - camera.span / 2;
    const behind = ring.firstBehind(chosen);
    for (let at = Math.min(behind, ring.next - 1); at >= ring.oldest; at--)
      if (ring.lane[at & ring.mask] === lane) return at;
    return -1;
  }

  #reveal(sequence) {
    if (sequence < 0) return;
    const { ring, camera } = this;
    const at = sequence & ring.mask;
    camera.show(ring.start[at], ring.start[at] + ring.width[at]);
    this.select(sequence);
  }
}
