// A device by day: how long it ran, and what kept it idle.
import { html, useState } from "../app/html.js";
import { nanos, percent } from "../app/format.js";
import { CauseBar, CauseTable } from "../parts/causes.js";
import { Stretch, useWhy, within } from "../parts/why.js";

const wholeOf = (day) => day.busy_ns + day.idle_ns;

function Day({ day, chosen, choose }) {
  const busy = percent(day.busy_ns / Math.max(1, wholeOf(day)));
  const parts = [{ cause: "busy", ns: day.busy_ns }, ...day.idle];
  return html`<li><button type="button" class="day" aria-pressed=${chosen ? "true" : "false"} onClick=${choose}>
    <span>${day.day}</span><${CauseBar} waits=${parts} whole=${wholeOf(day)} /><span class="num">${busy}<span class="unseen"> busy</span></span></button></li>`;
}

/** What there is of a day, or why there is none. */
function Said({ day, words }) {
  if (!day) return html`<span>${words}</span>`;
  return html`<span><span class="swatch cause busy" aria-hidden="true"></span> ran ${nanos(day.busy_ns)} on ${day.day}; idle ${nanos(day.idle_ns)}, for:</span>`;
}

/** The newest first; of the one that is chosen the table says what it was idle for. */
export function Days({ gpu }) {
  const [range, setRange] = useState({});
  const path = `/devices/${gpu}/why`;
  const { value, problem, again } = useWhy(within(path, range));
  const [chosen, setChosen] = useState(null);
  const days = value && [...value.days].reverse();
  const day = days?.find((it) => it.day === chosen) ?? days?.[0];
  return html`<div class="why days">
    <h3>Busy and idle by day <span class="note">UTC</span></h3>
    <${Stretch} path=${path} onRead=${(next) => (within(path, next) === within(path, range) ? again() : setRange(next))} />
    <ul aria-label=${`Days of GPU ${gpu}`} aria-busy=${days || problem ? undefined : "true"}>${days?.map(
      (it) => html`<${Day} key=${it.day} day=${it} chosen=${it === day} choose=${() => setChosen(it.day)} />`,
    )}${days && !days.length && html`<li class="note">Nothing is recorded of it here.</li>`}</ul>
    <p class="note legendline"><${Said} key=${day?.day ?? "none"} day=${day} words=${problem ? "" : days ? "–" : "Reading the record …"} /></p>
    <${CauseTable} caption=${`What GPU ${gpu} was idle for${day ? ` on ${day.day}` : ""}`} waits=${day?.idle ?? (days ? [] : null)} whole=${day?.idle_ns} idle
      empty=${days?.length ? "Something ran all the time." : "As soon as a worker of this build has been there, its time is told here."} problem=${problem} again=${again} />
  </div>`;
}
