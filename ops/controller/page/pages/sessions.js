// Open sessions: what each of them waits for; one can be ended.
import { html, useState } from "../app/html.js";
import { remove } from "../app/api.js";
import { may } from "../app/identity.js";
import { refine, route } from "../app/route.js";
import { useResource } from "../app/resource.js";
import { bytes, compact, nanos, percent } from "../app/format.js";
import { confirm } from "../parts/dialog.js";
import { DeviceChoice, TenantChoice } from "../parts/choices.js";
import { Failures } from "../parts/failures.js";
import { Field } from "../parts/field.js";
import { Nothing, say } from "../parts/notice.js";
import { Badge, TenantName } from "../parts/marks.js";
import { Table } from "../parts/table.js";
import { WaitSummary } from "../parts/why.js";
import { Icon } from "../parts/icon.js";

const LIMIT = 100;

/** What a session waits for: a kind of mark, and what it means. */
const WAITS = {
  nothing: ["good", "all that it announced is granted, or runs as it comes"],
  program: ["good", "its program has asked for nothing"],
  order: ["calm", "others are before it"],
  window: ["calm", "it is next, and enough is granted to the device already"],
  cap: ["warn", "its tenant has had all that its cap allows"],
  bound: ["warn", "its tenant has as much granted and not done as it may"],
  target: ["warn", "its next slice is too long for a target of others"],
  memory: ["warn", "it is swapped out"],
  suspended: ["bad", "its tenant is suspended"],
  hold: ["bad", "all grants are held"],
};

function end(session, again) {
  confirm({
    title: `End session ${session.id}?`,
    says: html`<p>Its program${session.process ? ` (${session.process.name}, process ${session.process.pid} on ${session.process.host})` : ""} gets an error at its next call. Its memory, ${bytes(session.held)}, and what is queued are lost. This cannot be undone.</p>`,
    action: "End the session",
    danger: true,
    run: () => remove(`/sessions/${encodeURIComponent(session.id)}`),
    done: () => {
      say(`Session ${session.id} is ended.`);
      again();
    },
  });
}

function Waits({ waits }) {
  const [kind, means] = WAITS[waits] || ["calm", ""];
  return html`<span title=${means}><${Badge} kind=${kind}>${waits}</${Badge}></span>`;
}

const pathOf = (id) => `/sessions/${encodeURIComponent(id)}/why`;

/** A session's id, and what shows or hides what it waited for. */
function Opener({ id, opened, turn }) {
  return html`<button type="button" class="opener" aria-expanded=${opened ? "true" : "false"} aria-label=${`What session ${id} waited for`} onClick=${turn}><${Icon} name=${opened ? "minus" : "plus"} /><code>${id}</code></button>`;
}

/** What a session waits for now, and what its launches waited for. */
function Why({ session }) {
  const [, means] = WAITS[session.waits] || ["calm", ""];
  return html`<div class="opened"><p>Now it waits for <span key=${session.waits}><${Waits} waits=${session.waits} /> <span class="note">${means}</span></span></p>
    <${WaitSummary} path=${pathOf(session.id)} what=${`session ${session.id}`} /></div>`;
}

/** A session that is not there any more: the record may still tell of it. */
function Ended({ id }) {
  return html`<section class="panel"><h2>What session ${id} waited for <span class="note">from the record: it is not open</span></h2><${WaitSummary} path=${pathOf(id)} what=${`session ${id}`} /></section>`;
}

function columns(again, opened, turn) {
  const all = [
    {
      key: "id",
      title: "Session",
      width: 12,
      sort: (it) => it.id,
      show: (it) => html`<${Opener} id=${it.id} opened=${opened === it.id} turn=${() => turn(it.id)} />`,
    },
    {
      key: "tenant",
      title: "Tenant",
      width: 8,
      sort: (it) => it.tenant,
      show: (it) => html`<${TenantName} name=${it.tenant} />`,
    },
    {
      key: "waits",
      title: "Waits for",
      width: 8,
      sort: (it) => it.waits,
      show: (it) => html`<${Waits} waits=${it.waits} />`,
    },
    { key: "gpu", title: "GPU", width: 4, num: true, low: 1, sort: (it) => it.gpu, show: (it) => it.gpu },
    {
      key: "queued",
      title: "Queue",
      width: 6,
      num: true,
      sort: (it) => it.queued,
      low: 1,
      show: (it) => compact(it.queued),
    },
    {
      key: "outstanding",
      title: "Granted, not done",
      width: 9,
      num: true,
      low: 2,
      sort: (it) => it.outstanding_ns,
      show: (it) => nanos(it.outstanding_ns),
    },
    {
      key: "busy",
      title: "GPU used",
      width: 6,
      num: true,
      low: 1,
      sort: (it) => it.busy,
      show: (it) => percent(it.busy),
    },
    { key: "held", title: "Memory", width: 7, num: true, low: 1, sort: (it) => it.held, show: (it) => bytes(it.held) },
    {
      key: "place",
      title: "Place",
      width: 7,
      low: 2,
      sort: (it) => it.place,
      show: (it) => `${it.place ?? "–"}${it.pinned ? ", pinned" : ""}`,
    },
    {
      key: "process",
      title: "Program",
      width: 14,
      low: 1,
      sort: (it) => it.process?.name,
      show: (it) =>
        it.process ? html`${it.process.name} <span class="note">${it.process.pid} on ${it.process.host}</span>` : "–",
    },
  ];
  if (may("sessions.end"))
    all.push({
      key: "end",
      title: "",
      width: 4.5,
      show: (it) =>
        html`<button type="button" class="small" aria-label=${`End session ${it.id}`} onClick=${() => end(it, again)}>End</button>`,
    });
  return all;
}

export function SessionsPage() {
  const { tenant = "", worker = "", after = "", find = "" } = route.value.query;
  const one = useResource(find ? `/sessions/${encodeURIComponent(find)}` : null, undefined, 2000);
  const many = useResource(find ? null : "/sessions", { tenant, worker, after, limit: LIMIT }, 2000);
  const read = find ? one : many;
  const rows = find ? (one.value ? [one.value] : null) : (many.value?.items ?? null);
  const [text, setText] = useState(find);
  const [opened, setOpened] = useState(null);
  const turn = (id) => setOpened((old) => (old === id ? null : id));
  const search = (event) => {
    event.preventDefault();
    refine({ find: text.trim(), after: "" });
  };
  const empty = html`<${Nothing} title="No sessions">No program is connected${tenant || worker ? " that fits what is chosen above" : ""}. <code>warploom run -- ./program</code> opens one.</${Nothing}>`;
  return html`
    <header class="head"><h1 tabindex="-1">Sessions</h1><p class="about">Programs at work, and what each of them waits for</p></header>
    <form class="filters" onSubmit=${search}>
      <${TenantChoice} value=${tenant} onInput=${(value) => refine({ tenant: value, after: "", find: "" })} />
      <${DeviceChoice} by="id" value=${worker} onInput=${(value) => refine({ worker: value, after: "", find: "" })} />
      <${Field} name="find" label="Session" value=${text} onInput=${setText} help="an id, then Enter" />
      <div class="pager"><button type="button" disabled=${!after} onClick=${() => refine({ after: "" })}>First</button>
        <button type="button" disabled=${find || !many.value?.next} onClick=${() => refine({ after: many.value.next })}>Next ${LIMIT}</button>
        ${
          find &&
          html`<button type="button" onClick=${() => {
            setText("");
            refine({ find: "" });
          }}>Show all</button>`
        }</div>
    </form>
    <${Table} caption="Sessions" columns=${columns(read.reload, opened, turn)} rows=${rows} keyOf=${(it) => it.id} problem=${read.problem} again=${read.reload} empty=${empty}
      more=${(it) => it.id === opened && html`<${Why} session=${it} />`} />
    ${(rows || read.problem) && html`<${Failures} tenant=${tenant} />`}
    ${find && one.problem?.status === 404 && html`<${Ended} id=${find} />`}`;
}
