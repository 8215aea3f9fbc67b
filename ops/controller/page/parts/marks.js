// Small marks in tables and cards: a tenant, a state, a share.
import { html } from "../app/html.js";
import { link } from "../app/route.js";
import { may } from "../app/identity.js";
import { toneOf } from "../app/colours.js";

/** Text that is another element when it changes: what is aligned to the right then does not count as moved. */
export function Fresh({ text }) {
  return html`<span key=${text}>${text}</span>`;
}

export function Swatch({ name }) {
  return html`<span class=${`swatch ${toneOf(name)}`} aria-hidden="true"></span>`;
}

/** A tenant's name in its colour, with the way to it. */
export function TenantName({ name, plain }) {
  const inside = html`<${Swatch} name=${name} /><span class="name">${name}</span>`;
  return plain || !may("tenants.read")
    ? html`<span class="tenant">${inside}</span>`
    : html`<a class="tenant" href=${link("tenants", name)}>${inside}</a>`;
}

/** A state in a word; `kind` is good, warn, bad or calm. */
export function Badge({ kind = "calm", children }) {
  return html`<span class=${`badge ${kind}`}>${children}</span>`;
}

/** A bar of parts of a whole: `parts` are `{ share, kind }`. The words beside it say the same. */
export function Bar({ parts, mark }) {
  return html`<span class="bar" aria-hidden="true">
    ${parts.map((part, at) => html`<span key=${at} class=${part.kind || ""} style=${{ width: `${Math.max(0, Math.min(1, part.share || 0)) * 100}%` }}></span>`)}
    ${mark !== undefined && html`<i style=${{ left: `${mark * 100}%` }}></i>`}
  </span>`;
}

/** A number with its words and a bar below. */
export function Gauge({ title, value, parts, mark, note }) {
  return html`<div class="gauge"><span class="what">${title}</span><span class="value"><${Fresh} text=${value} /></span>
    <${Bar} parts=${parts} mark=${mark} /><span class="note">${note || " "}</span></div>`;
}

/** A number that stands alone. */
export function Figure({ title, value, note }) {
  return html`<div class="figure"><span class="what">${title}</span><span class="value" title=${typeof value === "string" ? value : undefined}>${value}</span><span class="note">${note || " "}</span></div>`;
}
