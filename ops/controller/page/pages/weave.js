// The start page: the launch order as it is woven, a lane for each GPU.
import { html, useEffect, useRef, useState } from "../app/html.js";
import { may } from "../app/identity.js";
import { route } from "../app/route.js";
import { workers } from "../app/live.js";
import { themeChanges } from "../app/theme.js";
import { compact, count, nanos, percent } from "../app/format.js";
import { toneOf } from "../app/colours.js";
import { Icon } from "../parts/icon.js";
import { Dialog } from "../parts/dialog.js";
import { Badge, Figure, Fresh } from "../parts/marks.js";
import { Detail } from "../weave/detail.js";
import { Loom } from "../weave/loom.js";
import { lay } from "../weave/hands.js";

let loom = null;

/** There is one loom; what it has taken in stays while other pages are shown. */
function theLoom() {
  loom ??= new Loom();
  window.warploomWeave = loom;
  return loom;
}

function labelsOf(gpu) {
  const worker = workers.peek()?.find((it) => it.gpu === gpu);
  return { name: `GPU ${gpu}`, device: worker?.device || "", busy: worker?.busy ?? null };
}

/** Devices have lanes, whether anything ran on them or not. */
const gpusOf = () => (workers.peek() || []).map((it) => it.gpu);

function Canvas({ loom }) {
  const ref = useRef();
  useEffect(() => {
    const canvas = ref.current;
    loom.open(canvas, { labels: labelsOf, gpus: gpusOf }, matchMedia("(prefers-reduced-motion: reduce)").matches);
    const off = lay(loom, canvas);
    const watch = new ResizeObserver(() => loom.resize());
    watch.observe(canvas);
    const colours = themeChanges.subscribe(() => loom.recolour());
    return () => {
      off();
      watch.disconnect();
      colours();
      loom.close();
    };
  }, []);
  return html`<canvas ref=${ref} class="weave" tabindex="0" role="application" aria-roledescription="launch order"
    aria-label="Launch order, a lane for each GPU. Arrow keys go from block to block." aria-describedby="weave-keys"></canvas>`;
}

function Legend({ loom }) {
  const [chosen, setChosen] = useState(new Set());
  const rows = loom.legend.value;
  const turn = (name) => {
    const next = new Set(chosen);
    if (!next.delete(name)) next.add(name);
    setChosen(next);
    loom.only(next);
  };
  return html`<ul class="legend" aria-label="Tenants">
    ${rows?.map(
      (
        row,
      ) => html`<li key=${row.name}><button type="button" aria-pressed=${chosen.has(row.name) ? "true" : "false"} onClick=${() => turn(row.name)}>
      <span class=${`swatch ${toneOf(row.name)}`} aria-hidden="true"></span><span class="name">${row.name}</span><span class="share"><${Fresh} text=${percent(row.share)} /></span></button></li>`,
    )}
    ${rows && !rows.length && html`<li class="note">No positions yet. As soon as a tenant launches something, it is woven here.</li>`}
  </ul>`;
}

function Controls({ loom, help }) {
  const playing = loom.playing.value;
  const live = loom.mode.value === "live" && playing;
  return html`<div class="controls" role="group" aria-label="What is shown">
    <button type="button" class="primary play" onClick=${() => loom.toggle()}><${Icon} name=${playing ? "pause" : "play"} />${playing ? "Pause" : "Play"}</button>
    <button type="button" class="golive" disabled=${live} onClick=${() => loom.goLive()}><span class=${`dot ${live ? "good" : "calm"}`} aria-hidden="true"></span>Live</button>
    <button type="button" class="square" aria-label="Zoom out" onClick=${() => loom.zoom(1.6)}><${Icon} name="minus" /></button>
    <button type="button" class="square" aria-label="Zoom in" onClick=${() => loom.zoom(1 / 1.6)}><${Icon} name="plus" /></button>
    <button type="button" aria-pressed=${loom.split$.value ? "true" : "false"} onClick=${() => loom.setSplit(!loom.split)}><${Icon} name="split" />Threads</button>
    <button type="button" class="square" aria-label="Keys" onClick=${help}><${Icon} name="help" /></button>
  </div>`;
}

const SCALE = 10000;

function Scrubber({ loom }) {
  const { place, id, oldest, newest } = loom.figures.value;
  const [held, setHeld] = useState(null);
  const value = held ?? Math.round(place * SCALE);
  const at = held === null ? id : loom.line.idAt(held / SCALE);
  const go = () => {
    if (held === null) return;
    if (held >= SCALE) loom.goLive();
    else loom.seek(loom.line.idAt(held / SCALE));
    setHeld(null);
  };
  return html`<div class="scrub">
    <label for="scrub">Recorded positions</label>
    <input id="scrub" type="range" min="0" max=${SCALE} step="1" value=${value} aria-valuetext=${at ? `position ${at}` : "none yet"}
      onInput=${(event) => setHeld(Number(event.target.value))} onChange=${go} onBlur=${go} />
    <span class="from"><${Fresh} text=${oldest || "–"} /></span><span class="at"><${Fresh} text=${at ? `at ${at}` : ""} /></span><span class="to"><${Fresh} text=${newest || "–"} /></span>
  </div>`;
}

const KEYS = [
  ["← →", "the block before and behind, on its lane"],
  ["↑ ↓", "the lane above and below"],
  ["Shift ← →, Page keys", "move in time"],
  ["+ −, wheel", "zoom"],
  ["Space", "pause and play"],
  ["T", "a thread for each tenant"],
  ["Home, End", "the oldest recorded position, and live"],
  ["Esc", "choose no block"],
];

function Help({ close }) {
  return html`<${Dialog} title="Keys of the weave" onClose=${close}>
    <dl class="keys">${KEYS.map(([key, text]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
    <p class="note">A block is a position of the launch order, as wide as it ran. Where blocks are narrower than a pixel, each column shows the shares of its tenants. Red marks are positions at which nothing ran; grey marks open, close or change a session.</p>
    <footer><button type="button" data-first onClick=${close}>Close</button></footer>
  </${Dialog}>`;
}

function WeaveFigures({ loom }) {
  const { rate, span, newest } = loom.figures.value;
  const known = workers.value;
  const busy = known?.length ? known.reduce((sum, it) => sum + (it.busy || 0), 0) / known.length : null;
  return html`<div class="figures">
    <${Figure} title="Positions" value=${compact(rate)} note="in a second" />
    <${Figure} title="Newest" value=${
      newest
        ? newest
            .split(".")
            .map((it) => count(Number(it)))
            .at(-1)
        : "–"
    } note=${newest ? `of epoch ${newest.split(".")[0]}` : ""} />
    ${may("workers.read") && html`<${Figure} title="Devices busy" value=${percent(busy)} note=${known ? `${known.length} in the cluster` : ""} />`}
    <${Figure} title="Seen" value=${nanos(span)} note="from left to right" />
  </div>`;
}

/** What is seen, where it is not what happens now. */
function standing(loom) {
  const problem = loom.problem.value;
  if (problem) return html`<${Badge} kind="bad">${problem.message || "Cut off: trying again"}</${Badge}>`;
  if (loom.mode.value === "past") return html`<${Badge} kind="warn">Recorded positions, not live</${Badge}>`;
  if (!loom.playing.value) return html`<${Badge} kind="warn">Paused; positions still come in</${Badge}>`;
  return loom.state.value === "live" ? null : html`<${Badge} kind="warn">Connecting</${Badge}>`;
}

function Standing({ loom }) {
  return html`<p class="standing" role="status">${standing(loom)}</p>`;
}

export function WeavePage() {
  const it = theLoom();
  const [help, setHelp] = useState(false);
  const at = route.value.query.at;
  useEffect(() => {
    if (at) it.seek(at);
  }, [at]);
  return html`
    <header class="head"><h1 tabindex="-1">Weave</h1><p class="about">The launch order of all tenants, as devices run it</p><${WeaveFigures} loom=${it} /></header>
    <div class="tools"><${Controls} loom=${it} help=${() => setHelp(true)} /><${Standing} loom=${it} /><${Legend} loom=${it} /></div>
    <div class="cloth"><${Canvas} loom=${it} /></div>
    <p id="weave-keys" class="unseen">Left and right: block before and behind. Up and down: other lanes. Plus and minus: zoom. Space: pause. T: threads. Home and End: oldest and live. The Order page has the same as a table.</p>
    <${Scrubber} loom=${it} />
    <${Detail} loom=${it} />
    ${help && html`<${Help} close=${() => setHelp(false)} />`}`;
}
