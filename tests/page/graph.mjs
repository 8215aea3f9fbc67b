// Which modules the page imports, so that browsers ask for all of them at once: node graph.mjs --write puts the
// list into app/early.js, and without it says whether the list is the one that is there.
import { readFileSync, writeFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { PAGE } from "./mock.mjs";

const START = "/app/main.js";
const IMPORT = /\bfrom\s*"(\.[^"]+)"|^import\s*"(\.[^"]+)"/gm;
const LIST = /(const MODULES = \[\n)([\s\S]*?)(\];)/;

/** All modules behind the first, those that are met first ahead. */
export function modules() {
  const found = [START];
  for (const path of found) {
    for (const it of readFileSync(join(PAGE, path), "utf8").matchAll(IMPORT)) {
      const next = posix.join(posix.dirname(path), it[1] ?? it[2]);
      if (!found.includes(next)) found.push(next);
    }
  }
  return found.slice(1);
}

const FILE = join(PAGE, "app/early.js");
const lines = () =>
  modules()
    .map((it) => `  "${it}",\n`)
    .join("");

/** What is wrong with the list of app/early.js; null where nothing is. */
export function stale() {
  const had = LIST.exec(readFileSync(FILE, "utf8"))?.[2];
  return had === lines() ? null : "app/early.js names other modules than are imported: node tests/page/graph.mjs --write";
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes("--write"))
    writeFileSync(FILE, readFileSync(FILE, "utf8").replace(LIST, (_, head, __, end) => head + lines() + end));
  console.log(stale() ?? `${modules().length} modules are named`);
  process.exitCode = stale() ? 1 : 0;
}
