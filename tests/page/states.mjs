// What is shown where there is nothing, where something went wrong, to other roles, and while it is read.
import { FAILURE, Mock } from "./mock.mjs";
import { PAGES, open, visit } from "./browser.mjs";
import { violationsOf } from "./axe.mjs";

const SAYS = {
  weave: "No positions yet",
  tenants: "No tenants yet",
  devices: "No worker has joined",
  sessions: "No sessions",
  usage: "Nothing was used",
  order: "No positions",
  tokens: "No tokens",
};

async function empty(browser, fail) {
  const mock = new Mock({ empty: true });
  const base = await mock.start();
  const { page, context } = await open(browser);
  for (const [name, text] of Object.entries(SAYS)) {
    await visit(page, base, name, 700);
    if (!(await page.textContent("main")).includes(text)) fail(`${name}, empty: does not say "${text}"`);
    for (const it of await violationsOf(page)) fail(`${name}, empty: ${it}`);
  }
  await context.close();
  mock.stop();
}

/** Devices on which nothing ran have lanes too. */
async function idle(browser, fail) {
  const mock = new Mock({ rate: 0 });
  const base = await mock.start();
  const { page, context } = await open(browser);
  await visit(page, base, "weave", 500);
  const lanes = await page.evaluate(() => window.warploomWeave.scene.place.lanes.map((it) => it.gpu));
  if (lanes.join() !== "0,1,2") fail(`idle: the weave has lanes for devices ${lanes}, not for 0,1,2`);
  await context.close();
  mock.stop();
}

/** A program that has a device for itself is seen at work, though its grant does not end. */
async function alone(browser, fail) {
  const mock = new Mock({ rate: 40, alone: true });
  const base = await mock.start();
  const { page, context } = await open(browser);
  await visit(page, base, "weave", 3000);
  const seen = await page.evaluate(() => {
    const { live } = window.warploomWeave;
    const lane = live.gpus.find(3);
    const parts = [];
    for (let at = live.oldest; at < live.next; at++) if (live.lane[at] === lane) parts.push(at);
    window.warploomWeave.select(parts.at(-1));
    return { count: parts.length, ran: parts.reduce((sum, at) => sum + live.width[at], 0) };
  });
  if (seen.count < 4 || seen.ran < 5e8 || seen.ran > 5e9) fail(`alone: ${seen.count} parts, together ${seen.ran} ns, are drawn`);
  await page.waitForTimeout(400);
  const text = await page.textContent(".detail");
  if (!text.includes("A standing grant, running") || !text.includes("Took so far")) fail(`alone: its detail says "${text}"`);
  for (const it of await violationsOf(page)) fail(`alone: ${it}`);
  await context.close();
  mock.stop();
}

/** Failures of sessions are listed; one that comes while the page is open is told at once. */
async function failures(browser, fail) {
  const mock = new Mock({ role: "tenant-admin" });
  const base = await mock.start();
  const { page, context } = await open(browser);
  await visit(page, base, "sessions", 700);
  await page.waitForSelector(".failures");
  const listed = await page.textContent(".failures");
  for (const part of ["src/saxpy.cu:12", "thread 5, 0, 0", "0x7f0000001000", "at the end of an allocation"])
    if (!listed.includes(part)) fail(`failures: "${part}" is not listed`);
  if (listed.includes("batch")) fail("failures: another tenant's failure is listed");
  mock.failures.push({ ...FAILURE, session: "00000000000000f3", text: "trap in kernel `f`", kernel: null });
  await page.waitForFunction(() => document.querySelector(".notices")?.textContent.includes("trap in kernel"));
  for (const it of await violationsOf(page)) fail(`failures: ${it}`);
  // A stream that begins again tells nothing as new, and replaces the list.
  for (let at = 0; at < 220; at++) mock.failures.push({ ...FAILURE, session: `00000000000001${at.toString(16).padStart(2, "0")}`, text: "old", kernel: null });
  await page.waitForTimeout(1500);
  mock.cut();
  await page.waitForTimeout(8000);
  const notices = await page.textContent(".notices");
  if (notices.includes("old")) fail(`failures: told as new after a reconnect: ${notices}`);
  const rows = await page.$$eval(".failures tbody tr", (all) => all.length);
  if (rows !== 200) fail(`failures: ${rows} are listed, not 200`);
  await context.close();
  mock.stop();
}

/** Workers that were lost are named above the devices. */
async function lost(browser, fail) {
  const mock = new Mock();
  mock.cluster.lost = [
    { id: "00000000000000b2", gpu: 7, device: "cpu, 2 threads", lost_for_ns: 90e9 },
    { id: "00000000000000b3", gpu: null, device: null, lost_for_ns: 5e9 },
  ];
  const base = await mock.start();
  const { page, context } = await open(browser);
  await visit(page, base, "devices", 700);
  await page.waitForSelector(".lost");
  const text = await page.textContent(".lost");
  for (const part of ["GPU 7 (cpu, 2 threads, worker 00000000000000b2)", "a device (worker 00000000000000b3)"])
    if (!text.includes(part)) fail(`lost: "${part}" is not in "${text}"`);
  for (const it of await violationsOf(page)) fail(`lost: ${it}`);
  await context.close();
  mock.stop();
}

async function outside(browser, fail, out) {
  const mock = new Mock({ role: "none" });
  const base = await mock.start();
  const { page, context } = await open(browser);
  await page.goto(base);
  await page.waitForSelector("h1");
  if (!(await page.textContent("main")).includes("warploom controller link"))
    fail("not logged in: does not say how to log in");
  for (const it of await violationsOf(page)) fail(`not logged in: ${it}`);
  await page.screenshot({ path: `${out}/not-logged-in.png` });
  await context.close();
  mock.stop();
}

/** A viewer sees no way to change anything; a tenant's administrator only what is its own. */
async function roles(browser, fail) {
  for (const role of ["viewer", "auditor", "tenant-admin"]) {
    const mock = new Mock({ role });
    const base = await mock.start();
    const { page, context } = await open(browser);
    const hidden = {
      viewer: ["New tenant", "Drain", "End", "Hold", "Verify", "Export", "Change", "Suspend", "Remove"],
      auditor: ["New tenant", "Drain", "End", "Hold", "Revoke", "New token"],
      "tenant-admin": ["New tenant", "Suspend", "Remove", "Hold"],
    }[role];
    await visit(page, base, "weave", 300);
    const pages = await page.$$eval("nav a", (all) => all.map((it) => it.getAttribute("href").slice(2)));
    for (const name of [...pages, "tenants/chat"]) {
      await visit(page, base, name, 400);
      const buttons = await page.$$eval("main button, main .button", (all) => all.map((it) => it.textContent.trim()));
      for (const text of hidden) if (buttons.includes(text)) fail(`${role}: ${name} shows "${text}"`);
    }
    if (role === "tenant-admin" && pages.includes("devices")) fail("tenant-admin: sees devices");
    await context.close();
    mock.stop();
  }
}

/** Slow answers move nothing; when the controller is gone it is said, and when it is back the page goes on. */
async function slow(browser, fail) {
  const mock = new Mock({ slow: 350 });
  const base = await mock.start();
  for (const name of PAGES) {
    const { page, context } = await open(browser);
    await visit(page, base, name, 600);
    const shifts = await page.evaluate(() => window.shifts);
    if (shifts.length) fail(`${name}, slow: layout shift ${JSON.stringify(shifts.slice(0, 3))}`);
    await context.close();
  }
  const { page, context } = await open(browser);
  await visit(page, base, "tenants", 600);
  const port = Number(new URL(base).port);
  mock.stop();
  await page
    .waitForFunction(() => document.querySelector(".ctext").textContent === "Cut off", null, { timeout: 5000 })
    .catch(() => fail("a controller that is gone is not told of"));
  const again = new Mock();
  await again.start(port);
  await page
    .waitForFunction(() => document.querySelector(".ctext").textContent === "Live", null, { timeout: 20_000 })
    .catch(() => fail("the page does not go on when the controller is back"));
  await context.close();
  again.stop();
}

const says = (page, text) =>
  page.waitForFunction((wanted) => document.querySelector(".ctext")?.textContent === wanted, text, { timeout: 15_000 });

/** No leader answers: told by the stream, by a stream that does not open, and to a page that is opened meanwhile. */
async function leaderless(browser, fail) {
  const mock = new Mock();
  const base = await mock.start();
  const { page, context } = await open(browser);
  await visit(page, base, "tenants", 200);
  mock.leaderless = "event";
  await says(page, "No leader").catch(() => fail("no leader: an event that says so is not shown"));
  if (!(await page.textContent("main")).includes("chat")) fail("no leader: what was known is not shown any more");
  mock.leaderless = false;
  await says(page, "Live").catch(() => fail("no leader: the page does not go on with the next"));
  mock.leaderless = true;
  mock.cut();
  await says(page, "No leader").catch(() => fail("no leader: a stream answered with 503 is not told of"));
  const second = await open(browser);
  await visit(second.page, base, "tenants", 300);
  const text = await second.page.textContent("main");
  if (!text.includes("no leader answered")) fail(`no leader: a page that is opened meanwhile says "${text.slice(0, 120)}"`);
  for (const it of await violationsOf(second.page)) fail(`no leader: ${it}`);
  mock.leaderless = false;
  await says(page, "Live").catch(() => fail("no leader: the page does not go on after 503"));
  await says(second.page, "Live").catch(() => fail("no leader: a page opened meanwhile does not go on"));
  await second.page.waitForSelector("main td").catch(() => fail("no leader: a page opened meanwhile stays empty"));
  await second.context.close();
  await context.close();
  mock.stop();
}

/** What the weave has of its newest positions: their places, and how many of them it has twice. */
const woven = (page) =>
  page.evaluate(() => {
    const { live } = window.warploomWeave;
    const ids = [];
    for (let at = live.oldest; at < live.next; at++) ids.push(live.idOf(at));
    return { ids, twice: ids.length - new Set(ids).size, last: window.warploomWeave.feed?.last };
  });

/** Positions of an epoch that are missing between the first and the last. */
function gaps(ids) {
  const places = ids.map((it) => Number(it.split(".")[1])).sort((a, b) => a - b);
  return places.at(-1) - places[0] + 1 - places.length;
}

/** What came meanwhile is not kept any more: the weave begins anew with what is there. */
async function gone(browser, fail) {
  const mock = new Mock();
  const base = await mock.start();
  const { page, context } = await open(browser);
  await visit(page, base, "weave", 1200);
  const { last } = await woven(page);
  mock.asked = [];
  mock.cut();
  await new Promise((resolve) => setTimeout(resolve, 100));
  mock.cluster.positions = [];
  for (let at = 0; at < 50; at++) mock.cluster.tick(20);
  const first = mock.cluster.positions[0].id;
  await page
    .waitForFunction((id) => window.warploomWeave.live.find(id) >= 0, first, { timeout: 8000 })
    .catch(() => fail("410: the weave does not begin anew"));
  await page.waitForTimeout(900);
  const now = await woven(page);
  if (mock.asked.length !== 2 || mock.asked[1] === mock.asked[0]) fail(`410: streams went on behind ${mock.asked}`);
  if (now.ids.includes(last)) fail("410: the weave keeps what was before");
  if (now.twice || gaps(now.ids)) fail(`410: ${now.twice} positions are there twice, ${gaps(now.ids)} are missing`);
  if (await page.textContent(".standing")) fail(`410: the weave says "${await page.textContent(".standing")}"`);
  await context.close();
  mock.stop();
}

/** A page that nobody sees lets its streams go after a while, and misses nothing. */
async function hidden(browser, fail) {
  const mock = new Mock();
  const base = await mock.start();
  const { page, context } = await open(browser);
  await page.addInitScript(() => {
    const later = window.setTimeout.bind(window);
    window.setTimeout = (run, wait, ...more) => later(run, wait === 30_000 ? 300 : wait, ...more);
    Object.defineProperty(document, "hidden", { get: () => Boolean(window.unseen) });
    window.see = (seen) => {
      window.unseen = !seen;
      document.dispatchEvent(new Event("visibilitychange"));
    };
  });
  await visit(page, base, "weave", 1200);
  await page.evaluate(() => window.see(false));
  await page.waitForTimeout(100);
  if (mock.streams.size !== 2) fail(`hidden: ${mock.streams.size} streams are open right behind`);
  await page.evaluate(() => window.see(true));
  await page.waitForTimeout(600);
  if (mock.streams.size !== 2) fail("hidden: a short look elsewhere cuts streams off");
  await page.evaluate(() => window.see(false));
  await page.waitForTimeout(1500);
  if (mock.streams.size) fail(`hidden: ${mock.streams.size} streams stay open`);
  await page.evaluate(() => window.see(true));
  await page.waitForTimeout(1200);
  const now = await woven(page);
  if (mock.streams.size !== 2) fail("hidden: streams do not come back");
  if (now.twice || gaps(now.ids.filter((it) => it.startsWith("3."))))
    fail(`hidden: ${now.twice} positions are there twice, ${gaps(now.ids)} are missing`);
  await says(page, "Live").catch(() => fail("hidden: the page does not go on"));
  await context.close();
  mock.stop();
}

/** With reduced motion the weave moves in steps. */
async function still(browser, fail) {
  const mock = new Mock({ rate: 400 });
  const base = await mock.start();
  const { page, context } = await open(browser, { still: true });
  await visit(page, base, "weave", 1500);
  const moves = await page.evaluate(
    () =>
      new Promise((resolve) => {
        const seen = new Set();
        const until = performance.now() + 1500;
        const look = () => {
          seen.add(window.warploomWeave.camera.right);
          if (performance.now() < until) requestAnimationFrame(look);
          else resolve(seen.size);
        };
        look();
      }),
  );
  if (moves > 10) fail(`reduced motion: the weave moved ${moves} times in 1.5 s`);
  await context.close();
  mock.stop();
}

export async function states({ browser, fail, out }) {
  await empty(browser, fail);
  await idle(browser, fail);
  await alone(browser, fail);
  await failures(browser, fail);
  await lost(browser, fail);
  await outside(browser, fail, out);
  await roles(browser, fail);
  await slow(browser, fail);
  await leaderless(browser, fail);
  await gone(browser, fail);
  await hidden(browser, fail);
  await still(browser, fail);
  console.log("states: done");
}
