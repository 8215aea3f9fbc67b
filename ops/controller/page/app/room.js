// The frame around every page: the way to the others, the cluster's state, the theme.
import { html, signal, useEffect, useRef } from "./html.js";
import { me, meProblem, may, loggedOut } from "./identity.js";
import { cluster, connection } from "./live.js";
import { link, route } from "./route.js";
import { choose, theme } from "./theme.js";
import { post } from "./api.js";
import { Icon, Mark } from "../parts/icon.js";
import { Question } from "../parts/dialog.js";
import { Failure, Notices } from "../parts/notice.js";
import { WeavePage } from "../pages/weave.js";
import { TenantsPage } from "../pages/tenants.js";
import { TenantPage } from "../pages/tenant.js";
import { DevicesPage } from "../pages/devices.js";
import { SessionsPage } from "../pages/sessions.js";
import { UsagePage } from "../pages/usage.js";
import { OrderPage } from "../pages/order.js";
import { SettingsPage } from "../pages/settings.js";
import { TokensPage } from "../pages/tokens.js";

const PAGES = [
  { page: "weave", title: "Weave", needs: "events.read", show: WeavePage },
  { page: "tenants", title: "Tenants", needs: "tenants.read", show: TenantsPage, one: TenantPage },
  { page: "devices", title: "Devices", needs: "workers.read", show: DevicesPage },
  { page: "sessions", title: "Sessions", needs: "sessions.read", show: SessionsPage },
  { page: "usage", title: "Usage", needs: "usage.read", show: UsagePage },
  { page: "order", title: "Order", needs: "order.read", show: OrderPage },
  { page: "settings", title: "Settings", needs: "settings.read", show: SettingsPage },
  { page: "tokens", title: "Tokens", needs: "tokens.read", show: TokensPage },
];

const open = signal(false);

function Nav({ here }) {
  return html`<nav id="pages" class=${open.value ? "open" : ""} aria-label="Pages">
    <ul>${PAGES.filter((it) => may(it.needs)).map(
      (it) => html`<li key=${it.page}>
      <a href=${link(it.page)} aria-current=${it.page === here ? "page" : undefined} onClick=${() => (open.value = false)}><${Icon} name=${it.page} />${it.title}</a></li>`,
    )}</ul>
    <${Foot} />
  </nav>`;
}

const THEMES = [
  ["light", "sun", "Light"],
  ["dark", "moon", "Dark"],
  ["system", "screen", "System"],
];

function Themes() {
  return html`<fieldset class="themes"><legend class="unseen">Theme</legend>
    ${THEMES.map(
      ([
        value,
        icon,
        text,
      ]) => html`<label key=${value} title=${text}><input type="radio" name="theme" value=${value} checked=${theme.value === value} onChange=${() => choose(value)} />
      <${Icon} name=${icon} /><span class="unseen">${text}</span></label>`,
    )}</fieldset>`;
}

async function logOut() {
  await post("/logout").catch(() => {});
  loggedOut();
}

function Foot() {
  return html`<div class="foot">
    <${Themes} />
    <p class="who"><span>${me.value.name}</span><span class="note">${me.value.role}${me.value.tenant ? ` of ${me.value.tenant}` : ""}</span></p>
    <button type="button" class="quiet" onClick=${logOut}>Log out</button>
  </div>`;
}

const CONNECTION = {
  connecting: ["warn", "Connecting"],
  live: ["good", "Live"],
  lost: ["bad", "Cut off"],
  leaderless: ["bad", "No leader"],
};

function State() {
  const about = cluster.value;
  const [kind, text] = about?.held ? ["warn", "Held"] : CONNECTION[connection.value];
  return html`<div class="cluster"><span class="cname">${me.value.cluster}</span>
    <span class=${`dot ${kind}`} aria-hidden="true"></span><span class="ctext" role="status">${text}</span>
    <span class="note epoch">${about ? `epoch ${about.epoch}` : " "}</span></div>`;
}

function Outside({ title, children }) {
  return html`<main class="outside" id="main"><${Mark} /><h1 tabindex="-1">${title}</h1>${children}</main>`;
}

function NotLoggedIn() {
  return html`<${Outside} title="You are not logged in">
    <p>On a machine that may administer the cluster, this prints a link that works once. Open it in this browser:</p>
    <pre><code>warploom controller link</code></pre>
    <p><button type="button" class="primary" onClick=${() => location.reload()}>I have opened it</button></p>
  </${Outside}>`;
}

function Skip() {
  const skip = (event) => {
    event.preventDefault();
    document.querySelector("h1")?.focus();
  };
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the content</a>`;
}

function usePageFocus(key, title) {
  const first = useRef(true);
  useEffect(() => {
    document.title = `${title} · Warploom`;
    if (!first.current) {
      scrollTo(0, 0);
      document.querySelector("h1")?.focus({ preventScroll: true });
    }
    first.current = false;
  }, [key]);
}

function Missing() {
  return html`<header class="head"><h1 tabindex="-1">No such page</h1></header><p>Nothing of this name is here, or your role may not see it. <a href="#/">Go to the start page</a>.</p>`;
}

function Inside() {
  const { page, id } = route.value;
  const known = PAGES.find((it) => it.page === page && may(it.needs));
  const first = page === "weave" && !known ? PAGES.find((it) => may(it.needs)) : known;
  usePageFocus(`${page}/${id}`, id || first?.title || "No such page");
  const Show = first && (id && first.one ? first.one : first.show);
  return html`<${Skip} />
    <header class="top"><a class="brand" href="#/"><${Mark} /><span>Warploom</span></a><${State} />
      <button type="button" class="bare menu" aria-expanded=${open.value ? "true" : "false"} aria-controls="pages" onClick=${() => (open.value = !open.value)}>
        <${Icon} name=${open.value ? "close" : "menu"} /><span class="unseen">Pages</span></button></header>
    <${Nav} here=${first?.page} />
    <main id="main" class=${first?.page || ""}>${Show ? html`<${Show} key=${`${page}/${id}`} id=${id} />` : html`<${Missing} />`}</main>
    <${Question} /><${Notices} />`;
}

export function Room() {
  if (me.value === undefined)
    return meProblem.value && html`<${Outside} title="No answer yet"><${Failure} problem=${meProblem.value} /></${Outside}>`;
  return me.value === null ? html`<${NotLoggedIn} />` : html`<${Inside} />`;
}
