// What every part of the page is written with.
import { h, render } from "../lib/preact.js";
import htm from "../lib/htm.js";

export const html = htm.bind(h);
export { render };
export { useEffect, useLayoutEffect, useRef, useState, useMemo } from "../lib/hooks.js";
export { signal, computed, effect, batch } from "../lib/signals.js";
