// Pointer, wheel and keys on the canvas.

const KEYS = {
  ArrowRight: (loom, event) => (event.shiftKey ? loom.pan(0.2) : loom.step(1)),
  ArrowLeft: (loom, event) => (event.shiftKey ? loom.pan(-0.2) : loom.step(-1)),
  ArrowDown: (loom) => loom.lane(1),
  ArrowUp: (loom) => loom.lane(-1),
  PageUp: (loom) => loom.pan(-0.9),
  PageDown: (loom) => loom.pan(0.9),
  "+": (loom) => loom.zoom(1 / 1.6),
  "=": (loom) => loom.zoom(1 / 1.6),
  "-": (loom) => loom.zoom(1.6),
  " ": (loom) => loom.toggle(),
  Home: (loom) => loom.line.oldest && loom.seek(loom.line.oldest),
  End: (loom) => loom.goLive(),
  t: (loom) => loom.setSplit(!loom.split),
  Escape: (loom) => loom.select(-1),
};

/** Lets hands on a loom's canvas; what it answers takes them off again. */
export function lay(loom, canvas) {
  let drag = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) * loom.ratio, (event.clientY - box.top) * loom.ratio];
  };
  const listeners = {
    keydown: (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
      event.preventDefault();
      KEYS[event.key](loom, event);
    },
    pointerdown: (event) => {
      if (event.button) return;
      drag = { x: event.clientX, moved: false };
      canvas.setPointerCapture(event.pointerId);
    },
    pointermove: (event) => {
      if (!loom.scene) return;
      if (!drag) return loom.hover(loom.hit(...at(event)));
      const off = event.clientX - drag.x;
      if (!drag.moved && Math.abs(off) < 4) return;
      drag.moved = true;
      drag.x = event.clientX;
      loom.pan((-off * loom.ratio) / loom.scene.place.inner);
    },
    pointerup: (event) => {
      if (drag && !drag.moved && loom.scene) {
        const hit = loom.hit(...at(event));
        if (hit >= 0 && loom.playing.peek()) loom.toggle();
        loom.select(hit);
      }
      drag = null;
    },
    pointercancel: () => (drag = null),
    pointerleave: () => loom.hover(-1),
    wheel: (event) => {
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey)
        loom.pan((event.deltaX || event.deltaY) / canvas.clientWidth);
      else
        loom.zoom(
          Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 160),
          loom.playing.peek() ? undefined : loom.momentAt(at(event)[0]),
        );
    },
  };
  for (const [name, listener] of Object.entries(listeners)) canvas.addEventListener(name, listener, { passive: false });
  return () => {
    for (const [name, listener] of Object.entries(listeners)) canvas.removeEventListener(name, listener);
  };
}
