// Tests of the control room page, in Debian's Chromium.
//
//     node run.mjs [--url URL [--login LINK] [--admin-token TOKEN]] [--only units,pictures,axe,shift,keyboard,states,why,speed] [--out FOLDER]
//
// Without --url a mock is started, and what changes something is tested too. The last line is JSON.
import { mkdirSync } from "node:fs";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { files, Mock } from "./mock.mjs";
import { breaches } from "./contract.mjs";
import { stale } from "./graph.mjs";
import { launch, login, open, pagesOf, visit, THEMES, WIDTHS } from "./browser.mjs";
import { walk } from "./keyboard.mjs";
import { speed } from "./speed.mjs";
import { states } from "./states.mjs";
import { units } from "./units.mjs";
import { violationsOf } from "./axe.mjs";
import { admin } from "./admin.mjs";
import { why } from "./waits.mjs";

const STEPS = ["units", "pictures", "axe", "shift", "keyboard", "states", "why", "speed"];

/** The arguments; what is none of them ends it with 2. */
function asked() {
  const text = { type: "string" };
  try {
    const options = { url: text, login: text, "admin-token": text, only: text, out: text };
    const { values } = parseArgs({ options });
    const steps = values.only?.split(",") ?? STEPS;
    const unknown = steps.filter((step) => !STEPS.includes(step));
    if (unknown.length) throw new Error(`${unknown.join(", ")}: there are ${STEPS.join(",")}`);
    return { ...values, steps: new Set(steps) };
  } catch (error) {
    console.error(error.message);
    process.exit(2);
  }
}

const failures = [];
const fail = (text) => {
  failures.push(text);
  console.log(`  wrong: ${text}`);
};

async function after(page, troubles, name) {
  const seen = await page.evaluate(() => ({
    shifts: window.shifts,
    violations: window.violations,
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  }));
  for (const it of seen.violations) fail(`${name}: the policy forbids ${it}`);
  for (const it of troubles.splice(0)) fail(`${name}: ${it}`);
  if (seen.wide > 0) fail(`${name}: ${seen.wide} px wider than the window`);
  const shift = seen.shifts.reduce((sum, it) => sum + it.value, 0);
  if (shift > 0) fail(`${name}: layout shift of ${shift.toFixed(5)}: ${JSON.stringify(seen.shifts.slice(0, 3))}`);
}

/** Every page in every size and theme: a picture, axe, no shift, nothing in the console. */
async function everyPage({ browser, base, pages, steps, out }) {
  for (const theme of THEMES) {
    for (const [width, height] of WIDTHS) {
      for (const name of pages) {
        const where = `${name} ${width} ${theme}`;
        const { page, context, troubles } = await open(browser, { width, height, theme });
        try {
          await visit(page, base, name, name === "weave" ? 1500 : 500);
          if (steps.has("pictures"))
            await page.screenshot({ path: `${out}/${name.replace("/", "-")}-${width}-${theme}.png` });
          await after(page, troubles, where);
          if (steps.has("axe")) for (const it of await violationsOf(page)) fail(`${where}: ${it}`);
        } catch (error) {
          fail(`${where}: ${error.message.split("\n")[0]}`);
        }
        await context.close();
      }
    }
    console.log(`pages, ${theme}: done`);
  }
}

function sizes() {
  let bytes = 0;
  let count = 0;
  for (const [name, file] of files()) {
    if (/\.(md|txt)$/.test(name)) continue;
    bytes += gzipSync(file, { level: 9 }).length;
    count++;
  }
  if (bytes > 200_000) fail(`the page has ${bytes} bytes compressed, more than 200 kB`);
  return { page_kb: Number((bytes / 1000).toFixed(1)), page_files: count };
}

async function main() {
  const { url, out = "out", steps, login: link, "admin-token": token } = asked();
  mkdirSync(out, { recursive: true });
  const mock = url ? null : new Mock({ rate: 150, sessions: 40 });
  const base = url?.replace(/\/$/, "") ?? (await mock.start());
  const browser = await launch();
  const result = sizes();
  if (stale()) fail(stale());
  if (link) await login(browser, link);
  const pages = await pagesOf(browser, base);
  try {
    if (steps.has("units")) await units({ browser, base, fail });
    if (["pictures", "axe", "shift"].some((it) => steps.has(it))) await everyPage({ browser, base, pages, steps, out });
    if (steps.has("keyboard")) await walk({ browser, base, mock, pages, fail });
    if (steps.has("states") && mock) await states({ browser, fail, out });
    if (steps.has("states")) await admin({ browser, base: url && base, token, fail });
    if (steps.has("why") && mock) await why({ browser, fail });
    if (steps.has("speed")) Object.assign(result, await speed({ browser, url, fail }));
  } finally {
    await browser.close();
    mock?.stop();
  }
  for (const it of breaches) fail(`contract: ${it}`);
  console.log(failures.length ? `${failures.length} wrong` : "all right");
  const { first_paint_ms = null, first_paint_floor_ms = null, weave_frame_ms = null, page_kb, ...more } = result;
  console.log(JSON.stringify({ first_paint_ms, first_paint_floor_ms, weave_frame_ms, page_kb, ...more }));
  process.exit(failures.length ? 1 : 0);
}

main().catch((error) => {
  console.error(error.message);
  process.exit(2);
});
