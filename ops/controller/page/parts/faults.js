// Sessions that failed: the kernel, its line, and the allocation that it missed.
import { html } from "../app/html.js";
import { faults } from "../app/live.js";
import { clock } from "../app/format.js";
import { TenantName } from "./marks.js";
import { Table } from "./table.js";

/** Kind, kernel and line of a fault. */
export function headline({ kernel: it, text }) {
  if (!it) return text;
  const source = it.file ? `, ${it.file}:${it.line} (PTX line ${it.ptx_line})` : `, PTX line ${it.ptx_line}`;
  return `${it.kind} in kernel ${it.name}${source}`;
}

/** Block, thread, access and explanation of a kernel's fault. */
export function placeOf({ kernel: it }) {
  if (!it) return "";
  const access = [it.access, it.address && `at ${it.address}`].filter(Boolean).join(" ");
  const place = [`block ${it.block.join(", ")}`, `thread ${it.thread.join(", ")}`, access].filter(Boolean).join(" · ");
  return it.detail ? `${place}: ${it.detail}` : place;
}

const COLUMNS = [
  {
    key: "what",
    title: "Failure",
    width: 24,
    wrap: true,
    show: (it) => html`<span class="fault">${headline(it)}<span class="note">${placeOf(it)}</span></span>`,
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
export function Faults({ tenant }) {
  const rows = faults.value.filter((it) => !tenant || it.tenant === tenant);
  if (!rows.length) return null;
  return html`<section class="faults"><h2>Failures <span class="note">sessions that an error ended, the newest first</span></h2>
    <${Table} caption="Failures" columns=${COLUMNS} rows=${rows} keyOf=${(it) => it.session} /></section>`;
}
