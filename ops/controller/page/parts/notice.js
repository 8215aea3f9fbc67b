// Short words on what was done, and what is shown where there is nothing to show.
import { html, signal } from "../app/html.js";

const notices = signal([]);
let next = 0;

/** Says for some seconds what was done. */
export function say(text) {
  const notice = { id: next++, text };
  notices.value = [...notices.value.slice(-2), notice];
  setTimeout(() => (notices.value = notices.value.filter((it) => it !== notice)), 6000);
}

export function Notices() {
  return html`<div class="notices" role="status">${notices.value.map((it) => html`<p key=${it.id}>${it.text}</p>`)}</div>`;
}

/** Something could not be read. */
export function Failure({ problem, again }) {
  return html`<div class="state bad" role="alert">
    <h2>${problem.title || "This could not be read"}</h2>
    <p>${problem.message}</p>
    <p>${problem.code && html`<code>${problem.code}</code>`} ${again && html`<button type="button" onClick=${again}>Try again</button>`}</p>
  </div>`;
}

/** There is nothing yet. */
export function Nothing({ title, children }) {
  return html`<div class="state"><h2>${title}</h2><p>${children}</p></div>`;
}

/** Room for what is being read. */
export function Skeleton({ rows = 6, tall }) {
  return html`<div class=${`skeleton ${tall ? "tall" : ""}`} aria-hidden="true">${Array.from({ length: rows }, (_, at) => html`<span key=${at}></span>`)}</div>`;
}
