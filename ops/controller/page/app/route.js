// Where in the page we are: `#/page/id?key=value`.
import { signal } from "./html.js";
import { query } from "./api.js";

function parse(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page = "", ...rest] = path.split("/").map(decodeURIComponent);
  return { page: page || "weave", id: rest.join("/") || null, query: Object.fromEntries(new URLSearchParams(search)) };
}

export const route = signal(parse(location.hash));

addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});

/** The link to a page. */
export function link(page, id, values) {
  return `#/${page}${id ? `/${encodeURIComponent(id)}` : ""}${query(values)}`;
}

/** Goes to a page. */
export function go(page, id, values) {
  location.hash = link(page, id, values);
}

/** Changes what stands behind `?` without a step in the history. */
export function refine(values) {
  const { page, id, query: now } = route.value;
  history.replaceState(null, "", link(page, id, { ...now, ...values }));
  route.value = parse(location.hash);
}
