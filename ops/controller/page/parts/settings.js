// A tenant's settings in words: the same wherever they are shown.
import { bytes, nanos } from "../app/format.js";

const text = (value) => String(value);
const or = (zero, words) => (value) => (value ? words(value) : zero);
const CLUSTERS = "the cluster's limit";

/** Each setting of a tenant: its name for people, and what a value of it means. */
export const SETTINGS = [
  { key: "priority", title: "Priority", words: text },
  { key: "weight", title: "Weight", words: text },
  { key: "slo_ns", title: "Target", words: or("none", nanos) },
  { key: "quota", title: "Memory", words: or("all of a device", bytes) },
  { key: "cap", title: "Cap", words: or("none", (value) => `${value} %`) },
  { key: "outstanding_ns", title: "Outstanding work", words: or("no limit", nanos) },
  { key: "sessions", title: "Sessions", words: or(CLUSTERS, text) },
  { key: "groups", title: "Groups", words: (value) => (value?.length ? value.join(", ") : "all open ones") },
  { key: "addresses", title: "Addresses", words: or(CLUSTERS, bytes) },
  { key: "modules", title: "Modules", words: or(CLUSTERS, bytes) },
  { key: "staged", title: "Staged", words: or(CLUSTERS, bytes) },
  { key: "swap", title: "Swap", words: (value) => (value ? "allowed" : "never") },
  { key: "suspended", title: "Suspended", words: (value) => (value ? "yes" : "no") },
];

/** What a value of a tenant's setting means; of a setting that is none of a tenant's, the value. */
export function wordsOf(key, value) {
  if (value === null || value === undefined || value === "") return "none";
  return SETTINGS.find((it) => it.key === key)?.words(value) ?? String(value);
}
