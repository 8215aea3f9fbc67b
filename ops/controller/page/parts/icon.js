// Small pictures beside words; they say nothing that the words do not.
import { html } from "../app/html.js";

const PATHS = {
  weave: "M3 7h9m4 0h5M3 12h3m4 0h11M3 17h11m4 0h3",
  tenants:
    "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm-5 8c0-3 2-5 5-5s5 2 5 5m2-8a3 3 0 1 0 0-6m2 8.500c2.500.500 4 2.500 4 5.500",
  devices: "M6 6h12v12H6zM10 10h4v4h-4zM9 3v3m6-3v3M9 18v3m6-3v3M3 9h3m-3 6h3m12-6h3m-3 6h3",
  sessions: "M4 5h16v11H4zM9 20h6m-3-4v4",
  usage: "M4 20h16M7 20v-7m5 7V5m5 15v-10",
  order: "M9 6h11M9 12h11M9 18h11M4 6h1m-1 6h1m-1 6h1",
  settings: "M4 7h9m4 0h3M4 17h3m4 0h9M15 5v4M9 15v4",
  tokens:
    "M15.500 13a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM12.300 11.700 4 20m0 0h3.500M7.500 16.500l2.500 2.500",
  play: "M8 5v14l11-7z",
  pause: "M8 5v14M16 5v14",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  live: "M5 5v14l9-7zM18 5v14",
  split: "M4 6h16M4 10h16M4 14h16M4 18h16",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v3m0 14v3M2 12h3m14 0h3M5 5l2 2m10 10 2 2M19 5l-2 2M7 17l-2 2",
  moon: "M20 14A8.500 8.500 0 1 1 10 4a7 7 0 0 0 10 10z",
  screen: "M4 5h16v11H4zM9 20h6m-3-4v4",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  down: "M12 4v11m-5-5 5 5 5-5M5 20h14",
  help: "M9 9a3 3 0 1 1 4 3c-1 .500-1 1-1 2m0 3v.500",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}

export function Mark() {
  return html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
    <path class="warp" d="M9 6v20M16 6v20M23 6v20" /><path class="weft1" d="M4 11h15M27 11h1" /><path class="weft2" d="M13 21h15M4 21h1" />
  </svg>`;
}
