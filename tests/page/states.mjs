// What is shown where there is nothing, where something went wrong, to other roles, and while it is read.
import { Mock } from "./mock.mjs";
import { open, visit } from "./browser.mjs";
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
  for (const name of [
    "weave",
    "tenants",
    "tenants/chat",
    "devices",
    "sessions",
    "usage",
    "order",
    "settings",
    "tokens",
  ]) {
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
  await outside(browser, fail, out);
  await roles(browser, fail);
  await slow(browser, fail);
  await still(browser, fail);
  console.log("states: done");
}
