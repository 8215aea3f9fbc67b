// Fields of forms, each with its label and what may be in it.
import { html } from "../app/html.js";
import { nanos } from "../app/format.js";
import { wordsOf } from "./settings.js";

let next = 0;
const ids = new Map();

function idOf(name) {
  if (!ids.has(name)) ids.set(name, `field-${next++}`);
  return ids.get(name);
}

/** A field in a line: text, number, date, select (`options`) or check box. */
export function Field({ name, label, help, error, type = "text", options, value, onInput, first, ...more }) {
  const id = idOf(name);
  const about = help || error ? `${id}-about` : undefined;
  const shared = {
    id,
    name,
    "aria-describedby": about,
    "aria-invalid": error ? "true" : undefined,
    "data-first": first || undefined,
    ...more,
  };
  const tell = (event) => onInput?.(type === "checkbox" ? event.target.checked : event.target.value);
  const note = html`<span id=${about} class=${error ? "note error" : "note"}>${error || help || ""}</span>`;
  if (type === "checkbox") {
    return html`<div class="field check"><input type="checkbox" ...${shared} checked=${value} onChange=${tell} /><label for=${id}>${label}</label>${note}</div>`;
  }
  const input = options
    ? html`<select ...${shared} value=${value} onChange=${tell}>${options.map((it) => html`<option key=${it.value} value=${it.value} selected=${it.value === value}>${it.text ?? it.value}</option>`)}</select>`
    : html`<input type=${type} ...${shared} value=${value} onInput=${tell} autocomplete="off" spellcheck="false" />`;
  return html`<div class="field"><label for=${id}>${label}</label>${input}${note}</div>`;
}

/** What a change would do, before it is done. */
export function Changes({ changes, admission }) {
  if (!changes?.length) return html`<p class="says">Nothing differs.</p>`;
  return html`<div>
    <table class="changes"><caption class="unseen">What changes</caption>
      <thead><tr><th scope="col">Setting</th><th scope="col">Now</th><th scope="col">Then</th></tr></thead>
      <tbody>${changes.map(
        (it) => html`<tr key=${it.key}>
        <th scope="row"><code>${it.key}</code></th><td>${shown(it.key, it.before)}</td><td><strong>${shown(it.key, it.after)}</strong></td></tr>`,
      )}</tbody></table>
    ${
      admission?.length
        ? html`<h3>What the admission says</h3>
      <ul class="admission">${admission.map((it, at) => html`<li key=${at} class=${it.verdict === "met" ? "met" : ""}>${admissionWords(it)}</li>`)}</ul>`
        : null
    }
  </div>`;
}

const VERDICTS = {
  met: "will be met",
  unknown: "may be met or not: too little is known yet",
  "too-long": "cannot be met: its requests are too long",
  crowded: "may be missed: others run ahead of it",
  overloaded: "may be missed: there is more work than the device can do",
};

/** What the leader says of a tenant's target. */
function admissionWords(it) {
  if (typeof it === "string") return it;
  const target = it.target_ns ? `, ${nanos(it.target_ns)},` : "";
  return `The target of ${it.tenant}${target} ${VERDICTS[it.verdict] || it.verdict}.${it.advice ? ` ${it.advice}` : ""}`;
}

/** A value as the interface tells it in a change: JSON of a tenant's, plain text of the cluster's. */
function shown(key, value) {
  try {
    return wordsOf(key, JSON.parse(value));
  } catch {
    return wordsOf(key, value);
  }
}
