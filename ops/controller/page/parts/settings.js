// A tenant's settings in words, and as a form has them: the same wherever they are shown.
import { bytes, nanos, parseBytes, parseNanos } from "../app/format.js";
import { TENANT_SETTINGS } from "./tenantsettings.js";

const text = (value) => String(value);
const plain = (value) => String(value ?? 0);
const whole = (text) => (/^\d+$/.test(text.trim()) ? Number(text) : null);
const or0 = (words) => (value) => (value ? words(value) : "0");
const list = (text) =>
  text
    .split(",")
    .map((it) => it.trim())
    .filter(Boolean);

/** By kind: a value in words, its text in a form, how that text is read, and an example of it. */
const KINDS = {
  number: { words: text, text: plain, read: whole },
  percent: { words: (value) => `${value} %`, text: plain, read: whole },
  bytes: { words: bytes, text: or0(bytes), read: parseBytes, example: "16 GiB" },
  time: { words: nanos, text: or0(nanos), read: parseNanos, example: "25 ms" },
  names: { words: (value) => value.join(", "), text: (value) => (value || []).join(", "), read: list, example: "a, b" },
  switch: { words: (value) => (value ? "yes" : "no"), text: Boolean, read: Boolean, type: "checkbox" },
  state: { words: (value) => (value ? "yes" : "no") },
};

/** Ranges this small are chosen from. */
const FEW = 10;

function formOf(it) {
  const kind = KINDS[it.kind];
  const zero = it.kind === "names" ? "empty" : "0";
  const help = [
    it.most !== undefined && it.most < 2 ** 32 - 1 && `${it.least} to ${it.most}`,
    kind.example && `such as ${kind.example}`,
    it.none && `${zero} is ${it.none}`,
  ];
  const few = it.most - it.least < FEW;
  const options = Array.from({ length: few ? it.most - it.least + 1 : 0 }, (_, at) => ({ value: text(it.least + at) }));
  return {
    label: it.title,
    help: [it.help, ...help.filter(Boolean)].join("; "),
    options: few ? options : undefined,
  };
}

/** Each setting of a tenant: its name for people, what a value of it means, and how a form has it. */
export const SETTINGS = TENANT_SETTINGS.map((it) => ({
  ...it,
  ...KINDS[it.kind],
  ...formOf(it),
  words: (value) => (it.none && !(value?.length ?? value) ? it.none : KINDS[it.kind].words(value)),
}));

/** Those that a form changes; the others have commands of their own. */
export const FORM = SETTINGS.filter((it) => it.read);

/** The text of a value in a form. Texts that are too coarse to give the number back stay as the number. */
export function written(setting, value) {
  const text = setting.text(value);
  const same = JSON.stringify(setting.read(text)) === JSON.stringify(value);
  return same ? text : setting.kind === "time" ? `${value} ns` : plain(value);
}

/** What a value of a tenant's setting means; of a setting that is none of a tenant's, the value. */
export function wordsOf(key, value) {
  if (value === null || value === undefined || value === "") return "none";
  return SETTINGS.find((it) => it.key === key)?.words(value) ?? String(value);
}
