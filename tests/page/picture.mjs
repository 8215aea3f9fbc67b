// The pictures in the README, docs/images/control-room-*.png: node picture.mjs [--url URL --login LINK]
// Without --url they are of the mock's cluster.
import { fileURLToPath } from "node:url";
import { statSync } from "node:fs";
import { Mock } from "./mock.mjs";
import { launch, login, open, THEMES, visit } from "./browser.mjs";

const FOLDER = fileURLToPath(new URL("../../docs/images/", import.meta.url));
const valueOf = (name) => process.argv[process.argv.indexOf(`--${name}`) + 1];
const url = process.argv.includes("--url") ? valueOf("url").replace(/\/$/, "") : null;
const mock = url ? null : new Mock({ rate: 60, sessions: 40 });
const base = url ?? (await mock.start());
const browser = await launch();
if (process.argv.includes("--login")) await login(browser, valueOf("login"));
const out = process.argv.includes("--out") ? valueOf("out") : FOLDER;
for (const theme of THEMES) {
  const { page, context } = await open(browser, { width: 1280, height: 760, theme });
  await visit(page, base, "weave", 6000);
  const path = `${out}/control-room-${theme}.png`;
  await page.screenshot({ path });
  console.log(path, statSync(path).size, "bytes");
  await context.close();
}
await browser.close();
mock?.stop();
process.exit(0);
