// Draws lanes and blocks. Blocks wider than a pixel and a half are drawn one by one; of narrower ones each column
// of pixels shows the shares of its tenants.
import { COLOURS } from "../app/colours.js";
import { Density } from "./density.js";

const LEAST = 1.5;
const KIND_RUN = 0;
const KIND_STANDING = 3;
const VOID = 2;
/** A lane without positions says that they are not known yet if its device is busier than this. */
const UNTOLD = 0.03;
/** Positions behind the right end that are looked at, as lanes are not equally far. */
const BEHIND = 512;

/** Rectangles of one tenant, in an array that is used again. */
class Boxes {
  constructor() {
    this.list = new Float32Array(1024);
    this.count = 0;
  }

  add(x, y, width, height, sequence) {
    if (this.count + 5 > this.list.length) {
      const more = new Float32Array(this.list.length * 2);
      more.set(this.list);
      this.list = more;
    }
    const { list, count } = this;
    list[count] = x;
    list[count + 1] = y;
    list[count + 2] = width;
    list[count + 3] = height;
    list[count + 4] = sequence;
    this.count += 5;
  }
}

export class Painter {
  /** How much device time of each tenant was seen in the last frame. */
  seen = new Float64Array(256);
  busy = [];
  fitted = new Map();
  drawn = 0;

  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.density = new Density();
    this.boxes = [];
    this.marks = new Boxes();
  }

  setColours(colours) {
    this.colours = colours;
    this.density.setColours(colours.tones);
    this.patterns = colours.tones.map((tone) => [null, this.#pattern(colours.lane, 0), this.#pattern(colours.lane, 1)]);
  }

  /** Stripes or dots that are laid over the ninth tenant and those behind. */
  #pattern(colour, which) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const context = tile.getContext("2d");
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 2;
    context.beginPath();
    if (which === 0)
      for (const from of [-8, 0, 8]) {
        context.moveTo(from, 8);
        context.lineTo(from + 8, 0);
      }
    else context.arc(4, 4, 1.6, 0, 7);
    if (which === 0) context.stroke();
    else context.fill();
    return this.context.createPattern(tile, "repeat");
  }

  /** Draws one picture: `scene` is `{ ring, camera, place, shades, split, dimmed, selected, hovered, labels }`. */
  paint(scene) {
    const { context } = this;
    const { place } = scene;
    context.fillStyle = this.colours.ground;
    context.fillRect(0, 0, place.width, place.height);
    this.#lanes(scene);
    this.#collect(scene);
    for (const box of place.lanes) this.density.paint(context, box, place, scene.split ? scene.rows.length : 0);
    this.#blocks(scene);
    this.#marked(scene);
    this.#framed(scene);
    this.#axis(scene);
    this.#gutter(scene);
  }

  #lanes({ place, split, rows }) {
    const { context } = this;
    for (const box of place.lanes) {
      context.fillStyle = this.colours.lane;
      context.fillRect(place.gutter, box.y, place.inner, box.height);
      if (!split || !rows.length) continue;
      context.fillStyle = this.colours.thread;
      const step = box.height / rows.length;
      for (let row = 0; row < rows.length; row++)
        context.fillRect(
          place.gutter,
          Math.round(box.y + (row + 0.5) * step),
          place.inner,
          Math.max(1, place.ratio / 2),
        );
    }
  }

  /** Below how many pixels blocks are summed up: only where they are many more than there is room for. */
  #least(ring, camera, place) {
    const count = (ring.firstBehind(camera.right) - ring.firstBehind(camera.left)) / place.lanes.length;
    const room = place.inner * (this.summed ? 0.35 : 0.45);
    this.summed = count > room;
    return this.summed ? LEAST : 0;
  }

  /** Sorts what is seen into boxes of tenants, sums of columns, and marks. */
  #collect(scene) {
    const { ring, camera, place } = scene;
    this.#clear(scene);
    const { mask, start, width, frontier } = ring;
    const { left, right } = camera;
    let behind = 0;
    for (let sequence = ring.firstBehind(left); sequence < ring.next; sequence++) {
      const at = sequence & mask;
      if (start[at] > right) {
        if (frontier[at] > right && ++behind > BEHIND) break;
      } else if (start[at] + width[at] >= left) {
        this.drawn++;
        this.#take(scene, at, sequence);
      }
    }
    this.busy = place.lanes.map((box) => this.busyOf[box.lane] / camera.span);
  }

  #clear({ ring, camera, place, shades }) {
    const { boxes } = this;
    while (boxes.length < ring.tenants.list.length) boxes.push(new Boxes());
    for (const box of boxes) box.count = 0;
    this.marks.count = 0;
    this.drawn = 0;
    this.seen.fill(0);
    this.busyOf = new Float64Array(ring.gpus.list.length);
    this.byLane = [];
    for (const box of place.lanes) this.byLane[box.lane] = box;
    this.density.begin(place, shades);
    this.least = this.#least(ring, camera, place);
  }

  /** Takes in a position that is seen. */
  #take({ ring, camera, place, split, rowOf, rows }, at, sequence) {
    const { left, right, span } = camera;
    const scale = place.inner / span;
    const box = this.byLane[ring.lane[at]];
    const who = ring.tenant[at];
    const from = ring.start[at];
    const x = (from - left) * scale;
    const isVoid = ring.outcome[at] >= VOID;
    if (isVoid || (ring.kind[at] !== KIND_RUN && ring.kind[at] !== KIND_STANDING)) {
      this.marks.add(place.gutter + x, box.y, isVoid ? 1 : 0, box.height, sequence);
      return;
    }
    const clipped = Math.min(from + ring.width[at], right) - Math.max(from, left);
    if (who < this.seen.length) this.seen[who] += clipped;
    this.busyOf[ring.lane[at]] += clipped;
    const pixels = ring.width[at] * scale;
    if (pixels < this.least) {
      this.density.add(box, who, x, pixels);
      return;
    }
    const x0 = Math.max(0, x);
    const step = split ? box.height / rows.length : box.height;
    const y = split ? box.y + rowOf[who] * step + step * 0.12 : box.y;
    this.boxes[who].add(
      place.gutter + x0,
      y,
      // Parts of a standing grant stand close together.
      Math.min(place.inner, x + pixels) - x0 + (ring.part[at] ? place.ratio : 0),
      split ? step * 0.76 : box.height,
      sequence,
    );
  }

  #blocks({ ring, shades, dimmed, place, split }) {
    const { context, boxes, colours } = this;
    const gap = place.ratio;
    context.font = `${11.5 * place.ratio}px ${colours.font}`;
    context.textBaseline = "middle";
    for (let who = 0; who < boxes.length; who++) {
      const { list, count } = boxes[who];
      if (!count) continue;
      const shade = shades[who];
      const faint = dimmed.has(who);
      context.globalAlpha = faint ? 0.14 : 1;
      context.fillStyle = colours.tones[shade % COLOURS];
      for (let at = 0; at < count; at += 5) {
        const width = list[at + 2];
        context.fillRect(
          list[at],
          list[at + 1],
          width > 4 * gap ? width - gap : Math.max(width - gap * 0.4, 1),
          list[at + 3],
        );
      }
      const pattern = this.patterns[0][Math.floor(shade / COLOURS)];
      if (pattern) {
        context.fillStyle = pattern;
        for (let at = 0; at < count; at += 5) context.fillRect(list[at], list[at + 1], list[at + 2], list[at + 3]);
      }
      if (!faint) this.#words(ring.tenants.list[who], list, count, colours.inks[shade % COLOURS], place, split);
      context.globalAlpha = 1;
    }
  }

  /** Names inside blocks that are wide enough. */
  #words(name, list, count, ink, place, split) {
    const { context } = this;
    const pad = 7 * place.ratio;
    const room = name.length * 6.4 * place.ratio + pad * 2;
    context.fillStyle = ink;
    for (let at = 0; at < count; at += 5) {
      if (list[at + 2] < room || list[at + 3] < 14 * place.ratio) continue;
      const y = split ? list[at + 1] + list[at + 3] / 2 : list[at + 1] + 13 * place.ratio;
      context.fillText(name, list[at] + pad, y);
    }
  }

  #marked({ place }) {
    const { context, marks, colours } = this;
    const size = 3 * place.ratio;
    for (let at = 0; at < marks.count; at += 5) {
      const isVoid = marks.list[at + 2] === 1;
      context.fillStyle = isVoid ? colours.bad : colours.soft;
      context.beginPath();
      const [x, top, bottom] = [marks.list[at], marks.list[at + 1], marks.list[at + 1] + marks.list[at + 3]];
      if (isVoid) {
        context.moveTo(x - size, top - size);
        context.lineTo(x + size, top - size);
        context.lineTo(x, top + size);
      } else {
        context.moveTo(x - size * 0.7, bottom + size * 1.4);
        context.lineTo(x + size * 0.7, bottom + size * 1.4);
        context.lineTo(x, bottom);
      }
      context.fill();
    }
  }

  /** A frame around what is pointed at, and around what is chosen. */
  #framed(scene) {
    if (scene.ring.has(scene.hovered)) this.#around(scene, scene.hovered, 1);
    if (scene.ring.has(scene.selected)) this.#around(scene, scene.selected, 2);
  }

  #around({ place, ring, camera, split, rowOf, rows }, sequence, line) {
    const { context, colours } = this;
    const at = sequence & ring.mask;
    const box = this.byLane[ring.lane[at]];
    const scale = place.inner / camera.span;
    const step = split ? box.height / rows.length : box.height;
    const y = split ? box.y + rowOf[ring.tenant[at]] * step : box.y;
    const x = Math.max(place.gutter, place.gutter + (ring.start[at] - camera.left) * scale);
    const right = Math.min(place.width, place.gutter + (ring.start[at] + ring.width[at] - camera.left) * scale);
    if (right < place.gutter || x > place.width) return;
    context.strokeStyle = colours.ink;
    context.lineWidth = line * place.ratio;
    context.strokeRect(
      x - place.ratio,
      y - 2 * place.ratio,
      Math.max(right - x, 3 * place.ratio) + place.ratio,
      step + 4 * place.ratio,
    );
  }

  #axis({ camera, place }) {
    const { context, colours } = this;
    const rough = (camera.span * 110 * place.ratio) / place.inner;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((it) => it * power >= rough) * power;
    const base = place.height - place.axis;
    context.font = `${11 * place.ratio}px ${colours.font}`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    for (let tick = Math.max(0, Math.ceil(camera.left / step) * step); tick <= camera.right; tick += step) {
      const x = Math.round(place.gutter + ((tick - camera.left) / camera.span) * place.inner);
      context.fillStyle = colours.line;
      context.fillRect(x, base, place.ratio, 5 * place.ratio);
      context.fillStyle = colours.soft;
      if (x > place.gutter + 24 * place.ratio && x < place.width - 24 * place.ratio)
        context.fillText(label(tick, step), x, base + 15 * place.ratio);
    }
    context.textAlign = "left";
  }

  /** A text, or as much of it as there is room for. */
  #fitting(text, room) {
    const { context, fitted } = this;
    const key = `${text} ${room} ${context.font}`;
    if (!fitted.has(key)) {
      const fits = (words) => context.measureText(words).width <= room;
      // What stands in brackets goes first.
      const [whole] = [text, text.split(" (")[0]].filter(fits);
      let short = text;
      while (!whole && short && !fits(`${short}…`)) short = short.slice(0, -1).trimEnd();
      if (fitted.size > 256) fitted.clear();
      fitted.set(key, whole ?? `${short}…`);
    }
    return fitted.get(key);
  }

  /** A device is at work, and no position says so yet. */
  #untold(place, box) {
    const { context, colours } = this;
    if (box.height < 20 * place.ratio) return;
    context.font = `${12 * place.ratio}px ${colours.font}`;
    context.fillStyle = colours.soft;
    const [text, pad] = ["At work: what runs is drawn as soon as it is told", 12 * place.ratio];
    context.fillText(this.#fitting(text, place.inner - 2 * pad), place.gutter + pad, box.y + box.height / 2);
  }

  #gutter({ place, labels, live }) {
    const { context, colours } = this;
    if (!place.narrow) {
      context.fillStyle = colours.ground;
      context.fillRect(0, 0, place.gutter, place.height - place.axis);
    }
    context.textBaseline = "alphabetic";
    const every = Math.ceil((15 * place.ratio) / place.share);
    place.lanes.forEach((box, row) => {
      if (row % every || (place.narrow && !place.label)) return;
      const { name, device, busy: told } = labels(box.gpu);
      const share = (live && told) ?? Math.min(1, this.busy[row]);
      const busy = `${Math.round(share * 100)} %`;
      if (live && told > UNTOLD && !this.busy[row]) this.#untold(place, box);
      const r = place.ratio;
      const y = place.narrow ? box.y - 6 * r : box.y + Math.min(13 * r, box.height / 2 + 5 * r);
      context.fillStyle = colours.ink;
      context.font = `600 ${13 * r}px ${colours.font}`;
      context.fillText(name, 0, y);
      context.fillStyle = colours.soft;
      context.font = `${11.5 * r}px ${colours.font}`;
      if (place.narrow) {
        context.fillText(`busy ${busy}`, 64 * r, y);
        return;
      }
      if (box.height > 32 * r) context.fillText(this.#fitting(device, place.gutter - 12 * r), 0, y + 17 * r);
      if (box.height > 56 * r) context.fillText(`busy ${busy}`, 0, y + 33 * r);
    });
  }
}

function label(tick, step) {
  if (step >= 1e9) return `${Math.round(tick / 1e9)} s`;
  if (step >= 1e6) return `${(tick / 1e9).toFixed(step >= 1e8 ? 1 : step >= 1e7 ? 2 : 3)} s`;
  return `${((tick % 1e9) / 1e6).toFixed(step >= 1e5 ? 1 : 2)} ms`;
}
