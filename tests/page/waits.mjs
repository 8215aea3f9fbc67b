// Why: what launches, sessions and tenants waited for, and what devices were idle for, as the page shows it.
import { readFileSync } from "node:fs";
import { Mock } from "./mock.mjs";
import { violationsOf } from "./axe.mjs";
import { open, visit } from "./browser.mjs";
import { seenWaits } from "./why.mjs";

const WORDS = readFileSync(new URL("../../docs/howto/why.md", import.meta.url), "utf8");
const OTHERS = ["search", "train", "vision", "batch"];

/** The causes that the page for people has in its tables. */
function documented() {
  const rows = WORDS.split("\n").filter((line) => /^\| [a-z]/.test(line) && !line.startsWith("| waited for"));
  const names = rows.flatMap((line) => line.split("|")[1].split(","));
  return [...new Set(names.map((it) => it.trim()))].filter((it) => !it.startsWith("idle"));
}

/** Every cause has words, and a mark of its own. */
async function causes(browser, base, fail) {
  const { page, context } = await open(browser);
  await visit(page, base, "weave", 300);
  const told = await page.evaluate(async (names) => {
    const { classOf, wordsOf, fewOf } = await import("/parts/causes.js");
    const waits = [9, 5, 3, 2, 1].map((ns) => ({ cause: "own", of: null, ns }));
    const few = fewOf(waits, 3);
    return {
      causes: names.map((cause) => [cause, classOf(cause), wordsOf({ cause, of: "x" }), wordsOf({ cause, of: null }, true)]),
      few: few.map((it) => it.ns),
      unknown: classOf("no such cause"),
    };
  }, documented());
  if (told.causes.length !== 18) fail(`why: docs/howto/why.md has ${told.causes.length} causes`);
  if (new Set(told.causes.map((it) => it[1])).size !== told.causes.length) fail("why: two causes look alike");
  for (const [cause, mark, ...words] of told.causes)
    if (mark === told.unknown || words.some((it) => !it || /what else/.test(it))) fail(`why: no words for ${cause}`);
  if (told.few.join() !== "9,5,6") fail(`why: few waits come to ${told.few}`);
  await context.close();
}

/** What is pointed at shows what it waited for; the times add up, and come with its stages. */
async function weave(browser, base, fail) {
  const { page, context, troubles } = await open(browser);
  await visit(page, base, "weave", 1500);
  const box = await page.locator("canvas").boundingBox();
  const shown = () =>
    page.evaluate(() => {
      const it = window.warploomWeave.detail.value;
      return {
        id: it?.id,
        sum: (it?.waits ?? []).reduce((sum, wait) => sum + wait.ns, 0),
        whole: it?.waited_ns,
        rows: document.querySelectorAll(".few strong").length,
        stages: [...document.querySelectorAll(".stages dd")].map((dd) => dd.textContent),
        high: document.querySelector(".detail").offsetHeight,
      };
    });
  const heights = new Set();
  for (let at = 0; at < 40; at++) {
    await page.mouse.move(box.x + box.width * (0.3 + at * 0.015), box.y + box.height * 0.2);
    await page.waitForTimeout(25);
    heights.add((await shown()).high);
  }
  await page.locator("canvas").focus();
  for (const key of ["ArrowLeft", "ArrowLeft", "ArrowLeft"]) await page.keyboard.press(key);
  await page.waitForTimeout(700);
  // Of a grey mark nothing is to be told: on to the next block.
  for (let tries = 0; tries < 6 && (await shown()).whole === null; tries++) {
    await page.keyboard.press("ArrowLeft");
    await page.waitForTimeout(500);
  }
  const it = await shown();
  heights.add(it.high);
  if (!it.rows || it.sum !== it.whole) fail(`why, weave: waits of ${it.id} come to ${it.sum}, not ${it.whole}`);
  if (it.stages.length !== 5 || it.stages.includes("–")) fail(`why, weave: ${it.id} has stages ${it.stages}`);
  if (heights.size !== 1) fail(`why, weave: what is known is ${[...heights]} px high`);
  for (const wrong of await violationsOf(page)) fail(`why, weave: ${wrong}`);
  await steady(page, troubles, "weave", fail);
  await context.close();
}

async function steady(page, troubles, name, fail) {
  const shifts = await page.evaluate(() => window.shifts);
  if (shifts.length) fail(`why, ${name}: layout shift ${JSON.stringify(shifts.slice(0, 3))}`);
  for (const it of troubles.splice(0)) fail(`why, ${name}: ${it}`);
}

/** Opens a session by keys, and closes it; one that has ended is told of from the record. */
async function sessions(browser, mock, base, fail) {
  const { page, context, troubles } = await open(browser);
  await visit(page, base, "sessions", 300);
  const opener = page.locator(".opener").nth(2);
  await opener.focus();
  await page.keyboard.press("Enter");
  // Slow enough that what comes is not taken for a shift of the key's.
  await page.waitForSelector(".below td.num");
  await page.waitForTimeout(800);
  if ((await opener.getAttribute("aria-expanded")) !== "true") fail("why, sessions: the row does not say that it is open");
  const text = await page.textContent(".below");
  if (!/Now it waits for/.test(text) || !/99 of 100/.test(text)) fail(`why, sessions: says "${text.slice(0, 90)}"`);
  for (const it of await violationsOf(page)) fail(`why, sessions: ${it}`);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".below", { state: "detached" });
  await steady(page, troubles, "sessions", fail);
  const gone = mock.cluster.sessions.find((it) => mock.cluster.positions.some((position) => position.session === it.id));
  mock.cluster.sessions = mock.cluster.sessions.filter((it) => it !== gone);
  await page.goto(`${base}/#/sessions?find=${gone.id}`);
  await page.waitForSelector(".panel .why td.num").catch(() => fail("why, sessions: of one that ended nothing is told"));
  await context.close();
}

/** A tenant's waits, and a device's days. */
async function others(browser, base, fail) {
  const { page, context, troubles } = await open(browser);
  await visit(page, base, "tenants/batch", 600);
  const shares = await page.$$eval(".why tbody td:last-child", (all) => all.map((it) => parseFloat(it.textContent.replace("<", ""))));
  const sum = shares.reduce((a, b) => a + b, 0);
  if (!shares.length || Math.abs(sum - 100) > shares.length * 0.06) fail(`why, tenant: shares come to ${sum} %`);
  await steady(page, troubles, "tenant", fail);
  await visit(page, base, "devices", 600);
  const days = page.locator(".day");
  if ((await days.count()) < 9) fail(`why, devices: ${await days.count()} days`);
  await days.nth(3).focus();
  await page.keyboard.press("Enter");
  await page.waitForTimeout(200);
  const [pressed, said] = [await days.nth(3).getAttribute("aria-pressed"), await page.textContent(".legendline")];
  const day = (await days.nth(3).textContent()).slice(0, 10);
  if (pressed !== "true" || !said.includes(day)) fail(`why, devices: ${day} is chosen, and it says "${said}"`);
  await steady(page, troubles, "devices", fail);
  await context.close();
}

/** The record is read for somebody else: the page asks again. Where it cannot be read it says so. */
async function refused(browser, mock, base, fail) {
  mock.busy = 2;
  const { page, context } = await open(browser);
  await visit(page, base, "tenants", 200);
  await page.goto(`${base}/#/tenants/chat`);
  await page
    .waitForSelector(".why td.num", { timeout: 8000 })
    .catch(() => fail("why: where the record was read for somebody else, the page does not ask again"));
  mock.busy = "broken";
  await page.getByRole("button", { name: "Read again" }).click();
  await page.waitForTimeout(300);
  if (!(await page.locator(".why td.num").count())) fail("why: what was known is not shown any more");
  await page.goto(`${base}/#/tenants/search`);
  await page.waitForSelector(".why .state.bad").catch(() => fail("why: a record that does not replay is not told of"));
  for (const it of await violationsOf(page)) fail(`why, a record that does not replay: ${it}`);
  mock.busy = 0;
  await page.locator(".why .state.bad button").click();
  await page.waitForSelector(".why td.num").catch(() => fail("why: trying again does not help"));
  await context.close();
}

/** A tenant's administrator reads whatever is of their own, and nobody else's name. */
async function own(browser, fail) {
  const mock = new Mock({ role: "tenant-admin" });
  const base = await mock.start();
  const { page, context } = await open(browser);
  const texts = [];
  await visit(page, base, "weave", 1500);
  await page.locator("canvas").focus();
  for (let at = 0; at < 5; at++) {
    await page.keyboard.press("ArrowLeft");
    await page.waitForTimeout(350);
    texts.push(await page.textContent(".detail"));
  }
  await visit(page, base, "sessions", 200);
  await page.locator(".opener").first().click();
  await page.waitForSelector(".below td.num");
  texts.push(await page.textContent("main tbody"));
  await visit(page, base, "tenants/chat", 500);
  texts.push(await page.textContent("main"));
  for (const text of texts)
    for (const name of OTHERS) if (new RegExp(`\\b${name}\\b`).test(text)) fail(`why: an administrator of chat reads "${name}"`);
  if (!texts.join().match(/another tenant|work of others/)) fail("why: an administrator is not told that others were before theirs");
  const hidden = seenWaits([{ cause: "share", of: "train", ns: 2 }, { cause: "share", of: "batch", ns: 3 }], () => false);
  if (JSON.stringify(hidden) !== '[{"cause":"share","of":null,"ns":5}]') fail("why: the mock tells how many others there are");
  await context.close();
  mock.stop();
}

export async function why({ browser, fail }) {
  const mock = new Mock({ rate: 150, sessions: 40 });
  const base = await mock.start();
  await causes(browser, base, fail);
  await weave(browser, base, fail);
  await sessions(browser, mock, base, fail);
  await others(browser, base, fail);
  await refused(browser, mock, base, fail);
  mock.stop();
  await own(browser, fail);
  console.log("why: done");
}
