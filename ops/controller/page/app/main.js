// Begins: learns who is logged in, and shows the page that the address names.
import { html, render, effect } from "./html.js";
import { learnMe, me } from "./identity.js";
import { startLive } from "./live.js";
import { Room } from "./room.js";

let started = false;
effect(() => {
  if (me.value && !started) {
    started = true;
    startLive();
  }
});

learnMe();
render(html`<${Room} />`, document.getElementById("room"));
