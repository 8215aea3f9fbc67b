// The settings of a tenant, new or there already: what would change is shown before it is.
import { html, useState } from "../app/html.js";
import { patch, post } from "../app/api.js";
import { Dialog, Trouble } from "../parts/dialog.js";
import { Changes, Field } from "../parts/field.js";
import { FORM, written } from "../parts/settings.js";

const NAME = /^[a-z][a-z0-9-]{0,31}$/;
function startOf(settings) {
  return Object.fromEntries(
    FORM.map((it) => [it.key, written(it, settings ? (settings[it.key] ?? it.start) : it.start)]),
  );
}

/** What is not understood, by setting, and what was read. */
function understand(texts) {
  const errors = {};
  const values = {};
  for (const it of FORM) {
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
        JSON.stringify(value) !== JSON.stringify(settings[key] ?? FORM.find((it) => it.key === key).start),
    ),
  );
}

const DRY = { query: { dry_run: true } };
const pathOf = (name) => `/tenants/${encodeURIComponent(name)}`;

function Rows({ texts, errors, set, isNew, name, setName }) {
  return html`<div class="fields">
    ${isNew && html`<${Field} name="name" label="Name" value=${name} first onInput=${setName} error=${errors.name} help="a-z, digits and -, a letter first, at most 32; it stays" required />`}
    ${FORM.map(
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
