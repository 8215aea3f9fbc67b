// A tenant's administrator: whatever is of other tenants looks as if it were not there.
import { Mock } from "./mock.mjs";
import { open, visit } from "./browser.mjs";

const NOBODY = "nobody-of-this-name";

/** What there is to ask for of a tenant: the interface's paths. */
const pathsOf = (name, session) => [
  `/tenants/${name}`,
  `/tenants/${name}/why`,
  `/sessions?tenant=${name}`,
  `/order?tenant=${name}&limit=1`,
  `/usage?tenant=${name}&by=tenant`,
  `/usage.csv?tenant=${name}`,
  `/usage.focus.csv?tenant=${name}`,
  `/events/order?tenant=${name}`,
  ...(session ? [`/sessions/${session}`, `/sessions/${session}/why`] : []),
];

/** Every tenant and a session of each, as somebody sees them who may see all. */
async function everything(browser, base) {
  const { page, context } = await open(browser);
  await page.goto(base);
  const all = await page.evaluate(async () => {
    const ask = async (path) => (await (await fetch(`/api/v1${path}`)).json()).items ?? [];
    const sessions = await ask("/sessions?limit=1000");
    return (await ask("/tenants?limit=1000")).map(({ name }) => ({
      name,
      session: sessions.find((it) => it.tenant === name)?.id,
    }));
  });
  await context.close();
  return all;
}

/** Asks for what is of others: each answer has to be 404, and that for a tenant the one for nobody. */
async function refused(page, own, others, fail) {
  const ask = (path) =>
    page.evaluate(async (at) => {
      const stop = new AbortController();
      const answer = await fetch(`/api/v1${at}`, { signal: stop.signal });
      const text = answer.status === 200 ? "" : await answer.text();
      stop.abort();
      return { status: answer.status, text };
    }, path);
  const none = await ask(`/tenants/${NOBODY}`);
  for (const { name, session } of others) {
    for (const path of pathsOf(name, session)) {
      const { status } = await ask(path);
      if (status !== 404) fail(`administrator of ${own}: ${path} answers ${status}`);
    }
    const { text } = await ask(`/tenants/${name}`);
    if (text.replaceAll(name, NOBODY) !== none.text) fail(`administrator of ${own}: ${name} is told from ${NOBODY}`);
  }
}

/** The page's words for a tenant, without its name. */
async function wordsOf(page, base, name) {
  await visit(page, base, `tenants/${name}`, 200);
  return (await page.textContent("main")).replaceAll(name, "NAME");
}

async function seen(page, base, own, others, fail) {
  const none = await wordsOf(page, base, NOBODY);
  if (!none.includes("There is no tenant NAME")) fail(`administrator of ${own}: ${NOBODY} is not said to be missing`);
  for (const { name, session } of others) {
    if ((await wordsOf(page, base, name)) !== none) fail(`administrator of ${own}: tenants/${name} is told from none`);
    const deep = [`sessions?tenant=${name}`, `order?tenant=${name}`, `usage?tenant=${name}`];
    if (session) deep.push(`sessions?find=${session}`);
    for (const path of deep) {
      await visit(page, base, path, 200);
      if (!(await page.textContent("main")).includes("there is no ")) fail(`administrator of ${own}: ${path} shows something`);
    }
  }
  for (const path of ["weave", "tenants", "sessions", "order", "usage"]) {
    await visit(page, base, path, 700);
    const text = await page.textContent("main");
    for (const { name } of others)
      if (new RegExp(`\\b${name}\\b`).test(text)) fail(`administrator of ${own}: ${path} names ${name}`);
  }
}

/** With `base` and a token against a real controller, where somebody who sees all is logged in; else with a mock. */
export async function admin({ browser, base, token, fail }) {
  if (base && !token) return console.log("administrator of a tenant: left out, for want of --admin-token");
  const mocks = base ? [] : [new Mock(), new Mock({ role: "tenant-admin" })];
  const [whole, part] = base ? [base, base] : await Promise.all(mocks.map((it) => it.start()));
  const all = await everything(browser, whole);
  const { page, context } = await open(browser, { token });
  await page.goto(part);
  const own = await page.evaluate(async () => (await (await fetch("/api/v1/me")).json()).tenant);
  const others = all.filter((it) => it.name !== own);
  if (!own || !others.length) fail(`administrator of a tenant: ${own} is not one of several tenants`);
  await refused(page, own, others, fail);
  await seen(page, part, own, others, fail);
  await context.close();
  for (const it of mocks) it.stop();
  console.log("administrator of a tenant: done");
}
