// What the record explains of something: read when it is looked at, one after the other.
import { html, useEffect, useRef, useState } from "../app/html.js";
import { patient } from "../app/api.js";
import { loggedOut } from "../app/identity.js";
import { compact, nanos } from "../app/format.js";
import { Figure } from "./marks.js";
import { CauseBar, CauseTable } from "./causes.js";

let last = Promise.resolve();

/** Asks when those before have been answered, so that live data has a connection left. */
function inTurn(ask) {
  const mine = last.then(ask, ask);
  last = mine.catch(() => {});
  return mine;
}

/** Reads why; `{ value, problem, again }`. */
export function useWhy(path) {
  const [state, setState] = useState({ path, value: null, problem: null });
  const read = useRef(() => {});
  useEffect(() => {
    const stop = new AbortController();
    read.current = async () => {
      try {
        const value = await inTurn(() => (stop.signal.aborted ? null : patient(path, undefined, stop.signal)));
        if (!stop.signal.aborted) setState({ path, value, problem: null });
      } catch (problem) {
        if (stop.signal.aborted) return;
        if (problem.status === 401) loggedOut();
        setState((old) => ({ path, value: old.path === path ? old.value : null, problem }));
      }
    };
    read.current();
    return () => stop.abort();
  }, [path]);
  const current = state.path === path ? state : { value: null, problem: null };
  return { ...current, again: () => read.current() };
}

/** What many launches waited for: numbers, a bar, a table. It is as high as it is, whatever is known. */
export function WaitSummary({ path, what }) {
  const { value: it, problem, again } = useWhy(path);
  const empty = it?.untimed
    ? "What ran has no times in the record: it is of an older build."
    : "Nothing ran yet with recorded times, or nothing had to wait.";
  return html`<div class="why">
    <div class="figures">
      <${Figure} title="Waited" value=${nanos(it?.waited_ns)} note="all together" />
      <${Figure} title="Half" value=${nanos(it?.waited_p50_ns)} note="at most" />
      <${Figure} title="99 of 100" value=${nanos(it?.waited_p99_ns)} note="at most" />
      <${Figure} title="Longest" value=${nanos(it?.waited_max_ns)} note="of a position" />
      <${Figure} title="Ran" value=${nanos(it?.ran_ns)} note="on the device" />
      <${Figure} title="Positions" value=${compact(it?.positions)} note=${it?.untimed ? `${compact(it.untimed)} without times` : it ? `${compact(it.kernels)} kernels` : ""} />
    </div>
    <${CauseBar} waits=${it?.waits ?? []} whole=${it?.waited_ns} />
    <${CauseTable} caption=${`What ${what} waited for`} waits=${it?.waits ?? null} whole=${it?.waited_ns} empty=${empty} problem=${problem} again=${again} />
    <p class="whyfoot"><span class="note">${it ? "As far back as the record goes; times add up." : problem ? "" : "Reading the record …"}</span>
      <button type="button" class="small" disabled=${!it && !problem} onClick=${again}>Read again</button></p>
  </div>`;
}
