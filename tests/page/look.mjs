// Pictures for whoever works on the page: node look.mjs PAGE[,PAGE] WIDTH[,WIDTH] [light|dark|both]
// of the mock, or with URL and LINK in the environment of a real controller; OUT is the folder.
import { mkdirSync } from "node:fs";
import { Mock } from "./mock.mjs";
import { launch, login, open, visit, WIDTHS, THEMES } from "./browser.mjs";

const [pages, widths = "1280", themes = "dark"] = process.argv.slice(2);
const { URL: url, LINK: link, OUT: out = "out", RATE: rate = 150 } = process.env;
const mock = url ? null : new Mock({ rate: Number(rate), sessions: 40 });
const base = url ?? (await mock.start());
const browser = await launch();
if (link) await login(browser, link);
mkdirSync(out, { recursive: true });
for (const width of widths.split(",").map(Number)) {
  for (const theme of themes === "both" ? THEMES : [themes]) {
    const height = WIDTHS.find((it) => it[0] === width)?.[1] ?? 900;
    const { page, context, troubles } = await open(browser, { width, height, theme });
    for (const name of pages.split(",")) {
      await visit(page, base, name, name === "weave" ? 2500 : 900);
      if (process.env.KEYS)
        for (const key of process.env.KEYS.split(" ")) {
          await page.locator("canvas").focus();
          await page.keyboard.press(key);
          await page.waitForTimeout(60);
        }
      await page.screenshot({
        path: `${out}/look-${name.replace("/", "-")}-${width}-${theme}.png`,
        fullPage: Boolean(process.env.FULL),
      });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      console.log(
        name,
        width,
        theme,
        wide ? "WIDER THAN THE WINDOW" : "",
        JSON.stringify(await page.evaluate(() => ({ shifts: window.shifts, violations: window.violations }))),
        troubles.splice(0).join("\n"),
      );
    }
    await context.close();
  }
}
await browser.close();
mock?.stop();
process.exit(0);
