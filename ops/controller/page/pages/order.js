// The launch order as a table; it can be verified, exported and held.
import { html, useState } from "../app/html.js";
import { address, post, put } from "../app/api.js";
import { may } from "../app/identity.js";
import { cluster, refresh } from "../app/live.js";
import { link, refine, route } from "../app/route.js";
import { useResource } from "../app/resource.js";
import { count, hash, moment, nanos } from "../app/format.js";
import { confirm, Dialog, Trouble } from "../parts/dialog.js";
import { DeviceChoice, TenantChoice } from "../parts/choices.js";
import { Field } from "../parts/field.js";
import { Icon } from "../parts/icon.js";
import { Nothing, say } from "../parts/notice.js";
import { Badge, Figure, TenantName } from "../parts/marks.js";
import { Table } from "../parts/table.js";
import { inOrder } from "../weave/record.js";

const LIMIT = 100;
const ID = /^\d+\.\d+$/;
const OUTCOMES = { ran: "good", void: "bad", gone: "bad" };

function Outcome({ it }) {
  if (!it.outcome) return html`<span class="note">not yet</span>`;
  return html`<${Badge} kind=${OUTCOMES[it.outcome]}>${it.outcome}${it.adopted ? ", adopted" : ""}</${Badge}>`;
}

function ops(it) {
  if (!it.first || it.last < it.first) return "–";
  return it.first === it.last ? count(it.first) : `${count(it.first)} – ${count(it.last)}`;
}

const COLUMNS = [
  {
    key: "id",
    title: "Position",
    width: 8,
    show: (it) =>
      may("events.read")
        ? html`<a href=${link("weave", null, { at: it.id })} title="Show in the weave"><code>${it.id}</code></a>`
        : html`<code>${it.id}</code>`,
  },
  { key: "tenant", title: "Tenant", width: 8, show: (it) => html`<${TenantName} name=${it.tenant} />` },
  { key: "kind", title: "Kind", width: 6, low: 1, show: (it) => it.kind },
  { key: "gpu", title: "GPU, position", width: 8, num: true, low: 1, show: (it) => `${it.gpu}, ${count(it.position)}` },
  { key: "session", title: "Session", width: 10, low: 1, show: (it) => html`<code>${it.session}</code>` },
  { key: "ops", title: "Ops", width: 10, num: true, low: 1, show: ops },
  { key: "kernels", title: "Kernels", width: 5, num: true, low: 2, show: (it) => count(it.kernels) },
  { key: "cost", title: "Cost", width: 6, num: true, low: 1, show: (it) => nanos(it.cost_ns) },
  { key: "took", title: "Took", width: 8.5, num: true, show: (it) => nanos(it.measured_ns) },
  { key: "outcome", title: "Outcome", width: 8, show: (it) => html`<${Outcome} it=${it} />` },
  { key: "at", title: "Ended", width: 11, num: true, low: 2, show: (it) => moment(it.at_ms) },
];

function hold() {
  const held = cluster.value?.held;
  confirm({
    title: held ? "Let the order go on?" : "Hold the order?",
    says: held
      ? html`<p>The leader grants again, all tenants, in the order in which it would have.</p>`
      : html`<p>The leader grants nothing more to anybody. What is on devices ends; all programs of all tenants then wait until the order goes on. Nothing is lost.</p>`,
    action: held ? "Go on" : "Hold everything",
    danger: !held,
    run: () => put("/order/hold", { held: !held }),
    done: (value) => {
      if (value) cluster.value = { ...cluster.value, ...value };
      say(value?.held ? "The order is held." : "The order goes on.");
      refresh();
    },
  });
}

const VERIFIED = [
  ["positions", "Positions"],
  ["compared", "Compared"],
  ["adopted", "Adopted"],
  ["skipped", "Skipped"],
  ["unrecorded", "Not recorded"],
];

function Verify({ close }) {
  const [state, setState] = useState({ step: "ask" });
  const run = async () => {
    setState({ step: "run" });
    try {
      setState({ step: "done", answer: await post("/order/verify") });
    } catch (problem) {
      setState({ step: "ask", problem });
    }
  };
  const { answer } = state;
  return html`<${Dialog} title="Verify the order" onClose=${close}>
    ${
      answer
        ? html`<p class="says" role="status">${answer.ok ? html`<${Badge} kind="good">The replay agrees</${Badge}>` : html`<${Badge} kind="bad">The replay disagrees</${Badge}>`}</p>
        <dl class="facts">${VERIFIED.map(([it, text]) => html`<div key=${it}><dt>${text}</dt><dd>${count(answer[it])}</dd></div>`)}</dl>
        <p>Digest of the launch order:</p><pre><code>${answer.digest}</code></pre>
        ${answer.disagreements?.length ? html`<h3>Where they disagree</h3><ul>${answer.disagreements.map((it) => html`<li key=${it}>${it}</li>`)}</ul>` : null}`
        : html`<p class="says" role="status">${state.step === "run" ? "Reading the record and computing the order again …" : "The controller reads the whole record and computes the launch order again from it. It changes nothing, and takes seconds to minutes, with one core of the controller's machine."}</p>`
    }
    <${Trouble} problem=${state.problem} />
    <footer><button type="button" data-first onClick=${close}>Close</button>
      ${!answer && html`<button type="button" class="primary" disabled=${state.step === "run"} onClick=${run}>${state.step === "run" ? "Working …" : "Verify"}</button>`}</footer>
  </${Dialog}>`;
}

function Actions({ verify }) {
  const held = cluster.value?.held;
  return html`<div class="actions">
    ${may("order.verify") && html`<button type="button" class="primary" onClick=${verify}>Verify</button>`}
    ${may("order.export") && ["record", "csv"].map((it) => html`<a key=${it} class="button" href=${address("/order/export", { format: it })} download><${Icon} name="down" />${it === "csv" ? "CSV" : "Export"}</a>`)}
    ${may("cluster.hold") && html`<button type="button" class="danger" onClick=${hold}>${held ? "Go on" : "Hold"}</button>`}</div>`;
}

function Facts() {
  const it = cluster.value;
  const record = it?.stores?.find((store) => /record/i.test(store.name));
  return html`<div class="figures wide">
    <${Figure} title="Leader" value=${html`<span class="short" title=${it?.leader}>${it?.leader || "–"}</span>`} note=${it ? `epoch ${it.epoch}` : ""} />
    <${Figure} title="Granted" value=${count(it?.global)} note="positions in this epoch" />
    <${Figure} title="Inputs" value=${count(it?.input)} note=${it ? `${count(it.recorded)} recorded` : ""} />
    <${Figure} title="Record" value=${record?.max_bytes ? `${((100 * record.bytes) / record.max_bytes).toFixed(1)} %` : "–"} note=${record?.alarm ? `full soon: ${record.alarm}` : "of its size"} />
    <${Figure} title="Evidence key" value=${html`<code title=${it?.evidence_key}>${hash(it?.evidence_key)}</code>`} note="signs exports" />
  </div>`;
}

export function OrderPage() {
  const { tenant = "", gpu = "", before = "", after = "", find = "" } = route.value.query;
  const [verifying, setVerifying] = useState(false);
  const [text, setText] = useState(find);
  const [wrong, setWrong] = useState(null);
  const from = find ? nextBehind(find) : before;
  const newest = !from && !after;
  const read = useResource("/order", { tenant, gpu, before: from, after, limit: LIMIT }, newest ? 2000 : 0);
  const rows = read.value && inOrder(read.value.items).reverse();
  const search = (event) => {
    event.preventDefault();
    const good = !text || ID.test(text.trim());
    setWrong(good ? null : "EPOCH.POSITION, e.g. 3.1200");
    if (good) refine({ find: text.trim(), before: "", after: "" });
  };
  const older = () => refine({ before: rows.at(-1).id, after: "", find: "" });
  const newer = () => refine({ after: rows[0].id, before: "", find: "" });
  const empty = html`<${Nothing} title="No positions">Nothing is recorded that fits what is chosen above. The record keeps ${read.value?.oldest || "–"} to ${read.value?.newest || "–"}.</${Nothing}>`;
  return html`
    <header class="head"><h1 tabindex="-1">Order</h1><p class="about">Every grant, as it is recorded; anybody can compute it again</p><${Actions} verify=${() => setVerifying(true)} /></header>
    <${Facts} />
    <form class="filters" onSubmit=${search}>
      <${TenantChoice} value=${tenant} onInput=${(value) => refine({ tenant: value })} />
      <${DeviceChoice} by="gpu" value=${gpu} onInput=${(value) => refine({ gpu: value })} />
      <${Field} name="find" label="Position" value=${text} error=${wrong} onInput=${setText} help="an id, then Enter" />
      <div class="pager"><button type="button" disabled=${!rows?.length} onClick=${older}>Older</button>
        <button type="button" disabled=${newest || !rows?.length} onClick=${newer}>Newer</button>
        <button type="button" disabled=${newest} onClick=${() => {
          setText("");
          refine({ before: "", after: "", find: "" });
        }}>Newest</button></div>
    </form>
    <${Table} caption="Positions" columns=${COLUMNS} rows=${rows} keyOf=${(it) => it.id} problem=${read.problem} again=${read.reload} empty=${empty} rowClass=${(it) => (it.id === find ? "chosen" : "")} />
    ${verifying && html`<${Verify} close=${() => setVerifying(false)} />`}`;
}

function nextBehind(id) {
  const [epoch, global] = id.split(".");
  return `${epoch}.${Number(global) + 1}`;
}
