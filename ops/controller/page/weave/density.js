// Blocks that are narrower than a pixel: each column of a lane shows how much of it each tenant had.

const ROWS = 32;
const MOST = 24;
const WHITE = 0;

function numberOf(colour) {
  const [r, g, b] = colour.match(/[\d.]+/g).map(Number);
  return ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;
}

export class Density {
  sums = new Float32Array(0);
  lanes = new Map();

  setColours(tones) {
    this.tones = tones.map(numberOf);
  }

  begin(place, shades) {
    this.width = place.inner;
    this.shades = shades;
    this.rowOf = [];
    this.tenants = Math.min(MOST, shades.length);
    const size = this.width * MOST * place.lanes.length;
    if (this.sums.length < size) this.sums = new Float32Array(size);
    else if (this.used) this.sums.fill(0, 0, size);
    this.used = false;
    this.lanes.clear();
    place.lanes.forEach((box, row) => this.lanes.set(box.lane, { base: row * this.width * MOST, any: false }));
  }

  /** Adds a block from column `x`, `pixels` wide. */
  add(box, who, x, pixels) {
    if (who >= MOST) return;
    const lane = this.lanes.get(box.lane);
    lane.any = this.used = true;
    let from = Math.max(0, x);
    const to = Math.min(this.width, x + pixels);
    while (from < to) {
      const column = from | 0;
      const end = Math.min(to, column + 1);
      this.sums[lane.base + column * MOST + who] += end - from;
      from = end === from ? from + 1e-3 : end;
    }
  }

  /** Draws what was added to a lane; in `rows` rows where the lane is split by tenant. */
  paint(context, box, place, rows) {
    const lane = this.lanes.get(box.lane);
    if (!lane.any || !this.width) return;
    this.#image();
    const pixels = new Uint32Array(this.image.data.buffer);
    pixels.fill(WHITE);
    if (rows) this.#split(pixels, lane.base, rows);
    else this.#stack(pixels, lane.base);
    this.sheetContext.putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.sheet, place.gutter, box.y, this.width, box.height);
  }

  #image() {
    if (this.sheet?.width === this.width) return;
    this.sheet = document.createElement("canvas");
    this.sheet.width = this.width;
    this.sheet.height = ROWS;
    this.sheetContext = this.sheet.getContext("2d");
    this.image = this.sheetContext.createImageData(this.width, ROWS);
  }

  #toneOf(who) {
    const tone = this.tones[this.shades[who] % this.tones.length];
    return this.dimmed?.has(who) ? ((tone & 0xffffff) | (36 << 24)) >>> 0 : tone;
  }

  #stack(pixels, base) {
    const { width, sums, tenants } = this;
    for (let column = 0; column < width; column++) {
      let sum = 0;
      let row = ROWS;
      for (let who = 0; who < tenants; who++) {
        const share = sums[base + column * MOST + who];
        if (share <= 0) continue;
        sum += share;
        const top = Math.max(0, ROWS - Math.round(Math.min(1, sum) * ROWS));
        const tone = this.#toneOf(who);
        for (; row > top; row--) pixels[(row - 1) * width + column] = tone;
      }
    }
  }

  #split(pixels, base, rows) {
    const { width, sums, tenants } = this;
    for (let who = 0; who < tenants; who++) {
      const row = this.split?.[who] ?? who;
      const top = Math.floor((row * ROWS) / rows + 0.5);
      const bottom = Math.max(top + 1, Math.floor(((row + 1) * ROWS) / rows - 0.5));
      const tone = this.#toneOf(who);
      for (let column = 0; column < width; column++) {
        const share = Math.min(1, sums[base + column * MOST + who]);
        if (share <= 0) continue;
        const first = Math.min(bottom - 1, Math.round(bottom - share * (bottom - top)));
        for (let at = first; at < bottom; at++) pixels[at * width + column] = tone;
      }
    }
  }
}
