/* A WebSocket of a sandbox: a ticket each time (a page cannot send headers), and again by itself. */
import { backoff, pause } from '../base/wait.js';
import { ApiError } from './client.js';
import { ticketFor } from './service.js';

const NORMAL = 1000;

/* One connection after the other until the signal aborts.  path(): where to, with the place to go on
 * from; tell: { opened(send), text(message), bytes(Uint8Array), closed(code, reason), lost(milliseconds) }.
 * closed() returns true when it shall not connect again.  Throws an ApiError that asking again does
 * not change. */
export async function keepSocket(box, path, tell, signal) {
  for (let attempt = 0; !signal.aborted;) {
    try {
      const ended = await oneSocket(await ticketFor(box, signal), path(), tell, signal, () => (attempt = 0));
      if (signal.aborted || tell.closed(ended.code, ended.reason)) return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status < 500 && ![409, 425, 429].includes(error.status))
        throw error;
    }
    const wait = backoff(attempt++);
    tell.lost(wait);
    await pause(wait, signal).catch(() => {});
  }
}

function oneSocket(ticket, path, tell, signal, opened) {
  return new Promise((resolve) => {
    const address = new URL(path, location.href);
    address.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = new WebSocket(address, ['tendon', `ticket.${ticket}`]);
    const ended = new AbortController();
    const say = (data) => socket.readyState === WebSocket.OPEN && socket.send(data);
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => {
      opened();
      tell.opened(say);
    };
    socket.onmessage = ({ data }) => {
      if (typeof data === 'string') tell.text(JSON.parse(data));
      else tell.bytes(new Uint8Array(data));
    };
    socket.onclose = ({ code, reason }) => {
      ended.abort();
      resolve({ code, reason });
    };
    signal.addEventListener('abort', () => socket.close(NORMAL), { signal: ended.signal });
  });
}
