// What the record explains of something: read when it is looked at, one after the other.
import { html, useEffect, useRef, useState } from "../app/html.js";
import { patient } from "../app/api.js";
import { loggedOut } from "../app/identity.js";
import { compact, nanos } from "../app/format.js";
import { Figure } from "./marks.js";
import { CauseBar, CauseTable } from "./causes.js";
import { Field } from "./field.js";

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

/** The path with a stretch of time as its query; without one, all of the record is explained. */
export function within(path, range) {
  const query = new URLSearchParams(Object.entries(range).filter(([, text]) => text)).toString();
  return query ? `${path}?${query}` : path;
}

/** Asks for the stretch of time of `path` to explain; `onRead` gets `{ since, until }`. */
export function Stretch({ path, onRead }) {
  const [range, setRange] = useState({ since: "", until: "" });
  const set = (key) => (value) => setRange({ ...range, [key]: value.trim() });
  const read = (event) => {
    event.preventDefault();
    onRead(range);
  };
  return html`<form class="filters" onSubmit=${read}>
    <${Field} name=${`${path} since`} label="From" value=${range.since} onInput=${set("since")} placeholder="2026-11-29T14:03" help="UTC, or 15m ago" />
    <${Field} name=${`${path} until`} label="Until" value=${range.until} onInput=${set("until")} placeholder="2026-11-29T14:04" help="UTC, or 10m ago" />
    <div class="field"><button type="submit" class="small">Explain this time</button></div>
  </form>`;
}

/** What many launches waited for: numbers, a bar, a table. It is as high as it is, whatever is known. */
export function WaitSummary({ path, what }) {
  const [range, setRange] = useState({});
  const { value: it, problem, again } = useWhy(within(path, range));
  const empty = it?.untimed
    ? "What ran has no times in the record: it is of an older build."
    : "Nothing ran then with recorded times, or nothing had to wait.";
  const told = range.since || range.until ? "Of what waited or ran in this time; times add up." : "As far back as the record goes; times add up.";
  return html`<div class="why">
    <${Stretch} path=${path} onRead=${(next) => (within(path, next) === within(path, range) ? again() : setRange(next))} />
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
    <p class="whyfoot"><span class="note">${it ? told : problem ? "" : "Reading the record …"}</span>
      <button type="button" class="small" disabled=${!it && !problem} onClick=${again}>Read again</button></p>
  </div>`;
}
