// Requests to the controller, and its problem documents.

const BASE = "/api/v1";

let csrf = "";

/** The secret that unsafe requests carry. */
export function setCsrf(secret) {
  csrf = secret || "";
}

/** Something that did not work: what happened, and what to do. */
export class Problem extends Error {
  constructor(status, body = {}) {
    super(body.detail || body.title || "something went wrong");
    this.status = status;
    this.code = body.code || "";
    this.title = body.title || "";
    this.detail = body.detail || "";
    this.body = body;
  }
}

/** What is known of an answer that is not a success. */
export async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    body = { title: response.statusText, detail: `The controller answered ${response.status} without saying why.` };
  }
  const after = response.headers.get("retry-after");
  if (after && !/again/.test(body.detail || ""))
    body.detail = `${body.detail || "Too many requests."} Try again in ${after} s.`;
  return new Problem(response.status, body);
}

function unreachable() {
  return new Problem(0, {
    title: "The controller does not answer",
    code: "E-PAGE-UNREACHABLE",
    detail:
      "It may be restarting, or the network is down. The page tries again by itself; `warploom controller` starts it.",
  });
}

/** The text behind `?`, without what is empty. */
export function query(values) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(values || {})) {
    if (value !== null && value !== undefined && value !== "" && value !== false) search.set(key, value);
  }
  const text = search.toString();
  return text ? `?${text}` : "";
}

/** The address of something of the interface. */
export function address(path, values) {
  return BASE + path + query(values);
}

function headersOf(method, options) {
  const headers = { Accept: "application/json", ...options.headers };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-CSRF-Token"] = csrf;
  if (method === "POST") headers["Idempotency-Key"] = crypto.randomUUID?.() || `${Date.now()}-${Math.random()}`;
  if (options.etag) headers["If-Match"] = options.etag;
  return headers;
}

/** Asks; the answer as `{ value, etag }`. Throws a `Problem`. */
export async function ask(method, path, options = {}) {
  let response;
  try {
    response = await fetch(address(path, options.query), {
      method,
      headers: headersOf(method, options),
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
      credentials: "same-origin",
    });
  } catch (error) {
    throw error.name === "AbortError" ? error : unreachable();
  }
  if (!response.ok) throw await problemOf(response);
  const text = await response.text();
  return { value: text ? JSON.parse(text) : null, etag: response.headers.get("etag") };
}

export const get = async (path, values, options) => (await ask("GET", path, { ...options, query: values })).value;
/** How often is asked again what the record is read for, which it is for one at a time; and after how long, ms. */
const TRIES = 8;
const AGAIN = 1500;

/** Reads an answer that is made from the record; asks again while the record is read for another request. */
export async function patient(path, values, signal) {
  for (let left = TRIES; ; left--) {
    try {
      return await get(path, values, { signal });
    } catch (problem) {
      if (problem.status !== 429 || !left || signal?.aborted) throw problem;
      await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }
  }
}

export const post = async (path, body, options) => (await ask("POST", path, { ...options, body: body ?? {} })).value;
export const put = async (path, body) => (await ask("PUT", path, { body })).value;
export const patch = async (path, body, options) => (await ask("PATCH", path, { ...options, body })).value;
export const remove = async (path, options) => (await ask("DELETE", path, options)).value;
