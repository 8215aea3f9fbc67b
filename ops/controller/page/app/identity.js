// Who is logged in, and what they may do.
import { signal } from "./html.js";
import { get, setCsrf } from "./api.js";

/** Undefined until it is known, null without a login. */
export const me = signal(undefined);
/** Why it is not known, if it is not. */
export const meProblem = signal(null);

export async function learnMe() {
  try {
    const value = await get("/me");
    setCsrf(value.csrf);
    meProblem.value = null;
    me.value = value;
  } catch (problem) {
    if (problem.status === 401) {
      meProblem.value = null;
      me.value = null;
    } else {
      meProblem.value = problem;
      setTimeout(learnMe, 3000);
    }
  }
}

/** Whether the role may do this operation. */
export function may(operation) {
  return Boolean(me.value?.operations?.includes(operation));
}

/** The login has run out: everything shows that. */
export function loggedOut() {
  me.value = null;
}
