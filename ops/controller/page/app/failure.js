// A failure of a session in words.

/** Kind, kernel and line of a fault. */
export function headline({ kernel: it, text }) {
  if (!it) return text;
  const source = it.file ? `, ${it.file}:${it.line} (PTX line ${it.ptx_line})` : `, PTX line ${it.ptx_line}`;
  return `${it.kind} in kernel ${it.name}${source}`;
}

/** Block, thread, access and explanation of a kernel's fault. */
export function placeOf({ kernel: it }) {
  if (!it) return "";
  const access = [it.access, it.address && `at ${it.address}`].filter(Boolean).join(" ");
  const place = [`block ${it.block.join(", ")}`, `thread ${it.thread.join(", ")}`, access].filter(Boolean).join(" · ");
  return it.detail ? `${place}: ${it.detail}` : place;
}
