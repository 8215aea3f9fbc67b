// Plots as SVG: a line of the last minutes, and bars of days.
import { html, useLayoutEffect, useRef, useState } from "../app/html.js";
import { toneOf } from "../app/colours.js";

const WIDTH = 180;
const HEIGHT = 36;

/** A line of numbers, oldest first; nulls are gaps. `most` is the top, `mark` a level that counts. */
export function Line({ values, most, mark }) {
  const known = values.filter((it) => it !== null);
  const top = Math.max(most || 0, mark ? mark * 1.25 : 0, ...known, 1e-9);
  const x = (at) => WIDTH - (values.length - 1 - at) * (WIDTH / 179);
  const y = (value) => HEIGHT - 2 - (value / top) * (HEIGHT - 4);
  let path = "";
  values.forEach((value, at) => {
    if (value !== null)
      path += `${path && values[at - 1] !== null ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
  });
  return html`<svg class="line" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true" focusable="false">
    ${mark ? html`<path class="mark" d=${`M0 ${y(mark).toFixed(1)}H${WIDTH}`} />` : null}
    <path class="curve" d=${path || "M0 0"} /></svg>`;
}

/** Steps of round numbers up to the top. */
function ticksOf(top) {
  const rough = (top || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((it) => it * power >= rough * 0.999) * power;
  return Array.from({ length: Math.ceil((top || 1) / step - 1e-9) + 1 }, (_, at) => at * step);
}

const ROOM = { left: 4.2, bottom: 1.9, top: 0.8, label: 3.4 };

function stackOf(day, names, valueOf) {
  let sum = 0;
  return names.map((name) => {
    const value = valueOf(day, name);
    const from = sum;
    sum += value;
    return { name, from, value };
  });
}

/** The size of an element in pixels, as it is and as it becomes. */
function useSize(ref) {
  const [size, setSize] = useState(null);
  useLayoutEffect(() => {
    const look = () => setSize([ref.current.clientWidth, ref.current.clientHeight]);
    const watch = new ResizeObserver(look);
    watch.observe(ref.current);
    look();
    return () => watch.disconnect();
  }, []);
  return size;
}

/** Where days and values are in a plot of this size. */
function scales([width, height], days, top) {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const left = ROOM.left * rem;
  const inner = height - (ROOM.bottom + ROOM.top) * rem;
  const step = (width - left) / Math.max(1, days);
  return {
    width,
    height,
    left,
    step,
    rem,
    every: Math.ceil((ROOM.label * rem) / step),
    y: (value) => ROOM.top * rem + inner - (value / top) * inner,
  };
}

function Grid({ at, ticks, format }) {
  return ticks.map(
    (tick) => html`<g key=${tick}><path class="grid" d=${`M${at.left} ${Math.round(at.y(tick)) + 0.5}H${at.width}`} />
    <text x=${at.left - at.rem / 2} y=${at.y(tick) + at.rem / 4} text-anchor="end">${format(tick)}</text></g>`,
  );
}

function Day({ day, number, at, stack, format }) {
  const x = at.left + number * at.step;
  return html`<g>${stack.map(
    (it) =>
      it.value > 0 &&
      html`<rect key=${it.name} class=${toneOf(it.name)} x=${x + at.step * 0.14} width=${at.step * 0.72}
      y=${at.y(it.from + it.value)} height=${Math.max(0, at.y(it.from) - at.y(it.from + it.value) - 1)}><title>${`${it.name}, ${day}: ${format(it.value)}`}</title></rect>`,
  )}
    ${number % at.every === 0 && html`<text x=${x + at.step / 2} y=${at.height - at.rem / 2} text-anchor="middle">${day.slice(5)}</text>`}</g>`;
}

/** Bars of days, a tenant upon the other. The table below has the same numbers. */
export function DayBars({ days, names, valueOf, unit, format, label }) {
  const ref = useRef();
  const size = useSize(ref);
  const stacks = days.map((day) => stackOf(day, names, valueOf));
  const ticks = ticksOf(Math.max(0, ...stacks.map((stack) => stack.reduce((sum, it) => sum + it.value, 0))));
  const at = size && scales(size, days.length, ticks.at(-1));
  return html`<figure class="plot"><figcaption>${label}<span class="note"> ${unit}</span></figcaption>
    <svg ref=${ref} role="img" aria-label=${`${label}; the table below has the numbers`}>
      ${at && html`<${Grid} at=${at} ticks=${ticks} format=${format} />`}
      ${at && days.map((day, number) => html`<${Day} key=${day} day=${day} number=${number} at=${at} stack=${stacks[number]} format=${format} />`)}
    </svg></figure>`;
}
