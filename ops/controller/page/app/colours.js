// A tenant's colour: the same wherever it is shown, and whenever. Beyond eight colours, patterns tell apart.

export const COLOURS = 8;
export const PATTERNS = 3;
const SHADES = COLOURS * PATTERNS;
const KEY = "warploom.colours";

const known = load();

function load() {
  try {
    return new Map(Object.entries(JSON.parse(localStorage.getItem(KEY) || "{}")));
  } catch {
    return new Map();
  }
}

function save() {
  try {
    localStorage.setItem(KEY, JSON.stringify(Object.fromEntries(known)));
  } catch {
    // No storage: the names alone decide.
  }
}

function hash(name) {
  let value = 0x811c9dc5;
  for (let at = 0; at < name.length; at++) value = Math.imul(value ^ name.charCodeAt(at), 0x01000193) >>> 0;
  return (value ^ (value >>> 15)) >>> 0;
}

function firstFree(name) {
  const taken = new Set(known.values());
  const wish = hash(name) % COLOURS;
  for (let pattern = 0; pattern < PATTERNS; pattern++) {
    for (let step = 0; step < COLOURS; step++) {
      const shade = pattern * COLOURS + ((wish + step) % COLOURS);
      if (!taken.has(shade)) return shade;
    }
  }
  return hash(name) % SHADES;
}

/** A tenant's shade: the colour is `shade % COLOURS`, the pattern `shade / COLOURS`. */
export function shadeOf(name) {
  let shade = known.get(name);
  if (shade === undefined) {
    shade = firstFree(name);
    known.set(name, shade);
    save();
  }
  return shade;
}

/** The classes of an element in a tenant's colour. */
export function toneOf(name) {
  const shade = shadeOf(name);
  return `tone tone${shade % COLOURS} pattern${Math.floor(shade / COLOURS)}`;
}
