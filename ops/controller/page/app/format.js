// Numbers as they are read.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const counts = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const counts2 = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const NONE = "–";

const missing = (value) => value === null || value === undefined || Number.isNaN(value);

function digits(value) {
  if (value >= 100) return value.toFixed(0);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function bytes(value) {
  if (missing(value)) return NONE;
  let unit = 0;
  let rest = value;
  while (rest >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit++;
  }
  return `${unit ? digits(rest) : rest} ${UNITS[unit]}`;
}

export function nanos(value) {
  if (missing(value)) return NONE;
  if (value < 1e3) return `${Math.round(value)} ns`;
  if (value < 1e6) return `${digits(value / 1e3)} µs`;
  if (value < 1e9) return `${digits(value / 1e6)} ms`;
  if (value < 120e9) return `${digits(value / 1e9)} s`;
  return value < 7200e9 ? `${digits(value / 60e9)} min` : `${decimal(value / 3600e9)} h`;
}

export const seconds = (value) => (missing(value) ? NONE : nanos(value * 1e9));
export const count = (value) => (missing(value) ? NONE : counts.format(value));
export const compact = (value) => (missing(value) ? NONE : value < 10000 ? counts.format(value) : short.format(value));
export const percent = (value) =>
  missing(value)
    ? NONE
    : value > 0 && value < 0.0005
      ? "< 0.1 %"
      : `${(value * 100).toFixed(value >= 0.9995 || value === 0 ? 0 : 1)} %`;
export const decimal = (value) => (missing(value) ? NONE : value >= 1000 ? counts.format(value) : digits(value));

/** Money: cents, and what is less than one as far as it can be told. */
export const money = (value) =>
  missing(value) ? NONE : value > 0 && value < 0.095 ? value.toPrecision(2) : counts2.format(value);

export function moment(ms) {
  if (missing(ms)) return NONE;
  const date = new Date(ms);
  const pad = (number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** A moment of today as its time, else as its day and time. */
export function clock(ms) {
  const text = moment(ms);
  return text.startsWith(moment(Date.now()).slice(0, 10)) ? text.slice(11) : text;
}

export const day = (ms) => new Date(ms).toISOString().slice(0, 10);
export const hash = (value) => (value ? `${value.slice(0, 12)}…` : NONE);

const SIZES = { "": 1, b: 1, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30, tib: 2 ** 40 };
const TIMES = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9 };

function parse(text, units) {
  const found = /^\s*(\d+(?:\.\d+)?)\s*([a-zµ]*)\s*$/i.exec(text);
  const unit = found && units[found[2].toLowerCase()];
  return unit ? Math.round(Number(found[1]) * unit) : null;
}

/** Bytes of a text such as "8 GiB"; null where it is none. */
export const parseBytes = (text) => (text.trim() === "0" ? 0 : parse(text, SIZES));
/** Nanoseconds of a text such as "25 ms"; null where it is none. */
export const parseNanos = (text) => (text.trim() === "0" ? 0 : parse(text, TIMES));
