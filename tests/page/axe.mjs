// What axe finds, in a line each.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export async function violationsOf(page) {
  await page.evaluate(source);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map(
    (it) =>
      `axe ${it.id}: ${it.help}; ${it.nodes
        .slice(0, 3)
        .map((node) => `${node.target.join(" ")} ${(node.any[0] || node.all[0] || node.none[0])?.message ?? ""}`)
        .join(" | ")}`,
  );
}
