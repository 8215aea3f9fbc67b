// Devices and their workers, and the groups they are in.
import { html } from "../app/html.js";
import { post } from "../app/api.js";
import { may } from "../app/identity.js";
import { cluster, liveProblem, pastOf, refresh, workers } from "../app/live.js";
import { link } from "../app/route.js";
import { useResource } from "../app/resource.js";
import { bytes, compact, count, hash, nanos, percent } from "../app/format.js";
import { confirm } from "../parts/dialog.js";
import { Failure, Nothing, say, Skeleton } from "../parts/notice.js";
import { Badge, Gauge, TenantName } from "../parts/marks.js";
import { Line } from "../parts/plots.js";
import { Table } from "../parts/table.js";
import { Days } from "./days.js";

const STATES = { live: "good", draining: "warn", lost: "bad" };

function drain(worker) {
  const undo = worker.state === "draining";
  confirm({
    title: undo ? `Let GPU ${worker.gpu} take sessions again?` : `Drain GPU ${worker.gpu}?`,
    says: undo
      ? html`<p>New sessions may be placed on it from now on.</p>`
      : html`<p>No new session is placed on it. The ${count(worker.sessions)} sessions that are there go on until their programs end; nothing is cut off. It can be undone.</p>`,
    action: undo ? "Stop draining" : "Drain",
    danger: !undo,
    run: () => post(`/workers/${encodeURIComponent(worker.id)}/drain`, { undo }),
    done: () => {
      say(undo ? `GPU ${worker.gpu} takes sessions again.` : `GPU ${worker.gpu} is draining.`);
      refresh();
    },
  });
}

const NAMED = 8;

/** Workers that were lost and have no successor yet. */
function Lost() {
  const lost = cluster.value?.lost ?? [];
  if (!lost.length) return null;
  const named = lost.slice(0, NAMED).map((it) => {
    const gpu = it.gpu === null ? "a device" : `GPU ${it.gpu}`;
    return `${gpu} (${it.device ? `${it.device}, ` : ""}worker ${it.id}), ${nanos(it.lost_for_ns)} ago`;
  });
  const others = lost.length > NAMED ? `; and ${count(lost.length - NAMED)} others` : "";
  return html`<p class="trouble lost">Lost: ${named.join("; ")}${others}.</p>`;
}

function Swap({ swap }) {
  if (!swap) return html`<${Gauge} title="Swap" value="off" parts=${[]} note="not overcommitted" />`;
  const used = swap.memory.used + swap.file.used;
  const most = Math.max(1, swap.memory.max + swap.file.max);
  const moving = swap.moving?.of ? ` · moving ${bytes(swap.moving.done)} of ${bytes(swap.moving.of)}` : "";
  return html`<${Gauge} title="Swap" value=${`${bytes(used)} of ${bytes(most)}`} parts=${[
    { share: swap.memory.used / most, kind: "accent" },
    { share: swap.file.used / most, kind: "warn" },
  ]}
    note=${`${count(swap.outs.times)} out, ${count(swap.ins.times)} in, waited ${nanos(swap.waited_ns)}${moving}`} />`;
}

function Device({ worker }) {
  const { memory } = worker;
  const capacity = memory?.capacity || worker.capacity;
  const held = memory ? memory.held : worker.capacity === null ? null : worker.capacity - worker.free;
  return html`<article class="panel device" aria-labelledby=${`gpu-${worker.id}`}>
    <header><h2 id=${`gpu-${worker.id}`}>GPU ${worker.gpu} <span class="note">${worker.device}</span></h2><${Badge} kind=${STATES[worker.state]}>${worker.state}</${Badge}></header>
    <${Gauge} title="Busy" value=${percent(worker.busy)} parts=${[{ share: worker.busy, kind: "accent" }]} note=${`${nanos(worker.outstanding_ns)} granted and not done`} />
    <${Line} values=${pastOf(`busy ${worker.id}`)} most=${1} />
    <${Gauge} title="Memory" value=${`${bytes(held)} of ${bytes(capacity)}`} parts=${[{ share: held / Math.max(1, capacity), kind: "accent" }]} note=${`${bytes(memory ? memory.free : worker.free)} free`} />
    <${Swap} swap=${memory?.swap} />
    <dl class="facts small">
      <div><dt>Sessions</dt><dd><a href=${link("sessions", null, { worker: worker.id })}>${count(worker.sessions)}</a></dd></div>
      <div><dt>Group</dt><dd>${worker.group || "default"}${worker.exclusive ? ", exclusive" : ""}</dd></div>
      <div><dt>Granted</dt><dd>${compact(worker.granted)}</dd></div>
      <div><dt>Accepted</dt><dd>${compact(worker.accepted)}</dd></div>
      <div><dt>Worker</dt><dd><code title=${worker.id}>${worker.id.length > 14 ? hash(worker.id) : worker.id}</code></dd></div>
      <div><dt>Chain</dt><dd><code title=${worker.chain}>${hash(worker.chain)}</code></dd></div>
    </dl>
    <${Days} gpu=${worker.gpu} />
    ${may("workers.drain") && worker.state !== "lost" && html`<footer><button type="button" onClick=${() => drain(worker)}>${worker.state === "draining" ? "Stop draining" : "Drain"}</button></footer>`}
  </article>`;
}

const GROUPS = [
  { key: "name", title: "Group", width: 9, show: (it) => it.name || "default" },
  {
    key: "exclusive",
    title: "Kind",
    width: 8,
    show: (it) => (it.exclusive ? html`<${Badge} kind="warn">exclusive</${Badge}>` : html`<${Badge}>open</${Badge}>`),
  },
  { key: "workers", title: "Devices", width: 7, num: true, show: (it) => count(it.workers.length) },
  {
    key: "memory",
    title: "Memory free",
    width: 12,
    num: true,
    low: 1,
    show: (it) => `${bytes(it.free)} of ${bytes(it.capacity)}`,
  },
  {
    key: "tenants",
    title: "Tenants",
    width: 22,
    low: 1,
    wrap: true,
    show: (it) =>
      !it.tenants.length
        ? html`<span class="note">${it.exclusive ? "none is bound to it" : "all that are bound to no group"}</span>`
        : html`<span class="names">${it.tenants.map((name) => html`<${TenantName} key=${name} name=${name} />`)}</span>`,
  },
];

export function DevicesPage() {
  const groups = useResource("/groups", undefined, 5000);
  const rows = workers.value;
  const ready = rows && (groups.value || groups.problem);
  return html`
    <header class="head"><h1 tabindex="-1">Devices</h1><p class="about">Each device, the worker that serves it, and the groups that tenants may use</p></header>
    <${Lost} />
    ${
      liveProblem.value && !rows
        ? html`<${Failure} problem=${liveProblem.value} again=${refresh} />`
        : !ready
          ? html`<${Skeleton} rows=${3} tall />`
          : !rows.length
            ? html`<${Nothing} title="No worker has joined">Start one where the device is: <code>warploom worker</code>. It is shown here within a second.</${Nothing}>`
            : html`<div class="panels devices">${[...rows].sort((a, b) => a.gpu - b.gpu).map((it) => html`<${Device} key=${it.id} worker=${it} />`)}</div>
        <h2 class="section">Groups</h2>
        <${Table} caption="Groups of devices" columns=${GROUPS} rows=${groups.value?.items ?? null} keyOf=${(it) => it.name} problem=${groups.problem} again=${groups.reload}
          empty=${html`<${Nothing} title="No groups">All devices are open to all tenants.</${Nothing}>`} />`
    }`;
}
