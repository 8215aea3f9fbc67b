// One tenant: its target, its memory, its settings, and what may be done with it.
import { html, useState } from "../app/html.js";
import { post, remove } from "../app/api.js";
import { may } from "../app/identity.js";
import { pastOf, refresh, tenants } from "../app/live.js";
import { go, link } from "../app/route.js";
import { useResource } from "../app/resource.js";
import { bytes, compact, count, nanos, percent } from "../app/format.js";
import { SETTINGS, wordsOf } from "../parts/settings.js";
import { confirm } from "../parts/dialog.js";
import { Field } from "../parts/field.js";
import { Failure, Nothing, say, Skeleton } from "../parts/notice.js";
import { Badge, Figure, Gauge, Swatch } from "../parts/marks.js";
import { Line } from "../parts/plots.js";
import { WaitSummary } from "../parts/why.js";
import { attainmentOf, memoryParts, targetOf } from "./tenants.js";
import { TenantForm } from "./tenantform.js";

const pathOf = (name, action = "") => `/tenants/${encodeURIComponent(name)}${action}`;

function suspend(tenant, again) {
  const { name, settings } = tenant;
  const resume = settings.suspended;
  confirm({
    title: resume ? `Resume ${name}?` : `Suspend ${name}?`,
    says: resume
      ? html`<p>Its queued work is granted again from the next decision on.</p>`
      : html`<p>Nothing more of it is granted: its ${count(tenant.sessions)} sessions stay open and wait, and what is on a device ends there. Its programs are not told. Resuming undoes it.</p>`,
    action: resume ? "Resume" : "Suspend",
    danger: !resume,
    run: () => post(pathOf(name, resume ? "/resume" : "/suspend")),
    done: () => {
      say(`${name} is ${resume ? "resumed" : "suspended"}.`);
      again();
    },
  });
}

function renew(tenant) {
  confirm({
    title: `Renew the login of ${tenant.name}?`,
    says: html`<p>
      Its programs that run are cut off and cannot come back; its ${count(tenant.sessions)} sessions end. Programs that begin
      later need the new password, which is written to a file on the broker's host and shown nowhere.
    </p>`,
    action: "Renew the login",
    danger: true,
    run: () => post(pathOf(tenant.name, "/login")),
    done: (it) =>
      say(`${tenant.name} has a new login${it?.credentials ? `: ${it.credentials} has the password` : ""}.`),
  });
}

function removeIt(tenant, etag) {
  confirm({
    title: `Remove ${tenant.name}?`,
    says: html`<p>Its settings and its login are gone for good. Usage and the order keep its name. With open sessions (${count(tenant.sessions)} now) it is refused, unless forced.</p>`,
    extra: html`<${Field} type="checkbox" name="force" label="End its sessions too" value=${false} help="their programs fail, and their memory is lost" />`,
    action: "Remove for good",
    danger: true,
    run: (form) => remove(pathOf(tenant.name), { etag, query: { force: form.get("force") ? "true" : null } }),
    done: (it) => {
      const ended = it?.ended ? `, and ${count(it.ended)} of its sessions ended` : "";
      say(`${tenant.name} is removed${ended}.${it?.login === false ? " Its login is left: the broker is not run by this cluster." : ""}`);
      refresh();
      go("tenants");
    },
  });
}

function Actions({ tenant, etag, change, again }) {
  const write = may("tenants.write");
  return html`<div class="actions">
    ${
      write &&
      html`<button type="button" class="primary" onClick=${change}>Change</button>
    <button type="button" onClick=${() => suspend(tenant, again)}>${tenant.settings.suspended ? "Resume" : "Suspend"}</button>`
    }
    ${may("tenants.login") && html`<button type="button" onClick=${() => renew(tenant)}>Renew login</button>`}
    ${write && html`<button type="button" class="danger" onClick=${() => removeIt(tenant, etag)}>Remove</button>`}
  </div>`;
}

function Panel({ title, note, children, whole }) {
  return html`<section class=${whole ? "panel whole" : "panel"}><h2>${title}${note && html`<span class="note"> ${note}</span>`}</h2>${children}</section>`;
}

function Target({ tenant }) {
  const it = tenant.attainment;
  const state = attainmentOf(tenant);
  const target = targetOf(tenant);
  return html`<${Panel} title="Target" note="99 of 100 requests">
    <div class="figures">
      <${Figure} title="p99" value=${nanos(it?.p99_ns)} note=${target ? `target ${nanos(target)}` : "no target is set"} />
      <${Figure} title="Within" value=${state ? html`<${Badge} kind=${state.kind}>${state.text}</${Badge}>` : "–"} note=${it ? `${state ? `${compact(it.within)} of ` : ""}${compact(it.requests)} ${state ? "" : "requests "}in ${nanos(Math.round(it.counted_s) * 1e9)}` : ""} />
    </div>
    <${Line} values=${pastOf(`p99 ${tenant.name}`)} mark=${target} /><p class="note">p99 in the last three minutes${target ? "; the dashed line is the target" : ""}</p>
  </${Panel}>`;
}

function Work({ tenant }) {
  return html`<${Panel} title="Work">
    <div class="figures">
      <${Figure} title="Queue" value=${compact(tenant.queued)} note="ops that wait" />
      <${Figure} title="Granted" value=${compact(tenant.granted)} note="ops so far" />
      <${Figure} title="Sessions" value=${html`<a href=${link("sessions", null, { tenant: tenant.name })}>${count(tenant.sessions)}</a>`} note="open" />
      <${Figure} title="GPU used" value=${percent(tenant.memory?.busy)} note="now" />
    </div>
    <${Line} values=${pastOf(`busy ${tenant.name}`)} most=${1} /><p class="note">GPU used in the last three minutes</p>
  </${Panel}>`;
}

function Memory({ tenant }) {
  const it = tenant.memory;
  if (!it) return html`<${Panel} title="Memory"><p class="note">No worker has told of it yet.</p></${Panel}>`;
  const whole = Math.max(1, it.total || it.held);
  return html`<${Panel} title="Memory">
    <${Gauge} title="Held" value=${it.total ? `${bytes(it.held)} of ${bytes(it.total)}` : bytes(it.held)} parts=${memoryParts(it)} note=${it.total ? `${bytes(it.free)} free` : "no session is open"} />
    <${Gauge} title="Swapped out" value=${bytes(it.swapped)} parts=${[{ share: it.swapped / whole, kind: "warn" }]} note="on the host or in a file" />
    <${Gauge} title="Shared" value=${bytes(it.saved)} parts=${[{ share: it.saved / whole, kind: "good" }]} note="saved as weights are stored once" />
  </${Panel}>`;
}

function Settings({ settings }) {
  const rows = SETTINGS.filter((it) => it.key !== "suspended").map((it) => [it.title, wordsOf(it.key, settings[it.key])]);
  return html`<${Panel} title="Settings" whole><dl class="facts">${rows.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd title=${value}>${value}</dd></div>`)}</dl></${Panel}>`;
}

function Waits({ name }) {
  return html`<${Panel} title="Waits" note="what its launches waited for" whole><${WaitSummary} path=${pathOf(name, "/why")} what=${name} /></${Panel}>`;
}

/** No tenant of this name, or none that the login may know of: the two look alike. */
function NoTenant({ id }) {
  return html`<header class="head"><p class="crumb"><a href=${link("tenants")}>Tenants</a></p><h1 tabindex="-1">No such tenant</h1></header>
    <${Nothing} title=${`There is no tenant ${id}`}>Nothing of this name is here, or your role may not see it. <a href=${link("tenants")}>These are there</a>.</${Nothing}>`;
}

export function TenantPage({ id }) {
  const read = useResource(pathOf(id));
  const [changing, setChanging] = useState(false);
  const again = () => {
    read.reload();
    refresh();
  };
  const live = tenants.value?.find((it) => it.name === id);
  const tenant = read.value && { ...read.value, ...live, settings: read.value.settings };
  if (read.problem?.status === 404 && !tenant) return html`<${NoTenant} id=${id} />`;
  const done = () => {
    setChanging(false);
    say(`${id} is changed.`);
    again();
  };
  return html`
    <header class="head"><p class="crumb"><a href=${link("tenants")}>Tenants</a></p><h1 tabindex="-1">${tenant ? html`<${Swatch} name=${id} />` : html`<span class="swatch"></span>`}${id}</h1>
      <p class="about">${tenant ? (tenant.settings.suspended ? html`<${Badge} kind="warn">suspended</${Badge}>` : html`<${Badge} kind="good">active</${Badge}>`) : " "}</p>
      ${tenant && html`<${Actions} tenant=${tenant} etag=${read.etag} change=${() => setChanging(true)} again=${again} />`}</header>
    ${
      read.problem && !tenant
        ? html`<${Failure} problem=${read.problem} again=${read.reload} />`
        : !tenant
          ? html`<${Skeleton} rows=${4} tall />`
          : html`<div class="panels">
      <${Target} tenant=${tenant} /><${Work} tenant=${tenant} /><${Memory} tenant=${tenant} /><${Waits} name=${id} /><${Settings} settings=${tenant.settings} /></div>`
    }
    ${changing && html`<${TenantForm} tenant=${tenant} etag=${read.etag} onClose=${() => setChanging(false)} onDone=${done} />`}`;
}
