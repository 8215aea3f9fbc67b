// Tokens for programs that use the interface: made, shown once, revoked.
import { html, useState } from "../app/html.js";
import { post, remove } from "../app/api.js";
import { may, me } from "../app/identity.js";
import { tenants } from "../app/live.js";
import { useResource } from "../app/resource.js";
import { moment } from "../app/format.js";
import { confirm, Dialog, Trouble } from "../parts/dialog.js";
import { Field } from "../parts/field.js";
import { Icon } from "../parts/icon.js";
import { Nothing, say } from "../parts/notice.js";
import { Badge, TenantName } from "../parts/marks.js";
import { Table } from "../parts/table.js";

const ROLES = [
  { value: "viewer", text: "viewer: sees everything, changes nothing" },
  { value: "tenant-admin", text: "tenant-admin: one tenant's sessions and login" },
  { value: "auditor", text: "auditor: sees everything, verifies and exports" },
  { value: "operator", text: "operator: everything" },
];

function revoke(token, again) {
  confirm({
    title: `Revoke ${token.name}?`,
    says: html`<p>Whoever uses it is refused from the next request on. A token that is revoked cannot come back.</p>`,
    action: "Revoke",
    danger: true,
    run: () => remove(`/tokens/${encodeURIComponent(token.id)}`),
    done: () => {
      say(`Token ${token.name} is revoked.`);
      again();
    },
  });
}

function Operations({ chosen, setChosen }) {
  const turn = (name) => (on) => {
    const next = new Set(chosen);
    if (on) next.add(name);
    else next.delete(name);
    setChosen(next);
  };
  return html`<details class="operations"><summary>Only some operations${chosen.size ? ` (${chosen.size})` : ""}</summary>
    <div class="checks">${me.value.operations.map((name) => html`<${Field} key=${name} type="checkbox" name=${`op ${name}`} label=${name} value=${chosen.has(name)} onInput=${turn(name)} />`)}</div></details>`;
}

function Secret({ token, close }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(token.secret);
      setCopied(true);
    } catch {
      getSelection().selectAllChildren(document.querySelector("#secret"));
    }
  };
  return html`<${Dialog} title=${`Token ${token.name}`} onClose=${close}>
    <p class="says">This is the only time that the secret is shown. Keep it where secrets are kept.</p>
    <pre><code id="secret">${token.secret}</code></pre>
    <p class="note">It is sent as <code>Authorization: Bearer</code> with this secret, until ${moment(token.expires_ms)}.</p>
    <footer><button type="button" class="primary" data-first onClick=${copy}><${Icon} name="copy" />${copied ? "Copied" : "Copy"}</button><button type="button" onClick=${close}>I have kept it</button></footer>
  </${Dialog}>`;
}

function NewToken({ close, done }) {
  const [form, setForm] = useState({ name: "", role: "viewer", tenant: tenants.value?.[0]?.name || "", days: "30" });
  const [chosen, setChosen] = useState(new Set());
  const [errors, setErrors] = useState({});
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const set = (key) => (value) => setForm((old) => ({ ...old, [key]: value }));
  const submit = async (event) => {
    event.preventDefault();
    const found = {};
    if (!form.name.trim()) found.name = "say what it is for";
    if (!/^[1-9]\d{0,2}$/.test(form.days) || Number(form.days) > 366) found.days = "whole days, 1 to 366";
    setErrors(found);
    if (Object.keys(found).length) return;
    setBusy(true);
    setProblem(null);
    try {
      done(
        await post("/tokens", {
          name: form.name.trim(),
          role: form.role,
          tenant: form.role === "tenant-admin" ? form.tenant : null,
          operations: chosen.size ? [...chosen] : null,
          days: Number(form.days),
        }),
      );
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return html`<${Dialog} title="New token" onClose=${close}>
    <form onSubmit=${submit} novalidate>
      <p class="says">Whoever has it may do what its role may, until it ends or is revoked.</p>
      <${Field} name="name" label="Name" first value=${form.name} onInput=${set("name")} error=${errors.name} help="what it is for" />
      <${Field} name="role" label="Role" value=${form.role} options=${ROLES} onInput=${set("role")} />
      ${form.role === "tenant-admin" && html`<${Field} name="tenant" label="Tenant" value=${form.tenant} options=${(tenants.value || []).map((it) => ({ value: it.name }))} onInput=${set("tenant")} />`}
      <${Field} name="days" label="Days" value=${form.days} onInput=${set("days")} error=${errors.days} help="after which it ends, 366 at most" inputmode="numeric" />
      <${Operations} chosen=${chosen} setChosen=${setChosen} />
      <${Trouble} problem=${problem} />
      <footer><button type="button" onClick=${close}>Cancel</button><button type="submit" class="primary" disabled=${busy}>${busy ? "Working …" : "Make the token"}</button></footer>
    </form>
  </${Dialog}>`;
}

function columns(again) {
  const all = [
    { key: "name", title: "Name", width: 11, sort: (it) => it.name, show: (it) => it.name },
    {
      key: "role",
      title: "Role",
      width: 9,
      sort: (it) => it.role,
      show: (it) => html`<${Badge} kind=${it.role === "operator" ? "warn" : "calm"}>${it.role}</${Badge}>`,
    },
    {
      key: "tenant",
      title: "Tenant",
      width: 8,
      low: 1,
      sort: (it) => it.tenant,
      show: (it) => (it.tenant ? html`<${TenantName} name=${it.tenant} />` : "all"),
    },
    {
      key: "operations",
      title: "Operations",
      width: 12,
      low: 2,
      wrap: true,
      show: (it) => (it.operations ? it.operations.join(", ") : "all of its role"),
    },
    {
      key: "created",
      title: "Made",
      width: 9,
      num: true,
      low: 1,
      sort: (it) => it.created_ms,
      show: (it) => moment(it.created_ms),
    },
    {
      key: "expires",
      title: "Ends",
      width: 9,
      num: true,
      low: 1,
      sort: (it) => it.expires_ms,
      show: (it) => (it.expires_ms < Date.now() ? html`<${Badge} kind="bad">ended</${Badge}>` : moment(it.expires_ms)),
    },
  ];
  if (may("tokens.write"))
    all.push({
      key: "revoke",
      title: "",
      width: 6,
      show: (it) =>
        html`<button type="button" class="small" aria-label=${`Revoke ${it.name}`} onClick=${() => revoke(it, again)}>Revoke</button>`,
    });
  return all;
}

export function TokensPage() {
  const read = useResource("/tokens");
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState(null);
  const done = (token) => {
    setMaking(false);
    setMade(token);
    read.reload();
  };
  return html`
    <header class="head"><h1 tabindex="-1">Tokens</h1><p class="about">For programs that use the interface</p>
      <div class="actions">${may("tokens.write") && html`<button type="button" class="primary" onClick=${() => setMaking(true)}>New token</button>`}</div></header>
    <${Table} caption="Tokens" columns=${columns(read.reload)} rows=${read.value?.items ?? null} keyOf=${(it) => it.id} problem=${read.problem} again=${read.reload}
      empty=${html`<${Nothing} title="No tokens">A token lets a program use the interface: a dashboard, a CI job. Make one above.</${Nothing}>`} />
    ${making && html`<${NewToken} close=${() => setMaking(false)} done=${done} />`}
    ${made && html`<${Secret} token=${made} close=${() => setMade(null)} />`}`;
}
