// What something waited for, or was idle for: in words, as a bar, as a table. docs/howto/why.md has the same words.
import { html } from "../app/html.js";
import { me } from "../app/identity.js";
import { nanos, percent } from "../app/format.js";
import { Table } from "./table.js";
import { Nothing } from "./notice.js";

/** Of each cause its colour and pattern, and what it means: of a launch, and of a device where that differs. */
const CAUSES = {
  priority: [0, 0, (of) => `${of}, whose priority was higher, was next or ran`],
  share: [0, 1, (of) => `${of}, of the same priority, had less than its share`],
  floor: [0, 2, (of) => `${of}, of a lower priority, had earned its floor`],
  target: [0, 3, (of) => `it was too long for the target of ${of}`],
  window: [1, 0, windowWords],
  device: [1, 1, (of) => `it was granted; work of ${of} ran before it`],
  own: [3, 0, () => "earlier work of its own session ran before it"],
  program: [3, 1, () => "it was granted; its program had not sent its ops", () => "no session had any work"],
  cap: [2, 0, (of) => `the cap of ${of} was used up`],
  bound: [2, 1, (of) => `${of} had as much granted as it may have`],
  memory: [4, 0, () => "its memory was not on the device", (of) => `memory of ${of} was not on the device`],
  suspended: [4, 1, (of) => `${of} was suspended`],
  hold: [4, 2, () => "all grants were held"],
  bus: [5, 0, () => "its grant was on its way to the worker", () => "the grant was on its way to the worker"],
  worker: [5, 1, () => "the worker handed over, or lacked ops after a failure"],
  leader: [5, 2, () => "there was no leader, or it had yet to hear of the work"],
  empty: [6, 0, () => "no session was there"],
  unknown: [6, 1, () => "unknown: the record lacks what would tell"],
};
/** What is told of many causes together. */
const REST = [6, 3, () => "what else it waited for, together"];

function windowWords(of, known) {
  if (known) return `it was next; granted work of ${of} filled the window`;
  // Whoever is told of no other tenant cannot tell the two apart.
  if (me.peek()?.tenant) return "it was next; the window was full of work of others, or on its way";
  return "it was next; the window was full of work on its way";
}

/** What a cause means. */
export function wordsOf({ cause, of }, idle) {
  const [, , launch, device] = CAUSES[cause] || REST;
  return ((idle && device) || launch)(of ?? "another tenant", Boolean(of));
}

/** The classes of an element in a cause's colour and pattern. */
export function classOf(cause) {
  if (cause === "busy") return "cause busy";
  const [colour, pattern] = CAUSES[cause] || REST;
  return `cause cause${colour} stripes${pattern}`;
}

/** The longest waits, and the rest together, such that they are so many at most and come to the same. */
export function fewOf(waits, most) {
  if (waits.length <= most) return waits;
  const rest = waits.slice(most - 1).reduce((sum, it) => sum + it.ns, 0);
  return [...waits.slice(0, most - 1), { cause: "others", of: null, ns: rest }];
}

/** A bar of causes, as wide as their times; whatever is beside it says the same in words. */
export function CauseBar({ waits, whole }) {
  let from = 0;
  const parts = waits.map((it) => {
    const part = { ...it, from, width: it.ns / Math.max(1, whole) };
    from += part.width;
    return part;
  });
  // What begins elsewhere is another element: it does not count as moved.
  return html`<span class="bar causes" aria-hidden="true">${parts.map(
    (it) =>
      it.ns > 0 &&
      html`<span key=${`${it.cause} ${it.of} ${it.from}`} class=${classOf(it.cause)} style=${{ width: `${it.width * 100}%` }}></span>`,
  )}</span>`;
}

/** A cause's mark, its name, and what it means. */
export function Cause({ wait, idle }) {
  return html`<span class="because"><span class=${`swatch ${classOf(wait.cause)}`} aria-hidden="true"></span><strong>${wait.cause}</strong> <span class="note">${wordsOf(wait, idle)}</span></span>`;
}

const columnsOf = (whole, idle) => [
  {
    key: "cause",
    title: idle ? "Idle for" : "Waited for",
    width: 12,
    wrap: true,
    show: (it) => html`<${Cause} wait=${it} idle=${idle} />`,
  },
  { key: "ns", title: "Time", width: 7.5, num: true, sort: (it) => it.ns, show: (it) => nanos(it.ns) },
  { key: "share", title: "Share", width: 6.5, num: true, show: (it) => percent(it.ns / Math.max(1, whole)) },
];

/** The same as a table; `waits` is null while they are read. */
export function CauseTable({ caption, waits, whole, idle, empty, problem, again }) {
  return html`<${Table} caption=${caption} columns=${columnsOf(whole, idle)} rows=${waits} keyOf=${(it) => `${it.cause} ${it.of}`} problem=${problem} again=${again}
    empty=${html`<${Nothing} title=${idle ? "Never idle" : "No waits"}>${empty}</${Nothing}>`} />`;
}
