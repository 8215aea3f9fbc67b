// The settings of a tenant, new or there already: what would change is shown before it is.
import { html, useState } from "../app/html.js";
import { patch, post } from "../app/api.js";
import { bytes, nanos, parseBytes, parseNanos } from "../app/format.js";
import { Dialog, Trouble } from "../parts/dialog.js";
import { Changes, Field } from "../parts/field.js";

const NAME = /^[a-z][a-z0-9-]{0,31}$/;
const whole = (text) => (/^\d+$/.test(text.trim()) ? Number(text) : null);
const plain = (value) => String(value ?? 0);
const sized = (value) => (value ? bytes(value) : "0");
const timed = (value) => (value ? nanos(value) : "0");
const listed = (value) => (value || []).join(", ");
const list = (text) =>
  text
    .split(",")
    .map((it) => it.trim())
    .filter(Boolean);

/** What may be set: how it is written, how it is read, and what it means. */
const SETTINGS = [
  {
    key: "priority",
    label: "Priority",
    text: plain,
    read: whole,
    start: 2,
    help: "0 is the most urgent, 4 the least",
    options: [0, 1, 2, 3, 4].map((it) => ({ value: String(it) })),
  },
  { key: "weight", label: "Weight", text: plain, read: whole, start: 1, help: "share within the priority" },
  {
    key: "slo_ns",
    label: "Target",
    text: timed,
    read: parseNanos,
    start: 0,
    help: "99 of 100 requests within, e.g. 25 ms; 0 is none",
  },
  {
    key: "quota",
    label: "Memory",
    text: sized,
    read: parseBytes,
    start: 0,
    help: "on one device, e.g. 16 GiB; 0 is all of it",
  },
  { key: "cap", label: "Cap", text: plain, read: whole, start: 0, help: "most percent of a GPU; 0 is none" },
  {
    key: "outstanding_ns",
    label: "Outstanding work",
    text: timed,
    read: parseNanos,
    start: 0,
    help: "granted and not done, e.g. 2 ms; 0 is no limit",
  },
  {
    key: "sessions",
    label: "Sessions",
    text: plain,
    read: whole,
    start: 0,
    help: "how many at a time; 0 is the cluster's limit",
  },
  {
    key: "groups",
    label: "Groups",
    text: listed,
    read: list,
    start: [],
    help: "of devices it may use; empty is all that are open",
  },
  { key: "swap", label: "Memory may be swapped out", type: "checkbox", text: Boolean, read: Boolean, start: true },
];

/** Texts that are too coarse to give the number back stay as the number. */
function written(setting, value) {
  const text = setting.text(value);
  const same = JSON.stringify(setting.read(text)) === JSON.stringify(value);
  return same ? text : setting.text === timed ? `${value} ns` : plain(value);
}

function startOf(settings) {
  return Object.fromEntries(
    SETTINGS.map((it) => [it.key, written(it, settings ? (settings[it.key] ?? it.start) : it.start)]),
  );
}

/** What is not understood, by setting, and what was read. */
function understand(texts) {
  const errors = {};
  const values = {};
  for (const it of SETTINGS) {
    const value = it.read(texts[it.key]);
    if (value === null) errors[it.key] = `not understood: ${it.help}`;
    values[it.key] = value;
  }
  return { errors, values };
}

function changed(values, settings) {
  return Object.fromEntries(
    Object.entries(values).filter(
      ([key, value]) =>
        JSON.stringify(value) !== JSON.stringify(settings[key] ?? SETTINGS.find((it) => it.key === key).start),
    ),
  );
}

const DRY = { query: { dry_run: true } };
const pathOf = (name) => `/tenants/${encodeURIComponent(name)}`;

function Rows({ texts, errors, set, isNew, name, setName }) {
  return html`<div class="fields">
    ${isNew && html`<${Field} name="name" label="Name" value=${name} first onInput=${setName} error=${errors.name} help="a-z, digits and -, a letter first, at most 32; it stays" required />`}
    ${SETTINGS.map(
      (
        it,
        at,
      ) => html`<${Field} key=${it.key} name=${it.key} label=${it.label} type=${it.type || "text"} options=${it.options} value=${texts[it.key]} error=${errors[it.key]} help=${it.help}
      first=${!isNew && at === 0} onInput=${(value) => set(it.key, value)} />`,
    )}
  </div>`;
}

/** The dialog: with `tenant` it changes that one, without it makes a new one. */
export function TenantForm({ tenant, etag, onClose, onDone }) {
  const isNew = !tenant;
  const [texts, setTexts] = useState(startOf(tenant?.settings));
  const [name, setName] = useState("");
  const [errors, setErrors] = useState({});
  const [plan, setPlan] = useState(null);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const set = (key, value) => {
    setTexts((old) => ({ ...old, [key]: value }));
    setPlan(null);
  };

  const preview = async (values) => {
    const body = changed(values, isNew ? {} : tenant.settings);
    if (isNew) return { body, ...(await post("/tenants", { name, ...body }, DRY)) };
    if (!Object.keys(body).length) return { body, changes: [] };
    return { body, ...(await patch(pathOf(tenant.name), body, { ...DRY, etag })) };
  };
  const apply = async () => {
    if (isNew) await post("/tenants", { name, ...plan.body });
    else await patch(pathOf(tenant.name), plan.body, { etag });
    onDone(isNew ? name : tenant.name);
  };
  const submit = async (event) => {
    event.preventDefault();
    const { errors: found, values } = understand(texts);
    if (isNew && !NAME.test(name)) found.name = "a letter of a-z first, then a-z, digits and -, at most 32 in all";
    setErrors(found);
    if (Object.keys(found).length)
      return document.querySelector(`dialog [name="${Object.keys(found).at(-1)}"]`)?.focus();
    setBusy(true);
    setProblem(null);
    try {
      if (plan) return await apply();
      setPlan(await preview(values));
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };

  const nothing = plan && !isNew && !plan.changes?.length;
  return html`<${Dialog} title=${isNew ? "New tenant" : `Change ${tenant.name}`} onClose=${onClose} wide>
    <form onSubmit=${submit} novalidate>
      ${
        plan
          ? html`<p class="says">${isNew ? html`Tenant <strong>${name}</strong> gets a login of its own, and what is usual but for these:` : "Nothing is changed yet. From the next grant on this would hold:"}</p><${Changes} changes=${plan.changes} admission=${plan.admission} />`
          : html`<${Rows} texts=${texts} errors=${errors} set=${set} isNew=${isNew} name=${name} setName=${setName} />`
      }
      <${Trouble} problem=${problem} />
      <footer>
        <button type="button" onClick=${plan ? () => setPlan(null) : onClose}>${plan ? "Back" : "Cancel"}</button>
        <button type="submit" class="primary" disabled=${busy || nothing}>${busy ? "Working …" : plan ? (isNew ? "Create the tenant" : "Apply") : "See what changes"}</button>
      </footer>
    </form>
  </${Dialog}>`;
}
