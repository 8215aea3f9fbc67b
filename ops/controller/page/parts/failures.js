// Sessions that failed: the kernel, its line, and the allocation that it missed.
import { html } from "../app/html.js";
import { headline, placeOf } from "../app/failure.js";
import { failures } from "../app/live.js";
import { clock } from "../app/format.js";
import { TenantName } from "./marks.js";
import { Table } from "./table.js";

const COLUMNS = [
  {
    key: "what",
    title: "Failure",
    width: 24,
    wrap: true,
    show: (it) => html`<span class="failure">${headline(it)}<span class="note">${placeOf(it)}</span></span>`,
  },
  { key: "code", title: "Code", width: 11, low: 2, sort: (it) => it.code, show: (it) => html`<code>${it.code}</code>` },
  {
    key: "tenant",
    title: "Tenant",
    width: 7,
    sort: (it) => it.tenant,
    show: (it) => html`<${TenantName} name=${it.tenant} />`,
  },
  {
    key: "session",
    title: "Session",
    width: 10,
    low: 1,
    sort: (it) => it.session,
    show: (it) => html`<code>${it.session}</code>`,
  },
  { key: "gpu", title: "GPU", width: 4, num: true, low: 2, sort: (it) => it.gpu, show: (it) => it.gpu },
  { key: "at", title: "When", width: 9, low: 1, sort: (it) => -(it.at_ms ?? 0), show: (it) => clock(it.at_ms) },
];

/** The failures of a tenant's sessions, or of all, the newest first; nothing where there are none. */
export function Failures({ tenant }) {
  const rows = failures.value.filter((it) => !tenant || it.tenant === tenant);
  if (!rows.length) return null;
  return html`<section class="failures"><h2>Failures <span class="note">sessions that an error ended, the newest first</span></h2>
    <${Table} caption="Failures" columns=${COLUMNS} rows=${rows} keyOf=${(it) => it.session} /></section>`;
}
