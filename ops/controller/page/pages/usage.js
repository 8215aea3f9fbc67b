// What was used: credits and cost by day, tenant and kernel.
import { html, useState } from "../app/html.js";
import { address } from "../app/api.js";
import { me } from "../app/identity.js";
import { refine, route } from "../app/route.js";
import { useResource } from "../app/resource.js";
import { bytes, compact, count, day, decimal, money, percent, seconds } from "../app/format.js";
import { TenantChoice } from "../parts/choices.js";
import { Field } from "../parts/field.js";
import { Icon } from "../parts/icon.js";
import { Failure, Nothing, Skeleton } from "../parts/notice.js";
import { Figure, TenantName } from "../parts/marks.js";
import { DayBars } from "../parts/plots.js";
import { Table } from "../parts/table.js";

const DAY = 86_400_000;
const WAYS = [
  { value: "tenant", text: "tenant" },
  { value: "tenant,day", text: "tenant and day" },
  { value: "tenant,kernel", text: "tenant and kernel" },
  { value: "kernel", text: "kernel" },
  { value: "gpu", text: "GPU" },
];

const MEASURES = [
  { value: "core_credits", text: "core credits", unit: "SM-seconds", format: compact },
  { value: "vram_credits", text: "VRAM credits", unit: "GiB-seconds", format: compact },
  { value: "device_seconds", text: "device time", unit: "seconds", format: compact },
  { value: "cost", text: "cost", unit: "", format: money },
];

function columnsOf(by, prices) {
  const keys = by.split(",");
  const all = {
    tenant: {
      key: "tenant",
      title: "Tenant",
      width: 9,
      sort: (it) => it.tenant,
      show: (it) => html`<${TenantName} name=${it.tenant} />`,
    },
    day: { key: "day", title: "Day", width: 8, sort: (it) => it.day, show: (it) => it.day },
    kernel: {
      key: "kernel",
      title: "Kernel",
      width: 16,
      sort: (it) => it.kernel,
      show: (it) => html`<code>${it.kernel || "not a kernel"}</code>`,
    },
    gpu: { key: "gpu", title: "GPU", width: 6, sort: (it) => it.gpu, show: (it) => `GPU ${it.gpu}` },
  };
  return [
    ...keys.map((key) => all[key]),
    {
      key: "core",
      title: "Core credits",
      width: 8,
      num: true,
      sort: (it) => it.core_credits,
      show: (it) => decimal(it.core_credits),
    },
    { key: "share", title: "Share", width: 6, num: true, sort: (it) => it.share, show: (it) => percent(it.share) },
    {
      key: "vram",
      title: "VRAM credits",
      width: 8,
      num: true,
      low: 1,
      sort: (it) => it.vram_credits,
      show: (it) => decimal(it.vram_credits),
    },
    ...(prices
      ? [
          {
            key: "cost",
            title: `Cost, ${prices.currency}`,
            width: 7,
            num: true,
            low: 1,
            sort: (it) => it.cost,
            show: (it) => money(it.cost),
          },
        ]
      : []),
    {
      key: "launches",
      title: "Launches",
      width: 7,
      num: true,
      low: 1,
      sort: (it) => it.launches,
      show: (it) => compact(it.launches),
    },
    {
      key: "time",
      title: "Device time",
      width: 7,
      num: true,
      low: 1,
      sort: (it) => it.device_seconds,
      show: (it) => seconds(it.device_seconds),
    },
    {
      key: "swaps",
      title: "Swaps out, in",
      width: 8,
      num: true,
      low: 2,
      sort: (it) => it.swap_outs,
      show: (it) => `${compact(it.swap_outs)}, ${compact(it.swap_ins)}`,
    },
    {
      key: "saved",
      title: "Saved credits",
      width: 8,
      num: true,
      low: 2,
      sort: (it) => it.saved_credits,
      show: (it) => decimal(it.saved_credits),
    },
    {
      key: "unsent",
      title: "Not sent again",
      width: 8,
      num: true,
      low: 2,
      sort: (it) => it.unsent_bytes,
      show: (it) => bytes(it.unsent_bytes),
    },
  ];
}

/** The rows by day and tenant as the plot asks for them. */
function byDay(rows, measure) {
  const sums = new Map();
  for (const it of rows)
    sums.set(`${it.day} ${it.tenant}`, (sums.get(`${it.day} ${it.tenant}`) || 0) + (it[measure] || 0));
  return {
    days: [...new Set(rows.map((it) => it.day))].sort(),
    names: [...new Set(rows.map((it) => it.tenant))].sort(),
    valueOf: (when, name) => sums.get(`${when} ${name}`) || 0,
  };
}

/** What is known to have been used, and by whom is not. */
function Missing({ missing }) {
  if (!missing?.launches && !missing?.core_credits && !missing?.vram_credits) return null;
  return html`<p class="note">Not in these rows, as what told of it was lost: ${decimal(missing.core_credits)} core credits, ${decimal(missing.vram_credits)} VRAM credits, ${count(missing.launches)} launches.</p>`;
}

function Totals({ total, prices }) {
  const cost = total.cost == null ? "–" : `${money(total.cost)} ${prices?.currency || ""}`;
  return html`<div class="figures wide">
    <${Figure} title="Core credits" value=${decimal(total.core_credits)} note="an SM for a second" />
    <${Figure} title="VRAM credits" value=${decimal(total.vram_credits)} note="a GiB for a second" />
    <${Figure} title="Device time" value=${seconds(total.device_seconds)} note=${`${count(total.launches)} launches`} />
    <${Figure} title="Cost" value=${cost} note=${prices ? "at the prices that are set" : "no prices are set"} />
  </div>`;
}

function Downloads({ values }) {
  return html`<div class="actions">
    <a class="button" href=${address("/usage.csv", values)} download><${Icon} name="down" />CSV</a>
    <a class="button" href=${address("/usage.focus.csv", values)} download><${Icon} name="down" />FOCUS</a></div>`;
}

export function UsagePage() {
  const now = Date.now();
  const {
    by = "tenant",
    since = day(now - 13 * DAY),
    until = day(now),
    tenant = me.value.tenant || "",
    show = "core_credits",
  } = route.value.query;
  /** The last day is meant with all of it; the interface takes the day behind it. */
  const range = { since, until: day(Date.parse(until) + DAY), tenant };
  const rows = useResource("/usage", { by, ...range });
  const days = useResource("/usage", { by: "tenant,day", ...range });
  const [wrong, setWrong] = useState(null);
  const measure = MEASURES.find((it) => it.value === show) || MEASURES[0];
  const prices = rows.value?.prices;
  const set = (key) => (value) => {
    if (!value && key !== "tenant") return;
    const next = { since, until, [key]: value };
    const bad = next.since > next.until;
    setWrong(bad ? "the first day is behind the last" : null);
    if (!bad) refine({ [key]: value });
  };
  const ready = rows.value && days.value;
  const problem = rows.problem || days.problem;
  const again = () => {
    rows.reload();
    days.reload();
  };
  const plot = ready && byDay(days.value.rows, measure.value);
  return html`
    <header class="head"><h1 tabindex="-1">Usage</h1><p class="about">What tenants used, in credits that add up</p><${Downloads} values=${{ by, ...range }} /></header>
    <div class="filters">
      <${Field} name="since" label="From" type="date" value=${since} onInput=${set("since")} error=${wrong} />
      <${Field} name="until" label="To" type="date" value=${until} onInput=${set("until")} help="days of UTC" />
      ${!me.value.tenant && html`<${TenantChoice} value=${tenant} onInput=${set("tenant")} />`}
      <${Field} name="by" label="Table by" value=${by} options=${WAYS} onInput=${(value) => refine({ by: value })} />
      <${Field} name="show" label="Plot of" value=${measure.value} options=${MEASURES.filter((it) => it.value !== "cost" || prices)} onInput=${(value) => refine({ show: value })} />
    </div>
    ${
      problem && !ready
        ? html`<${Failure} problem=${problem} again=${again} />`
        : !ready
          ? html`<${Skeleton} rows=${3} tall />`
          : !rows.value.rows.length
            ? html`<${Nothing} title="Nothing was used in these days">Choose other days or another tenant. Usage is kept in detail for as long as the setting <code>usage.max_age</code> says.</${Nothing}>`
            : html`<${Totals} total=${rows.value.total} prices=${prices} /><${Missing} missing=${rows.value.missing} />
        <section class="panel"><${DayBars} ...${plot} label=${`${measure.text[0].toUpperCase()}${measure.text.slice(1)} by day`} unit=${measure.value === "cost" ? prices.currency : measure.unit} format=${measure.format} />
          <ul class="legend still" aria-label="Colours">${plot.names.map((name) => html`<li key=${name}><${TenantName} name=${name} /></li>`)}</ul></section>
        <${Table} key=${by} caption="Usage" columns=${columnsOf(by, prices)} rows=${rows.value.rows} keyOf=${(it) => `${it.tenant} ${it.day} ${it.kernel} ${it.gpu}`} start=${{ key: "core", down: true }} />`
    }`;
}
