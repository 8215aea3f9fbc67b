// Where lanes are on the canvas, in its own pixels.

const WIDE = 560;

/** Lanes of a canvas of this size: `{ gutter, top, bottom, lanes: [{ lane, gpu, y, height }] }`. */
export function geometry(width, height, ratio, gpus) {
  const narrow = width / ratio < WIDE;
  const gutter = narrow ? 0 : Math.round(Math.min(148, 104 + width / ratio / 60) * ratio);
  const axis = Math.round(26 * ratio);
  const count = Math.max(1, gpus.length);
  const share = (height - axis) / count;
  const gap = Math.min(Math.round(14 * ratio), Math.round(share * 0.14));
  const each = Math.floor(share - gap);
  const label = narrow && each > 48 * ratio ? Math.round(20 * ratio) : 0;
  const order = gpus.map((gpu, lane) => ({ gpu, lane })).sort((a, b) => a.gpu - b.gpu);
  const lanes = order.map(({ gpu, lane }, row) => ({
    gpu,
    lane,
    y: row * (each + gap) + label + Math.round(gap / 2),
    height: Math.max(1, each - label),
  }));
  return { width, height, ratio, narrow, gutter, label, axis, share, lanes, inner: width - gutter };
}
