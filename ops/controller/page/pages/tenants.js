// All tenants: their targets, queues and memory; a new one.
import { html, useState } from "../app/html.js";
import { may } from "../app/identity.js";
import { liveProblem, refresh, tenants } from "../app/live.js";
import { go } from "../app/route.js";
import { bytes, compact, nanos, percent } from "../app/format.js";
import { Table } from "../parts/table.js";
import { Badge, Bar, Figure, TenantName } from "../parts/marks.js";
import { Nothing, say } from "../parts/notice.js";
import { TenantForm } from "./tenantform.js";

/** The target that is set, in nanoseconds; nothing of it is counted before there is traffic. */
export const targetOf = (tenant) => tenant.attainment?.target_ns || tenant.settings.slo_ns || null;

/** How a target is met, as a mark: words and a kind. */
export function attainmentOf(tenant) {
  const it = tenant.attainment;
  if (!targetOf(tenant)) return null;
  if (it?.attained == null) return { kind: "calm", text: "no traffic", share: 0 };
  const kind = it.attained >= 0.99 ? "good" : it.attained >= 0.95 ? "warn" : "bad";
  return { kind, text: percent(it.attained), share: it.attained };
}

function Target({ tenant }) {
  const it = attainmentOf(tenant);
  if (!it) return html`<span class="note">no target</span>`;
  if (it.kind === "calm") return html`<span class="note">${nanos(targetOf(tenant))}, ${it.text}</span>`;
  return html`<span class="duo"><span>${it.text}</span><${Bar} parts=${[{ share: it.share, kind: it.kind }]} mark=${0.99} /></span>`;
}

/** The parts of a tenant's memory, as shares of what it may hold. */
export function memoryParts(memory) {
  const whole = Math.max(1, memory.total || memory.held || 1);
  return [
    { share: memory.resident / whole, kind: "accent" },
    { share: memory.swapped / whole, kind: "warn" },
  ];
}

function Memory({ memory }) {
  if (!memory) return "–";
  return html`<span class="duo"><span>${bytes(memory.held)}</span><${Bar} parts=${memoryParts(memory)} /></span>`;
}

const COLUMNS = [
  {
    key: "name",
    title: "Tenant",
    width: 11,
    sort: (it) => it.name,
    show: (it) => html`<${TenantName} name=${it.name} />`,
  },
  {
    key: "state",
    title: "State",
    width: 7,
    low: 1,
    sort: (it) => it.settings.suspended,
    show: (it) =>
      it.settings.suspended
        ? html`<${Badge} kind="warn">suspended</${Badge}>`
        : html`<${Badge} kind="good">active</${Badge}>`,
  },
  {
    key: "priority",
    title: "Priority",
    width: 6,
    num: true,
    low: 1,
    sort: (it) => it.settings.priority,
    show: (it) => it.settings.priority,
  },
  {
    key: "weight",
    title: "Weight",
    width: 6,
    num: true,
    low: 2,
    sort: (it) => it.settings.weight,
    show: (it) => it.settings.weight,
  },
  {
    key: "target",
    title: "Within target",
    width: 10,
    sort: (it) => it.attainment?.attained,
    show: (it) => html`<${Target} tenant=${it} />`,
  },
  {
    key: "p99",
    title: "p99",
    width: 7,
    num: true,
    sort: (it) => it.attainment?.p99_ns,
    show: (it) => nanos(it.attainment?.p99_ns),
  },
  {
    key: "slo",
    title: "Target",
    width: 7,
    num: true,
    low: 1,
    sort: (it) => it.settings.slo_ns,
    show: (it) => nanos(it.settings.slo_ns || null),
  },
  {
    key: "queued",
    title: "Queue",
    width: 6,
    num: true,
    low: 1,
    sort: (it) => it.queued,
    show: (it) => compact(it.queued),
  },
  {
    key: "sessions",
    title: "Sessions",
    width: 6,
    num: true,
    low: 1,
    sort: (it) => it.sessions,
    show: (it) => compact(it.sessions),
  },
  {
    key: "busy",
    title: "GPU used",
    width: 7,
    num: true,
    low: 2,
    sort: (it) => it.memory?.busy,
    show: (it) => percent(it.memory?.busy),
  },
  {
    key: "memory",
    title: "Memory held",
    width: 11,
    low: 1,
    sort: (it) => it.memory?.held,
    show: (it) => html`<${Memory} memory=${it.memory} />`,
  },
  {
    key: "saved",
    title: "Shared",
    width: 7,
    num: true,
    low: 2,
    sort: (it) => it.memory?.saved,
    show: (it) => bytes(it.memory?.saved),
  },
  {
    key: "swapped",
    title: "Swapped",
    width: 7,
    num: true,
    low: 2,
    sort: (it) => it.memory?.swapped,
    show: (it) => bytes(it.memory?.swapped),
  },
];

/** How many targets are met, of those that there was traffic for. */
export function targetsMet(rows) {
  const marks = rows.map(attainmentOf).filter(Boolean);
  const judged = marks.filter((it) => it.kind !== "calm");
  const met = judged.filter((it) => it.kind === "good").length;
  const idle = marks.length - judged.length;
  if (!marks.length) return { value: "–", note: "no target is set" };
  return {
    value: judged.length ? `${met} of ${judged.length}` : "–",
    note: `99 of 100 requests in time${idle ? `; ${idle} without traffic` : ""}`,
  };
}

const sumOf = (rows, pick) => rows.reduce((sum, it) => sum + (pick(it) || 0), 0);

function Totals({ rows }) {
  const targets = rows ? targetsMet(rows) : { value: "–", note: "" };
  const say = (pick, format) => (rows ? format(sumOf(rows, pick)) : "–");
  return html`<div class="figures wide">
    <${Figure} title="Targets met" value=${targets.value} note=${targets.note} />
    <${Figure} title="Queue" value=${say((it) => it.queued, compact)} note="ops that wait" />
    <${Figure} title="Sessions" value=${say((it) => it.sessions, compact)} note="open" />
    <${Figure} title="Memory held" value=${say((it) => it.memory?.held, bytes)} note=${rows ? `${bytes(sumOf(rows, (it) => it.memory?.swapped))} swapped out` : ""} />
    <${Figure} title="Shared" value=${say((it) => it.memory?.saved, bytes)} note="stored once instead of again" />
  </div>`;
}

export function TenantsPage() {
  const [creating, setCreating] = useState(false);
  const created = (name) => {
    setCreating(false);
    say(`Tenant ${name} is created.`);
    refresh();
    go("tenants", name);
  };
  const empty = html`<${Nothing} title="No tenants yet">A tenant is a user of the cluster, with a login of its own. Create one here, or with <code>warploom tenant create NAME</code>.</${Nothing}>`;
  return html`
    <header class="head"><h1 tabindex="-1">Tenants</h1><p class="about">Who shares the cluster, and how their targets are met</p>
      <div class="actions">${may("tenants.write") && html`<button type="button" class="primary" onClick=${() => setCreating(true)}>New tenant</button>`}</div></header>
    <${Totals} rows=${tenants.value} />
    <${Table} caption="Tenants" columns=${COLUMNS} rows=${tenants.value} keyOf=${(it) => it.name} problem=${liveProblem.value} again=${refresh} empty=${empty} start=${{ key: "priority", down: false }} />
    ${creating && html`<${TenantForm} onClose=${() => setCreating(false)} onDone=${created} />`}`;
}
