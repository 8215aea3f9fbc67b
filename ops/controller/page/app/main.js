// Begins: learns who is logged in, and shows the page that the address names in place of the frame.
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

await learnMe();
const room = document.getElementById("room");
room.replaceChildren();
room.classList.remove("shell");
render(html`<${Room} />`, room);
