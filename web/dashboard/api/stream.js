/* A stream of events that comes back by itself: after a broken connection, a restart of the service. */
import { backoff, childOf, pause } from '../base/wait.js';
import { readEvents } from '../base/sse.js';
import { ApiError, request } from './client.js';

const UNSEEN = 20000; /* milliseconds until a stream of a tab in the background is let go */

/* The pieces of a text as they come; it may be silent for as long as it likes. */
export async function* readText(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/* path(): the address to (re)start from; tell: { opened(), event(e), lost(error, milliseconds) }.  Ends with
 * the signal, or with an answer that will not change by asking again (thrown).  `hurry` (an Emitter) with
 * "now" cuts a pause short.  `read` makes events of an answer. */
export async function follow(path, tell, { signal, hurry, read = readEvents }) {
  for (let attempt = 0; !signal.aborted;) {
    await untilSeen(signal);
    const turn = whileSeen(signal);
    let problem = null;
    try {
      const response = await request('GET', path(), {
        signal: turn.signal,
        headers: read === readEvents ? { Accept: 'text/event-stream' } : {},
      });
      tell.opened?.();
      for await (const event of read(response)) {
        attempt = 0;
        tell.event(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status < 500 && error.status !== 429) throw error;
      problem = error;
    } finally {
      turn.abort();
    }
    if (document.hidden || signal.aborted) continue;
    const wait = backoff(attempt++);
    tell.lost?.(problem, wait);
    await rest(wait, signal, hurry);
  }
}

/* A browser has six connections to a service, for all tabs together: one that nobody looks at must not
 * keep any.  Aborts with its parent, or when the tab has been in the background for a while. */
function whileSeen(signal) {
  const turn = childOf(signal);
  let timer = 0;
  document.addEventListener(
    'visibilitychange',
    () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => turn.abort(), UNSEEN);
    },
    { signal: turn.signal },
  );
  return turn;
}

function untilSeen(signal) {
  return new Promise((resolve) => {
    if (!document.hidden || signal.aborted) {
      resolve();
      return;
    }
    const turn = childOf(signal);
    turn.signal.addEventListener('abort', resolve);
    document.addEventListener('visibilitychange', () => document.hidden || turn.abort(), {
      signal: turn.signal,
    });
  });
}

async function rest(milliseconds, signal, hurry) {
  const cut = new AbortController();
  const stop = () => cut.abort();
  signal.addEventListener('abort', stop, { signal: cut.signal });
  hurry?.on('now', stop, cut.signal);
  window.addEventListener('online', stop, { signal: cut.signal });
  try {
    await pause(milliseconds, cut.signal);
  } catch {
    /* Sooner than planned. */
  } finally {
    cut.abort();
  }
}
