// Are the vendored modules what their packages have? Fetches the packages by npm and compares: node vendor.mjs
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PAGE } from "./mock.mjs";

const PATHS = {
  '"preact"': '"./preact.js"',
  '"preact/hooks"': '"./hooks.js"',
  '"@preact/signals-core"': '"./signals-core.js"',
};
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** A module's text as it is vendored. */
function vendored(text) {
  const lines = text
    .split("\n")
    .filter((it) => !it.startsWith("//# sourceMappingURL"))
    .join("\n");
  return Object.entries(PATHS).reduce((now, [bare, path]) => now.replaceAll(`from${bare}`, `from${path}`), lines);
}

const rows = readFileSync(join(PAGE, "lib/SOURCES.md"), "utf8")
  .split("\n")
  .filter((it) => it.startsWith("| `"))
  .map((it) => it.split("|").map((cell) => cell.trim().replaceAll("`", "")));
const folder = mkdtempSync(join(tmpdir(), "vendor-"));
let wrong = 0;
let archive;
try {
  for (const [, file, source, inside, archiveSum, sum] of rows) {
    if (archiveSum !== "the same") {
      archive = join(
        folder,
        execFileSync("npm", ["pack", "--silent", source.replace(" ", "@")], { cwd: folder, encoding: "utf8" }).trim(),
      );
      if (sha256(readFileSync(archive)) !== archiveSum) (wrong++, console.log(`${source}: the archive is another one`));
    }
    const text = execFileSync("tar", ["-xzOf", archive, `package/${inside}`], { encoding: "utf8" });
    const here = readFileSync(join(PAGE, "lib", file), "utf8");
    if (sha256(here) !== sum || here.trimEnd() !== vendored(text).trimEnd())
      (wrong++, console.log(`${file}: differs from ${source} ${inside}`));
  }
} finally {
  rmSync(folder, { recursive: true });
}
console.log(wrong ? `${wrong} wrong` : `${rows.length} files are as their packages have them`);
process.exit(wrong ? 1 : 0);
