// The cluster's settings: what would change is shown before it is; and its profiles of kernels.
import { html, useEffect, useState } from "../app/html.js";
import { patch, put } from "../app/api.js";
import { may } from "../app/identity.js";
import { useResource } from "../app/resource.js";
import { count, hash, moment } from "../app/format.js";
import { confirm, Dialog, Trouble } from "../parts/dialog.js";
import { Changes } from "../parts/field.js";
import { Failure, Nothing, say, Skeleton } from "../parts/notice.js";
import { Badge, Figure } from "../parts/marks.js";
import { Table } from "../parts/table.js";

const HELP = "setting-help-";

function Value({ item, edits, set }) {
  const edited = item.key in edits;
  const value = edited ? (edits[item.key] ?? item.default) : item.value;
  if (!may("settings.write")) return html`<code>${item.value}</code>`;
  const change = (event) => set(item.key, event.target.value === item.value ? undefined : event.target.value);
  return html`<input class=${edited ? "edited" : ""} name=${item.key} value=${value} onInput=${change} aria-label=${item.key} aria-describedby=${HELP + item.key} autocomplete="off" spellcheck="false" />`;
}

function Reset({ item, edits, set }) {
  if (item.key in edits)
    return html`<button type="button" class="small" aria-label=${`Undo the change of ${item.key}`} onClick=${() => set(item.key, undefined)}>Undo</button>`;
  if (item.value === item.default) return null;
  return html`<button type="button" class="small" aria-label=${`Set ${item.key} to its default`} onClick=${() => set(item.key, null)}>Default</button>`;
}

function columns(edits, set) {
  const all = [
    { key: "key", title: "Setting", width: 10, show: (it) => html`<code>${it.key}</code>` },
    { key: "value", title: "Value", width: 9, show: (it) => html`<${Value} item=${it} edits=${edits} set=${set} />` },
    { key: "default", title: "Default", width: 7, low: 1, show: (it) => html`<code>${it.default}</code>` },
    {
      key: "source",
      title: "From",
      width: 10,
      low: 2,
      wrap: true,
      show: (it) => html`<span class="note">${it.source}</span>`,
    },
    {
      key: "help",
      title: "What it is",
      width: 22,
      low: 1,
      wrap: true,
      show: (it) => html`<span id=${HELP + it.key}>${it.help}</span>`,
    },
  ];
  if (may("settings.write"))
    all.push({
      key: "reset",
      title: "",
      width: 6,
      show: (it) => html`<${Reset} item=${it} edits=${edits} set=${set} />`,
    });
  return all;
}

function Preview({ edits, etag, close, done }) {
  const [plan, setPlan] = useState(null);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const send = async (dry) => {
    setBusy(true);
    setProblem(null);
    try {
      const answer = await patch("/settings", { changes: edits }, { query: { dry_run: String(dry) }, etag });
      if (dry) setPlan(answer);
      else done(answer);
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => {
    send(true);
  }, []);
  return html`<${Dialog} title="What would change" onClose=${close}>
    <p class="says">${plan ? "Nothing is changed yet. All of these change together, for all tenants, from the leader's next decision on; work that is granted already stays as it is." : problem ? "The cluster does not take this:" : "Asking the cluster …"}</p>
    ${plan && html`<${Changes} changes=${plan.changes} />`}
    <${Trouble} problem=${problem} />
    <footer><button type="button" data-first onClick=${close}>Back</button>
      <button type="button" class="primary" disabled=${busy || !plan?.changes?.length} onClick=${() => send(false)}>${busy ? "Working …" : "Apply"}</button></footer>
  </${Dialog}>`;
}

function pin(profile, again) {
  confirm({
    title: profile ? `Pin version ${profile.version}?` : "Let the profile be learned again?",
    says: profile
      ? html`<p>Costs are estimated by this version alone: what is measured from now on changes no estimate, and so not the order, until it is unpinned.</p>`
      : html`<p>New versions come into force as kernels are measured. Estimates, and so the order of what comes, may change.</p>`,
    action: profile ? "Pin it" : "Unpin",
    run: () => put("/profiles/pinned", { hash: profile?.hash ?? null }),
    done: () => {
      say(profile ? "The profile is pinned." : "Profiles are learned again.");
      again();
    },
  });
}

function profileColumns(profiles, again) {
  const all = [
    { key: "version", title: "Version", width: 6, show: (it) => count(it.version) },
    { key: "hash", title: "Hash", width: 12, show: (it) => html`<code title=${it.hash}>${hash(it.hash)}</code>` },
    {
      key: "state",
      title: "State",
      width: 10,
      show: (it) =>
        html`${it.hash === profiles.in_force?.hash ? html`<${Badge} kind="good">in force</${Badge}>` : null} ${it.hash === profiles.pinned ? html`<${Badge} kind="warn">pinned</${Badge}>` : null}`,
    },
    { key: "entries", title: "Kernels", width: 7, num: true, show: (it) => count(it.entries) },
    { key: "created", title: "Made", width: 12, num: true, low: 1, show: (it) => moment(it.created_ms) },
  ];
  if (may("profiles.write")) {
    all.push({
      key: "pin",
      title: "",
      width: 6,
      show: (it) =>
        it.hash === profiles.pinned
          ? html`<button type="button" class="small" onClick=${() => pin(null, again)}>Unpin</button>`
          : html`<button type="button" class="small" aria-label=${`Pin version ${it.version}`} onClick=${() => pin(it, again)}>Pin</button>`,
    });
  }
  return all;
}

function Profiles() {
  const read = useResource("/profiles", undefined, 10_000);
  const it = read.value;
  return html`<h2 class="section">Profiles</h2>
    <p class="about">Versions of the table from kernels to device time, by which work is estimated</p>
    <div class="figures wide"><${Figure} title="In force" value=${html`<code>${hash(it?.in_force?.hash)}</code>`} note=${it ? (it.in_force ? `version ${it.in_force.version}` : "none yet") : ""} />
      <${Figure} title="Kernels known" value=${count(it?.in_force?.entries)} />
      <${Figure} title="Learning" value=${it ? (it.pinned ? "pinned" : "on") : "–"} note=${it?.pinned ? "measured times change nothing" : "measured times make new versions"} /></div>
    <${Table} caption="Profiles" columns=${profileColumns(it || {}, read.reload)} rows=${it ? [...it.items].reverse() : null} keyOf=${(row) => row.hash} problem=${read.problem} again=${read.reload}
      empty=${html`<${Nothing} title="No profile yet">The first is made once kernels have been measured.</${Nothing}>`} />`;
}

export function SettingsPage() {
  const read = useResource("/settings");
  const [edits, setEdits] = useState({});
  const [preview, setPreview] = useState(false);
  const set = (key, value) =>
    setEdits((old) => {
      const { [key]: _, ...rest } = old;
      return value === undefined ? rest : { ...rest, [key]: value };
    });
  const done = (answer) => {
    setPreview(false);
    setEdits({});
    say(`${answer.changes.length} ${answer.changes.length === 1 ? "setting is" : "settings are"} changed.`);
    read.reload();
  };
  const number = Object.keys(edits).length;
  return html`
    <header class="head"><h1 tabindex="-1">Settings</h1><p class="about">Of the whole cluster${read.value ? html`, revision ${read.value.revision}` : ""}</p>
      ${
        may("settings.write") &&
        html`<div class="actions"><button type="button" disabled=${!number} onClick=${() => setEdits({})}>Discard</button>
        <button type="button" class="primary" disabled=${!number} onClick=${() => setPreview(true)}>${number ? `See what ${number} would change` : "Nothing to change"}</button></div>`
      }</header>
    ${
      read.problem && !read.value
        ? html`<${Failure} problem=${read.problem} again=${read.reload} />`
        : !read.value
          ? html`<${Skeleton} rows=${12} />`
          : html`<${Table} caption="Settings" columns=${columns(edits, set)} rows=${read.value.items} keyOf=${(it) => it.key} rowClass=${(it) => (it.key in edits ? "chosen" : "")} />
        ${may("profiles.read") && html`<${Profiles} />`}`
    }
    ${preview && html`<${Preview} edits=${edits} etag=${read.etag} close=${() => setPreview(false)} done=${done} />`}`;
}
