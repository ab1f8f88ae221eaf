/* Waiting that ends with a signal, and the growing pauses between attempts. */

export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        reject(signal.reason);
      },
      { once: true },
    );
  });
}

/* Milliseconds before attempt n (from 0): 0.5 s doubling to 15 s, each spread by a fifth so that pages
 * do not all come at once. `random` is 0..1. */
export function backoff(attempt, random = Math.random()) {
  return Math.min(500 * 2 ** attempt, 15000) * (0.9 + 0.2 * random);
}

/* Calls fn at once and then every so often while the page is looked at, until the signal aborts. */
export function every(milliseconds, fn, signal) {
  let timer = 0;
  const tick = async () => {
    clearTimeout(timer);
    if (signal.aborted) return;
    if (!document.hidden) await fn();
    if (!signal.aborted) timer = setTimeout(tick, milliseconds);
  };
  document.addEventListener('visibilitychange', () => !document.hidden && tick(), { signal });
  signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
  tick();
}

/* A signal that aborts with its parent, or when somebody aborts it. */
export function childOf(parent) {
  const controller = new AbortController();
  if (parent.aborted) controller.abort(parent.reason);
  else parent.addEventListener('abort', () => controller.abort(parent.reason), { signal: controller.signal });
  return controller;
}
