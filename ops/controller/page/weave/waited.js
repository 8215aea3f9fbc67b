// What the position that is pointed at waited for: a bar, a few causes, and when it was where.
import { html, useEffect, useState } from "../app/html.js";
import { get } from "../app/api.js";
import { may } from "../app/identity.js";
import { nanos, percent } from "../app/format.js";
import { Fresh } from "../parts/marks.js";
import { Cause, CauseBar, fewOf } from "../parts/causes.js";

/** How long something is pointed at before its times are asked for, ms; and how many are kept. */
const POINTED = 150;
const KEPT = 300;
/** Causes that there is room for. */
const ROOM = 5;

const known = new Map();

async function explained(id) {
  if (!known.has(id)) {
    const value = await get(`/order/${encodeURIComponent(id)}/why`);
    known.set(id, value);
    if (known.size > KEPT) known.delete(known.keys().next().value);
  }
  return known.get(id);
}

/** All that is known of the position that is pointed at: `{ value, problem }`. */
function useExplained(it) {
  const id = it?.pointed && !it.part && may("order.read") ? it.id : null;
  const [state, setState] = useState({});
  useEffect(() => {
    if (!id) return undefined;
    let there = true;
    const tell = (more) => there && setState({ id, ...more });
    const ask = () => explained(id).then((value) => tell({ value }), (problem) => tell({ problem }));
    const timer = setTimeout(ask, known.has(id) ? 0 : POINTED);
    return () => {
      there = false;
      clearTimeout(timer);
    };
  }, [id]);
  return id && state.id === id ? state : {};
}

/** Stages: what they are called, and from when to when. */
const STAGES = [
  ["Queued", "announced_ns", "granted_ns", "until it was granted"],
  ["On its way", "granted_ns", "accepted_ns", "until its worker had it"],
  ["At the worker", "accepted_ns", "begun_ns", "until it was handed to the device"],
  ["At the device", "begun_ns", "started_ns", "until its first op began"],
  ["Running", "started_ns", "ended_ns", "until its last op had ended"],
];

function Stages({ times }) {
  return html`<dl class="facts stages">${STAGES.map(
    ([name, from, to, means]) =>
      html`<div key=${name} title=${means}><dt>${name}</dt><dd>${nanos(times ? times[to] - times[from] : null)}</dd></div>`,
  )}</dl>`;
}

function said(it, waits, problem) {
  if (!it) return " ";
  if (problem?.status === 429) return "The controller reads its record for another request: point again in a moment";
  if (waits) return waits.length ? "What for" : "It did not wait";
  return it.kind === "run" || it.kind === "standing" ? "Its times are not recorded" : "It is no work, and waited for nothing";
}

/** As high as it is, whatever is known. */
export function Waited({ it }) {
  const { value, problem } = useExplained(it);
  const whole = value?.waited_ns ?? it?.waited_ns;
  const waits = value?.waits ?? it?.waits;
  const few = fewOf(waits ?? [], ROOM);
  return html`<div class="waited">
    <div class="waitline"><h3>Waited <span class="value">${nanos(whole)}</span></h3><span class="note">${said(it, waits, problem)}</span></div>
    <${CauseBar} waits=${few} whole=${whole} />
    <ul class="few">${Array.from({ length: ROOM }, (_, at) => {
      const wait = few[at];
      if (!wait) return html`<li key=${at} aria-hidden="true"> </li>`;
      return html`<li key=${`${at} ${wait.cause} ${wait.of}`}><${Cause} wait=${wait} /><span class="num"><${Fresh} text=${nanos(wait.ns)} /></span><span class="num"><${Fresh} text=${percent(wait.ns / Math.max(1, whole))} /></span></li>`;
    })}</ul>
    <${Stages} times=${value?.times} />
  </div>`;
}
