// What is known of the block that was chosen.
import { html } from "../app/html.js";
import { link } from "../app/route.js";
import { may } from "../app/identity.js";
import { clock, count, moment, nanos } from "../app/format.js";
import { Badge, TenantName } from "../parts/marks.js";
import { Waited } from "./waited.js";

const KIND_WORDS = {
  run: "runs ops",
  open: "opens the session",
  close: "closes the session",
  standing: "standing grant",
  revoke: "closes the standing grant",
  return: "brings memory back",
};
const OUTCOME_KINDS = { ran: "good", void: "bad", gone: "bad" };

function opsOf(it) {
  if (!it.first || it.last < it.first) return "none";
  return it.first === it.last ? `op ${count(it.first)}` : `ops ${count(it.first)} to ${count(it.last)}`;
}

function rowsOf(it) {
  return [
    ["Tenant", html`<${TenantName} name=${it.tenant} />`],
    [
      "Session",
      may("sessions.read")
        ? html`<a href=${link("sessions", null, { find: it.session })}>${it.session}</a>`
        : it.session,
    ],
    ["What", KIND_WORDS[it.kind] || it.kind],
    ["Ops", opsOf(it)],
    ["Kernels", count(it.kernels)],
    ["Priority", it.priority],
    ["Cost, estimated", nanos(it.cost_ns)],
    [it.part ? "Took so far" : "Took", nanos(it.measured_ns)],
    [
      "Outcome",
      it.outcome
        ? html`<${Badge} kind=${OUTCOME_KINDS[it.outcome]}>${it.outcome}${it.adopted ? ", adopted" : ""}</${Badge}>`
        : html`<${Badge}>${it.part ? "running" : "not known yet"}</${Badge}>`,
    ],
    ["Ended", html`<span title=${moment(it.at_ms)}>${clock(it.at_ms)}</span>`],
    ["Device", `GPU ${it.gpu}`],
    ["Position there", count(it.position)],
  ];
}

/** What runs under a standing grant has its place once that has ended. */
function titleOf(it) {
  if (!it) return "Position";
  return it.part ? "A standing grant, running" : `Position ${it.id}`;
}

export function Detail({ loom }) {
  const it = loom.detail.value;
  return html`<section class="detail" aria-labelledby="detail-title">
    <header><h2 id="detail-title">${titleOf(it)}</h2>
      <span class="note">${it?.chosen && !it.part && may("order.read") ? html`<a href=${link("order", null, { find: it.id })}>In the table</a>` : "Point at a block, or go to it with the arrow keys"}</span></header>
    <div aria-live=${it?.chosen ? "polite" : "off"}>
      <dl class="facts">${
        it
          ? rowsOf(it).map(
              ([name, value]) =>
                html`<div key=${name}><dt>${name}</dt><dd title=${typeof value === "string" ? value : undefined}>${value}</dd></div>`,
            )
          : Array.from({ length: 12 }, (_, at) => html`<div key=${at} aria-hidden="true"><dt> </dt><dd> </dd></div>`)
      }</dl>
    </div>
    <${Waited} it=${it} />
  </section>`;
}
