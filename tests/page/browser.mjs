// Debian's Chromium, and pages that note down everything that went wrong in them.
import { existsSync } from "node:fs";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
export const WIDTHS = [
  [320, 720],
  [1280, 800],
  [3840, 2160],
];
export const THEMES = ["light", "dark"];
export const PAGES = [
  "weave",
  "tenants",
  "tenants/chat",
  "devices",
  "sessions",
  "usage",
  "order",
  "settings",
  "tokens",
];

export async function launch() {
  const executablePath = process.env.CHROMIUM || PLACES.find(existsSync);
  if (!executablePath)
    throw new Error("no Chromium: `apt-get install -y chromium`, or say where it is with CHROMIUM=/path");
  let playwright;
  try {
    playwright = await import("playwright-core");
  } catch {
    throw new Error("no playwright-core: `npm ci` in tests/page");
  }
  return playwright.chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

let kept;

/** Logs in by a link that works once; all pages that are opened from then on are logged in. */
export async function login(browser, link) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(link);
  kept = await context.storageState();
  await context.close();
}

/** The pages, with one of a tenant that is there. */
export async function pagesOf(browser, base) {
  const { page, context } = await open(browser);
  await page.goto(base);
  const name = await page.evaluate(
    async () => (await (await fetch("/api/v1/tenants?limit=1")).json()).items?.[0]?.name,
  );
  await context.close();
  return PAGES.flatMap((it) => (it !== "tenants/chat" ? [it] : name ? [`tenants/${name}`] : []));
}

/** A page of this size and theme; `troubles` fills with what went wrong. */
export async function open(browser, { width = 1280, height = 800, theme = "dark", still = false, token } = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: still ? "reduce" : "no-preference",
    storageState: token ? undefined : kept,
    extraHTTPHeaders: token && { Authorization: `Bearer ${token}` },
  });
  const page = await context.newPage();
  const troubles = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning")
      troubles.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => troubles.push(`error: ${error.stack || error}`));
  await page.addInitScript(() => {
    window.shifts = [];
    window.violations = [];
    new PerformanceObserver((list) => {
      for (const it of list.getEntries()) {
        if (it.hadRecentInput) continue;
        window.shifts.push({
          value: it.value,
          what: it.sources.map((source) => source.node?.outerHTML?.slice(0, 90) ?? source.node?.nodeName),
        });
      }
    }).observe({ type: "layout-shift", buffered: true });
    document.addEventListener("securitypolicyviolation", (event) =>
      window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`),
    );
  });
  return { page, context, troubles };
}

/** Goes to a page, and waits until what it shows is there. */
export async function visit(page, base, name, wait = 900) {
  await page.goto(`${base}/#/${name}`);
  await page.waitForSelector("main h1");
  await page.waitForFunction(() => !document.querySelector("main .skeleton, main [aria-busy]"), null, {
    timeout: 8000,
  });
  await page.waitForTimeout(wait);
}
