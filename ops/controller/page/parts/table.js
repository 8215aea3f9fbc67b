// Tables of fixed columns, so that nothing moves as rows come.
import { html, signal, useState } from "../app/html.js";
import { Fresh } from "./marks.js";
import { Failure } from "./notice.js";

const WAITING = 8;

/** How much room there is: 0 on telephones, 2 where everything fits. Columns need this much, or none. */
const room = signal(0);
const steps = ["(min-width: 700px)", "(min-width: 1400px)"].map((it) => matchMedia(it));
const look = () => (room.value = steps.filter((it) => it.matches).length);
for (const step of steps) step.addEventListener("change", look);
look();

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return a < b ? -1 : 1;
}

function sorted(rows, columns, order) {
  const column = columns.find((it) => it.key === order.key);
  if (!column?.sort) return rows;
  return [...rows].sort((a, b) => compare(column.sort(a), column.sort(b)) * (order.down ? -1 : 1));
}

function Head({ column, order, setOrder }) {
  const classes = column.num ? "num" : undefined;
  if (!column.title)
    return html`<th scope="col" class="blank"><span class="unseen">${column.says || "Actions"}</span></th>`;
  if (!column.sort) return html`<th scope="col" class=${classes}>${column.title}</th>`;
  const on = order.key === column.key;
  const turn = () => setOrder({ key: column.key, down: on ? !order.down : Boolean(column.num) });
  return html`<th scope="col" class=${classes} aria-sort=${on ? (order.down ? "descending" : "ascending") : undefined}>
    <button type="button" class="sort" onClick=${turn}>${column.title}<span aria-hidden="true">${on ? (order.down ? "↓" : "↑") : ""}</span></button></th>`;
}

function Cell({ column, row, first }) {
  const classes = [column.num && "num", column.wrap && "wrap"].filter(Boolean).join(" ") || undefined;
  const shown = column.show(row);
  const inside = column.num && typeof shown !== "object" ? html`<${Fresh} text=${shown} />` : shown;
  return first ? html`<th scope="row" class=${classes}>${inside}</th>` : html`<td class=${classes}>${inside}</td>`;
}

function Waiting({ columns }) {
  return Array.from(
    { length: WAITING },
    (_, at) => html`<tr key=${at} class="waiting" aria-hidden="true">
    ${columns.map((column) => html`<td key=${column.key}><span class="bone"></span></td>`)}</tr>`,
  );
}

/** The width of a column: what is left for the first, a share for others, a fixed one for buttons. */
function widthOf(column, at, whole) {
  if (at === 0) return undefined;
  return column.title ? `${(column.width / whole) * 100}%` : `${column.width}rem`;
}

function Widths({ columns }) {
  const whole = columns.reduce((sum, it) => sum + it.width, 0);
  return html`<colgroup>${columns.map((column, at) => html`<col key=${column.key} style=${{ width: widthOf(column, at, whole) }} />`)}</colgroup>`;
}

/**
 * `columns`: `{ key, title (none for buttons), width (rem), num, low (the room that it needs, 1 or 2), sort(row), show(row) }`.
 * `rows` is null while they are read; `more(row)` is what is shown below a row, if anything.
 */
export function Table({ caption, columns: all, rows, keyOf, empty, problem, again, start, rowClass, more }) {
  const [order, setOrder] = useState(start || {});
  if (problem && !rows) return html`<${Failure} problem=${problem} again=${again} />`;
  if (rows && !rows.length && empty) return empty;
  const columns = all.filter((it) => !it.low || it.low <= room.value);
  return html`<div class="scroll" role="region" aria-label=${caption} tabindex="0">
    <table aria-busy=${rows ? undefined : "true"}>
      <caption class="unseen">${caption}</caption>
      <${Widths} columns=${columns} />
      <thead><tr>${columns.map((column) => html`<${Head} key=${column.key} column=${column} order=${order} setOrder=${setOrder} />`)}</tr></thead>
      <tbody>${
        rows
          ? sorted(rows, columns, order).map((row) => {
              const below = more?.(row);
              return html`<tr key=${keyOf(row)} class=${rowClass?.(row) || ""}>${columns.map((column, at) => html`<${Cell} key=${column.key} column=${column} row=${row} first=${at === 0} />`)}</tr>
                ${below && html`<tr key=${`${keyOf(row)} more`} class="below"><td colspan=${columns.length}>${below}</td></tr>`}`;
            })
          : html`<${Waiting} columns=${columns} />`
      }</tbody>
    </table>
  </div>`;
}
