// Light, dark, or as the system has it.
import { signal } from "./html.js";

const KEY = "warploom.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** What was chosen: "light", "dark" or "system". */
export const theme = signal(document.documentElement.dataset.theme || "system");
/** Grows with every change of the theme, for code that draws by hand. */
export const themeChanges = signal(0);

system.addEventListener("change", () => themeChanges.value++);

export function choose(value) {
  theme.value = value;
  if (value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
  try {
    if (value === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, value);
  } catch {
    // No storage: it holds until the page is left.
  }
  themeChanges.value++;
}

const probe = document.createElement("span");
probe.hidden = true;

/** The colour that a custom property has now, as a canvas takes it. */
export function colourOf(property) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${property})`;
  return getComputedStyle(probe).color;
}
