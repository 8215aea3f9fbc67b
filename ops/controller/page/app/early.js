// Runs before the first paint: the theme that was chosen, so that nothing flashes, and which page is to be seen.
// All modules are asked for at once, right behind the first paint, so that the frame does not wait for them.
const root = document.documentElement;
root.dataset.page = /^#\/?(\w+)/.exec(location.hash)?.[1] ?? "weave";
try {
  const chosen = localStorage.getItem("warploom.theme");
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
} catch {
  // No storage: the system's theme holds.
}

// `node tests/page/graph.mjs --write` makes the list.
const MODULES = [
  "/app/html.js",
  "/app/identity.js",
  "/app/live.js",
  "/app/room.js",
  "/lib/preact.js",
  "/lib/htm.js",
  "/lib/hooks.js",
  "/lib/signals.js",
  "/app/api.js",
  "/app/stream.js",
  "/app/colours.js",
  "/app/failure.js",
  "/parts/notice.js",
  "/app/route.js",
  "/app/theme.js",
  "/parts/icon.js",
  "/parts/dialog.js",
  "/pages/weave.js",
  "/pages/tenants.js",
  "/pages/tenant.js",
  "/pages/devices.js",
  "/pages/sessions.js",
  "/pages/usage.js",
  "/pages/order.js",
  "/pages/settings.js",
  "/pages/tokens.js",
  "/lib/signals-core.js",
  "/app/format.js",
  "/parts/marks.js",
  "/weave/detail.js",
  "/weave/loom.js",
  "/weave/hands.js",
  "/parts/table.js",
  "/pages/tenantform.js",
  "/app/resource.js",
  "/parts/settings.js",
  "/parts/field.js",
  "/parts/plots.js",
  "/parts/why.js",
  "/pages/days.js",
  "/parts/choices.js",
  "/parts/failures.js",
  "/weave/record.js",
  "/weave/waited.js",
  "/weave/camera.js",
  "/weave/geometry.js",
  "/weave/painter.js",
  "/weave/past.js",
  "/weave/ring.js",
  "/parts/tenantsettings.js",
  "/parts/causes.js",
  "/weave/density.js",
  "/weave/timeline.js",
  "/weave/waits.js",
];

function load() {
  for (const href of MODULES) document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href }));
  document.head.append(Object.assign(document.createElement("script"), { type: "module", src: "/app/main.js" }));
}

if (document.hidden) load();
else requestAnimationFrame(() => setTimeout(load));
