// What docs/reference/openapi.json says of requests and answers, held against those of the mock and of the page.
import { readFileSync } from "node:fs";

const FILE = new URL("../../docs/reference/openapi.json", import.meta.url);
const DOCUMENT = JSON.parse(readFileSync(FILE, "utf8"));
const JSON_TYPE = /json/;

/** What differed, a line each, since the tests began. */
export const breaches = new Set();

const kindOf = (value) =>
  value === null ? "null" : Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value;

function isOf(value, types) {
  const kind = kindOf(value);
  return types.includes(kind) || (kind === "integer" && types.includes("number"));
}

function resolve(schema) {
  return schema.$ref
    ? schema.$ref
        .split("/")
        .slice(1)
        .reduce((at, key) => at[key], DOCUMENT)
    : schema;
}

function objectErrors(schema, value, where) {
  const known = schema.properties || {};
  const errors = (schema.required || []).filter((key) => !(key in value)).map((key) => `${where}.${key} is missing`);
  for (const [key, inner] of Object.entries(value)) {
    if (known[key]) errors.push(...errorsOf(known[key], inner, `${where}.${key}`));
    else if (typeof schema.additionalProperties === "object")
      errors.push(...errorsOf(schema.additionalProperties, inner, `${where}.${key}`));
    else if (schema.properties) errors.push(`${where}.${key} is not in the document`);
  }
  return errors;
}

/** What is wrong with a value, a line each. What the document does not name is wrong too. */
export function errorsOf(reference, value, where = "") {
  const schema = resolve(reference);
  for (const every of schema.allOf || []) {
    const errors = errorsOf(every, value, where);
    if (errors.length) return errors;
  }
  const choices = schema.oneOf || schema.anyOf;
  if (choices) {
    const all = choices.map((it) => errorsOf(it, value, where));
    return all.some((it) => !it.length) ? [] : all.reduce((a, b) => (b.length && b.length <= a.length ? b : a));
  }
  if (schema.type && !isOf(value, [schema.type].flat()))
    return [`${where} is ${kindOf(value)}, not ${[schema.type].flat().join(" or ")}`];
  if (schema.enum && !schema.enum.includes(value)) return [`${where} is ${value}, none of ${schema.enum}`];
  if (schema.minimum !== undefined && value < schema.minimum) return [`${where} is less than ${schema.minimum}`];
  if (schema.maximum !== undefined && value > schema.maximum) return [`${where} is more than ${schema.maximum}`];
  if (Array.isArray(value) && schema.items)
    return value.flatMap((it, at) => errorsOf(schema.items, it, `${where}[${at}]`)).slice(0, 3);
  return kindOf(value) === "object" ? objectErrors(schema, value, where) : [];
}

const PATHS = Object.entries(DOCUMENT.paths).map(([path, methods]) => ({
  pattern: new RegExp(`^${path.replace(/\{[^}]+\}/g, "[^/]+").replaceAll(".", "\\.")}$`),
  exact: !path.includes("{"),
  methods,
}));

function operationOf(method, path) {
  const fits = PATHS.filter((it) => it.pattern.test(path));
  return (fits.find((it) => it.exact) ?? fits[0])?.methods[method.toLowerCase()];
}

/** The operation that a role needs for a request; null where it needs none. */
export const needOf = (method, path) => operationOf(method, path)?.["x-operation"] ?? null;

const schemaOf = (content) => Object.entries(content || {}).find(([type]) => JSON_TYPE.test(type))?.[1].schema;
const note = (where, errors) => errors.slice(0, 3).forEach((it) => breaches.add(`${where}: ${it}`));

/** Holds a request of the page against the document: its path, what stands behind `?`, and its body. */
export function checkRequest(method, url, body) {
  const where = `${method} ${url.pathname}`;
  const operation = operationOf(method, url.pathname);
  if (!operation) return breaches.add(`${where} is asked and not in the document`);
  const named = new Set((operation.parameters || []).filter((it) => it.in === "query").map((it) => it.name));
  for (const key of url.searchParams.keys()) if (!named.has(key)) breaches.add(`${where}: ?${key} is not in the document`);
  const schema = schemaOf(operation.requestBody?.content);
  if (schema) note(`${where}, asked`, errorsOf(schema, body, "body"));
}

/** Holds an answer of the mock against the document. */
export function checkAnswer(method, path, status, body) {
  const answers = operationOf(method, path)?.responses;
  if (!answers) return;
  const where = `${method} ${path}, ${status}`;
  const answer = answers[status] ?? (status >= 400 ? answers.default : null);
  if (!answer) return breaches.add(`${where} is not in the document`);
  const schema = schemaOf(resolve(answer).content);
  if (schema && body !== undefined) note(where, errorsOf(schema, body, "answer"));
  if (!schema && body !== undefined) breaches.add(`${where} has a body that the document does not name`);
}

const model = (name) => ({ $ref: `#/components/schemas/${name}` });
const list = (name) => ({ type: "array", items: model(name) });
const EVENTS = {
  position: model("Position"),
  standing: list("Position"),
  problem: model("Problem"),
  failure: model("FailureModel"),
  failures: list("FailureModel"),
  status: {
    type: "object",
    required: ["cluster", "workers", "tenants"],
    properties: { cluster: model("ClusterModel"), workers: list("WorkerModel"), tenants: list("TenantModel") },
  },
};

/** Holds an event of the mock's streams against the document. */
export function checkEvent(name, value) {
  if (EVENTS[name]) note(`event ${name}`, errorsOf(EVENTS[name], value, "data"));
}
