// Dialogs: they keep the focus while they are open, and give it back.
import { html, signal, useLayoutEffect, useRef, useState } from "../app/html.js";
import { Icon } from "./icon.js";

const STOPS = "a[href],button:not([disabled]),input:not([disabled]),select:not([disabled]),textarea:not([disabled])";

function keepInside(event, dialog) {
  if (event.key !== "Tab") return;
  const stops = [...dialog.querySelectorAll(STOPS)].filter((it) => it.offsetParent !== null);
  const [first, last] = [stops[0], stops.at(-1)];
  if (!first) return;
  const at = document.activeElement;
  if (event.shiftKey && (at === first || at === dialog)) {
    event.preventDefault();
    last.focus();
  } else if (!event.shiftKey && at === last) {
    event.preventDefault();
    first.focus();
  }
}

/** What went wrong in a dialog. */
export function Trouble({ problem }) {
  return html`<p class="trouble" role="alert">${problem && html`<strong>${problem.title || "That did not work"}.</strong> ${problem.message} ${problem.code && html`<code>${problem.code}</code>`}`}</p>`;
}

export function Dialog({ title, onClose, children, wide }) {
  const ref = useRef();
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = ref.current;
    dialog.showModal();
    dialog.querySelector("[data-first]")?.focus();
    return () => {
      dialog.close();
      if (before?.isConnected) before.focus();
      else document.querySelector("h1")?.focus();
    };
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-labelledby="dialog-title" onCancel=${cancel}
      onKeyDown=${(event) => keepInside(event, ref.current)} onClick=${(event) => event.target === ref.current && onClose()}>
    <div class="dialog">
      <header><h2 id="dialog-title">${title}</h2>
        <button type="button" class="bare" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></header>
      ${children}
    </div>
  </dialog>`;
}

const question = signal(null);

/**
 * Asks before something is done: `{ title, says, action, danger, run, done }`. `says` is the consequence; `run` may
 * throw a problem, which is shown, and the dialog stays.
 */
export function confirm(asked) {
  question.value = asked;
}

export function Question() {
  const asked = question.value;
  return asked ? html`<${Asked} asked=${asked} key=${asked.title} />` : null;
}

function Asked({ asked }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const close = () => (question.value = null);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      const value = await asked.run(new FormData(event.target));
      close();
      asked.done?.(value);
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${asked.title} onClose=${close}>
    <form onSubmit=${submit}>
      <div class="says">${asked.says}</div>
      ${asked.extra}
      <${Trouble} problem=${problem} />
      <footer>
        <button type="button" data-first onClick=${close}>Cancel</button>
        <button type="submit" class=${asked.danger ? "danger" : "primary"} disabled=${busy}>${busy ? "Working …" : asked.action}</button>
      </footer>
    </form>
  </${Dialog}>`;
}
