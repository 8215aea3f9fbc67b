// Fields that choose a tenant or a device, or all of them.
import { html } from "../app/html.js";
import { may } from "../app/identity.js";
import { tenants, workers } from "../app/live.js";
import { Field } from "./field.js";

const ALL = { value: "", text: "all" };

export function TenantChoice({ value, onInput }) {
  const options = [ALL, ...(tenants.value || []).map((it) => ({ value: it.name }))];
  return html`<${Field} name="tenant" label="Tenant" value=${value} options=${options} onInput=${onInput} />`;
}

/** `by` is what the choice gives: a worker's "id", or its "gpu". */
export function DeviceChoice({ by, value, onInput }) {
  if (!may("workers.read")) return null;
  const options = [ALL, ...(workers.value || []).map((it) => ({ value: String(it[by]), text: `GPU ${it.gpu}` }))];
  return html`<${Field} name=${by} label="Device" value=${value} options=${options} onInput=${onInput} />`;
}
