// With the keyboard alone: everything is reached and seen, and everything is done.
import { violationsOf } from "./axe.mjs";
import { open, visit } from "./browser.mjs";

const STOPS =
  "a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), summary, canvas[tabindex], [role=region][tabindex]";

/** Goes through a page by Tab; says what is not reached, and where the focus is not seen. */
async function tour(page, name, fail) {
  const wanted = await page.evaluate((stops) => {
    let at = 0;
    for (const it of document.querySelectorAll(stops))
      if (it.checkVisibility({ visibilityProperty: true }) && !it.closest("[inert]")) it.dataset.stop = at++;
    if (document.querySelector("[tabindex]:not([tabindex='0']):not([tabindex='-1'])")) return -1;
    document.activeElement?.blur();
    return at;
  }, STOPS);
  if (wanted < 0) fail(`${name}: a positive tabindex`);
  const reached = new Set();
  const unseen = new Set();
  for (let step = 0; step < wanted + 60; step++) {
    await page.keyboard.press("Tab");
    const it = await page.evaluate(() => {
      const at = document.activeElement;
      if (!at || at === document.body) return null;
      const style = getComputedStyle(at);
      const around = at.closest("label") && getComputedStyle(at.closest("label"));
      const seen =
        (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) ||
        (around && around.outlineStyle !== "none");
      return {
        stop: at.dataset.stop,
        group: at.type === "radio" ? at.name : null,
        seen,
        what: at.outerHTML.slice(0, 70),
      };
    });
    if (!it) break;
    if (it.stop) reached.add(it.stop);
    if (!it.seen) unseen.add(it.what);
  }
  const missed = await page.evaluate(
    (have) =>
      [...document.querySelectorAll("[data-stop]")]
        .filter((it) => !have.includes(it.dataset.stop) && it.type !== "radio" && it.isConnected)
        .map((it) => it.outerHTML.slice(0, 90)),
    [...reached],
  );
  for (const it of missed) fail(`${name}: not reached by Tab: ${it}`);
  for (const it of unseen) fail(`${name}: the focus is not seen on ${it}`);
}

/** Moves the focus to a button or link by Tab, as a person would, and presses it. */
async function press(page, selector, key = "Enter") {
  await page.waitForSelector(selector);
  for (let step = 0; step < 400; step++) {
    const there = await page.evaluate((wanted) => document.activeElement?.matches(wanted), selector);
    if (there) return page.keyboard.press(key);
    await page.keyboard.press("Tab");
  }
  throw new Error(`Tab does not come to ${selector}`);
}

async function write(page, selector, text) {
  await press(page, selector, "Control+a");
  await page.keyboard.type(text);
}

const inDialog = (page) => page.evaluate(() => Boolean(document.activeElement?.closest("dialog")));

/** A dialog keeps the focus, closes by Escape, and gives the focus back. */
async function dialog(page, name, opener, fail) {
  await press(page, opener);
  await page.waitForSelector("dialog[open]");
  if (!(await inDialog(page))) fail(`${name}: the focus is not in the dialog`);
  for (let step = 0; step < 30; step++) {
    await page.keyboard.press(step % 7 === 6 ? "Shift+Tab" : "Tab");
    if (!(await inDialog(page))) {
      fail(`${name}: the focus leaves the dialog`);
      break;
    }
  }
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  const back = await page.evaluate(
    (wanted) => (document.activeElement?.matches(wanted) ? null : document.activeElement?.outerHTML.slice(0, 80)),
    opener,
  );
  if (back) fail(`${name}: the focus comes back to ${back}, not to ${opener}`);
}

/** A form before its preview. */
async function form(page, name, fail) {
  await page.waitForSelector("dialog[open] form");
  for (const it of await violationsOf(page)) fail(`the form "${name}": ${it}`);
}

async function confirm(page, text, fail) {
  await page.waitForSelector("dialog[open]");
  for (const it of await violationsOf(page)) fail(`the dialog before "${text}": ${it}`);
  await press(page, "dialog button[type=submit]:not(:disabled)");
  await page.waitForFunction((wanted) => document.querySelector(".notices")?.textContent.includes(wanted), text, {
    timeout: 5000,
  });
  await page.waitForSelector("dialog", { state: "detached" });
}

const withText = (text) => `[data-say="${text}"]`;

/** Marks buttons by what they say, so that they can be asked for. */
async function mark(page) {
  await page.evaluate(() =>
    document
      .querySelectorAll("button, a.button")
      .forEach((it) => (it.dataset.say = (it.getAttribute("aria-label") || it.textContent).trim())),
  );
}

async function weave(page, base, fail) {
  await visit(page, base, "weave", 1500);
  await press(page, "canvas", "ArrowLeft");
  await page.waitForTimeout(600);
  const chosen = () => page.evaluate(() => window.warploomWeave.selected);
  const first = await chosen();
  const title = await page.textContent("#detail-title");
  if (first < 0 || !/^Position \d+\.\d+$|standing grant/.test(title)) fail(`weave: ArrowLeft chooses no block (${title})`);
  await page.keyboard.press("ArrowLeft");
  await page.waitForTimeout(100);
  if ((await chosen()) === first) fail("weave: ArrowLeft does not go to the block before");
  await page.keyboard.press("ArrowDown");
  const span = () => page.evaluate(() => window.warploomWeave.camera.span);
  const before = await span();
  await page.keyboard.press("+");
  if ((await span()) >= before) fail("weave: + does not zoom in");
  await page.keyboard.press("t");
  await page.keyboard.press("Home");
  await page
    .waitForFunction(() => window.warploomWeave.mode.value === "past", null, { timeout: 5000 })
    .catch(() => fail("weave: Home does not go to the record"));
  await page.waitForTimeout(300);
  if (!(await page.textContent(".standing")).includes("Recorded")) fail("weave: does not say that it is the record");
  const right = await page.evaluate(() => window.warploomWeave.camera.right);
  await page.keyboard.press(" ");
  await page.waitForTimeout(700);
  if ((await page.evaluate(() => window.warploomWeave.camera.right)) <= right) fail("weave: the record does not play");
  await page.keyboard.press("End");
  await page.waitForTimeout(200);
  if ((await page.evaluate(() => window.warploomWeave.mode.value)) !== "live") fail("weave: End does not go live");
  await press(page, "#scrub", "PageDown");
  await page.keyboard.press("Tab");
  await page.waitForTimeout(500);
  if (await page.evaluate(() => window.warploomWeave.camera.playing))
    fail("weave: the scrubber does not stop at a position");
}

async function operate(page, base, mock, fail) {
  await visit(page, base, "tenants");
  await mark(page);
  await dialog(page, "tenants", withText("New tenant"), fail);
  await press(page, withText("New tenant"));
  await form(page, "New tenant", fail);
  await write(page, "dialog input[name=name]", "Not a name");
  await write(page, "dialog input[name=slo_ns]", "soon");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog [aria-invalid=true]");
  await form(page, "New tenant, with errors", fail);
  await write(page, "dialog input[name=name]", "nightly");
  await write(page, "dialog input[name=slo_ns]", "40 ms");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .changes");
  await confirm(page, "Tenant nightly is created", fail);
  await page.waitForSelector("h1:has-text('nightly')");
  await page.waitForSelector(".panels");
  await mark(page);
  await press(page, withText("Change"));
  await form(page, "Change", fail);
  await write(page, "dialog input[name=weight]", "3");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .changes");
  await confirm(page, "nightly is changed", fail);
  for (const [button, says] of [
    ["Suspend", "is suspended"],
    ["Resume", "is resumed"],
    ["Renew login", "new login"],
    ["Remove", "is removed"],
  ]) {
    await page.waitForTimeout(200);
    await mark(page);
    await press(page, withText(button));
    await confirm(page, says, fail);
  }
  await visit(page, base, "devices");
  await mark(page);
  await press(page, withText("Drain"));
  await confirm(page, "is draining", fail);
  await visit(page, base, "sessions");
  await press(page, "td button.small");
  await confirm(page, "is ended", fail);
  await visit(page, base, "order");
  await mark(page);
  await press(page, withText("Verify"));
  await press(page, "dialog .primary");
  await page.waitForSelector("dialog .badge.good");
  await page.keyboard.press("Escape");
  await press(page, withText("Hold"));
  await confirm(page, "is held", fail);
  await mark(page);
  await press(page, withText("Go on"));
  await confirm(page, "goes on", fail);
  await visit(page, base, "settings");
  await write(page, "input[name=window]", "nonsense");
  await mark(page);
  await press(page, "main .actions .primary");
  await page.waitForSelector("dialog .trouble strong");
  await page.keyboard.press("Escape");
  await write(page, "input[name=window]", "3ms");
  await press(page, "main .actions .primary");
  await page.waitForSelector("dialog .changes");
  await press(page, "dialog .primary");
  await page.waitForFunction(() => document.querySelector(".notices")?.textContent.includes("1 setting is changed"));
  await mark(page);
  await page.waitForTimeout(300);
  await press(page, "td button.small[aria-label^=Pin]");
  await confirm(page, "profile is pinned", fail);
  await visit(page, base, "tokens");
  await mark(page);
  await press(page, withText("New token"));
  await form(page, "New token", fail);
  await press(page, "dialog summary");
  await page.selectOption("dialog select[name=role]", "tenant-admin");
  await form(page, "New token, all of it", fail);
  await page.selectOption("dialog select[name=role]", "viewer");
  await write(page, "dialog input[name=name]", "ci");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#secret");
  for (const it of await violationsOf(page)) fail(`the dialog of a secret: ${it}`);
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await press(page, "td button.small[aria-label='Revoke ci']");
  await confirm(page, "is revoked", fail);
  const wanted = [
    "POST /api/v1/tenants",
    "PATCH /api/v1/tenants/nightly?dry_run=true",
    "PATCH /api/v1/tenants/nightly",
    "POST /api/v1/tenants/nightly/suspend",
    "POST /api/v1/tenants/nightly/resume",
    "POST /api/v1/tenants/nightly/login",
    "DELETE /api/v1/tenants/nightly",
    "DELETE /api/v1/sessions/",
    "POST /api/v1/workers/",
    "PUT /api/v1/order/hold",
    "POST /api/v1/order/verify",
    "PATCH /api/v1/settings?dry_run=true",
    "PATCH /api/v1/settings?dry_run=false",
    "PUT /api/v1/profiles/pinned",
    "POST /api/v1/tokens",
    "DELETE /api/v1/tokens/",
  ];
  for (const it of wanted) if (!mock.requests.some((had) => had.startsWith(it))) fail(`keyboard: nothing asked ${it}`);
}

/** The first stop skips to the content; on small screens the pages are behind a button. */
async function frame(browser, base, fail) {
  const { page, context } = await open(browser, { width: 320, height: 720 });
  await visit(page, base, "tenants");
  await page.keyboard.press("Tab");
  if (!(await page.evaluate(() => document.activeElement.matches(".skip"))))
    fail("the first stop does not skip to the content");
  await page.keyboard.press("Enter");
  if (!(await page.evaluate(() => document.activeElement.matches("h1")))) fail("skipping does not go to the content");
  await page.evaluate(() => document.activeElement.blur());
  await press(page, ".menu");
  await press(page, "nav a[href='#/devices']");
  await page.waitForSelector("h1:has-text('Devices')");
  await page
    .waitForFunction(() => document.activeElement.matches("h1"), null, { timeout: 2000 })
    .catch(() => fail("another page does not take the focus to its heading"));
  await context.close();
}

export async function walk({ browser, base, mock, pages, fail }) {
  const { page, context, troubles } = await open(browser);
  try {
    for (const name of pages) {
      await page.goto("about:blank");
      await visit(page, base, name, 400);
      await tour(page, name, fail);
    }
    console.log("keyboard, every stop: done");
    await frame(browser, base, fail);
    await weave(page, base, fail);
    if (mock) await operate(page, base, mock, fail);
  } catch (error) {
    fail(`keyboard: ${error.message.split("\n")[0]} ${error.stack.match(/keyboard\.mjs:\d+/g)?.join(" ")}`);
    await page.screenshot({ path: "out/keyboard-failed.png" });
  }
  for (const it of troubles) if (!/422|409|429/.test(it)) fail(`keyboard: ${it}`);
  await context.close();
  console.log("keyboard: done");
}
