// Something that a page reads, and reads again.
import { useEffect, useRef, useState } from "./html.js";
import { ask } from "./api.js";
import { loggedOut } from "./identity.js";

/**
 * Reads `path`; `{ value, etag, problem, loading, reload }`. Where the path is null nothing is read. What was
 * read stays until the next is there, unless the path is another one.
 */
export function useResource(path, values, every = 0) {
  const key = path === null ? null : path + JSON.stringify(values || {});
  const [state, setState] = useState({ key, value: null, etag: null, problem: null });
  const reload = useRef(() => {});
  useEffect(() => {
    if (key === null) return undefined;
    const stop = new AbortController();
    let timer = 0;
    const read = async () => {
      clearTimeout(timer);
      try {
        const { value, etag } = await ask("GET", path, { query: values, signal: stop.signal });
        setState({ key, value, etag, problem: null });
      } catch (problem) {
        if (stop.signal.aborted) return;
        if (problem.status === 401) loggedOut();
        setState((old) => ({ key, value: old.key === key ? old.value : null, etag: old.etag, problem }));
      }
      if (every && !stop.signal.aborted) timer = setTimeout(read, every);
    };
    reload.current = read;
    read();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, every]);
  const current = state.key === key ? state : { value: null, etag: null, problem: null };
  return {
    ...current,
    loading: key !== null && current.value === null && !current.problem,
    reload: () => reload.current(),
  };
}
